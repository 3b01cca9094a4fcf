//! Compiled code under a host control register that lets exceptions raise SIGFPE, and the handler
//! that makes of them what the guest's instruction is to give.
//!
//! Used by both tiers in [`Mode::unmasked`](crate::opt::Mode::unmasked). Whatever the host's
//! arithmetic cannot do alone - an invalid operand, a zero divisor, an overflow, a tiny result, a
//! denormal operand - stops at the very instruction, before it has changed anything. In regions the
//! handler finds the guest's instruction, gives its destination the exact result and ORs the
//! status into the FPCR. In templates, and where a region classifies results itself, it gives what
//! the host would have given had the exception been masked, and the code goes on to notice.

mod host_op;
mod sites;

use std::sync::Once;

use axp_emu::cpu::Cpu;
use axp_emu::fp::{Fpcr, register_to_s, s_to_register};
use axp_emu::isa::{Insn, Opcode};
use axp_emu::mem::{HostContext, HostFault, register_fpe_resolver};

use crate::abi::word;
use crate::fault;
use crate::runtime;
pub use host_op::xmm;
use host_op::{HostOp, Operation};

pub use sites::{FpSites, Site};

/// The control register that Rust code expects: all exceptions masked, to nearest.
const MASKED: u32 = 0x1f80;
/// Only inexact results are masked.
const UNMASKED: u32 = 0x1000;
/// Bits that say what has happened.
const HAPPENED: u32 = 0x3f;
/// FPCR status bits in `FpResult::exc`.
const STATUS: u64 = 0x3f << 52;
/// Traps that must be disabled, so that an instruction with /S never stops the guest.
const DISABLED: u64 = Fpcr::INVD.bits() | Fpcr::DZED.bits() | Fpcr::OVFD.bits() | Fpcr::UNFD.bits();

/// Exceptions that are counted together.
const BURST: u64 = 512;
/// Nanoseconds between exceptions of a burst that are worth the speed of all the others: a signal
/// costs about two microseconds.
const WORTH: u64 = 50_000;
/// Nanoseconds without unmasked exceptions after the first burst; doubled by each that follows.
const REST: u64 = 20_000_000;
/// Bursts after which the rest grows no more.
const MOST: u64 = 6;

/// What [`word::MXCSR`] is to hold: the control register of compiled code, and above it that of Rust
/// code.
pub fn control(unmasked: bool) -> u64 {
    u64::from(MASKED) << 32 | u64::from(if unmasked { UNMASKED } else { MASKED })
}

/// Whether the host multiplies and adds with one rounding.
pub fn has_fma() -> bool {
    std::arch::is_x86_feature_detected!("fma")
}

/// Whether code for this processor is to run with exceptions unmasked now.
pub fn wanted(cpu: &Cpu) -> bool {
    cpu.fpcr & DISABLED == DISABLED && cpu.engine[word::FPE_UNTIL] == 0
}

/// Called by dispatchers: ends a rest whose time is over.
pub fn reconsider(cpu: &mut Cpu) {
    let until = cpu.engine[word::FPE_UNTIL];
    if until != 0 && now() >= until {
        cpu.engine[word::FPE_UNTIL] = 0;
    }
}

/// Registers the handler.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The decoder makes its tables when it is first used, which a signal handler must not.
        host_op::warm_up();
        if !register_fpe_resolver(resolve) {
            tracing::error!("the host's floating-point exceptions cannot be handled");
        }
    });
}

fn now() -> u64 {
    // SAFETY: timespec is plain data; clock_gettime is async-signal-safe and gets a valid pointer.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
        time
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Counts an exception. A burst that comes too fast is answered by a rest: code is left at its next
/// poll, and the dispatcher goes on with code that classifies and raises no exceptions.
fn count(cpu: &mut Cpu) {
    let (mut faults, mut bursts) =
        (cpu.engine[word::FPE_COUNT] as u32 as u64, cpu.engine[word::FPE_COUNT] >> 32);
    if faults == 0 {
        cpu.engine[word::FPE_SINCE] = now();
    }
    faults += 1;
    if faults == BURST {
        faults = 0;
        let now = now();
        if now - cpu.engine[word::FPE_SINCE] < BURST * WORTH {
            cpu.engine[word::FPE_UNTIL] = now + (REST << bursts);
            bursts = MOST.min(bursts + 1);
            cpu.request_look();
        }
    }
    cpu.engine[word::FPE_COUNT] = bursts << 32 | faults;
}

/// The handler of SIGFPE in compiled code: no allocation, no lock.
fn resolve(_: &HostFault, context: &mut HostContext) -> bool {
    let rip = context.rip();
    let Some((cpu, zone)) = fault::running(rip) else { return false };
    // SAFETY: the host was executing the instruction there; its operands are those of compiled
    // code, which never has the guest's memory as an operand of arithmetic.
    let Some(op) = (unsafe { HostOp::decode(rip, context) }) else { return false };
    // SAFETY: `running` gives the processor whose code this thread was stopped in.
    let cpu = unsafe { &mut *cpu };
    let site = zone.sites().and_then(|sites| sites.find(rip));
    match site.and_then(|insn| exact(cpu, insn, &op)) {
        Some(result) => {
            op.finish(result, context);
            if op.operation == Operation::ToInteger {
                // SAFETY: as above.
                unsafe { host_op::skip_overflow_check(context) };
            }
        }
        None => op.finish(op.masked(), context),
    }
    context.set_mxcsr(context.mxcsr() & !HAPPENED);
    count(cpu);
    true
}

/// What the guest's instruction is to give in the destination of the host's; `None` where code looks
/// at the host's own result. Sets FPCR status.
fn exact(cpu: &mut Cpu, insn: &Insn, op: &HostOp) -> Option<u64> {
    use Operation::*;
    if (insn.op, op.operation) == (Opcode::Lds, Widen) {
        return Some(s_to_register(op.b as u32));
    }
    if !insn.qual.completion() {
        return None;
    }
    let semantics = |cpu: &mut Cpu, opcode: Opcode, a: u64, b: u64| {
        let result = runtime::fp_thunk(opcode)?(a, b, insn.qual, cpu.fpcr);
        // Whatever comes of a load that was skipped is not the guest's.
        if cpu.engine[word::FAULTED] == 0 {
            cpu.fpcr |= result.exc & STATUS;
        }
        Some(result.value)
    };
    match (insn.op, op.operation) {
        // These two have their operands exchanged, since of two NaNs the host takes the first.
        (Opcode::Addt, Add) | (Opcode::Mult, Multiply) => semantics(cpu, insn.op, op.b, op.a),
        (Opcode::Subt, Subtract) | (Opcode::Divt, Divide) => semantics(cpu, insn.op, op.a, op.b),
        (Opcode::Sqrtt, Root) => semantics(cpu, insn.op, 0, op.b),
        (Opcode::Cvtts, Narrow) => {
            semantics(cpu, insn.op, 0, op.b).map(|value| u64::from(register_to_s(value)))
        }
        (Opcode::Cvttq, ToInteger) => semantics(cpu, insn.op, 0, op.b),
        (Opcode::Cvtst, Widen) => semantics(cpu, insn.op, 0, s_to_register(op.b as u32)),
        // What was narrowed above is a denormal, whose image in a register is its own.
        (Opcode::Cvtts, Widen) => Some(s_to_register(op.b as u32)),
        (Opcode::Cmpteq | Opcode::Cmptlt | Opcode::Cmptle | Opcode::Cmptun, Compare) => {
            semantics(cpu, insn.op, op.a, op.b)?;
            None
        }
        // A guard: the code that makes the exact result is where "unordered" leads.
        (Opcode::Cvtst, Compare) => Some(host_op::UNORDERED),
        _ => None,
    }
}
