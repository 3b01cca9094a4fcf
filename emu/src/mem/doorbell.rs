//! Calls a processor out of compiled code from another host thread: timers, console input, devices.
//! Rung by the platform of `machine`, whose threads must not hold a processor.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cpu::Vcpu;

/// Leads to the poll word of a processor while it runs.
#[derive(Debug, Default)]
pub struct Doorbell(Mutex<Target>);

#[derive(Debug)]
struct Target(*const AtomicU32);

impl Default for Target {
    fn default() -> Self {
        Target(ptr::null())
    }
}

// SAFETY: the word is an atomic, and it is reached under the mutex only, while `attached` keeps it
// alive.
unsafe impl Send for Target {}

/// Takes the word away again, also when the caller's function panics.
struct Detach<'a>(&'a Doorbell);

impl Drop for Detach<'_> {
    fn drop(&mut self) {
        self.0.target().0 = ptr::null();
    }
}

impl Doorbell {
    fn target(&self) -> MutexGuard<'_, Target> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f`; meanwhile the bell calls this processor, whose registers must stay where they are.
    pub fn attached<R>(&self, vcpu: &mut Vcpu, f: impl FnOnce(&mut Vcpu) -> R) -> R {
        self.target().0 = &raw const vcpu.cpu.poll;
        let _detach = Detach(self);
        f(vcpu)
    }

    /// Has the processor leave compiled code at its next poll. Without one, nothing happens.
    pub fn ring(&self) {
        let target = self.target();
        if !target.0.is_null() {
            // SAFETY: set and cleared by `attached`, under this mutex, around a call that keeps the
            // processor's box of registers in place.
            unsafe { (*target.0).fetch_or(1, Ordering::Release) };
        }
    }
}
