//! Products of quadwords that a program puts together from products of longwords.
//!
//! Code written for any 64-bit machine multiplies two quadwords to an octaword in partial products of their
//! halves, as OpenSSL's portable bignums do:
//!
//! ```text
//! s = xh*yl + xl*yh         low  = xl*yl + (s << 32)
//!                           high = xh*yh + (s >> 32) + (carry of s << 32) + carry of low
//! ```
//!
//! and for a square, with `m = xl*xh`, `low = xl*xl + (m << 33)`, `high = xh*xh + (m >> 31) + carry of low`.
//! The host does it with one multiplication. The terms of `high` are added in any order and with others among
//! them; carries may have become additions of octawords by then (`add_carry`). They are looked for in finished
//! CLIF, where it shows that what a loop multiplies by are halves from before it.

use std::collections::{HashMap, HashSet};

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64, I128};
use cranelift_codegen::ir::{
    Function, Inst, InstBuilder, InstructionData, Opcode, Type, Value, ValueDef,
};

/// Terms of a sum that are looked at.
const MOST_TERMS: usize = 10;
/// Multiplications below which there is nothing to find.
const LEAST_PRODUCTS: usize = 3;

/// A longword of a quadword.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Half {
    of: Value,
    high: bool,
}

/// A term of a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Term {
    Value(Value),
    /// The carry of the sum of two quadwords, smaller first.
    Carry([Value; 2]),
}

/// A sum that has the upper half of a product among its terms.
struct Found {
    factors: [Value; 2],
    /// What the product's lower half adds, smaller first.
    low: [Value; 2],
    /// What else is added.
    rest: Vec<Term>,
}

/// Has the host multiply where a function puts a product together.
pub fn multiply_wide(func: &mut Function) {
    let insts: Vec<Inst> =
        func.layout.blocks().flat_map(|block| func.layout.block_insts(block)).collect();
    let multiplies = |inst: &&Inst| func.dfg.insts[**inst].opcode() == Opcode::Imul;
    if insts.iter().filter(multiplies).count() < LEAST_PRODUCTS {
        return;
    }
    // Lower halves are not to be taken apart for the sums that they are terms of.
    let reader = Reader { func, whole: &HashSet::new() };
    let whole = insts.iter().filter_map(|&inst| Some(reader.product(inst)?.low)).collect();
    let mut dominators = None;
    let mut products: HashMap<[Value; 2], Vec<(Inst, [Value; 2])>> = HashMap::new();
    let mut sums: HashMap<[Value; 2], Vec<Inst>> = HashMap::new();
    for inst in insts {
        if func.layout.inst_block(inst).is_none() {
            continue;
        }
        let reader = Reader { func, whole: &whole };
        if let Some(pair) = reader.sum(inst, I64) {
            sums.entry(pair).or_default().push(inst);
        }
        let Some(Found { factors, low, rest }) = reader.product(inst) else { continue };
        let tree = dominators.get_or_insert_with(|| {
            DominatorTree::with_function(func, &ControlFlowGraph::with_function(func))
        });
        // The product stands where its lower half was computed, or here.
        let mut known = products.get(&low).into_iter().flatten();
        let known = known.rfind(|(at, _)| tree.dominates(*at, inst, &func.layout));
        let [lower, upper] = match known {
            Some(&(_, halves)) => halves,
            None => {
                let mut same = sums.get(&low).into_iter().flatten().copied();
                let before = same.rfind(|&at| tree.dominates(at, inst, &func.layout));
                let before = before.filter(|&at| at != inst);
                let (at, halves) = multiply(func, before.unwrap_or(inst), factors);
                if let Some(before) = before {
                    sums.entry(low).or_default().retain(|&other| other != before);
                    let sum = func.dfg.first_result(before);
                    func.dfg.clear_results(before);
                    func.dfg.change_to_alias(sum, halves[0]);
                    func.layout.remove_inst(before);
                }
                products.entry(low).or_default().push((at, halves));
                halves
            }
        };
        replace(func, inst, lower, upper, rest);
    }
}

/// Multiplies before an instruction: gives where the product stands, and its halves.
fn multiply(func: &mut Function, before: Inst, factors: [Value; 2]) -> (Inst, [Value; 2]) {
    let place = func.srcloc(before);
    let mut cursor = FuncCursor::new(func).at_inst(before).with_srcloc(place);
    let wide = factors.map(|v| cursor.ins().uextend(I128, v));
    let product = cursor.ins().imul(wide[0], wide[1]);
    let (lower, upper) = cursor.ins().isplit(product);
    (func.dfg.value_def(lower).unwrap_inst(), [lower, upper])
}

/// Puts the upper half and the other terms in the place of a sum; of one of octawords also the lower half.
fn replace(func: &mut Function, inst: Inst, lower: Value, mut upper: Value, rest: Vec<Term>) {
    let place = func.srcloc(inst);
    let wide = func.dfg.value_type(func.dfg.first_result(inst)) == I128;
    let mut cursor = FuncCursor::new(func).at_inst(inst).with_srcloc(place);
    for term in rest {
        upper = match term {
            Term::Value(value) => cursor.ins().iadd(upper, value),
            Term::Carry([a, b]) => {
                let zero = cursor.ins().iconst(I64, 0);
                let (a, b) = (cursor.ins().iconcat(a, upper), cursor.ins().iconcat(b, zero));
                let sum = cursor.ins().iadd(a, b);
                cursor.ins().isplit(sum).1
            }
        };
    }
    if wide {
        func.replace(inst).iconcat(lower, upper);
    } else {
        let sum = func.dfg.first_result(inst);
        func.dfg.clear_results(inst);
        func.dfg.change_to_alias(sum, upper);
        func.layout.remove_inst(inst);
    }
}

/// Looks at definitions.
struct Reader<'a> {
    func: &'a Function,
    /// Pairs whose sums are terms as they are, smaller first.
    whole: &'a HashSet<[Value; 2]>,
}

impl Reader<'_> {
    fn resolved(&self, value: Value) -> Value {
        self.func.dfg.resolve_aliases(value)
    }

    /// The instruction that has a value as its first result.
    fn definition(&self, value: Value) -> Option<InstructionData> {
        match self.func.dfg.value_def(self.resolved(value)) {
            ValueDef::Result(inst, 0) => Some(self.func.dfg.insts[inst]),
            _ => None,
        }
    }

    fn binary(&self, value: Value, wanted: Opcode) -> Option<[Value; 2]> {
        match self.definition(value)? {
            InstructionData::Binary { opcode, args } if opcode == wanted => {
                Some(args.map(|v| self.resolved(v)))
            }
            _ => None,
        }
    }

    fn unary(&self, value: Value, wanted: Opcode) -> Option<Value> {
        match self.definition(value)? {
            InstructionData::Unary { opcode, arg } if opcode == wanted => Some(self.resolved(arg)),
            _ => None,
        }
    }

    fn constant(&self, value: Value) -> Option<i64> {
        match self.definition(value)? {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
            _ => None,
        }
    }

    /// What a value is, shifted by so many bits.
    fn shifted(&self, value: Value, how: Opcode, bits: i64) -> Option<Value> {
        let [of, by] = self.binary(value, how)?;
        (self.constant(by)? == bits).then_some(of)
    }

    /// The terms of an addition of this type, smaller first.
    fn sum(&self, inst: Inst, ty: Type) -> Option<[Value; 2]> {
        let dfg = &self.func.dfg;
        match dfg.insts[inst] {
            InstructionData::Binary { opcode: Opcode::Iadd, args }
                if dfg.value_type(args[0]) == ty =>
            {
                Some(sorted(args.map(|v| self.resolved(v))))
            }
            _ => None,
        }
    }

    fn half(&self, value: Value) -> Option<Half> {
        if let Some(of) = self.shifted(value, Opcode::Ushr, 32) {
            return Some(Half { of, high: true });
        }
        let low = self.unary(value, Opcode::Uextend)?;
        let of = self.unary(low, Opcode::Ireduce)?;
        let dfg = &self.func.dfg;
        let plain = dfg.value_type(low) == I32 && dfg.value_type(of) == I64;
        plain.then_some(Half { of, high: false })
    }

    /// The factors of a product of halves.
    fn halves(&self, value: Value) -> Option<[Half; 2]> {
        let [a, b] = self.binary(value, Opcode::Imul)?;
        Some([self.half(a)?, self.half(b)?])
    }

    fn is_product(&self, value: Value, x: Half, y: Half) -> bool {
        self.halves(value).is_some_and(|[a, b]| a == x && b == y || a == y && b == x)
    }

    /// The carry that a value is, as 0 or 1.
    fn carry(&self, value: Value) -> Option<[Value; 2]> {
        let truth = self.unary(value, Opcode::Uextend)?;
        let InstructionData::IntCompare { cond: IntCC::UnsignedLessThan, args, .. } =
            self.definition(truth)?
        else {
            return None;
        };
        let [sum, term] = args.map(|v| self.resolved(v));
        let terms = self.binary(sum, Opcode::Iadd)?;
        let fits = self.func.dfg.value_type(term) == I64 && terms.contains(&term);
        fits.then_some(sorted(terms))
    }

    /// The parts of an addition of octawords: lower halves, upper halves.
    fn octawords(&self, [a, b]: [Value; 2]) -> Option<([Value; 2], [Value; 2])> {
        let [a, a_upper] = self.binary(a, Opcode::Iconcat)?;
        let [b, b_upper] = self.binary(b, Opcode::Iconcat)?;
        Some((sorted([a, b]), [a_upper, b_upper]))
    }

    /// Adds the terms that a quadword is the sum of.
    fn terms(&self, value: Value, into: &mut Vec<Term>) {
        let value = self.resolved(value);
        if into.len() >= MOST_TERMS {
            return into.push(Term::Value(value));
        }
        let sum = self.binary(value, Opcode::Iadd);
        if let Some(terms) = sum.filter(|terms| !self.whole.contains(&sorted(*terms))) {
            return terms.into_iter().for_each(|term| self.terms(term, into));
        }
        if let Some(pair) = self.carry(value) {
            return into.push(Term::Carry(pair));
        }
        if let Some((carry, upper)) = self.upper_of_sum(value) {
            into.push(Term::Carry(carry));
            return upper.into_iter().for_each(|term| self.terms(term, into));
        }
        if self.constant(value) != Some(0) {
            into.push(Term::Value(value));
        }
    }

    /// If a value is the upper half of a sum of octawords, their lower and upper halves.
    fn upper_of_sum(&self, value: Value) -> Option<([Value; 2], [Value; 2])> {
        let ValueDef::Result(inst, 1) = self.func.dfg.value_def(value) else { return None };
        let InstructionData::Unary { opcode: Opcode::Isplit, arg } = self.func.dfg.insts[inst]
        else {
            return None;
        };
        self.octawords(self.binary(arg, Opcode::Iadd)?)
    }

    /// Whether an addition has the upper half of a product among its terms.
    fn product(&self, inst: Inst) -> Option<Found> {
        let mut terms = Vec::new();
        if let Some(pair) = self.sum(inst, I128) {
            // Of octawords the product must be the lower half as well.
            let (low, upper) = self.octawords(pair)?;
            upper.into_iter().for_each(|term| self.terms(term, &mut terms));
            return self.upper_half(low, terms);
        }
        self.sum(inst, I64)?;
        self.terms(self.func.dfg.first_result(inst), &mut terms);
        let carries = terms.iter().enumerate().filter_map(|(i, term)| match term {
            Term::Carry(low) => Some((i, *low)),
            Term::Value(_) => None,
        });
        carries.collect::<Vec<_>>().into_iter().find_map(|(i, low)| {
            let mut rest = terms.clone();
            rest.swap_remove(i);
            self.upper_half(low, rest)
        })
    }

    /// Finds in a sum the terms of the product that has these two for its lower half.
    fn upper_half(&self, low: [Value; 2], terms: Vec<Term>) -> Option<Found> {
        let [a, b] = low;
        [[a, b], [b, a]].into_iter().find_map(|[product, middle]| {
            let [x, y] = self.halves(product).filter(|[x, y]| !x.high && !y.high)?;
            let rest = self
                .without_cross(x, y, middle, terms.clone())
                .or_else(|| self.without_double(x, y, middle, terms.clone()))?;
            Some(Found { factors: [x.of, y.of], low, rest })
        })
    }

    /// The terms left of the upper half of a product whose cross products are added up.
    fn without_cross(
        &self,
        x: Half,
        y: Half,
        middle: Value,
        mut terms: Vec<Term>,
    ) -> Option<Vec<Term>> {
        let middle = self.shifted(middle, Opcode::Ishl, 32)?;
        let [p, q] = self.binary(middle, Opcode::Iadd)?;
        let cross = |p, q| self.is_product(p, upper(x), y) && self.is_product(q, x, upper(y));
        if !cross(p, q) && !cross(q, p) {
            return None;
        }
        take(&mut terms, |value| {
            let carry = self.shifted(value, Opcode::Ishl, 32).and_then(|bit| self.carry(bit));
            carry == Some(sorted([p, q]))
        })?;
        take(&mut terms, |value| self.shifted(value, Opcode::Ushr, 32) == Some(middle))?;
        take(&mut terms, |value| self.is_product(value, upper(x), upper(y)))?;
        Some(terms)
    }

    /// The same of a square, whose cross product is doubled.
    fn without_double(
        &self,
        x: Half,
        y: Half,
        middle: Value,
        mut terms: Vec<Term>,
    ) -> Option<Vec<Term>> {
        let middle = self.shifted(middle, Opcode::Ishl, 33)?;
        if x != y || !self.is_product(middle, x, upper(x)) {
            return None;
        }
        take(&mut terms, |value| self.shifted(value, Opcode::Ushr, 31) == Some(middle))?;
        take(&mut terms, |value| self.is_product(value, upper(x), upper(x)))?;
        Some(terms)
    }
}

fn upper(half: Half) -> Half {
    Half { high: true, ..half }
}

/// Takes a term out.
fn take(terms: &mut Vec<Term>, is: impl Fn(Value) -> bool) -> Option<()> {
    let at = terms.iter().position(|term| matches!(term, Term::Value(value) if is(*value)))?;
    terms.swap_remove(at);
    Some(())
}

fn sorted(mut pair: [Value; 2]) -> [Value; 2] {
    pair.sort();
    pair
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::{AbiParam, Signature};
    use cranelift_codegen::isa::CallConv;
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    /// The upper half of a product put together from products of halves; `shift` is 32 if it is right.
    fn function(shift: i64) -> Function {
        let mut func = Function::new();
        func.signature = Signature::new(CallConv::Fast);
        func.signature.params = vec![AbiParam::new(I64); 2];
        func.signature.returns = vec![AbiParam::new(I64); 2];
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut func, &mut context);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_block(block);
        let (x, y) = (b.block_params(block)[0], b.block_params(block)[1]);
        let mut halves = |v| {
            let low = b.ins().ireduce(I32, v);
            (b.ins().uextend(I64, low), b.ins().ushr_imm_u(v, 32))
        };
        let ((xl, xh), (yl, yh)) = (halves(x), halves(y));
        let mut product = |a, c| b.ins().imul(a, c);
        let (ll, hl, lh, hh) = (product(xl, yl), product(xh, yl), product(xl, yh), product(xh, yh));
        let middle = b.ins().iadd(hl, lh);
        let carry = b.ins().icmp(IntCC::UnsignedLessThan, middle, lh);
        let carry = b.ins().uextend(I64, carry);
        let carry = b.ins().ishl_imm_u(carry, 32);
        let shifted = b.ins().ishl_imm_u(middle, shift);
        let low = b.ins().iadd(ll, shifted);
        let low_carry = b.ins().icmp(IntCC::UnsignedLessThan, low, ll);
        let low_carry = b.ins().uextend(I64, low_carry);
        let upper = b.ins().ushr_imm_u(middle, 32);
        let one = b.ins().iadd(carry, low_carry);
        let other = b.ins().iadd(upper, hh);
        let high = b.ins().iadd(other, one);
        b.ins().return_(&[low, high]);
        let host = cranelift_native::builder().unwrap();
        let flags = cranelift_codegen::settings::Flags::new(cranelift_codegen::settings::builder());
        b.finalize(host.finish(flags).unwrap().frontend_config());
        multiply_wide(&mut func);
        func
    }

    #[test]
    fn a_product_of_halves_is_one_multiplication() {
        let text = function(32).to_string();
        assert!(text.contains("uextend.i128"), "{text}");
        // The sums are gone; their terms are left for Cranelift to drop.
        let sums = text.matches("iadd").count();
        assert_eq!(sums, 3, "{text}");
        assert!(!function(31).to_string().contains("uextend.i128"));
    }
}
