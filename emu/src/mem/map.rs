//! Mapping, unmapping and protecting guest memory: the requests of loaders and system calls.
//!
//! A guest page is two host pages. Whole guest pages are mapped, so this shows only where a file
//! ends: see `Region::tail`. (Known limit: a file that grows inside its last, already mapped guest
//! page keeps showing zeros in the upper half of it.)

use super::AddressSpace;
use super::journal::Touched;
use super::page::{
    Access, HOST_PAGE, MapError, MemFault, PAGE_SIZE, Prot, WINDOW_SIZE, WindowError, round_up,
};
use super::regions::{FileId, Region, tail_of};
use super::user::{Map, UserWindow, host_prot, host_ptr, map_prot};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, fstat};
use rustix::mm::{MapFlags, MprotectFlags, mmap, mprotect};
use std::ffi::OsStr;
use std::sync::{Arc, MutexGuard};

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

/// What `map_host` found out about the file.
struct MapSide {
    file: Option<FileId>,
    tail: Option<u64>,
}

impl UserWindow {
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
        // A tail that cannot be made stays a BusError: only when the host is out of mappings.
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let tail =
            is_file.then(|| tail_of(offset, len, stat.st_size.max(0) as u64, HOST_PAGE)).flatten();
        let tail = tail.filter(|at| {
            let at = start + at;
            self.map_anonymous(at, at + HOST_PAGE, req.prot, flags).is_ok()
        });
        let file = FileId { dev: stat.st_dev, ino: stat.st_ino, offset };
        Ok(MapSide { file: Some(file), tail })
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
        let (journal, alone) = Default::default();
        let base = window.base;
        AddressSpace { base, limit: WINDOW_SIZE, window, system: None, journal, alone }
    }

    /// Makes a mapping; gives its address.
    pub fn map(&self, req: &MapRequest<'_>) -> Result<u64, MapError> {
        if req.len == 0 {
            return Err(MapError::Invalid);
        }
        let len = round_up(req.len).ok_or(MapError::NoMemory)?;
        if req.shared {
            self.set_alone(false);
        }
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
        map.check_room()?;
        let end = start + len;
        self.journal.note(|| Touched::Map(start, end));
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
        self.journal.note(|| Touched::Map(start, end));
        let map = &mut *self.window.lock();
        // Cutting a region in two adds one.
        if map.regions.find(start).is_some_and(|r| r.start < start && end < r.end) {
            map.check_room()?;
        }
        self.window.unmap_locked(map, start, end)
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
        self.journal.note(|| Touched::Protect(start, end));
        let map = &mut *self.window.lock();
        map.check_room()?;
        let mapped = map.regions.mapped_until(start, end);
        let mut had_exec = false;
        let mut result: Result<(), MapError> = Ok(());
        for region in map.regions.clipped(start, mapped) {
            had_exec |= self.window.forbid_fetch(map, region.start, region.end);
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

    /// Checks that all of `[va, va + len)` allows `access`, without touching it. Names the first
    /// bad page's address (or `va` itself).
    pub fn check(&self, va: u64, len: u64, access: Access) -> Result<(), MemFault> {
        self.host_range(va, len, access)?;
        let (end, map) = (va + len, self.window.lock());
        let mut at = va;
        while at < end {
            if let Some(why) = map.forbids(at, 1, access) {
                return Err(MemFault { va: at, access, why });
            }
            at = map.regions.find(at).map_or(end, |r| r.end);
        }
        Ok(())
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
        let base = map.search_base;
        map.regions.set_search_base(base);
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
