//! Region selection: the basic blocks that one translation of the optimising tier covers.
//!
//! A region starts at one guest address and takes in everything that direct branches reach from
//! there, across calls (a call returns to the region) but not into callees, up to a size limit.

use std::collections::{BTreeMap, BTreeSet};

use axp_emu::cpu::Vcpu;
use axp_emu::isa::{Insn, Kind, Opcode, Osf, PalVariant, RegSet, ZERO, decode};
use axp_emu::mem::{AddressSpace, PAGE_SIZE};

/// Where an edge of the control-flow graph leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Block of this region, by index.
    Block(usize),
    /// Guest code outside the region.
    Out(u64),
}

/// What ends a basic block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Term {
    /// Control goes on at one place; a last instruction BR may write its link register.
    Goto(Target),
    /// The last instruction is a conditional branch.
    Cond {
        /// Where it goes when its condition holds.
        taken: Target,
        /// The next instruction.
        fall: Target,
    },
    /// The last instruction calls: BSR to a known address, or JSR.
    Call {
        /// Known callee.
        callee: Option<u64>,
        /// Where the callee is expected to return to.
        ret: Target,
    },
    /// The last instruction is RET.
    Ret,
    /// The last instruction is JMP or JSR_COROUTINE.
    Jump,
    /// The instruction after the block, at [`Block::end`], is left to the interpreter: it always
    /// stops the engine (CALL_PAL, an illegal instruction, a page that cannot be fetched).
    Stop,
}

/// A basic block of a region.
#[derive(Clone, Debug)]
pub struct Block {
    /// Address of the first instruction.
    pub pc: u64,
    /// Instructions, the ender included where `term` names one.
    pub insns: Vec<Insn>,
    /// How it ends.
    pub term: Term,
    /// Some edge to this block goes backwards.
    pub loop_head: bool,
}

impl Block {
    /// Address after the last instruction.
    pub fn end(&self) -> u64 {
        self.pc + 4 * self.insns.len() as u64
    }

    /// Successors inside the region.
    pub fn successors(&self) -> impl Iterator<Item = usize> {
        let (a, b) = match self.term {
            Term::Goto(t) | Term::Call { ret: t, .. } => (Some(t), None),
            Term::Cond { taken, fall } => (Some(taken), Some(fall)),
            Term::Ret | Term::Jump | Term::Stop => (None, None),
        };
        [a, b].into_iter().flatten().filter_map(|t| match t {
            Target::Block(b) => Some(b),
            Target::Out(_) => None,
        })
    }
}

/// Guest code that is translated together. Block 0 is the entry.
#[derive(Clone, Debug)]
pub struct Region {
    /// Blocks in reverse postorder.
    pub blocks: Vec<Block>,
}

impl Region {
    /// Address at which the region is entered.
    pub fn entry(&self) -> u64 {
        self.blocks[0].pc
    }

    /// Number of guest instructions.
    pub fn len(&self) -> usize {
        self.blocks.iter().map(|b| b.insns.len()).sum()
    }

    /// Whether the region holds no instruction that compiled code could execute.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address ranges of guest code that the region was made from.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self.blocks.iter().map(|b| (b.pc, b.end())).collect();
        all.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, end) in all {
            match merged.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        merged
    }
}

/// Reads guest instructions, a page at a time.
struct Fetcher<'a> {
    mem: &'a AddressSpace,
    page: u64,
    words: Vec<u32>,
}

impl<'a> Fetcher<'a> {
    fn new(mem: &'a AddressSpace) -> Self {
        Fetcher { mem, page: u64::MAX, words: Vec::new() }
    }

    fn word(&mut self, pc: u64) -> Option<u32> {
        let page = pc & !(PAGE_SIZE - 1);
        if page != self.page {
            self.words.resize(PAGE_SIZE as usize / 4, 0);
            let n = self.mem.fetch_words(page, &mut self.words);
            self.words.truncate(n);
            self.page = page;
        }
        self.words.get((pc - page) as usize / 4).copied()
    }
}

/// A straight-line run as first discovered, before other branches split it.
enum Found {
    Insn(Insn),
    /// The interpreter has to look at this address.
    Stop,
}

/// Selects the region that starts at `entry`, of at most about `limit` instructions.
pub fn select(vcpu: &Vcpu, entry: u64, limit: usize) -> Region {
    let mut fetcher = Fetcher::new(&vcpu.mem);
    let mut found: BTreeMap<u64, Found> = BTreeMap::new();
    let mut leaders = BTreeSet::from([entry]);
    let mut work = vec![entry];
    let mut count = 0;
    while let Some(start) = work.pop() {
        let mut pc = start;
        while !found.contains_key(&pc) && count < limit {
            let insn = fetcher.word(pc).and_then(decode);
            let Some(insn) = insn.filter(|i| vcpu.model.has(i.op.info().ext) && !stops(i, vcpu))
            else {
                found.insert(pc, Found::Stop);
                break;
            };
            found.insert(pc, Found::Insn(insn));
            count += 1;
            let next = pc + 4;
            let mut lead = |to: u64| {
                if leaders.insert(to) || !found.contains_key(&to) {
                    work.push(to);
                }
            };
            match ender(&insn) {
                None => {
                    pc = next;
                    continue;
                }
                Some(Ender::Goto) => lead(insn.branch_target(pc)),
                Some(Ender::Cond) => {
                    lead(insn.branch_target(pc));
                    lead(next);
                }
                Some(Ender::Call) => lead(next),
                Some(Ender::Leave) => {}
            }
            break;
        }
    }
    build(entry, &found, &leaders)
}

/// Registers that an instruction inside a region reads, PALcode calls included.
pub fn reads(insn: &Insn) -> RegSet {
    match inline_pal(insn) {
        Some(Osf::Wruniq) => RegSet { int: 1 << 16, fp: 0 },
        _ => insn.reads(),
    }
}

/// Registers that an instruction inside a region writes, PALcode calls included.
pub fn writes(insn: &Insn) -> RegSet {
    match inline_pal(insn) {
        Some(Osf::Rduniq) => RegSet { int: 1 << 0, fp: 0 },
        _ => insn.writes(),
    }
}

fn inline_pal(insn: &Insn) -> Option<Osf> {
    if insn.op == Opcode::CallPal { Osf::from_code(insn.imm as u32) } else { None }
}

enum Ender {
    Goto,
    Cond,
    Call,
    Leave,
}

/// How an instruction ends a block, if it does.
fn ender(insn: &Insn) -> Option<Ender> {
    match insn.op.kind() {
        Kind::Branch if insn.op == Opcode::Bsr && insn.a < ZERO => Some(Ender::Call),
        Kind::Branch => Some(Ender::Goto),
        Kind::CondBranch | Kind::CondBranchF => Some(Ender::Cond),
        Kind::Jump if insn.op == Opcode::Jsr && insn.a < ZERO => Some(Ender::Call),
        Kind::Jump => Some(Ender::Leave),
        _ => None,
    }
}

/// Instructions that a region leaves to the dispatcher: those that always stop the engine, and
/// MT_FPCR, which may change what the region was compiled for.
fn stops(insn: &Insn, vcpu: &Vcpu) -> bool {
    insn.op == Opcode::MtFpcr
        || insn.op == Opcode::CallPal
            && match vcpu.pal {
                PalVariant::Osf1 => !Osf::from_code(insn.imm as u32).is_some_and(Osf::is_inline),
            }
}

/// Cuts the discovered instructions into blocks and numbers them in reverse postorder.
fn build(entry: u64, found: &BTreeMap<u64, Found>, leaders: &BTreeSet<u64>) -> Region {
    let starts: Vec<u64> = leaders
        .iter()
        .copied()
        .filter(|pc| *pc == entry || matches!(found.get(pc), Some(Found::Insn(_))))
        .collect();
    let target = |pc: u64| match starts.binary_search(&pc) {
        Ok(i) => Target::Block(i),
        Err(_) => Target::Out(pc),
    };
    let mut blocks: Vec<Block> = Vec::with_capacity(starts.len());
    for &start in &starts {
        let mut insns = Vec::new();
        let mut pc = start;
        let term = loop {
            match found.get(&pc) {
                Some(Found::Insn(insn)) => {
                    insns.push(*insn);
                    let next = pc + 4;
                    match ender(insn) {
                        Some(Ender::Goto) => break Term::Goto(target(insn.branch_target(pc))),
                        Some(Ender::Cond) => {
                            let taken = target(insn.branch_target(pc));
                            break Term::Cond { taken, fall: target(next) };
                        }
                        Some(Ender::Call) => {
                            let callee = (insn.op == Opcode::Bsr).then(|| insn.branch_target(pc));
                            break Term::Call { callee, ret: target(next) };
                        }
                        Some(Ender::Leave) if insn.op == Opcode::Ret => break Term::Ret,
                        Some(Ender::Leave) => break Term::Jump,
                        None => {}
                    }
                    pc = next;
                    if leaders.contains(&pc) && matches!(found.get(&pc), Some(Found::Insn(_))) {
                        break Term::Goto(target(pc));
                    }
                }
                Some(Found::Stop) => break Term::Stop,
                None => break Term::Goto(Target::Out(pc)),
            }
        };
        blocks.push(Block { pc: start, insns, term, loop_head: false });
    }
    let entry = starts.binary_search(&entry).unwrap_or(0);
    reorder(blocks, entry)
}

/// Renumbers blocks in reverse postorder from `entry`, drops unreachable ones, marks loop heads.
fn reorder(mut blocks: Vec<Block>, entry: usize) -> Region {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut state = vec![NEW; blocks.len()];
    let mut heads = vec![false; blocks.len()];
    let mut post = Vec::with_capacity(blocks.len());
    let mut stack = vec![(entry, blocks[entry].successors().collect::<Vec<_>>())];
    state[entry] = OPEN;
    while let Some((block, succs)) = stack.last_mut() {
        match succs.pop() {
            Some(s) if state[s] == NEW => {
                state[s] = OPEN;
                let next = blocks[s].successors().collect();
                stack.push((s, next));
            }
            Some(s) => heads[s] |= state[s] == OPEN,
            None => {
                state[*block] = DONE;
                post.push(*block);
                stack.pop();
            }
        }
    }
    post.reverse();
    let mut number = vec![usize::MAX; blocks.len()];
    for (new, &old) in post.iter().enumerate() {
        number[old] = new;
    }
    let renumber = |t: Target| match t {
        Target::Block(b) => Target::Block(number[b]),
        out => out,
    };
    let blocks = post
        .iter()
        .map(|&old| {
            let b = &mut blocks[old];
            let term = match b.term {
                Term::Goto(t) => Term::Goto(renumber(t)),
                Term::Cond { taken, fall } => {
                    Term::Cond { taken: renumber(taken), fall: renumber(fall) }
                }
                Term::Call { callee, ret } => Term::Call { callee, ret: renumber(ret) },
                other => other,
            };
            Block { pc: b.pc, insns: std::mem::take(&mut b.insns), term, loop_head: heads[old] }
        })
        .collect();
    Region { blocks }
}
