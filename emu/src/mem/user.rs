//! The window of a user program: host address space reserved whole, and the mappings in it.
//!
//! Loaders and system calls map here. The host's mappings and the list in [`Regions`] change
//! together under one lock; every host call stays inside the reservation, so that no request of a
//! guest can touch memory of the emulator's.
//!
//! A guest page is two host pages. Whole guest pages are mapped, so this shows only where a file
//! ends: see `Region::tail`. (Known limit: a file that grows inside its last, already mapped guest
//! page keeps showing zeros in the upper half of it.)

use super::executable::ExecutableMap;
use super::page::{
    Access, FaultKind, GUARD_SIZE, HOST_PAGE, MapError, PAGE_SIZE, Prot, WINDOW_SIZE, WindowError,
    round_up,
};
use super::regions::{FileId, Region, Regions, tail_of};
use super::{AddressSpace, host_fault, raw};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::mm::{
    MapFlags, MprotectFlags, MsyncFlags, ProtFlags, mmap, mmap_anonymous, mprotect, msync, munmap,
};
use std::ffi::{OsStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// Where a new mapping goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first free range at or above the hint; without one (0), or if there is none, where the
    /// kernel looks next.
    Anywhere(u64),
    /// Exactly there, replacing what is there (`MAP_FIXED`).
    Fixed(u64),
    /// Exactly there, if nothing is (`MAP_FIXED_NOREPLACE`).
    FixedNoReplace(u64),
}

/// What a new mapping shows.
#[derive(Clone, Copy, Debug)]
pub enum Backing<'a> {
    /// Zeros.
    Anonymous,
    /// A file from `offset` on, a multiple of the guest's page size.
    File {
        /// The host's descriptor.
        fd: BorrowedFd<'a>,
        /// In bytes.
        offset: u64,
    },
}

/// What [`AddressSpace::map`] shall do.
#[derive(Clone, Debug)]
pub struct MapRequest<'a> {
    /// Where.
    pub place: Place,
    /// Bytes, rounded up to whole pages.
    pub len: u64,
    /// The guest's rights.
    pub prot: Prot,
    /// What.
    pub backing: Backing<'a>,
    /// `MAP_SHARED` rather than `MAP_PRIVATE`.
    pub shared: bool,
    /// `MAP_NORESERVE`: memory is found when touched.
    pub no_reserve: bool,
    /// `MAP_POPULATE`: memory is found now.
    pub populate: bool,
    /// Path or label for the list of regions.
    pub name: Option<Arc<OsStr>>,
}

impl<'a> MapRequest<'a> {
    /// Private anonymous memory anywhere.
    pub fn anonymous(len: u64, prot: Prot) -> Self {
        MapRequest {
            place: Place::Anywhere(0),
            len,
            prot,
            backing: Backing::Anonymous,
            shared: false,
            no_reserve: false,
            populate: false,
            name: None,
        }
    }

    /// A private mapping of a file anywhere.
    pub fn file(fd: &'a impl AsFd, offset: u64, len: u64, prot: Prot) -> Self {
        let backing = Backing::File { fd: fd.as_fd(), offset };
        MapRequest { backing, ..Self::anonymous(len, prot) }
    }

    /// The same at `place`.
    pub fn at(self, place: Place) -> Self {
        MapRequest { place, ..self }
    }

    /// The same, shared.
    pub fn shared(self) -> Self {
        MapRequest { shared: true, ..self }
    }

    /// The same, with a name for the list of regions.
    pub fn named(self, name: impl AsRef<OsStr>) -> Self {
        MapRequest { name: Some(Arc::from(name.as_ref())), ..self }
    }
}

/// The reservation and its map.
pub(super) struct UserWindow {
    kind: WindowKind,
    /// What was reserved on the host.
    reserved: (u64, u64),
    base: u64,
    pub(super) executable: ExecutableMap,
    epoch: AtomicU64,
    map: Mutex<Map>,
}

/// What the lock protects.
pub(super) struct Map {
    pub(super) regions: Regions,
    /// The lowest address that may be mapped: the host's rule, rounded to guest pages.
    pub(super) lowest: u64,
    /// Where a search without a hint starts.
    search_base: u64,
    /// No mapping reaches beyond.
    pub(super) limit: u64,
    /// The next object number of shared anonymous memory.
    next_object: u64,
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
fn host_prot(prot: Prot) -> u32 {
    if prot.contains(Prot::WRITE) {
        ProtFlags::READ.bits() | ProtFlags::WRITE.bits()
    } else if prot.contains(Prot::READ) {
        ProtFlags::READ.bits()
    } else {
        0
    }
}

fn map_prot(prot: Prot) -> ProtFlags {
    ProtFlags::from_bits_truncate(host_prot(prot))
}

impl UserWindow {
    fn identity() -> Result<Self, WindowError> {
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

    fn based() -> Result<Self, WindowError> {
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

    /// Takes over a reservation, which is given back on drop.
    fn new(
        kind: WindowKind,
        reserved: (u64, u64),
        base: u64,
        executable: ExecutableMap,
    ) -> Result<Self, WindowError> {
        let map = Map {
            regions: Regions::default(),
            lowest: lowest_address(),
            search_base: SEARCH_BASE,
            limit: WINDOW_SIZE,
            next_object: 1,
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
    fn allow_fetch_again(&self, map: &Map, start: u64, end: u64) {
        for r in map.regions.clipped(start, end) {
            if r.prot.contains(Prot::EXEC) {
                self.executable.set(r.start, r.end, true);
            }
        }
    }

    /// Maps the host side of a checked request; gives the distance of the tail, if one was made.
    fn map_host(&self, req: &MapRequest<'_>, start: u64, len: u64) -> Result<MapSide, MapError> {
        let mut flags = if req.shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
        flags.set(MapFlags::NORESERVE, req.no_reserve);
        flags.set(MapFlags::POPULATE, req.populate);
        let Backing::File { fd, offset } = req.backing else {
            self.map_anonymous(start, start + len, req.prot, flags)?;
            return Ok(MapSide { file: None, tail: None });
        };
        let stat = fstat(fd)?;
        // SAFETY: a checked range of the window.
        unsafe {
            mmap(
                host_ptr(self.base + start),
                len as usize,
                map_prot(req.prot),
                flags | MapFlags::FIXED,
                fd,
                offset,
            )?;
        }
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let tail =
            is_file.then(|| tail_of(offset, len, stat.st_size.max(0) as u64, HOST_PAGE)).flatten();
        if let Some(at) = tail {
            let at = start + at;
            self.map_anonymous(at, at + HOST_PAGE, req.prot, flags)?;
        }
        let file = FileId { dev: stat.st_dev, ino: stat.st_ino, offset };
        Ok(MapSide { file: Some(file), tail })
    }

    /// After a failed host call: Linux may have removed what was there before. Then the range is
    /// reserved anew, so that nothing of the host's can appear in the window.
    fn heal(&self, map: &mut Map, start: u64, end: u64) {
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

/// What `map_host` found out about the file.
struct MapSide {
    file: Option<FileId>,
    tail: Option<u64>,
}

impl Drop for UserWindow {
    fn drop(&mut self) {
        let (start, end) = self.reserved;
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
    pub(super) fn find_free(&self, hint: u64, len: u64) -> Option<u64> {
        let hint = round_up(hint)?;
        [hint, self.search_base, self.lowest]
            .into_iter()
            .skip(usize::from(hint == 0))
            .find_map(|from| self.regions.first_free(from.max(self.lowest), len, self.limit))
    }
}

/// A lock on the map, held over `fork`: no change is half done in the child.
pub struct Frozen<'a>(#[expect(dead_code, reason = "held, not read")] MutexGuard<'a, Map>);

/// Checks and rounds the range of a system call on existing mappings.
pub(super) fn existing_range(va: u64, len: u64) -> Result<(u64, u64), MapError> {
    if !va.is_multiple_of(PAGE_SIZE) {
        return Err(MapError::Invalid);
    }
    let len = round_up(len).ok_or(MapError::Invalid)?;
    match va.checked_add(len) {
        Some(end) if end <= WINDOW_SIZE => Ok((va, end)),
        _ => Err(MapError::NoMemory),
    }
}

impl AddressSpace {
    /// Reserves the window in which guest and host addresses are equal. Once per process; fails if
    /// anything of the host's is in the way.
    pub fn identity() -> Result<Self, WindowError> {
        UserWindow::identity().map(Self::from_window)
    }

    /// Reserves a window wherever the host has room.
    pub fn based() -> Result<Self, WindowError> {
        UserWindow::based().map(Self::from_window)
    }

    fn from_window(window: UserWindow) -> Self {
        AddressSpace { base: window.base, window }
    }

    /// Makes a mapping; gives its address.
    pub fn map(&self, req: &MapRequest<'_>) -> Result<u64, MapError> {
        if req.len == 0 {
            return Err(MapError::Invalid);
        }
        let len = round_up(req.len).ok_or(MapError::NoMemory)?;
        if let Backing::File { offset, .. } = req.backing {
            if offset % PAGE_SIZE != 0 {
                return Err(MapError::Invalid);
            }
            offset.checked_add(len).ok_or(MapError::Overflow)?;
        }
        let map = &mut *self.window.lock();
        let start = match req.place {
            Place::Anywhere(hint) => map.find_free(hint, len).ok_or(MapError::NoMemory)?,
            Place::Fixed(va) => {
                map.check_fixed(va, len)?;
                va
            }
            Place::FixedNoReplace(va) => {
                map.check_fixed(va, len)?;
                if map.regions.any_in(va, va + len) {
                    return Err(MapError::Exists);
                }
                va
            }
        };
        let end = start + len;
        let had_exec = self.window.forbid_fetch(map, start, end);
        let mapped = self.window.map_host(req, start, len);
        match mapped {
            Ok(MapSide { file, tail }) => {
                map.regions.remove(start, end);
                let file = file.or_else(|| {
                    // Shared anonymous memory is an object of its own, never merged with another.
                    map.next_object += 1;
                    req.shared.then_some(FileId { dev: 0, ino: map.next_object, offset: 0 })
                });
                let (prot, shared, name) = (req.prot, req.shared, req.name.clone());
                let whole = Region { start, end, prot, shared, file, name, tail: false };
                for part in split_tail(whole, tail) {
                    self.window.enter(map, part);
                }
            }
            Err(_) => self.window.heal(map, start, end),
        }
        if had_exec || (mapped.is_ok() && req.prot.contains(Prot::EXEC)) {
            self.window.bump_epoch();
        }
        mapped.map(|_| start)
    }

    /// Removes whatever is mapped in the range (`munmap`).
    pub fn unmap(&self, va: u64, len: u64) -> Result<(), MapError> {
        if len == 0 {
            return Err(MapError::Invalid);
        }
        let (start, end) = existing_range(va, len).map_err(|_| MapError::Invalid)?;
        self.window.unmap_locked(&mut self.window.lock(), start, end)
    }

    /// Removes everything, as `execve` does.
    pub fn unmap_all(&self) -> Result<(), MapError> {
        let map = &mut *self.window.lock();
        self.window.unmap_locked(map, map.lowest, WINDOW_SIZE)
    }

    /// Changes the protection of a range (`mprotect`). At a hole it stops with an error, and what
    /// lies below is changed, as Linux does.
    pub fn protect(&self, va: u64, len: u64, prot: Prot) -> Result<(), MapError> {
        let (start, end) = existing_range(va, len)?;
        let map = &mut *self.window.lock();
        let mapped = map.regions.mapped_until(start, end);
        let mut had_exec = false;
        let mut result: Result<(), MapError> = Ok(());
        for region in map.regions.clipped(start, mapped) {
            had_exec |= region.prot.contains(Prot::EXEC);
            self.window.executable.set(region.start, region.end, false);
            // SAFETY: a mapped range of the window.
            let done = unsafe {
                mprotect(
                    host_ptr(self.base + region.start),
                    (region.end - region.start) as usize,
                    MprotectFlags::from_bits_truncate(host_prot(prot)),
                )
            };
            if let Err(errno) = done {
                self.window.allow_fetch_again(map, region.start, region.end);
                result = Err(errno.into());
                break;
            }
            self.window.enter(map, Region { prot, ..region });
        }
        if had_exec || prot.contains(Prot::EXEC) {
            self.window.bump_epoch();
        }
        result?;
        if mapped < end { Err(MapError::Hole) } else { Ok(()) }
    }

    /// The map, in order, as the guest's kernel would list it.
    pub fn regions(&self) -> Vec<Region> {
        self.window.lock().regions.list()
    }

    /// The region that holds `va`.
    pub fn region_at(&self, va: u64) -> Option<Region> {
        self.window.lock().regions.find(va).cloned()
    }

    /// Whether all of `[va, va + len)` is mapped.
    pub fn is_mapped(&self, va: u64, len: u64) -> bool {
        va.checked_add(len)
            .is_some_and(|end| self.window.lock().regions.mapped_until(va, end) == end)
    }

    /// Where [`Place::Anywhere`] would put `len` bytes.
    pub fn find_free(&self, hint: u64, len: u64) -> Option<u64> {
        self.window.lock().find_free(hint, round_up(len)?)
    }

    /// Sets where searches start and mappings must end: for programs with 32-bit addresses
    /// (`ADDR_LIMIT_32BIT`). Both are cut to the window.
    pub fn set_search(&self, base: u64, limit: u64) {
        let mut map = self.window.lock();
        map.limit = limit.min(WINDOW_SIZE) & !(PAGE_SIZE - 1);
        map.search_base = base.min(map.limit) & !(PAGE_SIZE - 1);
    }

    /// The lowest address that can be mapped.
    pub fn lowest_address(&self) -> u64 {
        self.window.lock().lowest
    }

    /// Keeps the map from changing until the guard is dropped: held by a thread that forks, and
    /// dropped in parent and child.
    pub fn freeze(&self) -> Frozen<'_> {
        Frozen(self.window.lock())
    }
}

/// Cuts a region behind the page that has a tail.
pub(super) fn split_tail(mut whole: Region, tail: Option<u64>) -> impl Iterator<Item = Region> {
    let rest = tail.and_then(|at| {
        let page_end = whole.start + (at & !(PAGE_SIZE - 1)) + PAGE_SIZE;
        let rest = (page_end < whole.end).then(|| whole.split_off(page_end));
        whole.tail = true;
        rest
    });
    std::iter::once(whole).chain(rest)
}
