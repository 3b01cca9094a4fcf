//! Project chores behind one door: `cargo xtask ci | bless | docs | guests`. Parses and dispatches.

use anyhow::Result;
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

fn main() -> Result<()> {
    match Arguments::parse().chore {
        Chore::Guests { check } => guests_build::guests(check),
    }
}
