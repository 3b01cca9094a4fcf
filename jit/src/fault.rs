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
    static STACK: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Stack that compiled code leaves to helpers and signal handlers.
const STACK_RESERVE: u64 = 256 << 10;
/// What compiled code takes of a stack whose size it does not know.
const FOREIGN_STACK: u64 = 1 << 20;

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
    engine[word::FAULT_SIGNAL] = fault.signal as u64;
    context.set_gpr(RDI, cpu as u64);
    context.set_rip(axp_jit_unwind as *const () as u64);
    true
}

/// Lowest stack address at which compiled code may call on this thread. Always well below the
/// caller's frame: a region that may not call at all would return to the dispatcher for ever.
pub fn stack_limit() -> u64 {
    let marker = 0u8;
    let sp = &raw const marker as u64;
    let (start, end) = STACK.get();
    let (start, end) = if start == 0 { stack().unwrap_or((1, 1)) } else { (start, end) };
    STACK.set((start, end));
    // A process that shares our memory (vfork) has this thread's storage but a stack of its own.
    if (start..end).contains(&sp) { start + STACK_RESERVE } else { sp - FOREIGN_STACK }
}

/// This thread's stack, from its lowest address to its end.
fn stack() -> Option<(u64, u64)> {
    // SAFETY: the attributes are initialised by `pthread_getattr_np` before they are read and
    // destroyed once.
    unsafe {
        let mut attr: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attr) != 0 {
            return None;
        }
        let (mut base, mut size) = (std::ptr::null_mut(), 0);
        let ok = libc::pthread_attr_getstack(&attr, &mut base, &mut size) == 0;
        libc::pthread_attr_destroy(&mut attr);
        ok.then_some((base as u64, base as u64 + size as u64))
    }
}
