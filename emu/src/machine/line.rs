//! What host threads say to each other: the clock and processors to a processor that runs or sleeps.
//!
//! Without counting, a machine has a host thread for each processor and one for the clock. Each
//! processor has a bell that leads it out of compiled code, and sleeps here when it waits for an
//! interrupt.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::engine::Outcome;
use crate::mem::Doorbell;

/// Time between two ticks of the interval clock.
pub(super) const TICK: Duration = Duration::from_millis(10);

/// Where a processor starts that another one has asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub pc: u64,
    pub argument: u64,
}

/// What the mutex protects.
#[derive(Debug, Default)]
struct State {
    entries: Vec<Option<Entry>>,
    started: u64,
    ended: Option<Outcome>,
}

/// The lines to all processors.
#[derive(Debug)]
pub(super) struct Lines {
    bells: Vec<Doorbell>,
    /// Processors that a tick has come for.
    ticks: AtomicU64,
    ended: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Lines {
    pub fn new(count: usize) -> Self {
        Lines {
            bells: (0..count).map(|_| Doorbell::default()).collect(),
            ticks: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            state: Mutex::new(State { entries: vec![None; count], ..State::default() }),
            changed: Condvar::new(),
        }
    }

    pub fn count(&self) -> usize {
        self.bells.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What it protects is valid at every moment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn bell(&self, whom: u64) -> &Doorbell {
        &self.bells[whom as usize % self.bells.len()]
    }

    /// Has a processor look for what is pending, wherever it is.
    pub fn call(&self, whom: u64) {
        if let Some(bell) = self.bells.get(whom as usize) {
            bell.ring();
            let _state = self.state();
            self.changed.notify_all();
        }
    }

    fn call_all(&self) {
        self.bells.iter().for_each(Doorbell::ring);
        let _state = self.state();
        self.changed.notify_all();
    }

    /// Whether [`take_tick`](Self::take_tick) has a tick to take.
    pub fn has_tick(&self, whom: u64) -> bool {
        self.ticks.load(Ordering::Relaxed) >> (whom & 63) & 1 != 0
    }

    /// A tick has come since the last call.
    pub fn take_tick(&self, whom: u64) -> bool {
        let bit = 1 << (whom & 63);
        self.ticks.load(Ordering::Relaxed) & bit != 0
            && self.ticks.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// Ticks until the machine has ended: what the clock's thread does.
    pub fn run_clock(&self) {
        let mut state = self.state();
        while state.ended.is_none() {
            let waited = self.changed.wait_timeout_while(state, TICK, |s| s.ended.is_none());
            drop(waited.unwrap_or_else(PoisonError::into_inner).0);
            self.ticks.store(u64::MAX, Ordering::Release);
            self.call_all();
            state = self.state();
        }
    }

    /// Sleeps until something may be pending; `awake` says that something is.
    pub fn sleep(&self, whom: u64, awake: impl Fn() -> bool) {
        let bit = 1 << (whom & 63);
        let mut state = self.state();
        while state.ended.is_none() && self.ticks.load(Ordering::Acquire) & bit == 0 && !awake() {
            let waited = self.changed.wait_timeout(state, 4 * TICK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The machine ends, with what the first says.
    pub fn end(&self, outcome: Outcome) {
        self.state().ended.get_or_insert(outcome);
        self.ended.store(true, Ordering::Release);
        self.call_all();
    }

    /// How the machine has ended.
    pub fn ended(&self) -> Option<Outcome> {
        if self.ended.load(Ordering::Acquire) { self.state().ended } else { None }
    }

    /// Asks for a processor to start; false if there is none that waits.
    pub fn start(&self, whom: u64, entry: Entry) -> bool {
        let mut state = self.state();
        let Some(slot) = state.entries.get_mut(whom as usize) else { return false };
        if whom == 0 || slot.is_some() {
            return false;
        }
        *slot = Some(entry);
        state.started += 1;
        self.changed.notify_all();
        true
    }

    /// Where a processor has been asked to start, if so.
    pub fn entry(&self, whom: u64) -> Option<Entry> {
        self.state().entries.get(whom as usize).copied().flatten()
    }

    /// Waits until a processor is asked to start; `None` if the machine ends before.
    pub fn wait_for_start(&self, whom: u64) -> Option<Entry> {
        let state = self.state();
        let waiting = |s: &mut State| s.ended.is_none() && s.entries[whom as usize].is_none();
        let state = self.changed.wait_while(state, waiting);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        if state.ended.is_some() { None } else { state.entries[whom as usize] }
    }
}
