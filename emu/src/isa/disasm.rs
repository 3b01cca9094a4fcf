//! Instruction word to text, equal to what `objdump -d` of GNU binutils prints.
//!
//! Called by traces, goldens and `axplab disasm`. The word is judged as GNU judges it, not as the
//! decoder does: a field that should be 31 but is not gives `.long`, although it decodes.

use super::syntax::{Form, IDIOMS, INT_NAMES, LIT, Operand, RA, RB, RC, qualifier_letters};
use super::{Opcode, decode};
use std::fmt;

/// The text of one instruction; made by [`disasm`].
#[derive(Clone, Copy, Debug)]
pub struct Disasm {
    word: u32,
    pc: u64,
}

/// The text of the instruction `word` that stands at `pc`, without trailing newline.
///
/// Mnemonic and operands are separated by a tab, branch targets are absolute. `nop`, `unop` and
/// `fnop` end in that tab too, because GNU prints it before it finds all their operands hidden.
pub fn disasm(word: u32, pc: u64) -> Disasm {
    Disasm { word, pc }
}

/// The form in which GNU writes the word and, for a row of the table, the instruction.
fn form_of(word: u32) -> Option<(&'static str, Form)> {
    if let Some(idiom) = IDIOMS.iter().find(|idiom| idiom.form.matches(word)) {
        return Some((idiom.mnemonic, idiom.form));
    }
    let op: Opcode = decode(word)?.op;
    let info = op.info();
    let form = Form::of(info.format);
    form.matches(word).then_some((info.mnemonic, form))
}

impl fmt::Display for Disasm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((mnemonic, form)) = form_of(self.word) else {
            return write!(f, ".long {:#x}", self.word);
        };
        f.write_str(mnemonic)?;
        if let Some(set) = form.qualifiers {
            let (trap, round) = qualifier_letters(set, (self.word >> 11 & 31) as u8);
            if !(trap.is_empty() && round.is_empty()) {
                write!(f, "/{trap}{round}")?;
            }
        }
        for (i, &operand) in form.operands.iter().enumerate() {
            f.write_str(if i == 0 { "\t" } else { "," })?;
            self.operand(f, operand)?;
        }
        Ok(())
    }
}

impl Disasm {
    /// Sign-extends the low `bits` bits of the word.
    fn signed(&self, bits: u32) -> i32 {
        (self.word << (32 - bits)) as i32 >> (32 - bits)
    }

    /// Address `words` instructions after the next one.
    fn target(&self, words: i32) -> u64 {
        self.pc.wrapping_add(4).wrapping_add_signed(i64::from(words) * 4)
    }

    fn operand(&self, f: &mut fmt::Formatter<'_>, operand: Operand) -> fmt::Result {
        let register = |at: u32| self.word >> at & 31;
        let int = |at: u32| INT_NAMES[register(at) as usize];
        match operand {
            Operand::Ra => f.write_str(int(RA)),
            Operand::Rb | Operand::RaRb => f.write_str(int(RB)),
            Operand::Rc => f.write_str(int(RC)),
            Operand::Fa | Operand::FaFbFc => write!(f, "$f{}", register(RA)),
            Operand::Fb | Operand::FaFb => write!(f, "$f{}", register(RB)),
            Operand::Fc => write!(f, "$f{}", register(RC)),
            Operand::RbLit if self.word & LIT != 0 => c_hex(f, self.word >> 13 & 0xff),
            Operand::RbLit => f.write_str(int(RB)),
            Operand::Disp => write!(f, "{}", self.signed(16)),
            Operand::DispRb => write!(f, "{}({})", self.signed(16), int(RB)),
            Operand::ParenRb => write!(f, "({})", int(RB)),
            Operand::Target => write!(f, "{:#x}", self.target(self.signed(21))),
            Operand::HintTarget => write!(f, "{:#x}", self.target(self.signed(14))),
            Operand::Hint => c_hex(f, self.word & 0x3fff),
            Operand::Pal => c_hex(f, self.word & 0x03ff_ffff),
            Operand::Hidden => Ok(()),
        }
    }
}

/// Hexadecimal as C's `%#x` writes it: zero has no prefix.
fn c_hex(f: &mut fmt::Formatter<'_>, value: u32) -> fmt::Result {
    if value == 0 { f.write_str("0") } else { write!(f, "{value:#x}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idioms_are_written_as_gnu_writes_them() {
        let text = |word| disasm(word, 0x1000).to_string();
        assert_eq!(text(0x47ff_041f), "nop\t");
        assert_eq!(text(0x2ffe_0000), "unop\t");
        assert_eq!(text(0x6bfa_8001), "ret");
        assert_eq!(text(0x43e1_0000), "sextl\tt0,v0");
        assert_eq!(text(0xc3ff_ffff), "br\t0x1000");
        assert_eq!(text(0x0400_0000), ".long 0x4000000");
        assert_eq!(text(0x5822_f403 | 0x0000_0400), "addt/sui\t$f1,$f2,$f3");
    }

    /// An earlier idiom must not make a later one unreachable.
    #[test]
    fn every_idiom_is_printed_for_its_own_value() {
        for idiom in IDIOMS {
            let same = idiom.form.operands.contains(&Operand::RaRb);
            let words = [idiom.form.value, idiom.form.value | 0x0022_0003 & !idiom.form.mask];
            let same_word = idiom.form.value | 0x0021_0000;
            assert!(
                words.into_iter().chain(same.then_some(same_word)).any(|w| {
                    form_of(w).is_some_and(|(mnemonic, _)| mnemonic == idiom.mnemonic)
                }),
                "{}",
                idiom.mnemonic
            );
        }
    }
}
