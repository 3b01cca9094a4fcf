//! IEEE conversions: T to S and back, to and from quadword, and longword to quadword and back.

use super::fpcr::{exc, report};
use super::ieee::{Operand, finish, infinity, pack, propagate, unpack, zero};
use super::unpacked::Unpacked;
use super::{FpResult, Qual, host};

/// CVTTS: T to S. `a` is ignored, as in all functions of this file.
#[inline]
pub fn cvtts(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
    match host::cvtts(b, q, fpcr) {
        Some(result) => result,
        None => exact::cvtts(a, b, q, fpcr),
    }
}

/// CVTST: S to T, always exact; only non-finite operands do anything at all.
///
/// Its base function code has the bit that means /I elsewhere, and nothing here looks at it.
#[inline]
pub fn cvtst(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
    if host::is_normal(b) { FpResult::clean(b) } else { exact::cvtst(a, b, q, fpcr) }
}

/// CVTTQ: T to quadword.
#[inline]
pub fn cvttq(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
    match host::cvttq(b, q, fpcr) {
        Some(result) => result,
        None => exact::cvttq(a, b, q, fpcr),
    }
}

/// CVTQS: quadword to S.
#[inline]
pub fn cvtqs(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
    match host::cvtqs(b, q, fpcr) {
        Some(result) => result,
        None => exact::cvtq::<true>(a, b, q, fpcr),
    }
}

/// CVTQT: quadword to T.
#[inline]
pub fn cvtqt(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
    match host::cvtqt(b, q, fpcr) {
        Some(result) => result,
        None => exact::cvtq::<false>(a, b, q, fpcr),
    }
}

/// CVTQL: quadword to longword in register format; /V reports what does not fit (AARM 4.10.2).
#[inline]
pub fn cvtql(_a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
    let value = ((b & 0xc000_0000) << 32) | ((b & 0x3fff_ffff) << 29);
    if b as i64 == i64::from(b as i32) {
        FpResult::clean(value)
    } else {
        FpResult { value, exc: report(exc::IOV, q, fpcr) }
    }
}

/// CVTLQ: longword in register format to quadword.
#[inline]
pub fn cvtlq(_a: u64, b: u64, _q: Qual, _fpcr: u64) -> FpResult {
    FpResult::clean(super::memfmt::register_to_s(b) as i32 as u64)
}

/// The integer path, exact for all operands, roundings and qualifiers.
pub mod exact {
    use super::*;

    /// CVTTS.
    #[cold]
    #[inline(never)]
    pub fn cvtts(_a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
        let mut operands = 0;
        let mut result = 0;
        let value = match unpack::<false>(b, q, fpcr, &mut operands) {
            Operand::Finite(u) => pack::<true>(u, q, fpcr, &mut result),
            Operand::Zero(sign) => zero(sign),
            Operand::Infinity(sign) => infinity(sign),
            Operand::Nan => propagate::<true>(0, b),
        };
        finish(value, operands, result, q, fpcr)
    }

    /// CVTST. A denormal is normalised, a signalling NaN made quiet.
    #[cold]
    #[inline(never)]
    pub fn cvtst(_a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
        let mut raised = 0;
        let value = match unpack::<true>(b, q, fpcr, &mut raised) {
            Operand::Finite(u) => pack::<false>(u, q, fpcr, &mut 0),
            Operand::Zero(sign) => zero(sign),
            Operand::Infinity(sign) => infinity(sign),
            Operand::Nan => propagate::<false>(0, b),
        };
        FpResult { value, exc: report(raised, q, fpcr) }
    }

    /// CVTTQ.
    ///
    /// An infinity or signalling NaN is invalid, a quiet NaN gives zero silently (AARM Table B-2).
    /// An integer outside the range leaves its low 64 bits and raises integer overflow and, since
    /// the result differs from the true one, inexact. The kernel's completion would also record INV;
    /// here the FPCR keeps what the processor records, IOV alone.
    #[cold]
    #[inline(never)]
    pub fn cvttq(_a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
        let mut operands = 0;
        let mut result = 0;
        let value = match unpack::<false>(b, q, fpcr, &mut operands) {
            Operand::Finite(u) => {
                let (value, overflow, inexact) = u.to_integer(q.rounding(fpcr));
                if overflow {
                    result |= exc::IOV | exc::INE;
                }
                if inexact {
                    result |= exc::INE;
                }
                value
            }
            Operand::Zero(_) | Operand::Nan => 0,
            Operand::Infinity(_) => {
                result = exc::INV;
                0
            }
        };
        finish(value, operands, result, q, fpcr)
    }

    /// CVTQS, CVTQT.
    #[cold]
    #[inline(never)]
    pub fn cvtq<const SINGLE: bool>(_a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
        let mut raised = 0;
        let value = match Unpacked::from_integer(b) {
            Some(u) => pack::<SINGLE>(u, q, fpcr, &mut raised),
            None => 0,
        };
        FpResult { value, exc: report(raised, q, fpcr) }
    }
}
