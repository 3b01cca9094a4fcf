//! Quadwords that a program copies side by side: the host loads and stores two of them at a time.
//!
//! Looked for in finished CLIF, where sums and data of several instructions have become one address each. Two
//! loads, one behind the other in the order of accesses and 8 bytes apart, become one of an octaword if two
//! stores of just these values are neighbours, too. Nothing is done between them that was not, and each
//! quadword is still read and written as a whole: the host's unit does no less where a quadword is aligned.
//! What else uses the values takes them from the octaword.

use std::collections::{HashMap, HashSet};

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::types::{I64, I64X2};
use cranelift_codegen::ir::{
    Block, Function, Inst, InstBuilder, InstructionData, Opcode, SourceLoc, Value, ValueDef,
};

use super::emit::{GUEST, STATE};
use super::merged::Merged;

/// Pairs stored in a block below which it is left alone: a few quadwords may have been written just before one by
/// one, and the host's stores do not forward their data to a wider load.
const LEAST_PAIRS: usize = 2;
/// Terms of an address beside its displacement.
const TERMS: usize = 2;

/// An address: a sum of values and a displacement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    terms: [Option<Value>; TERMS],
    disp: i64,
}

#[derive(Clone, Copy, Debug)]
enum Access {
    /// Of a quadword.
    Load(Inst, Place),
    Store(Inst, Place, Value),
    /// Any other: nothing is moved past it.
    Other,
}

/// A load and a store of two quadwords each, by the instructions that they replace.
struct Pair {
    loads: [Inst; 2],
    stores: [Inst; 2],
}

/// Joins loads and stores of a function. With `in_order` nobody moves an octaword's halves to where they are
/// used: only what is stored and nothing else is joined. `pc_of` tells a source location's guest address;
/// what may fault for two is added to `merged`.
pub fn join(
    func: &mut Function,
    in_order: bool,
    pc_of: impl Fn(SourceLoc) -> u64,
    merged: &mut Vec<Merged>,
) {
    let found = pairs(func);
    if found.is_empty() {
        return;
    }
    let uses = uses_of(func);
    for pair in found {
        let values = pair.loads.map(|inst| func.dfg.first_result(inst));
        let stays = |value: Value| match in_order {
            true => uses[&value].iter().all(|user| pair.stores.contains(user)),
            false => {
                let blocks = [pair.loads[0], pair.stores[0]].map(|i| func.layout.inst_block(i));
                !is_needed(func, &uses, blocks, value, &pair.stores)
            }
        };
        if values.into_iter().all(stays) {
            let pcs = |pair: [Inst; 2]| pair.map(|inst| pc_of(func.srcloc(inst)));
            let (loads, stores) = (pcs(pair.loads), pcs(pair.stores));
            let rest = loads.map(|pc| {
                let datum = merged.iter().find(|m| m.is(pc, 8));
                datum.map(|m| m.faulting(1))
            });
            merged.push(Merged::pair(loads, rest));
            merged.push(Merged::pair(stores, [None; 2]));
            replace(func, &pair);
        }
    }
}

/// The pairs of a function. A check of the target may lie between loads and stores and end a block.
fn pairs(func: &Function) -> Vec<Pair> {
    let mut loads = HashMap::new();
    let mut stores = Vec::new();
    for block in func.layout.blocks() {
        let insts = func.layout.block_insts(block);
        let accesses: Vec<Access> = insts.filter_map(|inst| access(func, inst)).collect();
        let mut here = Vec::new();
        let mut at = 0;
        while let Some(pair) = accesses.get(at..at + 2) {
            at += 1;
            match *pair {
                [Access::Load(first, from), Access::Load(second, next)]
                    if next == from.after(8) =>
                {
                    let values = [first, second].map(|inst| func.dfg.first_result(inst));
                    loads.insert(values, [first, second]);
                    at += 1;
                }
                [Access::Store(first, to, low), Access::Store(second, next, high)]
                    if next == to.after(8) =>
                {
                    here.push(([low, high], [first, second]));
                    at += 1;
                }
                _ => {}
            }
        }
        if here.len() >= LEAST_PAIRS {
            stores.append(&mut here);
        }
    }
    let pair = |(values, stores)| Some(Pair { loads: loads.remove(&values)?, stores });
    stores.into_iter().filter_map(pair).collect()
}

impl Place {
    fn after(self, bytes: i64) -> Place {
        Place { disp: self.disp.wrapping_add(bytes), ..self }
    }
}

/// What an instruction does with the guest's memory, if anything.
fn access(func: &Function, inst: Inst) -> Option<Access> {
    let dfg = &func.dfg;
    let data = &dfg.insts[inst];
    let opcode = data.opcode();
    if !opcode.can_load() && !opcode.can_store() && !opcode.other_side_effects() {
        return None;
    }
    let flags = |flags| dfg.mem_flags[flags];
    Some(match *data {
        InstructionData::Load { flags: f, .. } | InstructionData::Store { flags: f, .. }
            if flags(f) == STATE =>
        {
            return None;
        }
        InstructionData::Load { opcode: Opcode::Load, arg, offset, flags: f }
            if dfg.value_type(dfg.first_result(inst)) == I64 && flags(f) == GUEST =>
        {
            Access::Load(inst, place(func, arg, offset.into()))
        }
        InstructionData::Store { opcode: Opcode::Store, args: [value, to], offset, flags: f }
            if dfg.value_type(value) == I64 && flags(f) == GUEST =>
        {
            Access::Store(inst, place(func, to, offset.into()), dfg.resolve_aliases(value))
        }
        _ => Access::Other,
    })
}

/// Takes an address apart.
fn place(func: &Function, address: Value, disp: i64) -> Place {
    let mut place = Place { terms: [None; TERMS], disp };
    let address = func.dfg.resolve_aliases(address);
    if !add(func, address, &mut place) {
        place = Place { terms: [Some(address), None], disp };
    }
    place.terms.sort_unstable();
    place
}

/// Adds the terms of a value to an address; false if these are too many.
fn add(func: &Function, value: Value, place: &mut Place) -> bool {
    let value = func.dfg.resolve_aliases(value);
    if let ValueDef::Result(inst, 0) = func.dfg.value_def(value) {
        match func.dfg.insts[inst] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => {
                place.disp = place.disp.wrapping_add(imm.bits());
                return true;
            }
            InstructionData::Binary { opcode: Opcode::Iadd, args } => {
                let before = *place;
                if args.into_iter().all(|term| add(func, term, place)) {
                    return true;
                }
                *place = before;
            }
            _ => {}
        }
    }
    let free = place.terms.iter_mut().find(|term| term.is_none());
    free.map(|term| *term = Some(value)).is_some()
}

/// Who uses which values, without computations whose result nobody uses: parts of data are made for whoever
/// may ask for them.
fn uses_of(func: &Function) -> HashMap<Value, Vec<Inst>> {
    let mut uses: HashMap<Value, Vec<Inst>> = HashMap::new();
    let all = func.layout.blocks().flat_map(|block| func.layout.block_insts(block));
    let mut wanted: Vec<Inst> = all.filter(|&inst| has_effect(func, inst)).collect();
    let mut seen: HashSet<Inst> = wanted.iter().copied().collect();
    while let Some(inst) = wanted.pop() {
        for value in func.dfg.inst_values(inst) {
            let value = func.dfg.resolve_aliases(value);
            uses.entry(value).or_default().push(inst);
            if let Some(definition) = func.dfg.value_def(value).inst()
                && seen.insert(definition)
            {
                wanted.push(definition);
            }
        }
    }
    uses
}

/// Whether something in these blocks needs a value, other than these instructions and what is computed for
/// other blocks only.
fn is_needed(
    func: &Function,
    uses: &HashMap<Value, Vec<Inst>>,
    blocks: [Option<Block>; 2],
    value: Value,
    except: &[Inst],
) -> bool {
    uses.get(&value).into_iter().flatten().any(|user| {
        let here = blocks.contains(&func.layout.inst_block(*user));
        let data = &func.dfg.insts[*user];
        let results = func.dfg.inst_results(*user);
        here && !except.contains(user)
            && !data.opcode().is_terminator()
            && (data.opcode().can_load()
                || has_effect(func, *user)
                || results.iter().any(|&r| is_needed(func, uses, blocks, r, &[])))
    })
}

/// Whether an instruction does more than to compute its results.
fn has_effect(func: &Function, inst: Inst) -> bool {
    let opcode = func.dfg.insts[inst].opcode();
    opcode.is_branch()
        || opcode.is_terminator()
        || opcode.is_call()
        || opcode.can_store()
        || opcode.can_trap()
        || opcode.other_side_effects()
}

/// Puts one load and one store in the place of two each.
fn replace(func: &mut Function, pair: &Pair) {
    let Pair { loads: [first, second], stores: [early, late] } = *pair;
    let InstructionData::Load { arg, offset, .. } = func.dfg.insts[first] else { return };
    let InstructionData::Store { args: [_, to], offset: to_offset, .. } = func.dfg.insts[early]
    else {
        return;
    };
    let (from_place, to_place) = (func.srcloc(first), func.srcloc(early));
    let mut cursor = FuncCursor::new(func).at_inst(first).with_srcloc(from_place);
    let octaword = cursor.ins().load(I64X2, GUEST, arg, offset);
    func.replace(first).extractlane(octaword, 0);
    func.replace(second).extractlane(octaword, 1);
    let mut cursor = FuncCursor::new(func).at_inst(late).with_srcloc(to_place);
    cursor.ins().store(GUEST, octaword, to, to_offset);
    for store in [early, late] {
        func.layout.remove_inst(store);
    }
}
