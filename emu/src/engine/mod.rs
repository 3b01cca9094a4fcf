//! The two seams of execution: an [`Engine`] runs guest code until a guest event, an
//! [`Environment`] (a personality) handles the event. [`run`] is the only loop over both.

pub mod lockstep;
pub mod replay;
mod run;
#[cfg(test)]
mod tests;
pub mod trace;

use std::ops::Add;
use std::time::Duration;

pub use run::run;

use crate::cpu::{Exit, Vcpu};

/// How far a call of [`Engine::run`] may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Until a guest event. Instructions are not counted.
    None,
    /// At most this many instructions, exactly; `cpu.count` advances by what was retired.
    Count(u64),
}

/// Executes guest instructions. One engine value belongs to one guest thread.
pub trait Engine {
    /// Name as `--engine` spells it.
    fn name(&self) -> &'static str;

    /// Runs `vcpu` from `cpu.pc` until a guest event; see [`Exit`] for the state at each.
    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit;

    /// As `run` without a limit, with somebody to ask about CALL_PAL: an engine that can goes on behind
    /// the calls that `palcode` performs, in whatever mode they lead to.
    fn run_with(&mut self, vcpu: &mut Vcpu, palcode: &mut dyn Palcode) -> Exit {
        let _ = palcode;
        self.run(vcpu, Limit::None)
    }

    /// Drops translations of guest code in `[start, end)`, or revalidates them: the guest has
    /// executed IMB, or its mappings changed.
    fn invalidate(&mut self, start: u64, end: u64);

    /// What has been done so far.
    fn stats(&self) -> EngineStats;

    /// The same for each tier of an engine that has several, by the tier's name.
    fn tiers(&self) -> Vec<(&'static str, EngineStats)> {
        vec![(self.name(), self.stats())]
    }
}

/// Counters of one engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EngineStats {
    /// Time spent building blocks and host code in the guest's thread.
    pub translate: Duration,
    /// Time spent on host code in other threads.
    pub background: Duration,
    /// Guest instructions translated, counting each translation.
    pub translated_instructions: u64,
    /// Blocks or regions built.
    pub translations: u64,
    /// Bytes of host code emitted.
    pub code_bytes: u64,
    /// Blocks or regions that were taken from what an earlier run had kept, instead of being built.
    pub kept: u64,
    /// Guest instructions in these.
    pub kept_instructions: u64,
    /// Regions that were taken from what this process had built before, for another thread mostly.
    pub shared: u64,
    /// Guest instructions in these.
    pub shared_instructions: u64,
    /// Instructions that host code did not execute itself but by a call, or by leaving, of this
    /// program's: a dynamic count.
    pub by_call: u64,
}

impl Add for EngineStats {
    type Output = EngineStats;

    fn add(self, other: EngineStats) -> EngineStats {
        EngineStats {
            translate: self.translate + other.translate,
            background: self.background + other.background,
            translated_instructions: self.translated_instructions + other.translated_instructions,
            translations: self.translations + other.translations,
            code_bytes: self.code_bytes + other.code_bytes,
            kept: self.kept + other.kept,
            kept_instructions: self.kept_instructions + other.kept_instructions,
            shared: self.shared + other.shared,
            shared_instructions: self.shared_instructions + other.shared_instructions,
            by_call: self.by_call + other.by_call,
        }
    }
}

/// What became of a CALL_PAL that an engine put to a [`Palcode`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Performed: the guest goes on at `cpu.pc`.
    Done,
    /// Performed, but whoever called the engine has to look: it returns [`Exit::Poll`].
    Look,
    /// Not performed: the engine returns [`Exit::CallPal`].
    Leave,
}

/// Performs CALL_PAL in the midst of compiled code, so that a change of mode need not leave the engine.
pub trait Palcode {
    /// Performs the call with this function code; `cpu.pc` is the instruction after it.
    fn answer(&mut self, vcpu: &mut Vcpu, code: u32) -> Answer;

    /// The same for calls that are performed without any floating-point arithmetic: compiled code need
    /// not change the host's control register for them. `None` if this is none of them, and nothing has
    /// happened.
    fn answer_at_once(&mut self, vcpu: &mut Vcpu, code: u32) -> Option<Answer> {
        let _ = (vcpu, code);
        None
    }
}

/// A personality: answers what a processor cannot do itself.
pub trait Environment {
    /// Handles one guest event and says how to go on.
    fn handle(&mut self, vcpu: &mut Vcpu, exit: Exit) -> Flow;

    /// Range of guest code changed by the last handled event, if any; asked once after each.
    fn take_code_change(&mut self) -> Option<(u64, u64)>;

    /// The same personality as one that an engine may ask about CALL_PAL without returning. What it
    /// leaves comes to `handle`.
    fn palcode(&mut self) -> Option<&mut dyn Palcode> {
        None
    }
}

/// What to do after a guest event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Run on from `cpu.pc`.
    Continue,
    /// The guest has ended.
    Stop(Outcome),
}

/// How a guest ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// By exit with this status, 0..=255.
    Exited(i32),
    /// By a signal, guest number, at `pc`; `addr` is the address or value that goes with it.
    Signalled {
        /// Guest signal number.
        signal: i32,
        /// Guest program counter.
        pc: u64,
        /// Fault address, or zero.
        addr: u64,
    },
    /// The instruction limit was reached.
    LimitReached,
}
