//! Which lowering an instruction gets: native code, a call of its pure semantics, or a call of
//! the interpreter.

use axp_emu::cpu::Cpu;
use axp_emu::isa::{Insn, Kind, Opcode, SINK, Vms};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use std::mem::offset_of;

use super::emit::{STATE, Translator};
use super::symbols::HostFn;

impl Translator<'_, '_> {
    /// Emits one instruction.
    pub(super) fn lower(&mut self, insn: &Insn) {
        match insn.op.kind() {
            Kind::Lea => self.lower_lea(insn),
            Kind::Load | Kind::LoadUnaligned | Kind::Fload => self.lower_load(insn),
            Kind::Store | Kind::StoreUnaligned | Kind::Fstore => self.lower_store(insn),
            Kind::Branch => self.lower_branch(insn),
            Kind::CondBranch => self.lower_cond_branch(insn),
            Kind::CondBranchF => self.lower_cond_branch_f(insn),
            Kind::Jump => self.lower_jump(insn),
            Kind::Alu => self.lower_alu(insn),
            Kind::AluV => self.lower_alu_v(insn),
            Kind::Cmov => self.lower_cmov(insn),
            Kind::Fp => self.lower_fp(insn),
            Kind::Fmove => self.lower_fmove(insn),
            Kind::Fcmov => self.lower_fcmov(insn),
            Kind::Itof => self.lower_itof(insn),
            Kind::Ftoi => self.lower_ftoi(insn),
            // The host keeps stores in order; only MB must wait for them.
            Kind::Fence => {
                self.known.memory_changes();
                if insn.op == Opcode::Mb {
                    self.look_back();
                    self.b.ins().fence();
                }
            }
            Kind::Barrier | Kind::Hint => {}
            Kind::IntrFlag => self.lower_intr_flag(insn),
            Kind::Amask => {
                let b = self.operand_b(insn);
                let value = self.b.ins().band_imm_s(b, !self.model.amask() as i64);
                self.set(insn.c, value);
            }
            Kind::Implver => {
                let value = self.iconst(self.model.implver() as i64);
                self.set(insn.c, value);
            }
            Kind::Pal => self.lower_pal(insn),
            Kind::LoadLocked => self.lower_load_locked(insn),
            Kind::StoreConditional => self.lower_store_conditional(insn),
            Kind::MfFpcr => self.lower_mf_fpcr(insn),
            Kind::MtFpcr => self.lower_mt_fpcr(insn),
            Kind::Rpcc => self.interpret_one(insn),
        }
        let access = self.is_access(insn);
        self.bounds.step(insn, access);
    }

    /// Whether an instruction is a guest access that compiled code performs itself.
    pub(super) fn is_access(&self, insn: &Insn) -> bool {
        super::is_access(insn)
    }

    /// The second operand of an operate instruction.
    pub(super) fn operand_b(&mut self, insn: &Insn) -> Value {
        if insn.lit { self.iconst(insn.imm as i64) } else { self.get(insn.b) }
    }

    /// Has the interpreter execute an instruction in the middle of the region.
    pub(super) fn interpret_one(&mut self, insn: &Insn) {
        self.interpret(insn);
    }

    /// Calls the pure semantics of an operate instruction.
    pub(super) fn call_alu(&mut self, op: Opcode, a: Value, b: Value) -> Option<Value> {
        let semantics = HostFn::Alu(op);
        semantics.address()?;
        Some(self.call_host(semantics, [a, b, b, b])[0])
    }

    fn lower_intr_flag(&mut self, insn: &Insn) {
        self.look_back();
        let offset = offset_of!(Cpu, intr_flag) as i32;
        let old = self.b.ins().load(I64, STATE, self.cpu, offset);
        self.set(insn.a, old);
        let new = self.iconst(i64::from(insn.op == Opcode::Rs));
        self.b.ins().store(STATE, new, self.cpu, offset);
    }

    /// Only calls that touch nothing but registers are inside regions.
    fn lower_pal(&mut self, insn: &Insn) {
        let offset = offset_of!(Cpu, unique) as i32;
        match crate::region::inline_pal(insn) {
            Some(Vms::ReadUnq) => {
                let value = self.b.ins().load(I64, STATE, self.cpu, offset);
                self.set(0, value);
            }
            Some(Vms::WriteUnq) => {
                self.look_back();
                let value = self.get(16);
                self.b.ins().store(STATE, value, self.cpu, offset);
            }
            Some(call @ (Vms::Prober | Vms::Probew)) if self.mode.translated() => {
                self.lower_probe(call == Vms::Probew);
            }
            _ => self.interpret(insn),
        }
    }

    fn lower_lea(&mut self, insn: &Insn) {
        if insn.a == SINK {
            return;
        }
        let disp = i64::from(insn.imm) << if insn.op == Opcode::Ldah { 16 } else { 0 };
        let base = self.get(insn.b);
        let value = self.add_constant(base, disp);
        self.set(insn.a, value);
    }
}
