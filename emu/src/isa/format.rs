//! Instruction formats: where the fields of an instruction word lie and which encodings a row owns.
//!
//! AARM 3.3 and appendix C. A [`Format`] value names the fields that an instruction uses, its
//! opcode and its function code; decoder, encoder, assembler and disassembler are driven by it.

/// Set of qualifier combinations that a floating-point function accepts (AARM appendix C.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FpSet {
    /// No qualifier: CPYS, FCMOVxx, CVTLQ.
    Plain,
    /// IEEE arithmetic: no trap qualifier, /U, /SU, /SUI, each with four roundings.
    Ieee,
    /// IEEE comparison: none or /SU.
    IeeeCmp,
    /// CVTTQ: none, /V, /SV, /SVI with four roundings.
    ToQuad,
    /// CVTQS and CVTQT: none or /SUI with four roundings.
    FromQuad,
    /// CVTST: none or /S; its base code carries trap bit 1.
    CvtSt,
    /// CVTQL: none, /V, /SV.
    CvtQl,
    /// VAX arithmetic: none, /U, /S, /SU, rounded or chopped.
    Vax,
    /// VAX comparison: none or /S.
    VaxCmp,
    /// CVTGQ: none, /V, /S, /SV, rounded or chopped.
    VaxToQuad,
    /// CVTQF and CVTQG: rounded or chopped.
    VaxFromQuad,
}

impl FpSet {
    /// Whether the qualifier field (function bits 10:6) belongs to the set.
    pub const fn contains(self, qual: u16) -> bool {
        let (trap, round) = (qual >> 2, qual & 3);
        match self {
            FpSet::Plain => qual == 0,
            FpSet::Ieee | FpSet::ToQuad => matches!(trap, 0 | 1 | 5 | 7),
            FpSet::IeeeCmp => round == 2 && matches!(trap, 0 | 5),
            FpSet::FromQuad => matches!(trap, 0 | 7),
            FpSet::CvtSt => round == 2 && matches!(trap, 2 | 6),
            FpSet::CvtQl => round == 0 && matches!(trap, 0 | 1 | 5),
            FpSet::Vax | FpSet::VaxToQuad => {
                matches!(round, 0 | 2) && matches!(trap, 0 | 1 | 4 | 5)
            }
            FpSet::VaxCmp => round == 2 && matches!(trap, 0 | 4),
            FpSet::VaxFromQuad => matches!(round, 0 | 2) && trap == 0,
        }
    }
}

/// The fields of an instruction, with the opcode and function code that select it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `ra, disp(rb)` (opcode).
    Mem(u8),
    /// `fa, disp(rb)` (opcode).
    MemF(u8),
    /// `ra, target` (opcode).
    Bra(u8),
    /// `fa, target` (opcode).
    BraF(u8),
    /// `ra, (rb), hint` (opcode, bits 15:14).
    Jump(u8, u8),
    /// `ra, rb|literal, rc` (opcode, function).
    Opr(u8, u8),
    /// `ra, rb, rc` without a literal form (opcode, function).
    OprR(u8, u8),
    /// `rb|literal, rc`; `ra` is R31 (opcode, function).
    OprB(u8, u8),
    /// `rc` alone; `ra` is R31 and the literal is 1 (opcode, function).
    OprC(u8, u8),
    /// `fa, fb, fc` (opcode, function bits 5:0, qualifiers).
    Fp(u8, u8, FpSet),
    /// `fb, fc`; `fa` is F31 (opcode, function bits 5:0, qualifiers).
    Fp1(u8, u8, FpSet),
    /// `fa` in all three fields (opcode, function).
    FpcrMove(u8, u8),
    /// `ra, fc`; `fb` is F31 (opcode, 11-bit function).
    ItoF(u8, u16),
    /// `fa, rc`; `rb` is R31 (opcode, function).
    FtoI(u8, u8),
    /// No operand (opcode, bits 15:0).
    Misc(u8, u16),
    /// `ra` (opcode, bits 15:0).
    MiscA(u8, u16),
    /// `(rb)` (opcode, bits 15:0).
    MiscB(u8, u16),
    /// 26-bit PALcode function (opcode).
    Pal(u8),
}

impl Format {
    /// The six-bit opcode, word bits 31:26.
    pub const fn opcode(self) -> u8 {
        use Format::*;
        match self {
            Mem(o) | MemF(o) | Bra(o) | BraF(o) | Pal(o) => o,
            Jump(o, _) | Opr(o, _) | OprR(o, _) | OprB(o, _) | OprC(o, _) => o,
            Fp(o, ..) | Fp1(o, ..) | FpcrMove(o, _) | FtoI(o, _) => o,
            ItoF(o, _) | Misc(o, _) | MiscA(o, _) | MiscB(o, _) => o,
        }
    }

    /// Whether `func`, the word's function field at this format's width, selects this row.
    pub const fn matches(self, func: u16) -> bool {
        use Format::*;
        match self {
            Mem(_) | MemF(_) | Bra(_) | BraF(_) | Pal(_) => true,
            Jump(_, f) | Opr(_, f) | OprR(_, f) | OprB(_, f) | OprC(_, f) => f as u16 == func,
            FtoI(_, f) | FpcrMove(_, f) => f as u16 == func,
            Fp(_, f, set) | Fp1(_, f, set) => f as u16 == func & 0x3f && set.contains(func >> 6),
            ItoF(_, f) | Misc(_, f) | MiscA(_, f) | MiscB(_, f) => f == func,
        }
    }
}

/// Width in bits of the function field of an opcode (0: the opcode alone selects).
pub const fn func_bits(opcode: u8) -> u32 {
    match opcode {
        0x10..=0x13 | 0x1c => 7,
        0x14..=0x17 => 11,
        0x18 => 16,
        0x1a => 2,
        _ => 0,
    }
}

/// The function field of an instruction word, at the width that its opcode has.
pub const fn func(word: u32) -> u16 {
    match func_bits((word >> 26) as u8) {
        7 => (word >> 5 & 0x7f) as u16,
        11 => (word >> 5 & 0x7ff) as u16,
        16 => word as u16,
        2 => (word >> 14 & 3) as u16,
        _ => 0,
    }
}
