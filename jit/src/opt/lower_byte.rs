//! Extract, insert, mask, zap, byte comparison and sign extension.

use axp_emu::isa::{Insn, Opcode};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I8X16, I16, I32, I64, I64X2};
use cranelift_codegen::ir::{Endianness, InstBuilder, MemFlagsData, Value};

use super::emit::Translator;

/// Mask of the lowest `bytes` bytes.
fn low_bytes(bytes: u32) -> u64 {
    if bytes == 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 }
}

/// Width in bytes and direction (high half or low) of an EXT, INS or MSK instruction.
fn width(op: Opcode) -> Option<(u32, bool)> {
    use Opcode::*;
    Some(match op {
        Extbl | Insbl | Mskbl => (1, false),
        Extwl | Inswl | Mskwl => (2, false),
        Extll | Insll | Mskll => (4, false),
        Extql | Insql | Mskql => (8, false),
        Extwh | Inswh | Mskwh => (2, true),
        Extlh | Inslh | Msklh => (4, true),
        Extqh | Insqh | Mskqh => (8, true),
        _ => return None,
    })
}

impl Translator<'_, '_> {
    pub(super) fn lower_byte(&mut self, insn: &Insn, a: Value, b: Value) -> Option<Value> {
        use Opcode::*;
        Some(match insn.op {
            Sextb => self.sign_extend(b, I8),
            Sextw => self.sign_extend(b, I16),
            Cmpbge => self.cmpbge(a, b),
            Extbl | Extwl | Extll | Extql | Extwh | Extlh | Extqh => {
                let (bytes, high) = width(insn.op)?;
                self.extract(a, b, bytes, high)
            }
            Insbl | Inswl | Insll | Insql | Inswh | Inslh | Insqh => {
                let (bytes, high) = width(insn.op)?;
                let field = self.keep_low(a, bytes);
                self.place(field, b, high)
            }
            Mskbl | Mskwl | Mskll | Mskql | Mskwh | Msklh | Mskqh => {
                let (bytes, high) = width(insn.op)?;
                let ones = self.iconst(low_bytes(bytes) as i64);
                let mask = self.place(ones, b, high);
                self.b.ins().band_not(a, mask)
            }
            _ => return None,
        })
    }

    fn sign_extend(&mut self, value: Value, ty: cranelift_codegen::ir::Type) -> Value {
        let low = self.b.ins().ireduce(ty, value);
        self.b.ins().sextend(I64, low)
    }

    /// The lowest `bytes` bytes, the rest zero.
    pub(super) fn keep_low(&mut self, value: Value, bytes: u32) -> Value {
        let ty = match bytes {
            1 => I8,
            2 => I16,
            4 => {
                let low = self.low32(value);
                return self.b.ins().uextend(I64, low);
            }
            _ => return value,
        };
        if let Some(product) = self.product32(value) {
            // Cranelift would multiply once more, in the narrow type.
            let low = self.b.ins().band_imm_u(product, low_bytes(bytes) as i64);
            return self.b.ins().uextend(I64, low);
        }
        let low = self.b.ins().ireduce(ty, value);
        self.b.ins().uextend(I64, low)
    }

    /// Keeps the bytes of `ra` that the mask selects.
    pub(super) fn zapnot_literal(&mut self, ra: u8, mask: u8) -> Value {
        let value = self.get(ra);
        match mask {
            0 => self.iconst(0),
            0x01 => self.keep_low(value, 1),
            0x03 => self.keep_low(value, 2),
            0x0f => self.keep_low(value, 4),
            0xff => value,
            _ => {
                let bits =
                    (0..8).fold(0u64, |m, i| m | (u64::from(mask >> i & 1) * 0xff) << (8 * i));
                self.b.ins().band_imm_s(value, bits as i64)
            }
        }
    }

    /// Bit count of a byte offset: eight times its low three bits.
    pub(super) fn bit_offset(&mut self, b: Value) -> Value {
        let bits = self.b.ins().ishl_imm_u(b, 3);
        self.b.ins().band_imm_s(bits, 56)
    }

    fn extract(&mut self, a: Value, b: Value, bytes: u32, high: bool) -> Value {
        let shift = self.b.ins().ishl_imm_u(b, 3);
        let shifted = if high {
            // Left by 64 minus the offset, modulo 64: an offset of 0 leaves the value.
            let shift = self.b.ins().band_imm_s(shift, 56);
            let shift = self.b.ins().ineg(shift);
            self.b.ins().ishl(a, shift)
        } else {
            let shift = self.b.ins().band_imm_s(shift, 56);
            self.b.ins().ushr(a, shift)
        };
        self.keep_low(shifted, bytes)
    }

    /// Moves a field to its byte offset, or to what of it spills into the next quadword.
    fn place(&mut self, field: Value, b: Value, high: bool) -> Value {
        let offset = self.bit_offset(b);
        if !high {
            return self.b.ins().ishl(field, offset);
        }
        // Right by 64 minus the offset in two steps, so that an offset of 0 gives 0.
        let half = self.b.ins().ushr_imm_u(field, 1);
        let rest = self.b.ins().bxor_imm_u(offset, 63);
        self.b.ins().ushr(half, rest)
    }

    fn cmpbge(&mut self, a: Value, b: Value) -> Value {
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        let a = self.b.ins().scalar_to_vector(I64X2, a);
        let b = self.b.ins().scalar_to_vector(I64X2, b);
        let a = self.b.ins().bitcast(I8X16, flags, a);
        let b = self.b.ins().bitcast(I8X16, flags, b);
        let ge = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, a, b);
        let bits = self.b.ins().vhigh_bits(I32, ge);
        let bits = self.b.ins().uextend(I64, bits);
        self.b.ins().band_imm_s(bits, 0xff)
    }
}
