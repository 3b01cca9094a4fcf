//! The translation buffer: direct-mapped tables that interpreter and compiled code probe inline.
//!
//! A *bank* holds the translations of one access mode in one address space; the banks of the four
//! modes lie behind each other, so that PROBE reaches those of outer modes from its own. A *slot* is
//! four banks and belongs to an address space number and page table; changing the address space or
//! the mode is changing a pointer. Entries are atomics only because the memory is shared with
//! compiled code: one processor uses a translation buffer.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::page::{Access, PAGE_SIZE};

/// Entries of a bank.
pub const TB_ENTRIES: usize = 1024;
/// log2 of the bytes of an entry.
pub const TB_ENTRY_SHIFT: u32 = 5;
/// Bytes of a bank.
pub const TB_BANK: u64 = (TB_ENTRIES as u64) << TB_ENTRY_SHIFT;
/// Offset of the tag for loads in an entry.
pub const TB_LOAD: i32 = 0;
/// Offset of the tag for stores.
pub const TB_STORE: i32 = 8;
/// Offset of what, added to a guest address, gives the host's.
pub const TB_ADDEND: i32 = 24;

/// No address with its low bits cut has this value.
const NO_TAG: u64 = u64::MAX;

/// One page. A tag is the page's address where the access is allowed, else [`NO_TAG`].
#[repr(C)]
pub(super) struct Entry {
    load: AtomicU64,
    store: AtomicU64,
    fetch: AtomicU64,
    addend: AtomicU64,
}

impl Entry {
    const fn new() -> Self {
        Entry {
            load: AtomicU64::new(NO_TAG),
            store: AtomicU64::new(NO_TAG),
            fetch: AtomicU64::new(NO_TAG),
            addend: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    fn tag(&self, access: Access) -> &AtomicU64 {
        match access {
            Access::Load => &self.load,
            Access::Store => &self.store,
            Access::Fetch => &self.fetch,
        }
    }

    fn clear(&self) {
        for tag in [&self.load, &self.store, &self.fetch] {
            tag.store(NO_TAG, Relaxed);
        }
    }
}

/// The translations of one mode.
#[repr(C, align(64))]
pub(super) struct Bank([Entry; TB_ENTRIES]);

impl Bank {
    /// Banks with nothing in them, on the heap from the start.
    pub(super) fn many(count: usize) -> Box<[Bank]> {
        (0..count).map(|_| Bank([const { Entry::new() }; TB_ENTRIES])).collect()
    }

    #[inline(always)]
    fn entry(&self, va: u64) -> &Entry {
        &self.0[(va / PAGE_SIZE) as usize % TB_ENTRIES]
    }

    /// Host address of an aligned datum of `size` bytes, if its translation is there.
    #[inline(always)]
    pub(super) fn host(&self, va: u64, size: u64, access: Access) -> Option<u64> {
        let entry = self.entry(va);
        let page = va & (!(PAGE_SIZE - 1) | (size - 1));
        (entry.tag(access).load(Relaxed) == page)
            .then(|| va.wrapping_add(entry.addend.load(Relaxed)))
    }

    /// Enters what a page allows. The right to fetch stays if the entry leads to the same place.
    pub(super) fn fill(&self, va: u64, host_page: u64, rights: [bool; 3]) {
        let entry = self.entry(va);
        let page = va & !(PAGE_SIZE - 1);
        let addend = host_page.wrapping_sub(page);
        let keep = entry.addend.swap(addend, Relaxed) == addend;
        let tag = |right: bool| if right { page } else { NO_TAG };
        entry.load.store(tag(rights[0]), Relaxed);
        entry.store.store(tag(rights[1]), Relaxed);
        if rights[2] || !(keep && entry.fetch.load(Relaxed) == page) {
            entry.fetch.store(tag(rights[2]), Relaxed);
        }
    }

    /// Forgets the page of `va`.
    pub(super) fn drop_page(&self, va: u64) {
        self.entry(va).clear();
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        self.0.iter().for_each(Entry::clear);
    }
}
