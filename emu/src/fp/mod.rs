//! Floating point: pure functions from operands, qualifiers and FPCR to value and exceptions.

/// Qualifier bits of an FP operate instruction, function bits 10:6.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Qual(pub u8);
