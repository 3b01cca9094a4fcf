//! Templates of integer arithmetic, logic, comparison, shifts, counts and conditional moves.

use axp_emu::isa::{Insn, Opcode, ZERO};
use dynasmrt::{DynasmApi, dynasm};

use super::emit::{Alu, Emitter, Operand, cc};
use super::regs::{RAX, RCX, pin};

/// A shift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shift {
    Left,
    Right,
    Arithmetic,
}

impl Emitter<'_> {
    pub(super) fn lower_alu(&mut self, insn: &Insn) {
        use Opcode::*;
        if Self::is_sink(insn.c) || self.alu_with_constants(insn) {
            return;
        }
        match insn.op {
            Addq => self.quadword(Alu::Add, insn),
            Subq => self.quadword(Alu::Sub, insn),
            And => self.quadword(Alu::And, insn),
            Bis => self.quadword(Alu::Or, insn),
            Xor => self.quadword(Alu::Xor, insn),
            Bic => self.complemented(Alu::And, insn),
            Ornot => self.complemented(Alu::Or, insn),
            Eqv => self.complemented(Alu::Xor, insn),
            Addl => self.longword(Alu::Add, 0, insn),
            Subl => self.longword(Alu::Sub, 0, insn),
            S4addl => self.longword(Alu::Add, 2, insn),
            S8addl => self.longword(Alu::Add, 3, insn),
            S4subl => self.longword(Alu::Sub, 2, insn),
            S8subl => self.longword(Alu::Sub, 3, insn),
            S4addq => self.scaled(Alu::Add, 2, insn),
            S8addq => self.scaled(Alu::Add, 3, insn),
            S4subq => self.scaled(Alu::Sub, 2, insn),
            S8subq => self.scaled(Alu::Sub, 3, insn),
            Mull => {
                self.multiply_long(insn);
                dynasm!(self.asm ; .arch x64 ; movsxd rax, eax);
                self.put(insn.c, RAX);
            }
            Mulq => {
                self.multiply(insn);
                self.put(insn.c, RAX);
            }
            Umulh => {
                self.fetch(RAX, self.operand(insn.a));
                let b = self.operand_b(insn);
                let b = self.in_reg(b, RCX);
                dynasm!(self.asm ; .arch x64 ; mul Rq(b));
                self.put(insn.c, super::regs::RDX);
            }
            Cmpeq => self.compare(cc::E, insn),
            Cmplt => self.compare(cc::L, insn),
            Cmple => self.compare(cc::LE, insn),
            Cmpult => self.compare(cc::B, insn),
            Cmpule => self.compare(cc::BE, insn),
            Sll => self.lower_shift(Shift::Left, insn),
            Srl => self.lower_shift(Shift::Right, insn),
            Sra => self.lower_shift(Shift::Arithmetic, insn),
            Ctpop | Ctlz | Cttz if self.host.counts => self.count_bits(insn),
            _ => self.lower_byte(insn),
        }
    }

    /// Forms in which R31 or a literal makes the operation a move.
    fn alu_with_constants(&mut self, insn: &Insn) -> bool {
        use Opcode::*;
        let b = self.operand_b(insn);
        let b_zero = b == Operand::Imm(0);
        match insn.op {
            Bis | Addq | Xor if insn.a == ZERO => self.copy(insn.c, b),
            Bis | Addq | Subq | Xor | Bic | Sll | Srl | Sra if b_zero => {
                self.copy(insn.c, self.operand(insn.a));
            }
            Bis | And if !insn.lit && insn.a == insn.b => self.copy(insn.c, b),
            Xor | Subq if !insn.lit && insn.a == insn.b => self.put_const(insn.c, 0),
            Addl | Subl if b_zero => {
                let host = self.target(insn.c);
                self.sign_extend(host, self.operand(insn.a));
                self.put(insn.c, host);
            }
            Addl if insn.a == ZERO => {
                let host = self.target(insn.c);
                self.sign_extend(host, b);
                self.put(insn.c, host);
            }
            _ => return false,
        }
        true
    }

    fn copy(&mut self, c: u8, from: Operand) {
        match from {
            Operand::Imm(v) => self.put_const(c, i64::from(v)),
            Operand::Reg(h) => self.put(c, h),
            Operand::Mem(_) if from == self.operand(c) => {}
            Operand::Mem(_) => {
                let host = self.target(c);
                self.fetch(host, from);
                self.put(c, host);
            }
        }
    }

    /// `host <-` the low longword, sign-extended.
    fn sign_extend(&mut self, host: u8, from: Operand) {
        match from {
            Operand::Reg(h) => dynasm!(self.asm ; .arch x64 ; movsxd Rq(host), Rd(h)),
            Operand::Mem(d) => {
                dynasm!(self.asm ; .arch x64 ; movsxd Rq(host), DWORD [BYTE rbp + d]);
            }
            Operand::Imm(_) => self.fetch(host, from),
        }
    }

    /// An operation of all 64 bits that the host has, too.
    fn quadword(&mut self, op: Alu, insn: &Insn) {
        let (a, b, c) = (self.operand(insn.a), self.operand_b(insn), self.operand(insn.c));
        if let (Operand::Mem(d), true) = (c, a == c) {
            self.alu_mem(op, d, b);
            return;
        }
        let host = self.target(insn.c);
        if b == c && a != c {
            // The target is the second operand.
            if op == Alu::Sub {
                self.fetch(RAX, a);
                self.alu(op, RAX, b);
                self.put(insn.c, RAX);
            } else if let Operand::Mem(d) = c {
                self.alu_mem(op, d, a);
            } else {
                self.alu(op, host, a);
            }
            return;
        }
        match (op, a, b) {
            // Address arithmetic leaves both operands alone.
            (Alu::Add, Operand::Reg(x), Operand::Reg(y)) if a != c => {
                dynasm!(self.asm ; .arch x64 ; lea Rq(host), [Rq(x) + Rq(y)]);
            }
            (Alu::Add, Operand::Reg(x), Operand::Imm(v)) if a != c => self.lea(host, x, v),
            (Alu::Sub, Operand::Reg(x), Operand::Imm(v)) if a != c => self.lea(host, x, -v),
            _ => {
                self.fetch(host, a);
                self.alu(op, host, b);
            }
        }
        self.put(insn.c, host);
    }

    /// An operation with the complement of the second operand.
    fn complemented(&mut self, op: Alu, insn: &Insn) {
        let (a, b) = (self.operand(insn.a), self.operand_b(insn));
        let b = match b {
            Operand::Imm(v) => Operand::Imm(!v),
            _ => {
                self.fetch(RCX, b);
                dynasm!(self.asm ; .arch x64 ; not rcx);
                Operand::Reg(RCX)
            }
        };
        let host = self.target(insn.c);
        self.fetch(host, a);
        self.alu(op, host, b);
        self.put(insn.c, host);
    }

    fn longword(&mut self, op: Alu, scale: i8, insn: &Insn) {
        let (a, b) = (self.operand(insn.a), self.operand_b(insn));
        self.fetch_long(RAX, a);
        if scale != 0 {
            dynasm!(self.asm ; .arch x64 ; shl eax, scale);
        }
        self.alu_long(op, RAX, b);
        let host = self.target(insn.c);
        dynasm!(self.asm ; .arch x64 ; movsxd Rq(host), eax);
        self.put(insn.c, host);
    }

    fn scaled(&mut self, op: Alu, scale: i8, insn: &Insn) {
        let (a, b) = (self.operand(insn.a), self.operand_b(insn));
        if let (Alu::Add, Operand::Reg(x), Operand::Reg(y)) = (op, a, b) {
            let host = self.target(insn.c);
            match scale {
                2 => dynasm!(self.asm ; .arch x64 ; lea Rq(host), [Rq(y) + Rq(x) * 4]),
                _ => dynasm!(self.asm ; .arch x64 ; lea Rq(host), [Rq(y) + Rq(x) * 8]),
            }
            self.put(insn.c, host);
            return;
        }
        self.fetch(RAX, a);
        dynasm!(self.asm ; .arch x64 ; shl rax, scale);
        self.alu(op, RAX, b);
        self.put(insn.c, RAX);
    }

    /// `RAX <- ra * rb`; the overflow flag says whether it fits.
    fn multiply(&mut self, insn: &Insn) {
        let (a, b) = (self.operand(insn.a), self.operand_b(insn));
        match b {
            Operand::Imm(v) => {
                let a = self.in_reg(a, RAX);
                dynasm!(self.asm ; .arch x64 ; imul rax, Rq(a), DWORD v);
            }
            _ => {
                self.fetch(RAX, a);
                let b = self.in_reg(b, RCX);
                dynasm!(self.asm ; .arch x64 ; imul rax, Rq(b));
            }
        }
    }

    /// As `multiply`, low longwords.
    fn multiply_long(&mut self, insn: &Insn) {
        let (a, b) = (self.operand(insn.a), self.operand_b(insn));
        match b {
            Operand::Imm(v) => {
                let a = self.in_reg(a, RAX);
                dynasm!(self.asm ; .arch x64 ; imul eax, Rd(a), DWORD v);
            }
            _ => {
                self.fetch(RAX, a);
                let b = self.in_reg(b, RCX);
                dynasm!(self.asm ; .arch x64 ; imul eax, Rd(b));
            }
        }
    }

    fn compare(&mut self, cc: u8, insn: &Insn) {
        let (a, b) = (self.operand(insn.a), self.operand_b(insn));
        match (a, b) {
            (Operand::Mem(d), Operand::Reg(_) | Operand::Imm(_)) => self.alu_mem(Alu::Cmp, d, b),
            _ => {
                let a = self.in_reg(a, RAX);
                self.alu(Alu::Cmp, a, b);
            }
        }
        let host = self.target(insn.c);
        self.setcc(cc, host);
        self.put(insn.c, host);
        self.fused = Some((insn.c, cc));
    }

    fn lower_shift(&mut self, shift: Shift, insn: &Insn) {
        let (a, b) = (self.operand(insn.a), self.operand_b(insn));
        let host = self.target(insn.c);
        match b {
            Operand::Imm(count) => {
                self.fetch(host, a);
                self.shift_by(shift, host, count as u8 & 63);
            }
            _ => {
                let a = self.in_reg(a, RAX);
                let count = self.in_reg(b, RCX);
                self.shift(shift, host, a, count);
            }
        }
        self.put(insn.c, host);
    }

    /// Shifts a host register by a constant.
    pub(super) fn shift_by(&mut self, shift: Shift, host: u8, count: u8) {
        let count = count as i8;
        match shift {
            _ if count == 0 => {}
            Shift::Left => dynasm!(self.asm ; .arch x64 ; shl Rq(host), count),
            Shift::Right => dynasm!(self.asm ; .arch x64 ; shr Rq(host), count),
            Shift::Arithmetic => dynasm!(self.asm ; .arch x64 ; sar Rq(host), count),
        }
    }

    /// `host <- a` shifted by the low six bits of `count`. Without BMI2 changes RAX and RCX.
    pub(super) fn shift(&mut self, shift: Shift, host: u8, a: u8, count: u8) {
        if self.host.bmi2 {
            match shift {
                Shift::Left => {
                    dynasm!(self.asm ; .arch x64 ; shlx Rq(host), Rq(a), Rq(count));
                }
                Shift::Right => {
                    dynasm!(self.asm ; .arch x64 ; shrx Rq(host), Rq(a), Rq(count));
                }
                Shift::Arithmetic => {
                    dynasm!(self.asm ; .arch x64 ; sarx Rq(host), Rq(a), Rq(count));
                }
            }
            return;
        }
        self.fetch(RCX, Operand::Reg(count));
        self.fetch(RAX, Operand::Reg(a));
        match shift {
            Shift::Left => dynasm!(self.asm ; .arch x64 ; shl rax, cl),
            Shift::Right => dynasm!(self.asm ; .arch x64 ; shr rax, cl),
            Shift::Arithmetic => dynasm!(self.asm ; .arch x64 ; sar rax, cl),
        }
        self.fetch(host, Operand::Reg(RAX));
    }

    fn count_bits(&mut self, insn: &Insn) {
        let b = self.operand_b(insn);
        let b = self.in_reg(b, RCX);
        match insn.op {
            Opcode::Ctpop => dynasm!(self.asm ; .arch x64 ; popcnt rax, Rq(b)),
            Opcode::Ctlz => dynasm!(self.asm ; .arch x64 ; lzcnt rax, Rq(b)),
            _ => dynasm!(self.asm ; .arch x64 ; tzcnt rax, Rq(b)),
        }
        self.put(insn.c, RAX);
    }

    /// /V forms: overflow leaves the instruction to the interpreter, which raises the trap.
    pub(super) fn lower_alu_v(&mut self, insn: &Insn) {
        use Opcode::*;
        let (a, b) = (self.operand(insn.a), self.operand_b(insn));
        match insn.op {
            AddqV | SubqV => {
                self.fetch(RAX, a);
                self.alu(if insn.op == AddqV { Alu::Add } else { Alu::Sub }, RAX, b);
            }
            AddlV | SublV => {
                self.fetch_long(RAX, a);
                self.alu_long(if insn.op == AddlV { Alu::Add } else { Alu::Sub }, RAX, b);
            }
            MulqV => self.multiply(insn),
            _ => self.multiply_long(insn),
        }
        self.cold_if(cc::O);
        if matches!(insn.op, AddlV | SublV | MullV) {
            dynasm!(self.asm ; .arch x64 ; movsxd rax, eax);
        }
        self.put(insn.c, RAX);
    }

    pub(super) fn lower_cmov(&mut self, insn: &Insn) {
        use Opcode::*;
        if Self::is_sink(insn.c) {
            return;
        }
        let b = match self.operand_b(insn) {
            Operand::Imm(v) => {
                self.fetch(RCX, Operand::Imm(v));
                Operand::Reg(RCX)
            }
            other => other,
        };
        let branch = match insn.op {
            Cmoveq => Beq,
            Cmovne => Bne,
            Cmovlt => Blt,
            Cmovge => Bge,
            Cmovle => Ble,
            Cmovgt => Bgt,
            Cmovlbs => Blbs,
            _ => Blbc,
        };
        if insn.a == ZERO {
            // Known at once.
            if matches!(branch, Beq | Bge | Ble | Blbc) {
                self.copy(insn.c, b);
            }
            return;
        }
        let host = self.target(insn.c);
        if pin(insn.c).is_none() {
            self.fetch(host, self.operand(insn.c));
        }
        let cc = self.condition(branch, insn.a);
        self.cmov(cc, host, b);
        self.put(insn.c, host);
    }
}
