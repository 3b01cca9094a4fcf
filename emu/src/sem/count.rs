//! Counts over a quadword (AARM 4.4.7-4.4.9, the CIX extension).
//!
//! The encodings have no first operand: each function takes and ignores `a` so that the instruction
//! table can treat it like every other operate instruction.

/// CTLZ, AARM 4.4.7: leading zero bits, 64 for zero.
#[inline]
pub fn ctlz(_a: u64, b: u64) -> u64 {
    u64::from(b.leading_zeros())
}

/// CTPOP, AARM 4.4.8: bits that are set.
#[inline]
pub fn ctpop(_a: u64, b: u64) -> u64 {
    u64::from(b.count_ones())
}

/// CTTZ, AARM 4.4.9: trailing zero bits, 64 for zero.
#[inline]
pub fn cttz(_a: u64, b: u64) -> u64 {
    u64::from(b.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sem::testing::{CORNERS, operand};
    use proptest::prelude::*;

    fn check_all(b: u64) {
        let set = |i: &u64| b >> i & 1 != 0;
        assert_eq!(ctpop(!b, b), (0..64).filter(set).count() as u64, "ctpop {b:#x}");
        assert_eq!(cttz(!b, b), (0..64).find(set).unwrap_or(64), "cttz {b:#x}");
        let lead = (0..64).rev().find(set).map_or(64, |top| 63 - top);
        assert_eq!(ctlz(!b, b), lead, "ctlz {b:#x}");
    }

    #[test]
    fn counts_agree_with_bit_loops_on_corners() {
        CORNERS.into_iter().for_each(check_all);
        (0..64).for_each(|i| check_all(1 << i));
    }

    proptest! {
        #[test]
        fn counts_agree_with_bit_loops(b in operand(), shift in 0u32..64) {
            check_all(b);
            check_all(b >> shift);
            check_all(b << shift);
        }
    }
}
