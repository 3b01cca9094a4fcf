//! Which pages the guest may execute: one bit a page, read without a lock by every fetch.
//!
//! Host pages are never executable, so this permission exists only here.

use super::page::{PAGE_SIZE, WINDOW_SIZE};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = (WINDOW_SIZE / PAGE_SIZE / 64) as usize;

/// The bits of the whole window: 64 MB of address space, of which only touched pages cost memory.
pub(super) struct ExecutableMap {
    words: *mut AtomicU64,
}

// SAFETY: the words are atomics in a mapping that lives as long as the map.
unsafe impl Send for ExecutableMap {}
// SAFETY: as above.
unsafe impl Sync for ExecutableMap {}

impl ExecutableMap {
    pub(super) fn new() -> Result<Self, Errno> {
        // SAFETY: a fresh mapping; zeros are valid atomics.
        let words = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                WORDS * size_of::<AtomicU64>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        Ok(ExecutableMap { words: words.cast() })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `WORDS` atomics until `drop`.
        unsafe { std::slice::from_raw_parts(self.words, WORDS) }
    }

    /// Whether the page of `va` is executable; `false` outside the window.
    #[inline]
    pub(super) fn contains(&self, va: u64) -> bool {
        let page = va / PAGE_SIZE;
        let word = self.words().get((page / 64) as usize);
        word.is_some_and(|w| w.load(Ordering::Acquire) >> (page % 64) & 1 != 0)
    }

    /// Sets or clears the pages of `[start, end)`, which must lie in the window.
    pub(super) fn set(&self, start: u64, end: u64, executable: bool) {
        let mut page = start / PAGE_SIZE;
        let end = end / PAGE_SIZE;
        while page < end {
            let bit = page % 64;
            let count = (64 - bit).min(end - page);
            let mask = (u64::MAX >> (64 - count)) << bit;
            if let Some(word) = self.words().get((page / 64) as usize) {
                if executable {
                    word.fetch_or(mask, Ordering::AcqRel);
                } else {
                    word.fetch_and(!mask, Ordering::AcqRel);
                }
            }
            page += count;
        }
    }
}

impl Drop for ExecutableMap {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        let _ = unsafe { munmap(self.words.cast(), WORDS * size_of::<AtomicU64>()) };
    }
}
