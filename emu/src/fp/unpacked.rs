//! The arithmetic under both formats: finite, non-zero, normalised numbers with a sticky bit.
//!
//! `ieee`, `vax` and `convert` unpack register images into [`Unpacked`], compute here exactly up to
//! the sticky bit, and round once into their own format. Own integer code instead of a soft-float
//! crate because it is also the interpreter's and the JIT's cold path, several times per
//! microsecond, and because VAX rounding and an exact square root are needed anyway.

use super::fpcr::Rounding;

/// The number (-1)^sign * frac * 2^(exp - 63), with bit 63 of `frac` set, so in [1, 2) * 2^exp.
///
/// Operands have at most 56 significant bits. Results keep 64, the lowest of which is sticky: it is
/// also set when any lower bit of the exact result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unpacked {
    /// Negative?
    pub sign: bool,
    /// Exponent of the leading bit.
    pub exp: i32,
    /// Fraction with the leading bit at 63.
    pub frac: u64,
}

/// Shifts right and ORs all lost bits into the lowest.
#[inline(always)]
pub const fn shift_right_sticky(frac: u64, count: u32) -> u64 {
    match count {
        0 => frac,
        1..64 => (frac >> count) | (frac << (64 - count) != 0) as u64,
        _ => (frac != 0) as u64,
    }
}

/// Is a magnitude rounded up? `odd`: the bit that stays is odd; `rest` and `half`: what falls off.
#[inline(always)]
pub const fn rounds_up(mode: Rounding, sign: bool, odd: bool, rest: u64, half: u64) -> bool {
    match mode {
        Rounding::Chopped => false,
        Rounding::Minus => sign && rest != 0,
        Rounding::Plus => !sign && rest != 0,
        Rounding::Nearest => rest > half || (rest == half && odd),
        Rounding::VaxNormal => rest >= half,
    }
}

/// Rounds a fraction to its leading `precision` bits, which come back right-justified; the second
/// value tells whether that was inexact. A carry out shows as a result of 2^precision.
#[inline(always)]
pub const fn round(frac: u64, precision: u32, mode: Rounding, sign: bool) -> (u64, bool) {
    let drop = 64 - precision;
    let kept = frac >> drop;
    let rest = frac & ((1 << drop) - 1);
    let up = rounds_up(mode, sign, kept & 1 != 0, rest, 1 << (drop - 1));
    (kept + up as u64, rest != 0)
}

impl Unpacked {
    /// Normalises frac * 2^(exp - 63); `frac` must not be zero.
    #[inline(always)]
    pub const fn normalise(sign: bool, exp: i32, frac: u64) -> Self {
        let shift = frac.leading_zeros() & 63;
        Self { sign, exp: exp - shift as i32, frac: frac << shift }
    }

    /// An integer as a number; `None` for zero.
    #[inline(always)]
    pub const fn from_integer(value: u64) -> Option<Self> {
        let sign = (value as i64) < 0;
        let magnitude = (value as i64).unsigned_abs();
        if magnitude == 0 { None } else { Some(Self::normalise(sign, 63, magnitude)) }
    }

    /// The sum, or `None` when it is exactly zero.
    #[inline]
    pub const fn add(self, other: Self) -> Option<Self> {
        let other_is_larger =
            other.exp > self.exp || (other.exp == self.exp && other.frac > self.frac);
        let (large, small) = if other_is_larger { (other, self) } else { (self, other) };
        // One bit of room for the carry. Operands have zeros in their low 8 bits, so nothing is lost.
        let a = large.frac >> 1;
        let b = shift_right_sticky(small.frac >> 1, (large.exp - small.exp) as u32);
        let frac = if large.sign == small.sign { a + b } else { a - b };
        // A sticky bit is set only for distances over 7, and then cancellation shifts left by at
        // most two, so it stays far below the rounding position.
        if frac == 0 { None } else { Some(Self::normalise(large.sign, large.exp + 1, frac)) }
    }

    /// The product.
    #[inline]
    pub const fn mul(self, other: Self) -> Self {
        let product = self.frac as u128 * other.frac as u128;
        let high = (product >> 64) as u64;
        let shift = high.leading_zeros() & 1;
        let product = product << shift;
        Self {
            sign: self.sign != other.sign,
            exp: self.exp + other.exp + 1 - shift as i32,
            frac: (product >> 64) as u64 | (product as u64 != 0) as u64,
        }
    }

    /// The quotient.
    #[inline]
    pub const fn div(self, other: Self) -> Self {
        let below = self.frac < other.frac;
        let dividend = (self.frac as u128) << if below { 64 } else { 63 };
        let divisor = other.frac as u128;
        let quotient = dividend / divisor;
        let inexact = quotient * divisor != dividend;
        Self {
            sign: self.sign != other.sign,
            exp: self.exp - other.exp - below as i32,
            frac: quotient as u64 | inexact as u64,
        }
    }

    /// The square root of the magnitude. `u128::isqrt` takes a fixed number of steps.
    #[inline]
    pub const fn sqrt(self) -> Self {
        let odd = self.exp & 1;
        let radicand = (self.frac as u128) << (63 + odd);
        let root = radicand.isqrt();
        let inexact = root * root != radicand;
        Self { sign: false, exp: (self.exp - odd) >> 1, frac: root as u64 | inexact as u64 }
    }

    /// The low 64 bits of the number rounded to an integer, whether it is outside
    /// -2^63..2^63-1, and whether rounding was inexact.
    #[inline]
    pub fn to_integer(self, mode: Rounding) -> (u64, bool, bool) {
        let negate = |magnitude: u64| if self.sign { magnitude.wrapping_neg() } else { magnitude };
        if self.exp >= 63 {
            let shift = (self.exp - 63) as u32;
            let magnitude = if shift < 64 { self.frac << shift } else { 0 };
            let fits = self.exp == 63 && self.sign && self.frac == 1 << 63;
            return (negate(magnitude), !fits, false);
        }
        // Below a quarter, only "not zero and less than half" matters.
        let exp = if self.exp < -2 { -2 } else { self.exp };
        let fixed = ((self.frac as u128) << 64) >> (63 - exp);
        let (whole, rest) = ((fixed >> 64) as u64, fixed as u64);
        let up = rounds_up(mode, self.sign, whole & 1 != 0, rest, 1 << 63);
        let magnitude = whole + up as u64;
        (negate(magnitude), false, rest != 0)
    }
}
