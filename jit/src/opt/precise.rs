//! Precise faults without registers in memory: accesses in groups, each with the registers at its start.
//!
//! A guest's fault handler is to find every register exact. To bring memory up to date before each access
//! would cost more than the accesses. So in precise mode the handler of host faults skips the access and
//! sets a flag ([`word::FAULTED`]). Code looks at the flag before it does anything that cannot be done
//! twice: a store, a call, whatever ends a block. Where it is set, the registers that the guest had before
//! the group's first access are written back, and the interpreter goes on from there: it repeats the loads
//! and raises the fault at the access to which it belongs. A store changes no register, so it may begin a
//! group: if it was not what faulted, the interpreter goes on behind it.

use axp_emu::cpu::Cpu;
use axp_emu::isa::RegSet;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{self, InstBuilder, Value};
use std::mem::offset_of;
use std::ops::Range;

use super::emit::{STATE, Translator, bits};
use super::lazy::{FP, Waiting};
use crate::abi::{self, ExitKind, word};
use crate::fault;

const FPCR: i32 = offset_of!(Cpu, fpcr) as i32;

/// Accesses of one block behind which the flag has not been looked at.
pub(super) struct Group {
    /// Where all ways lead that leave the group.
    leave: ir::Block,
    /// Where they go on.
    tail: ir::Block,
    /// Where the interpreter is to begin.
    pc: u64,
    /// The first access is a store, and whether it has been emitted.
    store: Option<bool>,
    /// Instructions from there on that the block has counted.
    undone: usize,
    /// Registers that differ from memory at that point.
    dirty: RegSet,
    /// Those of them that the tail does not write back, by their numbers in [`Waiting`].
    values: Vec<(u8, Value)>,
    /// Registers that had not been computed.
    waiting: Waiting,
    /// The FPCR, where the host's exceptions change it.
    fpcr: Option<Value>,
}

/// What groups that begin within a few instructions have in common: code that writes back the registers
/// which those instructions do not write, and leaves.
pub(super) struct Tail {
    block: ir::Block,
    /// Instructions of the block at which such groups begin.
    reach: Range<usize>,
    holds: RegSet,
    values: Vec<(u8, Value)>,
}

/// Instructions whose groups share a tail.
const SEGMENT: usize = 24;

impl Translator<'_, '_> {
    /// An access that can fault follows.
    pub(super) fn before_access(&mut self, writes: bool) {
        if !self.mode.precise {
            return;
        }
        if writes {
            self.look_back();
        }
        if self.group.is_none() {
            let group = self.new_group(writes);
            self.group = Some(group);
        }
    }

    /// The store that begins a group has been emitted.
    pub(super) fn has_stored(&mut self) {
        if let Some(group) = &mut self.group {
            group.store = group.store.map(|_| true);
        }
    }

    /// The tail for groups that begin at the current instruction.
    fn tail(&mut self) -> (ir::Block, RegSet) {
        let block = &self.region.blocks[self.current];
        let n = block.insns.len() - self.after - 1;
        if let Some(tail) = self.tail.as_ref().filter(|tail| tail.reach.contains(&n)) {
            return (tail.block, tail.holds);
        }
        self.end_tail();
        let reach = n..n + SEGMENT;
        let last = reach.end.min(block.insns.len());
        let written = (n..last).fold(RegSet::NONE, |set, i| set.union(block.writes(i)));
        let waiting = self.waiting.keys().fold(RegSet::NONE, |set, &r| set.union(numbered(r)));
        let holds = self.dirty.intersection(self.live).minus(written).minus(waiting);
        let values = self.values(holds);
        let tail = self.b.create_block();
        self.b.set_cold_block(tail);
        self.tail = Some(Tail { block: tail, reach, holds, values });
        (tail, holds)
    }

    /// No more groups lead to the tail.
    pub(super) fn end_tail(&mut self) {
        let Some(tail) = self.tail.take() else { return };
        let here = self.b.current_block();
        self.b.seal_block(tail.block);
        self.b.switch_to_block(tail.block);
        self.cold(|t| {
            t.write_back(&tail.values);
            let none = t.iconst(0);
            t.store_word(word::FAULTED, none);
            t.leave_for(ExitKind::Step);
        });
        here.into_iter().for_each(|here| self.b.switch_to_block(here));
    }

    /// Values of registers, by their numbers in [`Waiting`].
    fn values(&mut self, set: RegSet) -> Vec<(u8, Value)> {
        let mut values: Vec<_> = bits(set.int).map(|r| (r, self.get(r))).collect();
        values.extend(bits(set.fp).map(|r| (FP + r, self.get_f(r))));
        values
    }

    fn write_back(&mut self, values: &[(u8, Value)]) {
        for &(r, value) in values {
            let at = if r < FP { abi::int_offset(r) } else { abi::fp_offset(r - FP) };
            self.b.ins().store(STATE, value, self.cpu, at);
        }
    }

    fn new_group(&mut self, writes: bool) -> Group {
        let (tail, held) = self.tail();
        let leave = self.b.create_block();
        self.b.set_cold_block(leave);
        let dirty = self.dirty.intersection(self.live);
        let waiting = self.waiting.clone();
        let waits = waiting.keys().fold(RegSet::NONE, |set, &r| set.union(numbered(r)));
        let values = self.values(dirty.minus(held).minus(waits));
        let fpcr = self.in_order.then(|| self.b.ins().load(I64, STATE, self.cpu, FPCR));
        let (pc, undone) = (self.pc, self.after + 1);
        let store = writes.then_some(false);
        Group { leave, tail, pc, store, undone, dirty, values, waiting, fpcr }
    }

    /// What follows must not happen if an access has faulted.
    pub(super) fn look_back(&mut self) {
        self.leave_if_faulted();
        let Some(group) = self.group.take() else { return };
        let Some(here) = self.b.current_block() else { return };
        self.b.seal_block(group.leave);
        self.b.switch_to_block(group.leave);
        self.cold(|t| t.go_back(&group));
        self.b.switch_to_block(here);
    }

    /// The same within code that is not always executed: the group goes on.
    pub(super) fn leave_if_faulted(&mut self) {
        let Some(leave) = self.group.as_ref().map(|group| group.leave) else { return };
        // Atomic, so that it neither moves nor stands for another.
        let cpu = self.reload_cpu();
        let at = self.b.ins().iadd_imm_s(cpu, i64::from(abi::word_offset(word::FAULTED)));
        let flag = self.b.ins().atomic_load(I32, STATE, at);
        let go_on = self.new_block();
        self.b.ins().brif(flag, leave, &[], go_on, &[]);
        self.b.seal_block(go_on);
        self.b.switch_to_block(go_on);
    }

    /// Whether there is a group; if so, leaves it for the interpreter.
    pub(super) fn leave_group(&mut self) -> bool {
        let Some(group) = &self.group else { return false };
        let (leave, store) = (group.leave, group.store);
        if store == Some(false) {
            let faulted = self.iconst(fault::STORE as i64);
            self.store_word(word::FAULTED, faulted);
        }
        self.b.ins().jump(leave, &[]);
        true
    }

    fn go_back(&mut self, group: &Group) {
        self.write_back(&group.values);
        self.waiting.clone_from(&group.waiting);
        for r in self.waiting_in(group.dirty) {
            self.store_waiting(r);
        }
        if let Some(fpcr) = group.fpcr {
            self.b.ins().store(STATE, fpcr, self.cpu, FPCR);
        }
        let mut pc = self.iconst(group.pc as i64);
        let mut undone = self.iconst(group.undone as i64);
        if group.store.is_some() {
            let how = self.load_word(word::FAULTED);
            let behind = self.b.ins().icmp_imm_s(IntCC::NotEqual, how, fault::STORE as i64);
            let behind = self.b.ins().uextend(I64, behind);
            undone = self.b.ins().isub(undone, behind);
            let distance = self.b.ins().ishl_imm_u(behind, 2);
            pc = self.b.ins().iadd(pc, distance);
        }
        self.set_place(pc, Some(undone));
        self.b.ins().jump(group.tail, &[]);
    }
}

/// The register of a number in [`Waiting`].
fn numbered(r: u8) -> RegSet {
    match r.checked_sub(FP) {
        None => RegSet { int: 1 << r, fp: 0 },
        Some(r) => RegSet { int: 0, fp: 1 << r },
    }
}
