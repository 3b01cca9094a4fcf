//! Loads and stores: window checks, widths, the S-format bit shuffle.

use axp_emu::isa::{Insn, Kind, Opcode, SINK, ZERO};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::emit::{GUEST, Translator};
use super::lazy::Lazy;
use crate::abi::word;

impl Translator<'_, '_> {
    /// Host address and displacement of an access, checked against the window where the analysis
    /// cannot tell that it hits the window or its guard.
    pub(super) fn address(&mut self, insn: &Insn) -> (Value, i32) {
        if self.mode.translated() {
            return self.translated_address(insn);
        }
        let kind = insn.op.kind();
        self.before_access(!matches!(
            kind,
            Kind::Load | Kind::LoadUnaligned | Kind::Fload | Kind::LoadLocked
        ));
        if insn.b == ZERO && !self.mode.strict {
            let va = self.iconst(i64::from(insn.imm));
            return (self.host(va), 0);
        }
        let base = self.get(insn.b);
        if !self.bounds.covers(insn.b, insn.imm) && !self.checked_nearby(insn, base) {
            let end = self.load_word(word::WINDOW);
            let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, base, end);
            self.cold_if(outside, |t| t.stop_and_step());
            self.bounds.accessed(insn.b, 0);
            let sum = self.sum_of(base);
            self.known.checked.push(sum);
        }
        if self.mode.strict && !matches!(insn.op, Opcode::LdqU | Opcode::StqU) {
            self.check_alignment(insn, base);
        }
        (self.host(base), insn.imm)
    }

    /// Whether the base is a sum of what this block has checked, near enough to need no check.
    fn checked_nearby(&mut self, insn: &Insn, base: Value) -> bool {
        let (root, disp) = self.sum_of(base);
        let same = self.known.checked.iter().filter(|c| c.0 == root);
        let Some(distance) = same.map(|c| disp - c.1).min_by_key(|d| d.unsigned_abs()) else {
            return false;
        };
        let Ok(distance) = i32::try_from(distance) else { return false };
        self.bounds.accessed(insn.b, distance);
        self.bounds.covers(insn.b, insn.imm)
    }

    /// Leaves an access that is not naturally aligned to the interpreter.
    fn check_alignment(&mut self, insn: &Insn, base: Value) {
        use Opcode::*;
        let size = match insn.op {
            Ldbu | Stb => return,
            Ldwu | Stw => 2,
            Ldl | Stl | Lds | Sts | LdlL | StlC => 4,
            _ => 8,
        };
        let va = self.b.ins().iadd_imm_s(base, i64::from(insn.imm));
        let odd = self.b.ins().band_imm_s(va, size - 1);
        self.cold_if(odd, |t| t.stop_and_step());
    }

    /// As `address`, with the low three bits of the guest address cleared.
    fn quadword_address(&mut self, insn: &Insn) -> Value {
        if self.mode.translated() {
            let (host, distance) = self.translated_address(insn);
            return self.b.ins().iadd_imm_s(host, i64::from(distance));
        }
        let (base, disp) = self.address(insn);
        let va = self.b.ins().iadd_imm_s(base, i64::from(disp));
        // The host base is a multiple of the page size.
        self.b.ins().band_imm_s(va, -8)
    }

    pub(super) fn lower_load(&mut self, insn: &Insn) {
        use Opcode::*;
        // A load to R31 or F31 is a prefetch and never faults.
        if insn.a == SINK || self.load_known(insn) {
            return;
        }
        match insn.op {
            LdqU => {
                let at = self.quadword_address(insn);
                let value = self.b.ins().load(I64, GUEST, at, 0);
                self.set(insn.a, value);
            }
            Ldf | Ldg => self.interpret_one(insn),
            _ => {
                let (at, disp) = self.address(insn);
                match insn.op {
                    Ldbu => {
                        let value = self.b.ins().uload8(I64, GUEST, at, disp);
                        self.set(insn.a, value);
                    }
                    Ldwu => {
                        let value = self.b.ins().uload16(I64, GUEST, at, disp);
                        self.set(insn.a, value);
                    }
                    Ldl => {
                        let value = self.b.ins().sload32(GUEST, at, disp);
                        self.set(insn.a, value);
                    }
                    Lds if self.is_number(insn) => {
                        let single = self.b.ins().load(F32, GUEST, at, disp);
                        let single = self.in_register(single);
                        self.set_lazy_f(insn.a, Lazy::Single(single, self.pc));
                    }
                    Lds => {
                        let bits = self.b.ins().uload32(GUEST, at, disp);
                        let value = self.s_to_register(bits);
                        self.set_bits(insn.a, value);
                    }
                    Ldt => {
                        let value = self.b.ins().load(F64, GUEST, at, disp);
                        let value = self.in_register(value);
                        self.set_f(insn.a, value);
                    }
                    _ => {
                        let value = self.b.ins().load(I64, GUEST, at, disp);
                        self.set(insn.a, value);
                    }
                }
            }
        }
    }

    pub(super) fn lower_store(&mut self, insn: &Insn) {
        use Opcode::*;
        match insn.op {
            StqU => {
                let at = self.quadword_address(insn);
                let value = self.get(insn.a);
                self.b.ins().store(GUEST, value, at, 0);
                self.has_stored();
                self.stored(insn, None);
            }
            Stf | Stg => self.interpret_one(insn),
            _ => {
                let (at, disp) = self.address(insn);
                let value = match insn.op {
                    Stb => self.low(insn.a, I8),
                    Stw => self.low(insn.a, I16),
                    Stl => self.low(insn.a, I32),
                    Sts => {
                        let bits = self.get_bits(insn.a);
                        let longword = self.register_to_s(bits);
                        self.b.ins().ireduce(I32, longword)
                    }
                    Stt => self.get_f(insn.a),
                    _ => self.get(insn.a),
                };
                self.b.ins().store(GUEST, value, at, disp);
                self.has_stored();
                self.stored(insn, Some(value).filter(|_| matches!(insn.op, Stq | Stt)));
            }
        }
    }

    fn low(&mut self, r: u8, ty: cranelift_codegen::ir::Type) -> Value {
        let value = self.get(r);
        if ty == I32 { self.low32(value) } else { self.b.ins().ireduce(ty, value) }
    }

    /// LDS: S format in a zero-extended longword to register format. The exponent's top bit stays,
    /// its complement is repeated three times, unless the exponent is all ones or all zeros.
    pub(super) fn s_to_register(&mut self, bits: Value) -> Value {
        let sign = self.b.ins().band_imm_s(bits, 0x8000_0000);
        let sign = self.b.ins().ishl_imm_u(sign, 32);
        let rest = self.b.ins().band_imm_s(bits, 0x7fff_ffff);
        let rest = self.b.ins().ishl_imm_u(rest, 29);
        // Rebias by 1023 - 127; exponents 0 and 255 are set right by selection.
        let normal = self.b.ins().iadd_imm_s(rest, (1023 - 127) << 52);
        let special = self.b.ins().iadd_imm_s(rest, (2047 - 255) << 52);
        let exponent = self.b.ins().band_imm_s(bits, 0x7f80_0000);
        let is_max = self.b.ins().icmp_imm_s(IntCC::Equal, exponent, 0x7f80_0000);
        let is_zero = self.b.ins().icmp_imm_s(IntCC::Equal, exponent, 0);
        let value = self.b.ins().select(is_max, special, normal);
        let value = self.b.ins().select(is_zero, rest, value);
        self.b.ins().bor(sign, value)
    }

    /// STS: sign and top exponent bit, then the exponent's low seven bits and 23 fraction bits.
    pub(super) fn register_to_s(&mut self, bits: Value) -> Value {
        let top = self.b.ins().ushr_imm_u(bits, 32);
        let top = self.b.ins().band_imm_s(top, 0xc000_0000);
        let rest = self.b.ins().ushr_imm_u(bits, 29);
        let rest = self.b.ins().band_imm_s(rest, 0x3fff_ffff);
        self.b.ins().bor(top, rest)
    }
}
