//! Results that are computed where somebody needs them, or nowhere.
//!
//! Regions with floating point are compiled without Cranelift's optimiser (see `compile`), which would
//! otherwise sink and merge these. Here a comparison stays a pair of operands until it is known who
//! asks: a branch and a conditional move take the comparison itself, an edge on which the truth is
//! known takes a constant, and an exit computes the register's value for itself.

use axp_emu::isa::{Opcode, RegSet};
use cranelift_codegen::ir::condcodes::{CondCode, FloatCC, IntCC};
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::emit::{Translator, srcloc};

/// A result that has not been computed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lazy {
    /// CMPxx: 1 or 0.
    Compare(IntCC, Value, Value),
    /// CMPTxx, whose flags are already set: 2.0 or 0.0.
    CompareF(FloatCC, Value, Value),
    /// LDS, at this address, of what is used as a number.
    Single(Value, u64),
    /// A known quadword or number.
    Constant(u64),
}

/// What waits, by register; floating-point registers count from 32.
pub(super) type Waiting = std::collections::BTreeMap<u8, Lazy>;

/// Number of the first floating-point register in [`Waiting`].
pub(super) const FP: u8 = 32;

impl Translator<'_, '_> {
    /// Gives an integer register a result that waits.
    pub(super) fn set_lazy(&mut self, r: u8, lazy: Lazy) {
        self.dirty.int |= 1 << r;
        self.waiting.insert(r, lazy);
    }

    /// Gives a floating-point register a result that waits.
    pub(super) fn set_lazy_f(&mut self, r: u8, lazy: Lazy) {
        self.dirty.fp |= 1 << r;
        self.waiting.insert(FP + r, lazy);
        if self.compare.is_some_and(|(c, _)| c == r) {
            self.compare = None;
        }
    }

    /// The single that an LDS has loaded into a register, if it still waits.
    pub(super) fn waiting_single(&self, r: u8) -> Option<Value> {
        match self.waiting.get(&(FP + r)) {
            Some(&Lazy::Single(single, _)) => Some(single),
            _ => None,
        }
    }

    /// Value of an integer register whose result waited, computed here.
    pub(super) fn take_lazy(&mut self, r: u8) -> Option<Value> {
        let lazy = self.waiting.remove(&r)?;
        Some(self.compute(lazy, false))
    }

    /// The same for a floating-point register.
    pub(super) fn take_lazy_f(&mut self, r: u8) -> Option<Value> {
        let lazy = self.waiting.remove(&(FP + r))?;
        Some(self.compute(lazy, true))
    }

    /// A register is written otherwise.
    pub(super) fn forget_lazy(&mut self, r: u8) {
        self.waiting.remove(&r);
    }

    /// The same for a floating-point register.
    pub(super) fn forget_lazy_f(&mut self, r: u8) {
        self.waiting.remove(&(FP + r));
    }

    fn compute(&mut self, lazy: Lazy, fp: bool) -> Value {
        match lazy {
            Lazy::Compare(cc, a, b) => {
                let truth = self.b.ins().icmp(cc, a, b);
                self.b.ins().uextend(I64, truth)
            }
            Lazy::CompareF(cc, a, b) => {
                let truth = self.b.ins().fcmp(cc, a, b);
                let (two, zero) = (self.b.ins().f64const(2.0), self.b.ins().f64const(0.0));
                self.b.ins().select(truth, two, zero)
            }
            Lazy::Single(single, pc) => {
                // An exception here is the load's.
                let here = self.b.srcloc();
                self.b.set_srcloc(srcloc(self.region, pc));
                let value = self.b.ins().fpromote(F64, single);
                self.b.set_srcloc(here);
                value
            }
            Lazy::Constant(bits) if fp => self.b.ins().f64const(f64::from_bits(bits)),
            Lazy::Constant(bits) => self.iconst(bits as i64),
        }
    }

    /// Computes what waits and is needed by whoever goes on at a block.
    pub(super) fn compute_live(&mut self, live: RegSet) {
        for r in self.waiting_in(live) {
            if r < FP {
                let value = self.get(r);
                self.define(r, value);
            } else {
                let value = self.get_f(r - FP);
                self.define_f(r - FP, value);
            }
        }
    }

    /// Computes a result that waits, by its number in [`Waiting`], and writes it to memory.
    pub(super) fn store_waiting(&mut self, r: u8) {
        let set = if r < FP {
            RegSet { int: 1 << r, fp: 0 }
        } else {
            RegSet { int: 0, fp: 1 << (r - FP) }
        };
        self.store_registers(set);
    }

    /// What waits of these registers.
    pub(super) fn waiting_in(&self, live: RegSet) -> Vec<u8> {
        let needed = |r: u8| match r.checked_sub(FP) {
            None => live.int & 1 << r != 0,
            Some(r) => live.fp & 1 << r != 0,
        };
        self.waiting.keys().copied().filter(|&r| needed(r)).collect()
    }

    /// A branch condition on an integer register whose comparison waits, and what the register is where
    /// the condition holds.
    pub(super) fn condition_lazy(&mut self, branch: Opcode, r: u8) -> Option<(Value, u64)> {
        use Opcode::*;
        let Some(&Lazy::Compare(cc, a, b)) = self.waiting.get(&r) else { return None };
        match branch {
            Bne | Blbs | Cmovne | Cmovlbs => Some((self.b.ins().icmp(cc, a, b), 1)),
            Beq | Blbc | Cmoveq | Cmovlbc => Some((self.b.ins().icmp(cc.complement(), a, b), 0)),
            _ => None,
        }
    }

    /// The same for a floating-point register.
    pub(super) fn condition_lazy_f(&mut self, branch: Opcode, r: u8) -> Option<(Value, u64)> {
        let Some(&Lazy::CompareF(cc, a, b)) = self.waiting.get(&(FP + r)) else { return None };
        match branch {
            Opcode::Fbne => Some((self.b.ins().fcmp(cc, a, b), 2f64.to_bits())),
            Opcode::Fbeq => Some((self.b.ins().fcmp(cc.complement(), a, b), 0)),
            _ => None,
        }
    }

    /// On an edge, the register that a branch has tested is known.
    pub(super) fn known(&mut self, known: Option<(bool, u8, u64)>) {
        if let Some((fp, r, bits)) = known {
            self.waiting.insert(if fp { FP + r } else { r }, Lazy::Constant(bits));
        }
    }
}
