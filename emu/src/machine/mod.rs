//! The privileged machine: a processor with OpenVMS PALcode, page tables, interrupts and a console.
//!
//! [`Machine`] is an [`Environment`] like the Linux personality: engines run translated code and
//! return guest events, and the machine answers them with what PALcode does - Rust functions, found
//! by call number (`pal`). What is shared between processors is the [`Board`]. Memory, translation
//! buffer and page walks lie below, in `emu::mem`, and know nothing of a PALcode's rules for stacks
//! and vectors, which are here: so another PALcode is another table over the same machine.
//!
//! * `board`: memory, console, disk; `boot`: loading and the start-up state
//! * `scb`: faults, traps and interrupts become frames; REI; `interrupt`: what is pending
//! * `pal`, `ipr`, `context`, `queue`: the calls
//! * `processors`: several of them, in time or in turns; `line`: what they say to each other
//! * `report`: what is told when the guest cannot go on
//! * `osf`: processors with OSF/1 PALcode; `platform`: the system around them, for Linux

mod board;
mod boot;
mod context;
mod interrupt;
mod ipr;
mod line;
pub mod osf;
mod pal;
pub mod platform;
mod processors;
mod queue;
mod report;
mod scb;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use board::{Board, Console, Disk, DiskError};
pub use boot::{BootError, Settings};
pub use processors::{Drive, MakeEngine};
pub use report::{HaltReason, Report};
pub use scb::Interrupted;

use crate::cpu::{Exit, Vcpu};
use crate::engine::{Answer, Engine, Environment, Flow, Limit, Outcome, Palcode};
use crate::isa::{Vms, decode};
use crate::mem::{Access, FaultKind, MemFault, SystemMap};
use scb::vector;

/// Status of a machine that ended with a report.
pub const HALTED: i32 = 70;

/// An access mode (AARM II-A 2.4): 0 kernel, 1 executive, 2 supervisor, 3 user.
pub type Mode = u64;
/// Names of the access modes.
pub const MODES: [&str; 4] = ["kernel", "executive", "supervisor", "user"];
/// The mode of PALcode's own stacks and vectors.
pub const KERNEL: Mode = 0;

/// PS fields (AARM II-A 6.2.1).
pub mod ps {
    /// Software field.
    pub const SW: u64 = 3;
    /// Interrupt pending.
    pub const IP: u64 = 1 << 2;
    /// Where the current mode starts.
    pub const CM_SHIFT: u32 = 3;
    /// Where the interrupt priority level starts.
    pub const IPL_SHIFT: u32 = 8;
    /// The bits that exist outside a saved frame.
    pub const ALL: u64 = 0x1f9f;
}

/// Guest events by access mode, for `axplab modes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// PALcode calls that left the engine.
    pub calls: u64,
    /// Exceptions and interrupts delivered.
    pub deliveries: u64,
    /// Instructions retired in each mode; kept by counted runs.
    pub instructions: [u64; 4],
    /// Host time in each mode and, last, in PALcode; kept where [`Machine::time_modes`] asks for it.
    pub time: [Duration; 5],
}

/// One processor of the machine: the registers that PALcode keeps.
#[derive(Debug)]
pub struct Machine {
    board: Arc<Board>,
    whami: u64,
    /// Processor status without SP_ALIGN.
    ps: u64,
    /// Stack pointers of the modes that are not current.
    sp: [u64; 4],
    ipr: ipr::Registers,
    pending: interrupt::Pending,
    history: report::History,
    change: Option<(u64, u64)>,
    /// Address of the instruction that is being answered for, to restart it.
    restart: u64,
    report: Option<Report>,
    counters: Counters,
    sampler: Option<Sampler>,
    /// When the guest went on, if somebody wants the time by mode.
    since: Option<Instant>,
    /// How the machine ended while the engine was asking.
    ended: Option<Outcome>,
    /// The clock ticks in real time: waiting for an interrupt is sleep.
    in_time: bool,
}

/// Who is told the time of each mode, now and then.
struct Sampler {
    every: Duration,
    next: Instant,
    last: [Duration; 5],
    tell: Box<dyn FnMut([Duration; 5]) + Send>,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("every", &self.every).finish_non_exhaustive()
    }
}

/// How a PALcode function ends.
type Done = Result<(), Trouble>;

/// Why a PALcode function could not do what was asked.
#[derive(Debug)]
enum Trouble {
    /// A reference failed: the call is restarted after the fault.
    Fault(MemFault),
    /// Reserved operand: illegal-operand trap (430).
    ReservedOperand,
    /// The call does not exist, or not in this mode (OPCDEC).
    Reserved,
    /// The machine stops.
    Stop(Outcome),
    /// The machine cannot go on.
    Halt(HaltReason),
}

impl From<MemFault> for Trouble {
    fn from(fault: MemFault) -> Self {
        Trouble::Fault(fault)
    }
}

impl Machine {
    /// Processor number `whami` of a board, in kernel mode at IPL 31 with translation off.
    pub fn new(board: Arc<Board>, whami: u64) -> Self {
        Machine {
            board,
            whami,
            ps: 31 << ps::IPL_SHIFT,
            sp: [0; 4],
            ipr: ipr::Registers::default(),
            pending: interrupt::Pending::default(),
            history: report::History::default(),
            change: None,
            restart: 0,
            report: None,
            counters: Counters::default(),
            sampler: None,
            since: None,
            ended: None,
            in_time: false,
        }
    }

    /// The current access mode.
    pub fn mode(&self) -> Mode {
        self.ps >> ps::CM_SHIFT & 3
    }

    /// The processor status.
    pub fn ps(&self) -> u64 {
        self.ps
    }

    /// Interrupt priority level.
    pub fn ipl(&self) -> u64 {
        self.ps >> ps::IPL_SHIFT & 31
    }

    /// Its number.
    pub fn whami(&self) -> u64 {
        self.whami
    }

    /// What processors share.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Why the machine ended, if not by its own wish.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// What has been counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Has [`run`](Machine::run) take the time of every stay in a mode, which costs two readings of the
    /// clock for each, and tell what was added about every so often.
    pub fn time_modes(&mut self, every: Duration, tell: Box<dyn FnMut([Duration; 5]) + Send>) {
        let next = Instant::now() + every;
        self.sampler = Some(Sampler { every, next, last: [Duration::ZERO; 5], tell });
    }

    fn sample(&mut self, now: Instant) {
        let time = self.counters.time;
        if let Some(sampler) = self.sampler.as_mut().filter(|s| now >= s.next) {
            sampler.next = now + sampler.every;
            let last = std::mem::replace(&mut sampler.last, time);
            (sampler.tell)(std::array::from_fn(|i| time[i].saturating_sub(last[i])));
        }
    }

    /// All state beside the registers, for comparisons between engines.
    pub fn snapshot(&self) -> String {
        format!("{:x} {:x?} {:x?} {:?}", self.ps, self.sp, self.ipr, self.pending)
    }

    /// Sets the processor status and what follows from its mode.
    fn set_ps(&mut self, vcpu: &Vcpu, ps: u64) {
        self.ps = ps & ps::ALL;
        system(vcpu).set_mode(self.mode());
    }

    /// Runs one processor until it ends. With a `quantum` the interval clock ticks each time that so
    /// many instructions have retired, and runs repeat exactly; without, nothing is counted.
    pub fn run(
        &mut self,
        engine: &mut dyn Engine,
        vcpu: &mut Vcpu,
        quantum: Option<u64>,
        limit: u64,
    ) -> Outcome {
        let end = vcpu.cpu.count.saturating_add(limit);
        loop {
            let slice = match quantum {
                None => Limit::None,
                Some(quantum) => {
                    let tick = quantum - vcpu.cpu.count % quantum;
                    Limit::Count(tick.min(end - vcpu.cpu.count))
                }
            };
            let (mode, before) = (self.mode(), vcpu.cpu.count);
            self.guest_goes_on();
            let exit = match slice {
                Limit::None => engine.run_with(vcpu, self),
                Limit::Count(_) => engine.run(vcpu, slice),
            };
            let left = self.guest_has_stopped(self.mode());
            self.counters.instructions[mode as usize] += vcpu.cpu.count - before;
            let flow = match exit {
                Exit::Limit if vcpu.cpu.count >= end => return Outcome::LimitReached,
                Exit::Limit => self.tick(vcpu),
                _ => self.handle(vcpu, exit),
            };
            self.call_has_ended(left);
            if let Some((start, end)) = self.take_code_change() {
                engine.invalidate(start, end);
            }
            if let Flow::Stop(outcome) = flow {
                return outcome;
            }
        }
    }

    /// From now on the time is a mode's.
    fn guest_goes_on(&mut self) {
        self.since = self.sampler.is_some().then(Instant::now);
    }

    /// The time since then was that of `mode`.
    fn guest_has_stopped(&mut self, mode: Mode) -> Option<Instant> {
        let since = self.since.take()?;
        let now = Instant::now();
        self.counters.time[mode as usize] += now - since;
        Some(now)
    }

    /// The time since `left` was PALcode's.
    fn call_has_ended(&mut self, left: Option<Instant>) {
        if let Some(left) = left {
            self.counters.time[4] += left.elapsed();
            self.sample(left);
        }
    }

    /// Turns what went wrong in a call or a delivery into the guest's own event.
    fn settle(&mut self, vcpu: &mut Vcpu, done: Done) -> Flow {
        let next = vcpu.cpu.pc;
        let done = match done {
            Ok(()) => return Flow::Continue,
            Err(Trouble::Fault(fault)) => self.memory_fault(vcpu, &fault),
            Err(Trouble::ReservedOperand) => {
                self.deliver(vcpu, vector::RESERVED_OPERAND, [0, 0], next)
            }
            Err(Trouble::Reserved) => self.deliver(vcpu, vector::OPCDEC, [0, 0], next),
            Err(trouble) => Err(trouble),
        };
        match done {
            Ok(()) => Flow::Continue,
            Err(Trouble::Stop(outcome)) => Flow::Stop(outcome),
            Err(Trouble::Halt(reason)) => self.halt(vcpu, reason),
            // Deliveries report nothing else.
            Err(other) => self.halt(vcpu, HaltReason::Internal(format!("{other:?}"))),
        }
    }

    fn halt(&mut self, vcpu: &Vcpu, reason: HaltReason) -> Flow {
        self.report = Some(self.make_report(vcpu, reason));
        Flow::Stop(Outcome::Exited(HALTED))
    }

    /// A memory-management fault of the instruction at `restart`.
    fn memory_fault(&mut self, vcpu: &mut Vcpu, fault: &MemFault) -> Done {
        let vector = match fault.why {
            FaultKind::NotValid | FaultKind::Unmapped => vector::TNV,
            FaultKind::OnRead => vector::FOR,
            FaultKind::OnWrite => vector::FOW,
            FaultKind::OnExecute => vector::FOE,
            FaultKind::Unaligned => {
                let write = u64::from(fault.access == Access::Store);
                let next = self.restart.wrapping_add(4);
                return self.deliver(vcpu, vector::ALIGN, [fault.va, write], next);
            }
            FaultKind::MachineCheck | FaultKind::BusError => vector::PMCHK,
            FaultKind::AccessViolation | FaultKind::Protected | FaultKind::OutOfWindow => {
                vector::ACV
            }
        };
        let how = match fault.access {
            Access::Load => 0,
            Access::Fetch => 1,
            Access::Store => 1 << 63,
        };
        self.deliver(vcpu, vector, [fault.va, how], self.restart)
    }
}

/// The translated memory of a processor.
fn system(vcpu: &Vcpu) -> &SystemMap {
    match vcpu.mem.system() {
        Some(system) => system,
        None => unreachable!("a machine's processor is made by `Machine::vcpu`"),
    }
}

impl Environment for Machine {
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
            // Synchronous traps save the address of the next instruction (AARM II-A 6.3.3).
            Exit::Unaligned(fault) => {
                self.memory_fault(vcpu, &MemFault { why: FaultKind::Unaligned, ..fault })
            }
            Exit::Arith(trap) => {
                let next = vcpu.cpu.pc;
                self.deliver(vcpu, vector::ARITH, [trap.write_mask, trap.summary], next)
            }
            Exit::Illegal(word) => self.illegal(vcpu, word),
            Exit::FpDisabled => self.deliver(vcpu, vector::FEN, [0, 0], vcpu.cpu.pc),
            Exit::Poll => {
                // Before what is pending is looked at, or a request in between would be lost.
                vcpu.cpu.take_poll();
                match self.ended.take().or_else(|| self.board.line.ended()) {
                    Some(outcome) => Err(Trouble::Stop(outcome)),
                    None => match self.stuck() {
                        Some(reason) => Err(Trouble::Halt(reason)),
                        None => self.deliver_pending(vcpu),
                    },
                }
            }
            Exit::Limit => Ok(()),
        };
        self.settle(vcpu, done)
    }

    fn take_code_change(&mut self) -> Option<(u64, u64)> {
        self.change.take()
    }
}

impl Palcode for Machine {
    fn answer(&mut self, vcpu: &mut Vcpu, code: u32) -> Answer {
        let left = self.guest_has_stopped(self.mode());
        let epoch = vcpu.mem.exec_epoch();
        let flow = match self.change_of_mode(vcpu, code) {
            Some(Ok(())) if left.is_none() => return Answer::Done,
            Some(done) => self.settle(vcpu, done),
            None => self.handle(vcpu, Exit::CallPal(code)),
        };
        self.call_has_ended(left);
        if let Flow::Stop(outcome) = flow {
            self.ended = Some(outcome);
            return Answer::Look;
        }
        self.guest_goes_on();
        // The engine has to look at its code when it is called again.
        let changed = self.change.is_some() || vcpu.mem.exec_epoch() != epoch;
        if changed { Answer::Look } else { Answer::Done }
    }

    #[inline]
    fn answer_at_once(&mut self, vcpu: &mut Vcpu, code: u32) -> Option<Answer> {
        if self.sampler.is_some() {
            return None;
        }
        let done = self.change_of_mode(vcpu, code);
        // Looked at where it is: the host cannot forward a store of the result's tag to a move of it whole.
        match &done {
            Some(Ok(())) => Some(Answer::Done),
            None => None,
            Some(Err(_)) => self.end_of_change(vcpu, done),
        }
    }
}

impl Machine {
    /// What an engine is told of a change of mode that was not performed.
    #[cold]
    fn end_of_change(&mut self, vcpu: &mut Vcpu, done: Option<Done>) -> Option<Answer> {
        Some(match self.settle(vcpu, done?) {
            Flow::Continue => Answer::Done,
            Flow::Stop(outcome) => {
                self.ended = Some(outcome);
                Answer::Look
            }
        })
    }

    /// CHMx and REI by a shorter way than `handle`: they are what services are made of, and never
    /// change code.
    #[inline(always)]
    fn change_of_mode(&mut self, vcpu: &mut Vcpu, code: u32) -> Option<Done> {
        // By number: `Vms::from_code` tells many calls apart.
        const REI: u32 = Vms::Rei as u32;
        const CHMK: u32 = Vms::Chmk as u32;
        const CHME: u32 = Vms::Chme as u32;
        const CHMS: u32 = Vms::Chms as u32;
        const CHMU: u32 = Vms::Chmu as u32;
        let named = match code {
            REI => None,
            CHMK => Some(0),
            CHME => Some(1),
            CHMS => Some(2),
            CHMU => Some(3),
            _ => return None,
        };
        self.restart = vcpu.cpu.pc.wrapping_sub(4);
        self.counters.calls += 1;
        self.history.push(self.restart, code);
        let done = match named {
            Some(mode) => self.change_mode(vcpu, mode),
            None => self.return_from(vcpu),
        };
        // Made anew rather than moved: see `answer_at_once`.
        if done.is_ok() { Some(Ok(())) } else { Some(done) }
    }

    /// A word that does not execute: a floating-point one without FEN, or OPCDEC.
    fn illegal(&mut self, vcpu: &mut Vcpu, word: u32) -> Done {
        let pc = vcpu.cpu.pc;
        let floating = decode(word).is_some_and(|insn| insn.op.kind().is_floating_point());
        if floating && !system(vcpu).fp_enabled() {
            return self.deliver(vcpu, vector::FEN, [0, 0], pc);
        }
        self.deliver(vcpu, vector::OPCDEC, [0, 0], pc.wrapping_add(4))
    }

    fn call(&mut self, vcpu: &mut Vcpu, code: u32) -> Done {
        match Vms::from_code(code) {
            Some(call) if code >= 0x40 || self.mode() == KERNEL => self.perform(vcpu, call),
            _ => Err(Trouble::Reserved),
        }
    }
}
