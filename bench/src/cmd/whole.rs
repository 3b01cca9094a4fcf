//! `axplab boot` and `axplab machine` under a profiler on each processor: what `axplab profile` and
//! `axplab modes` take besides programs.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use axp_emu::cpu::Vcpu;
use axp_emu::engine::{Engine, Outcome as GuestOutcome};
use axp_emu::mem::AddressSpace;
use clap::{Args, Parser};

use super::{boot, machine};
use crate::Outcome;
use crate::cli::MachineArgs;
use crate::cli_boot::BootArgs;
use crate::profile::{Names, Profiler, Subject};
use crate::symbols::Symbols;

/// A machine that is started with arguments of its own.
#[derive(Debug)]
pub enum Whole {
    /// A Linux kernel.
    Boot(BootArgs),
    /// A program for the OpenVMS processor.
    Machine(MachineArgs),
}

/// The arguments of a command behind its name.
#[derive(Debug, Parser)]
struct Command<A: Args> {
    #[command(flatten)]
    args: A,
}

/// They were wrong, or help was wanted: that is told, and the program ends.
fn parsed<A: Args>(words: &[OsString]) -> A {
    Command::try_parse_from(words).unwrap_or_else(|error| error.exit()).args
}

impl Whole {
    /// What these words start, if they begin with `boot` or `machine`; by `engine` if they name none.
    pub fn find(words: &[OsString], engine: &str) -> anyhow::Result<Option<Whole>> {
        let mut whole = match words.first().and_then(|word| word.to_str()) {
            Some("boot") => Whole::Boot(parsed(words)),
            Some("machine") => Whole::Machine(parsed(words)),
            _ => return Ok(None),
        };
        let (own, counted) = match &mut whole {
            Whole::Boot(args) => (&mut args.engine, args.deterministic),
            Whole::Machine(args) => (&mut args.engine, args.deterministic.is_some()),
        };
        if own == "auto" {
            engine.clone_into(own);
        }
        if counted {
            bail!("with --deterministic nothing is sampled; leave it out");
        }
        Ok(Some(whole))
    }

    /// How many processors it has.
    pub fn processors(&self) -> usize {
        match self {
            Whole::Boot(args) => args.cpus.into(),
            Whole::Machine(args) => args.processors,
        }
    }

    /// What is run.
    pub fn name(&self) -> String {
        let path = match self {
            Whole::Boot(args) => &args.kernel,
            Whole::Machine(args) => &args.program,
        };
        path.display().to_string()
    }

    /// Names of its code: those of the kernel's ELF file, or of the program's if it is one.
    pub fn names(&self) -> anyhow::Result<Names> {
        Ok(match self {
            Whole::Boot(args) => Names::Kernel(symbols(&args.kernel)?),
            Whole::Machine(args) => Names::Machine(symbols(&args.program)?),
        })
    }

    /// Runs it to its end under the profiler. The memory is the first processor's, as it was left.
    pub fn run(&self, profiler: &Profiler) -> anyhow::Result<(Outcome, Arc<AddressSpace>)> {
        match self {
            Whole::Boot(args) => boot::run(args, Some(&|p, e, v| sampled(profiler, p, e, v))),
            Whole::Machine(args) => machine::run(args, Some(&|p, e, v| sampled(profiler, p, e, v))),
        }
    }
}

fn sampled<S: Subject>(
    profiler: &Profiler,
    subject: &mut S,
    engine: &mut dyn Engine,
    vcpu: &mut Vcpu,
) -> GuestOutcome {
    profiler.run(engine, subject, vcpu).unwrap_or_else(|error| {
        eprintln!("axplab: a processor cannot be sampled: {error:#}");
        GuestOutcome::Exited(2)
    })
}

/// Of an ELF file; none of anything else, of which whoever runs it tells what is wrong.
fn symbols(path: &Path) -> anyhow::Result<Symbols> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(Symbols::of_image(&name, &bytes).unwrap_or_default())
}
