//! What the engines of one process have translated: found by those of its other threads at once, and by the
//! next run if somebody keeps it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::{HEAD, Key, VARIANTS};
use crate::code::forks;

/// Records under a lock that may be left behind by a fork.
#[derive(Debug)]
pub struct Shelf {
    records: Mutex<Records>,
    /// The process that the lock is sound in.
    forks: AtomicU64,
}

/// A record with its number.
type Numbered = (u64, Arc<[u8]>);

/// Records by key, the newest last, each with its number.
#[derive(Debug, Default)]
pub struct Records {
    by_key: HashMap<Key, Vec<Numbered>>,
    bytes: usize,
    last: u64,
}

impl Shelf {
    pub fn new() -> Self {
        Shelf { records: Mutex::default(), forks: AtomicU64::new(forks()) }
    }

    /// The records. In a forked child `None` if another thread of the parent's had the lock, which nobody
    /// will ever open here; else they are the child's as they were.
    pub fn lock(&self) -> Option<MutexGuard<'_, Records>> {
        let now = forks();
        if self.forks.load(Ordering::Relaxed) == now {
            return Some(self.records.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let guard = match self.records.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.forks.store(now, Ordering::Relaxed);
        Some(guard)
    }

    /// Whether its memory is this process's own.
    pub fn is_own(&self) -> bool {
        self.forks.load(Ordering::Relaxed) == forks()
    }
}

impl Records {
    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Adds one, unless it is there; of more than [`VARIANTS`] of a key the oldest goes.
    pub fn add(&mut self, key: Key, contents: &[u8]) {
        let records = self.by_key.entry(key).or_default();
        if records.iter().any(|(_, known)| **known == *contents) {
            return;
        }
        if records.len() == VARIANTS {
            let (_, oldest) = records.remove(0);
            self.bytes -= HEAD + oldest.len();
        }
        self.last += 1;
        records.push((self.last, contents.into()));
        self.bytes += HEAD + contents.len();
    }

    /// Number of the newest record of a key, 0 if there is none; it only grows, unless they are cleared.
    pub fn newest(&self, key: &Key) -> u64 {
        self.of(key).last().map_or(0, |record| record.0)
    }

    /// Records of a key.
    pub fn of(&self, key: &Key) -> &[Numbered] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// All, the newest first.
    pub fn all(&self) -> Vec<(u64, Key, Arc<[u8]>)> {
        let each = |(key, records): (&Key, &Vec<Numbered>)| {
            records.iter().map(|(n, record)| (*n, *key, record.clone())).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.by_key.iter().flat_map(each).collect();
        all.sort_by_key(|(n, ..)| std::cmp::Reverse(*n));
        all
    }

    /// Forgets all. Numbers go on, so that nobody takes a new record for one that it knows.
    pub fn clear(&mut self) {
        self.by_key.clear();
        self.bytes = 0;
    }
}
