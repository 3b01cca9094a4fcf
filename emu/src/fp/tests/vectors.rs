//! Fixed vectors: the cases that other emulators are known to have got wrong, and Linux's mappings.

use super::*;
use proptest::test_runner::Config;

const SU: Qual = Qual(Qual::S | Qual::U | Qual::NORMAL);
const PLAIN: Qual = Qual(Qual::NORMAL);
const U: Qual = Qual(Qual::U | Qual::NORMAL);

const ONE: u64 = 0x3ff0_0000_0000_0000;
const INF: u64 = 0x7ff0_0000_0000_0000;
const Q111: u64 = 0x7ff8_0000_0000_0111;
const Q222: u64 = 0x7ff8_0000_0000_0222;
const S111: u64 = 0x7ff0_0000_0000_0111;
const S222: u64 = 0x7ff0_0000_0000_0222;
const CANONICAL: u64 = 0xfff8_0000_0000_0000;

fn t(x: f64) -> u64 {
    x.to_bits()
}

fn flags(value: u64, flags: Fpcr) -> FpResult {
    FpResult { value, exc: flags.bits() }
}

proptest! {
    #![proptest_config(Config::with_cases(20_000))]

    #[test]
    fn stores_undo_loads(longword in any::<u32>(), quadword in any::<u64>()) {
        prop_assert_eq!(register_to_s(s_to_register(longword)), longword);
        prop_assert_eq!(register_to_f(f_to_register(longword)), longword);
        prop_assert_eq!(register_to_g(g_to_register(quadword)), quadword);
        prop_assert_eq!(ftois(itofs(longword.into())), longword as i32 as u64);
        prop_assert_eq!(ftoit(itoft(quadword)), quadword);
    }

    #[test]
    fn a_normal_single_is_loaded_as_its_value(bits in any::<u32>()) {
        let x = f32::from_bits(bits);
        prop_assume!(x.is_normal() || x == 0.0);
        prop_assert_eq!(s_to_register(bits), t(x.into()));
    }

    #[test]
    fn longwords_pass_through_fp_registers(x in any::<u64>()) {
        let longword = cvtql(0, x, PLAIN, QUIET_FPCR).value;
        prop_assert_eq!(register_to_s(longword), x as u32);
        prop_assert_eq!(cvtlq(0, longword, PLAIN, QUIET_FPCR), FpResult::clean(x as i32 as u64));
        prop_assert_eq!(ftois(longword), x as i32 as u64);
    }

    #[test]
    fn mf_fpcr_clears_what_is_reserved_and_derives_sum(x in any::<u64>()) {
        let read = mf_fpcr(mt_fpcr(x));
        prop_assert_eq!(read & ((1 << 47) - 1), 0);
        prop_assert_eq!(read >> 63 != 0, x & (0x3f << 52) != 0);
        let others = !(SIGN | ((1 << 47) - 1));
        prop_assert_eq!(read & others, x & others);
    }

    #[test]
    fn swcr_survives_the_fpcr(x in any::<u64>()) {
        let swcr = x & fpcr::Swcr::MASK;
        let back = fpcr::swcr_from_fpcr(fpcr::fpcr_from_swcr(swcr));
        // UMZ forces UNFD, which reads as an underflow that is not enabled.
        let umz = fpcr::Swcr::MAP_UMZ.bits();
        let unf = if swcr & umz != 0 { fpcr::Swcr::ENABLE_UNF.bits() } else { 0 };
        prop_assert_eq!(back, swcr & !unf);
    }
}

#[test]
fn loads_and_stores_do_not_convert() {
    assert_eq!(s_to_register(1), 0x0000_0000_2000_0000);
    assert_eq!(s_to_register(0x7f80_0000), INF);
    assert_eq!(s_to_register(0xff80_0001), 0xfff0_0000_2000_0000);
    assert_eq!(register_to_s(t(1e300)), 0x71bf_21e4);
    assert_eq!(register_to_s(cvtql(0, 5, PLAIN, QUIET_FPCR).value), 5);
    // VAX 1.0 as F and as G; an F exponent of all ones stays in the F range.
    assert_eq!(f_to_register(0x0000_4080), 0x4010_0000_0000_0000);
    assert_eq!(register_to_f(0x4010_0000_0000_0000), 0x0000_4080);
    assert_eq!(g_to_register(0x4010), 0x4010_0000_0000_0000);
    assert_eq!(f_to_register(0x0000_7f80), 0x47f0_0000_0000_0000);
    assert_eq!(itoff(0x4080_0000), 0x4010_0000_0000_0000);
}

#[test]
fn integers_are_stored_by_sts() {
    let chopped = Qual::from_func(0x02f);
    let q = cvttq(0, t(8_388_608.0), chopped, QUIET_FPCR).value;
    assert_eq!(register_to_s(cvtql(0, q, PLAIN, QUIET_FPCR).value), 0x0080_0000);
    let minus = cvtql(0, -8_388_609i64 as u64, PLAIN, QUIET_FPCR).value;
    assert_eq!(ftois(minus), 0xffff_ffff_ff7f_ffff);
}

#[test]
fn cvtql_reports_overflow_with_v_only() {
    let x = 0x1_2345_6789u64;
    let value = cvtql(0, x, PLAIN, QUIET_FPCR).value;
    assert_eq!(register_to_s(value), 0x2345_6789);
    assert_eq!(cvtql(0, x, PLAIN, QUIET_FPCR).exc, 0);
    assert_eq!(cvtql(0, x, Qual(Qual::U), QUIET_FPCR).exc, Fpcr::IOV.bits() | exc::IOV);
    let sv = Qual(Qual::S | Qual::U);
    assert_eq!(cvtql(0, x, sv, QUIET_FPCR).exc, Fpcr::IOV.bits());
    let enabled = QUIET_FPCR & !Fpcr::INVD.bits();
    assert_eq!(cvtql(0, x, sv, enabled).exc, Fpcr::IOV.bits() | exc::IOV | exc::SWC);
    assert_eq!(cvtql(0, -5i64 as u64, sv, enabled).exc, 0);
}

#[test]
fn comparison_table() {
    let values = [
        (CANONICAL, f64::NAN),
        (Q111, f64::NAN),
        (S111, f64::NAN),
        (t(-0.0), -0.0),
        (t(0.0), 0.0),
        (t(1.0), 1.0),
        (t(-1.0), -1.0),
        (INF, f64::INFINITY),
        (INF | SIGN, f64::NEG_INFINITY),
    ];
    for (a, x) in values {
        for (b, y) in values {
            let nan = x.is_nan() || y.is_nan();
            let signalling = a == S111 || b == S111;
            for (function, holds, invalid) in [
                (cmpteq as FpFn, x == y, signalling),
                (cmptlt, x < y, nan),
                (cmptle, x <= y, nan),
                (cmptun, nan, signalling),
            ] {
                let value = if holds { TRUE } else { 0 };
                let status = if invalid { Fpcr::INV.bits() } else { 0 };
                assert_eq!(function(a, b, SU, QUIET_FPCR), FpResult { value, exc: status });
                // Without /S a NaN traps, an infinity does not.
                let trap = if nan { Fpcr::INV.bits() | exc::INV } else { 0 };
                assert_eq!(function(a, b, PLAIN, QUIET_FPCR), FpResult { value, exc: trap });
            }
        }
    }
}

#[test]
fn cvttq_table() {
    let svic = Qual(Qual::S | Qual::U | Qual::I);
    let both = Fpcr::IOV | Fpcr::INE;
    let table = [
        (t(9_223_372_036_854_775_808.0), 1 << 63, both),
        (t(18_446_744_073_709_551_616.0), 0, both),
        // 0x1.cccp64
        (0x43fc_ccc0_0000_0000, 0xcccc_0000_0000_0000, both),
        (0xc3fc_ccc0_0000_0000, 0x3334_0000_0000_0000, both),
        (t(-9_223_372_036_854_775_808.0), 1 << 63, Fpcr::empty()),
        (INF, 0, Fpcr::INV),
        (INF | SIGN, 0, Fpcr::INV),
        (S111, 0, Fpcr::INV),
        (Q111, 0, Fpcr::empty()),
        (t(1.5), 1, Fpcr::INE),
        (t(-1.5), -1i64 as u64, Fpcr::INE),
        (1, 0, Fpcr::INE),
        (t(-0.0), 0, Fpcr::empty()),
        (t(3.0), 3, Fpcr::empty()),
    ];
    for (operand, value, status) in table {
        assert_eq!(cvttq(0, operand, svic, QUIET_FPCR), flags(value, status), "{operand:x}");
        let sv = Qual(Qual::S | Qual::U);
        assert_eq!(cvttq(0, operand, sv, QUIET_FPCR), flags(value, status - Fpcr::INE));
        // No qualifier: nothing is reported of finite operands.
        let finite = operand & INF != INF && operand != 1;
        let exc = if finite { 0 } else { Fpcr::INV.bits() | exc::INV };
        assert_eq!(cvttq(0, operand, Qual(0), QUIET_FPCR), FpResult { value, exc });
    }
    // A trap that completion delivers is decided by INVD.
    let enabled = QUIET_FPCR & !Fpcr::INVD.bits();
    let trap = cvttq(0, t(1e19), svic, enabled).trap();
    assert_eq!(trap, exc::IOV | exc::SWC);
    assert_eq!(fpcr::sigfpe_code(trap), fpcr::sigfpe::FLTINV);
}

#[test]
fn cvttq_obeys_the_dynamic_rounding_mode() {
    let svd = Qual(Qual::S | Qual::U | Qual::DYNAMIC);
    for (code, (plus, minus)) in [(2, -2), (2, -3), (2, -2), (3, -2)].into_iter().enumerate() {
        let fpcr = rounding_fpcr(code as u64);
        assert_eq!(cvttq(0, t(2.5), svd, fpcr).value as i64, plus);
        assert_eq!(cvttq(0, t(-2.5), svd, fpcr).value as i64, minus);
    }
}

#[test]
fn inexact_is_reported_with_i_only() {
    let third = |q| div_t(t(1.0), t(3.0), q, QUIET_FPCR).exc;
    assert_eq!(third(SU), 0);
    assert_eq!(third(PLAIN), 0);
    assert_eq!(third(Qual(SU.0 | Qual::I)), Fpcr::INE.bits());
    let cvttq_exc = |func| cvttq(0, t(1.5), Qual::from_func(func), QUIET_FPCR).exc;
    assert_eq!(cvttq_exc(0x5ef), 0);
    assert_eq!(cvttq_exc(0x7ef), Fpcr::INE.bits());
}

#[test]
fn nans_propagate_from_fb_first_and_become_quiet() {
    for function in [add_t as FpFn, sub_t, mul_t, div_t] {
        let value = |a, b| function(a, b, SU, QUIET_FPCR);
        assert_eq!(value(Q222, Q111), FpResult::clean(Q111));
        assert_eq!(value(Q222, S111), flags(Q111, Fpcr::INV));
        assert_eq!(value(S222, Q111), flags(Q111, Fpcr::INV));
        assert_eq!(value(S222, ONE), flags(Q222, Fpcr::INV));
        assert_eq!(value(Q222 | SIGN, ONE), FpResult::clean(Q222 | SIGN));
        assert_eq!(value(ONE, Q111 | SIGN), FpResult::clean(Q111 | SIGN));
    }
    // An S result has no low fraction bits.
    assert_eq!(add_s(ONE, Q111, SU, QUIET_FPCR).value, Q111 & !0x1fff_ffff);
    assert_eq!(cvtts(0, S111, SU, QUIET_FPCR), flags(0x7ff8_0000_0000_0000, Fpcr::INV));
}

#[test]
fn invalid_operations_generate_the_canonical_nan() {
    for result in [
        sub_t(INF, INF, SU, QUIET_FPCR),
        add_t(INF, INF | SIGN, SU, QUIET_FPCR),
        mul_t(0, INF, SU, QUIET_FPCR),
        div_t(0, SIGN, SU, QUIET_FPCR),
        div_t(INF, INF, SU, QUIET_FPCR),
        sqrt_t(0, t(-1.0), SU, QUIET_FPCR),
        sqrt_s(0, INF | SIGN, SU, QUIET_FPCR),
    ] {
        assert_eq!(result, flags(CANONICAL, Fpcr::INV));
    }
    assert_eq!(sqrt_t(0, SIGN, SU, QUIET_FPCR), FpResult::clean(SIGN));
}

#[test]
fn signs_of_exact_zero_sums() {
    for code in 0..4 {
        let q = Qual(SU.0 | Qual::DYNAMIC);
        let expected = if code == 1 { SIGN } else { 0 };
        assert_eq!(sub_t(ONE, ONE, q, rounding_fpcr(code)), FpResult::clean(expected));
        assert_eq!(add_t(0, SIGN, q, rounding_fpcr(code)), FpResult::clean(expected));
        assert_eq!(add_t(SIGN, SIGN, q, rounding_fpcr(code)), FpResult::clean(SIGN));
    }
}

#[test]
fn underflow_is_true_zero_unless_su() {
    let (a, b) = (t(-1e-200), t(1e-200));
    assert_eq!(mul_t(a, b, PLAIN, QUIET_FPCR), FpResult::clean(0));
    let trapped = FpResult { value: 0, exc: Fpcr::UNF.bits() | exc::UNF };
    assert_eq!(mul_t(a, b, U, QUIET_FPCR), trapped);
    assert_eq!(mul_t(a, b, SU, QUIET_FPCR), flags(SIGN, Fpcr::UNF));
    let undz = QUIET_FPCR | Fpcr::UNDZ.bits();
    assert_eq!(mul_t(a, b, SU, undz), flags(0, Fpcr::UNF));
    let sui = Qual(SU.0 | Qual::I);
    // An exact denormal that UNDZ zeroes is inexact; delivered it is an exact underflow.
    let (least, half) = (1 << 52, t(0.5));
    assert_eq!(mul_t(least, half, sui, undz), flags(0, Fpcr::UNF | Fpcr::INE));
    assert_eq!(mul_t(least, half, sui, QUIET_FPCR), flags(1 << 51, Fpcr::UNF));
    // UNDZ without UNFD does nothing: the trap is taken and the denormal is there.
    let trap = mul_t(least, half, SU, undz & !Fpcr::UNFD.bits());
    assert_eq!(trap, FpResult { value: 1 << 51, exc: Fpcr::UNF.bits() | exc::UNF | exc::SWC });
    // So in S format, whose denormals have the exponent field zero.
    let s = mul_s(s_to_register(0x0080_0000), half, SU, QUIET_FPCR);
    assert_eq!(s, flags(s_to_register(0x0040_0000), Fpcr::UNF));
}

#[test]
fn tininess_is_judged_after_rounding() {
    let least = 1 << 52;
    // (1 - 2^-53) * 2^-1022: a denormal's rounding makes it 2^-1022, but 53 bits can hold it.
    let below = ONE - 1;
    assert_eq!(mul_t(least, below, SU, QUIET_FPCR), flags(least, Fpcr::UNF));
    assert_eq!(mul_t(least, below, PLAIN, QUIET_FPCR), FpResult::clean(0));
    // (1 + 2^-52) * (1 - 2^-53) = 1 + 2^-53 - 2^-105, which rounds to 1: no underflow at all.
    assert_eq!(mul_t(least + 1, below, SU, QUIET_FPCR), FpResult::clean(least));
    assert_eq!(mul_t(least + 1, below, U, QUIET_FPCR), FpResult::clean(least));
}

#[test]
fn denormal_operands() {
    let denormal = 1u64 << 40;
    let invalid = |value| FpResult { value, exc: Fpcr::INV.bits() | exc::INV };
    // Without /S they trap, whatever the FPCR says.
    for fpcr in [QUIET_FPCR, QUIET_FPCR | Fpcr::DNZ.bits()] {
        assert_eq!(add_t(denormal, ONE, PLAIN, fpcr), invalid(ONE));
        assert_eq!(cmptlt(0, denormal, PLAIN, fpcr), invalid(TRUE));
        assert_eq!(cvttq(0, denormal, PLAIN, fpcr), invalid(0));
        assert_eq!(cvtst(0, denormal, Qual::from_func(0x2ac), fpcr).trap(), exc::INV);
        assert_eq!(div_t(denormal, 0, PLAIN, fpcr).trap(), exc::INV);
    }
    // With /S they are numbers, silently while DNOD is set.
    assert_eq!(mul_t(denormal, t(2.0), SU, QUIET_FPCR), flags(denormal << 1, Fpcr::UNF));
    assert_eq!(cmptlt(0, denormal, SU, QUIET_FPCR), FpResult::clean(TRUE));
    let enabled = QUIET_FPCR & !Fpcr::DNOD.bits();
    let trap = add_t(denormal, ONE, SU, enabled);
    assert_eq!(trap, FpResult { value: ONE, exc: Fpcr::IOV.bits() | exc::SWC });
    assert_eq!(fpcr::sigfpe_code(trap.trap()), fpcr::sigfpe::FLTUND);
    // DNZ makes them zeros of their sign, and then DNOD does not matter.
    let dnz = enabled | Fpcr::DNZ.bits();
    assert_eq!(sqrt_t(0, denormal | SIGN, SU, dnz), FpResult::clean(SIGN));
    assert_eq!(div_t(ONE, denormal, SU, dnz), flags(INF, Fpcr::DZE));
    assert_eq!(mul_t(INF, denormal, SU, dnz), flags(CANONICAL, Fpcr::INV));
    assert_eq!(cmpteq(denormal, SIGN, SU, dnz), FpResult::clean(TRUE));
    // In S format the same bits are 2^-138, not 2^-1034.
    let s = cvtst(0, denormal, Qual::from_func(0x6ac), QUIET_FPCR);
    assert_eq!(s, FpResult::clean(t(2f64.powi(-138))));
}

#[test]
fn non_finite_operands_trap_without_s() {
    let trapped = Fpcr::INV.bits() | exc::INV;
    for operand in [INF, Q111, S111] {
        for function in [add_t as FpFn, sub_t, mul_t, div_t, sqrt_t, cvtts, cvttq, add_s, cvtst] {
            assert_eq!(function(ONE, operand, PLAIN, QUIET_FPCR).exc, trapped);
        }
    }
    assert_eq!(div_t(ONE, 0, PLAIN, QUIET_FPCR).exc, Fpcr::DZE.bits() | exc::DZE);
    let big = t(1e308);
    assert_eq!(mul_t(big, big, PLAIN, QUIET_FPCR).exc, Fpcr::OVF.bits() | exc::OVF);
    assert_eq!(mul_t(big, big, SU, QUIET_FPCR), flags(INF, Fpcr::OVF));
}

#[test]
fn cvtts_rounds_once() {
    // Just above the tie between two singles: rounding through a wider step would lose it.
    let x = t(1.0 + 2f64.powi(-24) + 2f64.powi(-52));
    assert_eq!(cvtts(0, x, SU, QUIET_FPCR).value, t(1.0 + 2f64.powi(-23)));
    // A denormal result comes in the S form, which STS stores as it is.
    let r = cvtts(0, t(2f64.powi(-149)), SU, QUIET_FPCR);
    assert_eq!(r, flags(0x2000_0000, Fpcr::UNF));
}

#[test]
fn sign_operations() {
    assert_eq!(cpys(SIGN, ONE), ONE | SIGN);
    assert_eq!(cpysn(SIGN, ONE | SIGN), ONE);
    assert_eq!(cpyse(t(-8.0), t(1.5)), t(-12.0));
}

#[test]
fn linux_control_words() {
    let with_nearest = |swcr| fpcr::set_swcr(2 << 58, swcr);
    assert_eq!(with_nearest(0), 0x680e_8000_0000_0000);
    assert_eq!(with_nearest(0x7e), 0x0800_0000_0000_0000);
    assert_eq!(with_nearest(0x1000), 0x680f_8000_0000_0000);
    assert_eq!(with_nearest(0x2000), 0x780e_8000_0000_0000);
    assert_eq!(with_nearest(0x7e_0000), 0xebfe_8000_0000_0000);
    assert_eq!(fpcr::update_status(0x7e_0002, Fpcr::INE.bits()), 0x20_0002);
    assert_eq!(fpcr::update_status(0, Fpcr::IOV.bits()), 1 << 22);
    assert_eq!(mf_fpcr(mt_fpcr(!0)), 0xffff_8000_0000_0000);
    assert_eq!(mf_fpcr(mt_fpcr(!fpcr::STATUS)) >> 63, 0);
}

#[test]
fn sigfpe_codes() {
    use fpcr::{sigfpe, sigfpe_code};
    assert_eq!(sigfpe_code(exc::DZE), sigfpe::FLTINV);
    assert_eq!(sigfpe_code(exc::SWC | exc::DZE | exc::INV), sigfpe::FLTINV);
    assert_eq!(sigfpe_code(exc::SWC | exc::DZE | exc::OVF), sigfpe::FLTDIV);
    assert_eq!(sigfpe_code(exc::SWC | exc::OVF | exc::INE), sigfpe::FLTOVF);
    assert_eq!(sigfpe_code(exc::SWC | exc::UNF | exc::INE), sigfpe::FLTUND);
    assert_eq!(sigfpe_code(exc::SWC | exc::INE), sigfpe::FLTRES);
}
