//! Which template an instruction gets, and those of control flow and of what touches little.

use axp_emu::isa::{Insn, Kind, Opcode, Vms, ZERO};
use dynasmrt::{DynasmApi, dynasm};

use super::emit::{Alu, Emitter, Operand, Patch, cc};
use super::regs::*;
use crate::abi::word;

impl Emitter<'_> {
    /// Emits one instruction; `fused` is the register whose value the flags tell, if any.
    pub(super) fn lower(&mut self, insn: &Insn, fused: Option<(u8, u8)>) {
        match insn.op.kind() {
            Kind::Lea => self.lower_lea(insn),
            Kind::Load | Kind::LoadUnaligned | Kind::Fload => self.lower_load(insn),
            Kind::Store | Kind::StoreUnaligned | Kind::Fstore => self.lower_store(insn),
            Kind::Branch => self.lower_branch(insn),
            Kind::CondBranch => {
                let cc = self.branch_condition(insn, fused);
                self.cond_branch(insn, cc);
            }
            Kind::CondBranchF => {
                let cc = self.branch_condition_f(insn, fused);
                self.cond_branch(insn, cc);
            }
            Kind::Jump => self.lower_jump(insn),
            Kind::Alu => self.lower_alu(insn),
            Kind::AluV => self.lower_alu_v(insn),
            Kind::Cmov => self.lower_cmov(insn),
            Kind::Fp => self.lower_fp(insn),
            Kind::Fmove => self.lower_fmove(insn),
            Kind::Fcmov => self.lower_fcmov(insn),
            Kind::Itof => self.lower_itof(insn),
            Kind::Ftoi => self.lower_ftoi(insn),
            // The host keeps stores in order; only MB must wait for them.
            Kind::Fence if insn.op == Opcode::Mb => {
                dynasm!(self.asm ; .arch x64 ; lock or DWORD [rsp], BYTE 0);
            }
            Kind::Fence | Kind::Barrier | Kind::Hint => {}
            Kind::IntrFlag => self.lower_intr_flag(insn),
            Kind::Amask if Self::is_sink(insn.c) => {}
            Kind::Amask => {
                let b = self.operand_b(insn);
                let host = self.target(insn.c);
                self.fetch(host, b);
                self.alu(Alu::And, host, Operand::Imm(!(self.model.amask() as i32)));
                self.put(insn.c, host);
            }
            Kind::Implver => self.put_const(insn.c, self.model.implver() as i64),
            Kind::Pal => self.lower_pal(insn),
            Kind::MfFpcr => self.lower_mf_fpcr(insn),
            Kind::MtFpcr => self.lower_mt_fpcr(insn),
            Kind::LoadLocked | Kind::StoreConditional | Kind::Rpcc => self.interpret(insn),
        }
    }

    fn lower_lea(&mut self, insn: &Insn) {
        if Self::is_sink(insn.a) {
            return;
        }
        let disp = insn.imm << if insn.op == Opcode::Ldah { 16 } else { 0 };
        if insn.b == ZERO {
            self.put_const(insn.a, i64::from(disp));
            return;
        }
        let base = self.operand(insn.b);
        if insn.a == insn.b {
            match base {
                _ if disp == 0 => {}
                Operand::Mem(d) => self.alu_mem(Alu::Add, d, Operand::Imm(disp)),
                Operand::Reg(h) => self.alu(Alu::Add, h, Operand::Imm(disp)),
                Operand::Imm(_) => {}
            }
            return;
        }
        let base = self.in_reg(base, RAX);
        if disp == 0 {
            self.put(insn.a, base);
            return;
        }
        let host = self.target(insn.a);
        self.lea(host, base, disp);
        self.put(insn.a, host);
    }

    /// `host <- base + disp`; changes no flags.
    pub(super) fn lea(&mut self, host: u8, base: u8, disp: i32) {
        match i8::try_from(disp) {
            Ok(d) => dynasm!(self.asm ; .arch x64 ; lea Rq(host), [BYTE Rq(base) + d]),
            Err(_) => dynasm!(self.asm ; .arch x64 ; lea Rq(host), [DWORD Rq(base) + disp]),
        }
    }

    fn lower_intr_flag(&mut self, insn: &Insn) {
        let value = i32::from(insn.op == Opcode::Rs);
        dynasm!(self.asm ; .arch x64 ; mov rax, [DWORD rbp + INTR_FLAG]);
        self.put(insn.a, RAX);
        dynasm!(self.asm ; .arch x64 ; mov QWORD [DWORD rbp + INTR_FLAG], DWORD value);
    }

    /// Calls that touch nothing but registers are inside units; for others, PALcode is asked.
    fn lower_pal(&mut self, insn: &Insn) {
        if self.ends_with_pal() {
            let next = self.pc.wrapping_add(4) as i64;
            self.set_const(RAX, next);
            dynasm!(self.asm ; .arch x64
                ; mov [DWORD rbp + PC], rax
                ; mov eax, DWORD insn.imm
            );
            return self.jump(self.stubs.pal);
        }
        match Vms::from_code(insn.imm as u32) {
            Some(Vms::ReadUnq) => {
                let host = self.target(0);
                dynasm!(self.asm ; .arch x64 ; mov Rq(host), [DWORD rbp + UNIQUE]);
                self.put(0, host);
            }
            Some(Vms::WriteUnq) => {
                let value = self.operand(16);
                let value = self.in_reg(value, RAX);
                dynasm!(self.asm ; .arch x64 ; mov [DWORD rbp + UNIQUE], Rq(value));
            }
            _ => self.interpret(insn),
        }
    }

    // Control flow

    fn link(&mut self, r: u8) {
        if r < ZERO {
            self.put_const(r, self.pc.wrapping_add(4) as i64);
        }
    }

    fn lower_branch(&mut self, insn: &Insn) {
        self.link(insn.a);
        let target = insn.branch_target(self.pc);
        if target <= self.pc { self.jump_to_polled(target) } else { self.jump_to(target) }
    }

    /// Branches on a condition of the flags. The poll of a branch backwards comes after the test.
    fn cond_branch(&mut self, insn: &Insn, cc: u8) {
        let target = insn.branch_target(self.pc);
        if target > self.pc {
            self.jump_if(cc, target);
        } else {
            let not_taken = self.jcc8(cc ^ 1);
            self.jump_to_polled(target);
            self.bind8(not_taken);
        }
    }

    fn lower_jump(&mut self, insn: &Insn) {
        let target = self.operand(insn.b);
        self.fetch(RAX, target);
        dynasm!(self.asm ; .arch x64 ; and rax, BYTE -4);
        if insn.a < ZERO {
            // The target is safe in RAX; a link register in memory takes its value from RCX.
            let link = self.pc.wrapping_add(4) as i64;
            match pin(insn.a) {
                Some(host) => self.set_const(host, link),
                None => {
                    self.set_const(RCX, link);
                    self.put(insn.a, RCX);
                }
            }
        }
        if self.heat.is_some() {
            let place = self.place(self.pc, insn, 0) as i32 + 1;
            dynasm!(self.asm ; .arch x64
                ; mov QWORD [DWORD rbp + word_disp(word::JUMP_PLACE)], DWORD place
            );
            self.relocate(4, Patch::Place);
        }
        self.jump(self.stubs.lookup);
    }

    /// Sets the flags from a register for an integer branch; gives the condition of taking it.
    fn branch_condition(&mut self, insn: &Insn, fused: Option<(u8, u8)>) -> u8 {
        match (fused, insn.op) {
            (Some((r, cc)), Opcode::Bne) if r == insn.a => cc,
            (Some((r, cc)), Opcode::Beq) if r == insn.a => cc ^ 1,
            _ => self.condition(insn.op, insn.a),
        }
    }

    /// Sets the flags from a register for an integer condition, named by its branch.
    pub(super) fn condition(&mut self, branch: Opcode, r: u8) -> u8 {
        let low_bit = matches!(branch, Opcode::Blbs | Opcode::Blbc);
        match self.operand(r) {
            Operand::Reg(h) if low_bit => dynasm!(self.asm ; .arch x64 ; test Rb(h), BYTE 1),
            Operand::Reg(h) => dynasm!(self.asm ; .arch x64 ; test Rq(h), Rq(h)),
            Operand::Mem(d) if low_bit => {
                dynasm!(self.asm ; .arch x64 ; test BYTE [BYTE rbp + d], BYTE 1);
            }
            Operand::Mem(d) => self.alu_mem(Alu::Cmp, d, Operand::Imm(0)),
            Operand::Imm(_) => dynasm!(self.asm ; .arch x64 ; xor ecx, ecx),
        }
        match branch {
            Opcode::Beq | Opcode::Blbc => cc::E,
            Opcode::Bne | Opcode::Blbs => cc::NE,
            Opcode::Blt => cc::L,
            Opcode::Bge => cc::GE,
            Opcode::Ble => cc::LE,
            _ => cc::G,
        }
    }
}
