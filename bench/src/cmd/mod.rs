//! One file per command; `main` hands the parsed arguments over.

mod bench;
mod disasm;
mod list;
mod lockstep;
mod profile;
pub mod run;
mod trace;

use crate::Outcome;
use crate::cli::Command;

/// Runs the command that the user named.
pub fn dispatch(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Bench(args) => bench::bench(args),
        Command::List(args) => list::list(args),
        Command::Run(args) => run::run(args),
        Command::Disasm(args) => disasm::disasm(args),
        Command::Lockstep(args) => lockstep::lockstep_command(args),
        Command::Profile(args) => profile::profile_command(args),
        Command::Trace(args) => trace::trace_command(args),
    }
}
