//! The table of PALcode calls: number to function. Called by `Machine::handle` for each CALL_PAL that
//! left the engine, with the mode already checked.

use super::board::{CALENDAR_OF_1970, service};
use super::line::Entry;
use super::scb::vector;
use super::{Done, HaltReason, Machine, Trouble, ps, system};
use crate::cpu::Vcpu;
use crate::engine::Outcome;
use crate::isa::Vms;

impl Machine {
    /// Performs a call; `cpu.pc` is the instruction after it.
    pub(super) fn perform(&mut self, vcpu: &mut Vcpu, call: Vms) -> Done {
        use Vms::*;
        let next = vcpu.cpu.pc;
        match call {
            Chmk => self.change_mode(vcpu, 0),
            Chme => self.change_mode(vcpu, 1),
            Chms => self.change_mode(vcpu, 2),
            Chmu => self.change_mode(vcpu, 3),
            Rei => self.return_from(vcpu),
            RdPs => {
                vcpu.cpu.r[0] = self.ps;
                Ok(())
            }
            WrPsSw => {
                self.ps = self.ps & !ps::SW | vcpu.cpu.r[16] & ps::SW;
                Ok(())
            }
            Swasten => self.swap_ast_enable(vcpu),
            Swpctx => self.swap_context(vcpu),
            Bpt => self.deliver(vcpu, vector::BPT, [0, 0], next),
            Bugchk => self.deliver(vcpu, vector::BUGCHK, [0, 0], next),
            Gentrap => self.deliver(vcpu, vector::GENTRAP, [vcpu.cpu.r[16], 0], next),
            Imb => {
                self.change = Some((0, u64::MAX));
                Ok(())
            }
            Rscc => {
                vcpu.cpu.r[0] = self.system_cycles(vcpu);
                Ok(())
            }
            Clrfen => self.clear_fen(vcpu),
            Halt => Err(Trouble::Halt(HaltReason::Halted)),
            Ldqp => self.physical_access(vcpu, false),
            Stqp => self.physical_access(vcpu, true),
            Cserve => self.console_service(vcpu),
            // Nothing is cached or pending that these could wait for.
            Cflush | Draina => Ok(()),
            Wtint => self.wait_for_interrupt(vcpu),
            // There is no other PALcode to go to, and no VAX image to move registers for.
            Swppal | Amovrr | Amovrm => Err(Trouble::Reserved),
            ReadUnq | WriteUnq | Prober | Probew => self.inline_call(vcpu, call),
            Insqhil | Insqtil | Insqhiq | Insqtiq | Insquel | Insqueq | InsquelD | InsqueqD
            | Remqhil | Remqtil | Remqhiq | Remqtiq | Remquel | Remqueq | RemquelD | RemqueqD
            | Insqhilr | Insqtilr | Insqhiqr | Insqtiqr | Remqhilr | Remqtilr | Remqhiqr
            | Remqtiqr => self.queue(vcpu, call),
            _ => self.move_register(vcpu, call).unwrap_or(Err(Trouble::Reserved)),
        }
    }

    /// The calls that engines perform, for an engine that does not.
    fn inline_call(&mut self, vcpu: &mut Vcpu, call: Vms) -> Done {
        let r = &vcpu.cpu.r;
        match call {
            Vms::ReadUnq => vcpu.cpu.r[0] = vcpu.cpu.unique,
            Vms::WriteUnq => vcpu.cpu.unique = vcpu.cpu.r[16],
            _ => {
                let write = call == Vms::Probew;
                let accessible = system(vcpu).probe_range(r[16], r[17], r[18], write)?;
                vcpu.cpu.r[0] = u64::from(accessible);
            }
        }
        Ok(())
    }

    /// RSCC: the system cycle counter; in counted runs the instructions retired.
    fn system_cycles(&self, vcpu: &Vcpu) -> u64 {
        if vcpu.counted { vcpu.cpu.count } else { self.board.nanoseconds() }
    }

    /// CSERVE: the console's services (docs/machine.md).
    fn console_service(&mut self, vcpu: &mut Vcpu) -> Done {
        let [function, a, b, c] = [16, 17, 18, 19].map(|i| vcpu.cpu.r[i]);
        let physical = system(vcpu).physical();
        vcpu.cpu.r[0] = match function {
            service::PUT => {
                self.board.put(&[a as u8]);
                0
            }
            service::GET => self.board.get().map_or(u64::MAX, u64::from),
            service::END => return Err(Trouble::Stop(Outcome::Exited((a & 0xff) as i32))),
            service::READ | service::WRITE => {
                u64::from(self.board.transfer(physical, function == service::WRITE, a, b, c))
            }
            service::CPU_TIME if vcpu.counted => vcpu.cpu.count,
            service::CPU_TIME => self.board.thread_nanoseconds(),
            service::TIME if vcpu.counted => vcpu.cpu.count,
            service::TIME => self.board.nanoseconds(),
            service::PUTS => {
                let mut text = vec![0; b.min(4096) as usize];
                let fits = physical.read(a, &mut text);
                if fits {
                    self.board.put(&text);
                }
                u64::from(fits)
            }
            service::BLOCKS => self.board.blocks(),
            service::PARAMETER => self.board.parameter(a),
            service::RESULT => {
                self.board.result(a, b);
                0
            }
            service::CALENDAR if vcpu.counted => CALENDAR_OF_1970 + vcpu.cpu.count / 100,
            service::CALENDAR => self.board.calendar(),
            service::PROCESSORS => self.board.processors() as u64,
            service::START => u64::from(self.board.line.start(a, Entry { pc: b, argument: c })),
            _ => return Err(Trouble::ReservedOperand),
        };
        Ok(())
    }
}
