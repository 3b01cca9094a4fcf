//! What an engine made of guest code, found by address and dropped when the code changes.
//!
//! `T` is the engine's own form of a block (handlers, host code, nothing). The engine calls
//! [`BlockCache::sync`] when it is entered and [`BlockCache::invalidate`] when it is told of new
//! code; both keep what decodes from unchanged words, since most IMBs change little or nothing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::{Block, Dialect};
use crate::mem::AddressSpace;

/// Entries of the direct-mapped table in front of the map, as a power of two.
const FRONT_BITS: u32 = 12;

/// Place of `pc` in a direct-mapped table of `1 << bits` entries (at most 32 bits).
///
/// Entry points lie at regular distances (aligned functions, tables of stubs): taken modulo the
/// table's size they would crowd in a fraction of it; the golden ratio spreads them evenly.
#[inline(always)]
pub fn table_slot(pc: u64, bits: u32) -> usize {
    (((pc >> 2) as u32).wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize
}

/// Hash of an address: one multiplication. Guest addresses need no protection from collisions
/// that an attacker chose, only speed.
#[derive(Default)]
pub struct PcHasher(u64);

impl Hasher for PcHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The map takes bucket numbers from the low bits, where a product is weak.
        self.0 = product ^ product >> 32;
    }
}

/// Counters of a [`BlockCache`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// Blocks built.
    pub built: u64,
    /// Instructions in them.
    pub instructions: u64,
    /// Look-ups that the front table could not answer.
    pub front_misses: u64,
    /// Blocks found unchanged by a revalidation.
    pub kept: u64,
    /// Blocks dropped because their words had changed.
    pub dropped: u64,
}

struct Entry<T> {
    block: Block,
    data: T,
}

/// Map from address to block and to what the engine made of it.
pub struct BlockCache<T> {
    front: Box<[(u64, u32)]>,
    map: HashMap<u64, u32, BuildHasherDefault<PcHasher>>,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
    epoch: u64,
    dialect: Option<Dialect>,
    stats: CacheStats,
}

/// No block starts at an odd address.
const NO_PC: u64 = 1;

impl<T> Default for BlockCache<T> {
    fn default() -> Self {
        BlockCache {
            front: vec![(NO_PC, 0); 1 << FRONT_BITS].into(),
            map: HashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            epoch: 0,
            dialect: None,
            stats: CacheStats::default(),
        }
    }
}

impl<T> BlockCache<T> {
    /// Catches up with changes of executable mappings and of the dialect. True if entries were
    /// dropped: then links between translations must be cut.
    pub fn sync(&mut self, mem: &AddressSpace, dialect: Dialect) -> bool {
        let epoch = mem.exec_epoch();
        let mut dropped = false;
        if self.dialect != Some(dialect) {
            self.dialect = Some(dialect);
            dropped = !self.map.is_empty();
            self.clear();
        } else if self.epoch != epoch {
            let (start, end) = mem.epoch_range();
            dropped = self.invalidate(mem, start, end);
        }
        self.epoch = epoch;
        dropped
    }

    /// Drops entries in `[start, end)` whose words are no longer what was decoded; true if any.
    pub fn invalidate(&mut self, mem: &AddressSpace, start: u64, end: u64) -> bool {
        let mut dropped = false;
        for index in 0..self.entries.len() {
            let Some(entry) = &self.entries[index] else { continue };
            if !entry.block.overlaps(start, end) {
                continue;
            }
            if entry.block.is_current(mem) {
                self.stats.kept += 1;
            } else {
                self.map.remove(&entry.block.pc);
                self.entries[index] = None;
                self.free.push(index as u32);
                self.stats.dropped += 1;
                dropped = true;
            }
        }
        if dropped {
            self.front.fill((NO_PC, 0));
        }
        dropped
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.front.fill((NO_PC, 0));
        self.map.clear();
        self.entries.clear();
        self.free.clear();
    }

    /// The entry at `pc`, if there is one.
    #[inline]
    pub fn get(&mut self, pc: u64) -> Option<(&Block, &mut T)> {
        let slot = &mut self.front[table_slot(pc, FRONT_BITS)];
        if slot.0 != pc {
            self.stats.front_misses += 1;
            *slot = (pc, *self.map.get(&pc)?);
        }
        let index = slot.1 as usize;
        self.entries[index].as_mut().map(|entry| (&entry.block, &mut entry.data))
    }

    /// Adds what was made of `block`, replacing an older entry at its address.
    pub fn insert(&mut self, block: Block, data: T) {
        self.stats.built += 1;
        self.stats.instructions += block.insns.len() as u64;
        let pc = block.pc;
        let entry = Some(Entry { block, data });
        if let Some(&index) = self.map.get(&pc) {
            self.entries[index as usize] = entry;
        } else if let Some(index) = self.free.pop() {
            self.entries[index as usize] = entry;
            self.map.insert(pc, index);
        } else {
            self.map.insert(pc, self.entries.len() as u32);
            self.entries.push(entry);
        }
    }

    /// Everything that the engine made, in no order.
    pub fn data_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().flatten().map(|entry| &mut entry.data)
    }

    /// What has happened so far.
    pub fn stats(&self) -> CacheStats {
        self.stats
    }
}
