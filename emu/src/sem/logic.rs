//! Boolean functions and shifts (AARM 4.5): the plain rows of opcodes 0x11 and 0x12.
//!
//! Called through the instruction table; conditional moves take their conditions from `branch`.

/// AND, AARM 4.5.1.
#[inline]
pub fn and(a: u64, b: u64) -> u64 {
    a & b
}

/// BIC, AARM 4.5.1: AND with complement.
#[inline]
pub fn bic(a: u64, b: u64) -> u64 {
    a & !b
}

/// BIS, AARM 4.5.1: inclusive OR.
#[inline]
pub fn bis(a: u64, b: u64) -> u64 {
    a | b
}

/// ORNOT, AARM 4.5.1: OR with complement.
#[inline]
pub fn ornot(a: u64, b: u64) -> u64 {
    a | !b
}

/// XOR, AARM 4.5.1.
#[inline]
pub fn xor(a: u64, b: u64) -> u64 {
    a ^ b
}

/// EQV, AARM 4.5.1: XOR with complement.
#[inline]
pub fn eqv(a: u64, b: u64) -> u64 {
    a ^ !b
}

/// SLL, AARM 4.5.3: left shift by bits 5..0 of `b`.
#[inline]
pub fn sll(a: u64, b: u64) -> u64 {
    a << (b & 63)
}

/// SRL, AARM 4.5.3: logical right shift by bits 5..0 of `b`.
#[inline]
pub fn srl(a: u64, b: u64) -> u64 {
    a >> (b & 63)
}

/// SRA, AARM 4.5.4: arithmetic right shift by bits 5..0 of `b`.
#[inline]
pub fn sra(a: u64, b: u64) -> u64 {
    ((a as i64) >> (b & 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sem::testing::{corner_pairs, operand};
    use proptest::prelude::*;

    /// Builds a result bit by bit.
    fn bits(f: impl Fn(u32) -> bool) -> u64 {
        (0..64).fold(0, |acc, i| acc | u64::from(f(i)) << i)
    }

    fn check_all(a: u64, b: u64) {
        let bit = |v: u64, i: u32| v >> i & 1 != 0;
        type Op = fn(u64, u64) -> u64;
        type Truth = fn(bool, bool) -> bool;
        let rows: [(&str, Op, Truth); 6] = [
            ("and", and, |x, y| x && y),
            ("bic", bic, |x, y| x && !y),
            ("bis", bis, |x, y| x || y),
            ("ornot", ornot, |x, y| x || !y),
            ("xor", xor, |x, y| x != y),
            ("eqv", eqv, |x, y| x == y),
        ];
        for (name, f, truth) in rows {
            let expected = bits(|i| truth(bit(a, i), bit(b, i)));
            assert_eq!(f(a, b), expected, "{name} {a:#x} {b:#x}");
        }
        let n = (b % 64) as u32;
        assert_eq!(sll(a, b), bits(|i| i >= n && bit(a, i - n)), "sll {a:#x} {b:#x}");
        assert_eq!(srl(a, b), bits(|i| i + n < 64 && bit(a, i + n)), "srl {a:#x} {b:#x}");
        assert_eq!(sra(a, b), bits(|i| bit(a, (i + n).min(63))), "sra {a:#x} {b:#x}");
    }

    #[test]
    fn logic_agrees_with_truth_tables_on_corners() {
        corner_pairs(check_all);
    }

    proptest! {
        #[test]
        fn logic_agrees_with_truth_tables(a in operand(), b in operand()) {
            check_all(a, b);
        }
    }
}
