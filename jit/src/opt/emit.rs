//! The frame of a region's translation: registers as SSA variables, blocks, exits, calls.

use axp_emu::cpu::Cpu;
use axp_emu::isa::{CpuModel, RegSet, SINK, ZERO};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{
    self, AbiParam, BlockArg, InstBuilder, MemFlagsData, SigRef, Signature, SourceLoc, Type, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Variable};
use std::collections::{BTreeMap, HashMap};
use std::mem::offset_of;

use super::lazy::Waiting;
use super::lower_fp_direct::Fused;
use super::merged::Merged;
use super::origins::{Origins, Registers};
use super::precise::{Group, Tail};
use super::reuse::{Known, only_predecessors};
use super::symbols::{HostFn, Symbol, Symbols};
use super::translated::{Page, Proof};
use crate::abi::{self, ARGS, ExitKind, RESULTS, int_offset, word, word_offset};
use crate::analysis::{Bounds, Facts};
use crate::fields::Action;
use crate::region::{self, Region, Target, Term};

/// How a region is to behave beyond being right.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Mode {
    /// Count instructions and stop exactly at the limit.
    pub counted: bool,
    /// Guest address 0 is not host address 0.
    pub based: bool,
    /// A fault finds every register exact.
    pub precise: bool,
    /// Somebody may look at the registers whenever a region is left.
    pub observed: bool,
    /// Data that are not naturally aligned trap.
    pub strict: bool,
    /// FPCR gives denormal operands a meaning (a trap, or zero) that the host's FPU does not see.
    pub exact_fp: bool,
    /// FPCR rounds /D instructions to nearest.
    pub dynamic_nearest: bool,
    /// The host's floating-point exceptions raise SIGFPE (`crate::fpu`).
    pub unmasked: bool,
    /// Code space of translated memory (`AddressSpace::code_space`); 0 for a program's window.
    pub space: u32,
    /// PROBE is answered from the translation buffer inline.
    pub inline_probe: bool,
    /// A PROBE that an earlier one has proved is left out.
    pub elide_probe: bool,
}

impl Mode {
    /// Whether addresses go through the translation buffer.
    pub const fn translated(self) -> bool {
        self.space != 0
    }
}

/// Flags of accesses to the processor's state: they cannot fault.
pub const STATE: MemFlagsData = MemFlagsData::trusted();
/// Flags of guest accesses: they may fault and keep their order.
pub const GUEST: MemFlagsData = MemFlagsData::new();

/// Translates one region.
pub struct Translator<'a, 'f> {
    pub(super) b: FunctionBuilder<'f>,
    pub(super) region: &'a Region,
    pub(super) facts: &'a Facts,
    pub(super) mode: Mode,
    pub(super) symbols: &'a mut Symbols,
    pub(super) cpu: Value,
    /// Where code that is not to keep [`Self::cpu`] in a register finds it.
    cpu_slot: Option<ir::StackSlot>,
    /// Bits that AMASK clears, and IMPLVER.
    pub(super) model: CpuModel,
    int: [Variable; 31],
    fp: [Variable; 31],
    blocks: Vec<ir::Block>,
    preds: Vec<usize>,
    sig: SigRef,
    pub(super) helper_sig: SigRef,
    unwind_sig: SigRef,
    pal_sig: SigRef,
    base: Option<Value>,
    /// Registers that differ from memory at the current point.
    pub(super) dirty: RegSet,
    /// Registers that only `Cpu` holds here.
    parked: RegSet,
    pub(super) bounds: Bounds,
    /// The code being emitted is not expected to run.
    in_cold: bool,
    /// Block that is being emitted.
    pub(super) current: usize,
    /// Address of the current instruction.
    pub(super) pc: u64,
    /// Registers that whoever goes on at the current pc needs.
    pub(super) live: RegSet,
    /// Instructions of the current block that follow the current one.
    pub(super) after: usize,
    /// Data of this block that were loaded in one piece, by number, and their guest addresses.
    pub(super) data: BTreeMap<usize, (Value, Value)>,
    /// Where a load at the first address also does the work of one at the second, which may fault.
    pub(super) merged: Vec<Merged>,
    /// The last CMPTxx of this block: its target register and its truth.
    pub(super) compare: Option<(u8, Value)>,
    /// Values that are others with a constant added.
    pub(super) sums: HashMap<Value, (Value, i64)>,
    /// What earlier code on every way here has computed, checked and stored.
    pub(super) known: Known,
    /// The same at the end of each block that has been emitted.
    ends: Vec<Known>,
    /// Bit images: a result of `to_bits` or `from_bits`, and what it was made from.
    images: HashMap<Value, Value>,
    /// Results that have not been computed yet.
    pub(super) waiting: Waiting,
    /// Accesses that may have faulted, in precise mode.
    pub(super) group: Option<Group>,
    pub(super) tail: Option<Tail>,
    /// Cranelift's optimiser leaves this region alone.
    pub(super) in_order: bool,
    /// A compare that the branch at the block's end will emit.
    pub(super) fused: Option<Fused>,
    /// Pages that have been looked up on every way to the current point, and those at the end of each
    /// block; with translated memory only.
    pub(super) pages: Vec<Page>,
    pages_out: Vec<Vec<Page>>,
    /// Where the contents of registers come from, and those at the current point.
    pub(super) origins: Option<Origins>,
    pub(super) registers: Option<Registers>,
    /// PROBEs on the way to the current point, and those at the end of each block.
    pub(super) proofs: Vec<Proof>,
    proofs_out: Vec<Vec<Proof>>,
    /// The only block that leads to one.
    only_pred: Vec<Option<usize>>,
}

/// Signature of every region (`abi`).
pub fn signature() -> Signature {
    let mut sig = Signature::new(CallConv::Tail);
    sig.params = vec![AbiParam::new(I64); 1 + ARGS.len()];
    sig.returns = vec![AbiParam::new(I64); 1 + RESULTS.len()];
    sig
}

/// Source location that stands for a guest pc of this region. Even numbers only: the compiler keeps
/// differences, and one of -1 it would take for no location.
pub(super) fn srcloc(region: &Region, pc: u64) -> SourceLoc {
    SourceLoc::new((pc.wrapping_sub(lowest_pc(region)) >> 1) as u32)
}

/// The guest pc that a source location stands for.
pub fn pc_of(lowest: u64, loc: SourceLoc) -> u64 {
    lowest + (u64::from(loc.bits()) << 1)
}

/// The lowest guest pc of a region: what source locations count from.
pub fn lowest_pc(region: &Region) -> u64 {
    let divisions = region.blocks.iter().filter_map(|b| b.division).map(|d| d.entry);
    region.blocks.iter().map(|b| b.pc).chain(divisions).min().unwrap_or(0)
}

impl<'a, 'f> Translator<'a, 'f> {
    /// Emits the whole region into the builder's function. Also gives the places where a load does the
    /// work of one further on as well: the addresses of both.
    pub fn translate(
        mut b: FunctionBuilder<'f>,
        region: &'a Region,
        facts: &'a Facts,
        mode: Mode,
        model: CpuModel,
        in_order: bool,
        symbols: &'a mut Symbols,
    ) -> (FunctionBuilder<'f>, Vec<Merged>) {
        let sig = b.import_signature(signature());
        let mut helper = Signature::new(CallConv::PreserveAll);
        helper.params = vec![AbiParam::new(I64); 6];
        let helper_sig = b.import_signature(helper);
        let mut unwind = signature();
        unwind.params.truncate(1);
        let mut pal = signature();
        pal.params.truncate(2);
        let pal_sig = b.import_signature(pal);
        let unwind_sig = b.import_signature(unwind);
        let int = std::array::from_fn(|_| b.declare_var(I64));
        let fp = std::array::from_fn(|_| b.declare_var(F64));
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        let blocks: Vec<_> = region.blocks.iter().map(|_| b.create_block()).collect();
        let mut preds = vec![0; blocks.len()];
        preds[0] = 1;
        for block in &region.blocks {
            block.successors().for_each(|s| preds[s] += 1);
        }
        b.switch_to_block(entry);
        b.seal_block(entry);
        let cpu = b.block_params(entry)[0];
        let mut t = Translator {
            b,
            region,
            facts,
            mode,
            symbols,
            cpu,
            cpu_slot: None,
            model,
            int,
            fp,
            blocks,
            preds,
            sig,
            helper_sig,
            unwind_sig,
            pal_sig,
            base: None,
            dirty: abi::arg_set(),
            parked: RegSet::NONE,
            bounds: facts.bounds_in[0].clone(),
            in_cold: false,
            current: 0,
            pc: region.entry(),
            live: RegSet::ALL,
            after: 0,
            data: BTreeMap::new(),
            merged: Vec::new(),
            compare: None,
            sums: HashMap::new(),
            known: Known::default(),
            ends: vec![Known::default(); region.blocks.len()],
            images: HashMap::new(),
            waiting: Waiting::new(),
            group: None,
            tail: None,
            in_order,
            fused: None,
            pages: Vec::new(),
            pages_out: vec![Vec::new(); region.blocks.len()],
            origins: mode.translated().then(|| Origins::of(region)),
            registers: None,
            proofs: Vec::new(),
            proofs_out: vec![Vec::new(); region.blocks.len()],
            only_pred: only_predecessors(region),
        };
        t.prologue(entry);
        for (i, before) in super::reuse::dominators(region).into_iter().enumerate() {
            t.known = match before {
                Some((b, only)) => t.ends[b].on_entry(only),
                None => Known::default(),
            };
            t.pages = before.map(|(b, _)| t.pages_out[b].clone()).unwrap_or_default();
            t.block(i);
        }
        (t.b, t.merged)
    }

    fn prologue(&mut self, entry: ir::Block) {
        for (i, &r) in ARGS.iter().enumerate() {
            let value = self.b.block_params(entry)[i + 1];
            self.b.def_var(self.int[r as usize], value);
        }
        self.load_registers(
            self.facts.live_in[0].minus(abi::arg_set()).minus(self.facts.parked[0]),
        );
        if self.mode.based {
            self.base = Some(self.load_word(word::BASE));
        }
        if self.in_order && self.region.blocks.iter().any(|b| b.loop_head) {
            // Otherwise all the paths that leave a loop would compete for registers with the loop.
            let data = ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, 8, 3);
            let slot = self.b.create_sized_stack_slot(data);
            self.b.ins().stack_store(I64, self.cpu, slot, 0);
            self.cpu_slot = Some(slot);
        }
        let terms = || self.region.blocks.iter().map(|b| b.term);
        let calls = terms().any(|t| matches!(t, Term::Call { .. }));
        // A cycle of calls or indirect jumps passes no loop head.
        let polls = calls || terms().any(|t| t == Term::Jump);
        if calls {
            let sp = self.b.ins().get_stack_pointer(I64);
            let limit = self.load_word(word::STACK_LIMIT);
            let low = self.b.ins().icmp(IntCC::UnsignedLessThan, sp, limit);
            let pc = self.region.entry();
            self.cold_if(low, |t| {
                let next = t.iconst(pc as i64);
                t.return_to(next);
            });
        }
        if polls {
            self.poll(0);
        }
        self.jump_to(0);
    }

    fn block(&mut self, i: usize) {
        let block = &self.region.blocks[i];
        self.current = i;
        self.b.switch_to_block(self.blocks[i]);
        self.dirty = self.facts.dirty_in[i];
        self.parked = self.facts.parked[i];
        self.bounds = self.facts.bounds_in[i].clone();
        self.compare = None;
        // In reverse postorder a block's only predecessor, if it has one, comes before.
        let before = self.only_pred[i].map(|p| self.proofs_out[p].clone());
        self.proofs = before.unwrap_or_default();
        self.data.clear();
        self.registers = self.origins.as_ref().and_then(|o| o.on_entry(i));
        self.waiting.clear();
        self.pc = block.pc;
        self.b.set_srcloc(srcloc(self.region, block.pc));
        let plan = self.plan(i, block);
        let live = self.facts.live(i, block);
        self.live = live[0];
        if self.mode.counted && !block.insns.is_empty() {
            self.count(block.insns.len());
        }
        if block.loop_head {
            self.poll(block.insns.len());
        }
        for (n, insn) in block.insns.iter().enumerate() {
            self.pc = block.pc + 4 * n as u64;
            self.live = live[n];
            self.after = block.insns.len() - n - 1;
            self.b.set_srcloc(srcloc(self.region, self.pc));
            if self.after == 0 && region::ends_block(insn) {
                self.look_back();
                self.end_known(i);
            }
            match plan.as_ref().map(|plan| plan[n]) {
                None | Some(Action::Plain) => self.lower(insn),
                Some(action) => self.lower_planned(insn, action),
            }
            if let (Some(origins), Some(registers)) = (&self.origins, &mut self.registers) {
                origins.step(self.region, i, n, registers);
            }
            if self.facts.is_through(i, n) {
                self.look_back();
                let written = block.writes(n);
                self.store_registers(written.intersection(self.dirty));
                self.dirty = self.dirty.minus(written);
            }
        }
        self.look_back();
        // Behind a call there is no register that any of them is about.
        if !matches!(block.term, Term::Call { .. }) {
            self.pages_out[i] = std::mem::take(&mut self.pages);
        }
        self.proofs_out[i] = std::mem::take(&mut self.proofs);
        if !block.insns.last().is_some_and(region::ends_block) {
            self.end_known(i);
        }
        // Every other terminator is the lowering of the last instruction.
        match block.term {
            Term::Goto(t) if !block.insns.last().is_some_and(region::ends_block) => {
                self.goto(t);
            }
            Term::Stop => {
                self.pc = block.end();
                self.live = live[block.insns.len()];
                self.stop(ExitKind::Step, 0);
            }
            Term::Pal(code) => {
                self.pc = block.end();
                self.live = live[block.insns.len()];
                self.ask_palcode(code);
            }
            _ => {}
        }
        self.end_tail();
    }

    /// Registers that whoever goes on behind the current block needs.
    pub(super) fn live_at_end(&self) -> RegSet {
        let block = &self.region.blocks[self.current];
        self.facts.live(self.current, block)[block.insns.len()]
    }

    /// Keeps what is known at a block's end for those that it dominates.
    fn end_known(&mut self, i: usize) {
        let block = &self.region.blocks[i];
        self.ends[i] = self.known.clone();
        if block.division.is_some() || matches!(block.term, Term::Call { .. }) {
            self.ends[i].memory_changes();
        }
    }

    /// Leaves if somebody asks for it; `counted` instructions from the current pc are not done.
    fn poll(&mut self, counted: usize) {
        // Atomic, so that neither this load nor a guest's load in a loop that waits for another
        // thread is merged with one from before the loop.
        let cpu = self.reload_cpu();
        let at = self.b.ins().iadd_imm_s(cpu, offset_of!(Cpu, poll) as i64);
        let poll = self.b.ins().atomic_load(I32, STATE, at);
        self.cold_if(poll, |t| t.stop(ExitKind::Poll, counted));
    }

    /// The processor's address, which need not be in a register up to here.
    pub(super) fn reload_cpu(&mut self) -> Value {
        match self.cpu_slot {
            Some(slot) => self.b.ins().stack_load(I64, I64, slot, 0),
            None => self.cpu,
        }
    }

    /// Adds a block's length to the count, or leaves where that would pass the limit.
    fn count(&mut self, len: usize) {
        let old = self.b.ins().load(I64, STATE, self.cpu, offset_of!(Cpu, count) as i32);
        let new = self.b.ins().iadd_imm_s(old, len as i64);
        let limit = self.load_word(word::COUNT_LIMIT);
        let past = self.b.ins().icmp(IntCC::UnsignedGreaterThan, new, limit);
        self.cold_if(past, |t| t.stop(ExitKind::Count, 0));
        self.b.ins().store(STATE, new, self.cpu, offset_of!(Cpu, count) as i32);
    }

    // Values

    /// A constant quadword.
    pub(super) fn iconst(&mut self, value: i64) -> Value {
        self.b.ins().iconst(I64, value)
    }

    /// Something's address.
    pub(super) fn symbol(&mut self, symbol: Symbol) -> Value {
        let number = self.symbols.number(symbol);
        self.iconst(number as i64)
    }

    /// Value of an integer register.
    pub(super) fn get(&mut self, r: u8) -> Value {
        if r >= ZERO {
            return self.iconst(0);
        }
        if let Some(value) = self.take_lazy(r) {
            self.define(r, value);
        }
        self.b.use_var(self.int[r as usize])
    }

    /// Gives the variable of an integer register a value.
    pub(super) fn define(&mut self, r: u8, value: Value) {
        self.b.def_var(self.int[r as usize], value);
    }

    /// The same for a floating-point register.
    pub(super) fn define_f(&mut self, r: u8, value: Value) {
        self.b.def_var(self.fp[r as usize], value);
    }

    /// Writes an integer register.
    pub(super) fn set(&mut self, r: u8, value: Value) {
        if r < ZERO {
            self.forget_lazy(r);
            self.define(r, value);
            self.dirty.int |= 1 << r;
        }
    }

    /// A value as another one with a constant added.
    pub(super) fn sum_of(&self, value: Value) -> (Value, i64) {
        let value = self.b.func.dfg.resolve_aliases(value);
        self.sums.get(&value).copied().unwrap_or((value, 0))
    }

    /// Value of a floating-point register.
    pub(super) fn get_f(&mut self, r: u8) -> Value {
        if r >= ZERO {
            return self.b.ins().f64const(0.0);
        }
        if let Some(value) = self.take_lazy_f(r) {
            self.define_f(r, value);
        }
        self.b.use_var(self.fp[r as usize])
    }

    /// Writes a floating-point register.
    pub(super) fn set_f(&mut self, r: u8, value: Value) {
        if self.compare.is_some_and(|(c, _)| c == r) {
            self.compare = None;
        }
        if r < ZERO {
            self.forget_lazy_f(r);
            self.define_f(r, value);
            self.dirty.fp |= 1 << r;
        }
    }

    /// Bits of a floating-point register.
    pub(super) fn get_bits(&mut self, r: u8) -> Value {
        let value = self.get_f(r);
        self.to_bits(value)
    }

    /// Writes a floating-point register from its bits.
    pub(super) fn set_bits(&mut self, r: u8, bits: Value) {
        if r != SINK {
            let value = self.from_bits(bits);
            self.set_f(r, value);
        }
    }

    /// f64 to i64.
    #[allow(clippy::wrong_self_convention, reason = "the receiver is the builder")]
    pub(super) fn to_bits(&mut self, value: Value) -> Value {
        self.image(I64, value)
    }

    /// i64 to f64.
    #[allow(clippy::wrong_self_convention, reason = "the receiver is the builder")]
    pub(super) fn from_bits(&mut self, bits: Value) -> Value {
        self.image(F64, bits)
    }

    /// The bits of a value as another type; there and back again is nothing.
    fn image(&mut self, ty: Type, value: Value) -> Value {
        let value = self.b.func.dfg.resolve_aliases(value);
        if let Some(&origin) = self.images.get(&value) {
            return origin;
        }
        let image = self.b.ins().bitcast(ty, MemFlagsData::new(), value);
        self.images.insert(image, value);
        image
    }

    /// A word of the engine's area.
    pub(super) fn load_word(&mut self, w: usize) -> Value {
        self.b.ins().load(I64, STATE, self.cpu, word_offset(w))
    }

    pub(super) fn store_word(&mut self, w: usize, value: Value) {
        self.b.ins().store(STATE, value, self.cpu, word_offset(w));
    }

    /// What is added to addresses: the window's base or, translated, the current bank.
    pub(super) fn host_base(&mut self) -> Value {
        match self.base {
            Some(base) => base,
            None => self.iconst(0),
        }
    }

    /// Host address of a guest address.
    pub(super) fn host(&mut self, va: Value) -> Value {
        match self.base {
            Some(base) => self.b.ins().iadd(base, va),
            None => va,
        }
    }

    /// Attributes what is emitted from now on to another guest pc.
    pub(super) fn attribute(&mut self, pc: u64) {
        self.b.set_srcloc(srcloc(self.region, pc));
    }

    // Memory image of registers

    pub(super) fn load_registers(&mut self, set: RegSet) {
        for r in bits(set.int) {
            let value = self.b.ins().load(I64, STATE, self.cpu, int_offset(r));
            self.forget_lazy(r);
            self.define(r, value);
        }
        for r in bits(set.fp) {
            let value = self.b.ins().load(F64, STATE, self.cpu, abi::fp_offset(r));
            let value = self.in_register(value);
            self.forget_lazy_f(r);
            self.define_f(r, value);
        }
    }

    /// Writes registers back. They stay dirty for paths that do not come through here.
    pub(super) fn store_registers(&mut self, set: RegSet) {
        for r in bits(set.int) {
            let value = self.get(r);
            self.b.ins().store(STATE, value, self.cpu, int_offset(r));
        }
        for r in bits(set.fp) {
            let value = self.get_f(r);
            self.b.ins().store(STATE, value, self.cpu, abi::fp_offset(r));
        }
    }

    // Leaving

    /// A block that is as cold as the current one.
    pub(super) fn new_block(&mut self) -> ir::Block {
        let block = self.b.create_block();
        if self.in_cold {
            self.b.set_cold_block(block);
        }
        block
    }

    /// Emits `body` as cold code into the current block; what it computes is not kept.
    pub(super) fn cold<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        let waiting = self.waiting.clone();
        let (was_cold, cpu) = (self.in_cold, self.cpu);
        if !was_cold {
            self.in_cold = true;
            self.cpu = self.reload_cpu();
        }
        let result = body(self);
        (self.in_cold, self.cpu, self.waiting) = (was_cold, cpu, waiting);
        result
    }

    /// Emits `body`, which must leave, into a cold block taken when `cond` is not zero.
    pub(super) fn cold_if(&mut self, cond: Value, body: impl FnOnce(&mut Self)) {
        let (cold, go_on) = (self.b.create_block(), self.new_block());
        self.b.set_cold_block(cold);
        self.b.ins().brif(cond, cold, &[], go_on, &[]);
        self.b.seal_block(cold);
        self.b.seal_block(go_on);
        let dirty = self.dirty;
        self.b.switch_to_block(cold);
        self.cold(body);
        self.dirty = dirty;
        self.b.switch_to_block(go_on);
    }

    /// Emits `body` into a cold block taken when `cond` is not zero; it yields the value that
    /// replaces `usual` from there on.
    pub(super) fn cold_value(
        &mut self,
        cond: Value,
        usual: Value,
        ty: Type,
        body: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        let (cold, join) = (self.b.create_block(), self.new_block());
        let result = self.b.append_block_param(join, ty);
        self.b.set_cold_block(cold);
        self.b.ins().brif(cond, cold, &[], join, &[BlockArg::Value(usual)]);
        self.b.seal_block(cold);
        self.b.switch_to_block(cold);
        let value = self.cold(body);
        self.b.ins().jump(join, &[BlockArg::Value(value)]);
        self.b.seal_block(join);
        self.b.switch_to_block(join);
        result
    }

    /// Emits `body` into a cold block taken when `cond` is not zero, and goes on behind it.
    pub(super) fn cold_aside(&mut self, cond: Value, body: impl FnOnce(&mut Self)) {
        let (cold, join) = (self.b.create_block(), self.new_block());
        self.b.set_cold_block(cold);
        self.b.ins().brif(cond, cold, &[], join, &[]);
        self.b.seal_block(cold);
        self.b.switch_to_block(cold);
        self.cold(body);
        self.b.ins().jump(join, &[]);
        self.b.seal_block(join);
        self.b.switch_to_block(join);
    }

    /// Leaves the current instruction, of which nothing has been done, to the interpreter.
    pub(super) fn stop_and_step(&mut self) {
        self.stop(ExitKind::Step, self.after + 1);
    }

    /// Stops at the current pc; `undone` instructions that the block has counted are not done.
    pub(super) fn stop(&mut self, kind: ExitKind, undone: usize) {
        if !self.leave_group() {
            self.store_registers(self.dirty.intersection(self.live));
            let pc = self.iconst(self.pc as i64);
            let undone = (undone != 0).then(|| self.iconst(undone as i64));
            self.set_place(pc, undone);
            self.leave_for(kind);
        }
    }

    /// Sets where the guest goes on, and how much of what the block has counted is not done.
    pub(super) fn set_place(&mut self, pc: Value, undone: Option<Value>) {
        if let Some(undone) = undone.filter(|_| self.mode.counted) {
            let offset = offset_of!(Cpu, count) as i32;
            let count = self.b.ins().load(I64, STATE, self.cpu, offset);
            let count = self.b.ins().isub(count, undone);
            self.b.ins().store(STATE, count, self.cpu, offset);
        }
        self.b.ins().store(STATE, pc, self.cpu, offset_of!(Cpu, pc) as i32);
    }

    /// Leaves for the dispatcher, with the registers in memory.
    pub(super) fn leave_for(&mut self, kind: ExitKind) {
        let kind = self.iconst(kind as i64);
        self.store_word(word::EXIT, kind);
        self.unwind();
    }

    /// Leaves all regions for CALL_PAL at the current pc.
    fn ask_palcode(&mut self, code: u32) {
        let next = self.iconst(self.pc.wrapping_add(4) as i64);
        self.b.ins().store(STATE, next, self.cpu, offset_of!(Cpu, pc) as i32);
        self.store_registers(self.dirty.intersection(self.live));
        let (pal, code) = (self.load_word(word::PAL), self.iconst(i64::from(code)));
        self.b.ins().return_call_indirect(self.pal_sig, pal, &[self.cpu, code]);
    }

    /// Leaves after a helper has set an exit: all registers are in memory already.
    pub(super) fn stop_pending(&mut self) {
        self.unwind();
    }

    /// Leaves all regions for the dispatcher: the callers' frames hold nothing that memory does not.
    /// Returning instead would keep the registers in [`RESULTS`] alive up to here.
    fn unwind(&mut self) {
        let unwind = self.symbol(Symbol::HostFn(HostFn::Unwind));
        self.b.ins().return_call_indirect(self.unwind_sig, unwind, &[self.cpu]);
    }

    /// Returns to whoever entered the region, with `next` as the next pc.
    pub(super) fn return_to(&mut self, next: Value) {
        self.store_registers(self.dirty.minus(abi::result_set()));
        self.return_results(next);
    }

    fn return_results(&mut self, next: Value) {
        let mut values = vec![next];
        values.extend(RESULTS.map(|r| self.passed(r)));
        self.b.ins().return_(&values);
    }

    fn arguments(&mut self) -> Vec<Value> {
        let mut args = vec![self.cpu];
        args.extend(ARGS.map(|r| self.passed(r)));
        args
    }

    /// Value of an integer register that other code expects in a register.
    fn passed(&mut self, r: u8) -> Value {
        if self.parked.int & 1 << r != 0 {
            return self.b.ins().load(I64, STATE, self.cpu, int_offset(r));
        }
        self.get(r)
    }

    /// Host code that a guest pc's slot holds now.
    pub(super) fn code_of(&mut self, pc: u64) -> Value {
        let slot = self.symbol(Symbol::Slot(pc));
        self.b.ins().load(I64, STATE, slot, 0)
    }

    /// Goes on at host code, which takes the place of this region.
    pub(super) fn tail_call(&mut self, code: Value) {
        self.store_registers(self.dirty.minus(abi::arg_set()));
        let args = self.arguments();
        self.b.ins().return_call_indirect(self.sig, code, &args);
    }

    /// Goes to a target of a direct branch.
    pub(super) fn goto(&mut self, target: Target) {
        match target {
            Target::Block(b) => self.jump_to(b),
            Target::Out(pc) => {
                let code = self.code_of(pc);
                self.tail_call(code);
            }
        }
    }

    /// Jumps to a block of the region from the current point.
    fn jump_to(&mut self, b: usize) {
        let (here, there) = (self.parked, self.facts.parked[b]);
        self.store_registers(there.minus(here).intersection(self.dirty));
        self.load_registers(here.minus(there).intersection(self.facts.live_in[b]));
        self.check_entry(b);
        self.compute_live(self.facts.live_in[b]);
        self.b.ins().jump(self.blocks[b], &[]);
        self.edge_done(b);
    }

    /// Registers to be checked against the window on the current edge into block `b`.
    fn entry_checks(&self, b: usize) -> Vec<u8> {
        // In reverse postorder an edge that goes forward enters a loop, it does not repeat it.
        let enters = b > self.current || self.pc == self.region.entry() && b == 0;
        let checks = if enters && !self.mode.translated() { self.facts.entry_checks[b] } else { 0 };
        bits(checks).filter(|&r| !self.bounds.covers(r, 0)).collect()
    }

    /// On the way into a loop, checks the addresses that it starts from, so that it need not.
    fn check_entry(&mut self, b: usize) {
        let (pc, live) = (self.pc, self.live);
        for r in self.entry_checks(b) {
            self.pc = self.region.blocks[b].pc;
            self.live = self.facts.live_into(b);
            let value = self.get(r);
            let end = self.load_word(word::WINDOW);
            let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, value, end);
            self.cold_if(outside, |t| t.stop(ExitKind::Step, 0));
        }
        (self.pc, self.live) = (pc, live);
    }

    fn edge_done(&mut self, b: usize) {
        self.preds[b] -= 1;
        if self.preds[b] == 0 {
            self.b.seal_block(self.blocks[b]);
        }
    }

    /// Branches on `cond` to two targets; `tested` is a register that is known on either edge, whether
    /// it is one of floating point, and its contents on both.
    pub(super) fn branch(
        &mut self,
        cond: Value,
        taken: Target,
        fall: Target,
        tested: Option<(bool, u8, [u64; 2])>,
    ) {
        let (taken_block, fall_block) = (self.edge_block(taken), self.edge_block(fall));
        self.b.ins().brif(cond, taken_block, &[], fall_block, &[]);
        let waiting = self.waiting.clone();
        for (n, (target, block)) in
            [(taken, taken_block), (fall, fall_block)].into_iter().enumerate()
        {
            match target {
                Target::Block(b) if self.blocks[b] == block => self.edge_done(b),
                _ => {
                    self.b.seal_block(block);
                    self.b.switch_to_block(block);
                    self.known(tested.map(|(fp, r, bits)| (fp, r, bits[n])));
                    self.goto(target);
                    self.waiting.clone_from(&waiting);
                }
            }
        }
    }

    /// Whether nothing happens on the edge from the current block to `b`. On one that leaves a loop,
    /// Cranelift places what has been computed in the loop but is needed only there.
    fn is_plain_edge(&self, b: usize) -> bool {
        let same = self.parked == self.facts.parked[b];
        let waits = !self.waiting_in(self.facts.live_in[b]).is_empty();
        same && !waits
            && !self.facts.leaves_loop(self.current, b)
            && self.entry_checks(b).is_empty()
    }

    fn edge_block(&mut self, target: Target) -> ir::Block {
        match target {
            Target::Block(b) if self.is_plain_edge(b) => self.blocks[b],
            _ => self.b.create_block(),
        }
    }

    /// Calls host code as a guest call that is to return to `ret`.
    pub(super) fn call(&mut self, code: Value, return_pc: u64, ret: Target) {
        self.store_registers(self.dirty.minus(abi::arg_set()));
        let args = self.arguments();
        let call = self.b.ins().call_indirect(self.sig, code, &args);
        let results = self.b.inst_results(call).to_vec();
        self.waiting.clear();
        for (i, r) in RESULTS.into_iter().enumerate() {
            self.define(r, results[i + 1]);
        }
        self.dirty = RegSet::NONE;
        let expected = self.iconst(return_pc as i64);
        let elsewhere = self.b.ins().icmp(IntCC::NotEqual, results[0], expected);
        self.cold_if(elsewhere, |t| t.return_results(results[0]));
        self.dirty = abi::result_set();
        self.bounds = Bounds::UNKNOWN;
        match ret {
            Target::Block(b) => {
                let live = self.facts.live_in[b].minus(abi::result_set());
                self.load_registers(live.minus(self.facts.parked[b]));
                self.jump_to(b);
            }
            Target::Out(_) => self.goto(ret),
        }
    }
}

/// Register numbers of the bits of a set.
pub(super) fn bits(mut set: u32) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let r = set.trailing_zeros() as u8;
            set &= set - 1;
            r
        })
    })
}
