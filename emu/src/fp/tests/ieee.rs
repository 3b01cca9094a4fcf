//! IEEE arithmetic held against rustc_apfloat and the host's FPU.

use super::super::ieee::exact;
use super::*;
use proptest::test_runner::Config;
use rustc_apfloat::ieee::{Double, Single};
use rustc_apfloat::{Float, FloatConvert, Round, Status};

const ROUNDS: [Round; 4] =
    [Round::TowardZero, Round::TowardNegative, Round::NearestTiesToEven, Round::TowardPositive];

fn is_nan(bits: u64) -> bool {
    bits & !SIGN > 0x7ff << 52
}

/// What the reference says in EXC_SUM bits, except underflow, which Alpha defines otherwise.
fn conditions(status: Status) -> u64 {
    [
        (Status::INVALID_OP, exc::INV),
        (Status::DIV_BY_ZERO, exc::DZE),
        (Status::OVERFLOW, exc::OVF),
        (Status::INEXACT, exc::INE),
    ]
    .into_iter()
    .filter(|&(flag, _)| status.contains(flag))
    .fold(0, |sum, (_, bit)| sum | bit)
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Add,
    Sub,
    Mul,
    Div,
}

const OPS: [Op; 4] = [Op::Add, Op::Sub, Op::Mul, Op::Div];

impl Op {
    fn apply<F: Float>(self, a: F, b: F, round: Round) -> (F, Status) {
        let result = match self {
            Op::Add => a.add_r(b, round),
            Op::Sub => a.sub_r(b, round),
            Op::Mul => a.mul_r(b, round),
            Op::Div => a.div_r(b, round),
        };
        (result.value, result.status)
    }

    /// Is the result, rounded as if there were no least exponent, below the least normal number?
    /// The same operation on operands scaled up by a power of two tells.
    fn underflows<F: Float>(self, a: F, b: F, round: Round) -> bool {
        const UP: i32 = 80;
        let b_up = if matches!(self, Op::Add | Op::Sub) { b.scalbn(UP) } else { b };
        let (scaled, _) = self.apply(a.scalbn(UP), b_up, round);
        let product = matches!(self, Op::Mul | Op::Div);
        if scaled.is_zero() {
            // Below even the scaled range, unless it is a true zero.
            return product && a.is_finite_non_zero() && b.is_finite_non_zero();
        }
        scaled.is_finite() && scaled.ilogb() < F::SMALLEST.ilogb() + F::PRECISION as i32 - 1 + UP
    }

    /// Does the result, rounded as if there were no greatest exponent, exceed it? (The reference
    /// reports an overflow only where it gives an infinity.)
    fn overflows<F: Float>(self, a: F, b: F, round: Round) -> bool {
        const DOWN: i32 = -4;
        if !a.is_finite() || !b.is_finite() || (matches!(self, Op::Div) && b.is_zero()) {
            return false;
        }
        let down = |x: F| {
            let y = x.scalbn(DOWN);
            // Keep what only matters for rounding.
            if y.is_zero() && !x.is_zero() { F::SMALLEST.copy_sign(x) } else { y }
        };
        let b_down = if matches!(self, Op::Add | Op::Sub) { down(b) } else { b };
        let (scaled, _) = self.apply(down(a), b_down, round);
        !scaled.is_finite() || (!scaled.is_zero() && scaled.ilogb() > F::largest().ilogb() + DOWN)
    }

    fn functions(self, single: bool) -> (FpFn, FpFn) {
        match (self, single) {
            (Op::Add, false) => (add_t, exact::add::<false>),
            (Op::Sub, false) => (sub_t, exact::sub::<false>),
            (Op::Mul, false) => (mul_t, exact::mul::<false>),
            (Op::Div, false) => (div_t, exact::div::<false>),
            (Op::Add, true) => (add_s, exact::add::<true>),
            (Op::Sub, true) => (sub_s, exact::sub::<true>),
            (Op::Mul, true) => (mul_s, exact::mul::<true>),
            (Op::Div, true) => (div_s, exact::div::<true>),
        }
    }
}

/// The whole expectation of an operation with /SUI under all traps disabled.
fn expect<F: Float>(op: Op, a: F, b: F, code: usize) -> (u128, u64) {
    let (value, status) = op.apply(a, b, ROUNDS[code]);
    let mut raised = conditions(status);
    if op.overflows(a, b, ROUNDS[code]) {
        raised |= exc::OVF;
    }
    if op.underflows(a, b, ROUNDS[code]) {
        raised |= exc::UNF;
    }
    (value.to_bits(), raised << fpcr::STATUS_SHIFT)
}

fn check(result: FpResult, value: u64, status: u64, a: u64, b: u64) {
    if is_nan(value) {
        let expected = match (is_nan(a), is_nan(b)) {
            (_, true) => b | 1 << 51,
            (true, _) => a | 1 << 51,
            _ => super::super::ieee::CANONICAL_NAN,
        };
        assert_eq!(result, FpResult { value: expected, exc: status });
    } else {
        assert_eq!(result, FpResult { value, exc: status });
    }
}

proptest! {
    #![proptest_config(Config::with_cases(20_000))]

    #[test]
    fn t_arithmetic_is_that_of_the_reference((a, b) in pair(t_image), code in 0..4usize) {
        for op in OPS {
            let (fa, fb) = (Double::from_bits(a.into()), Double::from_bits(b.into()));
            let (value, status) = expect(op, fa, fb, code);
            let result = op.functions(false).0(a, b, SUID, rounding_fpcr(code as u64));
            check(result, value as u64, status, a, b);
        }
    }

    #[test]
    fn s_arithmetic_is_that_of_the_reference((a, b) in pair(s_image), code in 0..4usize) {
        for op in OPS {
            let single = |x| Single::from_bits(register_to_s(x).into());
            let (value, status) = expect(op, single(a), single(b), code);
            let result = op.functions(true).0(a, b, SUID, rounding_fpcr(code as u64));
            check(result, s_to_register(value as u32), status, a, b);
        }
    }

    #[test]
    fn cvtts_is_that_of_the_reference(b in t_image(), code in 0..4usize) {
        let mut lossy = false;
        let double = Double::from_bits(b.into());
        let value: rustc_apfloat::StatusAnd<Single> = double.convert_r(ROUNDS[code], &mut lossy);
        let mut raised = conditions(value.status);
        // The reference reports an overflow only where it gives an infinity.
        let down: rustc_apfloat::StatusAnd<Single> =
            double.scalbn(-4).convert_r(ROUNDS[code], &mut lossy);
        if double.is_finite()
            && (!down.value.is_finite() || (!down.value.is_zero() && down.value.ilogb() > 123))
        {
            raised |= exc::OVF;
        }
        if double.is_signaling() {
            raised = exc::INV;
        } else if double.is_nan() {
            raised = 0;
        } else {
            let up: rustc_apfloat::StatusAnd<Single> =
                double.scalbn(150).convert_r(ROUNDS[code], &mut lossy);
            if double.is_finite_non_zero()
                && (up.value.is_zero() || (up.value.is_finite() && up.value.ilogb() < 150 - 126))
            {
                raised |= exc::UNF;
            }
        }
        let result = cvtts(0, b, SUID, rounding_fpcr(code as u64));
        if double.is_nan() {
            prop_assert_eq!(result.value, (b | 1 << 51) & !0x1fff_ffff);
        } else {
            prop_assert_eq!(result.value, s_to_register(value.value.to_bits() as u32));
        }
        prop_assert_eq!(result.exc, raised << fpcr::STATUS_SHIFT);
    }

    #[test]
    fn cvtst_is_the_exact_value(b in s_image()) {
        let single = f32::from_bits(register_to_s(b));
        let result = cvtst(0, b, Qual::from_func(0x6ac), QUIET_FPCR);
        if single.is_nan() {
            prop_assert_eq!(result.value, b | 1 << 51);
            prop_assert_eq!(result.exc != 0, b & 1 << 51 == 0);
        } else {
            prop_assert_eq!(result, FpResult::clean(f64::from(single).to_bits()));
        }
    }

    #[test]
    fn conversions_from_quadword_are_those_of_the_reference(x in any::<i64>(), shift in 0..64u32, code in 0..4usize) {
        let x = x >> shift;
        let fpcr = rounding_fpcr(code as u64);
        let t = Double::from_i128_r(x.into(), ROUNDS[code]);
        let expected = FpResult {
            value: t.value.to_bits() as u64,
            exc: conditions(t.status) << fpcr::STATUS_SHIFT,
        };
        prop_assert_eq!(cvtqt(0, x as u64, SUID, fpcr), expected);
        let s = Single::from_i128_r(x.into(), ROUNDS[code]);
        let expected = FpResult {
            value: s_to_register(s.value.to_bits() as u32),
            exc: conditions(s.status) << fpcr::STATUS_SHIFT,
        };
        prop_assert_eq!(cvtqs(0, x as u64, SUID, fpcr), expected);
    }

    #[test]
    fn cvttq_is_that_of_the_reference(b in t_image(), code in 0..4usize) {
        let double = Double::from_bits(b.into());
        let result = cvttq(0, b, SUID, rounding_fpcr(code as u64));
        if double.is_nan() || double.is_infinite() {
            let silent = double.is_nan() && !double.is_signaling();
            prop_assert_eq!(result.value, 0);
            prop_assert_eq!(result.exc, if silent { 0 } else { fpcr::Fpcr::INV.bits() });
            return Ok(());
        }
        let mut is_exact = false;
        let wide = double.to_i128_r(128, ROUNDS[code], &mut is_exact);
        if wide.status.contains(Status::INVALID_OP) {
            prop_assert!(double.ilogb() >= 127);
            prop_assert_eq!(result.value, 0);
        } else {
            prop_assert_eq!(result.value, wide.value as u64);
        }
        let overflow = wide.status.contains(Status::INVALID_OP) || i64::try_from(wide.value).is_err();
        let ine = if !is_exact || overflow { fpcr::Fpcr::INE.bits() } else { 0 };
        let ine = if double.is_zero() { 0 } else { ine };
        prop_assert_eq!(result.exc, ine | if overflow { fpcr::Fpcr::IOV.bits() } else { 0 });
    }

    /// The square root r of b is right if (r - ulp/2)^2 <= b <= (r + ulp/2)^2, and so on for the other
    /// roundings; exactly, in 128-bit integers.
    #[test]
    fn square_roots_are_rounded_right(b in t_image(), single in any::<bool>(), code in 0..4usize) {
        // A positive normal number, for S one of S.
        let (exp, frac) = ((b >> 52) & 0x7ff, b & ((1 << 52) - 1));
        let b = if single {
            (exp % 254 + 897) << 52 | (frac & !0x1fff_ffff)
        } else {
            exp.clamp(1, 0x7fe) << 52 | frac
        };
        let function = if single { sqrt_s } else { sqrt_t };
        let result = function(0, b, SUID, rounding_fpcr(code as u64));
        let (precision, value) = (if single { 24 } else { 53 }, result.value);
        let root_exp = (value >> 52) as i32 - 1023;
        // r = root * 2^(e - precision + 1), b = operand * 2^(2 * (e - precision + 1))
        let root = u128::from((1 << 52 | (value & ((1 << 52) - 1))) >> (53 - precision));
        let operand_exp = (b >> 52) as i32 - 1023 - 52 - 2 * (root_exp - precision + 1);
        let mantissa = u128::from(1 << 52 | (b & ((1 << 52) - 1)));
        prop_assert!(operand_exp > -60);
        // Compare 4 * b with (2r +- 1)^2, all scaled by 2^60 or so when b has more bits.
        let (operand, scale) =
            if operand_exp >= 0 { (mantissa << operand_exp, 0) } else { (mantissa, -operand_exp) };
        let square = |x: u128| x * x;
        let at_least = |x: u128| operand >= square(x) << scale;
        match code {
            0 | 1 => prop_assert!(at_least(root) && !at_least(root + 1)),
            3 => prop_assert!(!at_least(root) || operand == square(root) << scale),
            _ => {
                prop_assert!(4 * operand >= square(2 * root - 1) << scale);
                prop_assert!(4 * operand <= square(2 * root + 1) << scale);
            }
        }
        if code == 3 {
            prop_assert!(at_least(root - 1));
        }
        let inexact = operand != square(root) << scale;
        prop_assert_eq!(result.exc, if inexact { fpcr::Fpcr::INE.bits() } else { 0 });
    }

    #[test]
    fn square_roots_are_the_hosts(x in t_image(), y in s_image()) {
        let q = Qual(Qual::S | Qual::U | Qual::NORMAL);
        for (function, b, single) in [
            (exact::sqrt::<false> as FpFn, x, false),
            (exact::sqrt::<true>, y, true),
        ] {
            let expected = if single {
                s_to_register(f32::from_bits(register_to_s(b)).sqrt().to_bits())
            } else {
                f64::from_bits(b).sqrt().to_bits()
            };
            let result = function(0, b, q, QUIET_FPCR);
            if is_nan(b) {
                prop_assert_eq!(result.value, b | 1 << 51);
            } else if b == SIGN || b & SIGN == 0 {
                prop_assert_eq!(result, FpResult::clean(expected));
            } else {
                let invalid = FpResult { value: 0xfff8 << 48, exc: fpcr::Fpcr::INV.bits() };
                prop_assert_eq!(result, invalid);
            }
        }
    }

    /// The integer path against the host's FPU, whose default behaviour /SU in nearest has, NaNs apart.
    #[test]
    fn the_exact_path_gives_the_hosts_results((a, b) in pair(t_image), (c, d) in pair(s_image)) {
        let q = Qual(Qual::S | Qual::U | Qual::NORMAL);
        let t = |op: fn(f64, f64) -> f64| op(f64::from_bits(a), f64::from_bits(b)).to_bits();
        let single = |x| f32::from_bits(register_to_s(x));
        let s = |op: fn(f32, f32) -> f32| s_to_register(op(single(c), single(d)).to_bits());
        let values = [
            (exact::add::<false>(a, b, q, QUIET_FPCR).value, t(|x, y| x + y)),
            (exact::sub::<false>(a, b, q, QUIET_FPCR).value, t(|x, y| x - y)),
            (exact::mul::<false>(a, b, q, QUIET_FPCR).value, t(|x, y| x * y)),
            (exact::div::<false>(a, b, q, QUIET_FPCR).value, t(|x, y| x / y)),
            (exact::add::<true>(c, d, q, QUIET_FPCR).value, s(|x, y| x + y)),
            (exact::sub::<true>(c, d, q, QUIET_FPCR).value, s(|x, y| x - y)),
            (exact::mul::<true>(c, d, q, QUIET_FPCR).value, s(|x, y| x * y)),
            (exact::div::<true>(c, d, q, QUIET_FPCR).value, s(|x, y| x / y)),
        ];
        for (ours, hosts) in values {
            prop_assert!(ours == hosts || (is_nan(ours) && is_nan(hosts)), "{ours:x} {hosts:x}");
        }
    }

    /// Whatever the FPCR and the qualifiers: where the host's FPU is used, the result is the exact one.
    #[test]
    fn the_host_path_is_the_exact_path(
        (a, b) in pair(t_image), (c, d) in pair(s_image), q in any_qual(), fpcr in any_fpcr(),
    ) {
        for op in OPS {
            let (fast, slow) = op.functions(false);
            prop_assert_eq!(fast(a, b, q, fpcr), slow(a, b, q, fpcr));
            let (fast, slow) = op.functions(true);
            prop_assert_eq!(fast(c, d, q, fpcr), slow(c, d, q, fpcr));
            // Operands that are no singles: the manual leaves it open, we do not.
            prop_assert_eq!(fast(a, b, q, fpcr), slow(a, b, q, fpcr));
        }
        let conversions: [(FpFn, FpFn); 7] = [
            (sqrt_t, exact::sqrt::<false>),
            (sqrt_s, exact::sqrt::<true>),
            (cvtts, convert::exact::cvtts),
            (cvtst, convert::exact::cvtst),
            (cvttq, convert::exact::cvttq),
            (cvtqt, convert::exact::cvtq::<false>),
            (cvtqs, convert::exact::cvtq::<true>),
        ];
        for (fast, slow) in conversions {
            for operand in [a, c] {
                prop_assert_eq!(fast(0, operand, q, fpcr), slow(0, operand, q, fpcr));
            }
        }
    }

    /// The exc word follows from the conditions that /SUI shows, the qualifiers and the FPCR.
    #[test]
    fn qualifiers_and_fpcr_select_what_is_reported(
        (a, b) in pair(t_image), q in any_qual(), fpcr in any_fpcr(),
    ) {
        let fpcr = (fpcr | Fpcr::DNOD.bits()) & !Fpcr::DNZ.bits();
        let finite = |x: u64| host::is_normal(x) || x & !SIGN == 0;
        for op in OPS {
            let result = op.functions(false).0(a, b, q, fpcr);
            let code = q.rounding(fpcr) as u64;
            let full = op.functions(false).0(a, b, SUID, rounding_fpcr(code));
            let mut raised = full.status() >> fpcr::STATUS_SHIFT;
            let denormal_asked = q.completion() && q.underflow();
            let to_zero = !denormal_asked || fpcr >> 60 & 3 == 3;
            if raised & exc::UNF != 0 && to_zero {
                raised |= exc::INE;
                prop_assert_eq!(result.value, 0);
            } else {
                prop_assert_eq!(result.value, full.value);
            }
            let all_finite = finite(a) && finite(b);
            if !q.completion() && !all_finite {
                raised = exc::INV;
            }
            if !q.underflow() {
                raised &= !exc::UNF;
            }
            if !q.inexact() {
                raised &= !exc::INE;
            }
            let mut trap = raised;
            if q.completion() {
                let disable = [(49, exc::INV), (50, exc::DZE), (51, exc::OVF), (61, exc::UNF), (62, exc::INE)];
                for (bit, condition) in disable {
                    if fpcr >> bit & 1 != 0 {
                        trap &= !condition;
                    }
                }
                if trap != 0 {
                    trap |= exc::SWC;
                }
            }
            prop_assert_eq!(result.exc, raised << fpcr::STATUS_SHIFT | trap);
        }
    }

    #[test]
    fn comparisons_are_the_hosts((a, b) in pair(t_image)) {
        let q = Qual::from_func(0x5a5);
        let (x, y) = (f64::from_bits(a), f64::from_bits(b));
        let signalling = |z: u64| is_nan(z) && z & 1 << 51 == 0;
        let invalid = |yes: bool| if yes { Fpcr::INV.bits() } else { 0 };
        let any = is_nan(a) || is_nan(b);
        let loud = signalling(a) || signalling(b);
        for (function, holds, raises) in [
            (cmpteq as FpFn, x == y, loud),
            (cmptlt, x < y, any),
            (cmptle, x <= y, any),
            (cmptun, any, loud),
        ] {
            let value = if holds { TRUE } else { 0 };
            prop_assert_eq!(function(a, b, q, QUIET_FPCR), FpResult { value, exc: invalid(raises) });
        }
    }
}
