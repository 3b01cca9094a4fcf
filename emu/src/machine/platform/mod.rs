//! A Clipper-class system around OSF/1 processors, as far as Linux touches it: chipset registers,
//! ISA devices, interrupts, time, the console's callbacks, and the memory that a kernel starts from.
//!
//! [`Clipper`] is shared by all processors and by the host's threads. A processor asks it one thing
//! often - `Clipper::attention`, one load - and everything else under a lock. Time is the
//! host's, or, in counted runs, instructions: then nothing here asks the host for it, and interrupts
//! come at the same instruction each time.
//!
//! * `bus`: addresses to registers; `chips`: Cchip and Pchip
//! * `pic`, `pit`, `rtc`, `uart`: ISA devices
//! * `pci`: configuration space and the card in it; `windows`: its way to memory; `transport`: virtio over
//!   PCI; `disk`: virtio-blk; `net`: virtio-net and what is behind it
//! * `hwrpb`, `boot`: memory at the start; `secondary`: processors beside the first; `console`:
//!   callbacks of the kernel

mod boot;
mod bus;
mod chips;
mod console;
mod disk;
mod hwrpb;
mod net;
mod pci;
mod pic;
mod pit;
mod rtc;
mod secondary;
mod transport;
mod uart;
mod windows;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub use boot::{Guest, KernelError, Settings};
pub use disk::{Disk, DiskError};
pub use net::{NetError, Network};

use super::Console;
use crate::mem::{Doorbell, Physical};

/// Processors that the chipset can interrupt.
pub const MAX_PROCESSORS: usize = 4;
/// Clock ticks that are made up for after the host did not let a processor run.
const MAX_OWED: u64 = 1000;
/// The longest sleep of an idle processor without a look around.
const NAP: Duration = Duration::from_millis(500);
/// Ticks in a row after which a processor that has nothing to do but to take them takes several at once.
const IDLE: u32 = 32;
/// How late the first of those may be, in nanoseconds.
const LATE: u64 = 20_000_000;

/// Something that a processor is to be interrupted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupt {
    /// The interval clock.
    Clock,
    /// Another processor.
    Processor,
    /// A device, with its vector.
    Device(u64),
}

/// What the kernel wanted when it executed HALT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Power off, or stay halted.
    PowerOff,
    /// Start again.
    Restart,
    /// It did not say.
    Halt,
}

/// What a processor looks at without the lock, and how it is called.
#[derive(Debug, Default)]
struct Line {
    /// There may be an interrupt.
    attention: AtomicBool,
    interprocessor: AtomicBool,
    /// It is to wake up, though there be no interrupt.
    called: AtomicBool,
    bell: Doorbell,
}

/// Everything behind the lock.
#[derive(Debug, Default)]
struct State {
    pic: pic::Pics,
    pit: pit::Pit,
    rtc: rtc::Rtc,
    uart: uart::Uart,
    chips: chips::Chips,
    /// Interrupts of functions on PCI, a bit for each.
    wanted: u8,
    /// Clock ticks that each processor has not been interrupted for yet.
    owed: [u64; MAX_PROCESSORS],
    /// Sleeps in a row that each processor has been woken from by nothing but a tick.
    idle: [u32; MAX_PROCESSORS],
    /// Processors that execute or sleep, and those of them that take several ticks at once.
    running: usize,
    drowsy: usize,
    /// Accesses to addresses where nothing is.
    unknown: u64,
    first_unknown: Option<u64>,
}

impl State {
    /// Passes time on to the clock, and the lines of devices to the chipset.
    fn refresh(&mut self, now: u64) {
        let ticks = self.rtc.ticks(now);
        if ticks != 0 {
            self.owed.iter_mut().for_each(|owed| *owed = (*owed + ticks).min(MAX_OWED));
        }
        self.pic.set_line(uart::IRQ, self.uart.interrupts());
        self.chips.set_isa(self.pic.requests());
    }

    /// Sets the request lines of so many functions on PCI, some of which share one.
    fn route(&mut self, functions: usize) {
        let lines = |wanted: u8| {
            let functions = (0..functions).filter(|&i| wanted >> i & 1 != 0);
            functions.fold(0, |lines, i| lines | pci::request_lines(i))
        };
        let on = lines(self.wanted);
        self.chips.set_requests(lines(u8::MAX) & !on, false);
        self.chips.set_requests(on, true);
    }

    /// Whether there is something for a processor, at whatever level.
    fn pending(&self, processor: usize) -> bool {
        self.owed[processor] != 0 || self.chips.device(processor).is_some()
    }
}

/// The system around the processors.
#[derive(Debug)]
pub struct Clipper {
    lines: Vec<Line>,
    /// Its functions' locks are taken before that of `state`.
    pci: OnceLock<pci::Bus>,
    /// The network until its thread takes it, with its function; and its wire.
    network: Mutex<Option<(Network, usize)>>,
    wire: OnceLock<Arc<net::Wire>>,
    state: Mutex<State>,
    /// Told when there may be something to do for a thread that sleeps.
    changed: Condvar,
    /// The same for the clock's thread.
    clock: Condvar,
    output: Mutex<console::Output>,
    start: Instant,
    /// Nanoseconds for which time has stood still, and when it began to, or `u64::MAX`.
    stood: AtomicU64,
    still: AtomicU64,
    /// Instructions are time.
    counted: AtomicBool,
    count: AtomicU64,
    /// When the clock ticks next, in counted runs.
    deadline: AtomicU64,
    stop: AtomicBool,
    /// Status that the machine is to end with, once somebody outside wants it to.
    ended: AtomicI32,
}

/// Nobody wants the machine to end.
const RUNNING: i32 = -1;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these protect is valid at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clipper {
    /// A system with a console and so many processors.
    pub fn new(console: Console, processors: usize) -> Self {
        let lines = (0..processors.clamp(1, MAX_PROCESSORS)).map(|_| Line::default()).collect();
        Clipper {
            lines,
            pci: OnceLock::new(),
            network: Mutex::default(),
            wire: OnceLock::new(),
            state: Mutex::new(State { running: 1, ..State::default() }),
            changed: Condvar::new(),
            clock: Condvar::new(),
            output: Mutex::new(console::Output::new(console)),
            start: Instant::now(),
            stood: AtomicU64::new(0),
            still: AtomicU64::new(u64::MAX),
            counted: AtomicBool::new(false),
            count: AtomicU64::new(0),
            deadline: AtomicU64::new(u64::MAX),
            stop: AtomicBool::new(false),
            ended: AtomicI32::new(RUNNING),
        }
    }

    /// Places its registers in a machine's physical address space.
    pub fn attach(self: &Arc<Self>, physical: &mut Physical) {
        physical.place(bus::IO, bus::IO_SIZE, self.clone());
    }

    /// Puts devices on PCI, once.
    fn plug(&self, physical: &Physical, disks: Vec<Disk>, network: Option<Network>) {
        let windows = lock(&self.state).chips.windows();
        let dma = windows::Dma::new(physical.ram(), windows);
        let index = disks.len();
        let card =
            network.as_ref().map(|network| Box::new(network.card()) as Box<dyn transport::Kind>);
        if let Some(network) = network {
            let _ = self.wire.set(network.wire());
            *lock(&self.network) = Some((network, index));
        }
        let devices = disks.into_iter().map(|disk| Box::new(disk) as Box<dyn transport::Kind>);
        let devices = devices.chain(card);
        let devices = devices.map(|kind| transport::Transport::new(kind, dma.clone()));
        // A second call would find the card in place.
        let _ = self.pci.set(pci::Bus::new(devices.collect()));
    }

    /// Works with a function on PCI, and passes its interrupt on.
    fn with_function<T>(
        &self,
        index: usize,
        work: impl FnOnce(&mut pci::Function) -> T,
    ) -> Option<T> {
        let bus = self.pci.get()?;
        let result = bus.with(index, work, |level| {
            let mut state = lock(&self.state);
            let bit = 1 << index;
            if (state.wanted & bit != 0) != level {
                state.wanted ^= bit;
                state.route(bus.len());
                self.settle(&mut state);
            }
        });
        Some(result)
    }

    /// Number of processors, started or not.
    pub fn processors(&self) -> usize {
        self.lines.len()
    }

    /// A processor starts now: ticks from before are none of its.
    pub(super) fn forget_ticks(&self, processor: u64) {
        let mut state = lock(&self.state);
        state.refresh(self.now());
        state.owed[processor as usize % self.lines.len()] = 0;
        state.running += 1;
    }

    /// It executes no more.
    pub(super) fn leave(&self) {
        lock(&self.state).running -= 1;
    }

    fn line(&self, processor: u64) -> &Line {
        &self.lines[processor as usize % self.lines.len()]
    }

    /// Whether instructions are to be time.
    pub(super) fn count_time(&self, counted: bool) {
        self.counted.store(counted, Ordering::Relaxed);
        let mut state = lock(&self.state);
        state.rtc.set_real(!counted);
        self.settle(&mut state);
    }

    /// Nanoseconds since the start.
    fn now(&self) -> u64 {
        if self.counted.load(Ordering::Relaxed) {
            return self.count.load(Ordering::Relaxed);
        }
        match self.still.load(Ordering::Relaxed) {
            u64::MAX => self.elapsed().saturating_sub(self.stood.load(Ordering::Relaxed)),
            still => still,
        }
    }

    /// The same without regard to times that it stood still.
    fn elapsed(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Time stands still for the guest, or goes on, while a debugger looks at it.
    pub fn stand_still(&self, still: bool) {
        let _state = lock(&self.state);
        let since = self.still.load(Ordering::Relaxed);
        if still && since == u64::MAX {
            self.still.store(self.now(), Ordering::Relaxed);
        } else if !still && since != u64::MAX {
            self.stood.store(self.elapsed().saturating_sub(since), Ordering::Relaxed);
            self.still.store(u64::MAX, Ordering::Relaxed);
            self.changed.notify_all();
            self.clock.notify_all();
        }
    }

    /// Calls every processor out of compiled code and out of its sleep, for a debugger.
    pub fn call(&self) {
        let _state = lock(&self.state);
        for line in &self.lines {
            line.called.store(true, Ordering::Release);
            line.attention.store(true, Ordering::Release);
            line.bell.ring();
        }
        self.changed.notify_all();
    }

    /// So many instructions have been executed: an instruction is a nanosecond.
    pub(super) fn set_time(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
        if count >= self.deadline.load(Ordering::Relaxed) {
            self.lines.iter().for_each(|line| line.attention.store(true, Ordering::Relaxed));
        }
    }

    /// How to call a processor.
    pub(super) fn bell(&self, processor: u64) -> &Doorbell {
        &self.line(processor).bell
    }

    /// Whether there may be an interrupt for a processor.
    #[inline]
    pub(super) fn attention(&self, processor: u64) -> bool {
        self.line(processor).attention.load(Ordering::Acquire)
    }

    /// Takes the highest interrupt that `allowed` lets through.
    pub(super) fn accept(
        &self,
        processor: u64,
        allowed: impl Fn(Interrupt) -> bool,
    ) -> Option<Interrupt> {
        let line = self.line(processor);
        let index = processor as usize % self.lines.len();
        let mut state = lock(&self.state);
        state.refresh(self.now());
        let asked = line.interprocessor.load(Ordering::Acquire);
        let taken = if asked && allowed(Interrupt::Processor) {
            line.interprocessor.store(false, Ordering::Release);
            Some(Interrupt::Processor)
        } else if state.owed[index] != 0 && allowed(Interrupt::Clock) {
            state.owed[index] -= 1;
            Some(Interrupt::Clock)
        } else if state.chips.device(index).is_some() && allowed(Interrupt::Device(0)) {
            let vector = state.acknowledge(index);
            Some(Interrupt::Device(vector))
        } else {
            None
        };
        let more = state.pending(index)
            || self.ended().is_some()
            || line.interprocessor.load(Ordering::Acquire);
        line.attention.store(more, Ordering::Release);
        self.deadline.store(state.rtc.next(), Ordering::Relaxed);
        taken
    }

    /// After a change of devices: calls the processors that have an interrupt now.
    fn settle(&self, state: &mut State) {
        state.refresh(self.now());
        let next = state.rtc.next();
        let mut news = self.deadline.swap(next, Ordering::Relaxed) != next;
        let counted = self.counted.load(Ordering::Relaxed);
        for (i, line) in self.lines.iter().enumerate() {
            // Whoever takes ticks late is to hear of a device at once.
            news |= state.drowsy != 0 && state.chips.device(i).is_some();
            if state.pending(i) && !line.attention.swap(true, Ordering::AcqRel) {
                news = true;
                if !counted {
                    line.bell.ring();
                }
            }
        }
        if news {
            self.changed.notify_all();
            self.clock.notify_all();
        }
    }

    /// Asks for another processor's attention.
    pub(super) fn interrupt_processor(&self, whom: u64) {
        if let Some(line) = self.lines.get(whom as usize) {
            // Under the lock, where `accept` decides that nothing is left.
            let _state = lock(&self.state);
            line.interprocessor.store(true, Ordering::Release);
            line.attention.store(true, Ordering::Release);
            line.bell.ring();
            self.changed.notify_all();
        }
    }

    /// Sleeps until there is an interrupt for a processor. One that has long done nothing but to take
    /// ticks takes them late and several at once, so that an idle system lets the host alone.
    pub(super) fn sleep(&self, processor: u64) {
        let line = self.line(processor);
        let index = processor as usize % self.lines.len();
        let mut state = lock(&self.state);
        state.refresh(self.now());
        let drowsy = state.idle[index] >= IDLE && state.owed[index] == 0;
        state.drowsy += usize::from(drowsy);
        let due = state.rtc.next().saturating_add(if drowsy { LATE } else { 0 });
        loop {
            let now = self.now();
            state.refresh(now);
            let asked = line.interprocessor.load(Ordering::Acquire)
                || line.called.swap(false, Ordering::AcqRel);
            let wanted = asked || state.chips.device(index).is_some() || self.ended().is_some();
            if wanted || state.owed[index] != 0 && (now >= due || !drowsy) {
                line.attention.store(true, Ordering::Release);
                state.idle[index] = if wanted { 0 } else { state.idle[index].saturating_add(1) };
                break;
            }
            let until = if drowsy { due } else { state.rtc.next() };
            let until = Duration::from_nanos(until.saturating_sub(now)).min(NAP);
            let woken = self.changed.wait_timeout(state, until);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        if drowsy {
            state.drowsy -= 1;
            self.clock.notify_all();
        }
    }

    /// When something happens next by itself, in counted runs.
    pub(super) fn next_event(&self, processor: u64) -> Option<u64> {
        let index = processor as usize % self.lines.len();
        let mut state = lock(&self.state);
        state.refresh(self.now());
        let next = state.rtc.next();
        (!state.pending(index) && next != u64::MAX).then_some(next)
    }

    /// Calls the processors at each tick of the clock, until [`stop`](Self::stop): what a thread beside
    /// the processors does.
    pub(super) fn run_clock(&self) {
        let mut state = lock(&self.state);
        while !self.stop.load(Ordering::Acquire) {
            let now = self.now();
            // Processors that sleep see to their ticks themselves.
            let needed = state.drowsy < state.running;
            let next = if needed { state.rtc.next() } else { u64::MAX };
            if next <= now {
                self.settle(&mut state);
                continue;
            }
            let until = Duration::from_nanos(next.saturating_sub(now));
            let woken = self.clock.wait_timeout(state, until.min(NAP));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Moves the network's frames, if there is one, until [`stop`](Self::stop): what a thread beside the
    /// processors does.
    pub(super) fn run_network(&self) {
        let network = lock(&self.network).take();
        if let Some((network, index)) = network {
            network.run(self, index);
        }
    }

    /// Whether [`stop`](Self::stop) was called.
    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Ends [`run_clock`](Self::run_clock) and wakes whoever sleeps.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        if self.ended().is_none() {
            // Other processors end as this one did.
            self.end(0);
        }
        let _state = lock(&self.state);
        self.changed.notify_all();
        self.clock.notify_all();
        if let Some(wire) = self.wire.get() {
            wire.ring();
        }
    }

    /// Has the machine end with a status, at its next look around.
    pub fn end(&self, status: i32) {
        let _state = lock(&self.state);
        self.ended.store(status, Ordering::Release);
        for line in &self.lines {
            line.attention.store(true, Ordering::Release);
            line.bell.ring();
        }
        self.changed.notify_all();
    }

    /// The status of [`end`](Self::end), if it was called.
    pub(super) fn ended(&self) -> Option<i32> {
        let status = self.ended.load(Ordering::Acquire);
        (status != RUNNING).then_some(status)
    }

    /// Characters typed at the console.
    pub fn type_in(&self, bytes: &[u8]) {
        let mut state = lock(&self.state);
        state.uart.receive(bytes);
        self.settle(&mut state);
    }

    /// Accesses to addresses where nothing is, and the first such address.
    pub fn unknown_accesses(&self) -> (u64, Option<u64>) {
        let state = lock(&self.state);
        (state.unknown, state.first_unknown)
    }

    /// What the kernel that executed HALT on a processor wants (its slot in the HWRPB).
    pub(super) fn ending(&self, physical: &Physical, processor: u64) -> Ending {
        match hwrpb::halt_request(physical, processor) {
            2 | 3 => Ending::Restart,
            4 | 5 => Ending::PowerOff,
            _ => Ending::Halt,
        }
    }
}
