//! Host faults in compiled code: the signal handler sends them to the dispatcher.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Once;

use axp_emu::cpu::Cpu;
use axp_emu::mem::{HostContext, HostFault, register_resolver};

use crate::abi::{ExitKind, axp_jit_unwind, word};

thread_local! {
    /// The processor whose compiled code this thread is executing, and where that code lies.
    static RUNNING: Cell<(*mut Cpu, [Zone; 2])> = const { Cell::new(IDLE) };
    static STACK: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

const IDLE: (*mut Cpu, [Zone; 2]) = (std::ptr::null_mut(), [Zone::EMPTY; 2]);

/// Compiled code, and where a fault in it sends control.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    start: u64,
    end: u64,
    /// Host code that leaves; 0 for [`axp_jit_unwind`], which needs the processor in RDI.
    unwind: u64,
}

impl Zone {
    const EMPTY: Zone = Zone { start: 0, end: 0, unwind: 0 };

    /// Regions of the optimising tier.
    pub fn regions(code: Range<u64>) -> Zone {
        Zone { start: code.start, end: code.end, unwind: 0 }
    }

    /// Code that is left through `unwind` with its host registers as they are.
    pub fn with_unwind(code: Range<u64>, unwind: u64) -> Zone {
        Zone { start: code.start, end: code.end, unwind }
    }
}

/// Stack that compiled code leaves to helpers and signal handlers.
const STACK_RESERVE: u64 = 256 << 10;
/// What compiled code takes of a stack whose size it does not know.
const FOREIGN_STACK: u64 = 1 << 20;

/// Registers the resolver with the memory's signal handler.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !register_resolver(resolve) {
            tracing::error!("no room for the fault resolver of compiled code");
        }
    });
}

/// Compiled code of `cpu` in at most two zones is about to run on this thread.
pub fn enter(cpu: *mut Cpu, code: &[Zone]) {
    let mut zones = [Zone::EMPTY; 2];
    zones.iter_mut().zip(code).for_each(|(to, from)| *to = *from);
    RUNNING.set((cpu, zones));
}

/// Compiled code has returned.
pub fn leave() {
    RUNNING.set(IDLE);
}

/// Runs in the signal handler: touches thread-locals without destructors and the processor only.
fn resolve(fault: &HostFault, context: &mut HostContext) -> bool {
    const RDI: usize = 7;
    let (cpu, zones) = RUNNING.get();
    let rip = context.rip();
    let zone = zones.iter().find(|z| (z.start..z.end).contains(&rip));
    let Some(zone) = zone.filter(|_| !cpu.is_null()) else { return false };
    // SAFETY: `enter` was given a processor that lives until `leave`, and its thread is this one,
    // stopped at an instruction of compiled code.
    let engine = unsafe { &mut (*cpu).engine };
    engine[word::EXIT] = ExitKind::HostFault as u64;
    engine[word::FAULT_RIP] = rip;
    engine[word::FAULT_ADDR] = fault.addr;
    let bus = fault.signal == libc::SIGBUS;
    engine[word::FAULT_WRITE] = u64::from(fault.is_write) | u64::from(bus) << 1;
    if zone.unwind == 0 {
        context.set_gpr(RDI, cpu as u64);
        context.set_rip(axp_jit_unwind as *const () as u64);
    } else {
        context.set_rip(zone.unwind);
    }
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
