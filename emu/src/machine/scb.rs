//! The system control block: how a fault, trap, interrupt or change of mode becomes a frame on a
//! stack, and how REI takes it back (AARM II-A 6).

use super::{Done, HaltReason, KERNEL, Machine, Mode, Trouble, ps, system};
use crate::cpu::{Vcpu, lock};

/// Offsets in the SCB (AARM II-A 6.6).
#[allow(missing_docs, reason = "each is the manual's name")]
pub mod vector {
    pub const FEN: u64 = 0x010;
    pub const ACV: u64 = 0x080;
    pub const TNV: u64 = 0x090;
    pub const FOR: u64 = 0x0a0;
    pub const FOW: u64 = 0x0b0;
    pub const FOE: u64 = 0x0c0;
    pub const ARITH: u64 = 0x200;
    /// Kernel; the outer modes' follow.
    pub const AST: u64 = 0x240;
    pub const ALIGN: u64 = 0x280;
    pub const BPT: u64 = 0x400;
    pub const BUGCHK: u64 = 0x410;
    pub const OPCDEC: u64 = 0x420;
    pub const RESERVED_OPERAND: u64 = 0x430;
    pub const GENTRAP: u64 = 0x440;
    /// CHMK; CHME, CHMS and CHMU follow.
    pub const CHM: u64 = 0x480;
    /// Level 0; a software interrupt's level is 1 to 15.
    pub const SOFTWARE: u64 = 0x500;
    pub const CLOCK: u64 = 0x600;
    pub const IPI: u64 = 0x610;
    pub const PMCHK: u64 = 0x670;
}

/// Where SP_ALIGN stands in a saved PS.
const ALIGN_SHIFT: u32 = 56;
/// What PS may hold in a frame that an outer mode returns by: SP_ALIGN, CM, SW.
const OUTER_LEGAL: u64 = 0x3f00_0000_0000_001b;
/// Bytes of a frame: R2 to R7, PC, PS.
const FRAME: u64 = 64;

/// Bytes of the part of the SCB that this machine uses: 16 for each vector.
const SCB_SIZE: u64 = 0x800;

/// What a frame on the stack of an exception handler leads back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted {
    /// Where it goes on.
    pub pc: u64,
    /// Its mode.
    pub mode: Mode,
    /// Its stack pointer.
    pub sp: u64,
}

/// For whoever walks stacks: from a handler to what it interrupted.
impl Machine {
    /// Where the vectors of the SCB lead, in order.
    pub fn handlers(&self, vcpu: &Vcpu) -> Vec<u64> {
        let (physical, scb) = (system(vcpu).physical(), self.ipr.scbb << 13);
        let entry = |at| physical.quadword(scb + at).map(|target| target & !3);
        let mut all: Vec<u64> = (0..SCB_SIZE).step_by(16).filter_map(entry).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// What the frame at `frame` on the stack of `mode` returns to. The stack pointers of outer modes
    /// are those that the processor keeps now.
    pub fn interrupted(&self, vcpu: &Vcpu, frame: u64, mode: Mode) -> Option<Interrupted> {
        let memory = system(vcpu);
        let word = |at| memory.physical().quadword(memory.peek(frame.wrapping_add(at))?);
        let (pc, ps) = (word(48)? & !3, word(56)?);
        let outer = ps >> ps::CM_SHIFT & 3;
        let sp = match outer == mode {
            true => frame.wrapping_add(FRAME) | ps >> ALIGN_SHIFT & 63,
            false => self.sp[outer as usize],
        };
        (outer >= mode).then_some(Interrupted { pc, mode: outer, sp })
    }
}

impl Machine {
    /// Delivers an exception to the kernel at the current IPL.
    pub(super) fn deliver(
        &mut self,
        vcpu: &mut Vcpu,
        vector: u64,
        parameters: [u64; 2],
        pc: u64,
    ) -> Done {
        let ps = self.ps & !ps::SW & 0x1f04;
        match self.enter(vcpu, vector, parameters, pc, KERNEL, ps) {
            // The stack is the kernel's: there is nothing to report to.
            Err(Trouble::Fault(fault)) => {
                Err(Trouble::Halt(HaltReason::KernelStack(fault, vector)))
            }
            other => other,
        }
    }

    /// Saves a frame on the stack of `mode` and goes to what `vector` says with `ps` as the new
    /// processor status, whose mode is filled in. Nothing has changed if the stack cannot be written.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        vcpu: &mut Vcpu,
        vector: u64,
        parameters: [u64; 2],
        pc: u64,
        mode: Mode,
        ps: u64,
    ) -> Done {
        let at = (self.ipr.scbb << 13) + vector;
        let physical = system(vcpu).physical();
        let (Some(target), Some(argument)) = (physical.quadword(at), physical.quadword(at + 8))
        else {
            return Err(Trouble::Halt(HaltReason::NoVector(vector)));
        };
        let old_mode = self.mode();
        let old_sp = vcpu.cpu.r[30];
        let top = if mode == old_mode { old_sp } else { self.sp[mode as usize] };
        let frame = (top & !63).wrapping_sub(FRAME);
        let saved_ps = self.ps | (top & 63) << ALIGN_SHIFT;
        system(vcpu).set_mode(mode);
        let r = &vcpu.cpu.r;
        let image = [r[2], r[3], r[4], r[5], r[6], r[7], pc, saved_ps];
        if let Err(fault) = system(vcpu).store_frame(frame, &image) {
            system(vcpu).set_mode(old_mode);
            return Err(fault.into());
        }
        if target & !3 == 0 {
            return Err(Trouble::Halt(HaltReason::NoVector(vector)));
        }
        if mode != old_mode {
            self.sp[old_mode as usize] = old_sp;
        }
        self.counters.deliveries += 1;
        self.set_ps(vcpu, ps & !(3 << ps::CM_SHIFT) | mode << ps::CM_SHIFT);
        let cpu = &mut *vcpu.cpu;
        cpu.r[30] = frame;
        (cpu.r[2], cpu.r[3]) = (target & !3, argument);
        [cpu.r[4], cpu.r[5]] = parameters;
        cpu.pc = target & !3;
        Ok(())
    }

    /// CHMK, CHME, CHMS, CHMU: to the named mode or, from an inner one, to the current mode.
    #[inline(always)]
    pub(super) fn change_mode(&mut self, vcpu: &mut Vcpu, named: Mode) -> Done {
        let mode = named.min(self.mode());
        let pc = vcpu.cpu.pc;
        let r = &vcpu.cpu.r;
        // The parameters of other exceptions are not given: R4 and R5 stay.
        let unchanged = [r[4], r[5]];
        let done =
            self.enter(vcpu, vector::CHM + 16 * named, unchanged, pc, mode, self.ps & !ps::SW);
        if done.is_ok() {
            return Ok(());
        }
        match done {
            Err(Trouble::Fault(fault)) if mode == KERNEL => {
                Err(Trouble::Halt(HaltReason::KernelStack(fault, vector::CHM + 16 * named)))
            }
            other => other,
        }
    }

    /// REI (AARM II-A 4.1). All of the frame is read before
    /// anything changes.
    #[inline(always)]
    pub(super) fn return_from(&mut self, vcpu: &mut Vcpu) -> Done {
        let sp = vcpu.cpu.r[30];
        if sp & 63 != 0 {
            return Err(Trouble::ReservedOperand);
        }
        let [r2, r3, r4, r5, r6, r7, pc, saved] = system(vcpu).load_frame(sp)?;
        let old_mode = self.mode();
        let new_mode = saved >> ps::CM_SHIFT & 3;
        if old_mode != KERNEL && (new_mode < old_mode || saved & !OUTER_LEGAL != 0) {
            return Err(Trouble::ReservedOperand);
        }
        let old_sp = sp.wrapping_add(FRAME) | saved >> ALIGN_SHIFT & 63;
        let mut new_ps = saved & ps::ALL;
        if old_mode == KERNEL && new_mode != KERNEL {
            new_ps &= 0xff;
        }
        let cpu = &mut *vcpu.cpu;
        if new_mode == old_mode {
            cpu.r[30] = old_sp;
        } else {
            self.sp[old_mode as usize] = old_sp;
            cpu.r[30] = self.sp[new_mode as usize];
        }
        [cpu.r[2], cpu.r[3], cpu.r[4], cpu.r[5], cpu.r[6], cpu.r[7]] = [r2, r3, r4, r5, r6, r7];
        cpu.pc = pc & !3;
        cpu.intr_flag = 0;
        lock::clear(cpu);
        self.set_ps(vcpu, new_ps);
        self.deliver_pending(vcpu)
    }
}
