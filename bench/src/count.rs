//! Guest instructions of a row, from runs apart: code that counts is slower, so what is timed does not count.
//!
//! `cmd/bench.rs` calls this once for a row, whose engines all run the same program.

use std::ffi::OsString;
use std::path::Path;

use crate::measure::{Interrupt, Invocation, measure};

/// The command line that counts `args` of `elf`.
pub fn argv(axplab: &Path, stats: &Path, cpu: &str, elf: &Path, args: &[String]) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec![axplab.into()];
    argv.extend(["run", "--engine", "auto", "--stats", "--cpu", cpu].map(OsString::from));
    argv.extend(["--stats-json".into(), stats.into(), elf.into()]);
    argv.extend(args.iter().map(OsString::from));
    argv
}

/// What one further repetition retires: set-up and the printing of the result cancel out.
///
/// `None` where a run fails or is not repeatable; the table then has no figure, and nothing else suffers.
pub fn per_repetition(command: &dyn Fn(u64) -> Invocation, interrupt: &Interrupt) -> Option<u64> {
    let count = |reps| measure(&command(reps), interrupt).ok()?.stats.instructions;
    count(2)?.checked_sub(count(1)?).filter(|&count| count > 0)
}
