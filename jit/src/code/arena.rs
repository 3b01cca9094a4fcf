//! Memory for host code, mapped twice: one alias is writable, the other executable.

use std::io;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{
    MapFlags, MprotectFlags, MremapFlags, ProtFlags, mmap_anonymous, mprotect, mremap, munmap,
};

/// Why code could not be placed.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// The host refused the memory.
    #[error("cannot map memory for translated code: {0}")]
    Host(#[from] io::Error),
    /// The arena has no room left.
    #[error("the code arena of {0} bytes is full")]
    Full(usize),
}

/// A bounded area of host code, filled from the front and emptied as a whole.
#[derive(Debug)]
pub struct Arena {
    write: *mut u8,
    exec: *mut u8,
    size: usize,
    used: usize,
    /// State of the random gaps between pieces of code; 0 for none.
    gaps: u64,
    /// [`FORKS`] when it was made.
    forks: u64,
}

/// How often this process is the child of a fork of a process that had arenas.
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that is another in each forked child.
pub fn forks() -> u64 {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler touches one atomic. Without room for it a forked child would share
        // code with its parent, which fork itself would fail to prevent: out of memory either way.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    FORKS.load(Ordering::Relaxed)
}

// SAFETY: the two mappings belong to the arena alone; `&mut self` guards the writable one.
unsafe impl Send for Arena {}

impl Arena {
    /// Reserves `size` bytes (a multiple of the host's page size).
    pub fn new(size: usize) -> Result<Self, ArenaError> {
        let forks = forks();
        // Shared memory without a descriptor: a guest that has used all of them, or has limited the
        // size of files, is translated all the same, and has none of ours to close.
        // SAFETY: fresh mappings at addresses of the kernel's choice. An old length of 0 gives a
        // second mapping of the same shared memory (mremap(2)).
        let (write, exec) = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            let write = mmap_anonymous(ptr::null_mut(), size, prot, MapFlags::SHARED)
                .map_err(io::Error::from)?;
            let exec = mremap(write, 0, size, MremapFlags::MAYMOVE).and_then(|exec| {
                let prot = MprotectFlags::READ | MprotectFlags::EXEC;
                mprotect(exec, size, prot).map(|()| exec).inspect_err(|_| {
                    let _ = munmap(exec, size);
                })
            });
            match exec {
                Ok(exec) => (write, exec),
                Err(error) => {
                    let _ = munmap(write, size);
                    return Err(io::Error::from(error).into());
                }
            }
        };
        Ok(Arena {
            write: write.cast(),
            exec: exec.cast(),
            size,
            used: 0,
            gaps: std::env::var("AXPLAB_JIT_LAYOUT").ok().and_then(|n| n.parse().ok()).unwrap_or(0),
            forks,
        })
    }

    /// After a fork, in the child: gives it memory of its own, since what it has is shared with its
    /// parent. True if so: then all code is gone. Without memory the arena has no room any more.
    pub fn renew_in_child(&mut self) -> bool {
        if self.forks == forks() {
            return false;
        }
        match Arena::new(self.size) {
            Ok(fresh) => *self = fresh,
            Err(error) => {
                tracing::error!("a forked child goes on without translation: {error}");
                (self.size, self.used) = (0, 0);
                self.forks = forks();
            }
        }
        true
    }

    /// Copies `code` in, so that its byte `anchor` lies at a multiple of `align`, and returns its
    /// executable address.
    pub fn place(
        &mut self,
        code: &[u8],
        align: usize,
        anchor: usize,
    ) -> Result<*const u8, ArenaError> {
        let start = (self.used + anchor).next_multiple_of(align) - anchor;
        let end = start + code.len();
        if end > self.size {
            return Err(ArenaError::Full(self.size));
        }
        // SAFETY: `start..end` lies inside the mapping and past everything handed out before, so
        // no thread executes it yet.
        unsafe {
            std::ptr::copy_nonoverlapping(code.as_ptr(), self.write.add(start), code.len());
        }
        self.used = (end + self.gap()).min(self.size);
        // SAFETY: `start` is within the mapping.
        Ok(unsafe { self.exec.add(start) })
    }

    /// Bytes to leave free, so that each run of a measurement places its code elsewhere: the luck of one
    /// layout is not to stand in for speed.
    fn gap(&mut self) -> usize {
        if self.gaps == 0 {
            return 0;
        }
        // Xorshift: it never becomes 0.
        self.gaps ^= self.gaps << 13;
        self.gaps ^= self.gaps >> 7;
        self.gaps ^= self.gaps << 17;
        // By cache lines, since the alignment within one is the compilers' own decision.
        (self.gaps >> 32) as usize % 16 * 64
    }

    /// Executable address of the next code placed at a multiple of `align`.
    pub fn next(&self, align: usize) -> u64 {
        self.exec as u64 + self.used.next_multiple_of(align) as u64
    }

    /// Overwrites the four bytes of code at executable address `at`, which need no alignment: an
    /// arena belongs to one guest thread, which is not executing code while it changes some.
    pub fn patch(&mut self, at: u64, value: i32) {
        let offset = (at - self.exec as u64) as usize;
        assert!(offset + 4 <= self.used, "only code that was placed is patched");
        // SAFETY: inside the mapping by the assertion above.
        unsafe { self.write.add(offset).cast::<i32>().write_unaligned(value) }
    }

    /// The writable alias of executable address `at`.
    pub fn writable(&self, at: *const u8) -> *mut u8 {
        let offset = at as usize - self.exec as usize;
        assert!(offset < self.used, "only code that was placed is changed");
        // SAFETY: inside the mapping by the assertion above.
        unsafe { self.write.add(offset) }
    }

    /// Forgets all code placed after the first `kept` bytes. Nobody may be executing it.
    pub fn truncate(&mut self, kept: usize) {
        self.used = self.used.min(kept);
    }

    /// Forgets all code. Nobody may be executing it.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Executable addresses that code may have.
    pub fn range(&self) -> std::ops::Range<u64> {
        let start = self.exec as u64;
        start..start + self.size as u64
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: both mappings were made in `new` and no code of a dropped engine runs.
        unsafe {
            let _ = munmap(self.write.cast(), self.size);
            let _ = munmap(self.exec.cast(), self.size);
        }
    }
}
