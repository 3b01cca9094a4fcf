//! The state of one processor and what makes it stop.

mod exit;
pub mod lock;
mod state;

pub use exit::{ArithTrap, Exit};
pub use state::{Cpu, ENGINE_WORDS, LOCK_FREE, UnalignedPolicy, Vcpu};
