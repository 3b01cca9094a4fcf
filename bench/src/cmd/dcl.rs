//! `axplab dcl`: runs a command procedure by the executive's command interpreter.

use std::io::Write;

use anyhow::{Context, bail};

use crate::Outcome;
use crate::cli::DclArgs;
use crate::machine::{self, Job};

/// Runs the command.
pub fn dcl(args: DclArgs) -> anyhow::Result<Outcome> {
    let path = args.procedure.display();
    let bytes = std::fs::read(&args.procedure).with_context(|| format!("cannot read `{path}`"))?;
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("`{path}` is not text");
    };
    if text.is_empty() {
        bail!("`{path}` is empty");
    }
    let strategy = machine::strategy(&args.probe)?;
    let done = machine::run(&Job::procedure(&args.engine, strategy, &text))?;
    std::io::stdout().lock().write_all(&done.output)?;
    Ok(Outcome::Status(done.status as u8))
}
