//! Region selection: the basic blocks that one translation of the optimising tier covers.
//!
//! A region starts at one guest address and takes in everything that direct branches reach from
//! there, across calls (a call returns to the region), up to a size limit. Callees are regions of
//! their own, but for small leaf functions, which are taken in once for each call.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use axp_emu::block::Dialect;
use axp_emu::cpu::{UnalignedPolicy, Vcpu};
use axp_emu::isa::{Insn, Kind, Opcode, RegSet, Vms, ZERO, decode};
use axp_emu::mem::{AddressSpace, PAGE_SIZE};

use crate::divide::{self, Division};
use crate::palcode;

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
    /// After the block stands CALL_PAL with this function code, for which PALcode is asked
    /// (`palcode`); where it leads nobody knows.
    Pal(u32),
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
    /// The last instruction calls this routine, whose work the host does in its place.
    pub division: Option<Division>,
    /// Belongs to a leaf that was taken in at a call.
    pub inlined: bool,
}

impl Block {
    /// Registers that instruction `i` reads, or the routine that it calls.
    pub fn reads(&self, i: usize) -> RegSet {
        match self.division {
            Some(_) if i + 1 == self.insns.len() => RegSet { int: divide::READS, fp: 0 },
            _ => reads(&self.insns[i]),
        }
    }

    /// Registers that instruction `i` writes, or the routine that it calls.
    pub fn writes(&self, i: usize) -> RegSet {
        match self.division {
            Some(_) if i + 1 == self.insns.len() => RegSet { int: divide::WRITES, fp: 0 },
            _ => writes(&self.insns[i]),
        }
    }

    /// Address after the last instruction.
    pub fn end(&self) -> u64 {
        self.pc + 4 * self.insns.len() as u64
    }

    /// Whether control may leave the region at the block's end.
    pub fn leaves(&self) -> bool {
        let out = |t: Target| matches!(t, Target::Out(_));
        match self.term {
            Term::Goto(t) => out(t),
            Term::Cond { taken, fall } => out(taken) || out(fall),
            Term::Call { .. } | Term::Ret | Term::Jump | Term::Stop | Term::Pal(_) => true,
        }
    }

    /// Successors inside the region.
    pub fn successors(&self) -> impl Iterator<Item = usize> {
        let (a, b) = match self.term {
            Term::Goto(t) | Term::Call { ret: t, .. } => (Some(t), None),
            Term::Cond { taken, fall } => (Some(taken), Some(fall)),
            Term::Ret | Term::Jump | Term::Stop | Term::Pal(_) => (None, None),
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

    /// Whether it does nothing but lead from one place to another by an indirect jump, as the parts of an
    /// interpreter's dispatch do: nobody calls it, and it neither loops nor calls.
    pub fn is_link(&self) -> bool {
        self.blocks.iter().all(|b| {
            let goes_on = matches!(b.term, Term::Goto(_) | Term::Cond { .. } | Term::Jump);
            goes_on && !b.loop_head
        }) && self.blocks.iter().any(|b| b.term == Term::Jump)
    }

    /// Head of the loop that is most worth placing well: the shortest that holds no other loop.
    pub fn innermost_loop(&self) -> Option<&Block> {
        // In reverse postorder a loop's blocks lie between its head and its last back-edge.
        let back_edge = |head: usize| {
            let sources = self.blocks.iter().enumerate().skip(head);
            sources.filter(|(_, b)| b.successors().any(|s| s == head)).map(|(i, _)| i).max()
        };
        let heads = self.blocks.iter().enumerate().filter(|(_, b)| b.loop_head);
        let loops = heads.filter_map(|(head, block)| {
            let last = back_edge(head)?;
            let inner = self.blocks[head + 1..=last].iter().any(|b| b.loop_head);
            let length: usize = self.blocks[head..=last].iter().map(|b| b.insns.len()).sum();
            (!inner).then_some((length, block))
        });
        loops.min_by_key(|(length, _)| *length).map(|(_, block)| block)
    }

    /// Addresses outside the region to which its direct branches and calls lead.
    pub fn exits(&self) -> impl Iterator<Item = u64> {
        let out = |t: Target| match t {
            Target::Out(pc) => Some(pc),
            Target::Block(_) => None,
        };
        let of = move |term: Term| match term {
            Term::Goto(to) => [out(to), None],
            Term::Cond { taken, fall } => [out(taken), out(fall)],
            Term::Call { callee, ret } => [callee, out(ret)],
            Term::Ret | Term::Jump | Term::Stop | Term::Pal(_) => [None, None],
        };
        self.blocks.iter().flat_map(move |b| of(b.term)).flatten()
    }

    /// Its calls of code that stays outside: their pcs, and where those lead that say so.
    pub fn calls(&self) -> impl Iterator<Item = (u64, Option<u64>)> {
        self.blocks.iter().filter_map(|b| match b.term {
            Term::Call { callee, .. } => Some((b.end() - 4, callee)),
            _ => None,
        })
    }

    /// Address ranges of guest code that the region was made from.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let end = |b: &Block| b.end() + if let Term::Pal(_) = b.term { 4 } else { 0 };
        let mut all: Vec<_> = self.blocks.iter().map(|b| (b.pc, end(b))).collect();
        all.extend(self.blocks.iter().filter_map(|b| b.division).flat_map(|d| d.ranges));
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

/// What stands at a place.
enum Found {
    Insn(Insn, Flow),
    /// The interpreter has to look at this address.
    Stop,
    /// PALcode has.
    Pal(u32),
}

/// Where control goes from an instruction.
#[derive(Clone, Copy)]
enum Flow {
    Next,
    Goto(Place),
    /// To this address or the next instruction.
    Cond(u64),
    Call,
    Leave,
    /// A call whose work the host does.
    Divide(Division),
}

/// Where an instruction stands: a leaf that is inlined stands once for each place that calls it.
type Place = (u32, u64);

/// Instructions of a callee that is inlined, at most.
const LEAF_LIMIT: usize = 90;
/// Instructions of a region that inlining may add, at most.
const INLINE_LIMIT: usize = 1200;
/// Instructions that nobody has seen between some that were, at most.
const DETOUR_LIMIT: usize = 16;

/// Discovers the instructions of a region.
struct Selector<'a> {
    vcpu: &'a Vcpu,
    dialect: Dialect,
    seen: &'a dyn Fn(u64) -> bool,
    fetcher: Fetcher<'a>,
    found: BTreeMap<Place, Found>,
    leaders: BTreeSet<Place>,
    work: Vec<Place>,
    /// Where each inlined leaf returns to; context 0 is the region itself.
    returns: Vec<u64>,
    /// Leaves that have been looked at: size, or `None` if it is none.
    leaves: HashMap<(u64, u8), Option<usize>>,
    inlined: usize,
    /// Division routines, `None` for callees that are none. Nothing is taken in in counted runs.
    divisions: Option<HashMap<u64, Option<Division>>>,
}

/// Selects the region that starts at `entry`, of at most about `limit` instructions. With `inline`,
/// small leaf functions are taken in at each call. Where a branch leads to code that `seen` does not
/// know, the region ends, unless that code soon comes back.
pub fn select(
    vcpu: &Vcpu,
    entry: u64,
    limit: usize,
    inline: bool,
    seen: &dyn Fn(u64) -> bool,
) -> Region {
    let mut s = Selector {
        vcpu,
        dialect: Dialect::of(vcpu),
        seen,
        fetcher: Fetcher::new(&vcpu.mem),
        found: BTreeMap::new(),
        leaders: BTreeSet::from([(0, entry)]),
        work: vec![(0, entry)],
        returns: vec![0],
        leaves: HashMap::new(),
        inlined: if inline { 0 } else { INLINE_LIMIT },
        divisions: inline.then(HashMap::new),
    };
    let mut count = 0;
    while let Some((context, start)) = s.work.pop() {
        let mut pc = start;
        while !s.found.contains_key(&(context, pc)) && count < limit {
            let Some(insn) = s.decode(pc) else {
                let stop = s.pal_call(pc).map_or(Found::Stop, Found::Pal);
                s.found.insert((context, pc), stop);
                break;
            };
            count += 1;
            let flow = s.flow(context, pc, &insn);
            s.found.insert((context, pc), Found::Insn(insn, flow));
            match flow {
                Flow::Next => {
                    pc += 4;
                    if insn.op == Opcode::MtFpcr {
                        // Ends its block: control may have to go on with other code.
                        s.leaders.insert((context, pc));
                    }
                    continue;
                }
                Flow::Goto(to) => s.lead(to),
                Flow::Cond(taken) => {
                    s.lead((context, taken));
                    s.lead((context, pc + 4));
                }
                Flow::Call | Flow::Divide(_) => s.lead((context, pc + 4)),
                Flow::Leave => {}
            }
            break;
        }
    }
    build((0, entry), &s.found, &s.leaders)
}

impl Selector<'_> {
    /// The instruction at `pc`, if compiled code may hold it.
    fn decode(&mut self, pc: u64) -> Option<Insn> {
        let insn = self.fetcher.word(pc).and_then(decode)?;
        (self.dialect.has(&insn) && !stops(&insn, self.vcpu)).then_some(insn)
    }

    /// The function code of a call at `pc` for which compiled code asks PALcode.
    fn pal_call(&mut self, pc: u64) -> Option<u32> {
        let insn = self.fetcher.word(pc).and_then(decode)?;
        let asks = insn.op == Opcode::CallPal && palcode::asks(self.vcpu);
        asks.then_some(insn.imm as u32)
    }

    fn lead(&mut self, to: Place) {
        if !(self.seen)(to.1) && !self.rejoins(to.1) {
            return;
        }
        if self.leaders.insert(to) || !self.found.contains_key(&to) {
            self.work.push(to);
        }
    }

    /// Whether code that nobody has seen leads to code that somebody has, soon and without a choice. It
    /// costs a few instructions to hold it, and an exit and a way back to leave it out.
    fn rejoins(&mut self, start: u64) -> bool {
        let mut pc = start;
        for _ in 0..DETOUR_LIMIT {
            let Some(insn) = self.decode(pc) else { return false };
            pc = match ender(&insn) {
                None => pc + 4,
                Some(Ender::Goto) => insn.branch_target(pc),
                Some(Ender::Cond | Ender::Call | Ender::Leave) => return false,
            };
            if (self.seen)(pc) {
                return true;
            }
        }
        false
    }

    /// Where control goes after an instruction; decides on inlining.
    fn flow(&mut self, context: u32, pc: u64, insn: &Insn) -> Flow {
        match ender(insn) {
            None => Flow::Next,
            Some(Ender::Goto) => Flow::Goto((context, insn.branch_target(pc))),
            Some(Ender::Cond) => Flow::Cond(insn.branch_target(pc)),
            Some(Ender::Call) if insn.op == Opcode::Bsr => {
                let callee = insn.branch_target(pc);
                if let Some(division) = self.division(callee, insn.a) {
                    return Flow::Divide(division);
                }
                if context != 0 {
                    return Flow::Call;
                }
                match self.leaf(callee, insn.a) {
                    Some(size) if self.inlined + size <= INLINE_LIMIT => {
                        self.inlined += size;
                        self.returns.push(pc + 4);
                        Flow::Goto((self.returns.len() as u32 - 1, callee))
                    }
                    _ => Flow::Call,
                }
            }
            Some(Ender::Call) => Flow::Call,
            // In a leaf every RET goes back to the call: `leaf` has seen to that.
            Some(Ender::Leave) if context != 0 => Flow::Goto((0, self.returns[context as usize])),
            Some(Ender::Leave) => Flow::Leave,
        }
    }

    /// The division routine at `callee`, if it is one and calls may be replaced.
    fn division(&mut self, callee: u64, link: u8) -> Option<Division> {
        let plain = self.vcpu.unaligned != UnalignedPolicy::Trap && self.vcpu.mem.code_space() == 0;
        if link != divide::LINK || !plain {
            return None;
        }
        let fetcher = &mut self.fetcher;
        let known = self.divisions.as_mut()?.entry(callee);
        *known.or_insert_with(|| divide::recognise(callee, |pc| fetcher.word(pc)))
    }

    /// Size of the function at `start` if it is a small leaf that keeps its return address in
    /// register `link` and returns there only.
    fn leaf(&mut self, start: u64, link: u8) -> Option<usize> {
        if let Some(&known) = self.leaves.get(&(start, link)) {
            return known;
        }
        let size = self.measure_leaf(start, link);
        self.leaves.insert((start, link), size);
        size
    }

    fn measure_leaf(&mut self, start: u64, link: u8) -> Option<usize> {
        let mut seen = BTreeSet::new();
        let mut work = vec![start];
        while let Some(mut pc) = work.pop() {
            while seen.insert(pc) {
                if seen.len() > LEAF_LIMIT {
                    return None;
                }
                let insn = self.decode(pc)?;
                let divides = insn.op == Opcode::Bsr
                    && self.division(insn.branch_target(pc), insn.a).is_some();
                let written = if divides { divide::WRITES } else { writes(&insn).int };
                if written & 1 << link != 0 {
                    return None;
                }
                if divides {
                    pc += 4;
                    continue;
                }
                match ender(&insn) {
                    None => {}
                    Some(Ender::Cond) => work.push(insn.branch_target(pc)),
                    Some(Ender::Goto) => {
                        work.push(insn.branch_target(pc));
                        break;
                    }
                    Some(Ender::Leave) if insn.op == Opcode::Ret && insn.b == link => {
                        if insn.a < ZERO {
                            return None;
                        }
                        break;
                    }
                    Some(Ender::Call | Ender::Leave) => return None,
                }
                pc += 4;
            }
        }
        Some(seen.len())
    }
}

/// Registers that an instruction inside a region reads, PALcode calls included.
pub fn reads(insn: &Insn) -> RegSet {
    match inline_pal(insn) {
        Some(Vms::WriteUnq) => RegSet { int: 1 << 16, fp: 0 },
        Some(Vms::Prober | Vms::Probew) => RegSet { int: 7 << 16, fp: 0 },
        _ => insn.reads(),
    }
}

/// Registers that an instruction inside a region writes, PALcode calls included.
pub fn writes(insn: &Insn) -> RegSet {
    match inline_pal(insn) {
        Some(Vms::ReadUnq | Vms::Prober | Vms::Probew) => RegSet { int: 1 << 0, fp: 0 },
        _ => insn.writes(),
    }
}

/// The PALcode call of an instruction inside a region. The numbers of OSF/1's inline calls mean the
/// same in OpenVMS.
pub fn inline_pal(insn: &Insn) -> Option<Vms> {
    if insn.op == Opcode::CallPal { Vms::from_code(insn.imm as u32) } else { None }
}

enum Ender {
    Goto,
    Cond,
    Call,
    Leave,
}

/// Whether an instruction's own lowering ends its block.
pub fn ends_block(insn: &Insn) -> bool {
    ender(insn).is_some()
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

/// Instructions that a region leaves to the dispatcher, since they always stop the engine.
fn stops(insn: &Insn, vcpu: &Vcpu) -> bool {
    insn.op == Opcode::CallPal && !vcpu.pal.performs(insn.imm as u32)
}

/// Cuts the discovered instructions into blocks and numbers them in reverse postorder.
fn build(entry: Place, found: &BTreeMap<Place, Found>, leaders: &BTreeSet<Place>) -> Region {
    let is_insn = |place: &Place| matches!(found.get(place), Some(Found::Insn(..)));
    let starts: Vec<Place> =
        leaders.iter().copied().filter(|p| *p == entry || is_insn(p)).collect();
    let target = |place: Place| match starts.binary_search(&place) {
        Ok(i) => Target::Block(i),
        Err(_) => Target::Out(place.1),
    };
    let mut blocks: Vec<Block> = Vec::with_capacity(starts.len());
    for &(context, start) in &starts {
        let mut insns = Vec::new();
        let mut division = None;
        let mut pc = start;
        let term = loop {
            match found.get(&(context, pc)) {
                Some(Found::Insn(insn, flow)) => {
                    insns.push(*insn);
                    let next = pc + 4;
                    match *flow {
                        Flow::Next => {}
                        Flow::Goto(to) => break Term::Goto(target(to)),
                        Flow::Cond(taken) => {
                            let (taken, fall) = (target((context, taken)), target((context, next)));
                            break Term::Cond { taken, fall };
                        }
                        Flow::Call => {
                            let callee = (insn.op == Opcode::Bsr).then(|| insn.branch_target(pc));
                            break Term::Call { callee, ret: target((context, next)) };
                        }
                        Flow::Divide(routine) => {
                            division = Some(routine);
                            break Term::Goto(target((context, next)));
                        }
                        Flow::Leave if insn.op == Opcode::Ret => break Term::Ret,
                        Flow::Leave => break Term::Jump,
                    }
                    pc = next;
                    if leaders.contains(&(context, pc)) && is_insn(&(context, pc)) {
                        break Term::Goto(target((context, pc)));
                    }
                }
                Some(Found::Stop) => break Term::Stop,
                Some(&Found::Pal(code)) => break Term::Pal(code),
                None => break Term::Goto(Target::Out(pc)),
            }
        };
        let inlined = context != 0;
        blocks.push(Block { pc: start, insns, term, loop_head: false, division, inlined });
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
            let (insns, loop_head) = (std::mem::take(&mut b.insns), heads[old]);
            let (pc, division, inlined) = (b.pc, b.division, b.inlined);
            Block { pc, insns, term, loop_head, division, inlined }
        })
        .collect();
    Region { blocks }
}
