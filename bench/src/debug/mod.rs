//! `axplab run --gdb` and `boot --gdb`: a guest under a debugger that speaks gdb's remote protocol. Called by `guest`
//! and `cmd/boot`.
//!
//! * `regs`: Alpha as gdb sees it. `hub`: where guest threads and the server meet. `server`: the
//!   connection and what the protocol asks for. `target`: what can be debugged. This file: how a guest thread runs.
//!
//! Breakpoints are CALL_PAL BPT in guest memory, so code runs on the chosen engine at its speed;
//! single steps are the interpreter's.

mod hub;
mod regs;
mod server;
mod target;

use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use anyhow::Context;

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Engine, Environment, Flow, Limit, Outcome};
use axp_emu::interp::{self, Dispatch, Interpreter};
use axp_emu::isa::{Osf, decode};
use axp_emu::linux::Linux;
use axp_emu::machine::osf::Processor;
use axp_emu::machine::platform::Guest;
use axp_emu::mem::SystemMap;

use hub::{Go, Hub, Why};
pub use server::Listener;
use target::{Debuggee, System};

/// A guest with a debugger attached.
#[derive(Debug)]
pub struct Session {
    hub: Arc<Hub>,
    server: JoinHandle<()>,
}

impl Session {
    /// Waits for a debugger and puts the program that `linux` is the first thread of under it. The
    /// program starts when the debugger says so.
    pub fn accept(listener: Listener, linux: &Linux) -> anyhow::Result<Session> {
        let session = Session::start(listener, linux.process().clone(), linux.thread_id())?;
        let watcher = session.hub.clone();
        linux
            .process()
            .watch_signals(Arc::new(move |vcpu, tid, signal| watcher.signal(vcpu, tid, signal)));
        Ok(session)
    }

    /// Waits for a debugger and puts a system that is about to be booted under it.
    pub fn accept_system(listener: Listener, guest: &Guest) -> anyhow::Result<Session> {
        let physical = guest.vcpu.mem.system().map(SystemMap::shared_physical);
        let physical = physical.context("the guest's memory is not translated")?;
        let system = System { platform: guest.platform.clone(), physical };
        Session::start(listener, Arc::new(system), thread_of(&guest.processor))
    }

    fn start(
        listener: Listener,
        debuggee: Arc<dyn Debuggee>,
        first: i32,
    ) -> anyhow::Result<Session> {
        let connection = listener.accept()?;
        let (events, inbox) = mpsc::channel();
        let hub = Arc::new(Hub::new(debuggee, events.clone()));
        hub.enter(first);
        let server = server::start(connection, hub.clone(), events, inbox)?;
        Ok(Session { hub, server })
    }

    /// What the guest's threads run under.
    pub fn hub(&self) -> Debugger {
        Debugger(self.hub.clone())
    }

    /// Tells the debugger how the guest ended.
    pub fn finish(self, outcome: Outcome) {
        if self.hub.is_foreign() {
            return;
        }
        self.hub.end(outcome);
        let _ = self.server.join();
    }
}

/// A way for threads into the session.
#[derive(Clone, Debug)]
pub struct Debugger(Arc<Hub>);

impl Debugger {
    /// The driver loop of a debugged thread.
    pub fn run(&self, engine: &mut dyn Engine, linux: &mut Linux, vcpu: &mut Vcpu) -> Outcome {
        let hub = &*self.0;
        if hub.is_foreign() {
            return run_foreign(hub, engine, linux, vcpu);
        }
        let tid = linux.thread_id();
        hub.enter(tid);
        let outcome = run_debugged(hub, tid, engine, linux, vcpu);
        if !hub.is_foreign() {
            hub.leave(tid);
        }
        outcome
    }

    /// The driver loop of a debugged processor.
    pub fn run_processor(
        &self,
        engine: &mut dyn Engine,
        processor: &mut Processor,
        vcpu: &mut Vcpu,
    ) -> Outcome {
        let (hub, tid) = (&*self.0, thread_of(processor));
        hub.enter(tid);
        let outcome = run_debugged(hub, tid, engine, processor, vcpu);
        hub.leave(tid);
        outcome
    }
}

/// What a debugger calls a processor: threads are counted from 1.
fn thread_of(processor: &Processor) -> i32 {
    processor.whami() as i32 + 1
}

fn is_bpt(exit: Exit) -> bool {
    matches!(exit, Exit::CallPal(code) if Osf::from_code(code) == Some(Osf::Bpt))
}

fn run_debugged(
    hub: &Hub,
    tid: i32,
    engine: &mut dyn Engine,
    guest: &mut dyn Environment,
    vcpu: &mut Vcpu,
) -> Outcome {
    let mut stepper = Interpreter::new(Dispatch::Match);
    let system = vcpu.mem.system().is_some();
    let (mut changes, mut put_off) = (hub.changes(), false);
    loop {
        let go = hub.gate(vcpu, tid);
        // Of a process the map of its memory tells.
        if system && changes != hub.changes() {
            changes = hub.changes();
            engine.invalidate(0, u64::MAX);
            stepper.invalidate(0, u64::MAX);
        }
        if put_off && go != Go::Step {
            put_off = false;
            vcpu.cpu.poll.fetch_or(1, Ordering::Release);
        }
        // Somebody looks at the registers whenever something happens.
        vcpu.precise = true;
        let exit = match go {
            Go::Step => stepper.run(vcpu, Limit::Count(1)),
            _ => engine.run(vcpu, Limit::None),
        };
        if exit == Exit::Limit {
            hub.stop(vcpu, tid, Why::Step);
            continue;
        }
        if system && go == Go::Step && exit == Exit::Poll {
            // Interrupts wait: one that steps wants to see what comes next here.
            vcpu.cpu.take_poll();
            put_off = true;
            continue;
        }
        let at = vcpu.cpu.pc.wrapping_sub(4);
        if is_bpt(exit) {
            if hub.hidden(at).is_some() {
                vcpu.cpu.pc = at;
                hub.stop(vcpu, tid, Why::Breakpoint);
                continue;
            }
            if vcpu.mem.fetch_u32(at) != Ok(hub::BPT) {
                // Taken away meanwhile.
                vcpu.cpu.pc = at;
                continue;
            }
        }
        let parks = hub.parks(tid);
        if let Flow::Stop(outcome) = handle(engine, &mut stepper, guest, vcpu, exit) {
            return outcome;
        }
        if hub.is_foreign() {
            return run_foreign(hub, engine, guest, vcpu);
        }
        // A call is part of the step; a poll comes between, and after a signal the debugger has said
        // anew what is to be done.
        if go == Go::Step && exit != Exit::Poll && parks == hub.parks(tid) {
            hub.stop(vcpu, tid, Why::Step);
        }
    }
}

fn handle(
    engine: &mut dyn Engine,
    stepper: &mut Interpreter,
    guest: &mut dyn Environment,
    vcpu: &mut Vcpu,
    exit: Exit,
) -> Flow {
    let flow = guest.handle(vcpu, exit);
    if let Some((start, end)) = guest.take_code_change() {
        engine.invalidate(start, end);
        stepper.invalidate(start, end);
    }
    flow
}

/// A process that the guest forked: nobody debugs it, but breakpoints may stand in its memory, or in
/// its parent's, which it shares after vfork. What they hide is executed.
fn run_foreign(
    hub: &Hub,
    engine: &mut dyn Engine,
    guest: &mut dyn Environment,
    vcpu: &mut Vcpu,
) -> Outcome {
    let mut stepper = Interpreter::new(Dispatch::Match);
    loop {
        let mut exit = engine.run(vcpu, Limit::None);
        let at = vcpu.cpu.pc.wrapping_sub(4);
        if is_bpt(exit)
            && let Some(insn) = hub.hidden(at).and_then(decode)
        {
            vcpu.cpu.pc = at;
            match interp::step(vcpu, &insn) {
                Ok(()) => continue,
                Err(event) => exit = event,
            }
        }
        if let Flow::Stop(outcome) = handle(engine, &mut stepper, guest, vcpu, exit) {
            return outcome;
        }
    }
}
