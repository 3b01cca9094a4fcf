//! Processors beside the first: each waits on a host thread of its own for the console's command that
//! starts it (AARM III 3.4.1.3), and executes until it halts or the machine ends.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Clipper, hwrpb};
use crate::cpu::Vcpu;
use crate::engine::Outcome;
use crate::isa::CpuModel;
use crate::machine::osf::{Counters, Drive, Processor, Report};
use crate::machine::{HALTED, MakeEngine};
use crate::mem::Physical;

/// How often a processor that waits looks for a command: a kernel waits ten seconds for the answer.
const LOOK: Duration = Duration::from_millis(4);
/// How often later on, when it seems that there is a kernel for one processor.
const LOOK_LATER: Duration = Duration::from_millis(40);
/// Looks until then.
const SOON: u32 = 2000;

/// What the processors beside the first leave behind.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Why the machine could not go on, if it was one of them.
    pub report: Option<Report>,
    /// What happened on each that was started.
    pub counters: Vec<(u64, Counters)>,
}

/// Where the further processors run; shared by their threads.
pub(super) struct Secondaries<'a> {
    pub platform: &'a Arc<Clipper>,
    pub physical: Arc<Physical>,
    pub model: CpuModel,
    pub make: MakeEngine<'a>,
    pub drive: Drive<'a>,
    pub left: Mutex<Left>,
}

impl Secondaries<'_> {
    /// Waits for the start of a processor; `None` if the machine ends before.
    fn wait_for_start(&self, whami: u64) -> Option<hwrpb::Start> {
        let mut looks = 0;
        while self.platform.ended().is_none() {
            if let Some(start) = hwrpb::take_start(&self.physical, whami) {
                return Some(start);
            }
            looks += 1;
            thread::sleep(if looks < SOON { LOOK } else { LOOK_LATER });
        }
        None
    }

    /// What the thread of a further processor does.
    pub(super) fn run(&self, whami: u64) -> Option<()> {
        let start = self.wait_for_start(whami)?;
        // Ends the machine when its thread does, even by a panic; a processor that halts is no end.
        let ends = Ends(self.platform);
        let mut vcpu = Processor::vcpu(self.physical.clone(), self.model).ok()?;
        let context = hwrpb::context(whami);
        let mut processor = Processor::new(self.platform.clone(), whami, &mut vcpu, context);
        self.begin(&mut vcpu, start, whami);
        let mut engine = (self.make)()?;
        let outcome = processor
            .in_time(&mut vcpu, |processor, vcpu| (self.drive)(processor, &mut *engine, vcpu));
        self.platform.leave();
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.counters.push((whami, processor.counters()));
        if let Some(report) = processor.report() {
            left.report.get_or_insert_with(|| report.clone());
        } else if matches!(outcome, Outcome::Exited(_)) {
            std::mem::forget(ends);
        }
        Some(())
    }

    fn begin(&self, vcpu: &mut Vcpu, start: hwrpb::Start, whami: u64) {
        vcpu.cpu.pc = start.pc & !3;
        // The procedure value, by which the code finds its constants.
        vcpu.cpu.r[27] = start.argument;
        self.platform.forget_ticks(whami);
        hwrpb::acknowledge_start(&self.physical, whami);
    }
}

struct Ends<'a>(&'a Clipper);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end(HALTED);
    }
}
