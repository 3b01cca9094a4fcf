//! The Alpha AXP architecture: instructions and their meaning, memory, an interpreter, and the
//! personalities that give programs an operating system. No host code generation, no command line.
//!
//! Modules form levels; one uses only those below it (`docs/architecture.md`):
//!
//! * 0: [`isa`], [`sem`], [`fp`] - pure
//! * 1: [`mem`], [`cpu`]
//! * 2: [`engine`], [`block`]
//! * 3: [`interp`], [`load`]
//! * 4: [`linux`]

pub mod block;
pub mod cpu;
pub mod engine;
pub mod fp;
pub mod interp;
pub mod isa;
pub mod linux;
pub mod load;
pub mod machine;
pub mod mem;
pub mod sem;
