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
use super::symbols::HostFn;
use crate::abi::word;
use crate::region;

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

/// Farthest distance from an access of one that relies on it.
const NEAR: i64 = PAGE_SIZE as i64 / 2;

/// How memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Datum {
    /// Bytes; the address is a multiple of that.
    size: i64,
    store: bool,
}

impl Datum {
    fn of(insn: &Insn) -> Datum {
        let store = matches!(insn.op.kind(), Kind::Store | Kind::StoreUnaligned | Kind::Fstore);
        Datum { size: access_size(insn.op), store }
    }

    /// Whether another one, at a distance, is aligned and permitted if this one is.
    fn covers(self, other: Datum, distance: i64) -> bool {
        self.store == other.store && other.size <= self.size && distance % other.size == 0
    }
}

/// Addresses in one page, one of which has been looked up.
#[derive(Clone, Debug)]
pub struct Page {
    root: Value,
    /// Distances from the root: of that one, and of the first byte and the end.
    at: i64,
    first: i64,
    end: i64,
    datum: Datum,
    /// What to add for the host's address; 0 if they do not lie in one page after all.
    addend: Value,
}

impl Page {
    fn holds(&self, root: Value, at: i64, datum: Datum) -> bool {
        root == self.root
            && self.first <= at
            && at.checked_add(datum.size).is_some_and(|end| end <= self.end)
            && self.datum.covers(datum, at.wrapping_sub(self.at))
    }
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

    /// Host address of an access.
    pub(super) fn translated_address(&mut self, insn: &Insn) -> Value {
        let base = self.get(insn.b);
        let (root, distance) = self.sum_of(base);
        let at = distance.wrapping_add(i64::from(insn.imm));
        let datum = Datum::of(insn);
        let known = self.pages.iter().find(|page| page.holds(root, at, datum));
        if let Some(&Page { addend, .. }) = known {
            let unknown = self.b.ins().icmp_imm_s(IntCC::Equal, addend, 0);
            let va = self.access_va(insn, base);
            let addend = self.cold_value(unknown, addend, I64, |t| t.addend(datum, va));
            return self.b.ins().iadd(va, addend);
        }
        let va = self.access_va(insn, base);
        // Two results at once are no node of Cranelift's e-graph, and no code: index and tag are made
        // where they are used. Hoisted out of loops and shared between blocks, as they would be
        // otherwise, those of every address of a region compete for its registers.
        let pair = self.b.ins().iconcat(va, va);
        let va = self.b.ins().isplit(pair).0;
        let addend = self.addend(datum, va);
        let aligned = !matches!(insn.op, Opcode::LdqU | Opcode::StqU);
        if aligned && let Some((first, end)) = self.span_ahead(insn, datum) {
            let start = self.b.ins().iadd_imm_s(va, first);
            let start = self.b.ins().band_imm_s(start, PAGE_SIZE as i64 - 1);
            let most = PAGE_SIZE as i64 - (end - first);
            let crosses = self.b.ins().icmp_imm_s(IntCC::UnsignedGreaterThan, start, most);
            let none = self.iconst(0);
            let addend = self.b.ins().select(crosses, none, addend);
            let (first, end) = (at.wrapping_add(first), at.wrapping_add(end));
            self.pages.push(Page { root, at, first, end, datum, addend });
        }
        self.b.ins().iadd(va, addend)
    }

    /// Guest address of an access.
    fn access_va(&mut self, insn: &Insn, base: Value) -> Value {
        let va = self.b.ins().iadd_imm_s(base, i64::from(insn.imm));
        match insn.op {
            Opcode::LdqU | Opcode::StqU => self.b.ins().band_imm_s(va, -8),
            _ => va,
        }
    }

    /// What is to be added to the guest address of a datum, from the translation buffer.
    fn addend(&mut self, datum: Datum, va: Value) -> Value {
        let Datum { size, store } = datum;
        let bank = self.host_base();
        let entry = self.tb_entry(bank, va);
        let misses = self.tb_misses(entry, va, size, store);
        let addend = self.b.ins().load(I64, GUEST, entry, TB_ADDEND);
        self.cold_value(misses, addend, I64, |t| {
            let (size, store) = (t.iconst(size), t.iconst(i64::from(store)));
            let [addend, failed] = t.call_host(HostFn::Fill, [t.cpu, va, size, store]);
            t.cold_if(failed, |t| t.stop_and_step());
            addend
        })
    }

    /// The bytes, as distances from an access, of those that follow it in its block with the same base and
    /// need no look of their own if they lie in the same page.
    fn span_ahead(&self, insn: &Insn, datum: Datum) -> Option<(i64, i64)> {
        if insn.b >= ZERO {
            return None;
        }
        let insns = &self.region.blocks[self.current].insns;
        let rest = &insns[insns.len() - self.after - 1..];
        let (mut first, mut end) = (0, datum.size);
        let mut followers = 0;
        let mut moved = 0;
        for (n, next) in rest.iter().enumerate() {
            let distance = moved + i64::from(next.imm) - i64::from(insn.imm);
            let follows = n > 0 && super::is_access(next) && next.b == insn.b;
            let other = Datum::of(next);
            if follows && datum.covers(other, distance) && distance.abs() < NEAR {
                followers += 1;
                (first, end) = (first.min(distance), end.max(distance + other.size));
            }
            if region::writes(next).int & 1 << insn.b != 0 {
                let steps = next.op == Opcode::Lda && next.b == insn.b;
                if !steps {
                    break;
                }
                moved += i64::from(next.imm);
            }
        }
        (followers > 0).then_some((first, end))
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
    fn span(&self, base: Value, offset: Value) -> Option<Span> {
        let (base, offset) = (self.known_value(base), self.known_value(offset));
        let short = offset.root.is_none() && (0..PAGE_SIZE as i64).contains(&offset.distance);
        let last = base.distance.checked_add(offset.distance);
        short.then_some(Span { root: base.root, first: base.distance, last: last? })
    }

    /// Whether an earlier PROBE of the same kind missed, of which this one is a part. Nothing between
    /// the two can have taken away what the buffer knew then: that demands an invalidate, and whatever
    /// invalidates, or changes mode or address space, ends the region. Answers from elsewhere, which
    /// may be those of invalid entries, are no proofs.
    fn proof_of(&self, wanted: Span, asked: Known, write: bool) -> Option<Value> {
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
pub struct Span {
    root: Option<Value>,
    first: i64,
    last: i64,
}

impl Span {
    fn holds(self, other: Span) -> bool {
        self.root == other.root && self.first <= other.first && other.last <= self.last
    }
}

/// A PROBE on the way here, and whether the buffer did not know its answer.
#[derive(Clone, Debug)]
pub struct Proof {
    span: Span,
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
