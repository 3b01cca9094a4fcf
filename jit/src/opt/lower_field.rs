//! Data that a plan ([`fields`]) loads in one piece.

use axp_emu::isa::Insn;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::emit::{GUEST, Mode, Translator};
use super::merged::Merged;
use crate::fields::{self, Action};
use crate::region::Block;

impl Translator<'_, '_> {
    /// The plan for a block. Data that are not aligned have to trap in strict mode, and a counted
    /// run may stop between any two instructions.
    pub(super) fn plan(&self, b: usize, block: &Block) -> Option<Vec<Action>> {
        let Mode { counted, strict, precise, observed, .. } = self.mode;
        if counted || strict || self.mode.translated() {
            return None;
        }
        let live_out = self.facts.live_out[b];
        fields::plan(block, &self.bounds, live_out, precise, observed, super::is_access)
    }

    pub(super) fn lower_planned(&mut self, insn: &Insn, action: Action) {
        let value = match action {
            Action::Plain => return self.lower(insn),
            Action::Skip => return,
            Action::Load { datum, size, disp, elide, other } => {
                let block = &self.region.blocks[self.current];
                let other = other.map(|other| block.pc + 4 * other as u64);
                self.merged.extend(other.map(|other| Merged::datum(self.pc, other)));
                self.load_datum(insn, datum, size, disp);
                if elide {
                    self.bounds.step(insn, true);
                } else {
                    self.lower(insn);
                }
                return;
            }
            Action::Low(datum) => self.low_part(datum),
            Action::High(datum) => self.high_part(datum),
            Action::Whole(datum) => self.data[&datum].0,
            Action::Signed(datum) => {
                let byte = self.b.ins().ireduce(I8, self.data[&datum].0);
                self.b.ins().sextend(I64, byte)
            }
        };
        self.set(insn.c, value);
        self.bounds.step(insn, false);
    }

    /// Loads a datum at a distance from the base of an LDQ_U, the first that touches it.
    fn load_datum(&mut self, insn: &Insn, datum: usize, size: u8, disp: i32) {
        let (base, _) = self.address(insn);
        let va = self.get(insn.b);
        let va = self.b.ins().iadd_imm_s(va, i64::from(disp));
        let value = match size {
            1 => self.b.ins().uload8(I64, GUEST, base, disp),
            2 => self.b.ins().uload16(I64, GUEST, base, disp),
            4 => self.b.ins().uload32(GUEST, base, disp),
            _ => self.b.ins().load(I64, GUEST, base, disp),
        };
        self.data.insert(datum, (value, va));
    }

    /// Ones in the bits of a datum that lie in the first of its quadwords.
    fn first_quadword(&mut self, datum: usize) -> (Value, Value) {
        let (value, va) = self.data[&datum];
        let offset = self.bit_offset(va);
        let ones = self.iconst(-1);
        (value, self.b.ins().ushr(ones, offset))
    }

    fn low_part(&mut self, datum: usize) -> Value {
        let (value, mask) = self.first_quadword(datum);
        self.b.ins().band(value, mask)
    }

    /// EXTxH leaves a quadword at an address that is aligned as it is.
    fn high_part(&mut self, datum: usize) -> Value {
        let (value, mask) = self.first_quadword(datum);
        let part = self.b.ins().band_not(value, mask);
        let aligned = self.b.ins().icmp_imm_s(IntCC::Equal, mask, -1);
        self.b.ins().select(aligned, value, part)
    }
}
