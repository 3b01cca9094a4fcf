//! One file per command; `main` hands the parsed arguments over.

mod bench;
mod compare;
mod disasm;
mod list;
mod manual;
mod report;
pub mod run;

pub use compare::{CheckArgs, CompareArgs};
pub use manual::{CompletionsArgs, ManArgs};
pub use report::ReportArgs;

use crate::Outcome;
use crate::cli::Command;

/// Runs the command that the user named.
pub fn dispatch(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Bench(args) => bench::bench(args),
        Command::List(args) => list::list(args),
        Command::Run(args) => run::run(args),
        Command::Disasm(args) => disasm::disasm(args),
        Command::Report(args) => report::report(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Check(args) => compare::check(args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
    }
}
