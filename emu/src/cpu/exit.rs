//! Why an engine stopped: guest events as plain data, handled by a personality.

use std::fmt;

use crate::mem::MemFault;

/// An arithmetic trap (AARM 4.7.6): the result has been written and `cpu.pc` is the next
/// instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArithTrap {
    /// Exception summary: SWC 0, INV 1, DZE 2, OVF 3, UNF 4, INE 5, IOV 6.
    pub summary: u64,
    /// Register write mask: bit n is Rn, bit 32 + n is Fn.
    pub write_mask: u64,
    /// Address of the instruction that trapped.
    pub pc: u64,
}

/// Why [`Engine::run`](crate::engine::Engine::run) returned.
///
/// `cpu.pc` is the instruction to restart for faults and the next one for traps and calls; all
/// effects of earlier instructions are visible, none of later ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Somebody set `cpu.poll`: a signal, a timer, Ctrl-C.
    Poll,
    /// The instruction limit was reached.
    Limit,
    /// CALL_PAL with this function code; `pc` is the instruction after it.
    CallPal(u32),
    /// A memory-management fault.
    Fault(MemFault),
    /// A datum that is not naturally aligned, where the access was not completed.
    Unaligned(MemFault),
    /// An arithmetic trap.
    Arith(ArithTrap),
    /// The word does not decode, or the CPU model lacks it (OPCDEC); `pc` is the instruction.
    Illegal(u32),
    /// Floating-point instruction while FEN is clear.
    FpDisabled,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Poll => write!(f, "poll"),
            Exit::Limit => write!(f, "instruction limit"),
            Exit::CallPal(code) => write!(f, "call_pal {code:#x}"),
            Exit::Fault(fault) => write!(f, "{fault}"),
            Exit::Unaligned(fault) => write!(f, "unaligned access: {fault}"),
            Exit::Arith(trap) => {
                write!(f, "arithmetic trap, summary {:#x}, at {:#x}", trap.summary, trap.pc)
            }
            Exit::Illegal(word) => write!(f, "illegal instruction {word:#010x}"),
            Exit::FpDisabled => write!(f, "floating point disabled"),
        }
    }
}
