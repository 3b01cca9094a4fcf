//! Floating point on the host's FPU, with results classified and a cold exact path.
//!
//! Cranelift treats FP operations as pure: it may move, merge and delete them. So neither flags nor
//! traps are taken from the host. The bits of operands and results say whether anything
//! exceptional can have happened; if so, the exact semantics (`axp_emu::fp`) decide.
//! Where inexactness is observable (/I), rounding is not to nearest, or FPCR selects the rounding
//! (/D) otherwise, the exact semantics are called always.

use axp_emu::cpu::Cpu;
use axp_emu::isa::{Insn, Opcode, SINK, ZERO};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use std::mem::offset_of;

use super::emit::{Mode, STATE, Translator};
use super::symbols::HostFn;

/// FPCR status bits in `FpResult::exc`.
const STATUS: i64 = 0x3f << 52;
/// Trap summary bits in `FpResult::exc`.
const TRAPS: i64 = 0x7f;

/// Rounding and trap qualifiers, taken apart.
pub(super) struct Quals {
    pub(super) software: bool,
    pub(super) inexact: bool,
    pub(super) nearest: bool,
    pub(super) chopped: bool,
}

impl Quals {
    fn of(insn: &Insn, mode: Mode) -> Quals {
        let q = insn.qual.0;
        let dynamic = q & 3 == 3;
        Quals {
            software: q & 16 != 0,
            inexact: q & 8 != 0,
            nearest: q & 3 == 2 || dynamic && mode.dynamic_nearest,
            chopped: q & 3 == 0,
        }
    }
}

/// Exponents of normal numbers: the smallest and how many there are.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) first: u64,
    pub(super) count: u64,
}

/// Normal T numbers.
pub(super) const NORMAL_T: Range = Range { first: 1, count: 2046 };
/// Normal S numbers in register format.
const NORMAL_S: Range = Range { first: 897, count: 254 };

impl Translator<'_, '_> {
    pub(super) fn lower_fp(&mut self, insn: &Insn) {
        use Opcode::*;
        let q = Quals::of(insn, self.mode);
        match insn.op {
            _ if self.mode.exact_fp => {
                let value = self.exact(insn);
                self.set_f(insn.c, value);
            }
            _ if self.lower_fp_direct(insn, &q) => {}
            _ if self.lower_fp_chopped(insn, &q) => {}
            Addt | Subt | Mult | Divt | Sqrtt if q.nearest && !q.inexact => {
                self.arithmetic(insn, &q, NORMAL_T);
            }
            Adds | Subs | Muls | Divs | Sqrts if q.nearest && !q.inexact => {
                self.arithmetic(insn, &q, NORMAL_S);
            }
            Cvtts if q.nearest && !q.inexact => self.arithmetic(insn, &q, NORMAL_S),
            Cmpteq | Cmptlt | Cmptle | Cmptun => self.compare_f(insn, &q),
            Cvtqt if q.nearest && !q.inexact => {
                let bits = self.get_bits(insn.b);
                let value = self.b.ins().fcvt_from_sint(F64, bits);
                self.set_f(insn.c, value);
            }
            Cvtqs if q.nearest && !q.inexact => {
                let bits = self.get_bits(insn.b);
                let single = self.b.ins().fcvt_from_sint(F32, bits);
                let value = self.b.ins().fpromote(F64, single);
                self.set_f(insn.c, value);
            }
            Cvttq if q.chopped && !q.inexact => self.cvttq(insn, &q),
            Cvtst => {
                // Denormals and NaNs change; with /S a zero does not trap.
                let b = self.get_f(insn.b);
                let odd = if q.software {
                    self.not_finite_normal_or_zero(b)
                } else {
                    self.not_in(b, NORMAL_T)
                };
                let value = self.cold_value(odd, b, F64, |t| t.exact(insn));
                self.set_f(insn.c, value);
            }
            Cvtlq => {
                let b = self.get_bits(insn.b);
                let high = self.b.ins().sshr_imm_u(b, 32);
                let high = self.b.ins().band_imm_s(high, !0x3fff_ffff);
                let low = self.b.ins().ushr_imm_u(b, 29);
                let low = self.b.ins().band_imm_s(low, 0x3fff_ffff);
                let value = self.b.ins().bor(high, low);
                self.set_bits(insn.c, value);
            }
            _ => {
                let value = self.exact(insn);
                self.set_f(insn.c, value);
            }
        }
    }

    /// Operand and result types, checks and the operation itself for arithmetic.
    fn arithmetic(&mut self, insn: &Insn, q: &Quals, range: Range) {
        use Opcode::*;
        let single = range.first != NORMAL_T.first;
        let unary = matches!(insn.op, Sqrts | Sqrtt | Cvtts);
        let a = self.get_f(insn.a);
        let b = self.get_f(insn.b);
        let raw = match insn.op {
            Adds | Addt => self.b.ins().fadd(a, b),
            Subs | Subt => self.b.ins().fsub(a, b),
            Muls | Mult => self.b.ins().fmul(a, b),
            Divs | Divt => self.b.ins().fdiv(a, b),
            Sqrts | Sqrtt => self.b.ins().sqrt(b),
            _ => b,
        };
        let value = if single {
            // For operands that are exact singles the second rounding changes nothing.
            let narrow = self.b.ins().fdemote(F32, raw);
            self.b.ins().fpromote(F64, narrow)
        } else {
            raw
        };
        let mut cold = self.not_in(value, range);
        let mut also = |t: &mut Self, truth: Value| cold = t.b.ins().bor(cold, truth);
        if single && insn.op != Cvtts {
            let bits_b = self.get_bits(insn.b);
            let bits = if unary {
                bits_b
            } else {
                let bits_a = self.get_bits(insn.a);
                self.b.ins().bor(bits_a, bits_b)
            };
            let below = self.b.ins().ishl_imm_u(bits, 35);
            let wide = self.b.ins().icmp_imm_s(IntCC::NotEqual, below, 0);
            also(self, wide);
        }
        if single && !unary {
            // A denormal single looks much smaller to the host than it is, and the other operand
            // may be no single, so the result need not show it.
            for operand in [a, b] {
                let odd = self.not_finite_normal_or_zero(operand);
                also(self, odd);
            }
        }
        if !q.software {
            // Without /S an operand that is not finite and normal traps whatever the result is.
            let operands = if unary { vec![b] } else { vec![a, b] };
            for operand in operands {
                let odd = self.not_in(operand, NORMAL_T);
                also(self, odd);
            }
        }
        let zero_is_exact = q.software;
        let value = self.cold_value(cold, value, F64, |t| {
            if zero_is_exact { t.zero_or_exact(insn, value, a, b) } else { t.exact(insn) }
        });
        self.set_f(insn.c, value);
    }

    /// In the cold path: a zero that comes from a zero operand, or from a sum, is exact.
    pub(super) fn zero_or_exact(&mut self, insn: &Insn, value: Value, a: Value, b: Value) -> Value {
        use Opcode::*;
        let zero = self.b.ins().f64const(0.0);
        let is_zero = |t: &mut Self, v: Value| t.b.ins().fcmp(FloatCC::Equal, v, zero);
        let exact_zero = match insn.op {
            Addt | Subt => is_zero(self, value),
            Mult => {
                let (za, zb) = (is_zero(self, a), is_zero(self, b));
                let either = self.b.ins().bor(za, zb);
                let zv = is_zero(self, value);
                self.b.ins().band(either, zv)
            }
            Divt => {
                let (za, zv) = (is_zero(self, a), is_zero(self, value));
                self.b.ins().band(za, zv)
            }
            _ => return self.exact(insn),
        };
        let other = self.b.ins().icmp_imm_s(IntCC::Equal, exact_zero, 0);
        self.cold_value(other, value, F64, |t| t.exact(insn))
    }

    /// Truth of "not a normal number of this range": zeros, denormals, infinities, NaNs, and what
    /// is next to the smallest normal number, to which a tiny result may have been rounded up.
    pub(super) fn not_in(&mut self, value: Value, range: Range) -> Value {
        let magnitude = self.high_magnitude(value);
        let first = (range.first << 21) + 2;
        let offset = self.b.ins().iadd_imm_s(magnitude, -(first as i64));
        let end = self.b.ins().iconst(I32, ((range.count << 21) - 2) as i64);
        self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, offset, end)
    }

    /// The high longword without its sign, shifted left by one bit: eleven bits of exponent, 20 of
    /// fraction. Thirty-two bits let the host compare with immediate operands.
    fn high_magnitude(&mut self, value: Value) -> Value {
        let bits = self.to_bits(value);
        let high = self.b.ins().ushr_imm_u(bits, 32);
        let high = self.b.ins().ireduce(I32, high);
        self.b.ins().iadd(high, high)
    }

    fn compare_f(&mut self, insn: &Insn, q: &Quals) {
        let (a, b) = (self.get_f(insn.a), self.get_f(insn.b));
        let (cc, odd) = match insn.op {
            Opcode::Cmpteq => (FloatCC::Equal, FloatCC::Unordered),
            Opcode::Cmptlt => (FloatCC::LessThan, FloatCC::Unordered),
            Opcode::Cmptle => (FloatCC::LessThanOrEqual, FloatCC::Unordered),
            _ => (FloatCC::Unordered, FloatCC::Unordered),
        };
        let mut cold = self.b.ins().fcmp(odd, a, b);
        if !q.software {
            for operand in [a, b] {
                let out = self.not_finite_normal_or_zero(operand);
                cold = self.b.ins().bor(cold, out);
            }
        }
        let truth = self.b.ins().fcmp(cc, a, b);
        let (two, zero) = (self.b.ins().f64const(2.0), self.b.ins().f64const(0.0));
        if insn.op == Opcode::Cmptun {
            let value = self.cold_value(cold, zero, F64, |t| t.exact(insn));
            self.set_f(insn.c, value);
            return;
        }
        // NaN operands decide the truth by the exact result; otherwise it is the host's.
        let usual = self.b.ins().uextend(I32, truth);
        let truth = self.cold_value(cold, usual, I32, |t| {
            let value = t.exact(insn);
            let bits = t.to_bits(value);
            let truth = t.b.ins().icmp_imm_s(IntCC::NotEqual, bits, 0);
            t.b.ins().uextend(I32, truth)
        });
        let value = self.b.ins().select(truth, two, zero);
        self.set_f(insn.c, value);
        if insn.c != SINK {
            self.compare = Some((insn.c, truth));
        }
    }

    /// Truth of "denormal, infinite or NaN"; a denormal below 2^-1042 may pass for zero here, so
    /// the rest of the bits is looked at as well.
    fn not_finite_normal_or_zero(&mut self, value: Value) -> Value {
        let odd = self.not_in(value, NORMAL_T);
        let bits = self.to_bits(value);
        let magnitude = self.b.ins().iadd(bits, bits);
        let some = self.b.ins().icmp_imm_s(IntCC::NotEqual, magnitude, 0);
        self.b.ins().band(odd, some)
    }

    /// CVTTQ/C, with or without /V: exact unless out of range.
    fn cvttq(&mut self, insn: &Insn, q: &Quals) {
        let b = self.get_f(insn.b);
        let magnitude = self.b.ins().fabs(b);
        let limit = self.b.ins().f64const(9_223_372_036_854_775_808.0);
        let fits = self.b.ins().fcmp(FloatCC::LessThan, magnitude, limit);
        let mut cold = self.b.ins().icmp_imm_s(IntCC::Equal, fits, 0);
        if !q.software {
            let odd = self.not_finite_normal_or_zero(b);
            cold = self.b.ins().bor(cold, odd);
        }
        let quad = self.b.ins().fcvt_to_sint_sat(I64, b);
        let value = self.from_bits(quad);
        let value = self.cold_value(cold, value, F64, |t| t.exact(insn));
        self.set_f(insn.c, value);
    }

    /// Calls the exact semantics, sets status bits, and leaves to the interpreter on a trap.
    pub(super) fn exact(&mut self, insn: &Insn) -> Value {
        self.exact_or_trap(insn, true)
    }

    /// The same for an instruction that cannot trap in this mode.
    pub(super) fn exact_silent(&mut self, insn: &Insn) -> Value {
        self.exact_or_trap(insn, false)
    }

    fn exact_or_trap(&mut self, insn: &Insn, traps: bool) -> Value {
        let semantics = HostFn::Fp(insn.op);
        if semantics.address().is_none() {
            return self.b.ins().f64const(0.0);
        }
        let (a, b) = (self.get_bits(insn.a), self.get_bits(insn.b));
        self.leave_if_faulted();
        let qual = self.iconst(i64::from(insn.qual.0));
        let offset = offset_of!(Cpu, fpcr) as i32;
        let fpcr = self.b.ins().load(I64, STATE, self.cpu, offset);
        let [value, exc] = self.call_host(semantics, [a, b, qual, fpcr]);
        if traps {
            let trap = self.b.ins().band_imm_s(exc, TRAPS);
            self.cold_if(trap, |t| t.stop_and_step());
        }
        let status = self.b.ins().band_imm_s(exc, STATUS);
        let fpcr = self.b.ins().bor(fpcr, status);
        self.b.ins().store(STATE, fpcr, self.cpu, offset);
        self.from_bits(value)
    }

    pub(super) fn lower_fmove(&mut self, insn: &Insn) {
        if insn.c == SINK {
            return;
        }
        let (a, b) = (self.get_f(insn.a), self.get_f(insn.b));
        let value = match insn.op {
            Opcode::Cpys if insn.a == insn.b => b,
            Opcode::Cpys if insn.a >= ZERO => self.b.ins().fabs(b),
            Opcode::Cpys => self.b.ins().fcopysign(b, a),
            Opcode::Cpysn if insn.a == insn.b => self.b.ins().fneg(b),
            Opcode::Cpysn if insn.a >= ZERO => {
                let magnitude = self.b.ins().fabs(b);
                self.b.ins().fneg(magnitude)
            }
            Opcode::Cpysn => {
                let sign = self.b.ins().fneg(a);
                self.b.ins().fcopysign(b, sign)
            }
            _ => {
                let (a, b) = (self.to_bits(a), self.to_bits(b));
                let top = self.b.ins().band_imm_s(a, 0xfff << 52);
                let low = self.b.ins().band_imm_s(b, !(0xfff << 52));
                let bits = self.b.ins().bor(top, low);
                self.from_bits(bits)
            }
        };
        self.set_f(insn.c, value);
    }

    pub(super) fn lower_fcmov(&mut self, insn: &Insn) {
        if insn.c == SINK {
            return;
        }
        let branch = match insn.op {
            Opcode::Fcmoveq => Opcode::Fbeq,
            Opcode::Fcmovne => Opcode::Fbne,
            Opcode::Fcmovlt => Opcode::Fblt,
            Opcode::Fcmovge => Opcode::Fbge,
            Opcode::Fcmovle => Opcode::Fble,
            _ => Opcode::Fbgt,
        };
        let truth = self.condition_f(branch, insn.a);
        let (b, old) = (self.get_f(insn.b), self.get_f(insn.c));
        let value = self.b.ins().select(truth, b, old);
        self.set_f(insn.c, value);
    }

    /// Truth of a floating-point branch condition: only sign and zero count, -0 is zero.
    pub(super) fn condition_f(&mut self, branch: Opcode, r: u8) -> Value {
        if let Some((truth, _)) = self.condition_lazy_f(branch, r) {
            return truth;
        }
        if let Some((c, truth)) = self.compare
            && c == r
            && matches!(branch, Opcode::Fbeq | Opcode::Fbne)
        {
            let cc = if branch == Opcode::Fbeq { IntCC::Equal } else { IntCC::NotEqual };
            return self.b.ins().icmp_imm_s(cc, truth, 0);
        }
        let bits = self.get_bits(r);
        let minus_zero = i64::MIN;
        let (cc, against) = match branch {
            Opcode::Fbeq | Opcode::Fbne => {
                let magnitude = self.b.ins().iadd(bits, bits);
                let cc = if branch == Opcode::Fbeq { IntCC::Equal } else { IntCC::NotEqual };
                return self.b.ins().icmp_imm_s(cc, magnitude, 0);
            }
            Opcode::Fblt => (IntCC::UnsignedGreaterThan, minus_zero),
            Opcode::Fbge => (IntCC::UnsignedLessThanOrEqual, minus_zero),
            Opcode::Fbgt => (IntCC::SignedGreaterThan, 0),
            _ => (IntCC::SignedLessThanOrEqual, 0),
        };
        let against = self.iconst(against);
        self.b.ins().icmp(cc, bits, against)
    }

    pub(super) fn lower_itof(&mut self, insn: &Insn) {
        let a = self.get(insn.a);
        match insn.op {
            Opcode::Itoft => self.set_bits(insn.c, a),
            Opcode::Itofs => {
                let longword = self.keep_low(a, 4);
                let value = self.s_to_register(longword);
                self.set_bits(insn.c, value);
            }
            _ => self.interpret_one(insn),
        }
    }

    pub(super) fn lower_ftoi(&mut self, insn: &Insn) {
        let bits = self.get_bits(insn.a);
        let value = if insn.op == Opcode::Ftoit {
            bits
        } else {
            let longword = self.register_to_s(bits);
            let longword = self.b.ins().ireduce(I32, longword);
            self.b.ins().sextend(I64, longword)
        };
        self.set(insn.c, value);
    }
}
