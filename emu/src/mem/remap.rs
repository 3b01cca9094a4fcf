//! Moving, growing and advising mappings: `mremap` and `madvise`.
//!
//! The personality's memory calls use these. A range is never left unmapped on the host, not even
//! for a moment, or an allocation of the emulator's could land in the window.

use super::journal::Touched;
use super::map::{existing_range, split_tail};
use super::page::{HOST_PAGE, MapError, PAGE_SIZE, Prot, WINDOW_SIZE, round_up};
use super::regions::Region;
use super::user::{Map, UserWindow, host_ptr};
use super::{AddressSpace, raw};
use rustix::io::Errno;
use rustix::mm::{Advice as HostAdvice, MapFlags, MremapFlags, madvise, mremap, mremap_fixed};

/// Where [`AddressSpace::remap`] may put a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemapPlace {
    /// It stays (flags 0).
    InPlace,
    /// It may move if it must (`MREMAP_MAYMOVE`).
    MayMove,
    /// It moves there, replacing what is there (`MREMAP_FIXED`).
    Fixed(u64),
}

/// The `madvise` requests that are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No special treatment.
    Normal,
    /// Random access.
    Random,
    /// Sequential access.
    Sequential,
    /// Needed soon.
    WillNeed,
    /// Contents dropped now: zeros, or the file's.
    DontNeed,
    /// Contents may be dropped later.
    Free,
    /// A hole punched in the file or shared memory.
    Remove,
    /// Zeros in a forked child.
    WipeOnFork,
    /// Undoes `WipeOnFork`.
    KeepOnFork,
    /// Large pages wanted.
    HugePage,
    /// Large pages not wanted.
    NoHugePage,
}

impl Advice {
    fn host(self) -> HostAdvice {
        match self {
            Advice::Normal => HostAdvice::Normal,
            Advice::Random => HostAdvice::Random,
            Advice::Sequential => HostAdvice::Sequential,
            Advice::WillNeed => HostAdvice::WillNeed,
            Advice::DontNeed => HostAdvice::LinuxDontNeed,
            Advice::Free => HostAdvice::LinuxFree,
            Advice::Remove => HostAdvice::LinuxRemove,
            Advice::WipeOnFork => HostAdvice::LinuxWipeOnFork,
            Advice::KeepOnFork => HostAdvice::LinuxKeepOnFork,
            Advice::HugePage => HostAdvice::LinuxHugepage,
            Advice::NoHugePage => HostAdvice::LinuxNoHugepage,
        }
    }

    /// Whether memory reads differently afterwards.
    fn changes_contents(self) -> bool {
        matches!(self, Advice::DontNeed | Advice::Free | Advice::Remove)
    }
}

impl UserWindow {
    /// Moves host memory inside the window; the old range is reserved and empty afterwards.
    fn move_host(&self, base: u64, from: u64, len: u64, to: u64) -> Result<(), Errno> {
        let (host_from, host_to) = (host_ptr(base + from), host_ptr(base + to));
        let n = len as usize;
        let flags = MremapFlags::MAYMOVE;
        // SAFETY: both ranges are checked, disjoint ranges of the window. DONTUNMAP keeps the old
        // one occupied until it is reserved; kernels before 5.13 refuse it for files.
        unsafe {
            mremap_fixed(host_from, n, n, flags | MremapFlags::DONTUNMAP, host_to)
                .or_else(|_| mremap_fixed(host_from, n, n, flags, host_to))?;
        }
        self.clear_host(from, from + len)
    }

    /// Moves host memory and lets it grow, for mappings of objects: through a place outside, since
    /// the kernel does not grow what it leaves behind.
    fn move_and_grow_host(
        &self,
        base: u64,
        from: u64,
        len: u64,
        to: u64,
        new_len: u64,
    ) -> Result<(), Errno> {
        let host_from = host_ptr(base + from);
        let n = len as usize;
        let flags = MremapFlags::MAYMOVE;
        // SAFETY: as in `move_host`; the place in between is fresh, and vanishes by the second move.
        unsafe {
            let outside = mremap(host_from, n, n, flags | MremapFlags::DONTUNMAP)
                .or_else(|_| mremap(host_from, n, n, flags))?;
            let grown = mremap_fixed(outside, n, new_len as usize, flags, host_ptr(base + to));
            if grown.is_err() {
                mremap_fixed(outside, n, n, flags, host_from)?;
            }
            grown?;
        }
        self.clear_host(from, from + len)
    }
}

/// Where a file's last page in `[start, end)` needs a tail, found by touching: the file's size is
/// not known here. The distance from `start`, as `tail_of` gives it.
fn probe_tail(base: u64, start: u64, end: u64) -> Option<u64> {
    let readable = |page: u64| {
        // SAFETY: a mapped range of the window.
        unsafe { raw::load_u8(base + start + page * HOST_PAGE).is_some() }
    };
    let pages = (end - start) / HOST_PAGE;
    // Pages are readable up to the file's end and not behind it.
    let (mut low, mut high) = (0, pages);
    while low < high {
        let middle = low + (high - low) / 2;
        if readable(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let at = low * HOST_PAGE;
    (!at.is_multiple_of(PAGE_SIZE) && low < pages).then_some(at)
}

impl AddressSpace {
    /// Changes the size or place of a mapping (`mremap`); gives its new address.
    ///
    /// A mapping of an object (a file or shared memory) grows only by moving.
    pub fn remap(
        &self,
        va: u64,
        old_len: u64,
        new_len: u64,
        place: RemapPlace,
    ) -> Result<u64, MapError> {
        let old_len = round_up(old_len).ok_or(MapError::Invalid)?;
        let new_len = round_up(new_len).ok_or(MapError::Invalid)?;
        // (Linux gives a second mapping of shared memory for an old length of 0.)
        if !va.is_multiple_of(PAGE_SIZE) || new_len == 0 || old_len == 0 {
            return Err(MapError::Invalid);
        }
        let (start, end) = existing_range(va, old_len).map_err(|_| MapError::NotOneMapping)?;
        // (What grows in place is noted with what it grows from.)
        self.journal.note(|| Touched::Map(start, end.max(start.saturating_add(new_len))));
        let map = &mut *self.window.lock();
        map.check_room()?;
        if let RemapPlace::Fixed(to) = place {
            map.check_fixed(to, new_len).map_err(|error| match error {
                MapError::NoMemory => MapError::Invalid,
                other => other,
            })?;
            if to < end && start < to + new_len {
                return Err(MapError::Invalid);
            }
        }
        if !map.regions.is_one_mapping(start, end) {
            return Err(MapError::NotOneMapping);
        }
        // What is cut off goes first, whatever else happens.
        let kept = old_len.min(new_len);
        if kept < old_len {
            self.window.unmap_locked(map, start + kept, end)?;
        }
        let to = match place {
            RemapPlace::Fixed(to) => {
                self.window.unmap_locked(map, to, to + new_len)?;
                to
            }
            _ if kept == new_len => return Ok(start),
            _ if self.grow_in_place(map, start, end, new_len)? => return Ok(start),
            RemapPlace::InPlace => return Err(MapError::NoMemory),
            RemapPlace::MayMove => map.find_free(0, new_len).ok_or(MapError::NoMemory)?,
        };
        self.journal.note(|| Touched::Map(to, to + new_len));
        self.move_locked(map, start, kept, to, new_len)?;
        Ok(to)
    }

    /// Grows private anonymous memory where it is, if the addresses behind it are free.
    fn grow_in_place(
        &self,
        map: &mut Map,
        start: u64,
        end: u64,
        new_len: u64,
    ) -> Result<bool, MapError> {
        let Some(last) = map.regions.clipped(start, end).pop() else { return Ok(false) };
        match start.checked_add(new_len) {
            Some(new_end) if last.file.is_none() && new_end <= map.limit => {
                if map.regions.any_in(end, new_end) {
                    return Ok(false);
                }
                self.extend_anonymous(map, Region { start: end, end: new_end, ..last })?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn extend_anonymous(&self, map: &mut Map, region: Region) -> Result<(), MapError> {
        self.window.map_anonymous(region.start, region.end, region.prot, MapFlags::PRIVATE)?;
        let exec = region.prot.contains(Prot::EXEC);
        self.window.enter(map, region);
        if exec {
            self.window.bump_epoch();
        }
        Ok(())
    }

    /// Moves `[start, start + len)` to `to`, which is free, and lets it grow to `new_len`.
    fn move_locked(
        &self,
        map: &mut Map,
        start: u64,
        len: u64,
        to: u64,
        new_len: u64,
    ) -> Result<(), MapError> {
        let pieces = map.regions.clipped(start, start + len);
        let had_exec = self.window.forbid_fetch(map, start, start + len);
        let mut result: Result<(), MapError> = Ok(());
        let count = pieces.len();
        for (i, piece) in pieces.into_iter().enumerate() {
            let grow = if i + 1 == count { new_len - len } else { 0 };
            result = self.move_piece(map, piece, to.wrapping_sub(start), grow);
            if result.is_err() {
                break;
            }
        }
        if had_exec {
            self.window.bump_epoch();
        }
        result
    }

    /// Moves one region by `shift` (modulo 2^64) and lets it grow by `grow` bytes.
    fn move_piece(
        &self,
        map: &mut Map,
        piece: Region,
        shift: u64,
        grow: u64,
    ) -> Result<(), MapError> {
        let window = &self.window;
        let (old_start, old_end) = (piece.start, piece.end);
        let start = old_start.wrapping_add(shift);
        let end = old_end.wrapping_add(shift);
        let mut moved = Region { start, end, ..piece };
        // The host has a mapping of its own for a tail.
        let tail = if moved.tail { HOST_PAGE } else { 0 };
        let body = old_end - old_start - tail;
        if moved.file.is_some() && grow > 0 {
            // The object's part becomes longer and covers the tail; a new one may be needed.
            let new_len = end + grow - start;
            window.move_and_grow_host(self.base, old_start, body, start, new_len)?;
            window.clear_host(old_end - tail, old_end)?;
            map.regions.remove(old_start, old_end);
            moved.end += grow;
            moved.tail = false;
            // (Without read permission there is no way to tell; then none is made.)
            let readable = moved.prot.intersects(Prot::READ | Prot::WRITE);
            let at = if readable { probe_tail(self.base, start, moved.end) } else { None };
            if let Some(at) = at {
                let flags = if moved.shared { MapFlags::SHARED } else { MapFlags::PRIVATE };
                let at = start + at;
                window.map_anonymous(at, at + HOST_PAGE, moved.prot, flags)?;
            }
            for part in split_tail(moved, at) {
                window.enter(map, part);
            }
            return Ok(());
        }
        window.move_host(self.base, old_start, body, start)?;
        if tail > 0 {
            window.move_host(self.base, old_end - tail, tail, end - tail)?;
        }
        map.regions.remove(old_start, old_end);
        let more = Region { start: end, end: end + grow, ..moved.clone() };
        window.enter(map, moved);
        if grow > 0 { self.extend_anonymous(map, more) } else { Ok(()) }
    }

    /// Passes advice on for the mapped parts of a range (`madvise`). Holes are an error in the end.
    pub fn advise(&self, va: u64, len: u64, advice: Advice) -> Result<(), MapError> {
        let (start, end) = existing_range(va, len)?;
        debug_assert!(end <= WINDOW_SIZE);
        if advice.changes_contents() {
            self.journal.note(|| Touched::Map(start, end));
        }
        let map = &mut *self.window.lock();
        let mut exec = false;
        let mut result: Result<(), MapError> = Ok(());
        for region in map.regions.clipped(start, end) {
            exec |= region.prot.contains(Prot::EXEC);
            let n = (region.end - region.start) as usize;
            // SAFETY: a mapped range of the window; no advice in the list unmaps anything.
            let done = unsafe { madvise(host_ptr(self.base + region.start), n, advice.host()) };
            if let Err(errno) = done {
                result = Err(errno.into());
                break;
            }
        }
        if exec && advice.changes_contents() {
            self.window.bump_epoch();
        }
        result?;
        if map.regions.mapped_until(start, end) < end { Err(MapError::Hole) } else { Ok(()) }
    }
}
