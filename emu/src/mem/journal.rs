//! What a personality does to guest memory, written down for those who repeat it in another guest:
//! `engine::replay`. Loads and stores of the guest itself are not in it.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::AddressSpace;

/// A range that something was done to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touched {
    /// Bytes may have been written, by the personality or by the host's kernel.
    Bytes(u64, u64),
    /// Pages were mapped, unmapped or thrown away: start and end.
    Map(u64, u64),
    /// The protection of pages was changed.
    Protect(u64, u64),
}

/// Off until it is asked for; then a list.
#[derive(Debug, Default)]
pub(super) struct Journal(OnceLock<Mutex<Vec<Touched>>>);

impl Journal {
    /// Notes what is about to happen, or has happened.
    #[inline]
    pub fn note(&self, touched: impl FnOnce() -> Touched) {
        if let Some(list) = self.0.get() {
            list.lock().unwrap_or_else(PoisonError::into_inner).push(touched());
        }
    }
}

impl AddressSpace {
    /// Begins to keep the journal.
    pub fn start_journal(&self) {
        self.journal.0.get_or_init(Mutex::default);
    }

    /// What has been noted since the last time, in order.
    pub fn take_journal(&self) -> Vec<Touched> {
        match self.journal.0.get() {
            Some(list) => std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner)),
            None => Vec::new(),
        }
    }
}
