//! Which addresses of a region are others with a constant added, whatever way control has come.
//!
//! Cranelift's values tell that within a block; while a loop is being translated, what it does not change
//! is not known to be the same value yet. So registers are numbered here by where their contents were
//! made, over the whole region: two accesses with the same origin lie at a fixed distance from each other
//! if the block of one dominates that of the other.

use std::collections::HashMap;

use axp_emu::isa::{Insn, Opcode, ZERO};

use super::reuse;
use super::translated::Datum;
use crate::region::{Region, Term};

/// Contents of an integer register: what was made at one place, with a constant added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    id: u32,
    /// What was added.
    pub(super) offset: i64,
}

impl Origin {
    /// Whether the two are at a fixed distance.
    pub(super) fn is_of(self, other: Origin) -> bool {
        self.id == other.id
    }

    /// This with a constant added.
    pub(super) fn plus(self, distance: i64) -> Origin {
        Origin { offset: self.offset.wrapping_add(distance), ..self }
    }
}

/// Registers that have one, R31 included.
const REGISTERS: usize = 32;
/// Number of the origin of constants: those of the first block's registers are before.
const CONSTANTS: u32 = ZERO as u32;

/// The origins of all integer registers at one place.
pub(super) type Registers = [Origin; REGISTERS];

/// An access to memory.
#[derive(Clone, Copy, Debug)]
struct Access {
    block: usize,
    n: usize,
    at: Origin,
    datum: Datum,
}

/// The origins of a region's registers and addresses.
#[derive(Debug, Default)]
pub(super) struct Origins {
    on_entry: Vec<Option<Registers>>,
    accesses: HashMap<u32, Vec<Access>>,
    /// Of each block, its place in the tree of dominators, and of the last that it dominates.
    tree: Vec<(usize, usize)>,
    numbers: Numbers,
}

/// Numbers of what blocks make: where several ways join, and by each instruction.
#[derive(Debug, Default)]
struct Numbers(Vec<u32>);

impl Numbers {
    fn of(region: &Region) -> Self {
        let mut next = REGISTERS as u32;
        let first = |b: &crate::region::Block| {
            let first = next;
            next += (REGISTERS * (2 + b.insns.len())) as u32;
            first
        };
        Numbers(region.blocks.iter().map(first).collect())
    }

    fn joined(&self, b: usize, r: usize) -> Origin {
        Origin { id: self.0[b] + r as u32, offset: 0 }
    }

    fn returned(&self, b: usize, r: usize) -> Origin {
        Origin { id: self.0[b] + (REGISTERS + r) as u32, offset: 0 }
    }

    fn made(&self, b: usize, n: usize, r: usize) -> Origin {
        Origin { id: self.0[b] + (REGISTERS * (2 + n) + r) as u32, offset: 0 }
    }
}

/// A register with a constant added that an instruction makes.
fn sum(insn: &Insn) -> Option<(u8, u8, i64)> {
    let imm = i64::from(insn.imm);
    match insn.op {
        Opcode::Lda => Some((insn.a, insn.b, imm)),
        Opcode::Ldah => Some((insn.a, insn.b, imm << 16)),
        Opcode::Addq if insn.lit => Some((insn.c, insn.a, imm)),
        Opcode::Subq if insn.lit => Some((insn.c, insn.a, -imm)),
        Opcode::Bis if insn.lit => (imm == 0).then_some((insn.c, insn.a, 0)),
        Opcode::Bis if insn.a == ZERO => Some((insn.c, insn.b, 0)),
        Opcode::Bis if insn.b == ZERO || insn.a == insn.b => Some((insn.c, insn.a, 0)),
        _ => None,
    }
}

/// What instruction `n` of block `b` makes of the registers.
fn step(region: &Region, numbers: &Numbers, b: usize, n: usize, registers: &mut Registers) {
    let block = &region.blocks[b];
    let insn = &block.insns[n];
    if let (Some((to, from, distance)), None) = (sum(insn), block.division) {
        if to < ZERO {
            registers[to as usize] = registers[from.min(ZERO) as usize].plus(distance);
        }
        return;
    }
    let written = block.writes(n).int & !(1 << ZERO);
    for r in (0..REGISTERS).filter(|r| written & 1 << r != 0) {
        registers[r] = numbers.made(b, n, r);
    }
}

impl Origins {
    pub(super) fn of(region: &Region) -> Origins {
        let numbers = Numbers::of(region);
        let on_entry = Origins::solve(region, &numbers);
        let mut accesses: HashMap<u32, Vec<Access>> = HashMap::new();
        for (b, block) in region.blocks.iter().enumerate() {
            let Some(mut registers) = on_entry[b] else { continue };
            for (n, insn) in block.insns.iter().enumerate() {
                if super::is_access(insn) {
                    let at = registers[insn.b.min(ZERO) as usize].plus(i64::from(insn.imm));
                    let access = Access { block: b, n, at, datum: Datum::of(insn) };
                    accesses.entry(at.id).or_default().push(access);
                }
                step(region, &numbers, b, n, &mut registers);
            }
        }
        Origins { on_entry, accesses, tree: reuse::tree(region), numbers }
    }

    /// The registers at the start of each block.
    fn solve(region: &Region, numbers: &Numbers) -> Vec<Option<Registers>> {
        let mut on_entry: Vec<Option<Registers>> = vec![None; region.blocks.len()];
        on_entry[0] = Some(std::array::from_fn(|r| Origin { id: r as u32, offset: 0 }));
        debug_assert_eq!(CONSTANTS as usize, REGISTERS - 1);
        let mut changed = true;
        while changed {
            changed = false;
            for (b, block) in region.blocks.iter().enumerate() {
                let Some(mut registers) = on_entry[b] else { continue };
                (0..block.insns.len()).for_each(|n| step(region, numbers, b, n, &mut registers));
                if let Term::Call { .. } = block.term {
                    for (r, origin) in registers.iter_mut().enumerate().take(ZERO as usize) {
                        *origin = numbers.returned(b, r);
                    }
                }
                for s in block.successors() {
                    let Some(old) = &mut on_entry[s] else {
                        (on_entry[s], changed) = (Some(registers), true);
                        continue;
                    };
                    for (r, old) in old.iter_mut().enumerate() {
                        let joined = numbers.joined(s, r);
                        if *old != registers[r] && *old != joined {
                            (*old, changed) = (joined, true);
                        }
                    }
                }
            }
        }
        on_entry
    }

    /// The registers on entry to a block.
    pub(super) fn on_entry(&self, b: usize) -> Option<Registers> {
        self.on_entry.get(b).copied().flatten()
    }

    /// Follows an instruction.
    pub(super) fn step(&self, region: &Region, b: usize, n: usize, registers: &mut Registers) {
        step(region, &self.numbers, b, n, registers);
    }

    /// Whether all ways to block `b` come through `d`.
    fn dominates(&self, d: usize, b: usize) -> bool {
        let ((first, last), (at, _)) = (self.tree[d], self.tree[b]);
        first <= at && at <= last
    }

    /// The accesses that every way to which comes from instruction `n` of block `b`, at addresses of
    /// the same origin as `at`: how far from it, of which data, in which blocks.
    pub(super) fn ahead(
        &self,
        (b, n): (usize, usize),
        at: Origin,
    ) -> impl Iterator<Item = (i64, Datum, usize)> {
        let same = self.accesses.get(&at.id).into_iter().flatten();
        same.filter(move |a| if a.block == b { a.n > n } else { self.dominates(b, a.block) })
            .map(move |a| (a.at.offset.wrapping_sub(at.offset), a.datum, a.block))
    }
}

#[cfg(test)]
mod tests {
    use axp_emu::isa::decode;

    use super::*;
    use crate::region::{Block, Target};

    fn block(pc: u64, words: &[u32], term: Term) -> Block {
        let insns = words.iter().map(|&w| decode(w).unwrap()).collect();
        Block { pc, insns, term, loop_head: false, division: None, inlined: false }
    }

    const LDA_SP: u32 = 0x23de_fff0; // lda sp,-16(sp)
    const STQ_RA: u32 = 0xb75e_0000; // stq ra,0(sp)
    const LDQ_T0: u32 = 0xa43e_0008; // ldq t0,8(sp)
    const LDA_T1: u32 = 0x2042_0001; // lda t1,1(t1)
    const LDBU: u32 = 0x2822_0000; // ldbu t0,0(t1)

    /// A loop that moves T1 and not SP.
    fn looping() -> Region {
        let head = Term::Cond { taken: Target::Block(1), fall: Target::Out(0x40) };
        Region {
            blocks: vec![
                block(0, &[LDA_SP, STQ_RA], Term::Goto(Target::Block(1))),
                block(8, &[LDQ_T0, LDBU, LDA_T1, 0xf420_0000], head),
            ],
        }
    }

    #[test]
    fn what_a_loop_does_not_change_keeps_its_origin() {
        let region = looping();
        let origins = Origins::of(&region);
        let entry = origins.on_entry(0).unwrap();
        let head = origins.on_entry(1).unwrap();
        assert_eq!(head[30], entry[30].plus(-16));
        assert!(!head[2].is_of(entry[2]), "T1 is another one each time round");
        let store = head[30];
        let ahead: Vec<_> = origins.ahead((0, 1), store).map(|(distance, ..)| distance).collect();
        assert_eq!(ahead, [8]);
    }

    #[test]
    fn after_a_call_nothing_is_known() {
        let mut region = looping();
        region.blocks[0].term = Term::Call { callee: None, ret: Target::Block(1) };
        let origins = Origins::of(&region);
        let before = origins.on_entry(0).unwrap();
        assert!(!origins.on_entry(1).unwrap()[30].is_of(before[30]));
    }
}
