//! One file per command, and the parts of `bench` that stand alone; `main` hands the parsed
//! arguments over.

mod bench;
mod boot;
mod compare;
mod dcl;
mod disasm;
mod import;
mod list;
mod lockstep;
mod machine;
mod manual;
mod modes;
mod probe;
mod profile;
mod program;
mod report;
mod resume;
pub mod run;
mod scratch;
mod trace;
mod whole;

pub use compare::{CheckArgs, CompareArgs};
pub use manual::{CompletionsArgs, ManArgs};
pub use report::ReportArgs;

use crate::Outcome;
use crate::cli::Command;

/// Runs the command that the user named.
pub fn dispatch(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Bench(args) => bench::bench(args),
        Command::Import(args) => import::import(args),
        Command::List(args) => list::list(args),
        Command::Run(args) => run::run(args),
        Command::Disasm(args) => disasm::disasm(args),
        Command::Probe(args) => probe::probe(args),
        Command::Dcl(args) => dcl::dcl(args),
        Command::Boot(args) => boot::boot(args),
        Command::Machine(args) => machine::machine(args),
        Command::Modes(args) => modes::modes(args),
        Command::Lockstep(args) => lockstep::lockstep_command(args),
        Command::Profile(args) => profile::profile_command(args),
        Command::Trace(args) => trace::trace_command(args),
        Command::Report(args) => report::report(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Check(args) => compare::check(args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
    }
}
