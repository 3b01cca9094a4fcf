//! `axplab profile`: runs a program under the sampler, then writes what was asked for.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use axp_emu::cpu::Vcpu;
use axp_emu::engine::Outcome as GuestOutcome;
use axp_jit::auto::Tuning;

use crate::cli_debug::ProfileArgs;
use crate::cmd::run::RunOptions;
use crate::profile::export::{self, JitDump};
use crate::profile::{Profiler, report};
use crate::{Outcome, cmd, guest};

/// Runs the command.
pub fn profile_command(args: ProfileArgs) -> anyhow::Result<Outcome> {
    let opts = cmd::run::options_for(&args.guest, &args.engine)?;
    // What cannot be written is said before anything runs.
    for path in [&args.output, &args.flame_graph, &args.firefox].into_iter().flatten() {
        crate::record::check_writable(path)?;
    }
    let dump = args.jitdump.as_deref().map(|dir| {
        JitDump::begin(dir).with_context(|| format!("cannot make a jitdump in `{}`", dir.display()))
    });
    let dump = dump.transpose()?;
    let interval = 1_000_000_000 / args.hz;
    let profiler = Profiler::new(interval, opts.sysroot.clone());
    let (vcpu, outcome) = run(&profiler, &opts, &args.engine)?;
    if profiler.is_foreign() {
        return Ok(cmd::run::ended(guest::ended(outcome)?));
    }
    let elapsed = profiler.elapsed();
    let (threads, symbols) = profiler.finish();
    let code = axp_jit::profile::all_code();
    let out: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(File::create(path).with_context(|| cannot(path))?),
        None => Box::new(io::stderr()),
    };
    let mut out = BufWriter::new(out);
    let sizes = report::Sizes { functions: args.top, blocks: args.blocks };
    report::write(&mut out, &threads, &symbols, &vcpu.mem, &code, sizes)
        .and_then(|()| out.flush())
        .context("cannot write the report")?;
    let program = opts.program.display().to_string();
    if let Some(path) = &args.flame_graph {
        let any = threads.iter().any(|t| !t.samples.is_empty());
        // A flame graph of nothing cannot be drawn.
        if any {
            export::flame_graph(path, &program, &threads, &symbols)
                .with_context(|| cannot(path))?;
        }
    }
    if let Some(path) = &args.firefox {
        export::firefox(path, &program, interval, elapsed, &threads, &symbols)
            .with_context(|| cannot(path))?;
    }
    if args.perf_map {
        let path = export::perf_map(&code, &symbols).context("cannot write the map for perf")?;
        eprintln!("axplab: names for perf: {}", path.display());
    }
    if let Some(dump) = dump {
        let path = dump.path.clone();
        dump.finish(&code, &symbols).with_context(|| cannot(&path))?;
    }
    Ok(cmd::run::ended(guest::ended(outcome)?))
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
        let ran = make(Tuning::default())
            .and_then(|mut e| of_threads.run(&mut *e, &mut linux, &mut vcpu));
        if let Err(error) = ran {
            eprintln!("axplab: a thread of the guest cannot be profiled: {error:#}");
            process.end(GuestOutcome::Exited(2));
        }
    });
    let (mut linux, mut vcpu) = guest::load(opts, Some(runner))?;
    let mut engine = make(Tuning::default())?;
    let outcome = profiler.run(&mut *engine, &mut linux, &mut vcpu)?;
    Ok((vcpu, outcome))
}

fn cannot(path: &Path) -> String {
    format!("cannot write `{}`", path.display())
}
