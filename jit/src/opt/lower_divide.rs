//! Calls of the guest's division routines, done by the host's divide.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

use super::emit::{GUEST, Translator};
use crate::abi::word;
use crate::divide::{Division, LINK};

impl Translator<'_, '_> {
    /// All that a call of the routine does; BSR's own lowering goes on to the next instruction.
    pub(super) fn lower_division(&mut self, division: &Division) {
        self.before_access(true);
        let (n, d) = (self.get(24), self.get(25));
        let low = self.low32(d);
        let zero = self.b.ins().icmp_imm_s(IntCC::Equal, if division.long { low } else { d }, 0);
        // The guest's own routine raises the trap.
        self.cold_if(zero, |t| t.stop_and_step());
        let frame = division.frame();
        if !self.bounds.covers(30, -frame) {
            let sp = self.get(30);
            let end = self.load_word(word::WINDOW);
            let outside = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, sp, end);
            self.cold_if(outside, |t| t.stop_and_step());
        }
        if !self.mode.precise {
            // Where registers need not be exact, the pc of a fault is the routine's first store.
            self.attribute(division.entry + 4);
        }
        let (signed_n, signed_d) = match (division.signed, division.long) {
            (true, true) => {
                let (n, d) = (self.low32(n), low);
                (self.b.ins().sextend(I64, n), self.b.ins().sextend(I64, d))
            }
            _ => (n, d),
        };
        self.save(frame, &[(0, 0), (1, 8), (2, 16)]);
        if division.long {
            self.save(frame, &[(24, 48), (25, 56)]);
        }
        if division.signed {
            self.store_in_frame(frame, 24, signed_n);
            self.store_in_frame(frame, 32, signed_d);
        }
        self.look_back();
        self.attribute(self.pc);

        let magnitude = match (division.signed, division.long) {
            (true, _) => {
                let (n, d) = (self.b.ins().iabs(signed_n), self.b.ins().iabs(signed_d));
                self.divide(division, n, d)
            }
            (false, true) => {
                let n = self.low32(n);
                let value = self.divide(division, n, low);
                self.b.ins().uextend(I64, value)
            }
            (false, false) => self.divide(division, n, d),
        };
        let mut result = magnitude;
        let mut scratch = self.iconst(division.tables as i64);
        if division.signed {
            scratch = self.b.ins().ineg(magnitude);
            let sign =
                if division.remainder { signed_n } else { self.b.ins().bxor(signed_n, signed_d) };
            let negative = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, sign, 0);
            result = self.b.ins().select(negative, scratch, magnitude);
        }
        if division.long {
            let low = self.low32(result);
            result = self.b.ins().sextend(I64, low);
        }
        let link = self.iconst(self.pc as i64 + 4);
        self.set(LINK, link);
        self.set(27, result);
        self.set(28, scratch);
    }

    /// Quotient or remainder of unsigned operands; the divisor is not zero.
    fn divide(&mut self, division: &Division, n: Value, d: Value) -> Value {
        if division.remainder { self.b.ins().urem(n, d) } else { self.b.ins().udiv(n, d) }
    }

    /// Stores registers into the routine's frame.
    fn save(&mut self, frame: i32, registers: &[(u8, i32)]) {
        for &(r, at) in registers {
            let value = self.get(r);
            self.store_in_frame(frame, at, value);
        }
    }

    fn store_in_frame(&mut self, frame: i32, at: i32, value: Value) {
        let sp = self.get(30);
        let sp = self.host(sp);
        self.b.ins().store(GUEST, value, sp, at - frame);
    }
}
