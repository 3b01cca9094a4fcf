//! The state of one processor and what makes it stop.

mod exit;
mod state;

pub use exit::{ArithTrap, Exit};
pub use state::{Cpu, LOCK_FREE, Vcpu};
