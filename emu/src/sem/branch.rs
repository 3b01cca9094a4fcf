//! Conditions of branches and conditional moves (AARM 4.3.1, 4.5.2, 4.9, 4.10.3).
//!
//! One condition serves BEQ and CMOVEQ alike. The floating ones read the 64-bit register image:
//! only sign and zero count (AARM 4.9), so minus zero is zero and a NaN is a number like any other.

/// Everything but the sign of a floating register.
const MAGNITUDE: u64 = u64::MAX >> 1;

/// BEQ, CMOVEQ: zero.
#[inline]
pub fn eq(a: u64) -> bool {
    a == 0
}

/// BNE, CMOVNE: not zero.
#[inline]
pub fn ne(a: u64) -> bool {
    a != 0
}

/// BLT, CMOVLT: negative.
#[inline]
pub fn lt(a: u64) -> bool {
    (a as i64) < 0
}

/// BLE, CMOVLE: negative or zero.
#[inline]
pub fn le(a: u64) -> bool {
    (a as i64) <= 0
}

/// BGT, CMOVGT: positive.
#[inline]
pub fn gt(a: u64) -> bool {
    (a as i64) > 0
}

/// BGE, CMOVGE: positive or zero.
#[inline]
pub fn ge(a: u64) -> bool {
    (a as i64) >= 0
}

/// BLBC, CMOVLBC: low bit clear.
#[inline]
pub fn lbc(a: u64) -> bool {
    a & 1 == 0
}

/// BLBS, CMOVLBS: low bit set.
#[inline]
pub fn lbs(a: u64) -> bool {
    a & 1 != 0
}

/// FBEQ, FCMOVEQ: zero of either sign.
#[inline]
pub fn feq(a: u64) -> bool {
    a & MAGNITUDE == 0
}

/// FBNE, FCMOVNE: not a zero of either sign.
#[inline]
pub fn fne(a: u64) -> bool {
    a & MAGNITUDE != 0
}

/// FBLT, FCMOVLT: sign set and not zero.
#[inline]
pub fn flt(a: u64) -> bool {
    a > 1 << 63
}

/// FBLE, FCMOVLE: sign set or zero.
#[inline]
pub fn fle(a: u64) -> bool {
    (a as i64) <= 0
}

/// FBGT, FCMOVGT: sign clear and not zero.
#[inline]
pub fn fgt(a: u64) -> bool {
    (a as i64) > 0
}

/// FBGE, FCMOVGE: sign clear or zero.
#[inline]
pub fn fge(a: u64) -> bool {
    a <= 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sem::testing::{CORNERS, operand};
    use proptest::prelude::*;

    type Condition = fn(u64) -> bool;

    fn check_integer(a: u64) {
        let v = i128::from(a as i64);
        let got = [eq, ne, lt, le, gt, ge, lbc, lbs].map(|f: Condition| f(a));
        let odd = v.rem_euclid(2) == 1;
        assert_eq!(got, [v == 0, v != 0, v < 0, v <= 0, v > 0, v >= 0, !odd, odd], "{a:#x}");
    }

    fn check_floating(a: u64) {
        let negative = a >> 63 == 1;
        let zero = a << 1 == 0;
        let got = [feq, fne, flt, fle, fgt, fge].map(|f: Condition| f(a));
        let expected = [
            zero,
            !zero,
            negative && !zero,
            negative || zero,
            !negative && !zero,
            !negative || zero,
        ];
        assert_eq!(got, expected, "{a:#x}");
    }

    #[test]
    fn conditions_agree_with_the_model_on_corners() {
        CORNERS.into_iter().for_each(check_integer);
        CORNERS.into_iter().for_each(check_floating);
        let special = [f64::NAN, f64::INFINITY, 1.0, f64::MIN_POSITIVE, 5e-324, 0.0];
        special.into_iter().for_each(|v| {
            check_floating(v.to_bits());
            check_floating((-v).to_bits());
        });
    }

    #[test]
    fn minus_zero_is_zero_and_nan_is_a_number() {
        let minus_zero = (-0.0f64).to_bits();
        assert!(feq(minus_zero) && fge(minus_zero) && fle(minus_zero));
        assert!(!flt(minus_zero) && !fne(minus_zero) && !fgt(minus_zero));
        assert!(fgt(0x7ff8_0000_0000_0000) && flt(0xfff8_0000_0000_0000));
    }

    proptest! {
        #[test]
        fn conditions_agree_with_the_model(a in operand()) {
            check_integer(a);
            check_floating(a);
        }
    }
}
