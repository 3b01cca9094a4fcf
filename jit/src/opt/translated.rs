//! Loads, stores and PROBE of the privileged machine: the translation buffer inline.
//!
//! The base that other code adds to an address is here the address of the current mode's bank, which
//! cannot change while a region runs: whatever changes mode or address space leaves it.

use axp_emu::isa::{Insn, Kind, Opcode, ZERO};
use axp_emu::mem::{PAGE_SIZE, TB_ADDEND, TB_BANK, TB_ENTRIES, TB_ENTRY_SHIFT, TB_LOAD, TB_STORE};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{self, InstBuilder, InstructionData, Value, ValueDef};

use super::emit::{GUEST, Translator};
use super::origins::Origin;
use super::symbols::HostFn;
use crate::abi::word;

/// Bytes of the datum that an instruction accesses.
fn access_size(op: Opcode) -> i64 {
    use Opcode::*;
    match op {
        Ldbu | Stb => 1,
        Ldwu | Stw => 2,
        Ldl | Stl | Lds | Sts => 4,
        _ => 8,
    }
}

/// Farthest distance from an access of one that relies on it: the more they span, the more often they do
/// not lie in one page.
const NEAR: i64 = 1024;

/// How memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Datum {
    /// Bytes; the address is a multiple of that.
    size: i64,
    store: bool,
}

impl Datum {
    pub(super) fn of(insn: &Insn) -> Datum {
        let store = matches!(insn.op.kind(), Kind::Store | Kind::StoreUnaligned | Kind::Fstore);
        Datum { size: access_size(insn.op), store }
    }

    /// Whether another one, at a distance, is aligned if this one is.
    fn aligns(self, other: Datum, distance: i64) -> bool {
        other.size <= self.size && distance % other.size == 0
    }
}

/// Addresses in one page, one of which has been looked up.
#[derive(Clone, Debug)]
pub struct Page {
    at: Origin,
    /// Distances of the first byte and the end from there.
    first: i64,
    end: i64,
    datum: Datum,
    /// Whether data of the other kind, loads or stores, are allowed as well.
    both: bool,
    /// Host address of that one; 0 if they do not lie in one page after all, or `both` does not hold.
    host: Value,
    /// Where other blocks than the one that has looked find it.
    slot: Option<ir::StackSlot>,
    block: usize,
}

impl Page {
    fn holds(&self, at: Origin, datum: Datum) -> bool {
        let distance = at.offset.wrapping_sub(self.at.offset);
        at.is_of(self.at)
            && (self.both || self.datum.store == datum.store)
            && self.first <= distance
            && distance.checked_add(datum.size).is_some_and(|end| end <= self.end)
            && self.datum.aligns(datum, distance)
    }
}

/// What accesses ahead want of the page that one looks up.
struct Span {
    /// Distances.
    first: i64,
    end: i64,
    /// Some load and some store.
    both: bool,
    /// Some of them stand in other blocks.
    elsewhere: bool,
}

impl Translator<'_, '_> {
    /// Entry of the translation buffer for an address, in the bank at `bank`.
    fn tb_entry(&mut self, bank: Value, va: Value) -> Value {
        const SHIFT: i64 = PAGE_SIZE.trailing_zeros() as i64 - TB_ENTRY_SHIFT as i64;
        let index = self.b.ins().ushr_imm_u(va, SHIFT);
        let index = self.b.ins().band_imm_s(index, ((TB_ENTRIES - 1) << TB_ENTRY_SHIFT) as i64);
        self.b.ins().iadd(bank, index)
    }

    /// Whether an entry is not for an aligned datum of `size` bytes at `va`.
    fn tb_misses(&mut self, entry: Value, va: Value, size: i64, store: bool) -> Value {
        let at = if store { TB_STORE } else { TB_LOAD };
        // Not a trusted load: a fill in between must be seen.
        let tag = self.b.ins().load(I64, GUEST, entry, at);
        let page = self.b.ins().band_imm_s(va, -(PAGE_SIZE as i64) | (size - 1));
        self.b.ins().icmp(IntCC::NotEqual, tag, page)
    }

    /// Host address of an access, with a displacement.
    pub(super) fn translated_address(&mut self, insn: &Insn) -> (Value, i32) {
        let base = self.get(insn.b);
        let datum = Datum::of(insn);
        let at = self.registers.map(|r| r[insn.b.min(ZERO) as usize].plus(i64::from(insn.imm)));
        let known = at.and_then(|at| self.pages.iter().position(|page| page.holds(at, datum)));
        if let (Some(known), Some(at)) = (known, at) {
            let Page { at: origin, host, slot, block, .. } = self.pages[known];
            let distance = at.offset.wrapping_sub(origin.offset) as i32;
            let host = match slot {
                Some(slot) if block != self.current => self.b.ins().stack_load(I64, I64, slot, 0),
                _ => host,
            };
            let unknown = self.b.ins().icmp_imm_s(IntCC::Equal, host, 0);
            let host = self.cold_value(unknown, host, I64, |t| {
                let va = t.access_va(insn, base);
                let (addend, _) = t.look(datum, va);
                let host = t.b.ins().iadd(va, addend);
                t.b.ins().iadd_imm_s(host, -i64::from(distance))
            });
            return (host, distance);
        }
        let va = self.access_va(insn, base);
        // Two results at once are no node of Cranelift's e-graph, and no code: index and tag are made
        // where they are used. Hoisted out of loops and shared between blocks, as they would be
        // otherwise, those of every address of a region compete for its registers.
        let pair = self.b.ins().iconcat(va, va);
        let va = self.b.ins().isplit(pair).0;
        let (addend, entry) = self.look(datum, va);
        let host = self.b.ins().iadd(va, addend);
        let aligned = !matches!(insn.op, Opcode::LdqU | Opcode::StqU);
        if let Some(at) = at
            && aligned
            && let Some(span) = self.span_ahead(at, datum)
        {
            self.note_page(at, datum, span, (va, entry, host));
        }
        (host, 0)
    }

    /// Notes that the accesses of `span` need no look, if they do lie in the page at whose `entry` the one
    /// at `va` was found.
    fn note_page(
        &mut self,
        at: Origin,
        datum: Datum,
        span: Span,
        (va, entry, host): (Value, Value, Value),
    ) {
        let Span { first, end, both, elsewhere } = span;
        let start = self.b.ins().iadd_imm_s(va, first);
        let start = self.b.ins().band_imm_s(start, PAGE_SIZE as i64 - 1);
        let most = PAGE_SIZE as i64 - (end - first);
        let crosses = self.b.ins().icmp_imm_s(IntCC::UnsignedGreaterThan, start, most);
        let none = self.iconst(0);
        let mut usable = self.b.ins().select(crosses, none, host);
        if both {
            let other = self.tb_misses(entry, va, datum.size, !datum.store);
            usable = self.b.ins().select(other, none, usable);
        }
        // What waits for other blocks would take a register from all that lies between, or be spilled
        // and loaded twice for each use.
        let slot = elsewhere.then(|| {
            let data = ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, 8, 3);
            let slot = self.b.create_sized_stack_slot(data);
            self.b.ins().stack_store(I64, usable, slot, 0);
            slot
        });
        let block = self.current;
        self.pages.push(Page { at, first, end, datum, both, host: usable, slot, block });
    }

    /// Guest address of an access.
    fn access_va(&mut self, insn: &Insn, base: Value) -> Value {
        let va = self.b.ins().iadd_imm_s(base, i64::from(insn.imm));
        match insn.op {
            Opcode::LdqU | Opcode::StqU => self.b.ins().band_imm_s(va, -8),
            _ => va,
        }
    }

    /// What is to be added to the guest address of a datum, from the translation buffer, and the entry
    /// there.
    fn look(&mut self, datum: Datum, va: Value) -> (Value, Value) {
        let Datum { size, store } = datum;
        let bank = self.host_base();
        let entry = self.tb_entry(bank, va);
        let misses = self.tb_misses(entry, va, size, store);
        let addend = self.b.ins().load(I64, GUEST, entry, TB_ADDEND);
        let addend = self.cold_value(misses, addend, I64, |t| {
            let (size, store) = (t.iconst(size), t.iconst(i64::from(store)));
            let [addend, failed] = t.call_host(HostFn::Fill, [t.cpu, va, size, store]);
            t.cold_if(failed, |t| t.stop_and_step());
            addend
        });
        (addend, entry)
    }

    /// The bytes, as distances from an access, of those that follow it on every way to them and need no
    /// look of their own if they lie in the same page.
    fn span_ahead(&self, at: Origin, datum: Datum) -> Option<Span> {
        let n = self.region.blocks[self.current].insns.len() - self.after - 1;
        let mut span = Span { first: 0, end: datum.size, both: false, elsewhere: false };
        let mut followers = 0;
        for (distance, other, block) in self.origins.as_ref()?.ahead((self.current, n), at) {
            if datum.aligns(other, distance) && (-NEAR..NEAR).contains(&distance) {
                followers += 1;
                span.first = span.first.min(distance);
                span.end = span.end.max(distance + other.size);
                span.both |= other.store != datum.store;
                span.elsewhere |= block != self.current;
            }
        }
        (followers > 0).then_some(span)
    }

    /// PROBER and PROBEW. Both bytes are looked up in the bank of the mode that is asked for; what the
    /// buffer does not know goes to the page table.
    pub(super) fn lower_probe(&mut self, write: bool) {
        let (base, offset, asked) = (self.get(16), self.get(17), self.get(18));
        let asked_for = self.known_value(asked);
        let asked = self.b.ins().band_imm_s(asked, 3);
        let how = self.b.ins().ishl_imm_u(asked, 1);
        let how = self.b.ins().bor_imm_s(how, i64::from(write));
        let wanted = self.span(base, offset);
        if let Some(misses) = wanted.and_then(|w| self.proof_of(w, asked_for, write)) {
            let one = self.iconst(1);
            let value = self.cold_value(misses, one, I64, slow_probe(base, offset, how));
            self.count_in(word::ELIDED);
            return self.set(0, value);
        }
        let slow = slow_probe(base, offset, how);
        if !self.mode.inline_probe {
            let value = slow(self);
            return self.set(0, value);
        }
        let current = i64::from((self.mode.space - 1) >> 1 & 3);
        let floor = self.iconst(current);
        let mode = self.b.ins().umax(asked, floor);
        let mode = self.b.ins().iadd_imm_s(mode, -current);
        let distance = self.b.ins().imul_imm_s(mode, TB_BANK as i64);
        let bank = self.host_base();
        let bank = self.b.ins().iadd(bank, distance);
        let last = self.b.ins().iadd(base, offset);
        let first_entry = self.tb_entry(bank, base);
        let first = self.tb_misses(first_entry, base, 1, write);
        let last_entry = self.tb_entry(bank, last);
        let second = self.tb_misses(last_entry, last, 1, write);
        let misses = self.b.ins().bor(first, second);
        let one = self.iconst(1);
        let value = self.cold_value(misses, one, I64, slow);
        self.count_in(word::PROBES);
        if let Some(span) = wanted.filter(|_| self.mode.elide_probe) {
            self.proofs.push(Proof { span, asked: asked_for, write, misses });
        }
        self.set(0, value);
    }

    fn count_in(&mut self, w: usize) {
        let count = self.load_word(w);
        let count = self.b.ins().iadd_imm_s(count, 1);
        self.store_word(w, count);
    }

    /// What is known of a value.
    fn known_value(&self, value: Value) -> Known {
        let (root, distance) = self.sum_of(value);
        let dfg = &self.b.func.dfg;
        if let ValueDef::Result(inst, 0) = dfg.value_def(root)
            && let InstructionData::UnaryImm { opcode: ir::Opcode::Iconst, imm } = dfg.insts[inst]
        {
            return Known { root: None, distance: imm.bits().wrapping_add(distance) };
        }
        Known { root: Some(root), distance }
    }

    /// The bytes from `base` to `offset` behind it, if that is known and less than a page: then each of
    /// them lies in the page of the first or the last.
    fn span(&self, base: Value, offset: Value) -> Option<Probed> {
        let (base, offset) = (self.known_value(base), self.known_value(offset));
        let short = offset.root.is_none() && (0..PAGE_SIZE as i64).contains(&offset.distance);
        let last = base.distance.checked_add(offset.distance);
        short.then_some(Probed { root: base.root, first: base.distance, last: last? })
    }

    /// Whether an earlier PROBE of the same kind missed, of which this one is a part. Nothing between
    /// the two can have taken away what the buffer knew then: that demands an invalidate, and whatever
    /// invalidates, or changes mode or address space, ends the region. Answers from elsewhere, which
    /// may be those of invalid entries, are no proofs.
    fn proof_of(&self, wanted: Probed, asked: Known, write: bool) -> Option<Value> {
        let proves = |p: &&Proof| p.write == write && p.asked == asked && p.span.holds(wanted);
        self.proofs.iter().find(proves).map(|p| p.misses)
    }
}

/// A value as a constant, or as another one with a constant added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    root: Option<Value>,
    distance: i64,
}

/// Bytes that a PROBE is about.
#[derive(Clone, Copy, Debug)]
pub struct Probed {
    root: Option<Value>,
    first: i64,
    last: i64,
}

impl Probed {
    fn holds(self, other: Probed) -> bool {
        self.root == other.root && self.first <= other.first && other.last <= self.last
    }
}

/// A PROBE on the way here, and whether the buffer did not know its answer.
#[derive(Clone, Debug)]
pub struct Proof {
    span: Probed,
    asked: Known,
    write: bool,
    misses: Value,
}

/// Has the page table asked.
fn slow_probe(
    base: Value,
    offset: Value,
    how: Value,
) -> impl FnOnce(&mut Translator<'_, '_>) -> Value {
    move |t| {
        let [accessible, failed] = t.call_host(HostFn::Probe, [t.cpu, base, offset, how]);
        t.cold_if(failed, |t| t.stop_and_step());
        accessible
    }
}
