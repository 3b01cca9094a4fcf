//! Branches, calls, returns and indirect jumps.

use axp_emu::isa::{Insn, Opcode, ZERO};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::emit::{STATE, Translator};
use super::symbols::{HostFn, Symbol};
use crate::code::{JUMP_CACHE_ENTRIES, JUMP_CACHE_FOLD};
use crate::region::Term;

impl Translator<'_, '_> {
    /// The terminator of the block that the current instruction ends.
    fn term(&self) -> Term {
        self.region.blocks[self.current].term
    }

    pub(super) fn lower_branch(&mut self, insn: &Insn) {
        if self.after == 0
            && let Some(division) = self.region.blocks[self.current].division
        {
            self.lower_division(&division);
        }
        if insn.a < ZERO {
            let link = self.iconst(self.pc as i64 + 4);
            self.set(insn.a, link);
        }
        match self.term() {
            Term::Call { callee: Some(callee), ret } => {
                let code = self.code_of(callee);
                self.call(code, self.pc + 4, ret);
            }
            Term::Goto(target) => self.goto(target),
            _ => self.stop_and_step(),
        }
    }

    pub(super) fn lower_cond_branch(&mut self, insn: &Insn) {
        match self.condition_lazy(insn.op, insn.a) {
            Some((truth, is)) => self.cond(truth, Some((false, insn.a, [is, 1 - is]))),
            None => {
                let truth = self.condition(insn.op, insn.a);
                self.cond(truth, None);
            }
        }
    }

    pub(super) fn lower_cond_branch_f(&mut self, insn: &Insn) {
        if let Some(compare) = self.fused.take() {
            return self.compare_and_branch(compare, insn);
        }
        match self.condition_lazy_f(insn.op, insn.a) {
            Some((truth, is)) => {
                self.cond(truth, Some((true, insn.a, [is, 2f64.to_bits() - is])));
            }
            None => {
                let truth = self.condition_f(insn.op, insn.a);
                self.cond(truth, None);
            }
        }
    }

    fn cond(&mut self, truth: Value, tested: Option<(bool, u8, [u64; 2])>) {
        match self.term() {
            Term::Cond { taken, fall } => self.branch(truth, taken, fall, tested),
            _ => self.stop_and_step(),
        }
    }

    pub(super) fn lower_jump(&mut self, insn: &Insn) {
        let target = self.get(insn.b);
        let target = self.b.ins().band_imm_s(target, -4);
        if insn.a < ZERO {
            let link = self.iconst(self.pc as i64 + 4);
            self.set(insn.a, link);
        }
        match self.term() {
            Term::Ret => self.return_to(target),
            // The end of a leaf that is inlined.
            Term::Goto(target) => self.goto(target),
            Term::Call { ret, .. } => {
                let code = self.find_code(target);
                self.call(code, self.pc + 4, ret);
            }
            _ if insn.op == Opcode::Ret => self.return_to(target),
            _ => {
                let code = self.find_code(target);
                self.tail_call(code);
            }
        }
    }

    /// Host code for a guest pc known at run time; what is not compiled is the dispatcher's.
    fn find_code(&mut self, target: Value) -> Value {
        let cache = self.symbol(Symbol::JumpCache);
        // The index times four, before it is scaled by the entry's sixteen bytes.
        let mask = (JUMP_CACHE_ENTRIES as i64 - 1) << 2;
        let high = self.b.ins().ushr_imm_u(target, i64::from(JUMP_CACHE_FOLD) - 2);
        let index = self.b.ins().bxor(target, high);
        let index = self.b.ins().band_imm_s(index, mask);
        let index = self.b.ins().ishl_imm_u(index, 2);
        let entry = self.b.ins().iadd(cache, index);
        let pc = self.b.ins().load(I64, STATE, entry, 0);
        let code = self.b.ins().load(I64, STATE, entry, 8);
        let miss = self.b.ins().icmp(IntCC::NotEqual, pc, target);
        self.cold_value(miss, code, I64, |t| {
            let table = t.symbol(Symbol::Table);
            let [code, _] = t.call_host(HostFn::FindCode, [table, target, target, target]);
            let none = t.b.ins().icmp_imm_s(IntCC::Equal, code, 0);
            t.cold_if(none, |t| t.return_to(target));
            code
        })
    }
}
