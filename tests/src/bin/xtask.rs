//! Project chores behind one door: `cargo xtask ci | bless | docs | guests`. Parses and dispatches.

use std::process::ExitCode;

use axp_tests::guests_build;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Rebuild the guest ELF files and record their hashes.
    Guests {
        /// Only compare with the committed files, byte for byte.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Guests { check } => guests_build::guests(check),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Only the message: a chore's error is for its reader, not for a debugger.
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
