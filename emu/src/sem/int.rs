//! Integer arithmetic and comparison (AARM 4.4): the meaning of opcodes 0x10 and 0x13.
//!
//! Longword forms look only at bits 31..0 of their operands and sign-extend the 32-bit result, so a
//! longword in a register is always in canonical form. Called through the instruction table.

/// The canonical form of a longword in a register (AARM 4.4: sign extension of bit 31).
#[inline]
const fn longword(value: u32) -> u64 {
    value as i32 as i64 as u64
}

/// ADDL, AARM 4.4.1: longword sum.
#[inline]
pub fn addl(a: u64, b: u64) -> u64 {
    longword((a as u32).wrapping_add(b as u32))
}

/// S4ADDL, AARM 4.4.2: four times `a` plus `b` as a longword.
#[inline]
pub fn s4addl(a: u64, b: u64) -> u64 {
    longword((a as u32).wrapping_mul(4).wrapping_add(b as u32))
}

/// S8ADDL, AARM 4.4.2: eight times `a` plus `b` as a longword.
#[inline]
pub fn s8addl(a: u64, b: u64) -> u64 {
    longword((a as u32).wrapping_mul(8).wrapping_add(b as u32))
}

/// ADDQ, AARM 4.4.3: quadword sum.
#[inline]
pub fn addq(a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

/// S4ADDQ, AARM 4.4.4: four times `a` plus `b`.
#[inline]
pub fn s4addq(a: u64, b: u64) -> u64 {
    a.wrapping_mul(4).wrapping_add(b)
}

/// S8ADDQ, AARM 4.4.4: eight times `a` plus `b`.
#[inline]
pub fn s8addq(a: u64, b: u64) -> u64 {
    a.wrapping_mul(8).wrapping_add(b)
}

/// CMPEQ, AARM 4.4.5: 1 if equal, else 0.
#[inline]
pub fn cmpeq(a: u64, b: u64) -> u64 {
    u64::from(a == b)
}

/// CMPLT, AARM 4.4.5: 1 if `a` is less than `b`, both signed.
#[inline]
pub fn cmplt(a: u64, b: u64) -> u64 {
    u64::from((a as i64) < (b as i64))
}

/// CMPLE, AARM 4.4.5: 1 if `a` is less than or equal to `b`, both signed.
#[inline]
pub fn cmple(a: u64, b: u64) -> u64 {
    u64::from((a as i64) <= (b as i64))
}

/// CMPULT, AARM 4.4.6: 1 if `a` is less than `b`, both unsigned.
#[inline]
pub fn cmpult(a: u64, b: u64) -> u64 {
    u64::from(a < b)
}

/// CMPULE, AARM 4.4.6: 1 if `a` is less than or equal to `b`, both unsigned.
#[inline]
pub fn cmpule(a: u64, b: u64) -> u64 {
    u64::from(a <= b)
}

/// MULL, AARM 4.4.10: low longword of the product.
#[inline]
pub fn mull(a: u64, b: u64) -> u64 {
    longword((a as u32).wrapping_mul(b as u32))
}

/// MULQ, AARM 4.4.11: low quadword of the product.
#[inline]
pub fn mulq(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b)
}

/// UMULH, AARM 4.4.12: high quadword of the unsigned 128-bit product.
#[inline]
pub fn umulh(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// SUBL, AARM 4.4.13: longword difference.
#[inline]
pub fn subl(a: u64, b: u64) -> u64 {
    longword((a as u32).wrapping_sub(b as u32))
}

/// S4SUBL, AARM 4.4.14: four times `a` minus `b` as a longword.
#[inline]
pub fn s4subl(a: u64, b: u64) -> u64 {
    longword((a as u32).wrapping_mul(4).wrapping_sub(b as u32))
}

/// S8SUBL, AARM 4.4.14: eight times `a` minus `b` as a longword.
#[inline]
pub fn s8subl(a: u64, b: u64) -> u64 {
    longword((a as u32).wrapping_mul(8).wrapping_sub(b as u32))
}

/// SUBQ, AARM 4.4.15: quadword difference.
#[inline]
pub fn subq(a: u64, b: u64) -> u64 {
    a.wrapping_sub(b)
}

/// S4SUBQ, AARM 4.4.16: four times `a` minus `b`.
#[inline]
pub fn s4subq(a: u64, b: u64) -> u64 {
    a.wrapping_mul(4).wrapping_sub(b)
}

/// S8SUBQ, AARM 4.4.16: eight times `a` minus `b`.
#[inline]
pub fn s8subq(a: u64, b: u64) -> u64 {
    a.wrapping_mul(8).wrapping_sub(b)
}

// The /V forms write the truncated result before the trap is taken (AARM 4.4.1: "the least
// significant bits of the true result"), so they return both.

/// ADDL/V, AARM 4.4.1: [`addl`] and whether the signed longword sum overflowed.
#[inline]
pub fn addl_v(a: u64, b: u64) -> (u64, bool) {
    let (value, overflow) = (a as i32).overflowing_add(b as i32);
    (longword(value as u32), overflow)
}

/// ADDQ/V, AARM 4.4.3: [`addq`] and whether the signed sum overflowed.
#[inline]
pub fn addq_v(a: u64, b: u64) -> (u64, bool) {
    let (value, overflow) = (a as i64).overflowing_add(b as i64);
    (value as u64, overflow)
}

/// SUBL/V, AARM 4.4.13: [`subl`] and whether the signed longword difference overflowed.
#[inline]
pub fn subl_v(a: u64, b: u64) -> (u64, bool) {
    let (value, overflow) = (a as i32).overflowing_sub(b as i32);
    (longword(value as u32), overflow)
}

/// SUBQ/V, AARM 4.4.15: [`subq`] and whether the signed difference overflowed.
#[inline]
pub fn subq_v(a: u64, b: u64) -> (u64, bool) {
    let (value, overflow) = (a as i64).overflowing_sub(b as i64);
    (value as u64, overflow)
}

/// MULL/V, AARM 4.4.10: [`mull`] and whether the signed product exceeds a longword.
#[inline]
pub fn mull_v(a: u64, b: u64) -> (u64, bool) {
    let (value, overflow) = (a as i32).overflowing_mul(b as i32);
    (longword(value as u32), overflow)
}

/// MULQ/V, AARM 4.4.11: [`mulq`] and whether the signed product exceeds a quadword.
#[inline]
pub fn mulq_v(a: u64, b: u64) -> (u64, bool) {
    let (value, overflow) = (a as i64).overflowing_mul(b as i64);
    (value as u64, overflow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sem::testing::{corner_pairs, operand};
    use proptest::prelude::*;

    /// The signed 128-bit value of a register.
    fn wide(v: u64) -> i128 {
        i128::from(v as i64)
    }

    /// The signed 128-bit value of the longword in a register.
    fn wide_long(v: u64) -> i128 {
        i128::from(v as i32)
    }

    /// Truncates an exact result to a longword, with the overflow flag.
    fn long_result(exact: i128) -> (u64, bool) {
        let kept = (exact as u128 & 0xffff_ffff) as i128;
        let signed = if kept >= 1 << 31 { kept - (1 << 32) } else { kept };
        (signed as u64, signed != exact)
    }

    /// Truncates an exact result to a quadword, with the overflow flag.
    fn quad_result(exact: i128) -> (u64, bool) {
        let kept = exact as u128 & u128::from(u64::MAX);
        let signed = if kept >= 1 << 63 { kept as i128 - (1 << 64) } else { kept as i128 };
        (kept as u64, signed != exact)
    }

    fn check_all(a: u64, b: u64) {
        let (la, lb, qa, qb) = (wide_long(a), wide_long(b), wide(a), wide(b));
        type Plain = fn(u64, u64) -> u64;
        type Flagged = fn(u64, u64) -> (u64, bool);
        let longs: [(&str, Plain, i128); 7] = [
            ("addl", addl, la + lb),
            ("subl", subl, la - lb),
            ("mull", mull, la * lb),
            ("s4addl", s4addl, 4 * la + lb),
            ("s8addl", s8addl, 8 * la + lb),
            ("s4subl", s4subl, 4 * la - lb),
            ("s8subl", s8subl, 8 * la - lb),
        ];
        for (name, f, exact) in longs {
            assert_eq!(f(a, b), long_result(exact).0, "{name} {a:#x} {b:#x}");
        }
        let quads: [(&str, Plain, i128); 7] = [
            ("addq", addq, qa + qb),
            ("subq", subq, qa - qb),
            ("mulq", mulq, qa * qb),
            ("s4addq", s4addq, 4 * qa + qb),
            ("s8addq", s8addq, 8 * qa + qb),
            ("s4subq", s4subq, 4 * qa - qb),
            ("s8subq", s8subq, 8 * qa - qb),
        ];
        for (name, f, exact) in quads {
            assert_eq!(f(a, b), quad_result(exact).0, "{name} {a:#x} {b:#x}");
        }
        let flagged: [(&str, Flagged, (u64, bool)); 6] = [
            ("addl/v", addl_v, long_result(la + lb)),
            ("subl/v", subl_v, long_result(la - lb)),
            ("mull/v", mull_v, long_result(la * lb)),
            ("addq/v", addq_v, quad_result(qa + qb)),
            ("subq/v", subq_v, quad_result(qa - qb)),
            ("mulq/v", mulq_v, quad_result(qa * qb)),
        ];
        for (name, f, expected) in flagged {
            assert_eq!(f(a, b), expected, "{name} {a:#x} {b:#x}");
        }
        let (ua, ub) = (u128::from(a), u128::from(b));
        let compares: [(&str, Plain, bool); 5] = [
            ("cmpeq", cmpeq, ua == ub),
            ("cmplt", cmplt, qa < qb),
            ("cmple", cmple, qa <= qb),
            ("cmpult", cmpult, ua < ub),
            ("cmpule", cmpule, ua <= ub),
        ];
        for (name, f, expected) in compares {
            assert_eq!(f(a, b), u64::from(expected), "{name} {a:#x} {b:#x}");
        }
        assert_eq!(umulh(a, b), umulh_by_halves(a, b), "umulh {a:#x} {b:#x}");
    }

    /// Schoolbook product of 32-bit halves, independent of 128-bit arithmetic.
    fn umulh_by_halves(a: u64, b: u64) -> u64 {
        let (al, ah, bl, bh) = (a & 0xffff_ffff, a >> 32, b & 0xffff_ffff, b >> 32);
        let middle = ah * bl + ((al * bl) >> 32);
        let low_middle = al * bh + (middle & 0xffff_ffff);
        ah * bh + (middle >> 32) + (low_middle >> 32)
    }

    #[test]
    fn arithmetic_agrees_with_exact_results_on_corners() {
        corner_pairs(check_all);
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_exact_results(a in operand(), b in operand()) {
            check_all(a, b);
        }
    }

    #[test]
    fn overflow_is_neither_invented_nor_missed() {
        // 0 - 0x7d54000 fits: an implementation that tests the operand's sign wrongly traps here.
        assert_eq!(subq_v(0, 0x7d5_4000), (0u64.wrapping_sub(0x7d5_4000), false));
        assert_eq!(subq_v(0, 1 << 63), (1 << 63, true));
        assert_eq!(addl_v(0x7fff_ffff, 1), (0xffff_ffff_8000_0000, true));
        assert_eq!(mulq_v(1 << 63, u64::MAX), (1 << 63, true));
        // Only bits 31..0 count: dirty upper halves neither cause nor hide an overflow.
        assert_eq!(addl_v(0x7fff_ffff_0000_0001, 0x1234_5678_0000_0002), (3, false));
    }
}
