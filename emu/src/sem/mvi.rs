//! Motion-video instructions (AARM 4.13, the MVI extension): lanes of bytes and words.
//!
//! Written lane by lane over arrays, which the host compiler turns into vector instructions. Pack
//! and unpack have no first operand; they ignore `a` so that the instruction table can treat them
//! like every other operate instruction.

use std::array::from_fn;

/// The eight bytes of a quadword, lowest first.
#[inline]
const fn bytes(v: u64) -> [u8; 8] {
    v.to_le_bytes()
}

/// The four words of a quadword, lowest first.
#[inline]
fn words(v: u64) -> [u16; 4] {
    from_fn(|i| (v >> (16 * i)) as u16)
}

/// Joins four words, lowest first.
#[inline]
fn join_words(w: [u16; 4]) -> u64 {
    (0..4).fold(0, |acc, i| acc | u64::from(w[i]) << (16 * i))
}

/// Combines two quadwords byte by byte.
#[inline]
fn by_bytes(a: u64, b: u64, f: impl Fn(u8, u8) -> u8) -> u64 {
    let (x, y) = (bytes(a), bytes(b));
    u64::from_le_bytes(from_fn(|i| f(x[i], y[i])))
}

/// Combines two quadwords word by word.
#[inline]
fn by_words(a: u64, b: u64, f: impl Fn(u16, u16) -> u16) -> u64 {
    let (x, y) = (words(a), words(b));
    join_words(from_fn(|i| f(x[i], y[i])))
}

/// MAXSB8, AARM 4.13.1: greater of signed bytes.
#[inline]
pub fn maxsb8(a: u64, b: u64) -> u64 {
    by_bytes(a, b, |x, y| (x as i8).max(y as i8) as u8)
}

/// MAXSW4, AARM 4.13.1: greater of signed words.
#[inline]
pub fn maxsw4(a: u64, b: u64) -> u64 {
    by_words(a, b, |x, y| (x as i16).max(y as i16) as u16)
}

/// MAXUB8, AARM 4.13.1: greater of unsigned bytes.
#[inline]
pub fn maxub8(a: u64, b: u64) -> u64 {
    by_bytes(a, b, u8::max)
}

/// MAXUW4, AARM 4.13.1: greater of unsigned words.
#[inline]
pub fn maxuw4(a: u64, b: u64) -> u64 {
    by_words(a, b, u16::max)
}

/// MINSB8, AARM 4.13.1: lesser of signed bytes.
#[inline]
pub fn minsb8(a: u64, b: u64) -> u64 {
    by_bytes(a, b, |x, y| (x as i8).min(y as i8) as u8)
}

/// MINSW4, AARM 4.13.1: lesser of signed words.
#[inline]
pub fn minsw4(a: u64, b: u64) -> u64 {
    by_words(a, b, |x, y| (x as i16).min(y as i16) as u16)
}

/// MINUB8, AARM 4.13.1: lesser of unsigned bytes.
#[inline]
pub fn minub8(a: u64, b: u64) -> u64 {
    by_bytes(a, b, u8::min)
}

/// MINUW4, AARM 4.13.1: lesser of unsigned words.
#[inline]
pub fn minuw4(a: u64, b: u64) -> u64 {
    by_words(a, b, u16::min)
}

/// PERR, AARM 4.13.2: pixel error, the sum of absolute differences of unsigned bytes.
#[inline]
pub fn perr(a: u64, b: u64) -> u64 {
    let (x, y) = (bytes(a), bytes(b));
    (0..8).map(|i| u64::from(x[i].abs_diff(y[i]))).sum()
}

/// PKLB, AARM 4.13.3: pack the low bytes of two longwords into bytes 0 and 1.
#[inline]
pub fn pklb(_a: u64, b: u64) -> u64 {
    (b & 0xff) | (b >> 24 & 0xff00)
}

/// PKWB, AARM 4.13.3: pack the low bytes of four words into bytes 0 to 3.
#[inline]
pub fn pkwb(_a: u64, b: u64) -> u64 {
    (b & 0xff) | (b >> 8 & 0xff00) | (b >> 16 & 0xff_0000) | (b >> 24 & 0xff00_0000)
}

/// UNPKBL, AARM 4.13.4: unpack bytes 0 and 1 to two longwords.
#[inline]
pub fn unpkbl(_a: u64, b: u64) -> u64 {
    (b & 0xff) | (b & 0xff00) << 24
}

/// UNPKBW, AARM 4.13.4: unpack bytes 0 to 3 to four words.
#[inline]
pub fn unpkbw(_a: u64, b: u64) -> u64 {
    (b & 0xff) | (b & 0xff00) << 8 | (b & 0xff_0000) << 16 | (b & 0xff00_0000) << 24
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sem::testing::{corner_pairs, operand};
    use proptest::prelude::*;

    /// A field of `bits` bits as a number, signed or unsigned.
    fn lane(v: u64, i: u32, bits: u32, signed: bool) -> i64 {
        let raw = (v >> (i * bits) & ((1 << bits) - 1)) as i64;
        if signed && raw >> (bits - 1) != 0 { raw - (1 << bits) } else { raw }
    }

    fn check_all(a: u64, b: u64) {
        type Row = (&'static str, fn(u64, u64) -> u64, u32, bool, bool);
        let rows: [Row; 8] = [
            ("maxsb8", maxsb8, 8, true, true),
            ("maxsw4", maxsw4, 16, true, true),
            ("maxub8", maxub8, 8, false, true),
            ("maxuw4", maxuw4, 16, false, true),
            ("minsb8", minsb8, 8, true, false),
            ("minsw4", minsw4, 16, true, false),
            ("minub8", minub8, 8, false, false),
            ("minuw4", minuw4, 16, false, false),
        ];
        for (name, f, bits, signed, greater) in rows {
            for i in 0..64 / bits {
                let (x, y) = (lane(a, i, bits, signed), lane(b, i, bits, signed));
                let expected = if (x > y) == greater { x } else { y };
                assert_eq!(lane(f(a, b), i, bits, signed), expected, "{name} {a:#x} {b:#x}");
            }
        }
        let error: i64 = (0..8).map(|i| (lane(a, i, 8, false) - lane(b, i, 8, false)).abs()).sum();
        assert_eq!(perr(a, b), error as u64, "perr {a:#x} {b:#x}");
        for (from, to, pack, unpack) in [
            (32, 2, pklb as fn(u64, u64) -> u64, unpkbl as fn(u64, u64) -> u64),
            (16, 4, pkwb, unpkbw),
        ] {
            let byte = |i: u32, step: u32| b >> (i * step) & 0xff;
            let packed = (0..to).fold(0, |acc, i| acc | byte(i, from) << (8 * i));
            let unpacked = (0..to).fold(0, |acc, i| acc | byte(i, 8) << (from * i));
            assert_eq!(pack(a, b), packed, "pack from {from} {b:#x}");
            assert_eq!(unpack(a, b), unpacked, "unpack to {from} {b:#x}");
        }
    }

    #[test]
    fn lanes_agree_with_the_model_on_corners() {
        corner_pairs(check_all);
    }

    proptest! {
        #[test]
        fn lanes_agree_with_the_model(a in operand(), b in operand()) {
            check_all(a, b);
        }
    }
}
