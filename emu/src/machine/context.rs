//! The hardware process context block and SWPCTX (AARM II-A 4.3).

use super::{Done, Machine, Trouble, system};
use crate::cpu::Vcpu;

/// Offsets in the HWPCB.
const KSP: u64 = 0x00;
const PTBR: u64 = 0x20;
const ASN: u64 = 0x28;
const AST: u64 = 0x30;
/// Floating-point enable and friends.
pub(super) const FEN: u64 = 0x38;
const CC: u64 = 0x40;
const UNQ: u64 = 0x48;

impl Machine {
    /// SWPCTX: saves the context that runs and loads the one at physical address R16.
    pub(super) fn swap_context(&mut self, vcpu: &mut Vcpu) -> Done {
        let new = vcpu.cpu.r[16];
        let fits = system(vcpu).physical().size().checked_sub(128).is_some_and(|end| new <= end);
        if new & 127 != 0 || !fits {
            return Err(Trouble::ReservedOperand);
        }
        if self.ipr.pcbb == 0 {
            self.translate(vcpu);
        } else {
            self.save_context(vcpu);
        }
        self.load_context(vcpu, new);
        self.deliver_pending(vcpu)
    }

    fn save_context(&self, vcpu: &Vcpu) {
        let old = self.ipr.pcbb;
        let physical = system(vcpu).physical();
        let put = |offset, value| physical.store(old + offset, 8, value);
        let sp = [vcpu.cpu.r[30], self.sp[1], self.sp[2], self.sp[3]];
        for (i, value) in sp.into_iter().enumerate() {
            put(KSP + 8 * i as u64, value);
        }
        put(AST, self.ipr.astsr << 4 | self.ipr.asten);
        put(UNQ, vcpu.cpu.unique);
    }

    /// Loads a context; `at` is 128 bytes of RAM.
    pub(super) fn load_context(&mut self, vcpu: &mut Vcpu, at: u64) {
        let memory = system(vcpu);
        let get = |offset| memory.physical().quadword(at + offset).unwrap_or(0);
        let sp = [0, 1, 2, 3].map(|i| get(KSP + 8 * i));
        let (ptbr, asn, ast) = (get(PTBR), get(ASN) & 0xff, get(AST));
        let (flags, unique) = (get(FEN), get(UNQ));
        // The cycle counter's offset is not kept: RPCC counts on through switches.
        let _ = CC;
        memory.set_fp_enabled(flags & 1 != 0);
        memory.set_address_space(ptbr, asn);
        self.sp = sp;
        self.ipr.pcbb = at;
        self.ipr.asn = asn;
        self.ipr.asten = ast & 15;
        self.ipr.astsr = ast >> 4 & 15;
        self.ipr.datfx = flags >> 63;
        vcpu.cpu.unique = unique;
        vcpu.cpu.r[30] = sp[0];
    }
}
