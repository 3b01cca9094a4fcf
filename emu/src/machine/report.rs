//! What is told when the guest cannot go on.

use std::fmt;

use super::{MODES, Machine, system};
use crate::cpu::Vcpu;
use crate::isa::Vms;
use crate::mem::MemFault;

/// Why the machine stopped without being asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HaltReason {
    /// HALT in kernel mode.
    Halted,
    /// The kernel stack could not take the frame of this vector.
    KernelStack(MemFault, u64),
    /// The SCB has no entry for this vector, or cannot be read.
    NoVector(u64),
    /// No interrupt was taken for ten seconds at this level.
    Stuck(u64),
    /// A fault of this program.
    Internal(String),
}

impl fmt::Display for HaltReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HaltReason::Halted => write!(f, "HALT in kernel mode"),
            HaltReason::KernelStack(fault, vector) => {
                write!(f, "kernel stack not valid ({fault}) for the frame of vector {vector:#x}")
            }
            HaltReason::NoVector(vector) => write!(f, "no handler for vector {vector:#x}"),
            HaltReason::Stuck(ipl) => write!(f, "no interrupt taken for 10 s at IPL {ipl}"),
            HaltReason::Internal(what) => write!(f, "internal: {what}"),
        }
    }
}

/// The last PALcode calls: where and which.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    ring: [(u64, u32); 8],
    next: usize,
}

impl History {
    #[inline]
    pub fn push(&mut self, pc: u64, code: u32) {
        self.ring[self.next % 8] = (pc, code);
        self.next += 1;
    }

    fn calls(&self) -> Vec<(u64, u32)> {
        let first = self.next.saturating_sub(8);
        (first..self.next).map(|i| self.ring[i % 8]).collect()
    }
}

/// The end of a machine, for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Why.
    pub reason: HaltReason,
    /// Program counter.
    pub pc: u64,
    /// Processor status; its mode and level are printed by name.
    pub ps: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame number of the page table.
    pub ptbr: u64,
    /// The last PALcode calls, oldest first.
    pub calls: Vec<(u64, u32)>,
}

impl Machine {
    pub(super) fn make_report(&self, vcpu: &Vcpu, reason: HaltReason) -> Report {
        Report {
            reason,
            pc: self.restart,
            ps: self.ps,
            sp: vcpu.cpu.r[30],
            ptbr: system(vcpu).ptbr(),
            calls: self.history.calls(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = MODES[(self.ps >> 3 & 3) as usize];
        writeln!(f, "machine stopped: {}", self.reason)?;
        writeln!(f, "  pc {:#x}, {mode} mode, IPL {}", self.pc, self.ps >> 8 & 31)?;
        writeln!(f, "  PS {:#x}, SP {:#x}, PTBR {:#x}", self.ps, self.sp, self.ptbr)?;
        write!(f, "  last PALcode calls:")?;
        for (pc, code) in &self.calls {
            match Vms::from_code(*code) {
                Some(call) => write!(f, " {}@{pc:#x}", call.name())?,
                None => write!(f, " {code:#x}@{pc:#x}")?,
            }
        }
        Ok(())
    }
}
