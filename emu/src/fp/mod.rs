//! Floating point: every FP operate instruction as a pure function on register images.
//!
//! Called by the interpreter for each FP instruction, by compiled code for the cases it does not
//! lower (its cold path), and by tests as the reference. Nothing here holds state, allocates or
//! panics, and no loop depends on a guest value.
//!
//! The functions give what a user-mode program sees under Linux: the hardware's result together
//! with what the kernel's software completion makes of it. So an instruction with /S always yields
//! the IEEE result, and reports a trap only where the program asked for one (the FPCR disable bit
//! is clear); one without /S traps on every non-finite operand (AARM 4.7.7).
//!
//! Results that the manual calls UNPREDICTABLE are nevertheless fixed here, so that all engines
//! agree: an IEEE instruction that traps stores the IEEE result, a VAX one treats an invalid operand
//! as zero, stores zero for a division by zero and the largest magnitude for an overflow.

pub mod convert;
pub mod fpcr;
pub mod host;
pub mod ieee;
pub mod memfmt;
pub mod unpacked;
pub mod vax;

#[cfg(test)]
mod tests;

pub use convert::{cvtlq, cvtql, cvtqs, cvtqt, cvtst, cvttq, cvtts};
pub use fpcr::{Fpcr, Rounding, exc, mf_fpcr, mt_fpcr};
pub use ieee::{
    add_s, add_t, cmpteq, cmptle, cmptlt, cmptun, div_s, div_t, mul_s, mul_t, sqrt_s, sqrt_t,
    sub_s, sub_t,
};
pub use memfmt::{
    f_to_register, ftois, ftoit, g_to_register, itoff, itofs, itoft, register_to_f, register_to_g,
    register_to_s, s_to_register,
};
pub use vax::{
    add_f, add_g, cmpgeq, cmpgle, cmpglt, cvtdg, cvtgd, cvtgf, cvtgq, cvtqf, cvtqg, div_f, div_g,
    mul_f, mul_g, sqrt_f, sqrt_g, sub_f, sub_g,
};

/// Bit 63 of a register image: the sign, in every floating format.
pub const SIGN: u64 = 1 << 63;

/// What a compare writes when it is true: 2.0 as T, 0.5 as G (AARM 4.10, CMPTyy and CMPGyy).
pub const TRUE: u64 = 0x4000_0000_0000_0000;

/// The signature of every FP operate function; one-operand instructions ignore the first operand.
pub type FpFn = fn(u64, u64, Qual, u64) -> FpResult;

/// What an FP operate instruction leaves: the register value, and what it reports.
///
/// Two registers in the C calling convention, so that compiled code can call these functions cheaply.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FpResult {
    /// The image to write to Fc; written also when a trap follows.
    pub value: u64,
    /// Bits 57:52 are to be ORed into the FPCR; bits 6:0 are the EXC_SUM trap summary, and an
    /// arithmetic trap is to be delivered exactly if they are not all zero (see [`exc`]).
    pub exc: u64,
}

impl FpResult {
    /// A result that reports nothing.
    #[inline(always)]
    pub const fn clean(value: u64) -> Self {
        Self { value, exc: 0 }
    }

    /// The FPCR status bits to OR in.
    #[inline(always)]
    pub const fn status(self) -> u64 {
        self.exc & fpcr::STATUS
    }

    /// The EXC_SUM image of the trap to deliver, zero if there is none.
    #[inline(always)]
    pub const fn trap(self) -> u64 {
        self.exc & exc::SUMMARY
    }
}

/// The qualifiers of an FP operate instruction, function<10:6>: two bits of rounding, then three of
/// trap mode (AARM 4.7.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Qual(pub u8);

impl Qual {
    /// Rounding as the instruction names it: /C, /M, none (nearest) or /D.
    pub const CHOPPED: u8 = 0;
    /// /M, toward minus infinity.
    pub const MINUS: u8 = 1;
    /// No rounding qualifier: to nearest.
    pub const NORMAL: u8 = 2;
    /// /D, as FPCR.DYN says.
    pub const DYNAMIC: u8 = 3;
    /// /U, or /V of a conversion to integer.
    pub const U: u8 = 1 << 2;
    /// /I, report inexact results.
    pub const I: u8 = 1 << 3;
    /// /S, exception completion.
    pub const S: u8 = 1 << 4;

    /// From the 11-bit function field of the instruction.
    #[inline(always)]
    pub const fn from_func(func: u32) -> Self {
        Self(((func >> 6) & 0x1f) as u8)
    }

    /// /U or /V given: underflow or integer overflow is reported.
    #[inline(always)]
    pub const fn underflow(self) -> bool {
        self.0 & Self::U != 0
    }

    /// /I given: inexact results are reported.
    #[inline(always)]
    pub const fn inexact(self) -> bool {
        self.0 & Self::I != 0
    }

    /// /S given: non-finite values are completed instead of trapped.
    #[inline(always)]
    pub const fn completion(self) -> bool {
        self.0 & Self::S != 0
    }

    /// The rounding in force for an IEEE instruction under this FPCR.
    #[inline(always)]
    pub const fn rounding(self, fpcr: u64) -> Rounding {
        let code =
            if self.0 & 3 == Self::DYNAMIC { fpcr >> fpcr::DYN_SHIFT } else { self.0 as u64 };
        Rounding::from_code(code)
    }

    /// The rounding in force for a VAX instruction: chopped, or VAX normal (AARM 4.7.5).
    #[inline(always)]
    pub const fn vax_rounding(self) -> Rounding {
        if self.0 & 3 == Self::CHOPPED { Rounding::Chopped } else { Rounding::VaxNormal }
    }
}

/// CPYS: the sign of `a` on the rest of `b`. No exceptions, whatever the operands (AARM 4.10.1).
#[inline(always)]
pub const fn cpys(a: u64, b: u64) -> u64 {
    (a & SIGN) | (b & !SIGN)
}

/// CPYSN: the complement of the sign of `a` on the rest of `b`.
#[inline(always)]
pub const fn cpysn(a: u64, b: u64) -> u64 {
    (!a & SIGN) | (b & !SIGN)
}

/// CPYSE: sign and exponent of `a`, fraction of `b`.
#[inline(always)]
pub const fn cpyse(a: u64, b: u64) -> u64 {
    const SE: u64 = 0xfff << 52;
    (a & SE) | (b & !SE)
}
