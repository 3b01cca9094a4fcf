//! `axplab dcl`: runs a command procedure by the executive's command interpreter.

use std::io::Write;

use crate::Outcome;
use crate::cli::DclArgs;
use crate::machine::{self, Job};

/// Runs the command.
pub fn dcl(args: DclArgs) -> anyhow::Result<Outcome> {
    let text = machine::procedure(&args.procedure)?;
    let strategy = machine::strategy(&args.probe)?;
    let done = machine::run(&Job::procedure(&args.engine, strategy, &text))?;
    std::io::stdout().lock().write_all(&done.output)?;
    Ok(Outcome::Status(done.status as u8))
}
