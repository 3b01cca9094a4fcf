//! The vocabulary of guest memory: page and window sizes, protections, faults, errors.
//!
//! Every layer above uses these plain values; none of them touches memory.

use bitflags::bitflags;
use rustix::io::Errno;
use std::fmt;

/// Size of a guest page: Linux/Alpha uses the smallest size of AARM II-A 3.1, 8 KB.
pub const PAGE_SIZE: u64 = 8192;

/// Bytes that a user program can address: `TASK_SIZE` of Linux/Alpha.
pub const WINDOW_SIZE: u64 = 1 << 42;

/// Unmapped host memory kept beyond the window, so that a checked base register may carry any
/// 32-bit displacement (and some indexing) without a second check.
pub const GUARD_SIZE: u64 = 64 << 30;

/// Page size of the host, half of the guest's: the reason for [`Region`](super::Region) tails.
pub(super) const HOST_PAGE: u64 = 4096;

bitflags! {
    /// What the guest may do with a page.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Prot: u8 {
        /// Loads are allowed.
        const READ = 1;
        /// Stores are allowed, and loads too (Linux/Alpha has no write-only pages).
        const WRITE = 2;
        /// Instructions may be fetched.
        const EXEC = 4;
    }
}

impl Prot {
    /// Whether a page with this protection allows `access`.
    #[inline]
    pub fn allows(self, access: Access) -> bool {
        match access {
            Access::Load => self.intersects(Prot::READ | Prot::WRITE),
            Access::Store => self.contains(Prot::WRITE),
            Access::Fetch => self.contains(Prot::EXEC),
        }
    }
}

impl fmt::Display for Prot {
    /// The three letters of `/proc/PID/maps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bit = |flag, c| if self.contains(flag) { c } else { '-' };
        write!(f, "{}{}{}", bit(Prot::READ, 'r'), bit(Prot::WRITE, 'w'), bit(Prot::EXEC, 'x'))
    }
}

/// The kind of reference that an instruction or a system call makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A Dstream read.
    Load,
    /// A Dstream write.
    Store,
    /// An Istream read.
    Fetch,
}

/// Why a reference failed; the personality turns it into a signal and code, or an error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Nothing is mapped there (`SEGV_MAPERR`).
    Unmapped,
    /// Something is mapped, but its protection forbids the access (`SEGV_ACCERR`).
    Protected,
    /// The address is outside the window, where no user program can have memory.
    OutOfWindow,
    /// The page is mapped, but its file ends before it (`BUS_ADRERR`).
    BusError,
    /// The access needs an alignment that the address lacks (`BUS_ADRALN`).
    Unaligned,
    /// Privileged machine: the access mode lacks the right (ACV).
    AccessViolation,
    /// Privileged machine: the page or a page table is not valid (TNV).
    NotValid,
    /// Privileged machine: fault on read (FOR).
    OnRead,
    /// Privileged machine: fault on write (FOW).
    OnWrite,
    /// Privileged machine: fault on execute (FOE).
    OnExecute,
    /// Privileged machine: nothing answers at the physical address.
    MachineCheck,
}

/// A failed reference, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemFault {
    /// Guest address: the operand's for single accesses, the first bad byte's for copies.
    pub va: u64,
    /// What was tried.
    pub access: Access,
    /// Why it failed.
    pub why: FaultKind,
}

impl fmt::Display for MemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.access {
            Access::Load => "load from",
            Access::Store => "store to",
            Access::Fetch => "fetch from",
        };
        let why = match self.why {
            FaultKind::Unmapped => "not mapped",
            FaultKind::Protected => "protected",
            FaultKind::OutOfWindow => "outside the user address space",
            FaultKind::BusError => "beyond the end of the mapped file",
            FaultKind::Unaligned => "unaligned",
            FaultKind::AccessViolation => "access violation",
            FaultKind::NotValid => "translation not valid",
            FaultKind::OnRead => "fault on read",
            FaultKind::OnWrite => "fault on write",
            FaultKind::OnExecute => "fault on execute",
            FaultKind::MachineCheck => "no such physical address",
        };
        write!(f, "{what} {:#x}: {why}", self.va)
    }
}

impl std::error::Error for MemFault {}

/// Why a change of the memory map was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// A misaligned address, an empty length, or a combination that makes no sense.
    #[error("invalid address, length or flags")]
    Invalid,
    /// The range does not lie in the window, or no free range is long enough.
    #[error("no address space left, or the range is outside the window")]
    NoMemory,
    /// A part of the range is not mapped (`mprotect` and `madvise` say ENOMEM here).
    #[error("part of the range is not mapped")]
    Hole,
    /// The old range of a `remap` is not one mapping.
    #[error("the range is not one mapping")]
    NotOneMapping,
    /// [`Place::FixedNoReplace`](super::Place) would have replaced something.
    #[error("something is mapped there already")]
    Exists,
    /// Below the lowest address that a user may map.
    #[error("below the lowest mappable address")]
    TooLow,
    /// File offset and length overflow.
    #[error("file offset too large")]
    Overflow,
    /// The host's kernel refused.
    #[error("host: {0}")]
    Host(Errno),
}

impl MapError {
    /// The error as the host's kernel names it, which is what the system call would have given.
    pub fn errno(self) -> Errno {
        match self {
            MapError::Invalid => Errno::INVAL,
            MapError::NoMemory | MapError::Hole => Errno::NOMEM,
            MapError::NotOneMapping => Errno::FAULT,
            MapError::Exists => Errno::EXIST,
            MapError::TooLow => Errno::PERM,
            MapError::Overflow => Errno::OVERFLOW,
            MapError::Host(errno) => errno,
        }
    }
}

impl From<Errno> for MapError {
    fn from(errno: Errno) -> Self {
        MapError::Host(errno)
    }
}

/// Why a window could not be reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// An identity window exists in this process already.
    #[error("the identity window is taken: a process has only one")]
    AlreadyTaken,
    /// Something of the host's lies in the guest's range.
    #[error("the range {start:#x}-{end:#x} of the guest's window is in use by the host: {what}")]
    InTheWay {
        /// First host address in use.
        start: u64,
        /// Its end.
        end: u64,
        /// The line of the host's map that names it.
        what: String,
    },
    /// The host's limit on address space is too small.
    #[error("cannot reserve 4 TB of address space (is `ulimit -v` set?): {0}")]
    Host(Errno),
    /// The fault handlers could not be installed.
    #[error("cannot install the fault handlers: {0}")]
    Handler(Errno),
}

/// Rounds up to a guest page; `None` on overflow.
#[inline]
pub(super) fn round_up(value: u64) -> Option<u64> {
    Some(value.checked_add(PAGE_SIZE - 1)? & !(PAGE_SIZE - 1))
}
