//! [`Insn`] to instruction word: the inverse of the decoder.
//!
//! Called by tests, generators and boot stubs. For every word that decodes, encoding gives the word
//! back, except that bits an instruction ignores come out as zero (bits 15:13 of an operate
//! instruction with a register operand, AARM 3.3.3).

use super::format::Format;
use super::{Insn, SINK, ZERO};

/// The instruction word of `insn`. Fields wider than their place are cut.
pub fn encode(insn: &Insn) -> u32 {
    use Format::*;
    let format = insn.op.info().format;
    // A destination of R31 became SINK when it was decoded.
    let field = |r: u8| u32::from(if r == SINK { ZERO } else { r } & 31);
    let (a, b, c) = (field(insn.a) << 21, field(insn.b) << 16, field(insn.c));
    let opcode = u32::from(format.opcode()) << 26;
    let imm = insn.imm as u32;
    let rb_or_literal = if insn.lit { (imm & 0xff) << 13 | 1 << 12 } else { b };
    opcode
        | match format {
            Mem(_) | MemF(_) => a | b | imm & 0xffff,
            Bra(_) | BraF(_) => a | imm & 0x1f_ffff,
            Jump(_, kind) => a | b | u32::from(kind) << 14 | imm & 0x3fff,
            Opr(_, func) | OprR(_, func) | OprB(_, func) | OprC(_, func) | FtoI(_, func) => {
                a | rb_or_literal | u32::from(func) << 5 | c
            }
            Fp(_, func, _) | Fp1(_, func, _) => {
                a | b | u32::from(insn.qual.0 & 31) << 11 | u32::from(func) << 5 | c
            }
            FpcrMove(_, func) => a | b | u32::from(func) << 5 | c,
            ItoF(_, func) => a | b | u32::from(func) << 5 | c,
            Misc(_, func) | MiscA(_, func) | MiscB(_, func) => a | b | u32::from(func),
            Pal(_) => imm & 0x03ff_ffff,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::decode;
    use proptest::prelude::*;

    /// The word without the bits that a register operand ignores.
    fn canonical(word: u32) -> u32 {
        let opcode = word >> 26;
        let register_form = matches!(opcode, 0x10..=0x13 | 0x1c) && word & 0x1000 == 0;
        if register_form { word & !0xe000 } else { word }
    }

    proptest! {
        #[test]
        fn encoding_inverts_decoding(word: u32) {
            if let Some(insn) = decode(word) {
                let again = encode(&insn);
                prop_assert_eq!(again, canonical(word), "{:?}", insn);
                prop_assert_eq!(decode(again), Some(insn));
            }
        }
    }
}
