//! The host's FPU as a fast path, and the exact conditions under which it may be used.
//!
//! `ieee` and `convert` ask here first and fall back to the integer code. Compiled code that uses
//! the host's FPU has to keep to the same conditions:
//!
//! * [`usable`]: rounding is to nearest (the host's default, which Rust code always runs under) and
//!   the instruction has no /I, so that INE, which the host knows only in MXCSR, is not asked for.
//! * Every operand is a normal number ([`is_normal`]): no infinity or NaN, which trap without /S and
//!   propagate by other rules; no denormal, which traps without /S, depends on DNZ and DNOD with
//!   it, and in S format has another value than the same bits in T; and no zero, so that one
//!   comparison answers all of it.
//! * The result is finite and larger in magnitude than the smallest normal number. That number itself is
//!   excluded because a result that was rounded up to it may count as underflow (AARM 4.7.7.7).
//!
//! Then no condition but INE can have been raised, and the result does not depend on the FPCR.
//!
//! S format: an operation in T and a second rounding to S gives the S result, since 53 >= 2 * 24 + 2
//! (add, subtract, multiply, divide, square root), if the operands have at most 24 significant bits
//! ([`is_single`]). The exponents may be any.

use super::{FpResult, Qual, Rounding};

const EXPONENT: u64 = 0x7ff;

/// Do rounding and qualifiers allow the host's arithmetic?
#[inline(always)]
pub const fn usable(q: Qual, fpcr: u64) -> bool {
    !q.inexact() && matches!(q.rounding(fpcr), Rounding::Nearest)
}

/// Is this T image a normal number?
#[inline(always)]
pub const fn is_normal(bits: u64) -> bool {
    ((bits >> 52) & EXPONENT).wrapping_sub(1) < EXPONENT - 1
}

/// Has this image no more significant bits than an S number?
#[inline(always)]
pub const fn is_single(bits: u64) -> bool {
    bits & 0x1fff_ffff == 0
}

/// Is this T result finite and above the smallest normal number?
#[inline(always)]
const fn t_in_range(bits: u64) -> bool {
    const LEAST: u64 = (1 << 52) + 1;
    (bits & !super::SIGN).wrapping_sub(LEAST) < (EXPONENT << 52) - LEAST
}

/// Is this S result, in memory format, finite and above the smallest normal number?
#[inline(always)]
const fn s_in_range(bits: u32) -> bool {
    const LEAST: u32 = (1 << 23) + 1;
    (bits & 0x7fff_ffff).wrapping_sub(LEAST) < (0xff << 23) - LEAST
}

#[inline(always)]
fn t_result(result: f64) -> Option<FpResult> {
    let bits = result.to_bits();
    t_in_range(bits).then_some(FpResult::clean(bits))
}

#[inline(always)]
fn s_result(result: f64) -> Option<FpResult> {
    let single = result as f32;
    // The exponent map of LDS is the conversion to double for numbers in range.
    s_in_range(single.to_bits()).then_some(FpResult::clean((single as f64).to_bits()))
}

/// A two-operand T operation.
#[inline(always)]
pub fn t2(a: u64, b: u64, q: Qual, fpcr: u64, op: impl Fn(f64, f64) -> f64) -> Option<FpResult> {
    if !(usable(q, fpcr) && is_normal(a) && is_normal(b)) {
        return None;
    }
    t_result(op(f64::from_bits(a), f64::from_bits(b)))
}

/// A two-operand S operation.
#[inline(always)]
pub fn s2(a: u64, b: u64, q: Qual, fpcr: u64, op: impl Fn(f64, f64) -> f64) -> Option<FpResult> {
    if !(usable(q, fpcr) && is_normal(a) && is_normal(b) && is_single(a | b)) {
        return None;
    }
    s_result(op(f64::from_bits(a), f64::from_bits(b)))
}

/// SQRTT; the square root of a negative number fails the test on the result.
#[inline(always)]
pub fn sqrt_t(b: u64, q: Qual, fpcr: u64) -> Option<FpResult> {
    if !(usable(q, fpcr) && is_normal(b)) {
        return None;
    }
    t_result(f64::from_bits(b).sqrt())
}

/// SQRTS.
#[inline(always)]
pub fn sqrt_s(b: u64, q: Qual, fpcr: u64) -> Option<FpResult> {
    if !(usable(q, fpcr) && is_normal(b) && is_single(b)) {
        return None;
    }
    s_result(f64::from_bits(b).sqrt())
}

/// CVTTS: one rounding, so any normal operand will do.
#[inline(always)]
pub fn cvtts(b: u64, q: Qual, fpcr: u64) -> Option<FpResult> {
    if !(usable(q, fpcr) && is_normal(b)) {
        return None;
    }
    s_result(f64::from_bits(b))
}

/// CVTTQ/C of a normal number below 2^63 in magnitude: the host's conversion chops too.
#[inline(always)]
pub fn cvttq(b: u64, q: Qual, fpcr: u64) -> Option<FpResult> {
    const TWO_63: u64 = 0x43e << 52;
    let chopped = matches!(q.rounding(fpcr), Rounding::Chopped);
    if !(chopped && !q.inexact() && is_normal(b) && b & !super::SIGN < TWO_63) {
        return None;
    }
    Some(FpResult::clean(f64::from_bits(b) as i64 as u64))
}

/// CVTQT: nothing but INE can be raised.
#[inline(always)]
pub fn cvtqt(b: u64, q: Qual, fpcr: u64) -> Option<FpResult> {
    usable(q, fpcr).then(|| FpResult::clean((b as i64 as f64).to_bits()))
}

/// CVTQS: likewise.
#[inline(always)]
pub fn cvtqs(b: u64, q: Qual, fpcr: u64) -> Option<FpResult> {
    usable(q, fpcr).then(|| FpResult::clean(f64::from(b as i64 as f32).to_bits()))
}
