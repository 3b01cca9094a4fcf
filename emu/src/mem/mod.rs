//! Guest memory.

use std::fmt;

/// What an access was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Data read.
    Load,
    /// Data write.
    Store,
    /// Instruction fetch.
    Fetch,
}

/// Why an access failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// Nothing is mapped there.
    Unmapped,
}

/// An access that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemFault {
    /// Virtual address.
    pub va: u64,
    /// What was attempted.
    pub access: Access,
    /// What was wrong.
    pub why: FaultKind,
}

impl fmt::Display for MemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:#x}: {:?}", self.access, self.va, self.why)
    }
}

/// Guest memory, shared by the threads of a guest.
#[derive(Debug)]
pub struct AddressSpace;
