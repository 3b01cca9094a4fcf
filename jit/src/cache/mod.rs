//! Translations that outlive their process: what engines look up before they translate, and add what
//! they have translated to.
//!
//! A [`Library`] is bytes to whoever keeps it: this crate neither opens files nor vouches for them. Whoever
//! does must hand in nothing but what a library of the same build of this program, on a host of the same
//! [`features`](host_features), has given out: the bytes hold host code. Guest code is compared before any of
//! it is used.

mod codec;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axp_emu::cpu::Vcpu;

use crate::code::forks;
use crate::opt::Mode;

pub(crate) use codec::{Reader, Writer};

/// Bytes that a library grows to.
pub const MOST_BYTES: usize = 64 << 20;
/// Translations of one address that are kept: code may be another each time.
const VARIANTS: usize = 4;
/// Bytes before a record's contents: its length and its key.
const HEAD: usize = 4 + KEY;
const KEY: usize = 13;

/// What a record holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    /// A region of the optimising tier.
    Region = 1,
    /// A unit of templates.
    Unit = 2,
    /// The same, whose entries count.
    CountingUnit = 3,
}

/// What a translation is looked up by, beside the guest's code itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    kind: u8,
    mode: u16,
    model: u8,
    pal: u8,
    pc: u64,
}

impl Key {
    /// The key of code for `vcpu`; `None` for what is not kept: translated memory's.
    pub fn new(kind: Kind, mode: Mode, vcpu: &Vcpu, pc: u64) -> Option<Key> {
        let mode = flags(mode)?;
        Some(Key { kind: kind as u8, mode, model: vcpu.model as u8, pal: vcpu.pal as u8, pc })
    }

    fn to_bytes(self) -> [u8; KEY] {
        let mut bytes = [0; KEY];
        bytes[0] = self.kind;
        bytes[1..3].copy_from_slice(&self.mode.to_le_bytes());
        (bytes[3], bytes[4]) = (self.model, self.pal);
        bytes[5..].copy_from_slice(&self.pc.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; KEY]) -> Key {
        let &[kind, mode0, mode1, model, pal, ref pc @ ..] = bytes;
        let mode = u16::from_le_bytes([mode0, mode1]);
        Key { kind, mode, model, pal, pc: u64::from_le_bytes(*pc) }
    }
}

/// All of a mode as a number, for code that is kept; `None` for translated memory's, which is not.
fn flags(mode: Mode) -> Option<u16> {
    // Nothing is left out, so that a new field cannot be forgotten here.
    let Mode {
        counted,
        based,
        precise,
        observed,
        strict,
        exact_fp,
        dynamic_nearest,
        unmasked,
        space,
        inline_probe,
        elide_probe,
    } = mode;
    let flags = [counted, based, precise, observed, strict, exact_fp, dynamic_nearest, unmasked];
    let flags = flags.into_iter().chain([inline_probe, elide_probe]);
    (space == 0).then(|| flags.fold(0, |all, flag| all << 1 | u16::from(flag)))
}

/// Translations of one program, shared by the engines of its threads.
#[derive(Debug, Default)]
pub struct Library {
    bytes: Vec<u8>,
    /// Where the contents of records lie, the newest first.
    index: HashMap<Key, Vec<Range<usize>>>,
    added: Mutex<Added>,
    forks: u64,
}

#[derive(Debug, Default)]
struct Added {
    records: Vec<(Key, Vec<u8>)>,
    /// Hashes of all of them: threads translate the same code.
    hashes: HashSet<u64>,
    hasher: RandomState,
    bytes: usize,
}

impl Library {
    /// Without translations.
    pub fn new() -> Self {
        Library { forks: forks(), ..Library::default() }
    }

    /// What [`to_bytes`](Self::to_bytes) gave; `None` if these bytes are none such.
    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let mut index: HashMap<Key, Vec<Range<usize>>> = HashMap::new();
        let mut at = 0;
        while at < bytes.len() {
            let (head, _) = bytes[at..].split_first_chunk::<HEAD>()?;
            let (len, key) = head.split_first_chunk::<4>()?;
            let start = at + HEAD;
            at = start.checked_add(u32::from_le_bytes(*len) as usize)?;
            if at > bytes.len() {
                return None;
            }
            index.entry(Key::from_bytes(key.first_chunk()?)).or_default().push(start..at);
        }
        Some(Library { bytes, index, ..Library::new() })
    }

    /// Whether nothing can be found in it.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Everything in it, what was added last first, if anything was.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let added = self.added()?;
        if added.records.is_empty() {
            return None;
        }
        let mut all = Collected::default();
        for (key, contents) in added.records.iter().rev() {
            all.add(*key, contents);
        }
        all.add_loaded(self);
        Some(all.bytes)
    }

    /// What was in it from the start, and of another one what it has not.
    pub fn joined(&self, other: &Library) -> Vec<u8> {
        let mut all = Collected::default();
        all.add_loaded(self);
        all.add_loaded(other);
        all.bytes
    }

    /// Whether there is something for a key.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.index.contains_key(key)
    }

    /// What there is for a key.
    pub(crate) fn find(&self, key: &Key) -> impl Iterator<Item = &[u8]> {
        let places = self.index.get(key).into_iter().flatten();
        places.map(|place| &self.bytes[place.clone()])
    }

    /// Whether what is added now will be kept.
    pub(crate) fn takes(&self) -> bool {
        self.added().is_some_and(|added| added.bytes < MOST_BYTES)
    }

    /// Adds a translation.
    pub(crate) fn add(&self, key: Key, contents: Vec<u8>) {
        let Some(mut added) = self.added() else { return };
        let hash = added.hasher.hash_one((key, &contents));
        if added.bytes + contents.len() <= MOST_BYTES && added.hashes.insert(hash) {
            added.bytes += HEAD + contents.len();
            added.records.push((key, contents));
        }
    }

    /// What was added, but in a forked child, in which nobody may ever open the lock again and whose
    /// translations are not kept.
    fn added(&self) -> Option<MutexGuard<'_, Added>> {
        let own = self.forks == forks();
        own.then(|| self.added.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    variants: HashMap<Key, Vec<Range<usize>>>,
}

impl Collected {
    fn add_loaded(&mut self, library: &Library) {
        let mut old: Vec<_> = library.index.iter().collect();
        // Programs reach much the same places in the same order again.
        old.sort_by_key(|(_, places)| places[0].start);
        for (key, places) in old {
            places.iter().for_each(|place| self.add(*key, &library.bytes[place.clone()]));
        }
    }

    fn add(&mut self, key: Key, contents: &[u8]) {
        let there = self.variants.entry(key).or_default();
        let known = there.iter().any(|place| self.bytes[place.clone()] == *contents);
        let full = self.bytes.len() + HEAD + contents.len() > MOST_BYTES;
        if known || full || there.len() == VARIANTS {
            return;
        }
        let Ok(len) = u32::try_from(contents.len()) else { return };
        self.bytes.extend(len.to_le_bytes());
        self.bytes.extend(key.to_bytes());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(contents);
        there.push(start..self.bytes.len());
    }
}

/// What the code generators may ask of the host's processor, as bytes that are the same on equal hosts.
pub fn host_features() -> Vec<u8> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let mut bytes = Vec::new();
    let mut note = |words: [u32; 3]| words.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    let vendor = __cpuid(0);
    note([vendor.ebx, vendor.ecx, vendor.edx]);
    let basic = __cpuid(1);
    note([basic.eax, basic.ecx, basic.edx]);
    if vendor.eax >= 7 {
        let more = __cpuid_count(7, 0);
        note([more.ebx, more.ecx, more.edx]);
    }
    if __cpuid(0x8000_0000).eax >= 0x8000_0001 {
        let extended = __cpuid(0x8000_0001);
        note([extended.ecx, extended.edx, 0]);
    }
    // What the host's kernel lets programs use of that.
    let usable = [
        is_x86_feature_detected!("avx"),
        is_x86_feature_detected!("avx2"),
        is_x86_feature_detected!("avx512f"),
    ];
    bytes.extend(usable.map(u8::from));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pc: u64) -> Key {
        Key { kind: Kind::Region as u8, mode: 3, model: 2, pal: 0, pc }
    }

    fn contents(library: &Library, pc: u64) -> Vec<&[u8]> {
        library.find(&key(pc)).collect()
    }

    #[test]
    fn what_is_added_is_there_the_next_time() {
        let library = Library::new();
        assert_eq!(library.to_bytes(), None);
        library.add(key(8), vec![1, 2, 3]);
        library.add(key(8), vec![1, 2, 3]);
        library.add(key(16), vec![]);
        let bytes = library.to_bytes().unwrap();
        assert_eq!(bytes.len(), 2 * HEAD + 3);
        let next = Library::from_bytes(bytes).unwrap();
        assert_eq!(contents(&next, 8), [[1, 2, 3]]);
        assert_eq!(contents(&next, 16), [[]]);
        assert!(!next.has(&key(24)) && next.to_bytes().is_none());
        // Other code at the same address: both are kept, the newer one is found first, old ones go.
        for n in 0..2 * VARIANTS as u8 {
            next.add(key(8), vec![n]);
        }
        let last = Library::from_bytes(next.to_bytes().unwrap()).unwrap();
        let newest = contents(&last, 8);
        assert_eq!(newest.len(), VARIANTS);
        assert_eq!(newest[0], [2 * VARIANTS as u8 - 1]);
        assert_eq!(contents(&last, 16).len(), 1);
    }

    #[test]
    fn what_another_process_has_kept_meanwhile_stays() {
        let (mine, theirs) = (Library::new(), Library::new());
        mine.add(key(8), vec![1]);
        theirs.add(key(16), vec![2]);
        let theirs = Library::from_bytes(theirs.to_bytes().unwrap()).unwrap();
        let mine = Library::from_bytes(mine.to_bytes().unwrap()).unwrap();
        let both = Library::from_bytes(mine.joined(&theirs)).unwrap();
        assert!(both.has(&key(8)) && both.has(&key(16)));
    }

    #[test]
    fn bytes_that_are_no_library_are_refused() {
        let library = Library::new();
        library.add(key(8), vec![7; 100]);
        let bytes = library.to_bytes().unwrap();
        for len in 1..bytes.len() {
            assert!(Library::from_bytes(bytes[..len].to_vec()).is_none(), "{len} bytes");
        }
        assert!(Library::from_bytes(Vec::new()).unwrap().is_empty());
    }

    #[test]
    fn a_host_has_features_and_keeps_them() {
        assert!(host_features().len() > 24);
        assert_eq!(host_features(), host_features());
    }
}
