//! Guest memory: what engines load from, store to and fetch from, and personalities map.
//!
//! [`AddressSpace`] is the one type the rest of the emulator holds; guest threads share it in an
//! `Arc`. Today its backing is the window (`user`) of a Linux program: 4 TB of host address space,
//! reserved, in which the guest's mappings are host mappings. An access is a compare with the
//! window's end and one host instruction; the host's memory management does the rest, and
//! `host_fault` turns its faults into values.
//!
//! * `page`: sizes, protections, faults, errors. `raw`: the host instructions that may fault.
//! * `regions`: the map as a list. `executable`: the pages that may be fetched from.
//! * `physical`: RAM and devices of the privileged machine; `ram`: RAM as its devices see it.
//! * `user`: the reservation. `map`: mapping, unmapping, protecting. `remap`: moving and growing,
//!   advice. `copy`: ranges of bytes. `journal`: who touched what, for replays.

mod context;
mod copy;
mod doorbell;
mod executable;
mod host_fault;
mod journal;
mod map;
mod page;
mod physical;
mod quick;
mod ram;
mod raw;
mod regions;
mod remap;
mod system;
mod tb;
#[cfg(test)]
mod tests;
mod user;

pub use context::HostContext;
pub use doorbell::Doorbell;
pub use host_fault::{
    HostFault, Resolver, SentHook, install_alt_stack, register_fpe_resolver, register_resolver,
    set_sent_hook,
};
pub use journal::Touched;
pub use map::{Backing, Frozen, MapRequest, Place};
pub use page::{
    Access, FaultKind, GUARD_SIZE, MapError, MemFault, PAGE_SIZE, Prot, WINDOW_SIZE, WindowError,
};
pub use physical::{Device, Physical};
pub use ram::Ram;
pub use regions::{FileId, Region};
pub use remap::{Advice, RemapPlace};
pub use system::{ProbeStrategy, ProbeWay, SystemMap, Translation, pte};
pub use tb::{TB_ADDEND, TB_BANK, TB_ENTRIES, TB_ENTRY_SHIFT, TB_LOAD, TB_STORE};
pub use user::WindowKind;

use std::sync::atomic::{AtomicBool, Ordering};

use user::{Map, UserWindow};

/// The memory of one guest process.
///
/// Accesses take no lock and may race with each other and with changes of the map, as on hardware.
/// Changes exclude each other.
pub struct AddressSpace {
    /// Host address of guest address 0, kept here for the hot path.
    base: u64,
    /// End of the window; 0 where all memory is translated.
    limit: u64,
    window: UserWindow,
    /// Translated memory of a processor of the privileged machine.
    system: Option<Box<SystemMap>>,
    journal: journal::Journal,
    /// Nobody but one thread of this process writes it.
    alone: AtomicBool,
}

macro_rules! accessors {
    ($($load:ident $store:ident $ty:ty, $size:literal, $what:literal;)*) => {$(
        #[doc = concat!("Loads a ", $what, " at any alignment.")]
        #[inline(always)]
        #[allow(trivial_numeric_casts, reason = "one macro for all sizes")]
        pub fn $load(&self, va: u64) -> Result<$ty, MemFault> {
            if va < self.limit {
                // SAFETY: `va` starts in the window and its guard follows.
                if let Some(value) = unsafe { raw::$load(self.base + va) } {
                    return Ok(value);
                }
            }
            self.load_again(va, $size).map(|value| value as $ty)
        }

        #[doc = concat!("Stores a ", $what, " at any alignment; all of it or nothing.")]
        #[inline(always)]
        pub fn $store(&self, va: u64, value: $ty) -> Result<(), MemFault> {
            if va < self.limit {
                // SAFETY: as in the load.
                if unsafe { raw::$store(self.base + va, value) } {
                    return Ok(());
                }
            }
            self.store_again(va, $size, u64::from(value))
        }
    )*};
}

macro_rules! compare_exchanges {
    ($($name:ident $ty:ty, $size:literal, $what:literal;)*) => {$(
        #[doc = concat!("Stores `new` in a ", $what, " if it holds `old`; tells whether it did.")]
        ///
        /// Atomic and a full barrier either way: what STx_C needs (AARM 4.2.5). The address must
        /// be a multiple of the size, and the page writable even if nothing is stored.
        #[inline]
        pub fn $name(&self, va: u64, old: $ty, new: $ty) -> Result<bool, MemFault> {
            let fault = |why| MemFault { va, access: Access::Store, why };
            if va % $size != 0 {
                return Err(fault(FaultKind::Unaligned));
            }
            let exchange = || {
                // SAFETY: only called with `va` in the window, whose guard follows.
                unsafe { raw::$name(self.base + va, old, new) }
            };
            if va < self.limit {
                if let Some(stored) = exchange() {
                    return Ok(stored);
                }
            }
            if let Some(system) = &self.system {
                #[allow(trivial_numeric_casts, reason = "one macro for both sizes")]
                return system.exchange(va, $size, old as u64, new as u64);
            }
            self.settle(va, $size, Access::Store, |_| exchange())
        }
    )*};
}

impl std::fmt::Debug for AddressSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.kind();
        f.debug_struct("AddressSpace").field("kind", &kind).field("base", &self.base).finish()
    }
}

impl AddressSpace {
    accessors! {
        load_u8 store_u8 u8, 1, "byte";
        load_u16 store_u16 u16, 2, "word";
        load_u32 store_u32 u32, 4, "longword";
        load_u64 store_u64 u64, 8, "quadword";
    }

    compare_exchanges! {
        compare_exchange_u32 u32, 4, "longword";
        compare_exchange_u64 u64, 8, "quadword";
    }

    /// Host address of guest address 0 (0 for the identity window).
    #[inline(always)]
    pub fn host_base(&self) -> u64 {
        match &self.system {
            None => self.base,
            Some(system) => system.bank(),
        }
    }

    /// End of the window: 0 where all memory is translated.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The memory of one processor of the privileged machine, which must be its own.
    pub fn for_machine(physical: std::sync::Arc<Physical>) -> Result<Self, WindowError> {
        let window = UserWindow::absent()?;
        let system = Some(Box::new(SystemMap::new(physical)));
        let (journal, alone) = Default::default();
        Ok(AddressSpace { base: 0, limit: 0, window, system, journal, alone })
    }

    /// Whether one thread alone writes this memory, so that it need not be locked against others. Whoever
    /// starts a second one says so before.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Acquire)
    }

    /// Says whether one thread alone writes this memory; a mapping that is shared ends that, too.
    pub fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Release);
    }

    /// Translated memory, where this is a processor of the privileged machine.
    #[inline]
    pub fn system(&self) -> Option<&SystemMap> {
        self.system.as_deref()
    }

    /// What code is translated for, beside its address: one number for a program's memory, others
    /// by mode and address space.
    #[inline]
    pub fn code_space(&self) -> u32 {
        self.system.as_ref().map_or(0, |system| system.code_space())
    }

    /// Reads the words that `space` executes from the aligned address `va` on, as many as there are.
    pub fn code_in(&self, space: u32, va: u64, words: &mut [u32]) -> usize {
        match &self.system {
            Some(system) if space != 0 => system.code_in(space, va, words),
            _ => {
                let mut done = 0;
                while done < words.len() {
                    let read = self.fetch_words(va + 4 * done as u64, &mut words[done..]);
                    if read == 0 {
                        break;
                    }
                    done += read;
                }
                done
            }
        }
    }

    /// Whether `space` executes `words` from the aligned address `va` on.
    pub fn executes(&self, space: u32, va: u64, words: &[u32]) -> bool {
        let mut now = [0; 64];
        let mut at = va;
        words.chunks(now.len()).all(|part| {
            let now = &mut now[..part.len()];
            let same = self.code_in(space, at, now) == part.len() && now == part;
            at = at.wrapping_add(4 * part.len() as u64);
            same
        })
    }

    /// Which kind of window this is.
    pub fn kind(&self) -> WindowKind {
        self.window.kind()
    }

    /// Changes with every change of executable memory: a mapping with [`Prot::EXEC`] made, removed,
    /// moved, discarded or reprotected. Engines compare it on entry.
    #[inline]
    pub fn exec_epoch(&self) -> u64 {
        match &self.system {
            None => self.window.exec_epoch(),
            Some(system) => system.epoch(),
        }
    }

    /// Addresses whose code may be other code after a change of [`exec_epoch`](Self::exec_epoch).
    pub fn epoch_range(&self) -> (u64, u64) {
        self.system.as_ref().map_or((0, u64::MAX), |system| system.epoch_range())
    }

    /// The value of [`exec_epoch`](Self::exec_epoch) since which the code of a space has not become other
    /// code, but for what an IMB tells.
    pub fn epoch_of(&self, space: u32) -> u64 {
        self.system.as_ref().map_or_else(|| self.exec_epoch(), |system| system.epoch_of(space))
    }

    /// Whether instructions may be fetched from the page of `va`. Cheap, takes no lock.
    #[inline]
    pub fn executable_page(&self, va: u64) -> bool {
        self.window.executable.contains(va)
    }

    /// Fetches the instruction at `va`.
    #[inline]
    pub fn fetch_u32(&self, va: u64) -> Result<u32, MemFault> {
        if va & 3 != 0 {
            return Err(MemFault { va, access: Access::Fetch, why: FaultKind::Unaligned });
        }
        if let Some(system) = &self.system {
            return system.fetch(va);
        }
        if self.executable_page(va) {
            // SAFETY: executable pages lie in the window.
            if let Some(word) = unsafe { raw::load_u32(self.base + va) } {
                return Ok(word);
            }
        }
        self.fetch_again(va)
    }

    /// Fetches instructions from `va` on, up to the first that cannot be; returns how many.
    ///
    /// 0 if there is not even one: [`fetch_u32`](Self::fetch_u32) tells why.
    pub fn fetch_words(&self, va: u64, words: &mut [u32]) -> usize {
        for (i, word) in words.iter_mut().enumerate() {
            match self.fetch_u32(va.wrapping_add(4 * i as u64)) {
                Ok(fetched) => *word = fetched,
                Err(_) => return i,
            }
        }
        words.len()
    }

    #[cold]
    #[inline(never)]
    fn load_again(&self, va: u64, size: u64) -> Result<u64, MemFault> {
        if let Some(system) = &self.system {
            return system.load(va, size);
        }
        self.settle(va, size, Access::Load, |_| {
            let host = self.base + va;
            // SAFETY: `settle` asks only for addresses in the window.
            unsafe {
                match size {
                    1 => raw::load_u8(host).map(u64::from),
                    2 => raw::load_u16(host).map(u64::from),
                    4 => raw::load_u32(host).map(u64::from),
                    _ => raw::load_u64(host),
                }
            }
        })
    }

    #[cold]
    #[inline(never)]
    fn store_again(&self, va: u64, size: u64, value: u64) -> Result<(), MemFault> {
        if let Some(system) = &self.system {
            return system.store(va, size, value);
        }
        self.settle(va, size, Access::Store, |_| {
            let host = self.base + va;
            // SAFETY: `settle` asks only for addresses in the window.
            let stored = unsafe {
                match size {
                    1 => raw::store_u8(host, value as u8),
                    2 => raw::store_u16(host, value as u16),
                    4 => raw::store_u32(host, value as u32),
                    _ => raw::store_u64(host, value),
                }
            };
            stored.then_some(())
        })
    }

    #[cold]
    #[inline(never)]
    fn fetch_again(&self, va: u64) -> Result<u32, MemFault> {
        self.settle(va, 4, Access::Fetch, |map| map.fetch_hidden(self.base, va))
    }

    /// Decides about an access that failed: says why, or completes it by `again` where another
    /// thread has mapped the page meanwhile. The map cannot change in between.
    #[cold]
    #[inline(never)]
    fn settle<T>(
        &self,
        va: u64,
        size: u64,
        access: Access,
        again: impl FnOnce(&Map) -> Option<T>,
    ) -> Result<T, MemFault> {
        let fault = |why| MemFault { va, access, why };
        let map = self.window.lock();
        if let Some(why) = map.forbids(va, size, access) {
            return Err(fault(why));
        }
        // What the map allows and the host refuses is a page behind the end of its file.
        again(&map).ok_or_else(|| fault(FaultKind::BusError))
    }
}
