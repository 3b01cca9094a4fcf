//! MF_FPCR and MT_FPCR. Division routines save and restore the register around their work, so a region
//! is left only where what it was compiled for has changed.

use axp_emu::cpu::Cpu;
use axp_emu::fp::fpcr::{CONTROL, KEPT, STATUS};
use axp_emu::isa::{Insn, SINK};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use std::mem::offset_of;

use super::emit::{STATE, Translator};
use crate::abi::ExitKind;

const FPCR: i32 = offset_of!(Cpu, fpcr) as i32;

impl Translator<'_, '_> {
    pub(super) fn lower_mf_fpcr(&mut self, insn: &Insn) {
        if insn.a != SINK {
            let stored = self.b.ins().load(I64, STATE, self.cpu, FPCR);
            let value = self.with_summary(stored);
            self.set_bits(insn.a, value);
        }
    }

    /// Ends its block.
    pub(super) fn lower_mt_fpcr(&mut self, insn: &Insn) {
        self.look_back();
        let bits = self.get_bits(insn.a);
        let new = self.with_summary(bits);
        let old = self.b.ins().load(I64, STATE, self.cpu, FPCR);
        self.b.ins().store(STATE, new, self.cpu, FPCR);
        let changed = self.b.ins().bxor(old, new);
        let changed = self.b.ins().band_imm_s(changed, CONTROL as i64);
        let (pc, live) = (self.pc, self.live);
        self.pc = pc.wrapping_add(4);
        self.live = self.live_at_end();
        self.cold_if(changed, |t| t.stop(ExitKind::Poll, 0));
        (self.pc, self.live) = (pc, live);
    }

    /// The bits that the FPCR has, with SUM derived from them.
    fn with_summary(&mut self, bits: Value) -> Value {
        let kept = self.b.ins().band_imm_s(bits, KEPT as i64);
        let status = self.b.ins().band_imm_s(kept, STATUS as i64);
        let some = self.b.ins().icmp_imm_s(IntCC::NotEqual, status, 0);
        let some = self.b.ins().uextend(I64, some);
        let summary = self.b.ins().ishl_imm_u(some, 63);
        self.b.ins().bor(kept, summary)
    }
}
