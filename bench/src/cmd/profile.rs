//! `axplab profile`: runs a program under the sampler, then writes what was asked for.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use axp_emu::cpu::Vcpu;
use axp_emu::engine::Outcome as GuestOutcome;
use axp_emu::mem::AddressSpace;
use axp_jit::auto::Tuning;
use axp_jit::profile::HostCode;

use crate::cli_debug::ProfileArgs;
use crate::cmd::run::RunOptions;
use crate::cmd::whole::Whole;
use crate::machine::{self, Job, Named, PROGRAMS};
use crate::profile::export::{self, JitDump};
use crate::profile::{Names, Profiler, report};
use crate::symbols::Symbols;
use crate::{Outcome, cmd, guest};

/// Runs the command.
pub fn profile_command(args: ProfileArgs) -> anyhow::Result<Outcome> {
    if let Some(whole) = Whole::find(&args.guest.program, &args.engine)? {
        return whole_machine(&args, &whole);
    }
    let program = args.guest.program[0].to_string_lossy();
    match Named::find(&program)? {
        Some(named) => on_machine(&args, &program, &named),
        None if !Path::new(&*program).exists() => bail!(
            "`{program}` does not exist; give an Alpha program for Linux, FILE.COM, or one of {}",
            PROGRAMS.join(", ")
        ),
        None => linux(&args),
    }
}

/// A program of the privileged machine.
fn on_machine(args: &ProfileArgs, program: &str, named: &Named) -> anyhow::Result<Outcome> {
    if args.guest.program.len() > 1 {
        bail!("`{program}` takes no arguments; options of `axplab profile` stand before it");
    }
    let strategy = machine::strategy(&args.probe)?;
    let files = Files::prepare(args)?;
    let symbols = Symbols::of_image("exec.elf", axp_guests::EXECUTIVE);
    let names = Names::Machine(symbols.context("the executive's ELF file")?);
    let profiler = Profiler::new(interval(args), names);
    let job = named.job(&args.engine, strategy, args.iterations);
    let done = machine::run(&Job { profiler: Some(&profiler), ..job })?;
    io::stdout().lock().write_all(&done.output)?;
    files.write(&profiler, program, &done.memory)?;
    Ok(Outcome::Status(done.status as u8))
}

/// A machine with arguments of its own: `boot` or `machine`.
fn whole_machine(args: &ProfileArgs, whole: &Whole) -> anyhow::Result<Outcome> {
    let names = whole.names()?;
    let files = Files::prepare(args)?;
    let profiler = Profiler::new(interval(args), names);
    let (outcome, memory) = whole.run(&profiler)?;
    files.write(&profiler, &whole.name(), &memory)?;
    Ok(outcome)
}

/// A Linux program.
fn linux(args: &ProfileArgs) -> anyhow::Result<Outcome> {
    let opts = cmd::run::options_for(&args.guest, &args.engine)?;
    let files = Files::prepare(args)?;
    let profiler = Profiler::new(interval(args), Names::Process(opts.sysroot.clone()));
    let (vcpu, outcome) = run(&profiler, &opts, &args.engine)?;
    if !profiler.is_foreign() {
        files.write(&profiler, &opts.program.display().to_string(), &vcpu.mem)?;
    }
    Ok(cmd::run::ended(guest::ended(outcome)?))
}

/// Nanoseconds between two samples.
fn interval(args: &ProfileArgs) -> u64 {
    1_000_000_000 / args.hz
}

/// What is to be written.
struct Files<'a> {
    args: &'a ProfileArgs,
    dump: Option<JitDump>,
}

impl<'a> Files<'a> {
    /// What cannot be written is said before anything runs.
    fn prepare(args: &'a ProfileArgs) -> anyhow::Result<Self> {
        for path in [&args.output, &args.flame_graph, &args.firefox].into_iter().flatten() {
            crate::record::check_writable(path)?;
        }
        let dump = args.jitdump.as_deref().map(|dir| {
            JitDump::begin(dir)
                .with_context(|| format!("cannot make a jitdump in `{}`", dir.display()))
        });
        Ok(Files { args, dump: dump.transpose()? })
    }

    fn write(self, profiler: &Profiler, program: &str, mem: &AddressSpace) -> anyhow::Result<()> {
        let Files { args, dump } = self;
        let elapsed = profiler.elapsed();
        let profile = profiler.finish();
        let mut code = axp_jit::profile::all_code();
        if profile.two_modes {
            code.iter_mut().for_each(number_modes);
        }
        let out: Box<dyn Write> = match &args.output {
            Some(path) => Box::new(File::create(path).with_context(|| cannot(path))?),
            None => Box::new(io::stderr()),
        };
        let mut out = BufWriter::new(out);
        let sizes = report::Sizes { functions: args.top, blocks: args.blocks };
        report::write(&mut out, &profile, mem, &code, sizes)
            .and_then(|()| out.flush())
            .context("cannot write the report")?;
        // A flame graph of nothing cannot be drawn.
        if let Some(path) = args.flame_graph.as_ref().filter(|_| profile.samples().next().is_some())
        {
            export::flame_graph(path, program, &profile).with_context(|| cannot(path))?;
        }
        if let Some(path) = &args.firefox {
            export::firefox(path, program, interval(args), elapsed, &profile)
                .with_context(|| cannot(path))?;
        }
        if args.perf_map {
            let path = export::perf_map(&code, &profile.symbols)
                .context("cannot write the map for perf")?;
            eprintln!("axplab: names for perf: {}", path.display());
        }
        if let Some(dump) = dump {
            let path = dump.path.clone();
            dump.finish(&code, &profile.symbols).with_context(|| cannot(&path))?;
        }
        Ok(())
    }
}

/// Memory calls the outer one of two modes 1, where samples have it as user mode.
fn number_modes(code: &mut Arc<HostCode>) {
    if code.mode == Some(1) {
        *code = Arc::new(HostCode { mode: Some(3), ..HostCode::clone(code) });
    }
}

/// Runs a program to its end, each of its threads under the profiler.
pub fn run(
    profiler: &Arc<Profiler>,
    opts: &RunOptions,
    engine: &str,
) -> anyhow::Result<(Vcpu, GuestOutcome)> {
    let make = guest::engine(engine)?;
    let of_threads = profiler.clone();
    let runner = Arc::new(move |mut vcpu, mut linux: axp_emu::linux::Linux| {
        let process = linux.process().clone();
        let ran = make(Tuning::default(), None)
            .and_then(|mut e| of_threads.run(&mut *e, &mut linux, &mut vcpu));
        if let Err(error) = ran {
            eprintln!("axplab: a thread of the guest cannot be profiled: {error:#}");
            process.end(GuestOutcome::Exited(2));
        }
    });
    let (mut linux, mut vcpu) = guest::load(opts, Some(runner))?;
    let mut engine = make(Tuning::default(), None)?;
    let outcome = profiler.run(&mut *engine, &mut linux, &mut vcpu)?;
    Ok((vcpu, outcome))
}

fn cannot(path: &Path) -> String {
    format!("cannot write `{}`", path.display())
}
