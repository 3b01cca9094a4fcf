//! The process control block and SWPCTX (AARM II-B 4).

use super::{Done, Halt, Processor, Trouble, system};
use crate::cpu::Vcpu;

/// Offsets in the PCB.
const KSP: u64 = 0x00;
const USP: u64 = 0x08;
const PTBR: u64 = 0x10;
/// The longword after the cycle counter.
const ASN: u64 = 0x1c;
const UNIQUE: u64 = 0x20;
/// FEN in bit 0.
pub(super) const FLAGS: u64 = 0x28;
/// Bytes of a PCB.
const SIZE: u64 = 128;

impl Processor {
    /// SWPCTX: saves the context that runs, loads the one at physical address a0, and returns where
    /// the old one is.
    pub(super) fn swap_context(&mut self, vcpu: &mut Vcpu) -> Done {
        let new = vcpu.cpu.r[16];
        let physical = system(vcpu).physical();
        if new & 7 != 0 || physical.size().checked_sub(SIZE).is_none_or(|end| new > end) {
            return Err(Trouble::Halt(Halt::Context(new)));
        }
        let old = self.pcbb;
        physical.store(old + KSP, 8, vcpu.cpu.r[30]);
        physical.store(old + USP, 8, self.usp);
        physical.store(old + UNIQUE, 8, vcpu.cpu.unique);
        self.load_context(vcpu, new);
        vcpu.cpu.r[0] = old;
        Ok(())
    }

    /// Loads a context; `at` is a PCB in RAM. The cycle counter's offset is not kept: RPCC counts on
    /// through switches.
    pub(super) fn load_context(&mut self, vcpu: &mut Vcpu, at: u64) {
        let memory = system(vcpu);
        let get = |offset| memory.physical().quadword(at + offset).unwrap_or(0);
        let (ksp, usp, ptbr, unique) = (get(KSP), get(USP), get(PTBR), get(UNIQUE));
        let asn = memory.physical().load(at + ASN, 4).unwrap_or(0) & 0xff;
        memory.set_fp_enabled(get(FLAGS) & 1 != 0);
        memory.set_address_space(ptbr, asn);
        self.pcbb = at;
        self.usp = usp;
        vcpu.cpu.unique = unique;
        vcpu.cpu.r[30] = ksp;
    }
}
