//! What the test programs and the project chores share: sources as text, vectors, generators,
//! machine state, oracles, the engines under test, and the build of the guest programs.

pub mod blocks;
mod busybox;
pub mod chores;
pub mod coverage;
pub mod engines;
pub mod filetest;
pub mod fuzz;
pub mod r#gen;
pub mod guests_build;
pub mod kernel;
pub mod machine;
pub mod objdump;
pub mod osf;
pub mod process;
pub mod programs;
pub mod source;
pub mod state;
pub mod syscalls;
pub mod words;
