//! What can be debugged: a program under the Linux personality, and a booted system.

use std::path::Path;
use std::sync::Arc;

use axp_emu::engine::Outcome;
use axp_emu::linux::Process;
use axp_emu::machine::platform::{Clipper, MAX_PROCESSORS};
use axp_emu::mem::{PAGE_SIZE, Physical, Prot, SystemMap};

use super::hub::WriteError;

/// Status of a system that the debugger has killed, as after SIGKILL.
const KILLED: i32 = 128 + 9;

/// What the hub does to a guest.
pub trait Debuggee: Send + Sync {
    /// Threads that are alive; others that have entered have nothing to say any more.
    fn threads(&self) -> Vec<i32>;

    /// Calls threads out of what they wait for, to where they park.
    fn call(&self);

    /// Nobody runs from now on, or they go on.
    fn stand_still(&self, _still: bool) {}

    /// Ends the guest at once.
    fn kill(&self);

    /// Where what a thread with this page table has at `at` lies; good to the end of its page.
    fn place(&self, at: u64, table: u64) -> Option<u64>;

    /// Reads from a place; false if there is nothing.
    fn read(&self, place: u64, out: &mut [u8]) -> bool;

    /// Writes to a place, whatever the protection of its page.
    fn force(&self, place: u64, bytes: &[u8]) -> Result<(), WriteError>;

    /// The auxiliary vector and the executable, of a process.
    fn program(&self) -> Option<(&[u8], &Path)> {
        None
    }
}

impl Debuggee for Process {
    fn threads(&self) -> Vec<i32> {
        Process::threads(self)
    }

    fn call(&self) {
        self.call_in_threads();
    }

    fn kill(&self) {
        self.end(Outcome::Signalled { signal: 9, pc: 0, addr: 0 });
    }

    fn place(&self, at: u64, _: u64) -> Option<u64> {
        Some(at)
    }

    fn read(&self, place: u64, out: &mut [u8]) -> bool {
        self.mem.read_bytes(place, out).is_ok()
    }

    /// Code that changes is noticed by the engines, since the protection of its page changes twice.
    fn force(&self, place: u64, bytes: &[u8]) -> Result<(), WriteError> {
        let page = place & !(PAGE_SIZE - 1);
        let prot = self.mem.region_at(place).map_or(Prot::READ | Prot::WRITE, |r| r.prot);
        if prot.contains(Prot::WRITE) && !prot.contains(Prot::EXEC) {
            return Ok(self.mem.write_bytes(place, bytes)?);
        }
        self.mem.protect(page, PAGE_SIZE, Prot::READ | Prot::WRITE)?;
        let written = self.mem.write_bytes(place, bytes);
        self.mem.protect(page, PAGE_SIZE, prot)?;
        Ok(written?)
    }

    fn program(&self) -> Option<(&[u8], &Path)> {
        Some((self.auxv(), self.executable()))
    }
}

/// A booted system: its threads are processors, the first of which is 1.
pub struct System {
    /// What is around the processors.
    pub platform: Arc<Clipper>,
    /// Their memory.
    pub physical: Arc<Physical>,
}

impl Debuggee for System {
    fn threads(&self) -> Vec<i32> {
        (1..=MAX_PROCESSORS as i32).collect()
    }

    fn call(&self) {
        self.platform.call();
    }

    fn stand_still(&self, still: bool) {
        self.platform.stand_still(still);
    }

    fn kill(&self) {
        self.platform.end(KILLED);
    }

    fn place(&self, at: u64, table: u64) -> Option<u64> {
        SystemMap::osf_address(&self.physical, table, at)
    }

    fn read(&self, place: u64, out: &mut [u8]) -> bool {
        self.physical.read(place, out)
    }

    fn force(&self, place: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.physical.write(place, bytes).then_some(()).ok_or(WriteError::Nothing)
    }
}
