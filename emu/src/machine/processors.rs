//! Several processors: one host thread for each and one for the clock, or, counted, in turns on one
//! thread. Called by whoever has booted a machine.
//!
//! All but the first wait until CSERVE starts them. The machine ends when the first of them ends it.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::line::{Entry, Lines};
use super::{Board, Machine, Report, Settings, system};
use crate::cpu::Vcpu;
use crate::engine::{Engine, Flow, Outcome};
use crate::mem::Physical;

/// Makes an engine for a processor, on its thread.
pub type MakeEngine<'a> = &'a (dyn Fn() -> Option<Box<dyn Engine>> + Sync);

/// How somebody else than [`Machine::run`] runs a processor to its end: a profiler.
pub type Drive<'a> = &'a (dyn Fn(&mut Machine, &mut dyn Engine, &mut Vcpu) -> Outcome + Sync);

/// Ends the machine when its thread does, even by a panic.
struct Ends<'a>(&'a Lines);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end(Outcome::Exited(super::HALTED));
    }
}

impl Machine {
    /// A further processor about to execute where it was asked to.
    fn further(
        board: &Arc<Board>,
        whami: u64,
        physical: Arc<Physical>,
        settings: &Settings,
        entry: Entry,
    ) -> Option<(Machine, Vcpu)> {
        let mut vcpu = Machine::vcpu(physical, settings).ok()?;
        vcpu.cpu.pc = entry.pc & !3;
        vcpu.cpu.r[16] = entry.argument;
        Some((Machine::new(board.clone(), whami), vcpu))
    }

    /// Runs the machine whose first processor this is, its clock in real time. `None` if there is no
    /// engine for it.
    pub fn run_in_time(
        &mut self,
        vcpu: &mut Vcpu,
        make: MakeEngine<'_>,
        settings: &Settings,
    ) -> Option<Outcome> {
        let run = |machine: &mut Machine, engine: &mut dyn Engine, vcpu: &mut Vcpu| {
            machine.run(engine, vcpu, None, u64::MAX)
        };
        self.run_in_time_by(vcpu, make, settings, &run)
    }

    /// The same, each processor by `drive`.
    pub fn run_in_time_by(
        &mut self,
        vcpu: &mut Vcpu,
        make: MakeEngine<'_>,
        settings: &Settings,
        drive: Drive<'_>,
    ) -> Option<Outcome> {
        let mut engine = make()?;
        let board = self.board.clone();
        let physical = system(vcpu).shared_physical();
        let report: Mutex<Option<Report>> = Mutex::default();
        thread::scope(|scope| {
            let ends = Ends(&board.line);
            scope.spawn(|| board.line.run_clock());
            for whami in 1..board.processors() as u64 {
                let (board, physical, report) = (&board, &physical, &report);
                scope.spawn(move || {
                    let entry = board.line.wait_for_start(whami)?;
                    let (mut machine, mut vcpu) =
                        Machine::further(board, whami, physical.clone(), settings, entry)?;
                    let ends = Ends(&board.line);
                    let mut engine = make()?;
                    let outcome = machine.run_until_end(&mut *engine, &mut vcpu, drive);
                    if machine.report.is_some() {
                        *report.lock().unwrap_or_else(PoisonError::into_inner) = machine.report;
                    }
                    board.line.end(outcome);
                    drop(ends);
                    Some(())
                });
            }
            let outcome = self.run_until_end(&mut *engine, vcpu, drive);
            board.line.end(outcome);
            drop(ends);
        });
        let other = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        if self.report.is_none() {
            self.report = other;
        }
        board.line.ended()
    }

    fn run_until_end(
        &mut self,
        engine: &mut dyn Engine,
        vcpu: &mut Vcpu,
        drive: Drive<'_>,
    ) -> Outcome {
        let board = self.board.clone();
        self.in_time = true;
        board.line.bell(self.whami).attached(vcpu, |vcpu| drive(self, engine, vcpu))
    }

    /// Runs the machine whose first processor this is so that runs repeat exactly: processors take turns
    /// of `quantum` instructions, after each of which the interval clock ticks.
    pub fn run_in_turns(
        &mut self,
        vcpu: &mut Vcpu,
        make: MakeEngine<'_>,
        settings: &Settings,
        quantum: u64,
    ) -> Option<Outcome> {
        let board = self.board.clone();
        let mut engine = make()?;
        if board.processors() == 1 {
            return Some(self.run(&mut *engine, vcpu, Some(quantum), u64::MAX));
        }
        let physical = system(vcpu).shared_physical();
        let mut others: Vec<(Machine, Vcpu, Box<dyn Engine>)> = Vec::new();
        loop {
            if let Some(outcome) = self.take_turn(&mut *engine, vcpu, quantum) {
                return Some(outcome);
            }
            for (machine, vcpu, engine) in &mut others {
                if let Some(outcome) = machine.take_turn(&mut **engine, vcpu, quantum) {
                    self.report = machine.report.take();
                    return Some(outcome);
                }
            }
            for whami in 1..board.processors() as u64 {
                let runs = others.iter().any(|(m, ..)| m.whami == whami);
                if let Some(entry) = board.line.entry(whami).filter(|_| !runs) {
                    let (machine, vcpu) =
                        Machine::further(&board, whami, physical.clone(), settings, entry)?;
                    others.push((machine, vcpu, make()?));
                }
            }
        }
    }

    fn take_turn(
        &mut self,
        engine: &mut dyn Engine,
        vcpu: &mut Vcpu,
        quantum: u64,
    ) -> Option<Outcome> {
        match self.run(engine, vcpu, Some(quantum), quantum) {
            Outcome::LimitReached => match self.tick(vcpu) {
                Flow::Continue => None,
                Flow::Stop(outcome) => Some(outcome),
            },
            outcome => Some(outcome),
        }
    }
}
