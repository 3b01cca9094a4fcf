//! `axplab boot`: a Linux kernel on the machine, with the terminal as its console.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use axp_emu::engine::{Engine, Outcome as Ended};
use axp_emu::interp::CYCLES_PER_SECOND;
use axp_emu::isa::CpuModel;
use axp_emu::load;
use axp_emu::machine::osf::{Drive, Halt};
use axp_emu::machine::platform::{Clipper, Disk, Guest, Network, Settings};
use axp_emu::machine::{Console, HALTED};
use axp_emu::mem::AddressSpace;
use axp_jit::auto::Tuning;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli_boot::BootArgs;
use crate::debug::{Listener, Session};
use crate::terminal::Raw;
use crate::{Outcome, guest};

/// Ctrl-], which ends the machine.
const ESCAPE: u8 = 0x1d;
/// Status of a machine that was ended from the terminal, as after Ctrl-C.
const ENDED: i32 = 130;

/// Rounds of the kernel's delay loop in a tick, about, where it must not measure them.
const DELAY_LOOPS: u64 = 4_000_000;

/// Runs the command.
pub fn boot(args: BootArgs) -> anyhow::Result<Outcome> {
    Ok(run(&args, None)?.0)
}

/// Boots and runs the kernel, each processor by `drive` if there is one; with the first processor's memory
/// as it was left.
pub fn run(
    args: &BootArgs,
    drive: Option<Drive<'_>>,
) -> anyhow::Result<(Outcome, Arc<AddressSpace>)> {
    let make = guest::engine(&args.engine)?;
    let mut engine = make(Tuning::default(), None)?;
    if args.deterministic && args.cpus > 1 {
        bail!("--deterministic runs one processor; leave --cpus out");
    }
    let listener = args.gdb.as_deref().map(Listener::open).transpose()?;
    if listener.is_some() && drive.is_some() {
        bail!("a system under a debugger is not sampled; leave --gdb out");
    }
    if args.deterministic && args.net.is_some() {
        bail!("--deterministic has no network, whose frames come when they come; leave --net out");
    }
    let disks = args.disk.iter().map(|name| disk(name)).collect::<anyhow::Result<_>>()?;
    let network = args.net.as_deref().map(Network::open).transpose()?;
    let path = args.kernel.display();
    let bytes = read(&args.kernel)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        bail!("`{path}` is compressed; give the ELF file, vmlinux");
    }
    let kernel = load::parse_kernel(&bytes).with_context(|| format!("`{path}`"))?;
    let initrd = args.initrd.as_deref().map(read).transpose()?.unwrap_or_default();
    if let (Some(path), true) = (&args.initrd, initrd.is_empty()) {
        bail!("`{}` is empty", path.display());
    }
    let mut command_line = args.append.clone();
    if !command_line.split_whitespace().any(|word| word.starts_with("cycle=")) {
        command_line = format!("cycle={CYCLES_PER_SECOND} {command_line}");
    }
    if args.cpus > 1 && !command_line.split_whitespace().any(|word| word.starts_with("lpj=")) {
        // A kernel waits a second for a further processor, which would measure its delay loop meanwhile.
        command_line = format!("lpj={DELAY_LOOPS} {command_line}");
    }
    let output = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let settings = Settings {
        memory: args.memory << 20,
        model: CpuModel::Ev67,
        processors: args.cpus.into(),
        initrd: &initrd,
        command_line: command_line.trim_end(),
        console: Console::File(output),
        disks,
        network,
    };
    let mut machine = Guest::new(&kernel, settings)?;
    drop((bytes, initrd));
    let session =
        listener.map(|listener| Session::accept_system(listener, &machine)).transpose()?;
    let debugger = session.as_ref().map(Session::hub);
    let start = Instant::now();
    let terminal = Raw::enter().context("cannot set the terminal")?;
    listen(machine.platform.clone(), terminal.is_some());
    watch_signals(machine.platform.clone())?;
    let make = || make(Tuning::default(), None).ok();
    let outcome = match (drive, debugger) {
        (Some(drive), _) => machine.run_by(&mut *engine, &make, drive),
        (None, Some(debugger)) => {
            machine.run_by(&mut *engine, &make, &|processor, engine, vcpu| {
                debugger.run_processor(engine, processor, vcpu)
            })
        }
        (None, None) => machine.run(&mut *engine, &make, args.deterministic),
    };
    drop(terminal);
    if let Some(session) = session {
        session.finish(outcome);
    }
    if args.stats {
        print_statistics(&machine, &*engine, start);
    }
    Ok((finish(&machine, outcome)?, machine.vcpu.mem.clone()))
}

/// The disk of an option: a name, with `,ro` behind it or not.
fn disk(name: &OsStr) -> anyhow::Result<Disk> {
    let (name, read_only) = match name.as_bytes().strip_suffix(b",ro") {
        Some(name) => (OsStr::from_bytes(name), true),
        None => (name, false),
    };
    Disk::open(name.as_ref(), read_only)
        .map_err(|error| anyhow!("cannot use the disk `{}`: {error}", name.display()))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// Hands typed characters over, by a thread that ends with the program.
fn listen(platform: Arc<Clipper>, terminal: bool) {
    std::thread::spawn(move || {
        let mut buffer = [0; 256];
        loop {
            match std::io::stdin().read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(n) => {
                    let typed = &buffer[..n];
                    if terminal && typed.contains(&ESCAPE) {
                        platform.end(ENDED);
                        return;
                    }
                    platform.type_in(typed);
                }
            }
        }
    });
}

/// Ends the machine in good order when this program is to end.
fn watch_signals(platform: Arc<Clipper>) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            platform.end(128 + signal);
        }
    });
    Ok(())
}

/// The report, if there is one, and the exit status.
fn finish(machine: &Guest, outcome: Ended) -> anyhow::Result<Outcome> {
    let panicked = machine.platform.panicked();
    if panicked {
        eprintln!("axplab: the guest's kernel panicked; its last words are on the console");
    }
    match (machine.report(), outcome) {
        (Some(report), _) if report.halt == Halt::Restart => {
            if !panicked {
                eprintln!("axplab: the guest asked to be restarted");
            }
            Ok(Outcome::Status(if panicked { HALTED as u8 } else { 0 }))
        }
        (Some(report), _) => {
            eprintln!("axplab: {report}");
            Ok(Outcome::Status(HALTED as u8))
        }
        (None, Ended::Exited(_)) if panicked => Ok(Outcome::Status(HALTED as u8)),
        (None, Ended::Exited(status)) => Ok(Outcome::Status(status as u8)),
        (None, other) => bail!("the machine ended with {other:?}"),
    }
}

fn print_statistics(machine: &Guest, engine: &dyn Engine, start: Instant) {
    let (unknown, first) = machine.platform.unknown_accesses();
    eprintln!("axplab: {:.3} s", start.elapsed().as_secs_f64());
    for (whami, counters) in machine.counters() {
        eprintln!(
            "  processor {whami}: {} PALcode calls, {} exceptions, {} interrupts",
            counters.calls, counters.exceptions, counters.interrupts
        );
    }
    if machine.vcpu.counted {
        let [kernel, user] = machine.processor.counters().instructions;
        eprintln!("  instructions: {kernel} in the kernel, {user} in user mode");
    }
    if let Some(first) = first {
        eprintln!("  {unknown} accesses to what is not there, the first to {first:#x}");
    }
    for (tier, stats) in engine.tiers() {
        eprintln!(
            "  {tier}: {} translations, {} instructions, {:.3} s, {:.3} s in the background",
            stats.translations,
            stats.translated_instructions,
            stats.translate.as_secs_f64(),
            stats.background.as_secs_f64()
        );
    }
}
