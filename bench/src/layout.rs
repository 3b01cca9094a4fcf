//! Places code and stack anew in every run: the luck of one layout can be worth more than the change that is looked for.
//!
//! `measure` calls this for every process that it starts, native and foreign ones included: the size of
//! the environment moves every program's stack. Compilers of this build also move their code.

use std::process::Command;

/// Greatest size of the padding in the environment, in bytes: half of a host page, in odd steps.
const ENVIRONMENT: usize = 2048;

/// Gives the process another layout than the last.
pub fn vary(command: &mut Command) {
    command.env("AXPLAB_JIT_LAYOUT", fastrand::u64(1..).to_string());
    command.env("AXPLAB_PADDING", "x".repeat(fastrand::usize(..ENVIRONMENT)));
}
