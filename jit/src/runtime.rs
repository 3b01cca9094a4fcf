//! What compiled code calls: the pure semantics of the instruction table as host functions, and
//! the interpreter for one instruction.

use axp_emu::cpu::{Cpu, Exit, Vcpu};
use axp_emu::for_each_insn;
use axp_emu::fp::{FpResult, Qual, convert, ieee, vax};
use axp_emu::interp;
use axp_emu::isa::Opcode;
use axp_emu::sem::{byte, count, int, logic, mvi};

use crate::abi::{ExitKind, word};

/// Host function for a two-operand integer instruction without a trap.
pub type AluThunk = extern "C" fn(u64, u64) -> u64;
/// Host function for a floating-point operate instruction.
pub type FpThunk = extern "C" fn(u64, u64, Qual, u64) -> FpResult;

macro_rules! thunk {
    (alu $f:path) => {{
        extern "C" fn thunk(a: u64, b: u64) -> u64 {
            $f(a, b)
        }
        Thunk::Alu(thunk)
    }};
    (fp $f:path) => {{
        extern "C" fn thunk(a: u64, b: u64, qual: Qual, fpcr: u64) -> FpResult {
            $f(a, b, qual, fpcr)
        }
        Thunk::Fp(thunk)
    }};
    ($kind:ident $($rest:tt)*) => {
        Thunk::None
    };
}

#[derive(Clone, Copy)]
enum Thunk {
    None,
    Alu(AluThunk),
    Fp(FpThunk),
}

macro_rules! define_thunks {
    ($($v:ident = $m:literal, $f:ident $e:tt, $k:ident ($($s:tt)*), $x:ident;)*) => {
        static THUNKS: &[Thunk] = &[$(thunk!($k $($s)*),)*];
    };
}
for_each_insn!(define_thunks);

/// The semantics of an `alu` row of the table.
pub fn alu_thunk(op: Opcode) -> Option<AluThunk> {
    match THUNKS[op as usize] {
        Thunk::Alu(f) => Some(f),
        _ => None,
    }
}

/// The semantics of an `fp` row of the table.
pub fn fp_thunk(op: Opcode) -> Option<FpThunk> {
    match THUNKS[op as usize] {
        Thunk::Fp(f) => Some(f),
        _ => None,
    }
}

/// What a running engine lends to the helpers that its code calls.
#[derive(Debug)]
pub struct Runtime {
    /// The processor that runs.
    pub vcpu: *mut Vcpu,
    /// Exit that a helper has met, for [`ExitKind::Pending`].
    pub pending: Option<Exit>,
}

/// Executes the instruction at `cpu.pc` as the interpreter does; registers are in memory. Returns
/// 0 to go on, 1 after an exit, which lies in the runtime. `after` is the number of instructions
/// of the block behind this one, which a counted block has counted already.
///
/// # Safety
/// `cpu` belongs to the `Vcpu` of the [`Runtime`] that [`word::VCPU`] points to.
pub unsafe extern "C" fn step(cpu: *mut Cpu, after: u64, counted: u64) -> u64 {
    // SAFETY: the dispatcher set the word before it entered compiled code and both outlive it.
    let runtime = unsafe { &mut *((*cpu).engine[word::VCPU] as *mut Runtime) };
    // SAFETY: the dispatcher does not touch the Vcpu while compiled code runs.
    let vcpu = unsafe { &mut *runtime.vcpu };
    let pc = vcpu.cpu.pc;
    let count = vcpu.cpu.count;
    let exit = interp::step(vcpu);
    vcpu.cpu.count = count;
    let Some(exit) = exit else { return 0 };
    if counted != 0 {
        let retired = vcpu.cpu.pc != pc;
        vcpu.cpu.count -= after + u64::from(!retired);
    }
    runtime.pending = Some(exit);
    vcpu.cpu.engine[word::EXIT] = ExitKind::Pending as u64;
    1
}
