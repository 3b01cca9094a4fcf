//! IEEE S and T arithmetic and comparison.
//!
//! Each instruction tries the host's FPU (`host` says when that is right) and otherwise takes the
//! integer path in [`exact`], which decides values, flags and traps for every operand.

use super::fpcr::{DNO, Fpcr, exc, report};
use super::unpacked::{Unpacked, round, shift_right_sticky};
use super::{FpResult, Qual, Rounding, SIGN, TRUE, host};

/// The NaN that an invalid operation generates (AARM 4.7.10.3).
pub const CANONICAL_NAN: u64 = 0xfff8_0000_0000_0000;

const INFINITY: u64 = 0x7ff << 52;
const FRACTION: u64 = (1 << 52) - 1;
const QUIET: u64 = 1 << 51;

macro_rules! operate {
    ($($name:ident, $host:expr, $exact:path, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[inline]
        pub fn $name(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
            #[allow(clippy::redundant_closure_call, reason = "the fast path is given as a closure")]
            match $host(a, b, q, fpcr) {
                Some(result) => result,
                None => $exact(a, b, q, fpcr),
            }
        }
    )*};
}

operate! {
    add_s, |a, b, q, f| host::s2(a, b, q, f, |x, y| x + y), exact::add::<true>, "ADDS.";
    add_t, |a, b, q, f| host::t2(a, b, q, f, |x, y| x + y), exact::add::<false>, "ADDT.";
    sub_s, |a, b, q, f| host::s2(a, b, q, f, |x, y| x - y), exact::sub::<true>, "SUBS.";
    sub_t, |a, b, q, f| host::t2(a, b, q, f, |x, y| x - y), exact::sub::<false>, "SUBT.";
    mul_s, |a, b, q, f| host::s2(a, b, q, f, |x, y| x * y), exact::mul::<true>, "MULS.";
    mul_t, |a, b, q, f| host::t2(a, b, q, f, |x, y| x * y), exact::mul::<false>, "MULT.";
    div_s, |a, b, q, f| host::s2(a, b, q, f, |x, y| x / y), exact::div::<true>, "DIVS.";
    div_t, |a, b, q, f| host::t2(a, b, q, f, |x, y| x / y), exact::div::<false>, "DIVT.";
    sqrt_s, |_, b, q, f| host::sqrt_s(b, q, f), exact::sqrt::<true>, "SQRTS; `a` is ignored.";
    sqrt_t, |_, b, q, f| host::sqrt_t(b, q, f), exact::sqrt::<false>, "SQRTT; `a` is ignored.";
}

/// CMPTEQ.
#[inline]
pub fn cmpteq(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
    compare(a, b, q, fpcr, false, |order| order == Some(std::cmp::Ordering::Equal))
}

/// CMPTLT.
#[inline]
pub fn cmptlt(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
    compare(a, b, q, fpcr, true, |order| order == Some(std::cmp::Ordering::Less))
}

/// CMPTLE.
#[inline]
pub fn cmptle(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
    compare(a, b, q, fpcr, true, |order| matches!(order, Some(o) if o.is_le()))
}

/// CMPTUN: true if either operand is a NaN.
#[inline]
pub fn cmptun(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
    compare(a, b, q, fpcr, false, |order| order.is_none())
}

/// Compares as sign and magnitude. Infinities are ordinary here, even without /S (AARM 4.7.7.4).
#[inline(always)]
fn compare(
    a: u64,
    b: u64,
    q: Qual,
    fpcr: u64,
    ordered: bool,
    test: impl Fn(Option<std::cmp::Ordering>) -> bool,
) -> FpResult {
    let key = |bits: u64| {
        let magnitude = (bits & !SIGN) as i64;
        if bits & SIGN != 0 { -magnitude } else { magnitude }
    };
    let value = |order| if test(order) { TRUE } else { 0 };
    if (host::is_normal(a) || a & !SIGN == 0) && (host::is_normal(b) || b & !SIGN == 0) {
        return FpResult::clean(value(Some(key(a).cmp(&key(b)))));
    }
    let mut raised = 0;
    let a = compare_operand(a, q, fpcr, ordered, &mut raised);
    let b = compare_operand(b, q, fpcr, ordered, &mut raised);
    let order = match (a, b) {
        (Some(a), Some(b)) => Some(key(a).cmp(&key(b))),
        _ => None,
    };
    FpResult { value: value(order), exc: report(raised, q, fpcr) }
}

/// An operand of a compare: `None` for a NaN, a zero for a denormal under DNZ.
fn compare_operand(bits: u64, q: Qual, fpcr: u64, ordered: bool, raised: &mut u64) -> Option<u64> {
    if is_nan(bits) {
        if ordered || is_signalling(bits) || !q.completion() {
            *raised |= exc::INV;
        }
        return None;
    }
    let denormal = bits & INFINITY == 0 && bits & FRACTION != 0;
    if denormal && denormal_operand(q, fpcr, raised) { Some(bits & SIGN) } else { Some(bits) }
}

const fn is_nan(bits: u64) -> bool {
    bits & !SIGN > INFINITY
}

const fn is_signalling(bits: u64) -> bool {
    is_nan(bits) && bits & QUIET == 0
}

/// What a denormal operand raises; true if it counts as zero (AARM 4.7.7.11).
fn denormal_operand(q: Qual, fpcr: u64, raised: &mut u64) -> bool {
    if !q.completion() {
        *raised |= exc::INV;
        false
    } else if fpcr & Fpcr::DNZ.bits() != 0 {
        true
    } else {
        if fpcr & Fpcr::DNOD.bits() == 0 {
            *raised |= DNO;
        }
        false
    }
}

/// An operand by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operand {
    Zero(bool),
    Finite(Unpacked),
    Infinity(bool),
    Nan,
}

/// Classifies an operand and raises what it raises by itself.
///
/// A denormal S number has the exponent field 0 in the register too, so the same bits stand for
/// another value than in T. Other S operands need not be exact singles: the manual leaves the
/// result open (AARM 4.7.1), here it is that of the exact operation, rounded once.
#[inline]
pub(super) fn unpack<const SINGLE: bool>(
    bits: u64,
    q: Qual,
    fpcr: u64,
    raised: &mut u64,
) -> Operand {
    let sign = bits & SIGN != 0;
    let fraction = bits & FRACTION;
    match ((bits >> 52) & 0x7ff) as i32 {
        0 if fraction == 0 => Operand::Zero(sign),
        0 => {
            if denormal_operand(q, fpcr, raised) {
                return Operand::Zero(sign);
            }
            let unit = if SINGLE { -126 - 52 } else { -1022 - 52 };
            Operand::Finite(Unpacked::normalise(sign, unit + 63, fraction))
        }
        0x7ff => {
            let nan = fraction != 0;
            if !q.completion() || (nan && fraction & QUIET == 0) {
                *raised |= exc::INV;
            }
            if nan { Operand::Nan } else { Operand::Infinity(sign) }
        }
        exp => Operand::Finite(Unpacked { sign, exp: exp - 1023, frac: (fraction << 11) | SIGN }),
    }
}

/// The NaN result of two operands: Fb if it is one, else Fa, made quiet (AARM 4.7.10.4).
pub(super) const fn propagate<const SINGLE: bool>(a: u64, b: u64) -> u64 {
    let nan = (if is_nan(b) { b } else { a }) | QUIET;
    if SINGLE { nan & !0x1fff_ffff } else { nan }
}

/// A signed infinity.
pub(super) const fn infinity(sign: bool) -> u64 {
    INFINITY | zero(sign)
}

/// A signed zero.
pub(super) const fn zero(sign: bool) -> u64 {
    (sign as u64) << 63
}

/// Rounds a number into its register image and raises overflow, underflow and inexact.
///
/// Underflow is judged on the result rounded as if the exponent had no limit, exact or not (AARM
/// 4.7.7.7; the 21264 and the kernel's completion do the same, where IEEE 754 would ask for a loss
/// of accuracy too). The denormal is delivered only by /SU, and not with UNFD and UNDZ; otherwise
/// true zero, which counts as inexact (AARM 4.7.7.11).
#[inline]
pub(super) fn pack<const SINGLE: bool>(u: Unpacked, q: Qual, fpcr: u64, raised: &mut u64) -> u64 {
    let (precision, least, greatest) = if SINGLE { (24, -126, 127) } else { (53, -1022, 1023) };
    let mode = q.rounding(fpcr);
    let (mut kept, inexact) = round(u.frac, precision, mode, u.sign);
    let mut exp = u.exp;
    if kept >> precision != 0 {
        kept >>= 1;
        exp += 1;
    }
    if exp > greatest {
        *raised |= exc::OVF | exc::INE;
        let away = match mode {
            Rounding::Chopped => false,
            Rounding::Minus => u.sign,
            Rounding::Plus => !u.sign,
            Rounding::Nearest | Rounding::VaxNormal => true,
        };
        if away {
            return infinity(u.sign);
        }
        (kept, exp) = ((1 << precision) - 1, greatest);
    } else if exp < least {
        *raised |= exc::UNF;
        let to_zero = (Fpcr::UNFD.bits() | Fpcr::UNDZ.bits()) & !fpcr == 0;
        if !(q.completion() && q.underflow()) || to_zero {
            *raised |= exc::INE;
            return 0;
        }
        let shifted = shift_right_sticky(u.frac, (least - u.exp) as u32);
        let (kept, inexact) = round(shifted, precision, mode, u.sign);
        if inexact {
            *raised |= exc::INE;
        }
        // A carry into the smallest normal number: in S its exponent field is not 1.
        if kept >> (precision - 1) != 0 {
            return zero(u.sign) | ((least + 1023) as u64) << 52;
        }
        return zero(u.sign) | kept << (53 - precision);
    } else if inexact {
        *raised |= exc::INE;
    }
    zero(u.sign) | ((exp + 1023) as u64) << 52 | ((kept << (53 - precision)) & FRACTION)
}

/// Ends an operation. Without /S a trapping operand precludes the result's own conditions.
#[inline]
pub(super) fn finish(value: u64, operands: u64, result: u64, q: Qual, fpcr: u64) -> FpResult {
    let raised =
        if operands & exc::INV != 0 && !q.completion() { operands } else { operands | result };
    FpResult { value, exc: report(raised, q, fpcr) }
}

/// The integer path, exact for all operands, roundings and qualifiers.
pub mod exact {
    use super::*;

    /// ADDS, ADDT.
    #[cold]
    #[inline(never)]
    pub fn add<const SINGLE: bool>(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
        sum::<SINGLE>(a, b, false, q, fpcr)
    }

    /// SUBS, SUBT.
    #[cold]
    #[inline(never)]
    pub fn sub<const SINGLE: bool>(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
        sum::<SINGLE>(a, b, true, q, fpcr)
    }

    /// Subtraction turns the sign of the second operand, but not of a NaN that propagates.
    #[inline(always)]
    fn sum<const SINGLE: bool>(a: u64, b: u64, negate: bool, q: Qual, fpcr: u64) -> FpResult {
        use Operand::{Finite, Infinity, Nan, Zero};
        let mut operands = 0;
        let mut result = 0;
        let ua = unpack::<SINGLE>(a, q, fpcr, &mut operands);
        let ub = match unpack::<SINGLE>(b, q, fpcr, &mut operands) {
            Zero(sign) => Zero(sign != negate),
            Finite(u) => Finite(Unpacked { sign: u.sign != negate, ..u }),
            Infinity(sign) => Infinity(sign != negate),
            Nan => Nan,
        };
        // An exact zero sum of opposite signs is +0, but -0 when rounding toward minus infinity.
        let nothing = zero(matches!(q.rounding(fpcr), Rounding::Minus));
        let value = match (ua, ub) {
            (Finite(ua), Finite(ub)) => match ua.add(ub) {
                Some(u) => pack::<SINGLE>(u, q, fpcr, &mut result),
                None => nothing,
            },
            (Nan, _) | (_, Nan) => propagate::<SINGLE>(a, b),
            (Infinity(sa), Infinity(sb)) if sa != sb => {
                result = exc::INV;
                CANONICAL_NAN
            }
            (Infinity(sign), _) | (_, Infinity(sign)) => infinity(sign),
            (Zero(sa), Zero(sb)) => {
                if sa == sb {
                    zero(sa)
                } else {
                    nothing
                }
            }
            // Packed again, since a denormal may have to become zero.
            (Finite(u), Zero(_)) | (Zero(_), Finite(u)) => pack::<SINGLE>(u, q, fpcr, &mut result),
        };
        finish(value, operands, result, q, fpcr)
    }

    /// MULS, MULT.
    #[cold]
    #[inline(never)]
    pub fn mul<const SINGLE: bool>(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
        use Operand::{Finite, Infinity, Nan, Zero};
        let mut operands = 0;
        let mut result = 0;
        let ua = unpack::<SINGLE>(a, q, fpcr, &mut operands);
        let ub = unpack::<SINGLE>(b, q, fpcr, &mut operands);
        let sign = (a ^ b) & SIGN != 0;
        let value = match (ua, ub) {
            (Finite(ua), Finite(ub)) => pack::<SINGLE>(ua.mul(ub), q, fpcr, &mut result),
            (Nan, _) | (_, Nan) => propagate::<SINGLE>(a, b),
            (Infinity(_), Zero(_)) | (Zero(_), Infinity(_)) => {
                result = exc::INV;
                CANONICAL_NAN
            }
            (Infinity(_), _) | (_, Infinity(_)) => infinity(sign),
            (Zero(_), _) | (_, Zero(_)) => zero(sign),
        };
        finish(value, operands, result, q, fpcr)
    }

    /// DIVS, DIVT.
    #[cold]
    #[inline(never)]
    pub fn div<const SINGLE: bool>(a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
        use Operand::{Finite, Infinity, Nan, Zero};
        let mut operands = 0;
        let mut result = 0;
        let ua = unpack::<SINGLE>(a, q, fpcr, &mut operands);
        let ub = unpack::<SINGLE>(b, q, fpcr, &mut operands);
        let sign = (a ^ b) & SIGN != 0;
        let value = match (ua, ub) {
            (Finite(ua), Finite(ub)) => pack::<SINGLE>(ua.div(ub), q, fpcr, &mut result),
            (Nan, _) | (_, Nan) => propagate::<SINGLE>(a, b),
            (Infinity(_), Infinity(_)) | (Zero(_), Zero(_)) => {
                result = exc::INV;
                CANONICAL_NAN
            }
            (Finite(_), Zero(_)) => {
                result = exc::DZE;
                infinity(sign)
            }
            (Infinity(_), _) => infinity(sign),
            (Zero(_), _) | (_, Infinity(_)) => zero(sign),
        };
        finish(value, operands, result, q, fpcr)
    }

    /// SQRTS, SQRTT. The root of -0 is -0.
    #[cold]
    #[inline(never)]
    pub fn sqrt<const SINGLE: bool>(_a: u64, b: u64, q: Qual, fpcr: u64) -> FpResult {
        let mut operands = 0;
        let mut result = 0;
        let value = match unpack::<SINGLE>(b, q, fpcr, &mut operands) {
            Operand::Nan => propagate::<SINGLE>(0, b),
            Operand::Zero(sign) => zero(sign),
            Operand::Infinity(false) => infinity(false),
            Operand::Finite(u) if !u.sign => pack::<SINGLE>(u.sqrt(), q, fpcr, &mut result),
            Operand::Finite(_) | Operand::Infinity(true) => {
                result = exc::INV;
                CANONICAL_NAN
            }
        };
        finish(value, operands, result, q, fpcr)
    }
}
