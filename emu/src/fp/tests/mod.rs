//! Tests of the floating-point functions: what they share is here, operand generators and qualifiers.

mod ieee;
mod vax;
mod vectors;

use super::*;
use proptest::prelude::*;

/// All traps disabled, DNZ and UNDZ off, and the rounding of the instruction's own choice.
pub(super) const QUIET_FPCR: u64 = fpcr::INITIAL;

/// /SUI or /SVI with dynamic rounding: everything is reported.
pub(super) const SUID: Qual = Qual(Qual::S | Qual::I | Qual::U | Qual::DYNAMIC);

/// The initial FPCR with another DYN code.
pub(super) fn rounding_fpcr(code: u64) -> u64 {
    (QUIET_FPCR & !(3 << fpcr::DYN_SHIFT)) | code << fpcr::DYN_SHIFT
}

/// Fractions that reach the corners of rounding: sparse, dense, and arbitrary.
fn fraction() -> impl Strategy<Value = u64> {
    let mask = (1u64 << 52) - 1;
    prop_oneof![
        any::<u64>().prop_map(move |x| x & mask),
        any::<u64>().prop_map(move |x| x & x.rotate_left(7) & x.rotate_left(23) & mask),
        any::<u64>().prop_map(move |x| (x | x.rotate_left(7) | x.rotate_left(23)) & mask),
        // As many bits as an S number has, so that halves and exact products occur.
        any::<u64>().prop_map(move |x| x & mask & !0x1fff_ffff),
        Just(0),
        Just(mask),
    ]
}

/// T images: the special ones, neighbouring exponents, and both ends of the range.
pub(super) fn t_image() -> impl Strategy<Value = u64> {
    let exponent = prop_oneof![
        4 => 1018..1030u64,
        2 => 960..1090u64,
        1 => 0..3u64,
        1 => 0..70u64,
        1 => 2000..2048u64,
        1 => 470..560u64,
        1 => 0..2048u64,
    ];
    prop_oneof![
        8 => (any::<bool>(), exponent, fraction())
            .prop_map(|(sign, exp, frac)| u64::from(sign) << 63 | exp << 52 | frac),
        1 => (any::<bool>(), prop::sample::select(vec![
            0u64,
            1,
            (1 << 52) - 1,
            1 << 52,
            (0x7ff << 52) - 1,
            0x7ff << 52,
            (0x7ff << 52) | 1,
            (0x7ff << 52) | 0x8_0000_0000_0000,
            0x43e << 52,
            0x43f << 52,
            0x3fe << 52,
        ])).prop_map(|(sign, bits)| u64::from(sign) << 63 | bits),
    ]
}

/// Register images of S numbers, among them the denormals.
pub(super) fn s_image() -> impl Strategy<Value = u64> {
    let exponent = prop_oneof![4 => 122..132u32, 1 => 0..2u32, 1 => 0..30u32, 1 => 220..256u32, 1 => 0..256u32];
    (any::<bool>(), exponent, fraction())
        .prop_map(|(sign, exp, frac)| u32::from(sign) << 31 | exp << 23 | (frac >> 29) as u32)
        .prop_map(s_to_register)
}

/// Any pair of operands, sometimes equal in magnitude so that cancellation is exact.
pub(super) fn pair<S: Strategy<Value = u64>>(
    image: impl Fn() -> S,
) -> impl Strategy<Value = (u64, u64)> {
    (image(), image(), 0..8u8).prop_map(|(a, b, which)| match which {
        0 => (a, a),
        1 => (a, a ^ SIGN),
        2 => (a, a ^ 1 << 29),
        _ => (a, b),
    })
}

/// Any FPCR that can be stored.
pub(super) fn any_fpcr() -> impl Strategy<Value = u64> {
    any::<u64>().prop_map(mt_fpcr)
}

/// Any qualifier bits, also combinations that no instruction has.
pub(super) fn any_qual() -> impl Strategy<Value = Qual> {
    (0..32u8).prop_map(Qual)
}
