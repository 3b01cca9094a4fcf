//! Translation of Alpha code to x86-64: templates for code that is warm, Cranelift regions for code
//! that is hot.
//!
//! Depends on `axp_emu` only, and there on the levels below the personalities: compiled code
//! returns guest events as data and never calls an operating system.
//!
//! * `abi`: how regions are entered and left
//! * [`code`]: the arena and the tables that lead into it
//! * [`region`], [`analysis`]: what is translated together, and what is known about it
//! * [`baseline`], [`opt`], [`auto`]: the engines
//! * [`cache`]: what they have translated, for the next run
//! * [`profile`]: sampling, and which host code is whose
//! * `runtime`, `fault`, `fpu`: what compiled code calls, and what happens when it faults
//! * `palcode`: CALL_PAL of the privileged machine, answered without leaving
//! * `seen`: which code has been executed

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("axp-jit emits code for x86-64 Linux");

mod abi;
pub mod analysis;
pub mod auto;
pub mod baseline;
pub mod cache;
pub mod code;
pub mod divide;
mod fault;
mod fields;
mod fpu;
pub mod opt;
mod palcode;
pub mod profile;
pub mod region;
mod runtime;
mod seen;
