//! What can be profiled: a program under the Linux personality, and the privileged machine.

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Environment, Palcode};
use axp_emu::isa::{Osf, OsfSystem, Vms};
use axp_emu::linux::Linux;
use axp_emu::machine::osf::Processor;
use axp_emu::machine::{Interrupted, Machine, Mode};

/// A personality as its profiler sees it.
pub trait Subject: Environment + Palcode {
    /// Whether this is a process of the host, which can fork, and whose calls last long enough to be
    /// timed by a clock. Otherwise they are counted, and samples tell their time.
    const IS_PROCESS: bool;

    /// Number of the thread.
    fn thread_id(&self) -> i32;

    /// What a CALL_PAL is called in the report.
    fn call_name(code: u32) -> &'static str;

    /// The access mode, where there are several.
    fn mode(&self) -> Option<Mode> {
        None
    }

    /// Where exception handlers begin, in order.
    fn handlers(&self, _: &Vcpu) -> Vec<u64> {
        Vec::new()
    }

    /// What a handler with this frame interrupted.
    fn interrupted(&self, _: &Vcpu, _frame: u64, _: Option<Mode>) -> Option<Interrupted> {
        None
    }

    /// Why an engine stopped.
    fn reason(exit: Exit) -> &'static str {
        match exit {
            Exit::Poll if Self::IS_PROCESS => "poll (samples, signals)",
            Exit::Poll => "poll (samples, interrupts)",
            Exit::Limit => "limit",
            Exit::CallPal(code) => Self::call_name(code),
            Exit::Fault(_) => "memory fault",
            Exit::Unaligned(_) => "unaligned access",
            Exit::Arith(_) => "arithmetic trap",
            Exit::Illegal(_) => "illegal instruction",
            Exit::FpDisabled => "floating point disabled",
        }
    }
}

impl Subject for Linux {
    const IS_PROCESS: bool = true;

    fn thread_id(&self) -> i32 {
        Linux::thread_id(self)
    }

    fn call_name(code: u32) -> &'static str {
        match Osf::from_code(code) {
            Some(Osf::Callsys) => "system call",
            Some(Osf::Imb) => "imb",
            Some(Osf::Bpt | Osf::Bugchk | Osf::Gentrap) => "trap instruction",
            _ => "other PALcode",
        }
    }
}

impl Subject for Machine {
    const IS_PROCESS: bool = false;

    fn thread_id(&self) -> i32 {
        processor_id(self.whami())
    }

    fn call_name(code: u32) -> &'static str {
        Vms::from_code(code).map_or("reserved PALcode", Vms::name)
    }

    fn mode(&self) -> Option<Mode> {
        Some(Machine::mode(self))
    }

    fn handlers(&self, vcpu: &Vcpu) -> Vec<u64> {
        Machine::handlers(self, vcpu)
    }

    fn interrupted(&self, vcpu: &Vcpu, frame: u64, mode: Option<Mode>) -> Option<Interrupted> {
        Machine::interrupted(self, vcpu, frame, mode?)
    }
}

/// User mode in the numbering of [`Mode`].
const USER: Mode = 3;

impl Subject for Processor {
    const IS_PROCESS: bool = false;

    fn thread_id(&self) -> i32 {
        processor_id(self.whami())
    }

    fn call_name(code: u32) -> &'static str {
        let system = OsfSystem::from_code(code).map(OsfSystem::name);
        system.or_else(|| Osf::from_code(code).map(Osf::name)).unwrap_or("reserved PALcode")
    }

    fn mode(&self) -> Option<Mode> {
        Some(if self.user() { USER } else { 0 })
    }
}

/// The first processor runs on the process's first thread; others have no ids that anybody else uses.
fn processor_id(whami: u64) -> i32 {
    std::process::id() as i32 + whami as i32
}
