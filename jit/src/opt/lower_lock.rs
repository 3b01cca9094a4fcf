//! LDx_L and STx_C inline: the block is remembered as `axp_emu::cpu::lock` does, and stored to by one
//! compare-and-swap. What is out of the ordinary is left to the interpreter before anything has changed.

use std::mem::offset_of;

use axp_emu::cpu::{Cpu, LOCK_FREE};
use axp_emu::isa::{Insn, Opcode, SINK, ZERO};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value};

use super::emit::{GUEST, STATE, Translator};
use crate::abi::word;

const LOCK_ADDR: i32 = offset_of!(Cpu, lock_addr) as i32;
const LOCK_VALUE: i32 = offset_of!(Cpu, lock_value) as i32;
const LOCK_OTHER: i32 = offset_of!(Cpu, lock_other) as i32;

impl Translator<'_, '_> {
    /// Guest address of an access that is never fixed up, and the host's of the quadword around it.
    fn locked_address(&mut self, insn: &Insn) -> (Value, Value) {
        let base = self.get(insn.b);
        let va = self.b.ins().iadd_imm_s(base, i64::from(insn.imm));
        let size = if is_longword(insn) { 4 } else { 8 };
        let odd = self.b.ins().band_imm_s(va, size - 1);
        self.cold_if(odd, |t| t.stop_and_step());
        let (at, disp) = self.address(insn);
        let at = self.b.ins().iadd_imm_s(at, i64::from(disp));
        let quadword = if is_longword(insn) { self.b.ins().band_imm_s(at, -8) } else { at };
        (va, quadword)
    }

    /// The processors of the privileged machine agree on physical addresses, and memory without a base
    /// register is rare.
    fn is_plain_lock(&self, insn: &Insn) -> bool {
        !self.mode.translated() && insn.b != ZERO
    }

    pub(super) fn lower_load_locked(&mut self, insn: &Insn) {
        if !self.is_plain_lock(insn) || insn.a == SINK {
            return self.interpret_one(insn);
        }
        // What this code has stored or loaded before says nothing: another processor may have stored since.
        self.known.memory_changes();
        let (va, quadword) = self.locked_address(insn);
        // The neighbour first, as in `load_locked`. Atomic, so that no other load stands in for them.
        let neighbour = self.b.ins().bxor_imm_s(quadword, 8);
        let other = self.b.ins().atomic_load(I64, GUEST, neighbour);
        let value = self.b.ins().atomic_load(I64, GUEST, quadword);
        self.look_back();
        self.b.ins().store(STATE, va, self.cpu, LOCK_ADDR);
        self.b.ins().store(STATE, value, self.cpu, LOCK_VALUE);
        self.b.ins().store(STATE, other, self.cpu, LOCK_OTHER);
        let result = if is_longword(insn) {
            let shift = self.longword_shift(va);
            let shifted = self.b.ins().ushr(value, shift);
            let longword = self.b.ins().ireduce(I32, shifted);
            self.b.ins().sextend(I64, longword)
        } else {
            value
        };
        self.set(insn.a, result);
    }

    pub(super) fn lower_store_conditional(&mut self, insn: &Insn) {
        if !self.is_plain_lock(insn) {
            return self.interpret_one(insn);
        }
        let (va, quadword) = self.locked_address(insn);
        // No lock, or one on another quadword.
        let locked = self.b.ins().load(I64, STATE, self.cpu, LOCK_ADDR);
        let between = self.b.ins().bxor(locked, va);
        let elsewhere = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, between, 7);
        self.cold_if(elsewhere, |t| t.stop_and_step());
        let old = self.b.ins().load(I64, STATE, self.cpu, LOCK_VALUE);
        let value = self.get(insn.a);
        let new = if is_longword(insn) {
            let shift = self.longword_shift(va);
            let ones = self.iconst(0xffff_ffff);
            let mask = self.b.ins().ishl(ones, shift);
            let kept = self.b.ins().band_not(old, mask);
            let longword = self.b.ins().band(value, ones);
            let placed = self.b.ins().ishl(longword, shift);
            self.b.ins().bor(kept, placed)
        } else {
            value
        };
        let found = self.swap(quadword, old, new);
        // If it has faulted, the lock is still there for the interpreter.
        self.look_back();
        let free = self.iconst(LOCK_FREE as i64);
        self.b.ins().store(STATE, free, self.cpu, LOCK_ADDR);
        self.known.memory_changes();
        let stored = self.b.ins().icmp(IntCC::Equal, found, old);
        let flag = self.b.ins().uextend(I64, stored);
        self.set(insn.c, flag);
    }

    /// Stores `new` where `old` is still found; gives what was found. Where no other thread can come between
    /// the load and the store, the host's lock is left out.
    fn swap(&mut self, at: Value, old: Value, new: Value) -> Value {
        if self.mode.precise {
            // One access, which faults as a store.
            return self.b.ins().atomic_cas(GUEST, at, old, new);
        }
        let [locked, plain, store, join] = [(); 4].map(|()| self.new_block());
        let result = self.b.append_block_param(join, I64);
        let alone = self.load_word(word::ALONE);
        self.b.ins().brif(alone, plain, &[], locked, &[]);
        self.b.seal_block(locked);
        self.b.seal_block(plain);
        self.b.switch_to_block(locked);
        let found = self.b.ins().atomic_cas(GUEST, at, old, new);
        self.b.ins().jump(join, &[BlockArg::Value(found)]);
        self.b.switch_to_block(plain);
        let found = self.b.ins().load(I64, GUEST, at, 0);
        let same = self.b.ins().icmp(IntCC::Equal, found, old);
        self.b.ins().brif(same, store, &[], join, &[BlockArg::Value(found)]);
        self.b.seal_block(store);
        self.b.switch_to_block(store);
        self.b.ins().store(GUEST, new, at, 0);
        self.b.ins().jump(join, &[BlockArg::Value(found)]);
        self.b.seal_block(join);
        self.b.switch_to_block(join);
        result
    }

    /// How far a longword lies above the start of its quadword, in bits.
    fn longword_shift(&mut self, va: Value) -> Value {
        let upper = self.b.ins().band_imm_s(va, 4);
        self.b.ins().ishl_imm_u(upper, 3)
    }
}

fn is_longword(insn: &Insn) -> bool {
    matches!(insn.op, Opcode::LdlL | Opcode::StlC)
}
