//! Sampling by a timer on a thread's CPU time, and which host code was made from which guest code: what
//! `axplab profile` is built on. Nothing here runs unless it has been switched on.

use std::cell::{Cell, UnsafeCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axp_emu::cpu::Vcpu;
use axp_emu::mem::{SystemMap, install_alt_stack};

/// Host code, kept for as long as the process lives.
#[derive(Clone, Debug)]
pub struct HostCode {
    /// The tier that made it, by the name of its engine.
    pub tier: &'static str,
    /// Guest address that it is entered for.
    pub guest: u64,
    /// Access mode that it runs in, on the privileged machine.
    pub mode: Option<u64>,
    /// Host address of its first byte.
    pub start: u64,
    /// The code itself.
    pub bytes: Box<[u8]>,
    /// Offset of the code of each guest instruction, by offset; the code of some comes in pieces.
    pub marks: Box<[(u32, u64)]>,
    /// Nanoseconds of the monotonic clock at which it was made.
    pub made: u64,
}

impl HostCode {
    /// The guest instruction at a host address inside.
    pub fn guest_pc(&self, host: u64) -> u64 {
        let offset = host.wrapping_sub(self.start) as u32;
        let i = self.marks.partition_point(|&(at, _)| at <= offset);
        self.marks.get(i.saturating_sub(1)).map_or(self.guest, |&(_, pc)| pc)
    }

    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

static ON: AtomicBool = AtomicBool::new(false);
static CODE: Mutex<BTreeMap<u64, Arc<HostCode>>> = Mutex::new(BTreeMap::new());

fn code_map() -> MutexGuard<'static, BTreeMap<u64, Arc<HostCode>>> {
    CODE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has engines say from now on what code they make.
pub fn keep_code() {
    ON.store(true, Ordering::Relaxed);
}

/// Called by an engine for code that it has placed.
pub(crate) fn note(
    tier: &'static str,
    space: u32,
    guest: u64,
    start: u64,
    bytes: &[u8],
    marks: impl FnOnce() -> Vec<(u32, u64)>,
) {
    if !ON.load(Ordering::Relaxed) {
        return;
    }
    let (bytes, marks, made) = (bytes.into(), marks().into(), now(libc::CLOCK_MONOTONIC));
    let mode = SystemMap::mode_of(space);
    let code = HostCode { tier, guest, mode, start, bytes, marks, made };
    let mut map = code_map();
    // What lay there before has been thrown away.
    let gone: Vec<u64> = map.range(start..code.end()).map(|(&at, _)| at).collect();
    for at in gone {
        map.remove(&at);
    }
    map.insert(start, Arc::new(code));
}

/// The code that a host address lies in.
pub fn find_code(host: u64) -> Option<Arc<HostCode>> {
    let map = code_map();
    let (_, code) = map.range(..=host).next_back()?;
    (host < code.end()).then(|| code.clone())
}

/// All code that is in place.
pub fn all_code() -> Vec<Arc<HostCode>> {
    code_map().values().cloned().collect()
}

/// What a thread was at when the timer expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// Executing guest code.
    #[default]
    Guest,
    /// Translating it.
    Translate,
    /// Carrying out a guest event.
    System,
}

/// One expiry of the timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tick {
    /// Host program counter.
    pub host_pc: u64,
    /// What the thread was at.
    pub phase: Phase,
    /// CPU time of the thread in nanoseconds.
    pub cpu: u64,
    /// Monotonic clock in nanoseconds.
    pub at: u64,
}

/// Ticks that wait to be looked at; more than one only while a system call runs long.
const TICKS: usize = 4096;

struct Ring {
    /// Written by the handler, which runs on the thread that reads.
    used: AtomicUsize,
    ticks: [UnsafeCell<Tick>; TICKS],
}

thread_local! {
    /// Constant initialisation and no destructor: safe to read in a signal handler.
    static RING: Cell<*const Ring> = const { Cell::new(ptr::null()) };
    static PHASE: Cell<Phase> = const { Cell::new(Phase::Guest) };
    /// The poll word of the processor that the thread runs.
    static POLL: Cell<*const AtomicU32> = const { Cell::new(ptr::null()) };
}

/// Takes the poll word away again, also when the caller's function panics.
struct Unwatch;

impl Drop for Unwatch {
    fn drop(&mut self) {
        POLL.set(ptr::null());
    }
}

/// Runs `f`; meanwhile a tick that falls into guest code has this processor, whose registers must stay
/// where they are, stop at its next poll, where its state is exact.
pub fn watched<R>(vcpu: &mut Vcpu, f: impl FnOnce(&mut Vcpu) -> R) -> R {
    POLL.set(&raw const vcpu.cpu.poll);
    let _unwatch = Unwatch;
    f(vcpu)
}

/// Says what the calling thread is at from now on, and what it was at.
#[inline]
pub fn set_phase(phase: Phase) -> Phase {
    PHASE.replace(phase)
}

/// The thread translates until this is dropped.
pub(crate) struct Translating(Phase);

impl Translating {
    pub(crate) fn begin() -> Self {
        Translating(set_phase(Phase::Translate))
    }
}

impl Drop for Translating {
    fn drop(&mut self) {
        set_phase(self.0);
    }
}

/// The timer's signal; guests that use this one cannot be profiled.
fn tick_signal() -> i32 {
    63
}

fn now(clock: libc::clockid_t) -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: a valid place for the result; zeros are a value. Async-signal-safe.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

extern "C" fn on_tick(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let ring = RING.get();
    if ring.is_null() {
        return;
    }
    // SAFETY: set while the thread's sampler lives, whose ring this is; `used` guards the slots, which
    // are read on this thread only, and not while this handler runs. The kernel's context is valid.
    unsafe {
        let phase = PHASE.get();
        let context = &*context.cast::<libc::ucontext_t>();
        let used = (*ring).used.load(Ordering::Relaxed);
        if used < TICKS {
            *(*ring).ticks[used].get() = Tick {
                host_pc: context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64,
                phase,
                cpu: now(libc::CLOCK_THREAD_CPUTIME_ID),
                at: now(libc::CLOCK_MONOTONIC),
            };
            (*ring).used.store(used + 1, Ordering::Release);
        }
        // The word is there as long as `watched` runs, on this thread.
        if let Some(poll) = POLL.get().as_ref().filter(|_| phase == Phase::Guest) {
            poll.fetch_or(1, Ordering::Release);
        }
    }
}

/// A timer on the calling thread.
pub struct Sampler {
    ring: Box<Ring>,
    timer: libc::timer_t,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").finish_non_exhaustive()
    }
}

impl Sampler {
    /// Has a tick noted after every `nanoseconds` of the calling thread's CPU time, as closely as the
    /// host's kernel times that.
    pub fn start(nanoseconds: u64) -> io::Result<Sampler> {
        // The handler's frame has no room on the stack of compiled code.
        install_alt_stack()?;
        // SAFETY: a handler that is async-signal-safe, valid structures, zeros where those are values.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = on_tick as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            if libc::sigaction(tick_signal(), &action, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = tick_signal();
            event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as i32;
            let mut timer = ptr::null_mut();
            if libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            let ring = Box::new(Ring {
                used: AtomicUsize::new(0),
                ticks: std::array::from_fn(|_| Default::default()),
            });
            let sampler = Sampler { ring, timer };
            RING.set(&raw const *sampler.ring);
            let step = libc::timespec {
                tv_sec: (nanoseconds / 1_000_000_000) as i64,
                tv_nsec: (nanoseconds % 1_000_000_000) as i64,
            };
            let often = libc::itimerspec { it_interval: step, it_value: step };
            if libc::timer_settime(timer, 0, &often, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(sampler)
        }
    }

    /// Whether there are ticks to look at.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.used.load(Ordering::Relaxed) == 0
    }

    /// Takes the ticks. Called on the sampler's own thread; one that falls in meanwhile is lost.
    pub fn take(&mut self, mut each: impl FnMut(Tick)) {
        let used = self.ring.used.load(Ordering::Acquire);
        for slot in &self.ring.ticks[..used] {
            // SAFETY: the handler writes behind `used` only, and it runs on this thread.
            each(unsafe { *slot.get() });
        }
        self.ring.used.store(0, Ordering::Release);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        RING.set(ptr::null());
        // SAFETY: the timer is this sampler's; a signal that is under way finds no ring.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Maps the first page of a jitdump file executable, by which `perf record` learns of the file. The
/// mapping stays.
pub fn show_to_perf(file: &File) -> io::Result<()> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let rights = ProtFlags::READ | ProtFlags::EXEC;
    // SAFETY: a fresh mapping that nobody reads.
    unsafe { mmap(ptr::null_mut(), 4096, rights, MapFlags::PRIVATE, file, 0) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_come_with_cpu_time_and_say_what_the_thread_was_at() {
        let mut sampler = Sampler::start(1_000_000).unwrap();
        set_phase(Phase::System);
        let start = now(libc::CLOCK_THREAD_CPUTIME_ID);
        while sampler.ring.used.load(Ordering::Relaxed) < 5 {
            std::hint::black_box(start);
        }
        set_phase(Phase::Guest);
        let mut ticks = Vec::new();
        sampler.take(|tick| ticks.push(tick));
        assert!(ticks.len() >= 5 && ticks.iter().all(|t| t.phase == Phase::System));
        assert!(ticks.windows(2).all(|w| w[0].cpu < w[1].cpu && w[0].at < w[1].at));
        assert!(sampler.is_empty());
    }

    #[test]
    fn new_code_replaces_what_lay_there() {
        keep_code();
        let at = 0xffff_0000_0000;
        note("baseline", 0, 0x1000, at, &[0x90; 16], || vec![(0, 0x1000), (4, 0x1004)]);
        note("opt", 0, 0x2000, at + 16, &[0x90; 16], || vec![(8, 0x2008)]);
        let pc = |host| find_code(host).map(|code| code.guest_pc(host));
        assert_eq!(
            [pc(at), pc(at + 5), pc(at + 17), pc(at + 31)],
            [Some(0x1000), Some(0x1004), Some(0x2008), Some(0x2008)]
        );
        note("opt", 0, 0x3000, at, &[0x90; 20], || vec![(0, 0x3000)]);
        assert_eq!([pc(at + 5), pc(at + 19), pc(at + 20)], [Some(0x3000), Some(0x3000), None]);
    }
}
