//! Operand generators shared by the property tests of `sem`: corner values beside random ones.

use proptest::prelude::*;

/// Values at which integer instructions change behaviour.
pub const CORNERS: [u64; 26] = [
    0,
    1,
    2,
    7,
    8,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_fff8,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0xffff_ffff_7fff_ffff,
    0xffff_ffff_8000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x8080_8080_8080_8080,
    0x0102_0304_0506_0708,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];

/// A register value: half random, half a corner or a random longword, sign-extended.
pub fn operand() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => any::<u64>(),
        3 => proptest::sample::select(&CORNERS[..]),
        1 => any::<i32>().prop_map(|v| v as i64 as u64),
        1 => 0u64..256,
    ]
}

/// Runs `check` on every pair of corner values.
pub fn corner_pairs(check: impl Fn(u64, u64)) {
    for a in CORNERS {
        for b in CORNERS {
            check(a, b);
        }
    }
}
