//! The kernel's entry points: frames, exceptions, interrupts, system calls, and the ways back
//! (AARM II-B 2.3 and 5).

use super::{Done, Halt, Processor, Trouble, ps, system};
use crate::cpu::{Vcpu, lock};
use crate::engine::Outcome;
use crate::machine::platform::Interrupt;

/// An entry point, in the numbering of WRENT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// entInt.
    Interrupt,
    /// entArith.
    Arithmetic,
    /// entMM.
    Memory,
    /// entIF.
    Instruction,
    /// entUna.
    Unaligned,
    /// entSys.
    System,
}

impl Entry {
    /// The manual's name.
    pub fn name(self) -> &'static str {
        ["entInt", "entArith", "entMM", "entIF", "entUna", "entSys"][self as usize]
    }
}

/// Reasons of entMM, in a1 (AARM II-B table 5-5).
pub(super) const TNV: u64 = 0;
pub(super) const ACV: u64 = 1;
pub(super) const FOR: u64 = 2;
pub(super) const FOE: u64 = 3;
pub(super) const FOW: u64 = 4;

/// Kinds of entIF, in a0 (AARM II-B table 5-3).
pub(super) const BPT: u64 = 0;
pub(super) const BUGCHK: u64 = 1;
pub(super) const GENTRAP: u64 = 2;
pub(super) const FEN: u64 = 3;
pub(super) const OPDEC: u64 = 4;

/// Kinds of entInt, in a0, and their levels (AARM II-B tables 5-1 and 5-4).
const INTERPROCESSOR: u64 = 0;
const CLOCK: u64 = 1;
const DEVICE: u64 = 3;
const CLOCK_LEVEL: u64 = 5;
const DEVICE_LEVEL: u64 = 3;

/// Bytes of a frame: PS, PC, GP, a0, a1, a2.
const FRAME: u64 = 48;
const GP: usize = 29;
const SP: usize = 30;

impl Processor {
    /// Enters the kernel with three arguments; the frame holds `pc` as the place to come back to.
    /// Nothing has changed if the kernel's stack cannot be written.
    fn enter(
        &mut self,
        vcpu: &mut Vcpu,
        entry: Entry,
        arguments: [u64; 3],
        pc: u64,
        level: u64,
    ) -> Done {
        let (user, sp) = (self.user(), vcpu.cpu.r[SP]);
        let top = if user { self.ksp } else { sp };
        let frame = top.wrapping_sub(FRAME);
        let r = &vcpu.cpu.r;
        let image = [self.ps, pc, r[GP], r[16], r[17], r[18]];
        let memory = system(vcpu);
        memory.set_mode(0);
        if let Err(fault) = memory.store_quadwords(frame, &image) {
            return Err(Trouble::Halt(Halt::KernelStack(fault, entry)));
        }
        let target = self.entries[entry as usize];
        if target == 0 {
            return Err(Trouble::Halt(Halt::NoEntry(entry)));
        }
        if user {
            self.usp = sp;
        }
        self.ps = level;
        let cpu = &mut *vcpu.cpu;
        cpu.r[SP] = frame;
        cpu.r[GP] = self.kgp;
        [cpu.r[16], cpu.r[17], cpu.r[18]] = arguments;
        cpu.pc = target;
        Ok(())
    }

    pub(super) fn exception(
        &mut self,
        vcpu: &mut Vcpu,
        entry: Entry,
        arguments: [u64; 3],
        pc: u64,
    ) -> Done {
        self.counters.exceptions += 1;
        self.enter(vcpu, entry, arguments, pc, self.ps & ps::IPL)
    }

    /// entIF.
    pub(super) fn instruction_fault(&mut self, vcpu: &mut Vcpu, kind: u64, pc: u64) -> Done {
        let [_, a1, a2] = [16, 17, 18].map(|i| vcpu.cpu.r[i]);
        self.exception(vcpu, Entry::Instruction, [kind, a1, a2], pc)
    }

    /// entUna: the address, the opcode and the register that is loaded or stored. The kernel performs
    /// the access and goes on behind the instruction.
    pub(super) fn unaligned(&mut self, vcpu: &mut Vcpu, va: u64) -> Done {
        let pc = self.restart;
        let word = match vcpu.mem.fetch_u32(pc) {
            Ok(word) => word,
            Err(fault) => return self.memory_fault(vcpu, &fault),
        };
        let (opcode, ra) = (u64::from(word >> 26), u64::from(word >> 21 & 31));
        self.exception(vcpu, Entry::Unaligned, [va, opcode, ra], pc.wrapping_add(4))
    }

    /// Delivers the highest interrupt above the current level. The common case, that the platform
    /// wants nothing, is one load.
    #[inline]
    pub(super) fn take_interrupt(&mut self, vcpu: &mut Vcpu) -> Done {
        if !self.platform.attention(self.whami) {
            return Ok(());
        }
        if let Some(status) = self.platform.ended() {
            return Err(Trouble::Stop(Outcome::Exited(status)));
        }
        let level = self.ps & ps::IPL;
        let Some(interrupt) = self.platform.accept(self.whami, |what| match what {
            Interrupt::Device(_) => level < DEVICE_LEVEL,
            Interrupt::Clock | Interrupt::Processor => level < CLOCK_LEVEL,
        }) else {
            return Ok(());
        };
        self.counters.interrupts += 1;
        let (kind, vector, level) = match interrupt {
            Interrupt::Processor => (INTERPROCESSOR, 0, CLOCK_LEVEL),
            Interrupt::Clock => (CLOCK, 0, CLOCK_LEVEL),
            Interrupt::Device(vector) => (DEVICE, vector, DEVICE_LEVEL),
        };
        let pc = vcpu.cpu.pc;
        self.enter(vcpu, Entry::Interrupt, [kind, vector, 0], pc, level)
    }

    /// CALLSYS: from user mode only; the frame's places for arguments are left as they are.
    pub(super) fn callsys(&mut self, vcpu: &mut Vcpu) -> Done {
        if !self.user() {
            return Err(Trouble::Halt(Halt::KernelCallsys));
        }
        let frame = self.ksp.wrapping_sub(FRAME);
        let memory = system(vcpu);
        memory.set_mode(0);
        let image = [self.ps, vcpu.cpu.pc, vcpu.cpu.r[GP]];
        if let Err(fault) = memory.store_quadwords(frame, &image) {
            return Err(Trouble::Halt(Halt::KernelStack(fault, Entry::System)));
        }
        self.ps = 0;
        self.usp = vcpu.cpu.r[SP];
        let cpu = &mut *vcpu.cpu;
        cpu.r[SP] = frame;
        cpu.r[GP] = self.kgp;
        cpu.pc = self.entries[Entry::System as usize];
        Ok(())
    }

    /// RETSYS: back to user mode, with PC and GP from the frame.
    pub(super) fn retsys(&mut self, vcpu: &mut Vcpu) -> Done {
        let sp = vcpu.cpu.r[SP];
        let mut frame = [0; 3];
        system(vcpu).load_quadwords(sp, &mut frame)?;
        let cpu = &mut *vcpu.cpu;
        cpu.pc = frame[1] & !3;
        cpu.r[GP] = frame[2];
        self.leave(vcpu, sp)
    }

    /// RTI: back to where an exception or interrupt came from.
    pub(super) fn rti(&mut self, vcpu: &mut Vcpu) -> Done {
        let sp = vcpu.cpu.r[SP];
        let mut frame = [0; 6];
        system(vcpu).load_quadwords(sp, &mut frame)?;
        let [saved, pc, gp, a0, a1, a2] = frame;
        let cpu = &mut *vcpu.cpu;
        cpu.pc = pc & !3;
        cpu.r[GP] = gp;
        [cpu.r[16], cpu.r[17], cpu.r[18]] = [a0, a1, a2];
        if saved & ps::USER != 0 {
            return self.leave(vcpu, sp);
        }
        cpu.r[SP] = sp.wrapping_add(FRAME);
        cpu.intr_flag = 0;
        lock::clear(cpu);
        self.ps = saved & ps::IPL;
        self.take_interrupt(vcpu)
    }

    /// To user mode, with the frame at `sp` taken off the kernel's stack.
    fn leave(&mut self, vcpu: &mut Vcpu, sp: u64) -> Done {
        self.ksp = sp.wrapping_add(FRAME);
        let cpu = &mut *vcpu.cpu;
        cpu.r[SP] = self.usp;
        cpu.intr_flag = 0;
        lock::clear(cpu);
        self.set_ps(vcpu, ps::USER);
        self.take_interrupt(vcpu)
    }
}
