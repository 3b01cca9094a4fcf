//! LDx_L and STx_C (AARM 4.2.4, 4.2.5) as compare-and-swap, for guest threads that are host
//! threads. Called by every engine.
//!
//! The lock range is the aligned block of 16 bytes around the datum, the least that the manual
//! allows. LDx_L remembers both quadwords of the block; STx_C stores only where the quadword that
//! it changes, and the one that was locked, still hold what was remembered. A store of the same
//! value in between therefore goes unnoticed, where hardware would fail the STx_C. Where LDx_L and
//! STx_C name different quadwords of the block, the two comparisons are not one atomic step.

use super::{Cpu, LOCK_FREE};
use crate::mem::{Access, AddressSpace, FaultKind, MemFault};

/// Bytes of the lock range.
pub const LOCK_RANGE: u64 = 16;

/// A 32- or 64-bit datum of LDx_L and STx_C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockSize {
    /// LDL_L, STL_C.
    Longword,
    /// LDQ_L, STQ_C.
    Quadword,
}

impl LockSize {
    const fn bytes(self) -> u64 {
        match self {
            LockSize::Longword => 4,
            LockSize::Quadword => 8,
        }
    }

    /// Alignment is never fixed up by software (AARM 4.2.4 note).
    fn check(self, va: u64, access: Access) -> Result<(), MemFault> {
        if va & (self.bytes() - 1) == 0 {
            Ok(())
        } else {
            Err(MemFault { va, access, why: FaultKind::Unaligned })
        }
    }
}

/// The longword at `va` within the aligned quadword around it, sign-extended.
const fn longword_of(quadword: u64, va: u64) -> u64 {
    (quadword >> ((va & 4) * 8)) as i32 as i64 as u64
}

/// Performs LDx_L: the value for `Ra`. A fault of kind [`FaultKind::Unaligned`] is an alignment
/// trap.
pub fn load_locked(
    cpu: &mut Cpu,
    mem: &AddressSpace,
    va: u64,
    size: LockSize,
) -> Result<u64, MemFault> {
    size.check(va, Access::Load)?;
    let quadword = va & !7;
    let as_asked = |fault: MemFault| MemFault { va, ..fault };
    // The neighbour first: a change after it was read is seen by the compare of STx_C, a change
    // before it is not one.
    let other = mem.load_u64(quadword ^ 8).map_err(as_asked)?;
    let value = mem.load_u64(quadword).map_err(as_asked)?;
    cpu.lock_addr = va;
    cpu.lock_value = value;
    cpu.lock_other = other;
    Ok(match size {
        LockSize::Longword => longword_of(value, va),
        LockSize::Quadword => value,
    })
}

/// Performs STx_C: true if `value` was stored. Clears the lock in every case but an alignment trap.
pub fn store_conditional(
    cpu: &mut Cpu,
    mem: &AddressSpace,
    va: u64,
    value: u64,
    size: LockSize,
) -> Result<bool, MemFault> {
    size.check(va, Access::Store)?;
    let locked = cpu.lock_addr;
    clear(cpu);
    // No lock, or one elsewhere, which the manual leaves UNPREDICTABLE: never stores.
    if locked == LOCK_FREE || locked / LOCK_RANGE != va / LOCK_RANGE {
        return Ok(false);
    }
    let quadword = va & !7;
    let old = if locked & !7 == quadword {
        cpu.lock_value
    } else {
        // The other half of the block: the locked half has to be unchanged, too.
        if mem.load_u64(quadword ^ 8)? != cpu.lock_value {
            return Ok(false);
        }
        cpu.lock_other
    };
    let new = match size {
        LockSize::Quadword => value,
        LockSize::Longword => {
            let shift = (va & 4) * 8;
            old & !(0xffff_ffff << shift) | (value & 0xffff_ffff) << shift
        }
    };
    mem.compare_exchange_u64(quadword, old, new).map_err(|fault| MemFault { va, ..fault })
}

/// Clears the lock flag: what a return from an interrupt or a signal handler does (AARM 4.2.5).
pub fn clear(cpu: &mut Cpu) {
    cpu.lock_addr = LOCK_FREE;
}
