//! Templates of extract, insert, mask, zap, byte comparison and sign extension.

use axp_emu::isa::{Insn, Opcode, ZERO};
use dynasmrt::{DynasmApi, dynasm};

use super::emit::{Alu, Emitter, Operand};
use super::lower_int::Shift;
use super::regs::{RAX, RCX, RDX};

/// Mask of the lowest `bytes` bytes.
fn low_bytes(bytes: u32) -> u64 {
    if bytes == 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 }
}

/// Mask of whole bytes from a mask of their numbers.
fn byte_mask(bits: u8) -> u64 {
    (0..8).fold(0, |mask, i| mask | (u64::from(bits >> i & 1) * 0xff) << (8 * i))
}

/// What EXT, INS and MSK do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Extract,
    Insert,
    Mask,
}

/// Action, width in bytes and direction (high half or low).
fn shape(op: Opcode) -> Option<(Action, u32, bool)> {
    use Action::*;
    use Opcode::*;
    Some(match op {
        Extbl => (Extract, 1, false),
        Extwl => (Extract, 2, false),
        Extll => (Extract, 4, false),
        Extql => (Extract, 8, false),
        Extwh => (Extract, 2, true),
        Extlh => (Extract, 4, true),
        Extqh => (Extract, 8, true),
        Insbl => (Insert, 1, false),
        Inswl => (Insert, 2, false),
        Insll => (Insert, 4, false),
        Insql => (Insert, 8, false),
        Inswh => (Insert, 2, true),
        Inslh => (Insert, 4, true),
        Insqh => (Insert, 8, true),
        Mskbl => (Mask, 1, false),
        Mskwl => (Mask, 2, false),
        Mskll => (Mask, 4, false),
        Mskql => (Mask, 8, false),
        Mskwh => (Mask, 2, true),
        Msklh => (Mask, 4, true),
        Mskqh => (Mask, 8, true),
        _ => return None,
    })
}

impl Emitter<'_> {
    pub(super) fn lower_byte(&mut self, insn: &Insn) {
        use Opcode::*;
        if let Some((action, bytes, high)) = shape(insn.op) {
            match self.operand_b(insn) {
                Operand::Imm(v) => self.known_offset(insn, action, bytes, high, v as u32 & 7),
                b => self.any_offset(insn, action, bytes, high, b),
            }
            return;
        }
        match insn.op {
            Zapnot if insn.lit => self.keep_bytes(insn, insn.imm as u8),
            Zap if insn.lit => self.keep_bytes(insn, !insn.imm as u8),
            Zap | Zapnot if self.host.bmi2 => self.zap(insn),
            Sextb | Sextw => {
                let b = self.operand_b(insn);
                let b = self.in_reg(b, RAX);
                let host = self.target(insn.c);
                if insn.op == Sextb {
                    dynasm!(self.asm ; .arch x64 ; movsx Rq(host), Rb(b));
                } else {
                    dynasm!(self.asm ; .arch x64 ; movsx Rq(host), Rw(b));
                }
                self.put(insn.c, host);
            }
            Cmpbge => self.cmpbge(insn),
            _ => self.interpret(insn),
        }
    }

    /// `host <- a`'s lowest `bytes` bytes, the rest zero.
    fn keep_low(&mut self, host: u8, a: u8, bytes: u32) {
        match bytes {
            1 => dynasm!(self.asm ; .arch x64 ; movzx Rd(host), Rb(a)),
            2 => dynasm!(self.asm ; .arch x64 ; movzx Rd(host), Rw(a)),
            4 => dynasm!(self.asm ; .arch x64 ; mov Rd(host), Rd(a)),
            _ => self.fetch(host, Operand::Reg(a)),
        }
    }

    /// Keeps the bytes that the mask selects.
    fn keep_bytes(&mut self, insn: &Insn, mask: u8) {
        let a = self.operand(insn.a);
        let host = self.target(insn.c);
        match mask {
            0 => return self.put_const(insn.c, 0),
            0x01 | 0x03 => {
                let a = self.in_reg(a, RAX);
                self.keep_low(host, a, if mask == 1 { 1 } else { 2 });
            }
            0x0f => self.fetch_long(host, a),
            0xff => self.fetch(host, a),
            _ => {
                self.fetch(host, a);
                self.and_const(host, byte_mask(mask));
            }
        }
        self.put(insn.c, host);
    }

    /// `host <- host & mask`. Changes RCX.
    fn and_const(&mut self, host: u8, mask: u64) {
        match i32::try_from(mask as i64) {
            Ok(v) => self.alu(Alu::And, host, Operand::Imm(v)),
            Err(_) => {
                self.set_const(RCX, mask as i64);
                self.alu(Alu::And, host, Operand::Reg(RCX));
            }
        }
    }

    /// ZAP and ZAPNOT by a register: the mask's bits spread to bytes.
    fn zap(&mut self, insn: &Insn) {
        let b = self.operand_b(insn);
        let b = self.in_reg(b, RAX);
        self.set_const(RCX, 0x0101_0101_0101_0101);
        // One bit a byte, then each times 255.
        dynasm!(self.asm ; .arch x64
            ; pdep rcx, Rq(b), rcx
            ; mov rax, rcx
            ; shl rcx, 8
            ; sub rcx, rax
        );
        if insn.op == Opcode::Zap {
            dynasm!(self.asm ; .arch x64 ; not rcx);
        }
        self.fetch(RAX, self.operand(insn.a));
        self.alu(Alu::And, RAX, Operand::Reg(RCX));
        self.put(insn.c, RAX);
    }

    fn known_offset(&mut self, insn: &Insn, action: Action, bytes: u32, high: bool, offset: u32) {
        let bits = 8 * offset;
        let a = self.operand(insn.a);
        let host = self.target(insn.c);
        match action {
            Action::Extract => {
                self.fetch(host, a);
                if high {
                    self.shift_by(Shift::Left, host, (64 - bits) as u8 & 63);
                } else {
                    self.shift_by(Shift::Right, host, bits as u8);
                }
                // What was shifted in at the top is zero already.
                if high || bits + 8 * bytes < 64 {
                    self.keep_low(host, host, bytes);
                }
            }
            Action::Insert if high && offset == 0 => return self.put_const(insn.c, 0),
            Action::Insert => {
                let a = self.in_reg(a, RAX);
                self.keep_low(host, a, bytes);
                if high {
                    self.shift_by(Shift::Right, host, (64 - bits) as u8);
                } else {
                    self.shift_by(Shift::Left, host, bits as u8);
                }
            }
            Action::Mask => {
                self.fetch(host, a);
                let field = low_bytes(bytes);
                let mask = if high { field >> 1 >> (63 - bits) } else { field << bits };
                if mask != 0 {
                    self.and_const(host, !mask);
                }
            }
        }
        self.put(insn.c, host);
    }

    fn any_offset(&mut self, insn: &Insn, action: Action, bytes: u32, high: bool, b: Operand) {
        let a = self.operand(insn.a);
        // Eight times the offset: shifts look at six bits, so nothing has to be cut off.
        self.fetch_long(RCX, b);
        dynasm!(self.asm ; .arch x64 ; shl ecx, 3);
        match action {
            Action::Extract => {
                let a = self.in_reg(a, RAX);
                if high {
                    dynasm!(self.asm ; .arch x64 ; neg ecx);
                    self.shift(Shift::Left, RAX, a, RCX);
                } else {
                    self.shift(Shift::Right, RAX, a, RCX);
                }
                let host = self.target(insn.c);
                self.keep_low(host, RAX, bytes);
                self.put(insn.c, host);
                return;
            }
            Action::Insert => {
                let a = self.in_reg(a, RAX);
                self.keep_low(RAX, a, bytes);
                self.move_field(high);
            }
            Action::Mask => {
                self.set_const(RAX, low_bytes(bytes) as i64);
                self.move_field(high);
                dynasm!(self.asm ; .arch x64 ; not rax);
                self.alu(Alu::And, RAX, a);
            }
        }
        self.put(insn.c, RAX);
    }

    /// Moves the field in RAX by the bits in RCX, or to what of it spills into the next quadword.
    fn move_field(&mut self, high: bool) {
        if high {
            // Right by 64 minus the bits in two steps, so that none give zero; 63 minus them is
            // their complement.
            dynasm!(self.asm ; .arch x64 ; shr rax, 1 ; not ecx);
            self.shift(Shift::Right, RAX, RAX, RCX);
        } else {
            self.shift(Shift::Left, RAX, RAX, RCX);
        }
    }

    /// A byte is at least another one if it is the maximum of both.
    fn cmpbge(&mut self, insn: &Insn) {
        let (a, b) = (self.operand(insn.a), self.operand_b(insn));
        if insn.a == ZERO {
            dynasm!(self.asm ; .arch x64 ; pxor xmm0, xmm0);
        } else {
            let a = self.in_reg(a, RAX);
            dynasm!(self.asm ; .arch x64 ; movq xmm0, Rq(a));
        }
        let b = self.in_reg(b, RDX);
        dynasm!(self.asm ; .arch x64
            ; movq xmm1, Rq(b)
            ; pmaxub xmm1, xmm0
            ; pcmpeqb xmm1, xmm0
            ; pmovmskb eax, xmm1
            ; movzx eax, al
        );
        self.put(insn.c, RAX);
    }
}
