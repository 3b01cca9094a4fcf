//! Translations that outlive their engine: what engines look up before they translate, and add what
//! they have translated to. Threads have what others have compiled by it, later runs what earlier ones have.
//!
//! A [`Library`] that is kept is bytes to whoever keeps it: this crate neither opens files nor vouches for them. Whoever
//! does must hand in nothing but what a library of the same build of this program, on a host of the same
//! [`features`](host_features), has given out: the bytes hold host code. Guest code is compared before any of
//! it is used.

mod codec;
mod shelf;

use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, MutexGuard};

use axp_emu::cpu::Vcpu;

use crate::code::forks;
use crate::opt::Mode;
use shelf::{Records, Shelf};

pub(crate) use codec::{Reader, Writer};

/// Bytes that a library grows to.
pub const MOST_BYTES: usize = 64 << 20;
/// Bytes that threads share; then all of it goes, since much may be of code that is no more.
const MOST_SHARED: usize = 32 << 20;
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
#[derive(Debug)]
pub struct Library {
    bytes: Vec<u8>,
    /// Where the contents of records lie, the newest first.
    index: HashMap<Key, Vec<Range<usize>>>,
    /// What was added. A forked child whose parent had locked it gets another.
    shelf: AtomicPtr<Shelf>,
    /// It is for later runs, so it takes what threads make as fast as they would find it: units.
    kept: bool,
    /// The process that made it: what forked children translate is not kept.
    forks: u64,
}

/// A translation that was found.
#[derive(Debug)]
pub(crate) enum Record<'a> {
    /// An earlier run's.
    Kept(&'a [u8]),
    /// This process's.
    Shared(Arc<[u8]>),
}

impl Deref for Record<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Record::Kept(bytes) => bytes,
            Record::Shared(bytes) => bytes,
        }
    }
}

impl Default for Library {
    fn default() -> Self {
        let shelf = AtomicPtr::new(Box::into_raw(Box::new(Shelf::new())));
        Library { bytes: Vec::new(), index: HashMap::new(), shelf, kept: true, forks: forks() }
    }
}

impl Library {
    /// Without translations.
    pub fn new() -> Self {
        Library::default()
    }

    /// For the threads of this process, and nobody after it.
    pub fn of_threads() -> Self {
        let mut library = Library::default();
        library.kept = false;
        library
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
        let mut library = Library::new();
        (library.bytes, library.index) = (bytes, index);
        Some(library)
    }

    /// Whether nothing of an earlier run is in it.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Everything in it, what was added last first, if anything was.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let added = self.added();
        if added.is_empty() {
            return None;
        }
        let mut all = Collected::default();
        for (_, key, contents) in added.all() {
            all.add(key, &contents);
        }
        drop(added);
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

    /// What an earlier run has kept for a key.
    pub(crate) fn find_kept(&self, key: &Key) -> impl Iterator<Item = &[u8]> {
        let places = self.index.get(key).into_iter().flatten();
        places.map(|place| &self.bytes[place.clone()])
    }

    /// What there is for a key, this process's own first.
    pub(crate) fn find(&self, key: &Key) -> impl Iterator<Item = Record<'_>> {
        let own: Vec<_> = self.added().of(key).iter().rev().map(|(_, r)| r.clone()).collect();
        own.into_iter().map(Record::Shared).chain(self.find_kept(key).map(Record::Kept))
    }

    /// A number that grows when there is something new for a key: 0 if there is nothing, 1 if an earlier
    /// run's is all.
    pub(crate) fn newest(&self, key: &Key) -> u64 {
        match self.added().newest(key) {
            0 => u64::from(self.index.contains_key(key)),
            n => n + 1,
        }
    }

    /// Whether units are to be added: a thread translates them as fast as it would find them.
    pub(crate) fn takes_units(&self) -> bool {
        self.kept && self.forks == forks() && self.added().bytes() < MOST_BYTES
    }

    /// Adds a translation.
    pub(crate) fn add(&self, key: Key, contents: &[u8]) {
        let mut added = self.added();
        let bytes = added.bytes() + HEAD + contents.len();
        if self.kept {
            if bytes > MOST_BYTES {
                return;
            }
        } else if bytes > MOST_SHARED {
            added.clear();
            if contents.len() > MOST_SHARED {
                return;
            }
        }
        added.add(key, contents);
    }

    fn added(&self) -> MutexGuard<'_, Records> {
        loop {
            let current = self.shelf.load(Ordering::Acquire);
            // SAFETY: from a box that nobody frees before the library, which is borrowed, goes.
            let shelf = unsafe { &*current };
            if let Some(records) = shelf.lock() {
                return records;
            }
            // Its parent's is left as it is.
            let fresh = Box::into_raw(Box::new(Shelf::new()));
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            if self.shelf.compare_exchange(current, fresh, success, failure).is_err() {
                // SAFETY: made above and seen by nobody.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: from a box, and nobody borrows the library any more.
        let shelf = unsafe { Box::from_raw(*self.shelf.get_mut()) };
        if !shelf.is_own() {
            // Freeing would have the host copy what a forked child shares with its parent.
            std::mem::forget(shelf);
        }
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
        library.find_kept(&key(pc)).collect()
    }

    #[test]
    fn what_is_added_is_there_the_next_time() {
        let library = Library::new();
        assert_eq!(library.to_bytes(), None);
        library.add(key(8), &[1, 2, 3]);
        library.add(key(8), &[1, 2, 3]);
        library.add(key(16), &[]);
        let bytes = library.to_bytes().unwrap();
        assert_eq!(bytes.len(), 2 * HEAD + 3);
        let next = Library::from_bytes(bytes).unwrap();
        assert_eq!(contents(&next, 8), [[1, 2, 3]]);
        assert_eq!(contents(&next, 16), [[]]);
        assert!(next.newest(&key(24)) == 0 && next.to_bytes().is_none());
        // Other code at the same address: both are kept, the newer one is found first, old ones go.
        for n in 0..2 * VARIANTS as u8 {
            next.add(key(8), &[n]);
        }
        let last = Library::from_bytes(next.to_bytes().unwrap()).unwrap();
        let newest = contents(&last, 8);
        assert_eq!(newest.len(), VARIANTS);
        assert_eq!(newest[0], [2 * VARIANTS as u8 - 1]);
        assert_eq!(contents(&last, 16).len(), 1);
    }

    #[test]
    fn what_one_thread_adds_another_finds() {
        let library = Library::of_threads();
        let found = |pc| library.find(&key(pc)).map(|r| r.to_vec()).collect::<Vec<_>>();
        assert_eq!(library.newest(&key(8)), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| library.add(key(8), b"one"));
        });
        let first = library.newest(&key(8));
        assert!(first > 1 && found(8) == [b"one"] && found(16).is_empty());
        library.add(key(8), b"one");
        assert_eq!(library.newest(&key(8)), first);
        library.add(key(8), b"two");
        assert!(library.newest(&key(8)) > first);
        assert_eq!(found(8), [b"two", b"one"]);
        assert!(!library.takes_units() && Library::new().takes_units());
    }

    #[test]
    fn what_threads_share_is_bounded() {
        let library = Library::of_threads();
        let most = |library: &Library| library.added().bytes();
        // The same code again and again, each time another.
        for n in 0..100u8 {
            library.add(key(8), &[n; 1000]);
            assert!(most(&library) <= VARIANTS * (HEAD + 1000));
        }
        let before = library.newest(&key(8));
        for n in 0..200 {
            library.add(key(16 + n), &vec![0; 1 << 20]);
            assert!(most(&library) <= MOST_SHARED);
        }
        library.add(key(0), &vec![0; MOST_SHARED + 1]);
        assert_eq!(library.newest(&key(0)), 0);
        library.add(key(8), &[0; 1000]);
        assert!(library.newest(&key(8)) > before);
    }

    #[test]
    fn what_is_to_be_kept_stays_when_there_is_no_more_room() {
        let library = Library::new();
        for n in 0..200 {
            library.add(key(n), &vec![0; 1 << 20]);
        }
        assert!(library.newest(&key(0)) > 1 && library.newest(&key(199)) == 0);
        assert!(library.to_bytes().unwrap().len() <= MOST_BYTES);
    }

    #[test]
    fn a_forked_child_has_what_there_was_unless_it_was_locked() {
        use std::sync::atomic::AtomicBool;
        let library = Library::of_threads();
        library.add(key(8), b"one");
        let in_child = |check: &dyn Fn() -> bool| {
            // SAFETY: the child touches the library, allocates and ends at once.
            match unsafe { libc::fork() } {
                // SAFETY: ends the child without the test harness.
                0 => unsafe { libc::_exit(i32::from(!check())) },
                child => {
                    let mut status = -1;
                    // SAFETY: the child made above, and a place for its status.
                    unsafe { libc::waitpid(child, &mut status, 0) };
                    assert_eq!(status, 0);
                }
            }
        };
        let works = |pc: u64, there: bool| {
            let found = library.newest(&key(pc)) != 0;
            library.add(key(pc + 8), b"two");
            found == there && library.newest(&key(pc + 8)) != 0
        };
        in_child(&|| works(8, true));
        // While another thread is at work on it.
        let (held, done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = library.added();
                held.store(true, Ordering::Release);
                while !done.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
            while !held.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            in_child(&|| works(8, false));
            done.store(true, Ordering::Release);
        });
        assert!(works(8, true));
    }

    #[test]
    fn what_another_process_has_kept_meanwhile_stays() {
        let (mine, theirs) = (Library::new(), Library::new());
        mine.add(key(8), &[1]);
        theirs.add(key(16), &[2]);
        let theirs = Library::from_bytes(theirs.to_bytes().unwrap()).unwrap();
        let mine = Library::from_bytes(mine.to_bytes().unwrap()).unwrap();
        let both = Library::from_bytes(mine.joined(&theirs)).unwrap();
        assert!(both.newest(&key(8)) == 1 && both.newest(&key(16)) == 1);
    }

    #[test]
    fn bytes_that_are_no_library_are_refused() {
        let library = Library::new();
        library.add(key(8), &[7; 100]);
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
