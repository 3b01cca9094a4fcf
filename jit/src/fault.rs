//! Host faults in compiled code: the signal handler sends them to the dispatcher.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Once;

use axp_emu::cpu::Cpu;
use axp_emu::mem::{HostContext, HostFault, register_resolver};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use crate::abi::{ExitKind, axp_jit_unwind, word};
use crate::fpu::{self, FpSites};

thread_local! {
    /// The processor whose compiled code this thread is executing, and where that code lies.
    static RUNNING: Cell<(*mut Cpu, [Zone; 2])> = const { Cell::new(IDLE) };
}

const IDLE: (*mut Cpu, [Zone; 2]) = (std::ptr::null_mut(), [Zone::EMPTY; 2]);

/// In [`word::FAULTED`]: a load was skipped.
const LOAD: u64 = 1;
/// The same: a store.
pub const STORE: u64 = 2;

/// Compiled code, and where a fault in it sends control.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    start: u64,
    end: u64,
    /// Host code that leaves; 0 for [`axp_jit_unwind`], which needs the processor in RDI.
    unwind: u64,
    /// Which floating-point instructions the code does; null where it does not depend on it.
    sites: *const FpSites,
}

impl Zone {
    const EMPTY: Zone = Zone { start: 0, end: 0, unwind: 0, sites: std::ptr::null() };

    /// Regions of the optimising tier, which keeps `sites` in place while they run.
    pub fn regions(code: Range<u64>, sites: *const FpSites) -> Zone {
        Zone { start: code.start, end: code.end, unwind: 0, sites }
    }

    /// The floating-point instructions in this code.
    pub fn sites(&self) -> Option<&FpSites> {
        // SAFETY: null, or in place and unchanged while compiled code runs.
        unsafe { self.sites.as_ref() }
    }

    /// Code that is left through `unwind` with its host registers as they are.
    pub fn with_unwind(code: Range<u64>, unwind: u64) -> Zone {
        Zone { start: code.start, end: code.end, unwind, sites: std::ptr::null() }
    }
}

/// Registers the resolver with the memory's signal handler.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !register_resolver(resolve) {
            tracing::error!("no room for the fault resolver of compiled code");
        }
    });
    fpu::install();
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

/// If `rip` is in the compiled code that this thread is executing, whose code and in which zone: in a
/// signal handler, `enter` was given a processor that lives until `leave`, and nobody else uses it.
pub fn running(rip: u64) -> Option<(*mut Cpu, Zone)> {
    let (cpu, zones) = RUNNING.get();
    let zone = zones.into_iter().find(|z| (z.start..z.end).contains(&rip));
    zone.filter(|_| !cpu.is_null()).map(|zone| (cpu, zone))
}

/// The host's instruction at `rip`.
///
/// # Safety
/// Code lies there, followed by as many readable bytes as an instruction may have.
unsafe fn host_insn(rip: u64) -> Instruction {
    const LONGEST: usize = 15;
    // SAFETY: by the contract.
    let bytes = unsafe { std::slice::from_raw_parts(rip as *const u8, LONGEST) };
    Decoder::with_ip(64, bytes, rip, DecoderOptions::NONE).decode()
}

/// Bytes that a move of Cranelift's accesses: 16, or 8 for all others.
fn bytes_of(insn: &Instruction) -> u8 {
    use Mnemonic::{Movdqa, Movdqu, Movupd, Movups, Vmovdqu, Vmovupd, Vmovups};
    let whole = [Movdqa, Movdqu, Movupd, Movups, Vmovdqu, Vmovupd, Vmovups];
    if whole.contains(&insn.mnemonic()) { 16 } else { 8 }
}

/// Address of what an instruction accesses.
fn memory_operand(insn: &Instruction, context: &HostContext) -> u64 {
    let memory = (0..insn.op_count()).find(|&n| insn.op_kind(n) == OpKind::Memory);
    let value = |register: Register, _, _| {
        let number = (register as usize).wrapping_sub(Register::RAX as usize);
        // The segments of compiled code begin at 0.
        Some(if number < 16 { context.gpr(number) } else { 0 })
    };
    memory.and_then(|n| insn.virtual_address(n, 0, value)).unwrap_or(0)
}

/// Runs in the signal handler: touches thread-locals without destructors and the processor only.
fn resolve(fault: &HostFault, context: &mut HostContext) -> bool {
    const RDI: usize = 7;
    let rip = context.rip();
    let Some((cpu, zone)) = running(rip) else { return false };
    // SAFETY: as `running` promises.
    let engine = unsafe { &mut (*cpu).engine };
    engine[word::EXIT] = ExitKind::HostFault as u64;
    engine[word::FAULT_RIP] = rip;
    engine[word::FAULT_ADDR] = fault.addr;
    if zone.unwind == 0 && engine[word::SKIPS] != 0 {
        // The code notices before it does anything with what it did not get.
        // The first is what counts.
        if engine[word::FAULTED] == 0 {
            engine[word::FAULTED] = if fault.is_write { STORE } else { LOAD };
        }
        // SAFETY: the host was executing the instruction there, in code that goes on behind it.
        context.set_rip(rip + unsafe { host_insn(rip) }.len() as u64);
        return true;
    }
    let bus = fault.signal == libc::SIGBUS;
    engine[word::FAULT_WRITE] = u64::from(fault.is_write) | u64::from(bus) << 1;
    if zone.unwind == 0 {
        // SAFETY: as above.
        let insn = unsafe { host_insn(rip) };
        engine[word::FAULT_WRITE] |= u64::from(bytes_of(&insn)) << 8;
        engine[word::FAULT_START] = memory_operand(&insn, context);
        let stored = fpu::xmm(insn.op1_register());
        engine[word::FAULT_VALUE] = stored.map_or(0, |n| context.xmm(n) as u64);
        context.set_gpr(RDI, cpu as u64);
        context.set_rip(axp_jit_unwind as *const () as u64);
    } else {
        context.set_rip(zone.unwind);
    }
    true
}
