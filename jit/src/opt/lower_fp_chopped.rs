//! DIVT rounded toward zero, as division routines for integers use it: the host rounds to nearest, and
//! the remainder's sign says whether that was one unit too far.

use axp_emu::isa::{Insn, Opcode};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value};

use super::emit::Translator;
use super::lower_fp::{NORMAL_T, Quals, Range};

/// Dividends whose remainders are normal numbers.
const WIDE_T: Range = Range { first: 128, count: 2046 - 127 };

impl Translator<'_, '_> {
    /// Emits DIVT/C if the host can do it.
    pub(super) fn lower_fp_chopped(&mut self, insn: &Insn, q: &Quals) -> bool {
        let divides = insn.op == Opcode::Divt && q.chopped && !q.inexact;
        if !divides || !crate::fpu::has_fma() {
            return false;
        }
        let (a, b) = (self.get_f(insn.a), self.get_f(insn.b));
        let nearest = self.b.ins().fdiv(a, b);
        let mut odd = self.not_in(nearest, NORMAL_T);
        for (operand, range) in [(a, WIDE_T), (b, NORMAL_T)] {
            let out = self.not_in(operand, range);
            odd = self.b.ins().bor(odd, out);
        }
        // What follows must not raise exceptions that the guest's instruction does not.
        let (usual, cold, join) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let result = self.b.append_block_param(join, F64);
        self.b.set_cold_block(cold);
        self.b.ins().brif(odd, cold, &[], usual, &[]);
        self.b.seal_block(cold);
        self.b.seal_block(usual);
        self.b.switch_to_block(usual);
        let chopped = self.chopped_quotient(nearest, a, b);
        self.b.ins().jump(join, &[BlockArg::Value(chopped)]);
        self.b.switch_to_block(cold);
        let software = q.software;
        let exact = self
            .cold(|t| if software { t.zero_or_exact(insn, nearest, a, b) } else { t.exact(insn) });
        self.b.ins().jump(join, &[BlockArg::Value(exact)]);
        self.b.seal_block(join);
        self.b.switch_to_block(join);
        self.set_f(insn.c, result);
        true
    }

    /// `a / b` toward zero from the quotient to nearest: a remainder of the other sign than the dividend's
    /// says that the quotient is too large.
    fn chopped_quotient(&mut self, nearest: Value, a: Value, b: Value) -> Value {
        let negated = self.b.ins().fneg(nearest);
        let remainder = self.b.ins().fma(negated, b, a);
        let (r, a) = (self.to_bits(remainder), self.to_bits(a));
        let some = self.b.ins().iadd(r, r);
        let some = self.b.ins().icmp_imm_s(IntCC::NotEqual, some, 0);
        let signs = self.b.ins().bxor(r, a);
        let other = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, signs, 0);
        let over = self.b.ins().band(some, other);
        let over = self.b.ins().uextend(I64, over);
        let bits = self.to_bits(nearest);
        let bits = self.b.ins().isub(bits, over);
        self.from_bits(bits)
    }
}
