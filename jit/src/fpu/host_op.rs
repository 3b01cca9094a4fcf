//! The host's scalar floating-point instructions: decoded from where one raised an exception,
//! performed as if exceptions were masked, and stepped over.
//!
//! Called by the handler of SIGFPE (`super`). Templates use the SSE forms, Cranelift those of AVX
//! where the host has them.

use std::sync::OnceLock;

use axp_emu::mem::HostContext;
use iced_x86::{Decoder, DecoderOptions, Instruction, MemorySize, Mnemonic, OpKind, Register};

/// What an instruction computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// ADDSD.
    Add,
    /// SUBSD.
    Subtract,
    /// MULSD.
    Multiply,
    /// DIVSD.
    Divide,
    /// SQRTSD.
    Root,
    /// CVTSD2SS.
    Narrow,
    /// CVTSS2SD.
    Widen,
    /// UCOMISD.
    Compare,
    /// CMPSD with this predicate, one of the first eight.
    Mask(u8),
    /// CVTTSD2SI to a quadword.
    ToInteger,
}

/// Flags that a comparison sets, as its result.
pub const UNORDERED: u64 = ZF | PF | CF;
const CF: u64 = 1 << 0;
const PF: u64 = 1 << 2;
const ZF: u64 = 1 << 6;
/// All flags of arithmetic: a comparison clears those that it does not set.
const FLAGS: u64 = CF | PF | ZF | 1 << 4 | 1 << 7 | 1 << 11;

/// An instruction with the values of its operands.
#[derive(Clone, Copy, Debug)]
pub struct HostOp {
    /// What it computes.
    pub operation: Operation,
    /// First source of a two-operand operation.
    pub a: u64,
    /// Second or only source.
    pub b: u64,
    /// Number of the target register.
    target: usize,
    /// Number of the register that the upper half of the target comes from.
    upper: usize,
    next: u64,
}

/// Bytes of the longest instruction.
const LONGEST: usize = 15;

/// Has the decoder make its tables.
pub fn warm_up() {
    static DONE: OnceLock<Instruction> = OnceLock::new();
    DONE.get_or_init(|| Decoder::new(64, &[0x90], DecoderOptions::NONE).decode());
}

impl HostOp {
    /// Decodes the instruction at `rip` and fetches its operands.
    ///
    /// # Safety
    /// Code lies at `rip`, followed by as many readable bytes as an instruction may have, and memory
    /// operands are readable.
    pub unsafe fn decode(rip: u64, context: &HostContext) -> Option<HostOp> {
        // SAFETY: by the contract.
        let bytes = unsafe { std::slice::from_raw_parts(rip as *const u8, LONGEST) };
        let insn = Decoder::with_ip(64, bytes, rip, DecoderOptions::NONE).decode();
        let operation = operation(&insn)?;
        let immediate = matches!(operation, Operation::Mask(_));
        let sources = insn.op_count() - u32::from(immediate);
        // SAFETY: by the contract.
        let value = |n| unsafe { operand(&insn, n, context) };
        let target = match operation {
            Operation::ToInteger => gpr(insn.op0_register())?,
            _ => xmm(insn.op0_register())?,
        };
        Some(HostOp {
            operation,
            // The forms of AVX name the target apart.
            a: value(sources.saturating_sub(2))?,
            b: value(sources - 1)?,
            target,
            upper: if sources == 3 { xmm(insn.op_register(1))? } else { target },
            next: insn.next_ip(),
        })
    }

    /// What the host gives with the exception masked: a value, or the flags of a comparison.
    pub fn masked(&self) -> u64 {
        use Operation::*;
        let (a, b) = (f64::from_bits(self.a), f64::from_bits(self.b));
        let value = match self.operation {
            Add => a + b,
            Subtract => a - b,
            Multiply => a * b,
            Divide => a / b,
            Root => b.sqrt(),
            Narrow => return u64::from((b as f32).to_bits()),
            Widen => f64::from(f32::from_bits(self.b as u32)),
            Compare => {
                return match a.partial_cmp(&b) {
                    None => UNORDERED,
                    Some(std::cmp::Ordering::Less) => CF,
                    Some(std::cmp::Ordering::Equal) => ZF,
                    Some(std::cmp::Ordering::Greater) => 0,
                };
            }
            Mask(predicate) => {
                let truth = match predicate & 3 {
                    0 => a == b,
                    1 => a < b,
                    2 => a <= b,
                    _ => a.is_nan() || b.is_nan(),
                };
                return if truth != (predicate & 4 != 0) { u64::MAX } else { 0 };
            }
            ToInteger => {
                let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&b);
                return if fits { b as i64 as u64 } else { 1 << 63 };
            }
        };
        value.to_bits()
    }

    /// Writes the result and goes on behind the instruction.
    pub fn finish(&self, result: u64, context: &mut HostContext) {
        const LOW: u128 = u64::MAX as u128;
        match self.operation {
            Operation::Compare => {
                context.set_rflags(context.rflags() & !FLAGS | result & FLAGS);
            }
            Operation::ToInteger => context.set_gpr(self.target, result),
            operation => {
                let low = if operation == Operation::Narrow { LOW >> 32 } else { LOW };
                let upper = context.xmm(self.upper);
                context.set_xmm(self.target, upper & !low | u128::from(result) & low);
            }
        }
        context.set_rip(self.next);
    }
}

/// Behind a conversion to an integer, goes on where its result turns out to be in range: Cranelift
/// compares it with 1 and jumps if that does not overflow.
///
/// # Safety
/// As for [`HostOp::decode`].
pub unsafe fn skip_overflow_check(context: &mut HostContext) {
    let rip = context.rip();
    // SAFETY: by the contract.
    let bytes = unsafe { std::slice::from_raw_parts(rip as *const u8, LONGEST) };
    let mut decoder = Decoder::with_ip(64, bytes, rip, DecoderOptions::NONE);
    let (compare, jump) = (decoder.decode(), decoder.decode());
    if compare.mnemonic() == Mnemonic::Cmp && jump.mnemonic() == Mnemonic::Jno {
        context.set_rip(jump.near_branch_target());
    }
}

fn operation(insn: &Instruction) -> Option<Operation> {
    use Mnemonic::*;
    Some(match insn.mnemonic() {
        Addsd | Vaddsd => Operation::Add,
        Subsd | Vsubsd => Operation::Subtract,
        Mulsd | Vmulsd => Operation::Multiply,
        Divsd | Vdivsd => Operation::Divide,
        Sqrtsd | Vsqrtsd => Operation::Root,
        Cvtsd2ss | Vcvtsd2ss => Operation::Narrow,
        Cvtss2sd | Vcvtss2sd => Operation::Widen,
        Ucomisd | Vucomisd => Operation::Compare,
        Cmpsd | Vcmpsd => Operation::Mask(insn.immediate8() & 7),
        Cvttsd2si | Vcvttsd2si => Operation::ToInteger,
        _ => return None,
    })
}

/// Number of a vector register.
/// Number of a vector register, if it is one of those that a signal frame holds whole.
pub fn xmm(register: Register) -> Option<usize> {
    Some((register as usize).wrapping_sub(Register::XMM0 as usize)).filter(|&n| n < 16)
}

/// Number of a general register as a quadword.
fn gpr(register: Register) -> Option<usize> {
    Some((register as usize).wrapping_sub(Register::RAX as usize)).filter(|&n| n < 16)
}

/// The low quadword of operand `n`; of a general register, which is a target only, nothing.
///
/// # Safety
/// Memory operands are readable.
unsafe fn operand(insn: &Instruction, n: u32, context: &HostContext) -> Option<u64> {
    match insn.op_kind(n) {
        OpKind::Register => {
            Some(xmm(insn.op_register(n)).map_or(0, |number| context.xmm(number) as u64))
        }
        OpKind::Memory => {
            let register = |r: Register| match r {
                Register::None | Register::RIP => Some(0),
                r => gpr(r).map(|number| context.gpr(number)),
            };
            let base = register(insn.memory_base())?;
            let index = register(insn.memory_index())?;
            // For addresses relative to the instruction this is the whole address.
            let at = base
                .wrapping_add(index.wrapping_mul(u64::from(insn.memory_index_scale())))
                .wrapping_add(insn.memory_displacement64());
            // SAFETY: by the contract; operands have four or eight bytes.
            Some(unsafe {
                if insn.memory_size() == MemorySize::Float32 {
                    u64::from((at as *const u32).read_unaligned())
                } else {
                    (at as *const u64).read_unaligned()
                }
            })
        }
        _ => None,
    }
}
