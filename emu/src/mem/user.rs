//! The window of a user program: host address space reserved whole, and what `map` and `remap`
//! need to change mappings in it.
//!
//! The host's mappings and the list in [`Regions`] change
//! together under one lock; every host call stays inside the reservation, so that no request of a
//! guest can touch memory of the emulator's.

use super::executable::ExecutableMap;
use super::page::{
    Access, FaultKind, GUARD_SIZE, MapError, PAGE_SIZE, Prot, WINDOW_SIZE, WindowError, round_up,
};
use super::regions::{Region, Regions};
use super::{host_fault, raw};
use rustix::io::Errno;
use rustix::mm::{
    MapFlags, MprotectFlags, MsyncFlags, ProtFlags, mmap_anonymous, mprotect, msync, munmap,
};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How guest addresses become host addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// They are the same: the fastest, once per process.
    Identity,
    /// A base is added: any number per process.
    Based,
}

impl WindowKind {
    /// The name that statistics show.
    pub fn name(self) -> &'static str {
        match self {
            WindowKind::Identity => "identity",
            WindowKind::Based => "based",
        }
    }
}

/// The reservation and its map.
pub(super) struct UserWindow {
    kind: WindowKind,
    /// What was reserved on the host.
    reserved: (u64, u64),
    pub(super) base: u64,
    pub(super) executable: ExecutableMap,
    epoch: AtomicU64,
    /// Also keeps changes on the host apart.
    map: Mutex<Map>,
}

/// What the lock protects.
pub(super) struct Map {
    pub(super) regions: Regions,
    /// The lowest address that may be mapped: the host's rule, rounded to guest pages.
    pub(super) lowest: u64,
    /// Where a search without a hint starts.
    pub(super) search_base: u64,
    /// No mapping reaches beyond.
    pub(super) limit: u64,
    /// The next object number of shared anonymous memory.
    pub(super) next_object: u64,
    /// Mappings of the host's that the guest may cause.
    pub(super) most_mappings: usize,
}

/// Only one identity window fits in a process.
static IDENTITY_TAKEN: AtomicBool = AtomicBool::new(false);

/// Search base of Linux/Alpha without a hint: half of the window (`TASK_UNMAPPED_BASE`).
const SEARCH_BASE: u64 = WINDOW_SIZE / 2;

/// `/proc/sys/vm/mmap_min_addr` in guest pages, at least one: page 0 is never mapped by accident.
fn lowest_address() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/vm/mmap_min_addr").unwrap_or_default();
    let min = text.trim().parse::<u64>().unwrap_or(65536).clamp(1, 1 << 30);
    round_up(min).unwrap_or(65536)
}

/// Mappings that are left to the emulator of those that the host allows a process: for its heap, its
/// threads' stacks, its code.
const MAPPINGS_KEPT: usize = 4096;

/// How many mappings the guest may cause: `/proc/sys/vm/max_map_count` but for what is kept.
fn most_mappings() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let max = text.trim().parse::<usize>().unwrap_or(65530);
    max.saturating_sub(MAPPINGS_KEPT).max(max / 2)
}

/// The line of the host's map that overlaps the range, to name what is in the way.
fn who_is_there(start: u64, end: u64) -> Option<(u64, u64, String)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, _) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let from = u64::from_str_radix(from, 16).ok()?;
        let to = u64::from_str_radix(to, 16).ok()?;
        let what = line.split_whitespace().nth(5).unwrap_or("anonymous memory");
        (from < end && start < to).then(|| (from, to, what.to_owned()))
    })
}

/// A host address as the kernel interface wants it.
pub(super) fn host_ptr(host: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(host as usize)
}

/// What the host enforces for a guest protection: never execution, and read with write. A page that
/// may only be executed is not readable on Alpha (FOR set); fetches of it go through `fetch_hidden`.
pub(super) fn host_prot(prot: Prot) -> u32 {
    if prot.contains(Prot::WRITE) {
        ProtFlags::READ.bits() | ProtFlags::WRITE.bits()
    } else if prot.contains(Prot::READ) {
        ProtFlags::READ.bits()
    } else {
        0
    }
}

pub(super) fn map_prot(prot: Prot) -> ProtFlags {
    ProtFlags::from_bits_truncate(host_prot(prot))
}

impl UserWindow {
    pub(super) fn identity() -> Result<Self, WindowError> {
        if IDENTITY_TAKEN.swap(true, Ordering::AcqRel) {
            return Err(WindowError::AlreadyTaken);
        }
        Self::reserve_identity().inspect_err(|_| IDENTITY_TAKEN.store(false, Ordering::Release))
    }

    fn reserve_identity() -> Result<Self, WindowError> {
        let (start, end) = (lowest_address(), WINDOW_SIZE + GUARD_SIZE);
        let in_the_way = || {
            let (start, end, what) =
                who_is_there(start, end).unwrap_or((start, end, "unknown".to_owned()));
            WindowError::InTheWay { start, end, what }
        };
        let executable = ExecutableMap::new().map_err(WindowError::Host)?;
        // SAFETY: NOREPLACE never touches an existing mapping.
        let got = unsafe {
            mmap_anonymous(
                host_ptr(start),
                (end - start) as usize,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE,
            )
        };
        match got {
            Ok(p) if p as u64 == start => {
                Self::new(WindowKind::Identity, (start, end), 0, executable)
            }
            Ok(p) => {
                // A kernel before 4.17 takes the address for a hint.
                // SAFETY: what was just mapped, elsewhere.
                let _ = unsafe { munmap(p, (end - start) as usize) };
                Err(in_the_way())
            }
            Err(Errno::EXIST) => Err(in_the_way()),
            Err(errno) => Err(WindowError::Host(errno)),
        }
    }

    pub(super) fn based() -> Result<Self, WindowError> {
        let executable = ExecutableMap::new().map_err(WindowError::Host)?;
        let size = GUARD_SIZE + WINDOW_SIZE + GUARD_SIZE;
        // SAFETY: a fresh reservation wherever the kernel likes.
        let start = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                size as usize,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(WindowError::Host)? as u64;
        let reserved = (start, start + size);
        Self::new(WindowKind::Based, reserved, start + GUARD_SIZE, executable)
    }

    /// No window at all: nothing is reserved and nothing can be mapped.
    pub(super) fn absent() -> Result<Self, WindowError> {
        let executable = ExecutableMap::new().map_err(WindowError::Host)?;
        let window = Self::new(WindowKind::Based, (0, 0), 0, executable)?;
        window.lock().limit = 0;
        Ok(window)
    }

    /// Takes over a reservation, which is given back on drop.
    fn new(
        kind: WindowKind,
        reserved: (u64, u64),
        base: u64,
        executable: ExecutableMap,
    ) -> Result<Self, WindowError> {
        let map = Map {
            regions: Regions::new(SEARCH_BASE),
            lowest: lowest_address(),
            search_base: SEARCH_BASE,
            limit: WINDOW_SIZE,
            next_object: 1,
            most_mappings: most_mappings(),
        };
        let epoch = AtomicU64::new(0);
        let window = UserWindow { kind, reserved, base, executable, epoch, map: Mutex::new(map) };
        host_fault::install().map_err(WindowError::Handler)?;
        Ok(window)
    }

    pub(super) fn kind(&self) -> WindowKind {
        self.kind
    }

    #[inline]
    pub(super) fn exec_epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Map> {
        // A panic in between can at worst leave a change undone; the map is still a map.
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells engines that executable memory changed; called when the change is complete, so that
    /// whatever was translated during it carries the older number.
    pub(super) fn bump_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Makes `[start, end)` reserved and empty on the host.
    pub(super) fn clear_host(&self, start: u64, end: u64) -> Result<(), Errno> {
        if start == end {
            return Ok(());
        }
        // SAFETY: callers pass checked ranges of the window.
        unsafe {
            mmap_anonymous(
                host_ptr(self.base + start),
                (end - start) as usize,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED,
            )?;
        }
        Ok(())
    }

    /// Anonymous memory at `[start, end)` on the host.
    pub(super) fn map_anonymous(
        &self,
        start: u64,
        end: u64,
        prot: Prot,
        flags: MapFlags,
    ) -> Result<(), Errno> {
        // SAFETY: callers pass checked ranges of the window.
        unsafe {
            mmap_anonymous(
                host_ptr(self.base + start),
                (end - start) as usize,
                map_prot(prot),
                flags | MapFlags::FIXED,
            )?;
        }
        Ok(())
    }

    /// Drops the fetch permission of a range that is about to change; whether it had any.
    pub(super) fn forbid_fetch(&self, map: &Map, start: u64, end: u64) -> bool {
        let mut any = false;
        for r in map.regions.overlapping(start, end).filter(|r| r.prot.contains(Prot::EXEC)) {
            self.executable.set(r.start.max(start), r.end.min(end), false);
            any = true;
        }
        any
    }

    /// Enters a region in the map and its fetch permission in the bits.
    pub(super) fn enter(&self, map: &mut Map, region: Region) {
        if region.prot.contains(Prot::EXEC) {
            self.executable.set(region.start, region.end, true);
        }
        map.regions.insert(region);
    }

    /// Empties `[start, end)`, which lies in the window.
    pub(super) fn unmap_locked(&self, map: &mut Map, start: u64, end: u64) -> Result<(), MapError> {
        let had_exec = self.forbid_fetch(map, start, end);
        let done =
            if map.regions.any_in(start, end) { self.clear_host(start, end) } else { Ok(()) };
        if done.is_ok() {
            map.regions.remove(start, end);
        } else {
            self.allow_fetch_again(map, start, end);
        }
        if had_exec {
            self.bump_epoch();
        }
        Ok(done?)
    }

    /// Undoes `forbid_fetch` where the change failed.
    pub(super) fn allow_fetch_again(&self, map: &Map, start: u64, end: u64) {
        for r in map.regions.clipped(start, end) {
            if r.prot.contains(Prot::EXEC) {
                self.executable.set(r.start, r.end, true);
            }
        }
    }

    /// After a failed host call: Linux may have removed what was there before. Then the range is
    /// reserved anew, so that nothing of the host's can appear in the window.
    pub(super) fn heal(&self, map: &mut Map, start: u64, end: u64) {
        // SAFETY: MS_ASYNC changes nothing; it reports unmapped pages.
        let whole = unsafe {
            msync(host_ptr(self.base + start), (end - start) as usize, MsyncFlags::ASYNC).is_ok()
        };
        if whole {
            self.allow_fetch_again(map, start, end);
        } else if self.clear_host(start, end).is_ok() {
            map.regions.remove(start, end);
        }
    }
}

impl Drop for UserWindow {
    fn drop(&mut self) {
        let (start, end) = self.reserved;
        if start == end {
            return;
        }
        // SAFETY: the reservation is ours, and with the last owner gone nobody uses it.
        let _ = unsafe { munmap(host_ptr(start), (end - start) as usize) };
        if self.kind == WindowKind::Identity {
            IDENTITY_TAKEN.store(false, Ordering::Release);
        }
    }
}

impl Map {
    /// Why the map forbids an access of `size` bytes at `va`; `None` if it allows it.
    pub(super) fn forbids(&self, va: u64, size: u64, access: Access) -> Option<FaultKind> {
        let last = match va.checked_add(size - 1) {
            Some(last) if va < WINDOW_SIZE => last,
            _ => return Some(FaultKind::OutOfWindow),
        };
        [va, last].into_iter().find_map(|at| match self.regions.find(at) {
            _ if at >= WINDOW_SIZE => Some(FaultKind::OutOfWindow),
            None => Some(FaultKind::Unmapped),
            Some(region) => (!region.prot.allows(access)).then_some(FaultKind::Protected),
        })
    }

    /// Fetches from a page that the map allows to execute. If it may only be executed, the host has
    /// no access to it: it gets some for the moment, with the map locked. (A load by another guest
    /// thread may succeed in that moment where it should fault.)
    pub(super) fn fetch_hidden(&self, base: u64, va: u64) -> Option<u32> {
        let page = host_ptr(base + (va & !(PAGE_SIZE - 1)));
        // SAFETY: the page is mapped in the window, with the protection that is restored.
        unsafe {
            if self.regions.find(va).is_none_or(|r| r.prot != Prot::EXEC) {
                return raw::load_u32(base + va);
            }
            mprotect(page, PAGE_SIZE as usize, MprotectFlags::READ).ok()?;
            let word = raw::load_u32(base + va);
            let _ = mprotect(page, PAGE_SIZE as usize, MprotectFlags::empty());
            word
        }
    }

    /// Refuses a change that adds mappings when the host has few left: the emulator's own allocations
    /// would fail next.
    pub(super) fn check_room(&self) -> Result<(), MapError> {
        match self.regions.host_mappings(self.most_mappings) < self.most_mappings {
            true => Ok(()),
            false => Err(MapError::NoMemory),
        }
    }

    /// Checks a range that a request names itself.
    pub(super) fn check_fixed(&self, start: u64, len: u64) -> Result<(), MapError> {
        if !start.is_multiple_of(PAGE_SIZE) {
            return Err(MapError::Invalid);
        }
        match start.checked_add(len) {
            Some(end) if end <= self.limit => {}
            _ => return Err(MapError::NoMemory),
        }
        if start < self.lowest { Err(MapError::TooLow) } else { Ok(()) }
    }

    /// The search order of Linux/Alpha (`arch_get_unmapped_area`): from the hint, from the search
    /// base, from the bottom.
    pub(super) fn find_free(&mut self, hint: u64, len: u64) -> Option<u64> {
        // A hint beyond every page is as good as none.
        let hint = round_up(hint).unwrap_or(0);
        let (base, lowest, limit) = (self.search_base, self.lowest, self.limit);
        [hint, base, lowest]
            .into_iter()
            .skip(usize::from(hint == 0))
            .find_map(|from| self.regions.first_free(from.max(lowest), len, limit))
    }
}
