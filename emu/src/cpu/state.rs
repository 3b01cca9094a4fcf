//! Architectural state of a processor, laid out so that compiled code addresses it by offset.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::isa::{CpuModel, PalVariant};
use crate::mem::AddressSpace;

/// Value of [`Cpu::lock_addr`] when no LDx_L lock is held.
pub const LOCK_FREE: u64 = u64::MAX;

/// Number of words in [`Cpu::engine`].
pub const ENGINE_WORDS: usize = 32;

/// Registers and flags of one processor. Slot 31 of each file reads as zero and is never written;
/// slot 32 takes what is written to R31 or F31 and is never read.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Cpu {
    /// Integer registers R0..R30, zero, sink.
    pub r: [u64; 33],
    /// Set by anyone who wants compiled code to return at its next poll; see [`Cpu::POLL_ENGINE`].
    pub poll: AtomicU32,
    /// Reserved, keeps the following fields aligned.
    pub pad: u32,
    /// Floating-point registers F0..F30 in register (T or G) format, zero, sink.
    pub f: [u64; 33],
    /// Program counter, longword aligned.
    pub pc: u64,
    /// Floating-point control register as stored: SUM is derived when it is read (AARM 4.7.8).
    pub fpcr: u64,
    /// Process-unique value of RDUNIQ and WRUNIQ: the thread pointer.
    pub unique: u64,
    /// Virtual address of the datum that LDx_L locked, or [`LOCK_FREE`].
    pub lock_addr: u64,
    /// The aligned quadword that holds the locked datum, as LDx_L read it.
    pub lock_value: u64,
    /// Flag that RS sets and RC clears (AARM 4.12).
    pub intr_flag: u64,
    /// Instructions retired; kept by counted runs only.
    pub count: u64,
    /// Words that the running engine keeps beside the registers, so that its host code reaches
    /// them from the same pointer. Their meaning is the engine's own.
    pub engine: [u64; ENGINE_WORDS],
    /// The other quadword of the 16-byte lock range, as LDx_L read it.
    pub lock_other: u64,
}

impl Default for Cpu {
    fn default() -> Self {
        Cpu {
            r: [0; 33],
            poll: AtomicU32::new(0),
            pad: 0,
            f: [0; 33],
            pc: 0,
            fpcr: 0x680e_8000_0000_0000,
            unique: 0,
            lock_addr: LOCK_FREE,
            lock_value: 0,
            intr_flag: 0,
            count: 0,
            engine: [0; ENGINE_WORDS],
            lock_other: 0,
        }
    }
}

impl Cpu {
    /// Bit of [`poll`](Self::poll) by which an engine's own helper asks for the engine's attention,
    /// which is no event of the guest's.
    pub const POLL_ENGINE: u32 = 2;

    /// Asks the engine that runs this processor to return [`Exit::Poll`](super::Exit::Poll).
    pub fn request_poll(&self) {
        self.poll.fetch_or(1, Ordering::Release);
    }

    /// Has compiled code return to its dispatcher at its next poll, and the engine go on.
    pub fn request_look(&self) {
        self.poll.fetch_or(Self::POLL_ENGINE, Ordering::Release);
    }

    /// Takes back a poll request; true if there was one.
    pub fn take_poll(&self) -> bool {
        // Mostly there is none, and a plain load is cheaper than an exchange.
        self.poll.load(Ordering::Relaxed) != 0 && self.poll.swap(0, Ordering::Acquire) & 1 != 0
    }
}

/// What becomes of a load or store of an unaligned datum, other than LDx_L, STx_C and the VAX
/// floating-point ones, which always stop with [`Exit::Unaligned`](super::Exit::Unaligned).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UnalignedPolicy {
    /// Performed, as the operating system's fix-up would (the default of Linux).
    #[default]
    Fixup,
    /// [`Exit::Unaligned`](super::Exit::Unaligned) with nothing done.
    Trap,
}

/// A processor and the memory it sees. One per guest thread; memory is shared between them.
pub struct Vcpu {
    /// Registers and flags.
    pub cpu: Box<Cpu>,
    /// Guest memory.
    pub mem: Arc<AddressSpace>,
    /// Which instructions exist.
    pub model: CpuModel,
    /// What CALL_PAL functions mean.
    pub pal: PalVariant,
    /// Whether a fault shows every register exactly. A personality sets it when somebody can look:
    /// a handler of the guest, a debugger. Otherwise an engine owes `pc` and the address only,
    /// since such a fault ends the program. May be changed between two calls of an engine.
    pub precise: bool,
    /// Whether somebody may look at the registers other than by executing on from `pc`: a signal
    /// handler of the guest at its frame, a debugger, a test. If not, an engine that stops between
    /// two instructions owes only the registers that the code ahead of it can still read. Faults
    /// are a matter of `precise`. May be changed between two calls of an engine.
    pub observed: bool,
    /// Whether unaligned data trap. May be changed between two calls of an engine.
    pub unaligned: UnalignedPolicy,
    /// Set by an engine when it is entered: instructions are being counted in `cpu.count`, and
    /// RPCC answers with that number, so that counted runs repeat exactly.
    pub counted: bool,
}

impl fmt::Debug for Vcpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vcpu")
            .field("cpu", &self.cpu)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl Vcpu {
    /// A processor in its start-up state: registers zero, FPCR as Linux hands it to a program.
    pub fn new(mem: Arc<AddressSpace>, model: CpuModel) -> Self {
        Vcpu {
            cpu: Box::default(),
            mem,
            model,
            pal: PalVariant::Osf1,
            precise: false,
            observed: true,
            unaligned: UnalignedPolicy::default(),
            counted: false,
        }
    }
}
