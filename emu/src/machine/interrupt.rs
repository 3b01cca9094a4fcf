//! What is pending and when it is delivered: interrupts by level, software interrupts, ASTs
//! (AARM II-A 6.4).

use super::scb::vector;
use super::{Done, HaltReason, KERNEL, Machine, Trouble, ps};
use crate::cpu::Vcpu;
use crate::engine::Flow;

/// Level of the interval clock and of interprocessor interrupts.
const CLOCK_LEVEL: u64 = 22;
/// ASTs are delivered below this level, and at it.
const AST_LEVEL: u64 = 2;
/// Ticks that the guest may leave undelivered before it counts as stuck: ten seconds.
pub(super) const STUCK_TICKS: u64 = 1000;

/// Requests that wait for the level to fall.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    clock: bool,
    ipi: bool,
    /// Ticks since the last one was delivered.
    missed: u64,
}

impl Machine {
    /// The interval clock has ticked.
    pub fn tick(&mut self, vcpu: &mut Vcpu) -> Flow {
        self.pending.clock = true;
        self.pending.missed += 1;
        if let Some(reason) = self.stuck() {
            return self.halt(vcpu, reason);
        }
        self.restart = vcpu.cpu.pc;
        let done = self.deliver_pending(vcpu);
        self.settle(vcpu, done)
    }

    /// Whether the guest has left the clock's interrupts undelivered for long.
    pub(super) fn stuck(&self) -> Option<HaltReason> {
        let stuck = self.pending.missed > STUCK_TICKS && self.ipr.clock_used;
        stuck.then(|| HaltReason::Stuck(self.ipl()))
    }

    /// WTINT: sleeps until there is an interrupt to deliver, where the clock ticks in real time.
    pub(super) fn wait_for_interrupt(&mut self, vcpu: &mut Vcpu) -> Done {
        vcpu.cpu.r[0] = 0;
        if self.in_time && !self.pending.clock && !self.pending.ipi && self.ipr.sisr == 0 {
            let (board, whami) = (&self.board, self.whami);
            board.line.sleep(whami, || board.has_ipi(whami));
        }
        self.deliver_pending(vcpu)
    }

    /// Another processor asks for attention.
    pub fn interprocessor(&mut self) {
        self.pending.ipi = true;
    }

    /// Delivers the highest request above the current level, or an AST.
    #[inline]
    pub(super) fn deliver_pending(&mut self, vcpu: &mut Vcpu) -> Done {
        let asked = self.board.has_ipi(self.whami) || self.board.line.has_tick(self.whami);
        let pending = self.pending.clock || self.pending.ipi || self.ipr.sisr != 0;
        if !asked && !pending && self.ipr.asten & self.ipr.astsr == 0 {
            return Ok(());
        }
        self.deliver_highest(vcpu)
    }

    #[cold]
    fn deliver_highest(&mut self, vcpu: &mut Vcpu) -> Done {
        if self.board.take_ipi(self.whami) {
            self.pending.ipi = true;
        }
        if self.board.line.take_tick(self.whami) {
            self.pending.clock = true;
            self.pending.missed += 1;
        }
        let ipl = self.ipl();
        let software = u64::from(63 - (self.ipr.sisr | 1).leading_zeros());
        if ipl < CLOCK_LEVEL && self.pending.clock {
            (self.pending.clock, self.pending.missed) = (false, 0);
            return self.interrupt(vcpu, vector::CLOCK, CLOCK_LEVEL);
        }
        if ipl < CLOCK_LEVEL && self.pending.ipi {
            self.pending.ipi = false;
            return self.interrupt(vcpu, vector::IPI, CLOCK_LEVEL);
        }
        if software > ipl {
            self.ipr.sisr &= !(1 << software);
            return self.interrupt(vcpu, vector::SOFTWARE + 16 * software, software);
        }
        if ipl < AST_LEVEL {
            let reachable = (2 << self.mode()) - 1;
            let asts = self.ipr.asten & self.ipr.astsr & reachable;
            if asts != 0 {
                let mode = u64::from(asts.trailing_zeros());
                self.ipr.astsr &= !(1 << mode);
                return self.interrupt_at(
                    vcpu,
                    vector::AST + 16 * mode,
                    AST_LEVEL,
                    self.ps & ps::IP,
                );
            }
        }
        Ok(())
    }

    fn interrupt(&mut self, vcpu: &mut Vcpu, vector: u64, level: u64) -> Done {
        self.interrupt_at(vcpu, vector, level, ps::IP)
    }

    fn interrupt_at(&mut self, vcpu: &mut Vcpu, vector: u64, level: u64, ip: u64) -> Done {
        let pc = vcpu.cpu.pc;
        let parameters = [vcpu.cpu.r[4], vcpu.cpu.r[5]];
        let ps = level << ps::IPL_SHIFT | ip;
        match self.enter(vcpu, vector, parameters, pc, KERNEL, ps) {
            Err(Trouble::Fault(fault)) => {
                Err(Trouble::Halt(HaltReason::KernelStack(fault, vector)))
            }
            other => other,
        }
    }
}
