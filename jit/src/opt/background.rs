//! The compiling thread: one for the process, shared by the engines of all its guest threads. It is
//! started by the first hot region and ends with the last engine.
//!
//! It touches neither guest memory nor host code that can be executed: a guest thread hands it a
//! [`Job`], and later places what comes back.

use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use axp_emu::cpu::Cpu;

use super::compile::{CompileError, Compiler, Job, Output};

/// Stack of the compiling thread; the host gives it memory as it is touched.
const STACK: usize = 8 << 20;

/// The way to the compiling thread.
#[derive(Debug)]
pub struct Service {
    orders: Sender<Order>,
}

/// A region to be compiled, and who wants it.
struct Order {
    job: Job,
    inbox: Arc<Inbox>,
}

/// A job that has been done.
#[derive(Debug)]
pub struct Done {
    /// What was to be compiled.
    pub job: Job,
    /// What became of it; `None` if another thread has had the same compiled meanwhile.
    pub result: Option<Result<Output, CompileError>>,
    /// How long that took.
    pub elapsed: Duration,
}

/// The host gave no thread.
#[derive(Debug, thiserror::Error)]
#[error("no compiling thread: {0}")]
pub struct NoThread(String);

/// Where one engine's regions arrive.
#[derive(Debug, Default)]
pub struct Inbox(Mutex<Arrived>);

#[derive(Debug)]
struct Arrived {
    done: Vec<Done>,
    /// Poll word of the processor that the engine runs just now, or null.
    poll: *const AtomicU32,
}

// SAFETY: `poll` is followed under the lock only, and its owner takes it back under the lock before the
// processor goes away.
unsafe impl Send for Arrived {}

impl Default for Arrived {
    fn default() -> Self {
        Arrived { done: Vec::new(), poll: ptr::null() }
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the processor with this poll word stop compiled code when something arrives; `None` ends
    /// that, which must be done before the processor goes away. What has arrived already is told too.
    pub fn listen(&self, poll: Option<&AtomicU32>) {
        let mut arrived = self.lock();
        arrived.poll = poll.map_or(ptr::null(), ptr::from_ref);
        if let Some(poll) = poll.filter(|_| !arrived.done.is_empty()) {
            poll.fetch_or(Cpu::POLL_ENGINE, Ordering::Release);
        }
    }

    /// Takes what has arrived.
    pub fn take(&self) -> Vec<Done> {
        std::mem::take(&mut self.lock().done)
    }

    fn put(&self, done: Done) {
        let mut arrived = self.lock();
        arrived.done.push(done);
        // SAFETY: see `Arrived`.
        if let Some(poll) = unsafe { arrived.poll.as_ref() } {
            poll.fetch_or(Cpu::POLL_ENGINE, Ordering::Release);
        }
    }
}

/// The service of this process, if an engine has it. A forked child has none: it forgets its parent's,
/// whose lock may have been held when it was made. Each is leaked, one per generation of processes.
static CURRENT: AtomicPtr<Mutex<Weak<Service>>> = AtomicPtr::new(ptr::null_mut());
/// The compiling thread is doing its first job.
static WARMING: AtomicBool = AtomicBool::new(false);

/// Jobs that were ordered and are not done.
static UNDONE: AtomicUsize = AtomicUsize::new(0);

/// Waits until the compiling thread has done what it was asked for, but no longer than `most`.
pub fn wait_until_done(most: Duration) {
    let start = Instant::now();
    while UNDONE.load(Ordering::Acquire) != 0 && start.elapsed() < most {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Before a fork: what the compiler sets up once in a process must not be left half done in the child,
/// which has no thread that would finish it.
extern "C" fn before_fork() {
    while WARMING.load(Ordering::Acquire) {
        thread::sleep(Duration::from_micros(100));
    }
}

extern "C" fn in_child() {
    CURRENT.store(ptr::null_mut(), Ordering::Relaxed);
    UNDONE.store(0, Ordering::Relaxed);
}

impl Service {
    /// The service of this process; starts its thread if no engine has it yet.
    pub fn get() -> Result<Arc<Service>, NoThread> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handlers touch atomics and sleep.
            unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_child)) };
        });
        let mut current = CURRENT.load(Ordering::Acquire);
        if current.is_null() {
            let fresh = Box::into_raw(Box::default());
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            current = match CURRENT.compare_exchange(current, fresh, success, failure) {
                Ok(_) => fresh,
                Err(other) => other,
            };
        }
        // SAFETY: points to a box that is never freed.
        let current = unsafe { &*current };
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = current.upgrade() {
            return Ok(service);
        }
        let (orders, received) = channel();
        start(received)?;
        let service = Arc::new(Service { orders });
        *current = Arc::downgrade(&service);
        Ok(service)
    }

    /// Has a job done; what comes of it arrives in `inbox`.
    pub fn order(&self, job: Job, inbox: &Arc<Inbox>) {
        UNDONE.fetch_add(1, Ordering::Relaxed);
        // The thread ends after all senders only.
        let _ = self.orders.send(Order { job, inbox: inbox.clone() });
    }
}

/// Starts the thread with all signals blocked: they are the guest threads' to take.
fn start(orders: Receiver<Order>) -> Result<(), NoThread> {
    let mut old = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are written before they are read; the library keeps its own signals open.
    let old = unsafe {
        let mut all = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
        old.assume_init()
    };
    let name = "axplab-compile".to_owned();
    let started = thread::Builder::new().name(name).stack_size(STACK).spawn(|| serve(orders));
    // SAFETY: what was in force before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, ptr::null_mut()) };
    started.map(drop).map_err(|error| NoThread(error.to_string()))
}

/// A job that is counted as undone until this goes.
struct Undone;

impl Drop for Undone {
    fn drop(&mut self) {
        UNDONE.fetch_sub(1, Ordering::Release);
    }
}

fn serve(orders: Receiver<Order>) {
    let mut compiler = None;
    for Order { job, inbox } in orders {
        // Also where it leaves early.
        let _done = Undone;
        if Arc::strong_count(&inbox) == 1 {
            continue; // Its engine has ended.
        }
        if job.is_there() {
            inbox.put(Done { job, result: None, elapsed: Duration::ZERO });
            continue;
        }
        let start = Instant::now();
        let result = match &mut compiler {
            Some(compiler) => guarded(compiler, &job),
            none => {
                WARMING.store(true, Ordering::Release);
                let result = Compiler::new().and_then(|fresh| guarded(none.insert(fresh), &job));
                WARMING.store(false, Ordering::Release);
                result
            }
        };
        if matches!(result, Err(CompileError::Panic)) {
            compiler = None;
        }
        if let Ok(output) = &result {
            job.share(output);
        }
        inbox.put(Done { job, result: Some(result), elapsed: start.elapsed() });
    }
}

/// Compiles; a fault of the compiler costs the region, not the guest.
fn guarded(compiler: &mut Compiler, job: &Job) -> Result<Output, CompileError> {
    catch_unwind(AssertUnwindSafe(|| compiler.compile(job))).unwrap_or(Err(CompileError::Panic))
}
