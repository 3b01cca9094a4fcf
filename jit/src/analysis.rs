//! Dataflow over a region: which registers differ from memory, which are needed, which addresses
//! are known to lie inside the guest's window.

use axp_emu::isa::{Insn, Kind, Opcode, RegSet, ZERO};
use axp_emu::mem::GUARD_SIZE;

use crate::abi;
use crate::region::{Block, Region, Term};

/// What is known on entry to each block of a region, in block order.
pub struct Facts {
    /// Registers whose value in [`Cpu`](axp_emu::cpu::Cpu) may be out of date.
    pub dirty_in: Vec<RegSet>,
    /// Registers whose value is used later, exits included.
    pub live_in: Vec<RegSet>,
    /// The same after the last instruction of each block.
    pub live_out: Vec<RegSet>,
    observed: bool,
    /// Bounds on integer registers used as addresses.
    pub bounds_in: Vec<Bounds>,
    /// Registers that are nowhere but in `Cpu` throughout a block: see `Liveness::park`.
    pub parked: Vec<RegSet>,
    loops: Loops,
    /// By block, the instructions whose results are stored at once: see `Liveness::through`.
    through: Vec<Vec<bool>>,
    /// Integer registers to be checked against the window on each edge that enters the block from
    /// outside its loop: `bounds_in` counts on it.
    pub entry_checks: Vec<u32>,
}

impl Facts {
    /// Analyses a region. With `observed`, what leaves in the middle of a block owes every register.
    pub fn of(region: &Region, observed: bool, is_access: impl Fn(&Insn) -> bool) -> Facts {
        let loops = Loops::of(region);
        let mut flow = Liveness::of(region, observed);
        flow.park(&loops);
        flow.solve();
        flow.through = flow.through(&loops);
        flow.solve();
        let Liveness { dirty_in, live_in, live_out, parked, through, .. } = flow;
        let (bounds_in, entry_checks) = bounds(region, is_access);
        Facts {
            dirty_in,
            live_in,
            live_out,
            observed,
            bounds_in,
            parked,
            loops,
            through,
            entry_checks,
        }
    }

    /// Whether an edge leaves a loop.
    pub fn leaves_loop(&self, from: usize, to: usize) -> bool {
        self.loops.innermost(from).is_some_and(|body| !body[to])
    }

    /// Whether the result of instruction `i` of block `b` is stored at once.
    pub fn is_through(&self, b: usize, i: usize) -> bool {
        self.through[b].get(i).is_some_and(|&through| through)
    }

    /// Registers that whoever goes on at block `b` needs.
    pub fn live_into(&self, b: usize) -> RegSet {
        if self.observed { RegSet::ALL } else { self.live_in[b] }
    }

    /// Registers that whoever goes on before each instruction of block `b`, or after the last, needs.
    pub fn live(&self, b: usize, block: &Block) -> Vec<RegSet> {
        if self.observed {
            return vec![RegSet::ALL; block.insns.len() + 1];
        }
        let mut live = self.live_out[b];
        let mut all = vec![live];
        for i in (0..block.insns.len()).rev() {
            live = live_before(block, i, live, self.observed);
            all.push(live);
        }
        all.reverse();
        all
    }
}

/// Live values in a loop beyond which some of them would be spilled: integer, floating-point.
const PRESSURE: (u32, u32) = (12, 13);

/// Which registers differ from memory and which are needed, at the joints of a region.
struct Liveness<'a> {
    region: &'a Region,
    observed: bool,
    parked: Vec<RegSet>,
    through: Vec<Vec<bool>>,
    dirty_in: Vec<RegSet>,
    live_in: Vec<RegSet>,
    live_out: Vec<RegSet>,
}

impl<'a> Liveness<'a> {
    fn of(region: &'a Region, observed: bool) -> Self {
        let none = vec![RegSet::NONE; region.blocks.len()];
        let through = vec![Vec::new(); region.blocks.len()];
        let (dirty_in, live_in, live_out) = (none.clone(), none.clone(), none.clone());
        let parked = none;
        let mut flow = Liveness { region, observed, parked, through, dirty_in, live_in, live_out };
        flow.solve();
        flow
    }

    fn solve(&mut self) {
        self.dirty();
        (self.live_in, self.live_out) = self.live(true);
    }

    /// What differs from memory at the end of a block.
    fn dirty_out(&self, b: usize) -> RegSet {
        let block = &self.region.blocks[b];
        (0..block.insns.len()).fold(self.dirty_in[b], |dirty, i| {
            let written = block.writes(i);
            let through = self.through[b].get(i).is_some_and(|&through| through);
            if through { dirty.minus(written) } else { dirty.union(written) }
        })
    }

    fn dirty(&mut self) {
        let n = self.region.blocks.len();
        self.dirty_in = vec![RegSet::NONE; n];
        self.dirty_in[0] = abi::arg_set().minus(self.parked[0]);
        let mut changed = true;
        while changed {
            changed = false;
            for (b, block) in self.region.blocks.iter().enumerate() {
                let out = match block.term {
                    Term::Call { .. } => abi::result_set(),
                    _ => self.dirty_out(b),
                };
                for s in block.successors() {
                    let joined = self.dirty_in[s].union(out.minus(self.parked[s]));
                    changed |= joined != self.dirty_in[s];
                    self.dirty_in[s] = joined;
                }
            }
        }
    }

    /// Registers live on entry to and at the end of each block. Where control leaves the region for
    /// other guest code, all that differs from memory is live: with `exits`, it has to be written
    /// back. Every block can also leave in its middle (a trap, a window check, a poll); if that is
    /// observed, what is dirty there is live as well.
    fn live(&self, exits: bool) -> (Vec<RegSet>, Vec<RegSet>) {
        let n = self.region.blocks.len();
        let mut live_in = vec![RegSet::NONE; n];
        let mut live_out = vec![RegSet::NONE; n];
        let dirty_out: Vec<_> = (0..n).map(|b| self.dirty_out(b)).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for (b, block) in self.region.blocks.iter().enumerate().rev() {
                let mut live = RegSet::NONE;
                if block.leaves() {
                    live = abi::arg_set().union(abi::result_set());
                    if exits {
                        live = live.union(dirty_out[b]);
                    }
                }
                // What a callee does not return in registers is loaded again after the call.
                if !matches!(block.term, Term::Call { .. }) {
                    for s in block.successors() {
                        live = live.union(live_in[s]);
                        if exits {
                            live = live.union(dirty_out[b].intersection(self.parked[s]));
                        }
                    }
                }
                live_out[b] = live;
                for i in (0..block.insns.len()).rev() {
                    live = live_before(block, i, live, self.observed);
                }
                if self.observed {
                    live = live.union(abi::result_set());
                    if exits {
                        live = live.union(self.dirty_in[b]);
                    }
                }
                changed |= live != live_in[b];
                live_in[b] = live;
            }
        }
        (live_in, live_out)
    }

    /// The instructions whose results had better be stored at once: in a loop with more live values
    /// than the host has registers, those that nothing reads but the write-back where the region is
    /// left. To keep them would spill, which stores as well.
    fn through(&self, loops: &Loops) -> Vec<Vec<bool>> {
        let blocks = &self.region.blocks;
        let crowded = self.crowded(loops);
        let (_, used_out) = self.live(false);
        let mut all = vec![Vec::new(); blocks.len()];
        for (b, block) in blocks.iter().enumerate() {
            let (int, fp) = crowded[b];
            if !int && !fp {
                continue;
            }
            let mut through = vec![false; block.insns.len()];
            let (mut used, mut live) = (used_out[b], self.live_out[b]);
            for i in (0..block.insns.len()).rev() {
                let written = block.writes(i);
                let only_written_back = written.minus(used) == written
                    && (self.observed || written.minus(live) == RegSet::NONE);
                let crowded = if written.int != 0 { int } else { fp };
                let ends = i + 1 == block.insns.len() && crate::region::ends_block(&block.insns[i]);
                through[i] = written != RegSet::NONE && only_written_back && crowded && !ends;
                used = live_before(block, i, used, self.observed);
                live = live_before(block, i, live, self.observed);
            }
            all[b] = through;
        }
        all
    }

    /// Of each block, whether its innermost loop has more live values than the host has registers.
    fn crowded(&self, loops: &Loops) -> Vec<(bool, bool)> {
        let excess: Vec<_> = loops.bodies.iter().map(|body| self.excess(body)).collect();
        let of = |at: &Option<usize>| {
            at.map_or((false, false), |at| (excess[at].0 > 0, excess[at].1 > 0))
        };
        loops.innermost.iter().map(of).collect()
    }

    /// By how many the live values of a loop, what is parked excepted, exceed the host's registers.
    fn excess(&self, body: &[bool]) -> (u32, u32) {
        let inside = (0..body.len()).filter(|&b| body[b]);
        let live = inside.map(|b| self.live_in[b].union(self.live_out[b]).minus(self.parked[b]));
        let most = live.fold((0, 0), |(int, fp), set| {
            (int.max(set.int.count_ones()), fp.max(set.fp.count_ones()))
        });
        (most.0.saturating_sub(PRESSURE.0), most.1.saturating_sub(PRESSURE.1))
    }

    /// Parks registers: in a loop with more live values than the host has registers, those that the
    /// loop itself does not touch stay in `Cpu`. They are stored on the way in and loaded on the way
    /// out. The register allocator would spill others as well, those that change each time round
    /// first.
    fn park(&mut self, loops: &Loops) {
        for body in loops.outermost_first() {
            let blocks = || self.region.blocks.iter().enumerate().filter(|(b, _)| body[*b]);
            if blocks().any(|(_, b)| matches!(b.term, Term::Call { .. })) {
                continue;
            }
            let (int, fp) = self.excess(body);
            let touched = blocks().fold(RegSet::NONE, |set, (_, block)| {
                (0..block.insns.len())
                    .fold(set, |set, i| set.union(block.reads(i)).union(block.writes(i)))
            });
            let live = blocks().fold(RegSet::NONE, |set, (b, _)| set.union(self.live_in[b]));
            let idle = live.minus(touched);
            for b in (0..body.len()).filter(|&b| body[b]) {
                let chosen = RegSet { int: lowest(idle.int, int), fp: lowest(idle.fp, fp) };
                self.parked[b] = self.parked[b].union(chosen);
            }
        }
    }
}

/// The `n` lowest bits of a set.
fn lowest(mut set: u32, n: u32) -> u32 {
    let all = set;
    for _ in 0..n.min(set.count_ones()) {
        set &= set - 1;
    }
    all & !set
}

/// The loops of a region, by the block that heads them.
#[derive(Debug)]
struct Loops {
    /// Which blocks a loop has.
    bodies: Vec<Vec<bool>>,
    /// By block, the smallest loop that has it.
    innermost: Vec<Option<usize>>,
}

impl Loops {
    fn of(region: &Region) -> Self {
        let n = region.blocks.len();
        let heads = (0..n).filter(|&b| region.blocks[b].loop_head);
        let bodies: Vec<_> = heads.map(|head| loop_body(region, head)).collect();
        let mut order: Vec<usize> = (0..bodies.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(size(&bodies[at])));
        let mut innermost = vec![None; n];
        for at in order {
            (0..n).filter(|&b| bodies[at][b]).for_each(|b| innermost[b] = Some(at));
        }
        Loops { bodies, innermost }
    }

    fn innermost(&self, b: usize) -> Option<&[bool]> {
        self.innermost[b].map(|at| self.bodies[at].as_slice())
    }

    fn outermost_first(&self) -> Vec<&[bool]> {
        let mut all: Vec<_> = self.bodies.iter().map(Vec::as_slice).collect();
        all.sort_by_key(|body| std::cmp::Reverse(size(body)));
        all
    }
}

fn size(body: &[bool]) -> usize {
    body.iter().filter(|inside| **inside).count()
}

/// What is live before an instruction, from what is live after it. A conditional move reads its
/// target, and an instruction that may trap leaves the old value visible.
fn live_before(block: &Block, i: usize, after: RegSet, observed: bool) -> RegSet {
    let dead = match block.insns[i].op.kind() {
        Kind::Cmov | Kind::Fcmov => RegSet::NONE,
        Kind::Fp | Kind::AluV if observed => RegSet::NONE,
        _ => block.writes(i),
    };
    after.minus(dead).union(block.reads(i))
}

/// Not known.
const ANY: u64 = u64::MAX;
/// The farthest that an address may lie outside the window and still hit a guard page.
const REACH: u64 = GUARD_SIZE - (1 << 20);

/// What is known of one integer register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The value is at most this far below 0 or above the window's end.
    slack: u64,
    /// The value's magnitude, taken as a signed quadword, is at most this.
    magnitude: u64,
}

impl Bound {
    const UNKNOWN: Bound = Bound { slack: ANY, magnitude: ANY };

    const fn magnitude(m: u64) -> Bound {
        Bound { slack: m, magnitude: m }
    }

    fn join(self, o: Bound) -> Bound {
        Bound { slack: self.slack.max(o.slack), magnitude: self.magnitude.max(o.magnitude) }
    }

    /// Bound of a sum or difference; sums of unknowns stay unknown by saturation.
    fn plus(self, o: Bound) -> Bound {
        let slack = self.slack.saturating_add(o.magnitude);
        let other = o.slack.saturating_add(self.magnitude);
        Bound::clamp(slack.min(other), self.magnitude.saturating_add(o.magnitude))
    }

    fn minus(self, o: Bound) -> Bound {
        let slack = self.slack.saturating_add(o.magnitude);
        Bound::clamp(slack, self.magnitude.saturating_add(o.magnitude))
    }

    fn shifted(self, by: u32) -> Bound {
        match self.magnitude.checked_shl(by) {
            Some(m) if m >> by == self.magnitude && m <= REACH => Bound::magnitude(m),
            _ => Bound::UNKNOWN,
        }
    }

    fn clamp(slack: u64, magnitude: u64) -> Bound {
        Bound {
            slack: if slack > REACH { ANY } else { slack },
            magnitude: if magnitude > REACH { ANY } else { magnitude },
        }
    }
}

/// Bounds of all integer registers at one point.
///
/// The window lies between guard areas of [`GUARD_SIZE`] that are never mapped. An access that
/// has been executed proves its base to be inside the window, and steps from there that are small
/// against the guard cannot jump over it: a pointer that moves a little between accesses needs one
/// check before the loop, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds([Bound; 31]);

impl Bounds {
    /// Nothing is known.
    pub const UNKNOWN: Bounds = Bounds([Bound::UNKNOWN; 31]);

    fn get(&self, r: u8) -> Bound {
        if r < ZERO { self.0[r as usize] } else { Bound::magnitude(0) }
    }

    fn set(&mut self, r: u8, bound: Bound) {
        if r < ZERO {
            self.0[r as usize] = bound;
        }
    }

    fn join(&mut self, o: &Bounds, widen: bool) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.0.iter_mut().zip(&o.0) {
            let mut joined = mine.join(*theirs);
            if widen {
                if joined.slack != mine.slack {
                    joined.slack = ANY;
                }
                if joined.magnitude != mine.magnitude {
                    joined.magnitude = ANY;
                }
            }
            changed |= joined != *mine;
            *mine = joined;
        }
        changed
    }

    /// Whether `disp(rb)` is certain to hit the window or its guard.
    pub fn covers(&self, rb: u8, disp: i32) -> bool {
        self.get(rb).slack.saturating_add(disp.unsigned_abs() as u64) <= REACH
    }

    /// Takes in that an access to `disp(rb)` has succeeded, or a check of `rb` against the window.
    pub fn accessed(&mut self, rb: u8, disp: i32) {
        let mut bound = self.get(rb);
        bound.slack = bound.slack.min(disp.unsigned_abs() as u64);
        self.set(rb, bound);
    }

    /// Takes in that these registers have been checked against the window.
    fn assume(&mut self, set: u32) {
        for r in (0..31).filter(|r| set & 1 << r != 0) {
            if !self.covers(r, 0) {
                self.accessed(r, 0);
            }
        }
    }

    /// Effect of a division that the host does for the guest.
    pub fn divided(&mut self) {
        for r in [27, 28] {
            self.set(r, Bound::UNKNOWN);
        }
    }

    /// Effect of an instruction; `access` says that it is a memory access that will be executed.
    pub fn step(&mut self, insn: &Insn, access: bool) {
        if access {
            self.accessed(insn.b, insn.imm);
        }
        let result = self.result(insn);
        match insn.op.kind() {
            Kind::Alu
            | Kind::AluV
            | Kind::Cmov
            | Kind::Ftoi
            | Kind::Amask
            | Kind::Implver
            | Kind::StoreConditional => self.set(insn.c, result),
            Kind::Lea
            | Kind::Load
            | Kind::LoadUnaligned
            | Kind::LoadLocked
            | Kind::Branch
            | Kind::Jump
            | Kind::Rpcc
            | Kind::IntrFlag => self.set(insn.a, result),
            Kind::Pal => self.set(0, Bound::UNKNOWN),
            _ => {}
        }
    }

    fn result(&self, insn: &Insn) -> Bound {
        use Opcode::*;
        let a = self.get(insn.a);
        let lit = insn.imm as u64;
        let b = if insn.lit { Bound::magnitude(lit) } else { self.get(insn.b) };
        let base = self.get(insn.b);
        let longword = Bound::magnitude(1 << 31);
        match insn.op {
            Lda => base.plus(Bound::magnitude(insn.imm.unsigned_abs() as u64)),
            Ldah => base.plus(Bound::magnitude((insn.imm.unsigned_abs() as u64) << 16)),
            Ldbu => Bound::magnitude(0xff),
            Ldwu => Bound::magnitude(0xffff),
            Ldl => longword,
            Br | Bsr | Jsr | Jmp => Bound { slack: 0, magnitude: ANY },
            Addl | Subl | S4addl | S8addl | S4subl | S8subl | Mull | AddlV | SublV | MullV => {
                longword
            }
            Sextb | Sextw => Bound::magnitude(1 << 15),
            Addq => a.plus(b),
            Subq => a.minus(b),
            S4addq => a.shifted(2).plus(b),
            S8addq => a.shifted(3).plus(b),
            S4subq => a.shifted(2).minus(b),
            S8subq => a.shifted(3).minus(b),
            Sll if insn.lit => a.shifted(insn.imm as u32 & 63),
            Srl if insn.lit && lit & 63 > 24 => Bound::magnitude(1 << (64 - (lit & 63))),
            Sra if insn.lit && lit & 63 > 24 => Bound::magnitude(1 << (63 - (lit & 63))),
            And if insn.lit => Bound::magnitude(lit),
            Bic if insn.lit => a.minus(b),
            Bis if insn.b == ZERO && !insn.lit => a,
            Bis if insn.a == ZERO => b,
            Zapnot if insn.lit && lit < 16 => Bound::magnitude(0xffff_ffff),
            Extbl => Bound::magnitude(0xff),
            Extwl | Inswh | Extwh => Bound::magnitude(0xffff),
            Extll => Bound::magnitude(0xffff_ffff),
            Cmpeq | Cmplt | Cmple | Cmpult | Cmpule => Bound::magnitude(1),
            Cmpbge => Bound::magnitude(0xff),
            Ctpop | Ctlz | Cttz => Bound::magnitude(64),
            _ if insn.op.kind() == Kind::Cmov => self.get(insn.c).join(b),
            _ => Bound::UNKNOWN,
        }
    }
}

/// Bounds on entry to each block, and the loop-entry checks that they rest on.
///
/// Accesses in a loop whose address starts out unknown would be checked each time round. Where the
/// loop itself keeps the address in reach, one check on the way in does. Which addresses those are
/// is tried out: all bases that need a check in some loop are assumed checked on entry to the heads
/// of loops, and those that the loop loses are taken out again.
fn bounds(region: &Region, is_access: impl Fn(&Insn) -> bool) -> (Vec<Bounds>, Vec<u32>) {
    let mut checks = vec![0; region.blocks.len()];
    let plain = solve(region, &is_access, &checks);
    let needed = needing_check(region, &is_access, &plain);
    if needed == 0 {
        return (plain, checks);
    }
    for (b, block) in region.blocks.iter().enumerate() {
        if block.loop_head {
            checks[b] = needed & bases_in_loop(region, b, &is_access);
        }
    }
    loop {
        let solved = solve(region, &is_access, &checks);
        let mut lost = false;
        for (b, set) in checks.iter_mut().enumerate() {
            for r in (0..31).filter(|r| *set & 1 << r != 0).collect::<Vec<u8>>() {
                if !solved[b].covers(r, 0) {
                    *set &= !(1 << r);
                    lost = true;
                }
            }
        }
        if !lost {
            return (solved, checks);
        }
    }
}

/// Bases of accesses that would be checked where they stand.
fn needing_check(region: &Region, is_access: &impl Fn(&Insn) -> bool, bounds_in: &[Bounds]) -> u32 {
    let mut needed = 0;
    for (block, bounds) in region.blocks.iter().zip(bounds_in) {
        let mut state = bounds.clone();
        for insn in &block.insns {
            let access = is_access(insn);
            if access && insn.b < ZERO && !state.covers(insn.b, insn.imm) {
                needed |= 1 << insn.b;
            }
            state.step(insn, access);
        }
    }
    needed
}

/// Bases of accesses in the loops that block `head` heads, as far as the loop reads what they hold on
/// entry: what a register held that is defined anew each time round says nothing about addresses.
fn bases_in_loop(region: &Region, head: usize, is_access: &impl Fn(&Insn) -> bool) -> u32 {
    let inside = loop_body(region, head);
    let blocks = region.blocks.iter().zip(&inside).filter(|(_, inside)| **inside);
    let accesses = blocks.flat_map(|(b, _)| &b.insns).filter(|i| is_access(i) && i.b < ZERO);
    let bases = accesses.fold(0, |set, insn| set | 1 << insn.b);
    bases & read_on_entry(region, head, &inside)
}

/// Integer registers that the blocks `inside` may read on the way from `head` before they write them.
fn read_on_entry(region: &Region, head: usize, inside: &[bool]) -> u32 {
    let mut read = vec![0; region.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for (b, block) in region.blocks.iter().enumerate().rev().filter(|(b, _)| inside[*b]) {
            let next = block.successors().filter(|&s| inside[s]).fold(0, |set, s| set | read[s]);
            let set = (0..block.insns.len()).rev().fold(next, |set, i| {
                let writes =
                    if block.insns[i].op.kind() == Kind::Cmov { 0 } else { block.writes(i).int };
                set & !writes | block.reads(i).int
            });
            changed |= set != read[b];
            read[b] = set;
        }
    }
    read[head]
}

/// The blocks of the loops that block `head` heads.
fn loop_body(region: &Region, head: usize) -> Vec<bool> {
    let mut preds = vec![Vec::new(); region.blocks.len()];
    for (b, block) in region.blocks.iter().enumerate() {
        block.successors().for_each(|s| preds[s].push(b));
    }
    let mut inside = vec![false; region.blocks.len()];
    inside[head] = true;
    // Sources of edges that go back to the head; what reaches them without passing it is inside.
    let mut work: Vec<usize> = preds[head].iter().copied().filter(|&p| p >= head).collect();
    while let Some(b) = work.pop() {
        if !std::mem::replace(&mut inside[b], true) {
            work.extend(&preds[b]);
        }
    }
    inside
}

/// The dataflow itself, with these registers taken as checked on entry to loops.
fn solve(region: &Region, is_access: &impl Fn(&Insn) -> bool, checks: &[u32]) -> Vec<Bounds> {
    let n = region.blocks.len();
    let mut bounds_in: Vec<Option<Bounds>> = vec![None; n];
    let mut start = Bounds::UNKNOWN;
    start.assume(checks[0]);
    bounds_in[0] = Some(start);
    let mut rounds = 0;
    let mut changed = true;
    while changed {
        changed = false;
        rounds += 1;
        for (b, block) in region.blocks.iter().enumerate() {
            let Some(mut state) = bounds_in[b].clone() else { continue };
            for insn in &block.insns {
                state.step(insn, is_access(insn));
            }
            if block.division.is_some() {
                state.divided();
            }
            if matches!(block.term, Term::Call { .. }) {
                state = Bounds::UNKNOWN;
            }
            for s in block.successors() {
                let mut state = state.clone();
                if s > b {
                    state.assume(checks[s]);
                }
                match &mut bounds_in[s] {
                    Some(old) => changed |= old.join(&state, rounds > 3),
                    none => {
                        *none = Some(state);
                        changed = true;
                    }
                }
            }
        }
    }
    bounds_in.into_iter().map(|b| b.unwrap_or(Bounds::UNKNOWN)).collect()
}

#[cfg(test)]
mod tests {
    use axp_emu::isa::{assemble_block, decode};

    use super::*;
    use crate::region::Target;

    fn block(pc: u64, text: &str, term: Term, loop_head: bool) -> Block {
        let words = assemble_block(text, pc).unwrap();
        let insns = words.iter().map(|&word| decode(word).unwrap()).collect();
        Block { pc, insns, term, loop_head, division: None, inlined: false }
    }

    #[test]
    fn an_idle_register_is_parked_around_a_crowded_loop_only() {
        // Registers 1 to 14 are set before the loop and summed up behind it.
        let registers = |count: u8, text: fn(u8) -> String| {
            (1..=count).map(text).collect::<Vec<_>>().join("\n")
        };
        for (count, crowded) in [(14, true), (3, false)] {
            let set = registers(count, |r| format!("lda r{r}, {r}(r16)"));
            let sum = registers(count, |r| format!("addq r0, r{r}, r0"));
            let cond = Term::Cond { taken: Target::Block(1), fall: Target::Block(2) };
            let blocks = vec![
                block(0x1000, &set, Term::Goto(Target::Block(1)), false),
                block(0x2000, "top: subq r1, 1, r1\n bne r1, top", cond, true),
                block(0x3000, &format!("{sum}\n ret r31, (r26), 1"), Term::Ret, false),
            ];
            let facts = Facts::of(&Region { blocks }, false, |_| false);
            assert_eq!((facts.parked[0], facts.parked[2]), (RegSet::NONE, RegSet::NONE));
            let parked = facts.parked[1];
            assert_eq!(parked != RegSet::NONE, crowded);
            assert_eq!(parked.int & 1 << 1, 0, "the loop counts in R1");
            // In the loop memory is right.
            assert_eq!(facts.dirty_in[1].intersection(parked), RegSet::NONE);
            assert!(
                facts.leaves_loop(1, 2) && !facts.leaves_loop(1, 1) && !facts.leaves_loop(0, 1)
            );
        }
    }

    #[test]
    fn a_loop_checks_on_entry_the_bases_that_it_brings_along() {
        // R1 moves along; R3 is made anew each time round, from a sum that says nothing of its address.
        let text =
            "top: ldq r2, 0(r1)\n lda r1, 8(r1)\n addq r4, r5, r3\n stq r2, 0(r3)\n bne r2, top";
        let cond = Term::Cond { taken: Target::Block(1), fall: Target::Block(2) };
        let blocks = vec![
            block(0x1000, "subq r31, 1, r3", Term::Goto(Target::Block(1)), false),
            block(0x2000, text, cond, true),
            block(0x3000, "ret r31, (r26), 1", Term::Ret, false),
        ];
        let access = |i: &Insn| matches!(i.op, Opcode::Ldq | Opcode::Stq);
        let facts = Facts::of(&Region { blocks }, false, access);
        assert_eq!(facts.entry_checks, [0, 1 << 1, 0]);
    }
}
