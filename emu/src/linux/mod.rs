//! The user-mode personality: Linux on Alpha. Answers guest events of a program's threads.
//!
//! * `load`, `stack`: from a file to a processor ready to run. `exec`: from one program to the next.
//! * `table`: the system calls, one row each. `call`: one of them in progress. `strace`: as text.
//! * `files`, `fdcalls`, `memory`, `process`, `threads`, `time`, `net`, `ipc`, `ioctl`, `osf`:
//!   topics.
//! * `signals`, `frame`, `fpcomplete`: what a fault or signal becomes.
//! * `private`: what a guest does not reach. `watch`: what a debugger sees.
//! * `abi`, `errno`: Alpha's numbers and layouts. `host`: the host's kernel;
//!   `host_aside`: a process that is not confined.
//!
//! A [`Linux`] is one guest thread's view: the shared [`Process`] and its own task. It never names
//! an engine: a [`Runner`] that is handed in runs new threads.

mod abi;
mod call;
mod errno;
mod exec;
mod fdcalls;
mod files;
mod fpcomplete;
mod frame;
mod host;
mod host_aside;
mod ioctl;
mod ipc;
mod load;
mod memory;
mod missing;
mod net;
mod osf;
mod private;
mod process;
mod procfs;
mod signals;
mod stack;
mod strace;
mod table;
mod threads;
mod time;
mod watch;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use abi::{signal_name, signal_to_host};
pub use errno::Errno;
pub use host::die_by_signal;
pub use host_aside::Aside;
pub use load::{LinuxOptions, LoadError};
pub use process::{BeforeExec, Process, Runner, Tracer};
pub use table::{Syscall, known_calls, missing_calls};
pub use watch::SignalWatcher;

use crate::cpu::{Exit, UnalignedPolicy, Vcpu};
use crate::engine::{Answer, Environment, Flow, Outcome, Palcode};
use crate::isa::Osf;
use call::Call;
use signals::{AltStack, SigInfo};

/// State of one guest thread that the kernel would keep.
#[derive(Debug)]
pub(crate) struct Task {
    pub tid: i32,
    pub mailbox: Arc<host::Mailbox>,
    entered: bool,
    /// Blocked signals, bit 0 is signal 1.
    pub mask: u64,
    /// The mask to return to while a call waits under another one.
    pub saved_mask: Option<u64>,
    pub altstack: AltStack,
    /// Signals that were raised for this thread and not delivered yet.
    pub queue: VecDeque<SigInfo>,
    pub clear_child_tid: u64,
    pub robust_list: (u64, u64),
    /// Software completion control: enables and mapping bits; status is in FPCR.
    pub swcr: u64,
    pub code_change: Option<(u64, u64)>,
    /// Set by calls that end the thread.
    pub stop: Option<Outcome>,
    /// First thread of the process: its end gives the outcome.
    pub is_main: bool,
}

impl Task {
    fn new(tid: i32, mask: u64, is_main: bool) -> Self {
        Task {
            tid,
            mailbox: Arc::default(),
            entered: false,
            mask,
            saved_mask: None,
            altstack: AltStack::default(),
            queue: VecDeque::new(),
            clear_child_tid: 0,
            robust_list: (0, 0),
            swcr: 0,
            code_change: None,
            stop: None,
            is_main,
        }
    }
}

/// One thread of a Linux program. See the module's description.
#[derive(Debug)]
pub struct Linux {
    pub(crate) process: Arc<Process>,
    pub(crate) task: Task,
}

impl Linux {
    /// What the threads share.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    fn enter(&mut self, vcpu: &Vcpu) {
        if !self.task.entered {
            self.task.entered = true;
            self.task.mailbox.enter_thread(&vcpu.cpu.poll);
            let _ = crate::mem::install_alt_stack();
        }
    }

    fn leave(&mut self) {
        if self.task.entered {
            self.task.entered = false;
            self.task.mailbox.leave_thread();
        }
    }

    /// Carries out the call that the processor's registers describe.
    fn syscall(&mut self, vcpu: &mut Vcpu) {
        let number = vcpu.cpu.r[0];
        let Some(row) = table::row(number) else {
            if number != 0 {
                self.process.count_unknown(number);
            }
            if let Some(trace) = self.process.strace.clone() {
                let name = table::name_of(number).unwrap_or("syscall");
                trace(&format!("[{}] {name}#{number}(...) = ENOSYS", self.task.tid));
            }
            vcpu.cpu.r[0] = u64::from(Errno::ENOSYS.0);
            vcpu.cpu.r[19] = 1;
            return;
        };
        self.perform(vcpu, row);
    }

    /// Carries out a call. After the host's kernel its processor predicts little, so there is as little as
    /// possible on the way back, returns included.
    #[inline(always)]
    fn perform(&mut self, vcpu: &mut Vcpu, row: &'static Syscall) {
        let number = row.number;
        let saved_a3 = vcpu.cpu.r[19];
        let result = match self.process.strace.is_none() {
            true => (row.handler)(&mut Call::new(self, vcpu)),
            false => self.traced(vcpu, row),
        };
        match result {
            Ok(value) => {
                vcpu.cpu.r[0] = value;
                vcpu.cpu.r[19] = 0;
            }
            Err(Errno::NO_RESULT) => {}
            Err(Errno::INTERRUPTED) => {
                if self.restarts(row) {
                    // The kernel restores v0 and a3 and re-executes the CALLSYS.
                    vcpu.cpu.r[0] = number;
                    vcpu.cpu.r[19] = saved_a3;
                    vcpu.cpu.pc = vcpu.cpu.pc.wrapping_sub(4);
                } else {
                    vcpu.cpu.r[0] = u64::from(Errno::EINTR.0);
                    vcpu.cpu.r[19] = 1;
                }
            }
            Err(errno) => {
                vcpu.cpu.r[0] = u64::from(errno.0);
                vcpu.cpu.r[19] = 1;
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn traced(&mut self, vcpu: &mut Vcpu, row: &'static Syscall) -> errno::SysResult {
        let mut call = Call::new(self, vcpu);
        let line = strace::Line::new(row, &call.a, &call.vcpu.mem);
        let say = |linux: &Linux, text: &str| {
            if let Some(trace) = &linux.process.strace {
                trace(&format!("[{}] {text}", linux.task.tid));
            }
        };
        if row.replaces() {
            // If it succeeds, nobody is left to say so.
            say(call.linux, &line.begun());
        }
        let result = (row.handler)(&mut call);
        say(self, &line.done(&result, &self.process.mem));
        result
    }

    /// What the program has asked for: unaligned accesses, precise faults, and whether faults show at all.
    fn policies(&self) -> (UnalignedPolicy, bool, bool) {
        let precise = self.process.precise.load(Ordering::Acquire);
        let observed = precise || self.process.observed.load(Ordering::Acquire);
        (osf::unaligned_policy(self), precise, observed)
    }

    fn policies_stand(&self, vcpu: &Vcpu) -> bool {
        self.policies() == (vcpu.unaligned, vcpu.precise, vcpu.observed)
    }

    /// Whether `handle` would find nothing to do before the guest goes on.
    fn is_quiet(&self) -> bool {
        let task = &self.task;
        task.mailbox.attention.load(Ordering::Acquire) == 0
            && task.queue.is_empty()
            && task.saved_mask.is_none()
            && task.stop.is_none()
            && task.code_change.is_none()
            && self.process.ending().is_none()
    }

    fn pal(&mut self, vcpu: &mut Vcpu, code: u32) {
        let pc = vcpu.cpu.pc;
        match Osf::from_code(code) {
            Some(Osf::Callsys) => self.syscall(vcpu),
            Some(Osf::Rduniq) => vcpu.cpu.r[0] = vcpu.cpu.unique,
            Some(Osf::Wruniq) => vcpu.cpu.unique = vcpu.cpu.r[16],
            Some(Osf::Imb) => self.task.code_change = Some((0, u64::MAX)),
            // The kernel gives the floating-point unit back at the next use.
            Some(Osf::Clrfen) => {}
            Some(Osf::Bpt) => self.raise(SigInfo::fault(abi::sig::TRAP, signals::TRAP_BRKPT, pc)),
            Some(Osf::Bugchk) => {
                self.raise(SigInfo::fault(abi::sig::TRAP, signals::TRAP_UNK, pc));
            }
            Some(Osf::Gentrap) => {
                let code = vcpu.cpu.r[16];
                let (signal, si_code) = fpcomplete::gentrap(code as i64);
                self.raise(SigInfo::fault(signal, si_code, pc).with_trapno(code as i32));
            }
            Some(Osf::Urti) | None => {
                self.raise(SigInfo::fault(abi::sig::ILL, signals::ILL_ILLOPC, pc));
            }
        }
    }

    /// Ends the calling thread with `status`; the process too if it is the last one.
    pub(crate) fn end_thread(&mut self, vcpu: &mut Vcpu, status: i32) {
        threads::release(self, vcpu);
        // From here on signals are for the others.
        host::set_mask(u64::MAX);
        let mut threads = process::lock(&self.process.threads);
        threads.alive.retain(|&tid| tid != self.task.tid);
        if threads.alive.is_empty() {
            threads.end.get_or_insert(Outcome::Exited(status));
            self.process.end_decided.store(true, Ordering::Release);
        }
        self.process.thread_ended.notify_all();
        if self.task.is_main {
            // A main thread that exits alone waits for the rest; the process has its status then.
            while threads.end.is_none() {
                threads = process::lock_again(&self.process.thread_ended, threads);
            }
        }
        self.task.stop = Some(threads.end.unwrap_or(Outcome::Exited(status)));
    }
}

impl Environment for Linux {
    fn handle(&mut self, vcpu: &mut Vcpu, exit: Exit) -> Flow {
        self.enter(vcpu);
        let pc = vcpu.cpu.pc;
        match exit {
            Exit::Poll => {
                vcpu.cpu.take_poll();
            }
            Exit::Limit => return Flow::Stop(Outcome::LimitReached),
            Exit::CallPal(code) => self.pal(vcpu, code),
            Exit::Fault(fault) => self.raise(SigInfo::memory(&fault)),
            Exit::Unaligned(fault) => {
                if osf::skips_unaligned(self, vcpu) {
                    vcpu.cpu.pc = pc.wrapping_add(4);
                } else {
                    self.raise(SigInfo::fault(abi::sig::BUS, signals::BUS_ADRALN, fault.va));
                }
            }
            Exit::Arith(trap) => fpcomplete::arithmetic_trap(self, vcpu, trap),
            Exit::Illegal(_) => {
                // The kernel sees the PC behind the instruction.
                vcpu.cpu.pc = pc.wrapping_add(4);
                let pc = vcpu.cpu.pc;
                self.raise(SigInfo::fault(abi::sig::ILL, signals::ILL_ILLOPC, pc));
            }
            Exit::FpDisabled => {}
        }
        if self.task.stop.is_none() {
            self.deliver(vcpu);
        }
        if self.task.stop.is_none() {
            self.task.stop = self.process.ending();
        }
        (vcpu.unaligned, vcpu.precise, vcpu.observed) = self.policies();
        match self.task.stop {
            None => Flow::Continue,
            Some(outcome) => {
                // A signal ends all threads; an exit has said itself what it ends.
                if matches!(outcome, Outcome::Signalled { .. }) {
                    self.process.end(outcome);
                }
                self.leave();
                Flow::Stop(outcome)
            }
        }
    }

    fn take_code_change(&mut self) -> Option<(u64, u64)> {
        self.task.code_change.take()
    }

    fn palcode(&mut self) -> Option<&mut dyn Palcode> {
        Some(self)
    }
}

/// System calls in the midst of compiled code: leaving it costs more than a short call takes.
impl Palcode for Linux {
    fn answer(&mut self, vcpu: &mut Vcpu, code: u32) -> Answer {
        let callsys = Osf::from_code(code) == Some(Osf::Callsys);
        if !callsys || !self.task.entered {
            return Answer::Leave;
        }
        let Some(row) = table::row(vcpu.cpu.r[0]).filter(|row| row.goes_on()) else {
            return Answer::Leave;
        };
        let compiled_for =
            |vcpu: &Vcpu| (vcpu.mem.exec_epoch(), vcpu.mem.is_alone(), vcpu.cpu.fpcr);
        let before = compiled_for(vcpu);
        self.perform(vcpu, row);
        if self.is_quiet() && self.policies_stand(vcpu) && compiled_for(vcpu) == before {
            Answer::Done
        } else {
            Answer::Look
        }
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Reads `attention` off; kept here because both ends of it are the event loop's.
pub(crate) fn clear_attention(task: &Task) {
    task.mailbox.attention.store(0, Ordering::Release);
}
