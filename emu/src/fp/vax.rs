//! VAX F and G arithmetic and comparison, and the conversions that involve F, G, D and quadword.
//!
//! A number is 0.1f * 2^(e - bias); zero has sign, exponent and fraction zero ("true zero"). With an
//! exponent of zero, a set sign makes a reserved operand and a fraction a dirty zero: both are
//! invalid, but an instruction with /S takes a dirty zero as zero (AARM 4.7.7.1). No trap can be
//! disabled, no result is ever reported as inexact, and every zero result is true zero.

use super::fpcr::{exc, report_vax};
use super::unpacked::{Unpacked, round};
use super::{FpResult, Qual, TRUE};

/// A format in the register: precision, width of the exponent field, and bias of the leading bit
/// (the manual's bias plus one, as our leading bit is worth one, not one half).
struct Format {
    precision: u32,
    least: i32,
    greatest: i32,
    fraction_bits: u32,
    bias: i32,
}

/// F: in a register it is a G number with a short fraction and a small exponent.
const F: Format =
    Format { precision: 24, least: -128, greatest: 126, fraction_bits: 52, bias: 1025 };
const G: Format =
    Format { precision: 53, least: -1024, greatest: 1022, fraction_bits: 52, bias: 1025 };
const D: Format =
    Format { precision: 56, least: -128, greatest: 126, fraction_bits: 55, bias: 129 };

/// Unpacks an operand; `None` is zero, and what an invalid operand counts as.
#[inline(always)]
fn unpack(bits: u64, format: &Format, q: Qual, raised: &mut u64) -> Option<Unpacked> {
    let sign = bits >> 63 != 0;
    let exp = (bits << 1 >> (format.fraction_bits + 1)) as i32;
    if exp == 0 {
        if sign || (bits != 0 && !q.completion()) {
            *raised |= exc::INV;
        }
        return None;
    }
    let frac = 1 << 63 | bits << (63 - format.fraction_bits);
    Some(Unpacked { sign, exp: exp - format.bias, frac })
}

/// Rounds and packs; underflow gives true zero, overflow the largest magnitude.
#[inline(always)]
fn pack(u: Option<Unpacked>, format: &Format, q: Qual, raised: &mut u64) -> u64 {
    let Some(u) = u else { return 0 };
    let (mut kept, _) = round(u.frac, format.precision, q.vax_rounding(), u.sign);
    let mut exp = u.exp;
    if kept >> format.precision != 0 {
        kept >>= 1;
        exp += 1;
    }
    if exp < format.least {
        *raised |= exc::UNF;
        return 0;
    }
    if exp > format.greatest {
        *raised |= exc::OVF;
        (kept, exp) = ((1 << format.precision) - 1, format.greatest);
    }
    let fraction = kept << (format.fraction_bits + 1 - format.precision);
    (u.sign as u64) << 63
        | ((exp + format.bias) as u64) << format.fraction_bits
        | fraction & ((1 << format.fraction_bits) - 1)
}

#[inline(always)]
fn operate(
    a: u64,
    b: u64,
    format: &Format,
    q: Qual,
    op: impl Fn(Option<Unpacked>, Option<Unpacked>, &mut u64) -> Option<Unpacked>,
) -> FpResult {
    let mut raised = 0;
    let a = unpack(a, &G, q, &mut raised);
    let b = unpack(b, &G, q, &mut raised);
    if raised != 0 {
        return FpResult { value: 0, exc: report_vax(raised, q) };
    }
    let result = op(a, b, &mut raised);
    let value = pack(result, format, q, &mut raised);
    FpResult { value, exc: report_vax(raised, q) }
}

fn add(a: Option<Unpacked>, b: Option<Unpacked>) -> Option<Unpacked> {
    match (a, b) {
        (Some(a), Some(b)) => a.add(b),
        (number, None) | (None, number) => number,
    }
}

fn negate(u: Option<Unpacked>) -> Option<Unpacked> {
    u.map(|u| Unpacked { sign: !u.sign, ..u })
}

fn mul(a: Option<Unpacked>, b: Option<Unpacked>) -> Option<Unpacked> {
    Some(a?.mul(b?))
}

/// Unlike in IEEE, 0/0 is a division by zero (AARM 4.7.7.5).
fn div(a: Option<Unpacked>, b: Option<Unpacked>, raised: &mut u64) -> Option<Unpacked> {
    let Some(b) = b else {
        *raised |= exc::DZE;
        return None;
    };
    Some(a?.div(b))
}

fn sqrt(b: Option<Unpacked>, raised: &mut u64) -> Option<Unpacked> {
    let b = b?;
    if b.sign {
        *raised |= exc::INV;
        return None;
    }
    Some(b.sqrt())
}

macro_rules! instructions {
    ($($name:ident, $format:expr, $doc:literal, $op:expr;)*) => {$(
        #[doc = $doc]
        pub fn $name(a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
            operate(a, b, &$format, q, $op)
        }
    )*};
}

instructions! {
    add_f, F, "ADDF.", |a, b, _| add(a, b);
    add_g, G, "ADDG.", |a, b, _| add(a, b);
    sub_f, F, "SUBF.", |a, b, _| add(a, negate(b));
    sub_g, G, "SUBG.", |a, b, _| add(a, negate(b));
    mul_f, F, "MULF.", |a, b, _| mul(a, b);
    mul_g, G, "MULG.", |a, b, _| mul(a, b);
    div_f, F, "DIVF.", div;
    div_g, G, "DIVG.", div;
}

/// A one-operand instruction between two formats.
#[inline(always)]
fn convert(
    b: u64,
    from: &Format,
    to: &Format,
    q: Qual,
    op: impl Fn(Option<Unpacked>, &mut u64) -> Option<Unpacked>,
) -> FpResult {
    let mut raised = 0;
    let operand = unpack(b, from, q, &mut raised);
    if raised != 0 {
        return FpResult { value: 0, exc: report_vax(raised, q) };
    }
    let result = op(operand, &mut raised);
    let value = pack(result, to, q, &mut raised);
    FpResult { value, exc: report_vax(raised, q) }
}

/// SQRTF; `a` is ignored.
pub fn sqrt_f(_a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    convert(b, &G, &F, q, sqrt)
}

/// SQRTG; `a` is ignored.
pub fn sqrt_g(_a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    convert(b, &G, &G, q, sqrt)
}

/// CVTGF: G to F; `a` is ignored.
pub fn cvtgf(_a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    convert(b, &G, &F, q, |u, _| u)
}

/// CVTGD: G to D, three zero bits appended and the exponent checked; `a` is ignored.
pub fn cvtgd(_a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    convert(b, &G, &D, q, |u, _| u)
}

/// CVTDG: D to G, rounded by three bits; `a` is ignored.
pub fn cvtdg(_a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    convert(b, &D, &G, q, |u, _| u)
}

/// CVTGQ: G to quadword, the low 64 bits on overflow; `a` is ignored.
pub fn cvtgq(_a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    let mut raised = 0;
    let value = match unpack(b, &G, q, &mut raised) {
        Some(u) => {
            let (value, overflow, _) = u.to_integer(q.vax_rounding());
            if overflow {
                raised |= exc::IOV;
            }
            value
        }
        None => 0,
    };
    FpResult { value, exc: report_vax(raised, q) }
}

/// CVTQF: quadword to F; `a` is ignored.
pub fn cvtqf(_a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    FpResult::clean(pack(Unpacked::from_integer(b), &F, q, &mut 0))
}

/// CVTQG: quadword to G; `a` is ignored.
pub fn cvtqg(_a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    FpResult::clean(pack(Unpacked::from_integer(b), &G, q, &mut 0))
}

#[inline(always)]
fn compare(a: u64, b: u64, q: Qual, test: impl Fn(std::cmp::Ordering) -> bool) -> FpResult {
    let mut raised = 0;
    let a = unpack(a, &G, q, &mut raised);
    let b = unpack(b, &G, q, &mut raised);
    let key = |u: Option<Unpacked>| match u {
        None => (0, 0, 0),
        // Larger exponents and fractions are larger numbers, or smaller ones when negative.
        Some(u) if u.sign => (-1, -u.exp, u.frac.wrapping_neg()),
        Some(u) => (1, u.exp, u.frac),
    };
    let holds = raised == 0 && test(key(a).cmp(&key(b)));
    FpResult { value: if holds { TRUE } else { 0 }, exc: report_vax(raised, q) }
}

/// CMPGEQ.
pub fn cmpgeq(a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    compare(a, b, q, |order| order.is_eq())
}

/// CMPGLT.
pub fn cmpglt(a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    compare(a, b, q, |order| order.is_lt())
}

/// CMPGLE.
pub fn cmpgle(a: u64, b: u64, q: Qual, _fpcr: u64) -> FpResult {
    compare(a, b, q, |order| order.is_le())
}
