//! Where the threads of a debugged guest and the debugger's server meet: who runs, who is parked with
//! which registers, and where breakpoints stand.
//!
//! All-stop: a thread that has something to say asks for a halt, sends an [`Event`] to the server, and
//! parks; the others park when they come by. While all are parked the server reads and changes what
//! they have published, and lets them go.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axp_emu::cpu::Vcpu;
use axp_emu::engine::Outcome;
use axp_emu::mem::{MapError, MemFault, PAGE_SIZE, SystemMap};

use super::regs::AlphaRegs;
use super::target::Debuggee;

/// CALL_PAL BPT, the word that stands at a breakpoint.
pub const BPT: u32 = 0x0000_0080;

/// What the server waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A byte from the debugger.
    Byte(u8),
    /// The debugger is gone.
    Closed,
    /// A thread stopped.
    Stopped(i32, Why),
    /// The guest has ended.
    Ended(Outcome),
}

/// Why a thread stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// At a breakpoint of the debugger's.
    Breakpoint,
    /// After one instruction.
    Step,
    /// Before this signal is delivered.
    Signal(i32),
}

/// How a thread goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Go {
    /// Until something happens.
    Run,
    /// For one instruction.
    Step,
    /// Not at all.
    Stay,
}

/// What a breakpoint hides.
#[derive(Clone, Copy, Debug)]
struct Hidden {
    word: u32,
    /// Where it lies, for the debuggee.
    place: u64,
}

#[derive(Debug)]
struct Thread {
    /// Registers while it is parked.
    regs: Option<AlphaRegs>,
    /// By what page table its addresses are translated, if any.
    table: u64,
    go: Go,
    /// Signal to deliver instead of the one it stopped at.
    signal: Option<i32>,
    /// How often it has been parked.
    parks: u64,
}

#[derive(Debug)]
struct State {
    halt: bool,
    /// Nobody debugs any more.
    detached: bool,
    threads: BTreeMap<i32, Thread>,
}

/// See the module's description.
pub struct Hub {
    state: Mutex<State>,
    changed: Condvar,
    /// By address.
    breakpoints: Mutex<BTreeMap<u64, Hidden>>,
    /// How often memory was changed.
    changes: AtomicU64,
    /// The process that is debugged, not one that it forks.
    pid: u32,
    debuggee: Arc<dyn Debuggee>,
    events: Sender<Event>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("pid", &self.pid).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// A hub for what is debugged, halted.
    pub fn new(debuggee: Arc<dyn Debuggee>, events: Sender<Event>) -> Self {
        Hub {
            state: Mutex::new(State { halt: true, detached: false, threads: BTreeMap::new() }),
            changed: Condvar::new(),
            breakpoints: Mutex::default(),
            changes: AtomicU64::new(0),
            pid: std::process::id(),
            debuggee,
            events,
        }
    }

    /// What is under the debugger.
    pub fn debuggee(&self) -> &dyn Debuggee {
        &*self.debuggee
    }

    /// How often memory was changed so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether the caller runs in a process that the guest has forked off.
    pub fn is_foreign(&self) -> bool {
        std::process::id() != self.pid
    }

    // What guest threads call.

    /// A thread begins.
    pub fn enter(&self, tid: i32) {
        let new = Thread { regs: None, table: 0, go: Go::Run, signal: None, parks: 0 };
        lock(&self.state).threads.entry(tid).or_insert(new);
    }

    /// A thread is over.
    pub fn leave(&self, tid: i32) {
        lock(&self.state).threads.remove(&tid);
        self.changed.notify_all();
    }

    /// The guest is over.
    pub fn end(&self, outcome: Outcome) {
        let _ = self.events.send(Event::Ended(outcome));
    }

    /// Parks while there is a halt; how to go on.
    pub fn gate(&self, vcpu: &mut Vcpu, tid: i32) -> Go {
        let mut state = lock(&self.state);
        let mut parked = false;
        loop {
            if state.detached {
                break;
            }
            let halt = state.halt;
            let Some(thread) = state.threads.get_mut(&tid) else { return Go::Run };
            if !halt && thread.go != Go::Stay {
                break;
            }
            if !parked {
                parked = true;
                thread.parks += 1;
                // What `stop` has published may have been changed by now.
                thread.regs.get_or_insert_with(|| AlphaRegs::of(&vcpu.cpu));
                thread.table = table(vcpu);
                self.changed.notify_all();
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let detached = state.detached;
        let Some(thread) = state.threads.get_mut(&tid) else { return Go::Run };
        if let Some(regs) = thread.regs.take() {
            regs.store(&mut vcpu.cpu);
        }
        if detached { Go::Run } else { thread.go }
    }

    /// Halts all threads, tells the server why, and parks the caller.
    pub fn stop(&self, vcpu: &mut Vcpu, tid: i32, why: Why) {
        {
            let mut state = lock(&self.state);
            if state.detached {
                return;
            }
            state.halt = true;
            // Published before the server hears of it.
            if let Some(thread) = state.threads.get_mut(&tid) {
                thread.parks += 1;
                thread.regs = Some(AlphaRegs::of(&vcpu.cpu));
                thread.table = table(vcpu);
            }
        }
        let _ = self.events.send(Event::Stopped(tid, why));
        self.gate(vcpu, tid);
    }

    /// Asks the debugger which signal is to be delivered.
    pub fn signal(&self, vcpu: &mut Vcpu, tid: i32, signal: i32) -> Option<i32> {
        if self.is_foreign() || lock(&self.state).detached {
            return Some(signal);
        }
        self.stop(vcpu, tid, Why::Signal(signal));
        let mut state = lock(&self.state);
        if state.detached {
            return Some(signal);
        }
        state.threads.get_mut(&tid)?.signal.take()
    }

    /// How often the thread has stood still for the debugger.
    pub fn parks(&self, tid: i32) -> u64 {
        lock(&self.state).threads.get(&tid).map_or(0, |thread| thread.parks)
    }

    /// The instruction word that a breakpoint at `pc` hides.
    pub fn hidden(&self, pc: u64) -> Option<u32> {
        lock(&self.breakpoints).get(&pc).map(|hidden| hidden.word)
    }

    // What the server calls.

    /// Has every thread parked, but one that cannot be called, such as the parent of a vfork child.
    pub fn halt(&self) {
        let mut state = lock(&self.state);
        state.halt = true;
        let patience = Instant::now() + Duration::from_secs(3);
        while Instant::now() < patience {
            let alive = self.debuggee.threads();
            if !state.threads.iter().any(|(tid, t)| t.regs.is_none() && alive.contains(tid)) {
                break;
            }
            self.debuggee.call();
            // Again after a while: a thread may have been on its way into a call that waits.
            let (next, _) = self
                .changed
                .wait_timeout(state, Duration::from_millis(20))
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
        self.debuggee.stand_still(true);
    }

    /// Lets threads go as `how` says of each.
    pub fn release(&self, how: impl Fn(i32) -> (Go, Option<i32>)) {
        let mut state = lock(&self.state);
        for (&tid, thread) in &mut state.threads {
            (thread.go, thread.signal) = how(tid);
        }
        state.halt = false;
        drop(state);
        self.debuggee.stand_still(false);
        self.changed.notify_all();
    }

    /// Leaves the guest to itself.
    pub fn detach(&self) {
        let all: Vec<u64> = lock(&self.breakpoints).keys().copied().collect();
        for at in all {
            let _ = self.remove_breakpoint(at);
        }
        let mut state = lock(&self.state);
        (state.detached, state.halt) = (true, false);
        drop(state);
        self.debuggee.stand_still(false);
        self.changed.notify_all();
    }

    /// Ends the guest as SIGKILL would.
    pub fn kill(&self) {
        self.debuggee.kill();
        self.detach();
    }

    /// The threads there are.
    pub fn threads(&self) -> Vec<i32> {
        let alive = self.debuggee.threads();
        let state = lock(&self.state);
        state.threads.keys().copied().filter(|tid| alive.contains(tid)).collect()
    }

    /// What a parked thread's registers are, to look at or change.
    pub fn with_regs<T>(&self, tid: i32, f: impl FnOnce(&mut AlphaRegs) -> T) -> Option<T> {
        lock(&self.state).threads.get_mut(&tid)?.regs.as_mut().map(f)
    }

    /// The page table of a thread, or of any other that is parked.
    fn table_of(&self, tid: Option<i32>) -> u64 {
        let state = lock(&self.state);
        let named = tid.and_then(|tid| state.threads.get(&tid));
        let parked = || state.threads.values().find(|thread| thread.regs.is_some());
        named.or_else(parked).map_or(0, |thread| thread.table)
    }

    /// Reads as much as there is from `at` on for a thread, without breakpoints.
    pub fn read(&self, tid: i32, at: u64, out: &mut [u8]) -> usize {
        let table = self.table_of(Some(tid));
        let mut done = 0;
        while done < out.len() {
            let from = at.wrapping_add(done as u64);
            let room = (PAGE_SIZE - from % PAGE_SIZE).min((out.len() - done) as u64) as usize;
            let part = &mut out[done..done + room];
            let place = self.debuggee.place(from, table);
            if !place.is_some_and(|place| self.debuggee.read(place, part)) {
                break;
            }
            done += room;
        }
        for (&bpt, hidden) in &*lock(&self.breakpoints) {
            for (i, byte) in hidden.word.to_le_bytes().into_iter().enumerate() {
                let offset = bpt.wrapping_add(i as u64).wrapping_sub(at);
                if offset < done as u64 {
                    out[offset as usize] = byte;
                }
            }
        }
        done
    }

    /// Writes below breakpoints, whatever the protection of the pages.
    pub fn write(&self, tid: i32, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let mut breakpoints = lock(&self.breakpoints);
        let mut bytes = bytes.to_vec();
        for (&bpt, hidden) in &mut *breakpoints {
            let mut word = hidden.word.to_le_bytes();
            for (i, byte) in word.iter_mut().enumerate() {
                let offset = bpt.wrapping_add(i as u64).wrapping_sub(at);
                if let Some(new) = bytes.get_mut(offset.min(usize::MAX as u64) as usize) {
                    *byte = std::mem::replace(new, BPT.to_le_bytes()[i]);
                }
            }
            hidden.word = u32::from_le_bytes(word);
        }
        let table = self.table_of(Some(tid));
        let mut done = 0;
        while done < bytes.len() {
            let from = at.wrapping_add(done as u64);
            let room = (PAGE_SIZE - from % PAGE_SIZE).min((bytes.len() - done) as u64) as usize;
            let place = self.debuggee.place(from, table).ok_or(WriteError::Nothing)?;
            self.force(place, &bytes[done..done + room])?;
            done += room;
        }
        Ok(())
    }

    /// Puts a breakpoint at `at`.
    pub fn set_breakpoint(&self, at: u64) -> Result<(), WriteError> {
        let place = self.debuggee.place(at, self.table_of(None)).ok_or(WriteError::Nothing)?;
        let mut breakpoints = lock(&self.breakpoints);
        if !at.is_multiple_of(4) || breakpoints.contains_key(&at) {
            return Ok(());
        }
        let mut word = [0; 4];
        if !self.debuggee.read(place, &mut word) {
            return Err(WriteError::Nothing);
        }
        self.force(place, &BPT.to_le_bytes())?;
        breakpoints.insert(at, Hidden { word: u32::from_le_bytes(word), place });
        Ok(())
    }

    /// Takes the breakpoint at `at` away; false if there is none.
    pub fn remove_breakpoint(&self, at: u64) -> Result<bool, WriteError> {
        let Some(hidden) = lock(&self.breakpoints).remove(&at) else { return Ok(false) };
        self.force(hidden.place, &hidden.word.to_le_bytes())?;
        Ok(true)
    }

    fn force(&self, place: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.debuggee.force(place, bytes)?;
        self.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

/// By what page table a processor translates now.
fn table(vcpu: &Vcpu) -> u64 {
    vcpu.mem.system().map_or(0, SystemMap::ptbr)
}

/// Why guest memory was not written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// No memory is there.
    Nothing,
    /// Nothing is mapped there.
    Fault(MemFault),
    /// The page's protection cannot be changed.
    Map(MapError),
}

impl From<MemFault> for WriteError {
    fn from(fault: MemFault) -> Self {
        WriteError::Fault(fault)
    }
}

impl From<MapError> for WriteError {
    fn from(error: MapError) -> Self {
        WriteError::Map(error)
    }
}
