//! Host faults in compiled code: the signal handler sends them to the dispatcher.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use axp_emu::cpu::Cpu;
use axp_emu::mem::{HostContext, HostFault, register_resolver};

use crate::abi::{ExitKind, axp_jit_unwind, word};

thread_local! {
    /// The processor whose compiled code this thread is executing, and where that code lies.
    static RUNNING: Cell<(*mut Cpu, u64, u64)> = const { Cell::new((std::ptr::null_mut(), 0, 0)) };
}

/// How often this process has come out of a fork as the child.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Changes in a forked child: code memory is shared with the parent there and must be made anew.
pub fn fork_generation() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Registers the resolver with the memory's signal handler, and the watch for forks.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `forked` only touches an atomic, which any context may.
        if unsafe { libc::pthread_atfork(None, None, Some(forked)) } != 0 {
            tracing::error!("compiled code cannot tell when this process is forked");
        }
        if !register_resolver(resolve) {
            tracing::error!("no room for the fault resolver of compiled code");
        }
    });
}

/// Compiled code of `cpu` in the address range `code` is about to run on this thread.
pub fn enter(cpu: *mut Cpu, code: Range<u64>) {
    RUNNING.set((cpu, code.start, code.end));
}

/// Compiled code has returned.
pub fn leave() {
    RUNNING.set((std::ptr::null_mut(), 0, 0));
}

/// Runs in the signal handler: touches thread-locals without destructors and the processor only.
fn resolve(fault: &HostFault, context: &mut HostContext) -> bool {
    const RDI: usize = 7;
    let (cpu, start, end) = RUNNING.get();
    let rip = context.rip();
    if cpu.is_null() || !(start..end).contains(&rip) {
        return false;
    }
    // SAFETY: `enter` was given a processor that lives until `leave`, and its thread is this one,
    // stopped at an instruction of compiled code.
    let engine = unsafe { &mut (*cpu).engine };
    engine[word::EXIT] = ExitKind::HostFault as u64;
    engine[word::FAULT_RIP] = rip;
    engine[word::FAULT_ADDR] = fault.addr;
    engine[word::FAULT_WRITE] = u64::from(fault.is_write);
    context.set_gpr(RDI, cpu as u64);
    context.set_rip(axp_jit_unwind as *const () as u64);
    true
}
