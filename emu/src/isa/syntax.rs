//! Assembly syntax as data: which operands each instruction shows, and the GNU idioms.
//!
//! A [`Form`] says which bits of a word are fixed and which operands fill the rest. Disassembler
//! and assembler read the same forms in opposite directions, so that each accepts what the other
//! prints. The text is that of GNU binutils, the one that compilers for Alpha emit.

use super::Format;
use super::format::FpSet;

/// ABI names of the integer registers (the calling standard's, as GNU tools print them).
pub const INT_NAMES: [&str; 32] = [
    "v0", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "s0", "s1", "s2", "s3", "s4", "s5", "fp",
    "a0", "a1", "a2", "a3", "a4", "a5", "t8", "t9", "t10", "t11", "ra", "t12", "at", "gp", "sp",
    "zero",
];

/// One operand as it is written, with the field or fields it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// Integer register in `ra`.
    Ra,
    /// Integer register in `rb`.
    Rb,
    /// Integer register in `rc`.
    Rc,
    /// One integer register in both `ra` and `rb`.
    RaRb,
    /// Floating-point register in `fa`.
    Fa,
    /// Floating-point register in `fb`.
    Fb,
    /// Floating-point register in `fc`.
    Fc,
    /// One floating-point register in both `fa` and `fb`.
    FaFb,
    /// One floating-point register in all three fields.
    FaFbFc,
    /// Integer register in `rb` or an eight-bit literal.
    RbLit,
    /// Signed 16-bit displacement alone.
    Disp,
    /// Displacement and base register, `disp(rb)`.
    DispRb,
    /// Base register, `(rb)`.
    ParenRb,
    /// Branch target, 21-bit displacement in words.
    Target,
    /// Predicted target of a jump, 14-bit displacement in words.
    HintTarget,
    /// Jump hint as a number.
    Hint,
    /// PALcode function, 26 bits.
    Pal,
    /// A field that the idiom hides. GNU prints the separator nevertheless.
    Hidden,
}

/// Bit positions of the register fields.
pub(super) const RA: u32 = 21;
pub(super) const RB: u32 = 16;
pub(super) const RC: u32 = 0;
/// Bit that makes the second operand a literal.
pub(super) const LIT: u32 = 1 << 12;

/// Fixed bits and operands of one way to write an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Bits that must agree with `value`. The others belong to operands or are ignored.
    pub mask: u32,
    /// The word with all operand fields zero.
    pub value: u32,
    /// Operands in the order in which they are written.
    pub operands: &'static [Operand],
    /// Qualifier set, if word bits 15:11 hold floating-point qualifiers.
    pub qualifiers: Option<FpSet>,
}

impl Form {
    /// Whether the word can be written in this form without loss of a field that GNU checks.
    pub fn matches(&self, word: u32) -> bool {
        let field = |at: u32| word >> at & 31;
        word & self.mask == self.value & self.mask
            && self.operands.iter().all(|operand| match operand {
                Operand::RaRb | Operand::FaFb => field(RA) == field(RB),
                Operand::FaFbFc => field(RA) == field(RB) && field(RB) == field(RC),
                _ => true,
            })
    }

    /// The form of a table row.
    pub const fn of(format: Format) -> Form {
        use Operand::*;
        const OPCODE: u32 = 0x3f << 26;
        const A31: u32 = 31 << RA;
        const B31: u32 = 31 << RB;
        let opcode = (format.opcode() as u32) << 26;
        match format {
            Format::Mem(_) => plain(OPCODE, opcode, &[Ra, DispRb]),
            Format::MemF(_) => plain(OPCODE, opcode, &[Fa, DispRb]),
            Format::Bra(_) => plain(OPCODE, opcode, &[Ra, Target]),
            Format::BraF(_) => plain(OPCODE, opcode, &[Fa, Target]),
            // GNU predicts a target for JMP and JSR; for the other two the field is a number.
            Format::Jump(_, h) => {
                let operands: &[Operand] =
                    if h < 2 { &[Ra, ParenRb, HintTarget] } else { &[Ra, ParenRb, Hint] };
                plain(OPCODE | 3 << 14, opcode | (h as u32) << 14, operands)
            }
            Format::Opr(_, f) => plain(OPCODE | 0xfe0, opcode | (f as u32) << 5, &[Ra, RbLit, Rc]),
            Format::OprR(_, f) => plain(OPCODE | 0x1fe0, opcode | (f as u32) << 5, &[Ra, Rb, Rc]),
            Format::OprB(0x1c, f) => {
                plain(OPCODE | A31 | 0x1fe0, opcode | A31 | (f as u32) << 5, &[Rb, Rc])
            }
            Format::OprB(_, f) => {
                plain(OPCODE | A31 | 0xfe0, opcode | A31 | (f as u32) << 5, &[RbLit, Rc])
            }
            // The literal 1 is what assemblers put there.
            Format::OprC(_, f) => plain(!31, opcode | A31 | 1 << 13 | LIT | (f as u32) << 5, &[Rc]),
            Format::Fp(_, f, set) => Form {
                qualifiers: Some(set),
                ..plain(OPCODE | 0x7e0, opcode | (f as u32) << 5, &[Fa, Fb, Fc])
            },
            Format::Fp1(_, f, set) => Form {
                qualifiers: Some(set),
                ..plain(OPCODE | A31 | 0x7e0, opcode | A31 | (f as u32) << 5, &[Fb, Fc])
            },
            Format::FpcrMove(_, f) => plain(OPCODE | 0xffe0, opcode | (f as u32) << 5, &[FaFbFc]),
            Format::ItoF(_, f) => {
                plain(OPCODE | B31 | 0xffe0, opcode | B31 | (f as u32) << 5, &[Ra, Fc])
            }
            // The one operate row for which GNU insists that bits 15:13 are zero.
            Format::FtoI(_, f) => {
                plain(OPCODE | B31 | 0xffe0, opcode | B31 | (f as u32) << 5, &[Fa, Rc])
            }
            Format::Misc(_, f) => plain(OPCODE | 0xffff, opcode | f as u32, &[]),
            Format::MiscA(_, f) => plain(OPCODE | 0xffff, opcode | f as u32, &[Ra]),
            Format::MiscB(_, f) => {
                plain(OPCODE | A31 | 0xffff, opcode | A31 | f as u32, &[ParenRb])
            }
            Format::Pal(_) => plain(OPCODE, opcode, &[Pal]),
        }
    }
}

/// A form without qualifiers.
const fn plain(mask: u32, value: u32, operands: &'static [Operand]) -> Form {
    Form { mask, value, operands, qualifiers: None }
}

/// Letters of a qualifier field, trap mode then rounding, as they follow the slash
/// (AARM appendix C.4). Empty where the mode is the mnemonic's default.
pub fn qualifier_letters(set: FpSet, qual: u8) -> (&'static str, &'static str) {
    use FpSet::*;
    let trap = match (set, qual >> 2) {
        (ToQuad | CvtQl | VaxToQuad, 1) => "v",
        (ToQuad | CvtQl | VaxToQuad, 5) => "sv",
        (ToQuad, 7) => "svi",
        (CvtSt, 6) | (Vax | VaxCmp | VaxToQuad, 4) => "s",
        (Ieee | Vax, 1) => "u",
        (Ieee | IeeeCmp | Vax, 5) => "su",
        (Ieee | FromQuad, 7) => "sui",
        _ => "",
    };
    let round = match (set, qual & 3) {
        // These have no rounding field; theirs is part of the function code.
        (Plain | CvtQl, _) => "",
        (_, 0) => "c",
        (_, 1) => "m",
        (_, 3) => "d",
        _ => "",
    };
    (trap, round)
}

/// A way to write an instruction that differs from its table row.
#[derive(Clone, Copy, Debug)]
pub struct Idiom {
    /// What is written.
    pub mnemonic: &'static str,
    /// Fixed bits and operands.
    pub form: Form,
}

/// Builds [`IDIOMS`] rows.
macro_rules! idioms {
    ($($mnemonic:literal, $mask:literal, $value:literal, [$($operand:ident),*];)*) => {
        &[$(Idiom {
            mnemonic: $mnemonic,
            form: plain($mask, $value, &[$(Operand::$operand),*]),
        },)*]
    };
}

/// The idioms of GNU binutils 2.40; of several that match a word the first is printed.
/// Columns: mnemonic, fixed bits, their value, operands.
pub const IDIOMS: &[Idiom] = idioms! {
    // CALL_PAL functions (OSF/1) with a name of their own.
    "halt",      0xffffffff, 0x00000000, [];
    "draina",    0xffffffff, 0x00000002, [];
    "bpt",       0xffffffff, 0x00000080, [];
    "bugchk",    0xffffffff, 0x00000081, [];
    "callsys",   0xffffffff, 0x00000083, [];
    "imb",       0xffffffff, 0x00000086, [];
    "rduniq",    0xffffffff, 0x0000009e, [];
    "wruniq",    0xffffffff, 0x0000009f, [];
    "gentrap",   0xffffffff, 0x000000aa, [];
    // Opcodes reserved to PALcode: without a CPU model their fields have no meaning.
    "pal19",     0xfc000000, 0x64000000, [Pal];
    "pal1b",     0xfc000000, 0x6c000000, [Pal];
    "pal1d",     0xfc000000, 0x74000000, [Pal];
    "pal1e",     0xfc000000, 0x78000000, [Pal];
    "pal1f",     0xfc000000, 0x7c000000, [Pal];
    // Memory format.
    "lda",       0xfc1f0000, 0x201f0000, [Ra, Disp];
    "ldah",      0xfc1f0000, 0x241f0000, [Ra, Disp];
    "unop",      0xffe00000, 0x2ffe0000, [Hidden];
    // Integer operate.
    "sextl",     0xffe00fe0, 0x43e00000, [RbLit, Rc];
    "negl",      0xffe00fe0, 0x43e00120, [RbLit, Rc];
    "negl/v",    0xffe00fe0, 0x43e00920, [RbLit, Rc];
    "negq",      0xffe00fe0, 0x43e00520, [RbLit, Rc];
    "negq/v",    0xffe00fe0, 0x43e00d20, [RbLit, Rc];
    "nop",       0xffff1fff, 0x47ff041f, [Hidden];
    "clr",       0xffff1fe0, 0x47ff0400, [Rc];
    "mov",       0xffe00fe0, 0x47e00400, [RbLit, Rc];
    "mov",       0xfc001fe0, 0x44000400, [RaRb, Rc];
    "or",        0xfc000fe0, 0x44000400, [Ra, RbLit, Rc];
    "andnot",    0xfc000fe0, 0x44000100, [Ra, RbLit, Rc];
    "not",       0xffe00fe0, 0x47e00500, [RbLit, Rc];
    // Floating-point operate.
    "fnop",      0xffffffff, 0x5fff041f, [Hidden];
    "fclr",      0xffffffe0, 0x5fff0400, [Fc];
    "fabs",      0xffe0ffe0, 0x5fe00400, [Fb, Fc];
    "fmov",      0xfc00ffe0, 0x5c000400, [FaFb, Fc];
    "fneg",      0xfc00ffe0, 0x5c000420, [FaFb, Fc];
    "negf",      0xffe0ffe0, 0x57e01020, [Fb, Fc];
    "negf/s",    0xffe0ffe0, 0x57e09020, [Fb, Fc];
    "negg",      0xffe0ffe0, 0x57e01420, [Fb, Fc];
    "negg/s",    0xffe0ffe0, 0x57e09420, [Fb, Fc];
    "negs",      0xffe0ffe0, 0x5be01020, [Fb, Fc];
    "negs/su",   0xffe0ffe0, 0x5be0b020, [Fb, Fc];
    "negs/sui",  0xffe0ffe0, 0x5be0f020, [Fb, Fc];
    "negt",      0xffe0ffe0, 0x5be01420, [Fb, Fc];
    "negt/su",   0xffe0ffe0, 0x5be0b420, [Fb, Fc];
    "negt/sui",  0xffe0ffe0, 0x5be0f420, [Fb, Fc];
    // Miscellaneous and jumps.
    "rpcc",      0xfc1fffff, 0x601fc000, [Ra];
    "rpcc",      0xfc00ffff, 0x6000c000, [Ra, Rb];
    "jmp",       0xffe0ffff, 0x6be00000, [ParenRb];
    "ret",       0xffffffff, 0x6bfa8001, [];
    "jcr",       0xfc00c000, 0x6800c000, [Ra, ParenRb, Hint];
    "br",        0xffe00000, 0xc3e00000, [Target];
};

/// Spellings that only the assembler knows: what GNU as accepts but objdump never prints.
pub(super) const ASSEMBLER_IDIOMS: &[Idiom] = idioms! {
    // A constant that does not fit the literal field.
    "mov",       0xfc1f0000, 0x201f0000, [Disp, Ra];
    "jmp",       0xfc00ffff, 0x68000000, [Ra, ParenRb];
    "jsr",       0xfc00ffff, 0x68004000, [Ra, ParenRb];
    "ret",       0xffe0ffff, 0x6be08001, [ParenRb];
    "bsr",       0xffe00000, 0xd3400000, [Target];
};
