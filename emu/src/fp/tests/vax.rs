//! VAX arithmetic held against rustc_apfloat, whose "ties to away" is VAX rounding.

use super::*;
use proptest::test_runner::Config;
use rustc_apfloat::ieee::{Double, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round, StatusAnd};

/// G images in the middle of the range, where the same bits are a T number four times as large.
fn middle() -> impl Strategy<Value = u64> {
    t_image().prop_map(|x| x & !(0x7ff << 52) | (((x >> 52) & 0x3f) + 990) << 52)
}

/// The F image nearest below.
fn short(x: u64) -> u64 {
    x & !0x1fff_ffff
}

fn quad(g: u64) -> Quad {
    let mut lossy = false;
    let t: StatusAnd<Quad> =
        Double::from_bits(g.into()).convert_r(Round::NearestTiesToEven, &mut lossy);
    t.value.scalbn(-2)
}

/// Rounds once to 53 or 24 bits and returns the G image.
fn g_image(value: Quad, round: Round, single: bool) -> u64 {
    let mut lossy = false;
    let up = value.scalbn(2);
    if single {
        let s: StatusAnd<Single> = up.convert_r(round, &mut lossy);
        let t: StatusAnd<Double> = s.value.convert_r(round, &mut lossy);
        t.value.to_bits() as u64
    } else {
        let t: StatusAnd<Double> = up.convert_r(round, &mut lossy);
        t.value.to_bits() as u64
    }
}

proptest! {
    #![proptest_config(Config::with_cases(20_000))]

    /// Exponents lie within 63 of each other, so sums are exact in 113 bits, as products are; a
    /// quotient of 53-bit numbers cannot come as near to a tie as its 113 bits could hide.
    #[test]
    fn f_and_g_arithmetic_is_that_of_the_reference(a in middle(), b in middle(), chopped in any::<bool>()) {
        let (q, round) = if chopped {
            (Qual(Qual::S | Qual::U), Round::TowardZero)
        } else {
            (Qual(Qual::S | Qual::U | Qual::NORMAL), Round::NearestTiesToAway)
        };
        for (single, functions) in [
            (false, [add_g as FpFn, sub_g, mul_g, div_g]),
            (true, [add_f, sub_f, mul_f, div_f]),
        ] {
            let (a, b) = if single { (short(a), short(b)) } else { (a, b) };
            let (x, y) = (quad(a), quad(b));
            let z = Round::TowardZero;
            let results = [x.add_r(y, z), x.sub_r(y, z), x.mul_r(y, z), x.div_r(y, z)];
            for (function, reference) in functions.into_iter().zip(results) {
                let expected = g_image(reference.value, round, single) & if reference.value.is_zero() { 0 } else { !0 };
                prop_assert_eq!(function(a, b, q, 0), FpResult::clean(expected));
            }
        }
    }

    #[test]
    fn comparisons_follow_the_values(a in middle(), b in middle()) {
        let (x, y) = (f64::from_bits(a), f64::from_bits(b));
        let q = Qual::from_func(0x0a5);
        let expect = |holds: bool| FpResult::clean(if holds { TRUE } else { 0 });
        for y_bits in [b, a, a ^ SIGN] {
            let y = if y_bits == b { y } else { f64::from_bits(y_bits) };
            prop_assert_eq!(cmpgeq(a, y_bits, q, 0), expect(x == y));
            prop_assert_eq!(cmpglt(a, y_bits, q, 0), expect(x < y));
            prop_assert_eq!(cmpgle(a, y_bits, q, 0), expect(x <= y));
        }
    }

    #[test]
    fn conversions_are_those_of_the_reference(b in middle(), integer in any::<i64>(), shift in 0..64u32) {
        let integer = integer >> shift;
        for (q, round) in [
            (Qual(0), Round::TowardZero),
            (Qual(Qual::NORMAL), Round::NearestTiesToAway),
        ] {
            prop_assert_eq!(cvtgf(0, b, q, 0).value, g_image(quad(b), round, true));
            let wide = quad(b).to_i128_r(128, round, &mut false);
            prop_assert_eq!(cvtgq(0, b, q, 0).value, wide.value as u64);
            let number = Quad::from_i128(integer.into()).value;
            prop_assert_eq!(cvtqg(0, integer as u64, q, 0).value, g_image(number, round, false));
            prop_assert_eq!(cvtqf(0, integer as u64, q, 0).value, g_image(number, round, true));
        }
    }

    #[test]
    fn d_keeps_every_g_fraction(b in middle()) {
        let q = Qual(Qual::NORMAL);
        let d = cvtgd(0, b, q, 0);
        prop_assert_eq!(d.exc, 0);
        prop_assert_eq!(cvtdg(0, d.value, q, 0), FpResult::clean(b));
    }

    /// A root is never a tie, so VAX and IEEE nearest agree.
    #[test]
    fn square_roots_are_those_of_ieee(b in middle()) {
        let b = b & !SIGN;
        let ieee = Qual(Qual::S | Qual::U | Qual::NORMAL);
        // As T the image is four times the number, so its root is twice the number's root.
        let t = sqrt_t(0, b, ieee, QUIET_FPCR).value;
        prop_assert_eq!(sqrt_g(0, b, ieee, 0), FpResult::clean(t + (1 << 52)));
        let s = sqrt_s(0, short(b), ieee, QUIET_FPCR).value;
        prop_assert_eq!(sqrt_f(0, short(b), ieee, 0), FpResult::clean(s + (1 << 52)));
    }

    /// No operand, qualifier or FPCR makes any function panic, and exc keeps to its layout.
    #[test]
    fn nothing_panics(a in any::<u64>(), b in any::<u64>(), q in any_qual(), fpcr in any::<u64>()) {
        let functions: [FpFn; 40] = [
            add_s, add_t, sub_s, sub_t, mul_s, mul_t, div_s, div_t, sqrt_s, sqrt_t, cmpteq, cmptlt,
            cmptle, cmptun, cvtts, cvtst, cvttq, cvtqs, cvtqt, cvtql, cvtlq, add_f, add_g, sub_f,
            sub_g, mul_f, mul_g, div_f, div_g, sqrt_f, sqrt_g, cmpgeq, cmpglt, cmpgle, cvtgf,
            cvtgd, cvtdg, cvtgq, cvtqf, cvtqg,
        ];
        for function in functions {
            let result = function(a, b, q, fpcr);
            prop_assert_eq!(result.exc & !(fpcr::STATUS | exc::SUMMARY), 0);
            if result.trap() != 0 {
                prop_assert_eq!(result.trap() & exc::SWC != 0, q.completion());
                prop_assert_ne!(result.status(), 0);
            }
        }
    }
}

const PLAIN: Qual = Qual(Qual::NORMAL);
const S: Qual = Qual(Qual::NORMAL | Qual::S);
const U: Qual = Qual(Qual::NORMAL | Qual::U);
const ONE: u64 = 0x4010_0000_0000_0000;
const LEAST: u64 = 0x0010_0000_0000_0000;
const GREATEST: u64 = 0x7fff_ffff_ffff_ffff;

#[test]
fn a_reserved_operand_always_traps() {
    let reserved = SIGN | 5;
    for q in [PLAIN, S, U] {
        for result in [
            add_g(reserved, ONE, q, 0),
            mul_f(ONE, SIGN, q, 0),
            cvtgq(0, SIGN, q, 0),
            cmpgeq(SIGN, 0, q, 0),
            cvtdg(0, SIGN, q, 0),
        ] {
            assert_eq!(result.value, 0);
            let swc = if q == S { exc::SWC } else { 0 };
            assert_eq!(result.exc, Fpcr::INV.bits() | exc::INV | swc);
        }
    }
}

#[test]
fn a_dirty_zero_traps_without_s_and_is_zero_with_it() {
    assert_eq!(add_g(5, ONE, PLAIN, 0).trap(), exc::INV);
    assert_eq!(cmpgeq(5, 0, PLAIN, 0).trap(), exc::INV);
    assert_eq!(add_g(5, ONE, S, 0), FpResult::clean(ONE));
    assert_eq!(cmpgeq(5, 0, S, 0), FpResult::clean(TRUE));
}

#[test]
fn overflow_and_division_by_zero_always_trap() {
    assert_eq!(add_g(GREATEST, GREATEST, PLAIN, 0).trap(), exc::OVF);
    assert_eq!(add_g(GREATEST, GREATEST, S, 0).trap(), exc::OVF | exc::SWC);
    assert_eq!(div_g(ONE, 0, PLAIN, 0).trap(), exc::DZE);
    assert_eq!(div_g(0, 0, PLAIN, 0).trap(), exc::DZE);
    // F overflows where G does not: 2^126 * 4.
    let big = 0x47f0_0000_0000_0000;
    assert_eq!(mul_f(big, 0x4030_0000_0000_0000, PLAIN, 0).trap(), exc::OVF);
    assert_eq!(mul_g(big, 0x4030_0000_0000_0000, PLAIN, 0).exc, 0);
    assert_eq!(cvtgd(0, 0x4800_0000_0000_0000, PLAIN, 0).trap(), exc::OVF);
    assert_eq!(sqrt_g(0, SIGN | ONE, PLAIN, 0).trap(), exc::INV);
}

#[test]
fn underflow_is_true_zero_and_traps_with_u_only() {
    let half = 0x4000_0000_0000_0000;
    for a in [LEAST, SIGN | LEAST] {
        assert_eq!(mul_g(a, half, PLAIN, 0), FpResult::clean(0));
        assert_eq!(mul_g(a, half, S, 0), FpResult::clean(0));
        let trapped = FpResult { value: 0, exc: Fpcr::UNF.bits() | exc::UNF };
        assert_eq!(mul_g(a, half, U, 0), trapped);
    }
}

#[test]
fn cvtgq_reports_overflow_with_v_only() {
    let two_63 = 0x4400_0000_0000_0000;
    assert_eq!(cvtgq(0, two_63, PLAIN, 0), FpResult::clean(SIGN));
    assert_eq!(cvtgq(0, two_63, U, 0).trap(), exc::IOV);
    assert_eq!(cvtgq(0, two_63 | SIGN, U, 0), FpResult::clean(SIGN));
    // Ties go away from zero: 2.5 and -2.5.
    let two_and_a_half = 0x4024_0000_0000_0000;
    assert_eq!(cvtgq(0, two_and_a_half, PLAIN, 0).value, 3);
    assert_eq!(cvtgq(0, two_and_a_half | SIGN, PLAIN, 0).value as i64, -3);
    assert_eq!(cvtgq(0, two_and_a_half, Qual(0), 0).value, 2);
}
