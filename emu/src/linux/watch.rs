//! What a debugger needs of a Linux program: word of each signal before it is delivered, and a way to
//! call all threads to their driver loop. Called by `axplab run --gdb`.

use std::path::Path;
use std::sync::Arc;

use super::abi;
use super::host::{self, HostAction};
use super::process::{Process, lock};
use super::signals::{DefaultAction, SIG_DFL, default_action};
use crate::cpu::Vcpu;

/// Sees a signal (guest number) that is about to be delivered to the thread with this id, on that
/// thread, and says which one is: the same, another, or none. May change registers, and may wait.
pub type SignalWatcher = Arc<dyn Fn(&mut Vcpu, i32, i32) -> Option<i32> + Send + Sync>;

impl Process {
    /// Has `watcher` asked about every signal from now on; the first call counts. Signals whose default
    /// action ends the program are no longer left to the host's kernel.
    pub fn watch_signals(&self, watcher: SignalWatcher) {
        let _ = self.watcher.set(watcher);
        let actions = *lock(&self.actions);
        for signal in 1..=64 {
            let host_signal = abi::signal_to_host(signal);
            let fault = host::FAULT_SIGNALS.contains(&host_signal);
            let default = actions[signal as usize].handler == SIG_DFL;
            if default && !fault && host_signal != host::poke_signal() && self.comes_here(signal) {
                host::set_action(host_signal, HostAction::Handle, 0);
            }
        }
    }

    /// Whether a signal with the default action is to arrive here and not to end the host's process.
    pub(super) fn comes_here(&self, signal: i32) -> bool {
        let ends = default_action(signal) == DefaultAction::Terminate && signal != abi::sig::KILL;
        self.watcher.get().is_some() && ends
    }

    /// Ends what every thread but the caller's is doing in the guest or in a call that waits, so that
    /// its driver loop comes round.
    pub fn call_in_threads(&self) {
        let me = host::gettid();
        for &tid in lock(&self.threads).alive.iter().filter(|&&tid| tid != me) {
            host::poke(tid);
        }
    }

    /// Ids of the threads that have not ended.
    pub fn threads(&self) -> Vec<i32> {
        lock(&self.threads).alive.clone()
    }

    /// The auxiliary vector, as the program found it on its stack.
    pub fn auxv(&self) -> &[u8] {
        &self.auxv
    }

    /// Path of the executable on the host.
    pub fn executable(&self) -> &Path {
        &self.exe
    }
}

impl super::Linux {
    /// Id of this thread.
    pub fn thread_id(&self) -> i32 {
        self.task.tid
    }
}
