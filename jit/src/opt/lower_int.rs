//! Integer arithmetic, logic, comparison, shifts, counts and conditional moves.

use axp_emu::isa::{Insn, Opcode, SINK, ZERO};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::emit::Translator;
use super::lazy::Lazy;
use crate::runtime;

impl Translator<'_, '_> {
    pub(super) fn lower_alu(&mut self, insn: &Insn) {
        if insn.c == SINK {
            return;
        }
        if let Some(cc) = comparison(insn.op).filter(|_| self.in_order) {
            let (a, b) = (self.get(insn.a), self.operand_b(insn));
            return self.set_lazy(insn.c, Lazy::Compare(cc, a, b));
        }
        let value = match self.alu_with_constants(insn) {
            Some(value) => value,
            None => {
                let a = self.get(insn.a);
                let b = self.operand_b(insn);
                match self.alu_of_constants(insn.op, a, b) {
                    Some(value) => value,
                    None => self.alu(insn, a, b),
                }
            }
        };
        self.set(insn.c, value);
    }

    /// Forms in which R31 or a literal makes the operation something simpler.
    fn alu_with_constants(&mut self, insn: &Insn) -> Option<Value> {
        use Opcode::*;
        let b_zero = if insn.lit { insn.imm == 0 } else { insn.b == ZERO };
        let a_zero = insn.a == ZERO;
        match insn.op {
            Bis | Addq | Xor if a_zero => Some(self.operand_b(insn)),
            Bis | Addq | Subq | Xor | Bic | Sll | Srl | Sra if b_zero => Some(self.get(insn.a)),
            Bis if !insn.lit && insn.a == insn.b => Some(self.get(insn.a)),
            Xor | Subq if !insn.lit && insn.a == insn.b => Some(self.iconst(0)),
            Ornot if a_zero => {
                let b = self.operand_b(insn);
                Some(self.b.ins().bnot(b))
            }
            Subq if a_zero => {
                let b = self.operand_b(insn);
                Some(self.b.ins().ineg(b))
            }
            Zapnot if insn.lit => Some(self.zapnot_literal(insn.a, insn.imm as u8)),
            Zap if insn.lit => Some(self.zapnot_literal(insn.a, !insn.imm as u8)),
            _ => None,
        }
    }

    /// With a constant operand, what need not be computed, or is known as a sum.
    fn alu_of_constants(&mut self, op: Opcode, a: Value, b: Value) -> Option<Value> {
        if !self.in_order {
            return None;
        }
        let (x, y) = (self.constant(a), self.constant(b));
        match (op, x, y) {
            (_, Some(x), Some(y)) => {
                let value = runtime::alu_thunk(op)?(x as u64, y as u64);
                Some(self.iconst(value as i64))
            }
            (Opcode::Addq, _, Some(y)) => Some(self.add_constant(a, y)),
            (Opcode::Addq, Some(x), _) => Some(self.add_constant(b, x)),
            (Opcode::Subq, _, Some(y)) => Some(self.add_constant(a, y.wrapping_neg())),
            _ => None,
        }
    }

    fn alu(&mut self, insn: &Insn, a: Value, b: Value) -> Value {
        use Opcode::*;
        match insn.op {
            Addl => self.longword(a, b, |t, a, b| t.b.ins().iadd(a, b)),
            Subl => self.longword(a, b, |t, a, b| t.b.ins().isub(a, b)),
            Mull => self.longword(a, b, |t, a, b| t.b.ins().imul(a, b)),
            S4addl => self.scaled_longword(a, b, 2, |t, a, b| t.b.ins().iadd(a, b)),
            S8addl => self.scaled_longword(a, b, 3, |t, a, b| t.b.ins().iadd(a, b)),
            S4subl => self.scaled_longword(a, b, 2, |t, a, b| t.b.ins().isub(a, b)),
            S8subl => self.scaled_longword(a, b, 3, |t, a, b| t.b.ins().isub(a, b)),
            Addq => self
                .add_carry(a, b)
                .or_else(|| self.add_carry(b, a))
                .unwrap_or_else(|| self.b.ins().iadd(a, b)),
            Subq => self.b.ins().isub(a, b),
            S4addq | S8addq => {
                let a = self.b.ins().ishl_imm_u(a, if insn.op == S4addq { 2 } else { 3 });
                self.b.ins().iadd(a, b)
            }
            S4subq | S8subq => {
                let a = self.b.ins().ishl_imm_u(a, if insn.op == S4subq { 2 } else { 3 });
                self.b.ins().isub(a, b)
            }
            Mulq => self.b.ins().imul(a, b),
            Umulh => self.b.ins().umulhi(a, b),
            And => match self.top_field(a, b) {
                Some(field) => field,
                None => self.b.ins().band(a, b),
            },
            Bic => self.b.ins().band_not(a, b),
            Bis => self.b.ins().bor(a, b),
            Ornot => self.b.ins().bor_not(a, b),
            Xor => self.b.ins().bxor(a, b),
            Eqv => self.b.ins().bxor_not(a, b),
            Sll => self.b.ins().ishl(a, b),
            Srl => self.b.ins().ushr(a, b),
            Sra => self.b.ins().sshr(a, b),
            Ctpop => self.b.ins().popcnt(b),
            Ctlz => self.b.ins().clz(b),
            Cttz => self.b.ins().ctz(b),
            op => match (comparison(op), self.lower_byte(insn, a, b)) {
                (Some(cc), _) => self.compare(cc, a, b),
                (_, Some(value)) => value,
                // Every `alu` row has a thunk: the table generates both.
                _ => self.call_alu(insn.op, a, b).unwrap_or(a),
            },
        }
    }

    /// Sign-extended result of a 32-bit operation.
    fn longword(
        &mut self,
        a: Value,
        b: Value,
        op: impl FnOnce(&mut Self, Value, Value) -> Value,
    ) -> Value {
        let (a, b) = (self.low32(a), self.low32(b));
        let value = op(self, a, b);
        self.b.ins().sextend(I64, value)
    }

    fn scaled_longword(
        &mut self,
        a: Value,
        b: Value,
        scale: i64,
        op: impl FnOnce(&mut Self, Value, Value) -> Value,
    ) -> Value {
        self.longword(a, b, |t, a, b| {
            let a = t.b.ins().ishl_imm_u(a, scale);
            op(t, a, b)
        })
    }

    /// A truth value as 0 or 1.
    fn compare(&mut self, cc: IntCC, a: Value, b: Value) -> Value {
        let truth = self.b.ins().icmp(cc, a, b);
        self.b.ins().uextend(I64, truth)
    }

    /// /V forms: overflow leaves the instruction to the interpreter, which raises the trap.
    pub(super) fn lower_alu_v(&mut self, insn: &Insn) {
        use Opcode::*;
        let a = self.get(insn.a);
        let b = self.operand_b(insn);
        let long = matches!(insn.op, AddlV | SublV | MullV);
        let (a, b) = if long { (self.low32(a), self.low32(b)) } else { (a, b) };
        let (value, overflow) = match insn.op {
            AddlV | AddqV => self.b.ins().sadd_overflow(a, b),
            SublV | SubqV => self.b.ins().ssub_overflow(a, b),
            _ => self.b.ins().smul_overflow(a, b),
        };
        self.cold_if(overflow, |t| t.stop_and_step());
        let value = if long { self.b.ins().sextend(I64, value) } else { value };
        self.set(insn.c, value);
    }

    pub(super) fn lower_cmov(&mut self, insn: &Insn) {
        if insn.c == SINK {
            return;
        }
        let truth = match insn.op {
            Opcode::Cmoveq => self.condition(Opcode::Beq, insn.a),
            Opcode::Cmovne => self.condition(Opcode::Bne, insn.a),
            Opcode::Cmovlt => self.condition(Opcode::Blt, insn.a),
            Opcode::Cmovge => self.condition(Opcode::Bge, insn.a),
            Opcode::Cmovle => self.condition(Opcode::Ble, insn.a),
            Opcode::Cmovgt => self.condition(Opcode::Bgt, insn.a),
            Opcode::Cmovlbs => self.condition(Opcode::Blbs, insn.a),
            _ => self.condition(Opcode::Blbc, insn.a),
        };
        let b = self.operand_b(insn);
        let old = self.get(insn.c);
        let value = self.b.ins().select(truth, b, old);
        self.set(insn.c, value);
    }

    /// Truth of an integer branch condition on a register.
    pub(super) fn condition(&mut self, branch: Opcode, r: u8) -> Value {
        if let Some((truth, _)) = self.condition_lazy(branch, r) {
            return truth;
        }
        let value = self.get(r);
        let cc = match branch {
            Opcode::Beq => IntCC::Equal,
            Opcode::Bne => IntCC::NotEqual,
            Opcode::Blt => IntCC::SignedLessThan,
            Opcode::Bge => IntCC::SignedGreaterThanOrEqual,
            Opcode::Ble => IntCC::SignedLessThanOrEqual,
            Opcode::Bgt => IntCC::SignedGreaterThan,
            _ => {
                let bit = self.b.ins().band_imm_s(value, 1);
                let cc = if branch == Opcode::Blbs { IntCC::NotEqual } else { IntCC::Equal };
                return self.b.ins().icmp_imm_s(cc, bit, 0);
            }
        };
        self.b.ins().icmp_imm_s(cc, value, 0)
    }
}

/// What an integer comparison compares for.
fn comparison(op: Opcode) -> Option<IntCC> {
    Some(match op {
        Opcode::Cmpeq => IntCC::Equal,
        Opcode::Cmplt => IntCC::SignedLessThan,
        Opcode::Cmple => IntCC::SignedLessThanOrEqual,
        Opcode::Cmpult => IntCC::UnsignedLessThan,
        Opcode::Cmpule => IntCC::UnsignedLessThanOrEqual,
        _ => return None,
    })
}
