//! The debugger's end: the socket, and gdb's remote protocol by way of the `gdbstub` crate.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::{self, JoinHandle};

use anyhow::{Context, bail};
use axp_emu::engine::Outcome;
use gdbstub::common::{Signal, Tid};
use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwBreakpoint, HwBreakpointOps, SwBreakpoint, SwBreakpointOps,
};
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::{Target, TargetError, TargetResult};

use super::hub::{Event, Go, Hub, Why};
use super::regs::{Alpha, AlphaReg, AlphaRegs, from_gdb, to_gdb};

/// Where a debugger may connect.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A socket in the file system, which goes away once somebody has connected.
    Unix(UnixListener, PathBuf),
}

/// A debugger.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a socket in the file system.
    Unix(UnixStream),
}

impl Listener {
    /// Opens `HOST:PORT`, `:PORT` (of this machine only) or the path of a socket to be made.
    pub fn open(address: &str) -> anyhow::Result<Listener> {
        if address.contains('/') {
            let path = PathBuf::from(address);
            let listener = UnixListener::bind(&path)
                .with_context(|| format!("cannot make the socket `{address}` for --gdb"))?;
            return Ok(Listener::Unix(listener, path));
        }
        let Some((host, port)) = address.rsplit_once(':') else {
            bail!("--gdb `{address}` is neither HOST:PORT nor the path of a socket");
        };
        let Ok(port) = port.parse::<u16>() else {
            bail!("--gdb `{address}`: `{port}` is no port, a number up to 65535");
        };
        let host = match host.trim_start_matches('[').trim_end_matches(']') {
            "" => "localhost",
            host => host,
        };
        let listener = TcpListener::bind((host, port))
            .with_context(|| format!("cannot wait for a debugger at `{address}`"))?;
        Ok(Listener::Tcp(listener))
    }

    /// The address as a debugger would use it.
    fn name(&self) -> String {
        match self {
            Listener::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| "?".to_owned(), |at| at.to_string())
            }
            Listener::Unix(_, path) => path.display().to_string(),
        }
    }

    /// Waits for a debugger.
    pub(super) fn accept(self) -> anyhow::Result<Stream> {
        eprintln!("axplab: waiting for gdb: target remote {}", self.name());
        let failed = "cannot accept a debugger's connection";
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().context(failed)?;
                stream.set_nodelay(true).context(failed)?;
                Stream::Tcp(stream)
            }
            Listener::Unix(listener, path) => {
                let accepted = listener.accept();
                let _ = std::fs::remove_file(Path::new(&path));
                Stream::Unix(accepted.context(failed)?.0)
            }
        })
    }
}

impl Stream {
    fn reader(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Stream::Tcp(stream) => Box::new(stream.try_clone()?),
            Stream::Unix(stream) => Box::new(stream.try_clone()?),
        })
    }

    /// Ends the reader's wait as well.
    fn close(&self) {
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(std::net::Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

/// Collects a packet before it is sent.
struct Wire<'a> {
    stream: &'a Stream,
    out: Vec<u8>,
}

impl Connection for Wire<'_> {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.out.push(byte);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.out);
        match self.stream {
            Stream::Tcp(stream) => (&mut &*stream).write_all(&bytes),
            Stream::Unix(stream) => (&mut &*stream).write_all(&bytes),
        }
    }
}

/// Serves the debugger on threads of its own until it or the guest is gone.
pub(super) fn start(
    stream: Stream,
    hub: Arc<Hub>,
    events: Sender<Event>,
    inbox: Receiver<Event>,
) -> anyhow::Result<JoinHandle<()>> {
    let mut reader = stream.reader()?;
    thread::Builder::new().name("gdb reader".into()).spawn(move || {
        let mut bytes = [0; 4096];
        loop {
            match reader.read(&mut bytes) {
                Ok(0) => break,
                Ok(n) => {
                    if bytes[..n].iter().any(|&byte| events.send(Event::Byte(byte)).is_err()) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let _ = events.send(Event::Closed);
    })?;
    let serve = move || {
        let mut server = Server { hub, plan: Plan::default(), pending: VecDeque::new() };
        if let Err(error) = server.serve(&stream, &inbox) {
            eprintln!("axplab: debugger: {error}");
        }
        server.hub.detach();
        stream.close();
    };
    Ok(thread::Builder::new().name("gdb server".into()).spawn(serve)?)
}

/// What the debugger wants of the threads when they go on.
#[derive(Debug, Default)]
struct Plan {
    threads: BTreeMap<i32, (Go, Option<i32>)>,
    /// Threads that are not named stay.
    locked: bool,
    /// To be carried out.
    resume: bool,
}

struct Server {
    hub: Arc<Hub>,
    plan: Plan,
    /// Stops that have not been told: threads may stop at the same time.
    pending: VecDeque<(i32, Why)>,
}

type Reason = MultiThreadStopReason<u64>;

fn tid_of(tid: i32) -> Tid {
    Tid::new(tid.max(1) as usize).expect("thread ids are above zero")
}

fn reason(tid: i32, why: Why) -> Reason {
    let tid = tid_of(tid);
    match why {
        Why::Breakpoint => Reason::SwBreak(tid),
        Why::Step => Reason::SignalWithThread { tid, signal: Signal::SIGTRAP },
        Why::Signal(signal) => Reason::SignalWithThread { tid, signal: to_gdb(signal) },
    }
}

fn last_reason(outcome: Outcome) -> Reason {
    match outcome {
        Outcome::Exited(status) => Reason::Exited(status as u8),
        Outcome::Signalled { signal, .. } => Reason::Terminated(to_gdb(signal)),
        Outcome::LimitReached => Reason::Exited(0),
    }
}

impl Server {
    fn serve(&mut self, stream: &Stream, inbox: &Receiver<Event>) -> anyhow::Result<()> {
        let wire = Wire { stream, out: Vec::new() };
        let fail = |error: &dyn std::fmt::Display| anyhow::anyhow!("{error}");
        let mut ended = None;
        self.hub.halt();
        let mut stub = GdbStub::new(wire).run_state_machine(self).map_err(|e| fail(&e))?;
        loop {
            stub = match stub {
                GdbStubStateMachine::Disconnected(end) => {
                    if matches!(end.get_reason(), DisconnectReason::Kill) {
                        self.hub.kill();
                    }
                    return Ok(());
                }
                GdbStubStateMachine::CtrlCInterrupt(stub) => {
                    self.hub.halt();
                    let tid = self.hub.threads().first().copied().unwrap_or(1);
                    let stop = reason(tid, Why::Signal(2));
                    stub.interrupt_handled(self, Some(stop)).map_err(|e| fail(&e))?
                }
                GdbStubStateMachine::Idle(mut stub) => {
                    match next(inbox) {
                        Event::Byte(byte) => {
                            stub.incoming_data(self, byte).map_err(|e| fail(&e))?
                        }
                        Event::Closed => return Ok(()),
                        Event::Stopped(tid, why) => {
                            self.pending.push_back((tid, why));
                            stub.into()
                        }
                        Event::Ended(outcome) => {
                            // Killed from outside while it stood; told when it is to go on.
                            ended = Some(outcome);
                            let _ = stub.borrow_conn();
                            stub.into()
                        }
                    }
                }
                GdbStubStateMachine::Running(stub) => {
                    let event = match (ended.take(), self.untold()) {
                        (Some(outcome), _) => Event::Ended(outcome),
                        (None, Some((tid, why))) => Event::Stopped(tid, why),
                        (None, None) => {
                            self.let_go();
                            next(inbox)
                        }
                    };
                    match event {
                        Event::Byte(byte) => {
                            stub.incoming_data(self, byte).map_err(|e| fail(&e))?
                        }
                        Event::Closed => return Ok(()),
                        Event::Stopped(tid, why) => {
                            self.hub.halt();
                            stub.report_stop(self, reason(tid, why)).map_err(|e| fail(&e))?
                        }
                        Event::Ended(outcome) => {
                            stub.report_stop(self, last_reason(outcome)).map_err(|e| fail(&e))?
                        }
                    }
                }
            }
        }
    }

    /// A stop that was not told yet. One at a breakpoint need not be: the thread stands before it and
    /// meets it again if it is still there.
    fn untold(&mut self) -> Option<(i32, Why)> {
        let alive = self.hub.threads();
        loop {
            let (tid, why) = self.pending.pop_front()?;
            if alive.contains(&tid) && why != Why::Breakpoint {
                return Some((tid, why));
            }
        }
    }

    fn let_go(&mut self) {
        let plan = std::mem::take(&mut self.plan);
        if !plan.resume {
            return;
        }
        let rest = if plan.locked { Go::Stay } else { Go::Run };
        self.hub.release(|tid| plan.threads.get(&tid).copied().unwrap_or((rest, None)));
    }
}

/// The next event; a channel without a sender means that all is over.
fn next(inbox: &Receiver<Event>) -> Event {
    inbox.recv().unwrap_or(Event::Closed)
}

impl Target for Server {
    type Arch = Alpha;
    type Error = &'static str;

    fn base_ops(&mut self) -> BaseOps<'_, Alpha, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        self.hub.debuggee().program().is_some().then_some(self)
    }

    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        self.hub.debuggee().program().is_some().then_some(self)
    }
}

impl MultiThreadBase for Server {
    fn read_registers(&mut self, regs: &mut AlphaRegs, tid: Tid) -> TargetResult<(), Self> {
        self.hub
            .with_regs(tid.get() as i32, |own| regs.clone_from(own))
            .ok_or(TargetError::NonFatal)
    }

    fn write_registers(&mut self, regs: &AlphaRegs, tid: Tid) -> TargetResult<(), Self> {
        self.hub
            .with_regs(tid.get() as i32, |own| own.clone_from(regs))
            .ok_or(TargetError::NonFatal)
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, at: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        match self.hub.read(tid.get() as i32, at, data) {
            0 if !data.is_empty() => Err(TargetError::NonFatal),
            n => Ok(n),
        }
    }

    fn write_addrs(&mut self, at: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        self.hub.write(tid.get() as i32, at, data).map_err(|_| TargetError::NonFatal)
    }

    fn list_active_threads(&mut self, found: &mut dyn FnMut(Tid)) -> Result<(), Self::Error> {
        self.hub.threads().into_iter().for_each(|tid| found(tid_of(tid)));
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Server {
    fn read_register(
        &mut self,
        tid: Tid,
        reg: AlphaReg,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let value = self.hub.with_regs(tid.get() as i32, |regs| regs.0[reg.0]);
        let bytes = value.ok_or(TargetError::NonFatal)?.to_le_bytes();
        buf.get_mut(..8).ok_or(TargetError::NonFatal)?.copy_from_slice(&bytes);
        Ok(8)
    }

    fn write_register(&mut self, tid: Tid, reg: AlphaReg, val: &[u8]) -> TargetResult<(), Self> {
        let value = val.try_into().map(u64::from_le_bytes).map_err(|_| TargetError::NonFatal)?;
        if AlphaRegs::is_writable(reg) {
            let set = self.hub.with_regs(tid.get() as i32, |regs| regs.0[reg.0] = value);
            set.ok_or(TargetError::NonFatal)?;
        }
        Ok(())
    }
}

impl MultiThreadResume for Server {
    /// Done when the state machine runs: stops that wait to be told come first.
    fn resume(&mut self) -> Result<(), Self::Error> {
        self.plan.resume = true;
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.plan = Plan::default();
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), Self::Error> {
        self.plan.threads.insert(tid.get() as i32, (Go::Run, signal.and_then(from_gdb)));
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Server {
    fn set_resume_action_step(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> Result<(), Self::Error> {
        self.plan.threads.insert(tid.get() as i32, (Go::Step, signal.and_then(from_gdb)));
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Server {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        self.plan.locked = true;
        Ok(())
    }
}

impl Breakpoints for Server {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Server {
    fn add_sw_breakpoint(&mut self, at: u64, _kind: usize) -> TargetResult<bool, Self> {
        Ok(self.hub.set_breakpoint(at).is_ok())
    }

    fn remove_sw_breakpoint(&mut self, at: u64, _kind: usize) -> TargetResult<bool, Self> {
        Ok(self.hub.remove_breakpoint(at).unwrap_or(false))
    }
}

impl HwBreakpoint for Server {
    fn add_hw_breakpoint(&mut self, at: u64, kind: usize) -> TargetResult<bool, Self> {
        self.add_sw_breakpoint(at, kind)
    }

    fn remove_hw_breakpoint(&mut self, at: u64, kind: usize) -> TargetResult<bool, Self> {
        self.remove_sw_breakpoint(at, kind)
    }
}

/// The part of `all` that a packet asks for.
fn part(all: &[u8], offset: u64, length: usize, buf: &mut [u8]) -> usize {
    let rest = all.get(offset as usize..).unwrap_or_default();
    let n = rest.len().min(length).min(buf.len());
    buf[..n].copy_from_slice(&rest[..n]);
    n
}

impl Auxv for Server {
    fn get_auxv(&self, offset: u64, length: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        let program = self.hub.debuggee().program();
        Ok(part(program.map_or(&[], |(auxv, _)| auxv), offset, length, buf))
    }
}

impl ExecFile for Server {
    fn get_exec_file(
        &self,
        _pid: Option<gdbstub::common::Pid>,
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        use std::os::unix::ffi::OsStrExt;
        let program = self.hub.debuggee().program();
        let path = program.map_or(&[][..], |(_, path)| path.as_os_str().as_bytes());
        Ok(part(path, offset, length, buf))
    }
}
