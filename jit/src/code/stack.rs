//! The stack that compiled code runs on: guest calls are host calls there, as deep as they nest.
//!
//! The dispatcher's thread may have a small stack (a guest thread's, a vfork child's borrowed one)
//! or one whose bounds nobody knows; this one is the engine's own.

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::ArenaError;

/// Address space of one stack; the host gives it memory as it is touched.
const SIZES: [usize; 3] = [256 << 20, 16 << 20, 1 << 20];
/// Below the limit there is room for helpers of the runtime.
const RESERVE: u64 = 256 << 10;
/// Ends a run over the reserve with a fault instead of somebody's data.
const GUARD: usize = 64 << 10;

/// A mapping with a guard area at its lower end.
#[derive(Debug)]
pub struct Stack {
    base: *mut u8,
    size: usize,
}

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for Stack {}

impl Stack {
    /// The largest stack that the host grants.
    pub fn new() -> Result<Self, ArenaError> {
        let mut refusal = Errno::NOMEM;
        for size in SIZES {
            match Self::with_size(size) {
                Ok(stack) => return Ok(stack),
                Err(error) => refusal = error,
            }
        }
        Err(ArenaError::Host(refusal.into()))
    }

    fn with_size(size: usize) -> Result<Self, Errno> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), size, rights, flags) }?;
        let stack = Stack { base: base.cast(), size };
        // SAFETY: the lowest part of the mapping just made, which nothing uses.
        unsafe { mprotect(base, GUARD, MprotectFlags::empty()) }?;
        Ok(stack)
    }

    /// Where it begins, a multiple of 64. A little remains above, since the word at RSP is a
    /// frame's own: fences are made on it.
    pub fn top(&self) -> u64 {
        self.base as u64 + self.size as u64 - 64
    }

    /// Lowest address at which compiled code may still call.
    pub fn limit(&self) -> u64 {
        self.base as u64 + GUARD as u64 + RESERVE
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped in `with_size`; no code of a dropped engine runs.
        unsafe {
            let _ = munmap(self.base.cast(), self.size);
        }
    }
}
