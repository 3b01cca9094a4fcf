//! Floating point as single host operations, in regions that run with the host's exceptions unmasked.
//!
//! For instructions with /S that round to nearest while no trap is enabled. Whatever the host cannot
//! do alone raises SIGFPE, and `crate::fpu` supplies the result and the status. Left to this code are
//! the differences that raise nothing, all of them about quiet NaNs.

use axp_emu::isa::{Insn, Kind, Opcode, SINK, ZERO};
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::types::{F32, F64, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value};

use super::emit::{Translator, srcloc};
use super::lazy::Lazy;
use super::lower_fp::Quals;
use crate::region::{self, Term};

/// A compare that waits for the branch which ends its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fused {
    insn: Insn,
    pc: u64,
}

impl Translator<'_, '_> {
    /// Emits `insn` if a single host operation will do.
    pub(super) fn lower_fp_direct(&mut self, insn: &Insn, q: &Quals) -> bool {
        use Opcode::*;
        if !self.mode.unmasked || !q.software {
            return false;
        }
        let plain = q.nearest && !q.inexact;
        match insn.op {
            // Of two NaNs Alpha takes the second, the host the first: the order is the host's.
            Addt if plain => {
                let (a, b) = (self.get_f(insn.a), self.get_f(insn.b));
                let value = self.b.ins().fadd(b, a);
                self.set_f(insn.c, value);
            }
            Mult if plain => {
                let (a, b) = (self.get_f(insn.a), self.get_f(insn.b));
                let value = self.b.ins().fmul(b, a);
                self.set_f(insn.c, value);
            }
            Subt | Divt if plain => {
                let (a, b) = (self.get_f(insn.a), self.get_f(insn.b));
                let value =
                    if insn.op == Subt { self.b.ins().fsub(a, b) } else { self.b.ins().fdiv(a, b) };
                let value = if insn.a == insn.b || insn.a >= ZERO || insn.b >= ZERO {
                    value
                } else {
                    let nan = self.b.ins().fcmp(FloatCC::Unordered, value, value);
                    self.cold_value(nan, value, F64, |t| t.exact_silent(insn))
                };
                self.set_f(insn.c, value);
            }
            Sqrtt if plain => {
                let b = self.get_f(insn.b);
                let value = self.b.ins().sqrt(b);
                self.set_f(insn.c, value);
            }
            Cvtts if plain => {
                let b = self.get_f(insn.b);
                let narrow = self.b.ins().fdemote(F32, b);
                let value = self.b.ins().fpromote(F64, narrow);
                self.set_f(insn.c, value);
            }
            // What does not fit raises; the handler then goes on behind the check for it.
            Cvttq if q.chopped && !q.inexact => {
                let b = self.get_f(insn.b);
                let quad = self.b.ins().fcvt_to_sint_sat(I64, b);
                self.set_bits(insn.c, quad);
            }
            // What an LDS has just loaded is converted once, here; a denormal or a signalling NaN raises.
            Cvtst if let Some(single) = self.waiting_single(insn.b) => {
                let value = self.b.ins().fpromote(F64, single);
                self.set_f(insn.c, value);
            }
            // Changes denormals and signalling NaNs only, and those raise.
            Cvtst => {
                let b = self.get_f(insn.b);
                let odd = self.b.ins().fcmp(FloatCC::Unordered, b, b);
                let value = self.cold_value(odd, b, F64, |t| t.exact_silent(insn));
                self.set_f(insn.c, value);
            }
            Cmpteq | Cmptlt | Cmptle | Cmptun if self.is_fused(insn) => {
                self.fused = Some(Fused { insn: *insn, pc: self.pc });
            }
            Cmpteq | Cmptlt | Cmptle | Cmptun => self.compare_direct(insn),
            _ => return false,
        }
        true
    }

    /// Whether the block ends with a branch on this compare's result, with nothing in between.
    fn is_fused(&self, insn: &Insn) -> bool {
        let block = &self.region.blocks[self.current];
        let rest = &block.insns[block.insns.len() - self.after..];
        let Some((branch, between)) = rest.split_last() else { return false };
        let n = block.insns.len() - self.after - 1;
        insn.c != SINK
            // The result is to be stored here, not on either edge.
            && !self.facts.is_through(self.current, n)
            && branch.a == insn.c
            && matches!(branch.op, Opcode::Fbeq | Opcode::Fbne)
            && matches!(block.term, Term::Cond { .. })
            && between.iter().all(|i| i.op.kind() == Kind::Barrier)
    }

    /// A compare whose result may be looked at later.
    fn compare_direct(&mut self, insn: &Insn) {
        let (a, b) = (self.get_f(insn.a), self.get_f(insn.b));
        if let Opcode::Cmptlt | Opcode::Cmptle = insn.op {
            // A quiet NaN is invalid here, and the host's comparison says nothing.
            let unordered = self.b.ins().fcmp(FloatCC::Unordered, a, b);
            self.cold_aside(unordered, |t| {
                t.exact_silent(insn);
            });
            if insn.c != SINK {
                self.set_lazy_f(insn.c, Lazy::CompareF(condition(insn.op), a, b));
            }
            return;
        }
        let truth = self.b.ins().fcmp(condition(insn.op), a, b);
        let (two, zero) = (self.b.ins().f64const(2.0), self.b.ins().f64const(0.0));
        let value = self.b.ins().select(truth, two, zero);
        self.set_f(insn.c, value);
        if insn.c != SINK {
            self.compare = Some((insn.c, truth));
        }
    }

    /// The branch that ends a block, with the compare before it: on either edge the compare's result
    /// is a constant.
    pub(super) fn compare_and_branch(&mut self, compare: Fused, branch: &Insn) {
        let Term::Cond { taken, fall } = self.region.blocks[self.current].term else {
            unreachable!("checked when the compare was met")
        };
        let Fused { insn, pc } = compare;
        let (yes, no) = if branch.op == Opcode::Fbne { (taken, fall) } else { (fall, taken) };
        self.b.set_srcloc(srcloc(self.region, pc));
        let (a, b) = (self.get_f(insn.a), self.get_f(insn.b));
        let truth = self.b.ins().fcmp(condition(insn.op), a, b);
        let (true_block, false_block) = (self.b.create_block(), self.b.create_block());
        if let Opcode::Cmptlt | Opcode::Cmptle = insn.op {
            // What is true is ordered, so this needs to be looked at on one side only.
            let (not_less, cold) = (self.b.create_block(), self.b.create_block());
            self.b.set_cold_block(cold);
            self.b.ins().brif(truth, true_block, &[], not_less, &[]);
            self.b.seal_block(not_less);
            self.b.switch_to_block(not_less);
            let unordered = self.b.ins().fcmp(FloatCC::Unordered, a, b);
            self.b.ins().brif(unordered, cold, &[], false_block, &[]);
            self.b.seal_block(cold);
            self.b.switch_to_block(cold);
            self.cold(|t| t.exact_silent(&insn));
            self.b.ins().jump(false_block, &[]);
        } else {
            self.b.ins().brif(truth, true_block, &[], false_block, &[]);
        }
        self.b.set_srcloc(srcloc(self.region, self.pc));
        let waiting = self.waiting.clone();
        for (block, value, target) in [(true_block, 2f64, yes), (false_block, 0f64, no)] {
            self.b.seal_block(block);
            self.b.switch_to_block(block);
            self.set_lazy_f(insn.c, Lazy::Constant(value.to_bits()));
            self.goto(target);
            self.waiting.clone_from(&waiting);
        }
    }

    /// Whether the next use of what an LDS loads is as a number, not as bits: then the host converts
    /// it. Those of its conversions that are no bit moves raise an exception.
    pub(super) fn is_number(&self, insn: &Insn) -> bool {
        let insns = &self.region.blocks[self.current].insns;
        let mut rest = insns[insns.len() - self.after..].iter();
        let bit = 1 << insn.a;
        let next = rest.find(|i| (region::reads(i).fp | region::writes(i).fp) & bit != 0);
        self.mode.unmasked
            && next.is_some_and(|i| {
                i.op.kind() == Kind::Fp && i.op != Opcode::Cvtlq && region::reads(i).fp & bit != 0
            })
    }

    /// A value just loaded that arithmetic must not take from memory itself: of an addition's two
    /// NaNs the one in the register would win, and the guest's memory may have changed when an
    /// exception is looked into.
    pub(super) fn in_register(&mut self, loaded: Value) -> Value {
        if self.mode.unmasked {
            let ty = self.b.func.dfg.value_type(loaded);
            self.b.ins().bitcast(ty, MemFlagsData::new(), loaded)
        } else {
            loaded
        }
    }
}

fn condition(op: Opcode) -> FloatCC {
    match op {
        Opcode::Cmpteq => FloatCC::Equal,
        Opcode::Cmptlt => FloatCC::LessThan,
        Opcode::Cmptle => FloatCC::LessThanOrEqual,
        _ => FloatCC::Unordered,
    }
}
