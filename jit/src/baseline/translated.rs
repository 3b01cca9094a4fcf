//! Templates of addresses of the privileged machine: the translation buffer inline.

use axp_emu::isa::{Insn, Kind, Opcode};
use axp_emu::mem::{PAGE_SIZE, TB_ADDEND, TB_ENTRIES, TB_ENTRY_SHIFT, TB_LOAD, TB_STORE};
use dynasmrt::{DynasmApi, dynasm};

use super::emit::{Alu, Emitter, Operand, cc};
use super::regs::*;
use crate::abi::word;

impl Emitter<'_> {
    /// Host register with the host address of an access of `size` bytes; what the translation buffer
    /// does not know goes to the interpreter. Uses RAX, RCX and RDX.
    pub(super) fn translated_address(&mut self, insn: &Insn, size: i8) -> u8 {
        const SHIFT: i8 = (PAGE_SIZE.trailing_zeros() - TB_ENTRY_SHIFT) as i8;
        const INDEX: i32 = ((TB_ENTRIES - 1) << TB_ENTRY_SHIFT) as i32;
        let store = matches!(insn.op.kind(), Kind::Store | Kind::StoreUnaligned | Kind::Fstore);
        let tag = if store { TB_STORE } else { TB_LOAD } as i8;
        let base = self.operand(insn.b);
        let at = self.in_reg(base, RAX);
        self.lea(RAX, at, insn.imm);
        if matches!(insn.op, Opcode::LdqU | Opcode::StqU) {
            self.alu(Alu::And, RAX, Operand::Imm(-8));
        }
        dynasm!(self.asm ; .arch x64
            ; mov rcx, rax
            ; shr rcx, SHIFT
            ; and ecx, DWORD INDEX
            ; add rcx, [DWORD rbp + word_disp(word::BASE)]
            ; mov rdx, rax
            ; and rdx, DWORD -(PAGE_SIZE as i32) | (i32::from(size) - 1)
            ; cmp rdx, [BYTE rcx + tag]
        );
        self.cold_if(cc::NE);
        dynasm!(self.asm ; .arch x64 ; add rax, [BYTE rcx + TB_ADDEND as i8]);
        RAX
    }
}
