//! The tables of PALcode calls: number to function (AARM II-B 2). Called for each CALL_PAL that left
//! the engine, with the mode already checked; `cpu.pc` is the instruction after it.

use super::context::FLAGS;
use super::entry::{BPT, BUGCHK, GENTRAP};
use super::{Done, Halt, Processor, Trouble, ps, system};
use crate::cpu::Vcpu;
use crate::engine::Outcome;
use crate::isa::{Osf, OsfSystem};
use crate::machine::platform::Ending;

/// What TBI invalidates, in a0 (AARM II-B 2.2, TBI).
mod tbi {
    pub const ALL: i64 = -2;
    pub const PROCESS: i64 = -1;
    pub const INSTRUCTION: i64 = 1;
    pub const DATA: i64 = 2;
    pub const BOTH: i64 = 3;
}

impl Processor {
    /// The calls that user mode may issue.
    pub(super) fn perform(&mut self, vcpu: &mut Vcpu, call: Osf) -> Done {
        let next = vcpu.cpu.pc;
        match call {
            Osf::Callsys => self.callsys(vcpu),
            Osf::Rduniq => {
                vcpu.cpu.r[0] = vcpu.cpu.unique;
                Ok(())
            }
            Osf::Wruniq => {
                vcpu.cpu.unique = vcpu.cpu.r[16];
                Ok(())
            }
            Osf::Imb => {
                self.change = Some((0, u64::MAX));
                Ok(())
            }
            Osf::Bpt => self.instruction_fault(vcpu, BPT, next),
            Osf::Bugchk => self.instruction_fault(vcpu, BUGCHK, next),
            Osf::Gentrap => self.instruction_fault(vcpu, GENTRAP, next),
            Osf::Clrfen => {
                self.set_fen(vcpu, false);
                Ok(())
            }
            // A return to user mode from user mode, of which no kernel made use.
            Osf::Urti => Err(Trouble::Reserved),
        }
    }

    /// The calls of the kernel.
    pub(super) fn perform_system(&mut self, vcpu: &mut Vcpu, call: OsfSystem) -> Done {
        let [a0, a1] = [vcpu.cpu.r[16], vcpu.cpu.r[17]];
        match call {
            OsfSystem::Swpipl => {
                vcpu.cpu.r[0] = self.ps & ps::IPL;
                self.ps = a0 & ps::IPL;
                self.take_interrupt(vcpu)
            }
            OsfSystem::Rti => self.rti(vcpu),
            OsfSystem::Retsys => self.retsys(vcpu),
            OsfSystem::Rdps => self.answer(vcpu, self.ps),
            OsfSystem::Swpctx => self.swap_context(vcpu),
            OsfSystem::Tbi => {
                self.invalidate(vcpu, a0 as i64, a1);
                Ok(())
            }
            OsfSystem::Wrent => {
                // Linux names a seventh, which no PALcode knows.
                if let Some(entry) = self.entries.get_mut(a1 as usize) {
                    *entry = a0 & !3;
                }
                Ok(())
            }
            OsfSystem::Rdusp => self.answer(vcpu, self.usp),
            OsfSystem::Wrusp => {
                self.usp = a0;
                Ok(())
            }
            OsfSystem::Rdval => self.answer(vcpu, self.sysval),
            OsfSystem::Wrval => {
                self.sysval = a0;
                Ok(())
            }
            OsfSystem::Wrkgp => {
                self.kgp = a0;
                Ok(())
            }
            OsfSystem::Wrvptptr => {
                // Page tables are walked by physical addresses: nobody needs to know where they lie.
                self.vptptr = a0;
                Ok(())
            }
            OsfSystem::Wrfen => {
                self.set_fen(vcpu, a0 & 1 != 0);
                Ok(())
            }
            OsfSystem::Rdmces => self.answer(vcpu, self.mces),
            OsfSystem::Wrmces => {
                // Bits 2:0 are cleared by ones, 4:3 are stored (AARM II-B 2.2).
                self.mces = self.mces & 7 & !a0 | a0 & 0x18;
                Ok(())
            }
            OsfSystem::Whami => self.answer(vcpu, self.whami),
            OsfSystem::Wripir => {
                self.platform.interrupt_processor(a0);
                self.take_interrupt(vcpu)
            }
            OsfSystem::Wtint => {
                self.wait(vcpu);
                vcpu.cpu.r[0] = 0;
                self.take_interrupt(vcpu)
            }
            OsfSystem::Cserve => {
                let arguments = [16, 17, 18, 19].map(|i| vcpu.cpu.r[i]);
                let value = self.platform.console_call(system(vcpu), arguments);
                self.answer(vcpu, value)
            }
            OsfSystem::Halt => self.halt(vcpu),
            // There is nothing to measure with, and no other PALcode to go to: 1 says so.
            OsfSystem::Wrperfmon => self.answer(vcpu, 0),
            OsfSystem::Swppal => self.answer(vcpu, 1),
            // Nothing is cached or pending that these could wait for.
            OsfSystem::Cflush | OsfSystem::Draina => Ok(()),
        }
    }

    fn answer(&self, vcpu: &mut Vcpu, value: u64) -> Done {
        vcpu.cpu.r[0] = value;
        Ok(())
    }

    fn invalidate(&mut self, vcpu: &Vcpu, what: i64, va: u64) {
        let memory = system(vcpu);
        match what {
            tbi::ALL | tbi::PROCESS => memory.invalidate_all(),
            tbi::DATA => memory.invalidate_page(va, false),
            tbi::INSTRUCTION | tbi::BOTH => memory.invalidate_page(va, true),
            _ => {}
        }
    }

    /// WRFEN and CLRFEN: the bit is kept in the context, too.
    fn set_fen(&mut self, vcpu: &Vcpu, on: bool) {
        let memory = system(vcpu);
        memory.set_fp_enabled(on);
        let physical = memory.physical();
        if let Some(flags) = physical.quadword(self.pcbb + FLAGS) {
            physical.store(self.pcbb + FLAGS, 8, flags & !1 | u64::from(on));
        }
    }

    /// WTINT: sleeps until there is an interrupt, at whatever level; where instructions are time, the
    /// time until then passes at once.
    fn wait(&mut self, vcpu: &mut Vcpu) {
        if !vcpu.counted {
            return self.platform.sleep(self.whami);
        }
        if let Some(at) = self.platform.next_event(self.whami) {
            vcpu.cpu.count = vcpu.cpu.count.max(at);
            self.platform.set_time(vcpu.cpu.count);
        }
    }

    /// HALT: the kernel has left word in the HWRPB what it wants. Of the others than the first nobody
    /// wants more than that they stay halted.
    fn halt(&mut self, vcpu: &Vcpu) -> Done {
        if self.whami != 0 {
            return Err(Trouble::Stop(Outcome::Exited(0)));
        }
        match self.platform.ending(system(vcpu).physical(), self.whami) {
            Ending::PowerOff => Err(Trouble::Stop(Outcome::Exited(0))),
            Ending::Restart => Err(Trouble::Halt(Halt::Restart)),
            Ending::Halt => Err(Trouble::Halt(Halt::Halted)),
        }
    }
}
