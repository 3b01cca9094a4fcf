//! What a quadword is made of: looks through definitions for 32-bit values, rotates and carries.
//!
//! Alpha keeps longwords sign-extended and builds 32-bit rotates from 64-bit shifts. Looking through
//! the extensions lets a chain of such instructions become 32-bit host operations; Cranelift's own
//! rules do not narrow shifts and know no rotate.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode, Value, ValueDef};

use super::emit::Translator;

/// How deep to look through definitions.
const DEPTH: u32 = 6;

impl Translator<'_, '_> {
    /// The low longword of a quadword, as an i32.
    pub(super) fn low32(&mut self, value: Value) -> Value {
        match self.narrow(value, DEPTH) {
            Some(narrow) => narrow,
            None => self.b.ins().ireduce(I32, value),
        }
    }

    /// The instruction that defines a value.
    fn definition(&self, value: Value) -> Option<InstructionData> {
        let dfg = &self.b.func.dfg;
        match dfg.value_def(dfg.resolve_aliases(value)) {
            ValueDef::Result(inst, 0) => Some(dfg.insts[inst]),
            _ => None,
        }
    }

    /// The value of an integer constant.
    pub(super) fn constant(&self, value: Value) -> Option<i64> {
        match self.definition(value)? {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
            _ => None,
        }
    }

    /// Operands of a two-operand instruction with this opcode.
    fn binary(&self, value: Value, wanted: Opcode) -> Option<[Value; 2]> {
        match self.definition(value)? {
            InstructionData::Binary { opcode, args } if opcode == wanted => Some(args),
            _ => None,
        }
    }

    /// The 32-bit product of which a value is an extension.
    pub(super) fn product32(&self, value: Value) -> Option<Value> {
        let (product, _) = self.extended(value)?;
        self.binary(product, Opcode::Imul).map(|_| product)
    }

    /// The i32 of which a value is an extension, and whether by zeros.
    fn extended(&self, value: Value) -> Option<(Value, bool)> {
        match self.definition(value)? {
            InstructionData::Unary { opcode: Opcode::Sextend, arg } => {
                (self.b.func.dfg.value_type(arg) == I32).then_some((arg, false))
            }
            InstructionData::Unary { opcode: Opcode::Uextend, arg } => {
                (self.b.func.dfg.value_type(arg) == I32).then_some((arg, true))
            }
            _ => None,
        }
    }

    fn narrow(&mut self, value: Value, depth: u32) -> Option<Value> {
        if depth == 0 || self.b.func.dfg.value_type(value) != I64 {
            return None;
        }
        if let Some((inner, _)) = self.extended(value) {
            return Some(inner);
        }
        if let Some(constant) = self.constant(value) {
            return Some(self.b.ins().iconst(I32, i64::from(constant as u32)));
        }
        if let Some(rotate) = self.rotate(value) {
            return Some(rotate);
        }
        if let Some([x, by]) = self.binary(value, Opcode::Ishl)
            && let Some(by @ 0..32) = self.constant(by)
        {
            let x = self.narrow(x, depth - 1)?;
            return Some(self.b.ins().ishl_imm_u(x, by));
        }
        if let Some([x, by]) = self.binary(value, Opcode::Ushr)
            && let Some(by @ 0..32) = self.constant(by)
            && let Some((x, true)) = self.extended(x)
        {
            return Some(self.b.ins().ushr_imm_u(x, by));
        }
        None
    }

    /// `(x << k) | (zero_extended(x) >> (32 - k))` is a rotate as far as the low longword goes.
    fn rotate(&mut self, value: Value) -> Option<Value> {
        let [a, b] = self.binary(value, Opcode::Bor).or(self.binary(value, Opcode::Iadd))?;
        let (left, right) = match (self.shift(a), self.shift(b)) {
            (Some((Opcode::Ishl, x, k)), Some((Opcode::Ushr, y, n))) => ((x, k), (y, n)),
            (Some((Opcode::Ushr, y, n)), Some((Opcode::Ishl, x, k))) => ((x, k), (y, n)),
            _ => return None,
        };
        let ((x, k), (y, n)) = (left, right);
        if k + n != 32 || !(1..32).contains(&k) {
            return None;
        }
        let (y, true) = self.extended(y)? else { return None };
        let x = self.narrow(x, 2)?;
        let dfg = &self.b.func.dfg;
        if dfg.resolve_aliases(x) != dfg.resolve_aliases(y) {
            return None;
        }
        Some(self.b.ins().rotl_imm_u(x, k))
    }

    /// `high + carry` where `carry` is CMPULT of a sum with one of its terms: the host's add with
    /// carry, which Cranelift has as the high half of a 128-bit sum.
    pub(super) fn add_carry(&mut self, high: Value, carry: Value) -> Option<Value> {
        let InstructionData::Unary { opcode: Opcode::Uextend, arg } = self.definition(carry)?
        else {
            return None;
        };
        let InstructionData::IntCompare { cond: IntCC::UnsignedLessThan, args, .. } =
            self.definition(arg)?
        else {
            return None;
        };
        let [sum, term] = args;
        let [p, q] = self.binary(sum, Opcode::Iadd)?;
        let dfg = &self.b.func.dfg;
        let [p, q, term] = [p, q, term].map(|v| dfg.resolve_aliases(v));
        if term != p && term != q || self.constant(q).is_some() || self.constant(p).is_some() {
            return None;
        }
        let zero = self.iconst(0);
        let a = self.b.ins().iconcat(p, high);
        let b = self.b.ins().iconcat(q, zero);
        let wide = self.b.ins().iadd(a, b);
        Some(self.b.ins().isplit(wide).1)
    }

    /// A bit field that ends where the low longword does, as a rotate has it for one of its parts: a shift
    /// of the longword, without a mask.
    pub(super) fn top_field(&mut self, value: Value, mask: Value) -> Option<Value> {
        let mask = self.constant(mask).filter(|mask| mask & mask.wrapping_add(1) == 0)?;
        let (opcode, of, start) = self.shift(value)?;
        let ends = start + i64::from(mask.count_ones()) == 32 && (1..32).contains(&start);
        if opcode != Opcode::Ushr || !ends {
            return None;
        }
        let low = self.low32(of);
        let field = self.b.ins().ushr_imm_u(low, start);
        Some(self.b.ins().uextend(I64, field))
    }

    fn shift(&self, value: Value) -> Option<(Opcode, Value, i64)> {
        for opcode in [Opcode::Ishl, Opcode::Ushr] {
            if let Some([x, by]) = self.binary(value, opcode) {
                return Some((opcode, x, self.constant(by)?));
            }
        }
        None
    }
}
