//! What earlier code knows for later code: sums, checks against the window, data just stored.
//!
//! In regions with floating point no optimiser of Cranelift's finds these (see `compile`); and that a
//! load reads what a store of another type has written, it never does. Code that has to go through
//! memory from integer to floating-point registers, as before FIX, is full of such pairs.

use axp_emu::isa::{Insn, Opcode};
use axp_emu::mem::PAGE_SIZE;
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::emit::Translator;
use crate::region::Region;

/// A value with a constant added.
pub(super) type Sum = (Value, i64);

/// What holds at a point of the code, since all ways to it have computed it.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Sums that have been checked against the window.
    pub(super) checked: Vec<Sum>,
    /// Sums that have been computed.
    sums: Vec<(Sum, Value)>,
    /// Quadwords in guest memory: address and value.
    stored: Vec<(Sum, Value)>,
}

/// Distances at which two data cannot be the same memory, mapped twice.
const NEAR: u64 = PAGE_SIZE / 2;

impl Known {
    /// What still holds at the start of a block that this is the nearest dominator of, or the `only`
    /// predecessor. A checked address stays checked; results are reused only where that does not keep
    /// them in registers for long.
    pub(super) fn on_entry(&self, only: bool) -> Known {
        if only {
            return self.clone();
        }
        Known { checked: self.checked.clone(), ..Known::default() }
    }

    /// Somebody else has written guest memory, or is to see that it is read.
    pub(super) fn memory_changes(&mut self) {
        self.stored.clear();
    }
}

/// Of each block, its nearest dominator and whether that is its only predecessor.
pub(super) fn dominators(region: &Region) -> Vec<Option<(usize, bool)>> {
    let mut preds = vec![Vec::new(); region.blocks.len()];
    for (b, block) in region.blocks.iter().enumerate() {
        block.successors().for_each(|s| preds[s].push(b));
    }
    // Blocks are in reverse postorder, so a dominator has the smaller number. (Cooper, Harvey and
    // Kennedy: A Simple, Fast Dominance Algorithm.)
    let mut idom: Vec<Option<usize>> = vec![None; region.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for b in 1..region.blocks.len() {
            let done = |p: &usize| *p == 0 || idom[*p].is_some();
            let mut nearest: Option<usize> = None;
            for &p in preds[b].iter().filter(|p| done(p)) {
                nearest = Some(nearest.map_or(p, |mut n| {
                    let mut p = p;
                    while n != p {
                        if n > p {
                            n = idom[n].unwrap_or(0);
                        } else {
                            p = idom[p].unwrap_or(0);
                        }
                    }
                    n
                }));
            }
            changed |= nearest != idom[b];
            idom[b] = nearest;
        }
    }
    let only = |b: usize, d: usize| preds[b].len() == 1 && preds[b][0] == d;
    idom.iter().enumerate().map(|(b, d)| d.filter(|&d| d < b).map(|d| (d, only(b, d)))).collect()
}

/// Of each block, its place in the tree of dominators, counted from the root down, and the last place
/// among those that it dominates.
pub(super) fn tree(region: &Region) -> Vec<(usize, usize)> {
    let up = dominators(region);
    let mut below = vec![Vec::new(); up.len()];
    for (b, d) in up.iter().enumerate().rev() {
        if let Some((d, _)) = d {
            below[*d].push(b);
        }
    }
    let mut places = vec![(usize::MAX, 0); up.len()];
    let (mut next, mut work) = (0, vec![(0, false)]);
    while let Some((b, done)) = work.pop() {
        if done {
            places[b].1 = next - 1;
            continue;
        }
        places[b].0 = next;
        next += 1;
        work.push((b, true));
        work.extend(below[b].iter().map(|&b| (b, false)));
    }
    places
}

/// For each block, the one that all ways to it come from, if it is one.
pub(super) fn only_predecessors(region: &Region) -> Vec<Option<usize>> {
    let mut preds = vec![Vec::new(); region.blocks.len()];
    // Whoever enters the region comes to the first block.
    preds[0].push(usize::MAX);
    for (i, block) in region.blocks.iter().enumerate() {
        block.successors().for_each(|s| preds[s].push(i));
    }
    let only = |p: Vec<usize>| p.first().copied().filter(|&f| p.len() == 1 && f != usize::MAX);
    preds.into_iter().map(only).collect()
}

impl Translator<'_, '_> {
    /// A value with a constant added.
    pub(super) fn add_constant(&mut self, base: Value, disp: i64) -> Value {
        if let Some(constant) = self.constant(base) {
            return self.iconst(constant.wrapping_add(disp));
        }
        let (root, before) = self.sum_of(base);
        let sum = (root, before.wrapping_add(disp));
        if disp == 0 || sum.1 == 0 && self.in_order {
            return if disp == 0 { base } else { root };
        }
        if self.in_order
            && let Some(&(_, value)) = self.known.sums.iter().find(|(known, _)| *known == sum)
        {
            return value;
        }
        let value = self.b.ins().iadd_imm_s(base, disp);
        self.sums.insert(value, sum);
        self.known.sums.push((sum, value));
        value
    }

    /// Notes a store; `value` if it is of a whole quadword.
    pub(super) fn stored(&mut self, insn: &Insn, value: Option<Value>) {
        let base = self.get(insn.b);
        let (root, disp) = self.sum_of(base);
        let at = (root, disp.wrapping_add(i64::from(insn.imm)));
        // STQ_U writes the quadword that its address lies in.
        let first = if insn.op == Opcode::StqU { 15 } else { 8 };
        self.known.stored.retain(|((other, old), _)| {
            let distance = old.wrapping_sub(at.1).unsigned_abs();
            *other == root && distance >= first && distance <= NEAR
        });
        if !self.mode.translated()
            && let Some(value) = value
        {
            self.known.stored.push((at, value));
        }
    }

    /// A load of what has just been stored.
    pub(super) fn load_known(&mut self, insn: &Insn) -> bool {
        if !matches!(insn.op, Opcode::Ldq | Opcode::Ldt) {
            return false;
        }
        let base = self.get(insn.b);
        let (root, disp) = self.sum_of(base);
        let at = (root, disp.wrapping_add(i64::from(insn.imm)));
        let found = self.known.stored.iter().find(|(known, _)| *known == at);
        let Some(&(_, value)) = found else { return false };
        let is = self.b.func.dfg.value_type(value);
        match insn.op {
            Opcode::Ldq if is == I64 => self.set(insn.a, value),
            Opcode::Ldq => {
                let value = self.to_bits(value);
                self.set(insn.a, value);
            }
            _ if is == F64 => self.set_f(insn.a, value),
            _ => {
                let value = self.from_bits(value);
                self.set_f(insn.a, value);
            }
        }
        true
    }
}
