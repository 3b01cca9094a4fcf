//! What is told when a guest over OSF/1 PALcode cannot go on.

use std::fmt;

use super::{Entry, Processor, ps, system};
use crate::cpu::Vcpu;
use crate::isa::{Osf, OsfSystem};
use crate::mem::MemFault;

/// Why the guest stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// HALT without a wish for power-off or restart.
    Halted,
    /// HALT with a wish to be started again.
    Restart,
    /// The kernel's stack could not take a frame.
    KernelStack(MemFault, Entry),
    /// The kernel has not said where this entry point is.
    NoEntry(Entry),
    /// CALLSYS in kernel mode.
    KernelCallsys,
    /// SWPCTX to what is no context.
    Context(u64),
    /// A reference to physical memory that is not there.
    MachineCheck(MemFault),
    /// A fault of this program.
    Internal(String),
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::Halted => write!(f, "HALT in kernel mode"),
            Halt::Restart => write!(f, "the guest asks to be started again"),
            Halt::KernelStack(fault, entry) => {
                write!(f, "kernel stack not valid ({fault}) for the frame of {}", entry.name())
            }
            Halt::NoEntry(entry) => write!(f, "no address for {}", entry.name()),
            Halt::KernelCallsys => write!(f, "callsys in kernel mode"),
            Halt::Context(at) => write!(f, "swpctx to {at:#x}, where no context can be"),
            Halt::MachineCheck(fault) => write!(f, "machine check: {fault}"),
            Halt::Internal(what) => write!(f, "internal: {what}"),
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
        (self.next.saturating_sub(8)..self.next).map(|i| self.ring[i % 8]).collect()
    }
}

/// The end of a guest, for its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Why.
    pub halt: Halt,
    /// Program counter.
    pub pc: u64,
    /// Return address register.
    pub ra: u64,
    /// Processor status.
    pub ps: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame number of the page table.
    pub ptbr: u64,
    /// The last PALcode calls, oldest first.
    pub calls: Vec<(u64, u32)>,
}

impl Processor {
    pub(super) fn make_report(&self, vcpu: &Vcpu, halt: Halt) -> Report {
        Report {
            halt,
            pc: self.restart,
            ra: vcpu.cpu.r[26],
            ps: self.ps,
            sp: vcpu.cpu.r[30],
            ptbr: system(vcpu).ptbr(),
            calls: self.history.calls(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = if self.ps & ps::USER != 0 { "user" } else { "kernel" };
        writeln!(f, "machine stopped: {}", self.halt)?;
        writeln!(f, "  pc {:#x}, ra {:#x}, {mode} mode", self.pc, self.ra)?;
        writeln!(f, "  PS {:#x}, SP {:#x}, PTBR {:#x}", self.ps, self.sp, self.ptbr)?;
        write!(f, "  last PALcode calls:")?;
        for (pc, code) in &self.calls {
            let system = OsfSystem::from_code(*code).map(OsfSystem::name);
            match system.or_else(|| Osf::from_code(*code).map(Osf::name)) {
                Some(name) => write!(f, " {name}@{pc:#x}")?,
                None => write!(f, " {code:#x}@{pc:#x}")?,
            }
        }
        Ok(())
    }
}
