//! Calls that regions make of host functions, the interpreter's stepper among them.

use std::mem::offset_of;

use axp_emu::cpu::Cpu;
use axp_emu::isa::{Insn, RegSet};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::emit::{STATE, Translator};
use super::symbols::{HostFn, Symbol};
use crate::abi::word;
use crate::region;

impl Translator<'_, '_> {
    /// Leaves one instruction to the interpreter and goes on behind it.
    pub(super) fn interpret(&mut self, insn: &Insn) {
        self.look_back();
        self.store_registers(self.dirty.intersection(self.live));
        let pc = self.iconst(self.pc as i64);
        self.b.ins().store(STATE, pc, self.cpu, offset_of!(Cpu, pc) as i32);
        let after = self.iconst(self.after as i64);
        let kept = self.symbols.keep(insn);
        let kept = self.symbol(kept);
        let results = self.call_host(HostFn::Step, [self.cpu, kept, after, after]);
        self.dirty = RegSet::NONE;
        self.known.memory_changes();
        self.load_registers(region::writes(insn));
        self.compare = None;
        self.cold_if(results[0], |t| t.stop_pending());
    }

    /// Calls a host function of the System V ABI, of up to four arguments and two results.
    pub(super) fn call_host(&mut self, f: HostFn, [a, b, c, d]: [Value; 4]) -> [Value; 2] {
        let f = self.symbol(Symbol::HostFn(f));
        let helper = self.symbol(Symbol::HostFn(HostFn::Helper));
        self.b.ins().call_indirect(self.helper_sig, helper, &[a, b, c, d, f, self.cpu]);
        [self.load_word(word::RESULT), self.load_word(word::RESULT + 1)]
    }
}
