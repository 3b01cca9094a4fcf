//! One file per command; `main` hands the parsed arguments over.

mod bench;
mod disasm;
mod list;
pub mod run;

use crate::Outcome;
use crate::cli::Command;

/// Runs the command that the user named.
pub fn dispatch(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Bench(args) => bench::bench(args),
        Command::List(args) => list::list(args),
        Command::Run(args) => run::run(args),
        Command::Disasm(args) => disasm::disasm(args),
    }
}
