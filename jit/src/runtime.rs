//! What compiled code calls: the pure semantics of the instruction table as host functions, and
//! the interpreter for one instruction.

use axp_emu::block::Dialect;
use axp_emu::cpu::{Cpu, Exit, Vcpu};
use axp_emu::for_each_insn;
use axp_emu::fp::{FpResult, Qual, convert, ieee, vax};
use axp_emu::interp;
use axp_emu::isa::{Insn, Opcode, decode};
use axp_emu::mem::Access;
use axp_emu::sem::{byte, count, int, logic, mvi};

use crate::abi::{ExitKind, word};
use crate::code::CodeTable;
use crate::palcode::Calls;

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
    /// Whom to ask about CALL_PAL.
    pub calls: Calls,
}

impl Default for Runtime {
    fn default() -> Self {
        Runtime { vcpu: std::ptr::null_mut(), pending: None, calls: Calls::default() }
    }
}

/// Executes `insn`, which stands at `cpu.pc`, as the interpreter does; registers are in memory.
/// Returns 0 to go on, 1 after an exit, which lies in the runtime. In counted code `after` is the
/// number of instructions of the block behind this one, which the block has counted already.
///
/// # Safety
/// `cpu` is the processor of the [`Runtime`] that [`word::RUNTIME`] points to; `insn` is one that
/// the code keeps (`opt::symbols`).
pub unsafe extern "C" fn step(cpu: *mut Cpu, insn: *const Insn, after: u64) -> u64 {
    // SAFETY: the dispatcher set the word before it entered compiled code and both outlive it.
    let runtime = unsafe { &mut *((*cpu).engine[word::RUNTIME] as *mut Runtime) };
    // SAFETY: the dispatcher does not touch the Vcpu while compiled code runs.
    let vcpu = unsafe { &mut *runtime.vcpu };
    // SAFETY: instructions are kept as long as the code that refers to them.
    let insn = unsafe { &*insn };
    let pc = vcpu.cpu.pc;
    let ahead = if vcpu.counted { after + 1 } else { 0 };
    vcpu.cpu.count = vcpu.cpu.count.wrapping_sub(ahead);
    let result = interp::step(vcpu, insn);
    if result.is_ok() || vcpu.cpu.pc != pc {
        // Retired: the rest of the block is still to be uncounted if the block is left here.
        vcpu.cpu.count += ahead.min(1);
    }
    match result {
        Ok(()) => {
            vcpu.cpu.count += ahead.saturating_sub(1);
            0
        }
        Err(exit) => {
            runtime.pending = Some(exit);
            vcpu.cpu.engine[word::EXIT] = ExitKind::Pending as u64;
            1
        }
    }
}

/// What a helper returns in two registers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Pair(pub u64, pub u64);

/// Brings the translation of an aligned datum into the buffer. The second result is 0 if it is there:
/// then the first is what, added to `va`, gives the host address. Otherwise nothing has changed, and
/// the interpreter has to look at the access.
///
/// # Safety
/// As for [`step`].
pub unsafe extern "C" fn fill(cpu: *mut Cpu, va: u64, size: u64, store: u64) -> Pair {
    // SAFETY: as in `step`.
    let vcpu = unsafe { &*(*((*cpu).engine[word::RUNTIME] as *mut Runtime)).vcpu };
    let access = if store != 0 { Access::Store } else { Access::Load };
    match vcpu.mem.system().and_then(|system| system.addend(va, size, access)) {
        Some(addend) => Pair(addend, 0),
        None => Pair(0, 1),
    }
}

/// PROBER (`write` 0) and PROBEW outside the translation buffer's reach. The second result is 0 if the
/// first is the answer.
///
/// # Safety
/// As for [`step`].
pub unsafe extern "C" fn probe(cpu: *mut Cpu, base: u64, offset: u64, how: u64) -> Pair {
    // SAFETY: as in `step`.
    let vcpu = unsafe { &*(*((*cpu).engine[word::RUNTIME] as *mut Runtime)).vcpu };
    let answer = vcpu.mem.system().map(|s| s.probe_range(base, offset, how >> 1, how & 1 != 0));
    match answer {
        Some(Ok(accessible)) => Pair(u64::from(accessible), 0),
        _ => Pair(0, 1),
    }
}

/// Where a jump to `pc` leads, or null: what a region asks when the jump cache does not know.
///
/// # Safety
/// `table` is the table of the code that is running.
pub unsafe extern "C" fn find_code(table: *mut CodeTable, pc: u64) -> *const u8 {
    // SAFETY: tables stay in place as long as their code, and the dispatcher holds no reference to
    // one while code runs.
    unsafe { (*table).target(pc) }
}

/// Fetches, decodes and executes the instruction at `cpu.pc`. Counts it in counted runs.
pub fn step_at_pc(vcpu: &mut Vcpu) -> Result<(), Exit> {
    let pc = vcpu.cpu.pc;
    let word = vcpu.mem.fetch_u32(pc).map_err(Exit::Fault)?;
    // CALL_PAL has opcode 0, and mostly it is why compiled code was left.
    if word >> 26 == 0 && !vcpu.pal.performs(word) {
        vcpu.cpu.pc = pc.wrapping_add(4);
        vcpu.cpu.count += u64::from(vcpu.counted);
        return Err(Exit::CallPal(word));
    }
    let insn = decode(word).filter(|i| Dialect::of(vcpu).has(i));
    let insn = insn.ok_or(Exit::Illegal(word))?;
    let result = interp::step(vcpu, &insn);
    if vcpu.counted && (result.is_ok() || vcpu.cpu.pc != pc) {
        vcpu.cpu.count += 1;
    }
    result
}
