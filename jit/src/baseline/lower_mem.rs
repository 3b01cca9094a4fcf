//! Templates of loads and stores: window checks, widths, S format.

use axp_emu::isa::{Insn, Opcode, ZERO};
use dynasmrt::{DynasmApi, dynasm};

use super::Access;
use super::emit::{Alu, Emitter, Operand, cc};
use super::regs::*;
use crate::abi::word;

/// Emits a host access to `disp(base)` and notes where it stands.
macro_rules! access {
    ($e:ident, $base:ident, $disp:ident, $mnemonic:ident $($operands:tt)*) => {{
        $e.note_access();
        match i8::try_from($disp) {
            Ok(d) => access!(@ $e, [BYTE Rq($base) + d], $mnemonic $($operands)*),
            Err(_) => access!(@ $e, [DWORD Rq($base) + $disp], $mnemonic $($operands)*),
        }
    }};
    (@ $e:ident, $at:tt, store $mnemonic:ident $($src:tt)*) => {
        dynasm!($e.asm ; .arch x64 ; $mnemonic $at, $($src)*)
    };
    (@ $e:ident, $at:tt, load $mnemonic:ident $reg:ident ($r:expr) $($size:ident)?) => {
        dynasm!($e.asm ; .arch x64 ; $mnemonic $reg($r), $($size)? $at)
    };
}

impl Emitter<'_> {
    fn note_access(&mut self) {
        let access = Access {
            offset: self.here() as u16,
            index: self.index as u16,
            after: self.after as u16,
        };
        self.parts.accesses.push(access);
    }

    /// Host register and displacement of an access of `size` bytes, checked against the window
    /// where the unit has not proved that it hits the window or its guard. Uses RAX and RCX.
    fn address(&mut self, insn: &Insn, size: i8) -> (u8, i32) {
        if self.mode.translated() {
            return (self.translated_address(insn, size), 0);
        }
        let base = self.operand(insn.b);
        let mut at = self.in_reg(base, RAX);
        if insn.b != ZERO && !self.bounds.covers(insn.b, insn.imm) {
            dynasm!(self.asm ; .arch x64 ; cmp Rq(at), [DWORD rbp + word_disp(word::WINDOW)]);
            self.cold_if(cc::AE);
            self.bounds.accessed(insn.b, 0);
        }
        if self.mode.strict && size > 1 {
            self.lea(RCX, at, insn.imm);
            dynasm!(self.asm ; .arch x64 ; test cl, BYTE size - 1);
            self.cold_if(cc::NE);
        }
        if self.mode.based {
            dynasm!(self.asm ; .arch x64
                ; mov rcx, [DWORD rbp + word_disp(word::BASE)]
                ; add rcx, Rq(at)
            );
            at = RCX;
        }
        (at, insn.imm)
    }

    /// As `address` with the low three bits of the guest address cleared: the host base is a
    /// multiple of the page size.
    fn quadword_address(&mut self, insn: &Insn) -> (u8, i32) {
        if self.mode.translated() {
            return (self.translated_address(insn, 8), 0);
        }
        let (at, disp) = self.address(insn, 1);
        self.lea(RAX, at, disp);
        self.alu(Alu::And, RAX, Operand::Imm(-8));
        (RAX, 0)
    }

    pub(super) fn lower_load(&mut self, insn: &Insn) {
        use Opcode::*;
        // A load to R31 or F31 is a prefetch and never faults.
        if Self::is_sink(insn.a) {
            return;
        }
        match insn.op {
            Ldf | Ldg => return self.interpret(insn),
            Lds => {
                let (at, disp) = self.address(insn, 4);
                access!(self, at, disp, load mov Rd(RAX));
                self.call(self.stubs.load_s);
                return self.put_bits(insn.a, RAX);
            }
            Ldt => {
                let (at, disp) = self.address(insn, 8);
                match fp_pin(insn.a) {
                    Some(xmm) => access!(self, at, disp, load movsd Rx(xmm)),
                    None => {
                        access!(self, at, disp, load mov Rq(RAX));
                        self.put_bits(insn.a, RAX);
                    }
                }
                return;
            }
            _ => {}
        }
        let (at, disp) = match insn.op {
            LdqU => self.quadword_address(insn),
            Ldbu => self.address(insn, 1),
            Ldwu => self.address(insn, 2),
            Ldl => self.address(insn, 4),
            _ => self.address(insn, 8),
        };
        let host = self.target(insn.a);
        match insn.op {
            Ldbu => access!(self, at, disp, load movzx Rd(host) BYTE),
            Ldwu => access!(self, at, disp, load movzx Rd(host) WORD),
            Ldl => access!(self, at, disp, load movsxd Rq(host) DWORD),
            _ => access!(self, at, disp, load mov Rq(host)),
        }
        self.put(insn.a, host);
    }

    pub(super) fn lower_store(&mut self, insn: &Insn) {
        use Opcode::*;
        match insn.op {
            Stf | Stg => return self.interpret(insn),
            // The template of the address needs the register that holds the longword.
            Sts if self.mode.translated() => return self.interpret(insn),
            Sts => {
                self.fetch_bits(RAX, insn.a);
                self.call(self.stubs.store_s);
                dynasm!(self.asm ; .arch x64 ; mov edx, eax);
                let (at, disp) = self.address(insn, 4);
                return access!(self, at, disp, store mov Rd(RDX));
            }
            Stt => {
                let (at, disp) = self.address(insn, 8);
                match fp_pin(insn.a) {
                    Some(xmm) => access!(self, at, disp, store movsd Rx(xmm)),
                    None => {
                        self.fetch_bits(RDX, insn.a);
                        access!(self, at, disp, store mov Rq(RDX));
                    }
                }
                return;
            }
            _ => {}
        }
        let (at, disp) = match insn.op {
            StqU => self.quadword_address(insn),
            Stb => self.address(insn, 1),
            Stw => self.address(insn, 2),
            Stl => self.address(insn, 4),
            _ => self.address(insn, 8),
        };
        let value = self.operand(insn.a);
        let value = self.in_reg(value, RDX);
        match insn.op {
            Stb => access!(self, at, disp, store mov Rb(value)),
            Stw => access!(self, at, disp, store mov Rw(value)),
            Stl => access!(self, at, disp, store mov Rd(value)),
            _ => access!(self, at, disp, store mov Rq(value)),
        }
    }
}
