//! A processor with OSF/1 PALcode: what Linux, and Tru64 before it, call the hardware.
//!
//! [`Processor`] is an `Environment` beside the OpenVMS `Machine`, over the same memory and engines:
//! two modes, six entry points of the kernel, frames of six quadwords (AARM II-B). What is outside
//! the processor - clocks, interrupt lines, the console - is the `platform`'s.
//!
//! * `calls`: the table of PALcode calls; `context`: the process control block
//! * `entry`: how exceptions and interrupts reach the kernel, and the ways back
//! * `report`: what is told when the guest cannot go on

mod calls;
mod context;
mod entry;
mod report;

use std::sync::Arc;

pub use entry::Entry;
pub use report::{Halt, Report};

use super::platform::Clipper;
use crate::cpu::{Exit, UnalignedPolicy, Vcpu};
use crate::engine::{Answer, Engine, Environment, Flow, Limit, Outcome, Palcode};
use crate::isa::{CpuModel, Osf, OsfSystem, PalVariant, decode};
use crate::mem::WindowError;
use crate::mem::{Access, AddressSpace, FaultKind, MemFault, Physical, SystemMap, Translation};

/// PS fields (AARM II-B 1.2.1).
pub mod ps {
    /// Interrupt priority level.
    pub const IPL: u64 = 7;
    /// Current mode: user.
    pub const USER: u64 = 8;
}

/// What the memory calls user mode: the enable bits of OSF/1's user mode follow the kernel's, where
/// OpenVMS has those of executive mode.
const USER_MODE: u64 = 1;

/// Instructions of a counted run between two looks at the platform's clock: what time is made of
/// there. Devices see time stand still in between.
const GRAIN: u64 = 10_000;

/// What has happened, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// PALcode calls that left the engine.
    pub calls: u64,
    /// Exceptions delivered.
    pub exceptions: u64,
    /// Interrupts delivered.
    pub interrupts: u64,
    /// Instructions retired in kernel and user mode; kept by counted runs.
    pub instructions: [u64; 2],
}

/// One processor: the registers that PALcode keeps.
#[derive(Debug)]
pub struct Processor {
    platform: Arc<Clipper>,
    whami: u64,
    ps: u64,
    /// The kernel's stack pointer while user mode runs.
    ksp: u64,
    /// The user's while the kernel runs.
    usp: u64,
    /// Addresses of the kernel's entry points, by `Entry`.
    entries: [u64; 6],
    kgp: u64,
    sysval: u64,
    vptptr: u64,
    mces: u64,
    /// Physical address of the process control block.
    pcbb: u64,
    change: Option<(u64, u64)>,
    /// Address of the instruction that is being answered for.
    restart: u64,
    history: report::History,
    report: Option<Report>,
    counters: Counters,
    /// How the guest ended while the engine was asking.
    ended: Option<Outcome>,
}

/// How somebody else than [`Processor::drive`] runs a processor to its end: a debugger, a profiler.
pub type Drive<'a> = &'a (dyn Fn(&mut Processor, &mut dyn Engine, &mut Vcpu) -> Outcome + Sync);

/// How a PALcode function ends.
type Done = Result<(), Trouble>;

/// Why a PALcode function could not do what was asked.
#[derive(Debug)]
enum Trouble {
    /// A reference failed: the call is restarted after the fault.
    Fault(MemFault),
    /// The call does not exist, or not in this mode (opDEC).
    Reserved,
    /// The guest ends.
    Stop(Outcome),
    /// It cannot go on.
    Halt(Halt),
}

impl From<MemFault> for Trouble {
    fn from(fault: MemFault) -> Self {
        Trouble::Fault(fault)
    }
}

/// The translated memory of a processor.
fn system(vcpu: &Vcpu) -> &SystemMap {
    match vcpu.mem.system() {
        Some(system) => system,
        None => unreachable!("a processor is made by `Processor::vcpu`"),
    }
}

impl Processor {
    /// Registers for a processor over `physical` memory, with translation as OSF/1 has it.
    pub fn vcpu(physical: Arc<Physical>, model: CpuModel) -> Result<Vcpu, WindowError> {
        let space = AddressSpace::for_machine(physical)?;
        let mut vcpu = Vcpu::new(Arc::new(space), model);
        vcpu.pal = PalVariant::Osf1;
        vcpu.unaligned = UnalignedPolicy::Trap;
        system(&vcpu).set_translation(Translation::Osf);
        Ok(vcpu)
    }

    /// A processor in kernel mode at IPL 7, with the context at physical address `pcbb` loaded.
    pub fn new(platform: Arc<Clipper>, whami: u64, vcpu: &mut Vcpu, pcbb: u64) -> Self {
        let mut processor = Processor {
            platform,
            whami,
            ps: ps::IPL,
            ksp: 0,
            usp: 0,
            entries: [0; 6],
            kgp: 0,
            sysval: 0,
            vptptr: 0,
            mces: 0,
            pcbb,
            change: None,
            restart: 0,
            history: report::History::default(),
            report: None,
            counters: Counters::default(),
            ended: None,
        };
        processor.load_context(vcpu, pcbb);
        processor
    }

    /// Its number.
    pub fn whami(&self) -> u64 {
        self.whami
    }

    /// The system around it.
    pub fn platform(&self) -> &Arc<Clipper> {
        &self.platform
    }

    /// Whether user mode runs.
    pub fn user(&self) -> bool {
        self.ps & ps::USER != 0
    }

    /// The processor status.
    pub fn ps(&self) -> u64 {
        self.ps
    }

    /// Why the guest ended, if not by its own wish.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// What has been counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// All state beside the registers, for comparisons between engines.
    pub fn snapshot(&self) -> String {
        format!(
            "{:x} {:x} {:x} {:x?} {:x} {:x} {:x} {:x} {:x}",
            self.ps,
            self.ksp,
            self.usp,
            self.entries,
            self.kgp,
            self.sysval,
            self.vptptr,
            self.mces,
            self.pcbb
        )
    }

    fn set_ps(&mut self, vcpu: &Vcpu, ps: u64) {
        self.ps = ps & (ps::IPL | ps::USER);
        system(vcpu).set_mode(if self.user() { USER_MODE } else { 0 });
    }

    /// Runs until the guest ends. With a limit, so many instructions are executed at most, they are
    /// what time is made of, and runs repeat exactly.
    pub fn run(&mut self, engine: &mut dyn Engine, vcpu: &mut Vcpu, limit: Option<u64>) -> Outcome {
        let Some(limit) = limit else {
            return self.in_time(vcpu, |processor, vcpu| processor.drive(engine, vcpu));
        };
        let platform = self.platform.clone();
        platform.count_time(true);
        let end = vcpu.cpu.count.saturating_add(limit);
        platform.bell(self.whami).attached(vcpu, |vcpu| {
            loop {
                if let Flow::Stop(outcome) = self.step(engine, vcpu, end) {
                    return outcome;
                }
            }
        })
    }

    /// Calls `drive`, which runs the processor in real time; meanwhile clocks and devices can call it.
    pub fn in_time<R>(
        &mut self,
        vcpu: &mut Vcpu,
        drive: impl FnOnce(&mut Self, &mut Vcpu) -> R,
    ) -> R {
        let platform = self.platform.clone();
        platform.count_time(false);
        platform.bell(self.whami).attached(vcpu, |vcpu| drive(self, vcpu))
    }

    /// Runs until the guest ends, within [`in_time`](Self::in_time).
    pub fn drive(&mut self, engine: &mut dyn Engine, vcpu: &mut Vcpu) -> Outcome {
        loop {
            let exit = engine.run_with(vcpu, self);
            let flow = self.handle(vcpu, exit);
            if let Some((start, end)) = self.take_code_change() {
                engine.invalidate(start, end);
            }
            if let Flow::Stop(outcome) = flow {
                return outcome;
            }
        }
    }

    /// In counted runs: runs to the next guest event and answers it, until `end` at most.
    fn step(&mut self, engine: &mut dyn Engine, vcpu: &mut Vcpu, end: u64) -> Flow {
        let (user, before) = (usize::from(self.user()), vcpu.cpu.count);
        if before >= end {
            return Flow::Stop(Outcome::LimitReached);
        }
        let exit = engine.run(vcpu, Limit::Count((GRAIN - before % GRAIN).min(end - before)));
        self.counters.instructions[user] += vcpu.cpu.count - before;
        self.platform.set_time(vcpu.cpu.count);
        let flow = self.handle(vcpu, exit);
        if let Some((start, end)) = self.take_code_change() {
            engine.invalidate(start, end);
        }
        flow
    }

    /// Turns what went wrong in a call into the guest's own event.
    fn settle(&mut self, vcpu: &mut Vcpu, done: Done) -> Flow {
        let done = match done {
            Ok(()) => return Flow::Continue,
            Err(Trouble::Fault(fault)) => self.memory_fault(vcpu, &fault),
            Err(Trouble::Reserved) => self.instruction_fault(vcpu, entry::OPDEC, vcpu.cpu.pc),
            Err(trouble) => Err(trouble),
        };
        let halt = match done {
            Ok(()) => return Flow::Continue,
            Err(Trouble::Stop(outcome)) => return Flow::Stop(outcome),
            Err(Trouble::Halt(halt)) => halt,
            Err(other) => Halt::Internal(format!("{other:?}")),
        };
        self.report = Some(self.make_report(vcpu, halt));
        Flow::Stop(Outcome::Exited(super::HALTED))
    }

    /// A word that does not execute: a floating-point one without FEN, or opDEC.
    fn illegal(&mut self, vcpu: &mut Vcpu, word: u32) -> Done {
        let pc = vcpu.cpu.pc;
        let floating = decode(word).is_some_and(|insn| insn.op.kind().is_floating_point());
        if floating && !system(vcpu).fp_enabled() {
            return self.instruction_fault(vcpu, entry::FEN, pc);
        }
        self.instruction_fault(vcpu, entry::OPDEC, pc.wrapping_add(4))
    }

    fn call(&mut self, vcpu: &mut Vcpu, code: u32) -> Done {
        if code >= 0x80 {
            return match Osf::from_code(code) {
                Some(call) => self.perform(vcpu, call),
                None => Err(Trouble::Reserved),
            };
        }
        match OsfSystem::from_code(code) {
            Some(call) if !self.user() => self.perform_system(vcpu, call),
            _ => Err(Trouble::Reserved),
        }
    }

    /// A memory-management fault or an unaligned access of the instruction at `restart`.
    fn memory_fault(&mut self, vcpu: &mut Vcpu, fault: &MemFault) -> Done {
        let reason = match fault.why {
            FaultKind::Unaligned => return self.unaligned(vcpu, fault.va),
            FaultKind::MachineCheck | FaultKind::BusError => {
                return Err(Trouble::Halt(Halt::MachineCheck(*fault)));
            }
            FaultKind::NotValid | FaultKind::Unmapped => entry::TNV,
            FaultKind::OnRead => entry::FOR,
            FaultKind::OnWrite => entry::FOW,
            FaultKind::OnExecute => entry::FOE,
            // An entry that is not valid has no rights either, mostly; what PALcode tells then is that
            // it is not valid.
            _ if system(vcpu).peek(fault.va).is_none() => entry::TNV,
            FaultKind::AccessViolation | FaultKind::Protected | FaultKind::OutOfWindow => {
                entry::ACV
            }
        };
        let how = match fault.access {
            Access::Fetch => u64::MAX,
            Access::Load => 0,
            Access::Store => 1,
        };
        self.exception(vcpu, Entry::Memory, [fault.va, reason, how], self.restart)
    }
}

impl Environment for Processor {
    fn handle(&mut self, vcpu: &mut Vcpu, exit: Exit) -> Flow {
        self.restart = vcpu.cpu.pc;
        let done = match exit {
            Exit::CallPal(code) => {
                self.restart = vcpu.cpu.pc.wrapping_sub(4);
                self.counters.calls += 1;
                self.history.push(self.restart, code);
                self.call(vcpu, code)
            }
            Exit::Fault(fault) => self.memory_fault(vcpu, &fault),
            Exit::Unaligned(fault) => self.unaligned(vcpu, fault.va),
            Exit::Arith(trap) => {
                let next = vcpu.cpu.pc;
                self.exception(vcpu, Entry::Arithmetic, [trap.summary, trap.write_mask, 0], next)
            }
            Exit::Illegal(word) => self.illegal(vcpu, word),
            Exit::FpDisabled => self.instruction_fault(vcpu, entry::FEN, vcpu.cpu.pc),
            Exit::Poll | Exit::Limit => {
                // Before what is pending is looked at, or a request in between would be lost.
                vcpu.cpu.take_poll();
                if let Some(outcome) = self.ended.take() {
                    return Flow::Stop(outcome);
                }
                self.take_interrupt(vcpu)
            }
        };
        self.settle(vcpu, done)
    }

    fn take_code_change(&mut self) -> Option<(u64, u64)> {
        self.change.take()
    }
}

impl Palcode for Processor {
    fn answer(&mut self, vcpu: &mut Vcpu, code: u32) -> Answer {
        let epoch = vcpu.mem.exec_epoch();
        if let Flow::Stop(outcome) = self.handle(vcpu, Exit::CallPal(code)) {
            self.ended = Some(outcome);
            return Answer::Look;
        }
        // The engine has to look at its code when it is called again.
        let changed = self.change.is_some() || vcpu.mem.exec_epoch() != epoch;
        if changed { Answer::Look } else { Answer::Done }
    }
}
