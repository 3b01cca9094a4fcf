//! A process aside that has what this one gives up when it is confined: it waits for bytes in memory that
//! both share and does something with them.
//!
//! No descriptor leads to it, since a guest can close and use whatever descriptors there are; it is no child
//! of this process, since a guest can wait for those; and it has a session of its own.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The bytes are there.
const GIVEN: u32 = 1;
/// The work is done.
const DONE: u32 = 2;

/// How often the process aside looks whether there is anybody left to wait for.
const LOOK: Duration = Duration::from_secs(1);

/// The start of the shared memory; the bytes follow on the next page.
struct Head {
    state: AtomicU32,
    len: AtomicUsize,
}

const PAGE: usize = 4096;

/// The process aside.
#[derive(Debug)]
pub struct Aside {
    head: *mut Head,
    size: usize,
}

// SAFETY: what the pointer leads to is never unmapped and starts with atomics; the bytes behind are written
// by one call of `give`, before it sets the state.
unsafe impl Send for Aside {}
// SAFETY: as above.
unsafe impl Sync for Aside {}

impl Aside {
    /// Starts it. `work` is done there whenever something is given, at most `size` bytes. It ends soon after
    /// this process. Only for a process of one thread.
    pub fn start(size: usize, work: impl FnMut(&[u8])) -> io::Result<Aside> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: fresh memory at an address of the kernel's choice.
        let memory = unsafe { libc::mmap(ptr::null_mut(), PAGE + size, rights, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let aside = Aside { head: memory.cast(), size };
        let parent = std::process::id();
        // SAFETY: the caller's process has one thread, so its child may do what it likes.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: as above; the second child belongs to nobody who could wait for it.
                if unsafe { libc::fork() } == 0 {
                    aside.wait_and(parent, work);
                }
                // SAFETY: ends this process without anything that the first one has registered.
                unsafe { libc::_exit(0) }
            }
            child => {
                let mut status = 0;
                // SAFETY: the child made above, and a place for its status.
                while unsafe { libc::waitpid(child, &mut status, 0) } == -1
                    && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
                {
                }
                Ok(aside)
            }
        }
    }

    fn head(&self) -> &Head {
        // SAFETY: mapped in `start`, all zeros at first, which is a valid head.
        unsafe { &*self.head }
    }

    fn bytes(&self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.head.cast::<u8>().add(PAGE) }
    }

    /// The process aside.
    fn wait_and(&self, parent: u32, mut work: impl FnMut(&[u8])) {
        // SAFETY: plain calls without pointers. Standard output may be a pipe that somebody reads to its end.
        let parent = unsafe {
            libc::setsid();
            libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
            libc::syscall(libc::SYS_pidfd_open, parent, 0)
        };
        let state = &self.head().state;
        loop {
            let seen = state.load(Ordering::Acquire);
            if seen == GIVEN {
                let len = self.head().len.load(Ordering::Relaxed).min(self.size);
                // SAFETY: written before the state was set, and not changed before it is again.
                work(unsafe { std::slice::from_raw_parts(self.bytes(), len) });
                state.store(DONE, Ordering::Release);
                wake(state);
                continue;
            }
            let mut ended =
                libc::pollfd { fd: parent as libc::c_int, events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor to look at, without waiting.
            if parent < 0 || unsafe { libc::poll(&mut ended, 1, 0) } != 0 {
                return;
            }
            wait(state, seen, LOOK);
        }
    }

    /// Gives it the bytes and waits, for so long, until the work is done; says whether it is.
    pub fn give(&self, bytes: &[u8], patience: Duration) -> bool {
        let Head { state, len } = self.head();
        if bytes.len() > self.size || state.load(Ordering::Acquire) == GIVEN {
            return false;
        }
        // SAFETY: as large as it must be; the other side does not look before the state says so.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes(), bytes.len()) };
        len.store(bytes.len(), Ordering::Relaxed);
        state.store(GIVEN, Ordering::Release);
        wake(state);
        let end = Instant::now() + patience;
        while state.load(Ordering::Acquire) != DONE {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            wait(state, GIVEN, left.min(LOOK));
        }
        true
    }
}

/// Waits while the word is `value`, not for ever.
fn wait(word: &AtomicU32, value: u32, most: Duration) {
    let time = libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: most.subsec_nanos().into(),
    };
    // SAFETY: a word in memory that stays, and a time. Not private: two processes share the word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &time) };
}

fn wake(word: &AtomicU32) {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
