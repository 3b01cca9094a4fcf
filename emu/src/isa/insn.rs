//! The decoded instruction: twelve bytes, copied into blocks, read by every engine.

use super::Opcode;
use crate::fp::Qual;

/// Register number that always reads as zero.
pub const ZERO: u8 = 31;
/// Slot that takes writes to R31 and F31, so that no engine tests for them at run time.
pub const SINK: u8 = 32;

/// A decoded instruction. Register fields index the 33-slot register files of
/// [`Cpu`](crate::cpu::Cpu): a destination of 31 has become [`SINK`], a source of 31 is [`ZERO`].
///
/// | format | `a` | `b` | `c` | `imm` |
/// |---|---|---|---|---|
/// | memory | register loaded (destination) or stored (source) | base | - | signed displacement in bytes |
/// | STx_C | register stored | base | the same register as destination | signed displacement in bytes |
/// | branch | link (destination) or tested register (source) | - | - | signed displacement in words |
/// | jump | link (destination) | target | - | hint |
/// | operate | source | source, [`ZERO`] if literal | destination | literal, 0..=255 |
/// | RPCC, RC, RS | destination | as encoded | - | - |
/// | PALcode | - | - | - | function |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Insn {
    /// What to do.
    pub op: Opcode,
    /// First register field.
    pub a: u8,
    /// Second register field.
    pub b: u8,
    /// Third register field.
    pub c: u8,
    /// The second operand is the literal in `imm`.
    pub lit: bool,
    /// Floating-point rounding and trap qualifiers.
    pub qual: Qual,
    /// Displacement, literal, hint or PALcode function.
    pub imm: i32,
}

impl Insn {
    /// Target of a branch-format instruction that stands at `pc`.
    pub const fn branch_target(&self, pc: u64) -> u64 {
        pc.wrapping_add(4).wrapping_add((self.imm as i64 as u64) << 2)
    }
}
