//! Two engines side by side on the same guest: finds the first instruction after which they differ.
//!
//! Called by `axplab lockstep` and by tests. Both sides run in counted slices; when a slice ends in
//! different states, both are made anew and run to counts in between until the first difference is
//! found. They are never single-stepped, which would have translators build other code than the
//! code that went wrong.

use std::fmt;

use super::{Engine, Environment, Limit, Outcome, run};
use crate::cpu::{Cpu, Vcpu};
use crate::mem::Prot;

/// One engine with a guest of its own.
pub struct Side {
    /// What executes.
    pub engine: Box<dyn Engine>,
    /// What answers; has to be deterministic.
    pub env: Box<dyn Environment>,
    /// Where.
    pub vcpu: Vcpu,
}

impl Side {
    /// Runs until `count` instructions have retired in all; `None` while the guest lives.
    ///
    /// Stops at multiples of `slice` on the way: translators begin a translation where they are
    /// entered, so that only the same stops lead through the same code.
    fn run_to(&mut self, count: u64, slice: u64) -> Option<Outcome> {
        loop {
            let now = self.vcpu.cpu.count;
            let stop = (now / slice).saturating_add(1).saturating_mul(slice).min(count);
            let limit = Limit::Count(stop.saturating_sub(now));
            match run(&mut *self.engine, &mut *self.env, &mut self.vcpu, limit) {
                Outcome::LimitReached if self.vcpu.cpu.count >= count => return None,
                Outcome::LimitReached if self.vcpu.cpu.count == now => return None,
                Outcome::LimitReached => {}
                outcome => return Some(outcome),
            }
        }
    }
}

/// What an instruction can change, but memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Integer registers R0..R30.
    pub r: [u64; 31],
    /// Floating-point registers F0..F30.
    pub f: [u64; 31],
    /// Program counter.
    pub pc: u64,
    /// Floating-point control register.
    pub fpcr: u64,
    /// Process-unique value.
    pub unique: u64,
    /// Flag of RS and RC.
    pub intr_flag: u64,
    /// Instructions retired.
    pub count: u64,
    /// How the guest ended, if it has.
    pub outcome: Option<Outcome>,
}

impl Snapshot {
    /// The state of `cpu`.
    pub fn of(cpu: &Cpu, outcome: Option<Outcome>) -> Self {
        Snapshot {
            r: std::array::from_fn(|i| cpu.r[i]),
            f: std::array::from_fn(|i| cpu.f[i]),
            pc: cpu.pc,
            fpcr: cpu.fpcr,
            unique: cpu.unique,
            intr_flag: cpu.intr_flag,
            count: cpu.count,
            outcome,
        }
    }
}

/// A place where two states differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference {
    /// Integer register.
    R(u8, u64, u64),
    /// Floating-point register.
    F(u8, u64, u64),
    /// Program counter.
    Pc(u64, u64),
    /// Floating-point control register.
    Fpcr(u64, u64),
    /// Process-unique value.
    Unique(u64, u64),
    /// Flag of RS and RC.
    IntrFlag(u64, u64),
    /// Instructions retired.
    Count(u64, u64),
    /// One has ended, or they have ended differently.
    Outcome(Option<Outcome>, Option<Outcome>),
    /// Byte of memory at this address.
    Memory(u64, u8, u8),
    /// The mappings are not the same.
    Mappings,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Difference::*;
        match self {
            R(n, a, b) => write!(f, "r{n}: {a:#018x} {b:#018x}"),
            F(n, a, b) => write!(f, "f{n}: {a:#018x} {b:#018x}"),
            Pc(a, b) => write!(f, "pc: {a:#x} {b:#x}"),
            Fpcr(a, b) => write!(f, "fpcr: {a:#018x} {b:#018x}"),
            Unique(a, b) => write!(f, "unique: {a:#x} {b:#x}"),
            IntrFlag(a, b) => write!(f, "intr_flag: {a} {b}"),
            Count(a, b) => write!(f, "count: {a} {b}"),
            Outcome(a, b) => write!(f, "outcome: {a:?} {b:?}"),
            Memory(va, a, b) => write!(f, "byte at {va:#x}: {a:#04x} {b:#04x}"),
            Mappings => write!(f, "mappings"),
        }
    }
}

/// All differences between two states, memory excepted.
pub fn differences(a: &Snapshot, b: &Snapshot) -> Vec<Difference> {
    let mut found = Vec::new();
    for i in 0..31 {
        if a.r[i] != b.r[i] {
            found.push(Difference::R(i as u8, a.r[i], b.r[i]));
        }
        if a.f[i] != b.f[i] {
            found.push(Difference::F(i as u8, a.f[i], b.f[i]));
        }
    }
    let mut scalar = |make: fn(u64, u64) -> Difference, x: u64, y: u64| {
        if x != y {
            found.push(make(x, y));
        }
    };
    scalar(Difference::Pc, a.pc, b.pc);
    scalar(Difference::Fpcr, a.fpcr, b.fpcr);
    scalar(Difference::Unique, a.unique, b.unique);
    scalar(Difference::IntrFlag, a.intr_flag, b.intr_flag);
    scalar(Difference::Count, a.count, b.count);
    if a.outcome != b.outcome {
        found.push(Difference::Outcome(a.outcome, b.outcome));
    }
    found
}

/// The first difference between the memories of two guests, if any.
pub fn memory_difference(a: &Vcpu, b: &Vcpu) -> Option<Difference> {
    const CHUNK: u64 = 1 << 16;
    let map = |v: &Vcpu| -> Vec<(u64, u64, Prot)> {
        // What is mapped may consist of other pieces: of files here, of copies there.
        let mut all: Vec<(u64, u64, Prot)> = Vec::new();
        for r in v.mem.regions() {
            match all.last_mut() {
                Some((_, end, prot)) if *end == r.start && *prot == r.prot => *end = r.end,
                _ => all.push((r.start, r.end, r.prot)),
            }
        }
        all
    };
    let regions = map(a);
    if regions != map(b) {
        return Some(Difference::Mappings);
    }
    let mut left = vec![0; CHUNK as usize];
    let mut right = left.clone();
    for (start, end, prot) in regions {
        if !prot.contains(Prot::WRITE) {
            continue;
        }
        let mut at = start;
        while at < end {
            let len = (end - at).min(CHUNK) as usize;
            let (l, r) = (&mut left[..len], &mut right[..len]);
            // What cannot be read (a file that is too short) cannot differ.
            let readable = a.mem.read_bytes(at, l).is_ok() && b.mem.read_bytes(at, r).is_ok();
            if readable && let Some(i) = l.iter().zip(&*r).position(|(x, y)| x != y) {
                return Some(Difference::Memory(at + i as u64, l[i], r[i]));
            }
            at += len as u64;
        }
    }
    None
}

/// The first instruction after which two engines differ.
#[derive(Clone, Debug)]
pub struct Divergence {
    /// Instructions that retired before, after which both agreed.
    pub count: u64,
    /// Address of the instruction.
    pub pc: u64,
    /// The instruction, if it can be fetched.
    pub word: Option<u32>,
    /// The last common state.
    pub before: Snapshot,
    /// State of the left side one instruction later.
    pub left: Snapshot,
    /// State of the right side one instruction later.
    pub right: Snapshot,
    /// What differs.
    pub what: Vec<Difference>,
    /// Whether this instruction did it. If not, the engines differed once at the end of a slice that
    /// began after `count` instructions, and agreed when they were made to run it again.
    pub exact: bool,
}

/// How far and how closely to compare.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Stop after this many instructions.
    pub limit: u64,
    /// Compare after this many instructions each.
    pub slice: u64,
    /// Compare memory as well, after each slice.
    pub memory: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { limit: u64::MAX, slice: 1 << 20, memory: false }
    }
}

/// Two guests in the same state.
struct Pair {
    left: Side,
    right: Side,
    slice: u64,
}

impl Pair {
    /// Runs both sides to `count`; their states and what differs.
    fn run_to(&mut self, count: u64, memory: bool) -> (Snapshot, Snapshot, Vec<Difference>) {
        let outcome = self.left.run_to(count, self.slice);
        let left = Snapshot::of(&self.left.vcpu.cpu, outcome);
        let outcome = self.right.run_to(count, self.slice);
        let right = Snapshot::of(&self.right.vcpu.cpu, outcome);
        let mut what = differences(&left, &right);
        if memory {
            what.extend(memory_difference(&self.left.vcpu, &self.right.vcpu));
        }
        (left, right, what)
    }
}

/// Runs the guests that `make_left` and `make_right` give (the same one each time) until they end,
/// `options.limit` is reached, or they differ. `Ok` is the common last state.
///
/// # Errors
/// The first divergence.
pub fn lockstep(
    make_left: &mut dyn FnMut() -> Side,
    make_right: &mut dyn FnMut() -> Side,
    options: Options,
) -> Result<Snapshot, Box<Divergence>> {
    let slice = options.slice.max(1);
    let mut make = || Pair { left: make_left(), right: make_right(), slice };
    let mut pair = make();
    let mut good = pair.left.vcpu.cpu.count;
    let mut before = Snapshot::of(&pair.left.vcpu.cpu, None);
    let (mut bad, mut found) = loop {
        let count = (good / slice).saturating_add(1).saturating_mul(slice).min(options.limit);
        let (left, right, what) = pair.run_to(count, options.memory);
        if !what.is_empty() {
            break (count, (left, right, what));
        }
        if left.outcome.is_some() || count >= options.limit {
            return Ok(left);
        }
        (good, before) = (count, left);
    };
    // No instruction of the guest retires later than this: a guest that ended has not come to `bad`.
    bad = bad.min(found.0.count.max(found.1.count).saturating_add(1));
    let mut exact = false;
    // A difference may heal, or show at one stop and not at the other; whatever is found in the end
    // has been seen with a good state before it and a bad one after it.
    while bad.saturating_sub(good) > 1 {
        let middle = good + (bad - good) / 2;
        let (left, right, what) = make().run_to(middle, options.memory);
        if what.is_empty() {
            (good, before) = (middle, left);
        } else {
            (bad, found, exact) = (middle, (left, right, what), true);
        }
    }
    let mut pair = make();
    let again = pair.run_to(bad, options.memory);
    if !again.2.is_empty() {
        (found, exact) = (again, true);
    }
    let mut pair = make();
    pair.run_to(good, options.memory);
    let pc = before.pc;
    let word = pair.left.vcpu.mem.fetch_u32(pc).ok();
    let (left, right, what) = found;
    Err(Box::new(Divergence { count: good, pc, word, before, left, right, what, exact }))
}
