//! Project chores behind one door: `cargo xtask ci | bless | docs | guests | kernel | fuzz | programs | results`.
//! Parses and dispatches.

use std::path::PathBuf;
use std::process::ExitCode;

use axp_tests::fuzz::Campaign;
use axp_tests::kernel::{self, Wish};
use axp_tests::{chores, guests_build};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run what continuous integration runs, with the tools that are here.
    Ci,
    /// Rewrite the goldens and generated pages; review the difference.
    Bless,
    /// Write the generated pages of docs/.
    Docs {
        /// Only compare with the committed pages.
        #[arg(long)]
        check: bool,
    },
    /// Run random C programs on all engines, on qemu-alpha and natively (needs csmith).
    Fuzz {
        /// Begin no further program after this time.
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// The first seed.
        #[arg(long, default_value_t = 1000)]
        seed: u64,
        /// Programs at most.
        #[arg(long, default_value_t = u64::MAX)]
        programs: u64,
        /// Programs at a time.
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        /// Run each program at each level on `opt` alone, too, which compiles for seconds.
        #[arg(long)]
        thorough: bool,
    },
    /// Build a Linux kernel and the initial RAM disks of the tests, busybox among them, into target/kernel.
    Kernel {
        /// Which one: minimal, generic, smp or devices.
        #[arg(default_value = "minimal")]
        kernel: String,
        /// The source: an archive or a folder, which is completed [default: Debian's linux-source-6.1].
        #[arg(long)]
        source: Option<PathBuf>,
        /// Compilations at a time.
        #[arg(long, short, default_value_t = 2)]
        jobs: usize,
    },
    /// Measure every row on every engine and write the record and its page into docs/results/.
    Results {
        /// What to call it.
        #[arg(default_value = "full")]
        name: String,
        /// A small fraction, into target/results/: whether every row works.
        #[arg(long)]
        small: bool,
    },
    /// Rebuild the guest ELF files and record their hashes.
    Guests {
        /// Only compare with the committed files, byte for byte.
        #[arg(long)]
        check: bool,
    },
    /// Build real programs from Debian's source packages, run them on every engine and compare.
    Programs {
        /// Where to fetch, build and run; outside the repository.
        #[arg(long)]
        dir: PathBuf,
        /// Build for this machine, too, and compare with that instead of with qemu-alpha.
        #[arg(long)]
        native: bool,
        /// Engines to run.
        #[arg(long, value_delimiter = ',', default_value = "interp,baseline,opt,auto")]
        engine: Vec<String>,
        /// Only these items of work.
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// Little work for all engines.
        #[arg(long)]
        small: bool,
        /// The program to test; otherwise a release build of this one.
        #[arg(long)]
        axplab: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Ci => chores::ci(),
        Chore::Bless => chores::bless(),
        Chore::Docs { check } => chores::docs(check),
        Chore::Fuzz { minutes, seed, programs, jobs, thorough } => {
            chores::fuzz(Campaign { minutes, seed, programs, jobs, thorough })
        }
        Chore::Kernel { kernel, source, jobs } => kernel::build(&Wish { kernel, source, jobs }),
        Chore::Results { name, small } => chores::results(&name, small),
        Chore::Programs { dir, native, engine, only, small, axplab } => {
            chores::programs(dir, native, engine, only, small, axplab)
        }
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
