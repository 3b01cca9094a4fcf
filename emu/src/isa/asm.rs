//! A line assembler: text to instruction words, for tests, filetests and boot stubs.
//!
//! Driven by the same forms as the disassembler, so it accepts what that prints; registers may also
//! be written `r1`, `$1`, `f1` or `$f1`, and qualifiers in any order. It knows labels, `.long` and
//! `.quad`, but no sections, relocations or macros: for programs there is GNU as.

use super::Opcode;
use super::syntax::{
    ASSEMBLER_IDIOMS, Form, IDIOMS, INT_NAMES, LIT, Operand, RA, RB, RC, qualifier_letters,
};
use std::collections::BTreeMap;
use thiserror::Error;

/// What is wrong with a source line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {kind}")]
pub struct AsmError {
    /// Line number, counted from 1.
    pub line: usize,
    /// The fault.
    pub kind: AsmErrorKind,
}

/// The faults that the assembler reports.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AsmErrorKind {
    /// No instruction or directive has that name and those qualifiers.
    #[error("unknown instruction `{0}`")]
    Mnemonic(String),
    /// The instruction exists, but not with so many operands.
    #[error("`{0}` does not take {1} operands")]
    OperandCount(String, usize),
    /// An operand is not of the kind that must stand there.
    #[error("expected {expected}, found `{found}`")]
    Operand {
        /// The kind that must stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A number is too large for its field, or a target is not a multiple of four away.
    #[error("{0:#x} does not fit its field")]
    Range(u64),
    /// A name is neither a number nor a label.
    #[error("undefined label `{0}`")]
    UndefinedLabel(String),
    /// A label is defined more than once.
    #[error("label `{0}` is defined twice")]
    DuplicateLabel(String),
    /// A single line was asked for, but it gives no word or several.
    #[error("expected one instruction")]
    NotOneWord,
}

use AsmErrorKind as Fault;

/// Label values by name.
type Labels<'a> = BTreeMap<&'a str, u64>;

/// Assembles one instruction that stands at address 0.
pub fn assemble(text: &str) -> Result<u32, AsmError> {
    assemble_at(text, 0)
}

/// Assembles one instruction that stands at `pc`; branch targets are absolute addresses.
pub fn assemble_at(text: &str, pc: u64) -> Result<u32, AsmError> {
    let mut words = Vec::new();
    statement(without_comment(text), pc, &Labels::new(), &mut words)
        .and_then(|()| match words[..] {
            [word] => Ok(word),
            _ => Err(Fault::NotOneWord),
        })
        .map_err(|kind| AsmError { line: 1, kind })
}

/// Assembles lines that start at address `base`. A line is `label: instruction ; comment`, each
/// part optional; a comment starts with `;` or `#`.
pub fn assemble_block(text: &str, base: u64) -> Result<Vec<u32>, AsmError> {
    let mut labels = Labels::new();
    let mut statements = Vec::new();
    let mut pc = base;
    // First pass: the size of every statement is known without label values.
    for (number, line) in text.lines().enumerate() {
        let at = |kind| AsmError { line: number + 1, kind };
        let mut rest = without_comment(line);
        while let Some((label, after)) = rest.split_once(':') {
            let label = label.trim();
            if labels.insert(label, pc).is_some() {
                return Err(at(Fault::DuplicateLabel(label.to_owned())));
            }
            rest = after.trim();
        }
        if !rest.is_empty() {
            statements.push((number + 1, pc, rest));
            pc = pc.wrapping_add(size(rest));
        }
    }
    let mut words = Vec::new();
    for (line, pc, rest) in statements {
        statement(rest, pc, &labels, &mut words).map_err(|kind| AsmError { line, kind })?;
    }
    Ok(words)
}

fn without_comment(line: &str) -> &str {
    line.split([';', '#']).next().unwrap_or("").trim()
}

/// Splits a statement into mnemonic and operands.
fn split(statement: &str) -> (&str, Vec<&str>) {
    let (mnemonic, rest) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
    let rest = rest.trim();
    let operands = if rest.is_empty() { vec![] } else { rest.split(',').map(str::trim).collect() };
    (mnemonic, operands)
}

/// Bytes that a statement occupies.
fn size(statement: &str) -> u64 {
    let (mnemonic, operands) = split(statement);
    match mnemonic {
        ".long" => 4 * operands.len() as u64,
        ".quad" => 8 * operands.len() as u64,
        _ => 4,
    }
}

/// Appends the words of one statement at `pc`.
fn statement(text: &str, pc: u64, labels: &Labels, out: &mut Vec<u32>) -> Result<(), Fault> {
    let (mnemonic, operands) = split(text);
    match mnemonic {
        "" => {}
        ".long" => {
            for operand in operands {
                let value = expression(operand, labels)?;
                fits(value, i64::from(i32::MIN), i64::from(u32::MAX))?;
                out.push(value as u32);
            }
        }
        ".quad" => {
            for operand in operands {
                let value = expression(operand, labels)?;
                out.extend([value as u32, (value >> 32) as u32]);
            }
        }
        _ => out.push(instruction(mnemonic, &operands, pc, labels)?),
    }
    Ok(())
}

/// Tries the forms that bear the name, idioms first, until one takes the operands.
fn instruction(mnemonic: &str, operands: &[&str], pc: u64, labels: &Labels) -> Result<u32, Fault> {
    let mut fault = None;
    for (form, qualifiers) in candidates(mnemonic) {
        let written = form.operands.iter().filter(|&&o| o != Operand::Hidden);
        if written.clone().count() != operands.len() {
            fault.get_or_insert(Fault::OperandCount(mnemonic.to_owned(), operands.len()));
            continue;
        }
        let word =
            written.zip(operands).try_fold(form.value | qualifiers, |word, (&kind, text)| {
                Ok(word | field(kind, text, pc, labels)?)
            });
        match word {
            Ok(word) => return Ok(word),
            // The fault of the last form that takes so many operands says most.
            Err(other) => fault = Some(other),
        }
    }
    Err(fault.unwrap_or_else(|| Fault::Mnemonic(mnemonic.to_owned())))
}

/// All forms with that name, each with its qualifier bits in place.
fn candidates(mnemonic: &str) -> impl Iterator<Item = (Form, u32)> {
    let idioms = IDIOMS
        .iter()
        .chain(ASSEMBLER_IDIOMS)
        .filter(move |idiom| idiom.mnemonic == mnemonic)
        .map(|idiom| (idiom.form, 0));
    let rows = Opcode::ALL.iter().filter_map(move |op| {
        let info = op.info();
        let form = Form::of(info.format);
        // `addl/v` is a name of its own, `addt/su` is `addt` with qualifiers.
        let letters = match mnemonic.strip_prefix(info.mnemonic)? {
            "" => "",
            rest => rest.strip_prefix('/')?,
        };
        match form.qualifiers {
            None => letters.is_empty().then_some((form, 0)),
            Some(set) => (0..32)
                .filter(|&qual| set.contains(qual))
                .find(|&qual| {
                    let (trap, round) = qualifier_letters(set, qual as u8);
                    sorted(trap.chars().chain(round.chars())) == sorted(letters.chars())
                })
                .map(|qual| (form, u32::from(qual) << 11)),
        }
    });
    idioms.chain(rows)
}

fn sorted(letters: impl Iterator<Item = char>) -> Vec<char> {
    let mut letters: Vec<char> = letters.collect();
    letters.sort_unstable();
    letters
}

/// The bits that one operand sets.
fn field(kind: Operand, text: &str, pc: u64, labels: &Labels) -> Result<u32, Fault> {
    Ok(match kind {
        Operand::Ra => int(text)? << RA,
        Operand::Rb => int(text)? << RB,
        Operand::Rc => int(text)? << RC,
        Operand::RaRb => int(text)? * (1 << RA | 1 << RB),
        Operand::Fa => float(text)? << RA,
        Operand::Fb => float(text)? << RB,
        Operand::Fc => float(text)? << RC,
        Operand::FaFb => float(text)? * (1 << RA | 1 << RB),
        Operand::FaFbFc => float(text)? * (1 << RA | 1 << RB | 1 << RC),
        Operand::RbLit => match int(text) {
            Ok(register) => register << RB,
            Err(_) => fits(expression(text, labels)?, 0, 255)? << 13 | LIT,
        },
        Operand::Disp => displacement(text, labels)?,
        Operand::DispRb => match text.split_once('(') {
            Some(("", _)) => base(text)?,
            Some((disp, _)) => displacement(disp, labels)? | base(&text[disp.len()..])?,
            None => return Err(expected("displacement and base register", text)),
        },
        Operand::ParenRb => base(text)?,
        Operand::Target => words_from(expression(text, labels)?, pc, 21)?,
        Operand::HintTarget => words_from(expression(text, labels)?, pc, 14)?,
        Operand::Hint => fits(expression(text, labels)?, 0, 0x3fff)?,
        Operand::Pal => fits(expression(text, labels)?, 0, 0x03ff_ffff)?,
        Operand::Hidden => 0,
    })
}

fn expected(expected: &'static str, found: &str) -> Fault {
    Fault::Operand { expected, found: found.to_owned() }
}

/// A decimal register number below 32 after one of the prefixes.
fn numbered(text: &str, prefixes: &[&str]) -> Option<u32> {
    let digits = prefixes.iter().find_map(|&p| text.strip_prefix(p))?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|&n| n < 32 && plain)
}

fn int(text: &str) -> Result<u32, Fault> {
    if let Some(n) = numbered(text, &["$", "r"]) {
        return Ok(n);
    }
    match text {
        "s6" => return Ok(15),
        "pv" => return Ok(27),
        _ => {}
    }
    INT_NAMES
        .iter()
        .position(|&name| name == text)
        .map(|n| n as u32)
        .ok_or_else(|| expected("an integer register", text))
}

fn float(text: &str) -> Result<u32, Fault> {
    numbered(text, &["$f", "f"]).ok_or_else(|| expected("a floating-point register", text))
}

/// `(rb)`.
fn base(text: &str) -> Result<u32, Fault> {
    let inner = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
    Ok(int(inner.ok_or_else(|| expected("a base register", text))?.trim())? << RB)
}

fn displacement(text: &str, labels: &Labels) -> Result<u32, Fault> {
    Ok(fits(expression(text, labels)?, -0x8000, 0x7fff)? & 0xffff)
}

fn fits(value: u64, low: i64, high: i64) -> Result<u32, Fault> {
    if (low..=high).contains(&(value as i64)) { Ok(value as u32) } else { Err(Fault::Range(value)) }
}

/// Displacement in words from the instruction after `pc`, in a field of `bits` bits.
fn words_from(target: u64, pc: u64, bits: u32) -> Result<u32, Fault> {
    let bytes = target.wrapping_sub(pc).wrapping_sub(4) as i64;
    let half = 1i64 << (bits - 1);
    if bytes % 4 != 0 || !(-half..half).contains(&(bytes / 4)) {
        return Err(Fault::Range(target));
    }
    Ok((bytes / 4) as u32 & ((1 << bits) - 1))
}

/// A number, a label, or a label plus or minus a number.
fn expression(text: &str, labels: &Labels) -> Result<u64, Fault> {
    let text = text.trim();
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') {
        return number(text);
    }
    let split = text.find(['+', '-']).unwrap_or(text.len());
    let (name, offset) = text.split_at(split);
    let offset = if offset.is_empty() { 0 } else { number(offset)? };
    match labels.get(name.trim()) {
        Some(value) => Ok(value.wrapping_add(offset)),
        None if name.is_empty() => Err(expected("a number", text)),
        None => Err(Fault::UndefinedLabel(name.trim().to_owned())),
    }
}

/// Decimal or `0x` hexadecimal with an optional sign, modulo 2^64.
fn number(text: &str) -> Result<u64, Fault> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest.trim()),
        None => (false, text.strip_prefix('+').unwrap_or(text).trim()),
    };
    // `from_str_radix` would take a second sign.
    let value = match digits.strip_prefix("0x") {
        _ if digits.contains(['+', '-']) => None,
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    };
    let value = value.ok_or_else(|| expected("a number", text))?;
    Ok(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_several_spellings() {
        let word = assemble("addl t0,t1,t2").unwrap();
        assert_eq!(word, 0x4022_0003);
        for text in ["addl r1, r2, r3", "addl $1,$2,$3", "  addl\tt0 , t1 , t2 ; sum"] {
            assert_eq!(assemble(text), Ok(word), "{text}");
        }
        assert_eq!(assemble("addt/su f1,f2,f3"), assemble("addt/us $f1,$f2,$f3"));
        assert_eq!(assemble("mov -5,t0"), assemble("lda t0,-5(zero)"));
        assert_eq!(assemble("jsr ra,(pv)"), Ok(0x6b5b_4000));
        assert_eq!(assemble("bis t0,0xff,t1"), assemble("or t0,255,t1"));
    }

    #[test]
    fn blocks_resolve_labels_in_both_directions() {
        let text = "
            start:  lda   t0, 3(zero)   # count
            loop:   subq  t0, 1, t0
                    bne   t0, loop
                    br    done
            table:  .quad start, loop+4
                    .long 1, -1
            done:   callsys";
        let words = assemble_block(text, 0x1_0000_0000).unwrap();
        let expected =
            [0x203f_0003, 0x4020_3521, 0xf43f_fffe, 0xc3e0_0006, 0, 1, 8, 1, 1, 0xffff_ffff, 0x83];
        assert_eq!(words, expected);
    }

    #[test]
    fn faults_name_the_line_and_the_cause() {
        let fault = |text: &str| assemble_block(text, 0).unwrap_err();
        assert_eq!(fault("nop\nfrob t0").to_string(), "line 2: unknown instruction `frob`");
        assert_eq!(fault("addl t0,t1").to_string(), "line 1: `addl` does not take 2 operands");
        assert_eq!(fault("addq t0,256,t1").kind, Fault::Range(256));
        assert_eq!(fault("ldq t0,0x8000(t1)").kind, Fault::Range(0x8000));
        assert_eq!(fault("br nowhere").kind, Fault::UndefinedLabel("nowhere".into()));
        assert_eq!(fault("a:\na: nop").line, 2);
        assert_eq!(fault("br 6").kind, Fault::Range(6));
        assert_eq!(fault("addt/x $f1,$f2,$f3").kind, Fault::Mnemonic("addt/x".into()));
        assert_eq!(
            fault("addt t1,$f2,$f3").to_string(),
            "line 1: expected a floating-point register, found `t1`"
        );
        assert_eq!(assemble("").unwrap_err().kind, Fault::NotOneWord);
    }

    #[test]
    fn odd_text_is_refused_without_panic() {
        for text in
            ["ldq t0,(", "ldq t0,)(", "lda t0,--1", "br +", "$", "addl r+1,t0,t1", "mov é,t0"]
        {
            assert!(assemble(text).is_err(), "{text}");
        }
    }
}
