//! The guest's memory map as a list of ranges: pure bookkeeping, no host calls.
//!
//! `user` keeps it beside the host's mappings, under one lock, and asks it why an access failed.

use super::page::{PAGE_SIZE, Prot};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

/// What a mapping shows: a file, or an object that shared anonymous mappings have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// Device number; 0 for shared anonymous memory.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Offset in the file of the region's first byte.
    pub offset: u64,
}

/// A range of pages with equal properties, as `/proc/PID/maps` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// What the guest may do.
    pub prot: Prot,
    /// Whether stores reach other mappings of the same object.
    pub shared: bool,
    /// The object behind it; `None` for private anonymous memory.
    pub file: Option<FileId>,
    /// The file's path, or a label like `[heap]`.
    pub name: Option<Arc<OsStr>>,
    /// The last host page (the upper half of the last guest page) is anonymous, because the file
    /// ends in the lower half. Guests see the zeros that a kernel with 8 KB pages shows.
    pub(super) tail: bool,
}

impl Region {
    /// Whether `next` goes on where `self` ends, in the object as well as in memory. `tails`:
    /// whether a tail may lie in between (for the guest it does not show).
    fn continues(&self, next: &Region, tails: bool) -> bool {
        let file = match (self.file, next.file) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                (a.dev, a.ino) == (b.dev, b.ino)
                    && b.offset.wrapping_sub(a.offset) == self.end - self.start
            }
            _ => false,
        };
        file && self.end == next.start
            && self.prot == next.prot
            && self.shared == next.shared
            && self.name == next.name
            && (tails || !self.tail)
    }

    /// Cuts the region in two; `self` keeps the lower part.
    pub(super) fn split_off(&mut self, at: u64) -> Region {
        let mut upper = self.clone();
        upper.start = at;
        if let Some(file) = &mut upper.file {
            file.offset = file.offset.wrapping_add(at - self.start);
        }
        self.end = at;
        self.tail = false;
        upper
    }
}

/// The map: disjoint regions by first address, neighbours that belong together merged.
pub(super) struct Regions {
    by_start: BTreeMap<u64, Region>,
    /// Where most searches start, and an address up to which nothing is free from there: a program
    /// with thousands of mappings does not pay for all of them in each search.
    dense: (u64, u64),
}

impl Regions {
    /// An empty map in which searches usually start at `search_base`.
    pub(super) fn new(search_base: u64) -> Self {
        Regions { by_start: BTreeMap::new(), dense: (search_base, search_base) }
    }

    /// Changes where searches usually start.
    pub(super) fn set_search_base(&mut self, search_base: u64) {
        self.dense = (search_base, search_base);
    }

    /// The region that holds `va`.
    pub(super) fn find(&self, va: u64) -> Option<&Region> {
        self.by_start.range(..=va).next_back().map(|(_, r)| r).filter(|r| va < r.end)
    }

    /// The regions that touch `[start, end)`, in order, not cut.
    pub(super) fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Region> {
        let first = self.find(start).filter(|_| start < end).map_or(start, |r| r.start);
        self.by_start.range(first..end.max(first)).map(|(_, r)| r)
    }

    /// The regions in `[start, end)`, cut to it.
    pub(super) fn clipped(&self, start: u64, end: u64) -> Vec<Region> {
        self.overlapping(start, end)
            .map(|r| {
                let mut r = r.clone();
                if r.start < start {
                    r = r.split_off(start);
                }
                if r.end > end {
                    r.split_off(end);
                }
                r
            })
            .collect()
    }

    /// How many mappings the host has for these, the reserved gaps between them included; exact only
    /// beyond `least`, since counting gaps takes a walk.
    pub(super) fn host_mappings(&self, least: usize) -> usize {
        let most = 2 * self.by_start.len() + 1;
        if most <= least {
            return most;
        }
        let mut before = None;
        let gaps = self.by_start.values().filter(|r| before.replace(r.end) != Some(r.start));
        self.by_start.len() + gaps.count() + 1
    }

    /// Whether some region touches `[start, end)`.
    pub(super) fn any_in(&self, start: u64, end: u64) -> bool {
        self.overlapping(start, end).next().is_some()
    }

    /// How far `[start, end)` is mapped without a hole: `end`, or the first unmapped address.
    pub(super) fn mapped_until(&self, start: u64, end: u64) -> u64 {
        let mut at = start;
        for r in self.overlapping(start, end) {
            if r.start > at {
                break;
            }
            at = r.end;
        }
        at.min(end)
    }

    /// Makes `at` a boundary between regions, if it lies inside one.
    fn split_at(&mut self, at: u64) {
        if let Some((_, r)) = self.by_start.range_mut(..at).next_back()
            && at < r.end
        {
            let upper = r.split_off(at);
            self.by_start.insert(at, upper);
        }
    }

    /// Removes `[start, end)` from the map.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        self.split_at(start);
        self.split_at(end);
        if end > self.dense.0 {
            self.dense.1 = self.dense.1.min(start.max(self.dense.0));
        }
        while let Some((&key, _)) = self.by_start.range(start..end.max(start)).next() {
            self.by_start.remove(&key);
        }
    }

    /// Puts a region in, replacing whatever lay there.
    pub(super) fn insert(&mut self, region: Region) {
        let (start, end) = (region.start, region.end);
        self.remove(start, end);
        self.by_start.insert(start, region);
        self.merge_at(end);
        self.merge_at(start);
    }

    /// Joins the regions left and right of `at`, if they belong together.
    fn merge_at(&mut self, at: u64) {
        let Some(right) = self.by_start.get(&at) else { return };
        let Some((_, left)) = self.by_start.range(..at).next_back() else { return };
        if left.continues(right, false) {
            let (key, end, tail) = (left.start, right.end, right.tail);
            self.by_start.remove(&at);
            if let Some(left) = self.by_start.get_mut(&key) {
                left.end = end;
                left.tail = tail;
            }
        }
    }

    /// The first free range of `len` bytes at or above `from`, ending at or below `limit`.
    pub(super) fn first_free(&mut self, from: u64, len: u64, limit: u64) -> Option<u64> {
        let cached = from == self.dense.0;
        let from = if cached { self.dense.1 } else { from };
        let (mut at, mut dense) = (from, from);
        for r in self.overlapping(from, limit) {
            if r.start.saturating_sub(at) >= len {
                break;
            }
            if r.start <= dense {
                dense = r.end;
            }
            at = r.end;
        }
        if cached {
            self.dense.1 = dense;
        }
        (at.checked_add(len)? <= limit).then_some(at)
    }

    /// Whether `[start, end)` is one mapping as the guest's kernel counts them: `mremap` wants it.
    pub(super) fn is_one_mapping(&self, start: u64, end: u64) -> bool {
        let pieces = self.clipped(start, end);
        pieces.first().is_some_and(|r| r.start == start)
            && pieces.last().is_some_and(|r| r.end == end)
            && pieces.windows(2).all(|pair| pair[0].continues(&pair[1], true))
    }

    /// The map as the guest sees it.
    pub(super) fn list(&self) -> Vec<Region> {
        let mut list: Vec<Region> = Vec::with_capacity(self.by_start.len());
        for r in self.by_start.values() {
            match list.last_mut() {
                Some(last) if last.continues(r, true) => {
                    last.end = r.end;
                    last.tail = r.tail;
                }
                _ => list.push(r.clone()),
            }
        }
        list
    }

    /// Debugging aid of the tests: order, disjointness, alignment, merging.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let all: Vec<_> = self.by_start.iter().collect();
        for (key, r) in &all {
            assert_eq!(**key, r.start);
            assert!(r.start < r.end && r.start % PAGE_SIZE == 0 && r.end % PAGE_SIZE == 0);
        }
        for pair in all.windows(2) {
            assert!(pair[0].1.end <= pair[1].1.start, "regions overlap");
            assert!(!pair[0].1.continues(pair[1].1, false), "unmerged neighbours");
        }
    }
}

/// How far the file's part of `len` bytes (whole guest pages) that starts at `offset` reaches on
/// the host: `Some(at)` if the last host page of some guest page lies behind the file's end and
/// has to be filled, at that distance.
pub(super) fn tail_of(offset: u64, len: u64, file_size: u64, host_page: u64) -> Option<u64> {
    let shown = file_size.checked_sub(offset).filter(|&n| n > 0)?;
    let at = shown.checked_add(host_page - 1)? & !(host_page - 1);
    (!at.is_multiple_of(PAGE_SIZE) && at < len).then_some(at)
}
