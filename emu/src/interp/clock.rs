//! The process cycle counter that RPCC reads (AARM 4.11.8). Called by every engine.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

use crate::cpu::Cpu;

/// Rate of the cycle counter in uncounted runs: a processor of 1 GHz, so that cycles are
/// nanoseconds and no calibration against the host's counter is needed.
pub const CYCLES_PER_SECOND: u64 = 1_000_000_000;

static START: OnceLock<Instant> = OnceLock::new();

thread_local! {
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// Cycles since the first call in this process: strictly rising within a thread.
fn host_cycles() -> u64 {
    let now = START.get_or_init(Instant::now).elapsed().as_nanos() as u64;
    LAST.with(|last| {
        // Clocks of coarse resolution may stand still between two reads.
        let cycles = now.max(last.get() + 1);
        last.set(cycles);
        cycles
    })
}

/// The value of RPCC: the counter in bits 31:0, an offset of zero in bits 63:32.
///
/// In a counted run it is the number of instructions retired before the RPCC, so that runs repeat
/// and engines agree; `cpu.count` must be up to date then.
pub fn rpcc(cpu: &Cpu, counted: bool) -> u64 {
    let cycles = if counted { cpu.count } else { host_cycles() };
    u64::from(cycles as u32)
}
