//! Internal processor registers (AARM II-A 5) and the calls that move to and from them.

use super::{Done, KERNEL, Machine, Trouble, ps, system};
use crate::cpu::Vcpu;
use crate::isa::Vms;

/// Registers that PALcode keeps and no instruction names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Registers {
    pub asn: u64,
    pub asten: u64,
    pub astsr: u64,
    pub datfx: u64,
    pub mces: u64,
    pub pcbb: u64,
    pub prbr: u64,
    pub scbb: u64,
    pub sisr: u64,
    pub sysptbr: u64,
    pub virbnd: u64,
    pub vptb: u64,
    pub perfmon: u64,
    /// The guest has lowered IPL once, so it means to be interrupted.
    pub clock_used: bool,
}

/// What MFPR_TBCHK answers: not implemented, so the guest has to assume nothing.
const TBCHK_UNKNOWN: u64 = 1 << 63;

/// MTPR_ASTEN and MTPR_ASTSR: keep the bits of R16<3:0>, set those of R16<7:4>.
fn ast_write(register: &mut u64, value: u64) -> u64 {
    std::mem::replace(register, *register & value & 15 | value >> 4 & 15)
}

impl Machine {
    /// MFPR and MTPR; `None` if the call is not one of them.
    pub(super) fn move_register(&mut self, vcpu: &mut Vcpu, call: Vms) -> Option<Done> {
        use Vms::*;
        let value = vcpu.cpu.r[16];
        let i = &mut self.ipr;
        let read = match call {
            MfprAsn => i.asn,
            MfprAsten => i.asten,
            MfprAstsr => i.astsr,
            MfprEsp => self.sp[1],
            MfprSsp => self.sp[2],
            MfprUsp => self.sp[3],
            MfprFen => u64::from(system(vcpu).fp_enabled()),
            MfprIpl => self.ps >> ps::IPL_SHIFT & 31,
            MfprMces => i.mces,
            MfprPcbb => i.pcbb,
            MfprPrbr => i.prbr,
            MfprPtbr => system(vcpu).ptbr(),
            MfprScbb => i.scbb,
            MfprSisr => i.sisr,
            MfprSysptbr => i.sysptbr,
            MfprTbchk => TBCHK_UNKNOWN,
            MfprVirbnd => i.virbnd,
            MfprVptb => i.vptb,
            MfprWhami => self.whami,
            _ => return self.write_register(vcpu, call, value),
        };
        vcpu.cpu.r[0] = read;
        Some(Ok(()))
    }

    fn write_register(&mut self, vcpu: &mut Vcpu, call: Vms, value: u64) -> Option<Done> {
        use Vms::*;
        let i = &mut self.ipr;
        let memory = system(vcpu);
        match call {
            MtprAsten | MtprAstsr => {
                let register = if call == MtprAsten { &mut i.asten } else { &mut i.astsr };
                vcpu.cpu.r[0] = ast_write(register, value);
                return Some(self.deliver_pending(vcpu));
            }
            MtprDatfx => i.datfx = value & 1,
            MtprEsp => self.sp[1] = value,
            MtprSsp => self.sp[2] = value,
            MtprUsp => self.sp[3] = value,
            MtprFen => {
                memory.set_fp_enabled(value & 1 != 0);
                return Some(self.note_fen(vcpu, value & 1));
            }
            MtprIpir => self.board.post_ipi(value),
            MtprIpl => {
                vcpu.cpu.r[0] = self.ps >> ps::IPL_SHIFT & 31;
                let level = (value & 31) << ps::IPL_SHIFT;
                self.ps = self.ps & !(31 << ps::IPL_SHIFT) | level;
                self.ipr.clock_used |= value & 31 < 22;
                return Some(self.deliver_pending(vcpu));
            }
            // Writing ones clears the error bits; the rest is stored (AARM II-A 5.3.9).
            MtprMces => i.mces = i.mces & !value & 7 | value & 0x18,
            MtprPrbr => i.prbr = value,
            MtprScbb => i.scbb = value & 0xffff_ffff,
            MtprSirr => {
                if (1..16).contains(&(value & 15)) {
                    i.sisr |= 1 << (value & 15);
                }
                return Some(self.deliver_pending(vcpu));
            }
            MtprSysptbr => i.sysptbr = value,
            MtprTbia | MtprTbiap => memory.invalidate_all(),
            MtprTbis | MtprTbisi => memory.invalidate_page(value, true),
            MtprTbisd => memory.invalidate_page(value, false),
            MtprVirbnd => i.virbnd = value,
            MtprVptb => i.vptb = value,
            MtprPerfmon => i.perfmon = value,
            _ => return None,
        }
        Some(Ok(()))
    }

    /// FEN is also a bit of the hardware process context.
    fn note_fen(&self, vcpu: &Vcpu, fen: u64) -> Done {
        let at = self.ipr.pcbb + super::context::FEN;
        let physical = system(vcpu).physical();
        if self.ipr.pcbb != 0
            && let Some(old) = physical.quadword(at)
        {
            physical.store(at, 8, old & !1 | fen);
        }
        Ok(())
    }

    /// SWASTEN: the enable bit of the current mode (AARM II-A 4.1).
    pub(super) fn swap_ast_enable(&mut self, vcpu: &mut Vcpu) -> Done {
        let bit = self.mode();
        let cpu = &mut *vcpu.cpu;
        let new = cpu.r[16] & 1;
        cpu.r[0] = self.ipr.asten >> bit & 1;
        self.ipr.asten = self.ipr.asten & !(1 << bit) | new << bit;
        self.deliver_pending(vcpu)
    }

    /// CLRFEN: an outer mode gives up the floating-point unit.
    pub(super) fn clear_fen(&mut self, vcpu: &mut Vcpu) -> Done {
        system(vcpu).set_fp_enabled(false);
        self.note_fen(vcpu, 0)
    }

    /// LDQP and STQP address physical memory.
    pub(super) fn physical_access(&mut self, vcpu: &mut Vcpu, store: bool) -> Done {
        debug_assert_eq!(self.mode(), KERNEL, "checked before the call");
        let cpu = &mut *vcpu.cpu;
        let (pa, value) = (cpu.r[16], cpu.r[17]);
        if pa & 7 != 0 {
            return Err(Trouble::ReservedOperand);
        }
        let mem = &vcpu.mem;
        let Some(system) = mem.system() else { return Err(Trouble::Reserved) };
        if store {
            system.physical().store(pa, 8, value);
        } else {
            cpu.r[0] = system.physical().load(pa, 8).unwrap_or(u64::MAX);
        }
        Ok(())
    }
}
