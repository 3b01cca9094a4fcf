//! A record of each instruction as it retires, for `axplab trace` and for looking into a
//! divergence. Slow: every instruction is a counted run of its own.

use super::{Engine, Environment, Limit, Outcome, run};
use crate::cpu::Vcpu;

/// A register that an instruction changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Integer register and its new value.
    R(u8, u64),
    /// Floating-point register and its new value.
    F(u8, u64),
    /// The floating-point control register.
    Fpcr(u64),
}

/// One instruction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceRecord {
    /// Instructions retired before it.
    pub count: u64,
    /// Its address. Where the environment went elsewhere first (a signal handler), the address at
    /// which it interrupted.
    pub pc: u64,
    /// The instruction word, if it can be fetched.
    pub word: Option<u32>,
    /// Address of the instruction after it.
    pub next: u64,
    /// What it changed, a system call's results included.
    pub changes: Vec<Change>,
}

/// Takes records; may stop the run by `false`.
pub trait TraceSink {
    /// Called once for each instruction.
    fn record(&mut self, record: &TraceRecord) -> bool;
}

impl<F: FnMut(&TraceRecord) -> bool> TraceSink for F {
    fn record(&mut self, record: &TraceRecord) -> bool {
        self(record)
    }
}

/// Runs `vcpu` for at most `limit` instructions and hands each to `sink`.
pub fn trace(
    engine: &mut dyn Engine,
    env: &mut dyn Environment,
    vcpu: &mut Vcpu,
    limit: u64,
    sink: &mut dyn TraceSink,
) -> Outcome {
    let mut record = TraceRecord::default();
    for _ in 0..limit {
        let (r, f, fpcr) = (vcpu.cpu.r, vcpu.cpu.f, vcpu.cpu.fpcr);
        record.count = vcpu.cpu.count;
        record.pc = vcpu.cpu.pc;
        record.word = vcpu.mem.fetch_u32(record.pc).ok();
        let outcome = run(engine, env, vcpu, Limit::Count(1));
        let cpu = &vcpu.cpu;
        record.next = cpu.pc;
        record.changes.clear();
        for i in 0..31u8 {
            let slot = usize::from(i);
            if cpu.r[slot] != r[slot] {
                record.changes.push(Change::R(i, cpu.r[slot]));
            }
            if cpu.f[slot] != f[slot] {
                record.changes.push(Change::F(i, cpu.f[slot]));
            }
        }
        if cpu.fpcr != fpcr {
            record.changes.push(Change::Fpcr(cpu.fpcr));
        }
        if !sink.record(&record) {
            return Outcome::LimitReached;
        }
        if outcome != Outcome::LimitReached {
            return outcome;
        }
    }
    Outcome::LimitReached
}
