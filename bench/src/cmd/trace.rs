//! `axplab trace`: every instruction as it retires, or those of some addresses or functions.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use anyhow::{Context, bail};
use axp_emu::engine::trace::{Change, TraceRecord, trace};
use axp_emu::engine::{Environment as _, Limit, Outcome as GuestOutcome, run};
use axp_emu::isa::{INT_NAMES, disasm};
use axp_jit::auto::Tuning;

use crate::cli_debug::TraceArgs;
use crate::symbols::Symbols;
use crate::{Outcome, cmd, guest};

/// Runs the command.
pub fn trace_command(args: TraceArgs) -> anyhow::Result<Outcome> {
    let opts = cmd::run::options_for(&args.guest, &args.engine)?;
    let make = guest::engine(&args.engine)?;
    let (mut linux, mut vcpu) = guest::load(&opts, None)?;
    let mut symbols = Symbols::of(&vcpu.mem, opts.sysroot.as_deref());
    let mut ranges = args.range.clone();
    let mut missing: Vec<&str> = Vec::new();
    for name in &args.symbol {
        let found = symbols.ranges_of(name);
        if found.is_empty() {
            missing.push(name);
        }
        ranges.extend(found);
    }
    if !missing.is_empty() {
        bail!(
            "`{}` has no function `{}`; name one that its symbol table has (nm lists them)",
            opts.program.display(),
            missing.join("`, `")
        );
    }
    let to: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(File::create(path).with_context(|| {
            format!("cannot write `{}`; choose a file that can be written", path.display())
        })?),
        None => Box::new(io::stderr()),
    };
    let mut out = BufWriter::new(to);
    let pid = std::process::id();
    let mut engine = make(Tuning::default(), None)?;
    let mut outcome = GuestOutcome::LimitReached;
    if args.from > 0 {
        outcome = run(&mut *engine, &mut linux, &mut vcpu, Limit::Count(args.from));
    }
    let mut failed = None;
    if outcome == GuestOutcome::LimitReached && args.limit > 0 {
        let wanted = |pc: u64| ranges.is_empty() || ranges.iter().any(|r| (r.0..r.1).contains(&pc));
        let mut left = args.limit;
        let mem = vcpu.mem.clone();
        let mut known = mem.exec_epoch();
        let mut function = String::new();
        let mut sink = |record: &TraceRecord| {
            if !wanted(record.pc) || std::process::id() != pid {
                return true;
            }
            if mem.exec_epoch() != known {
                known = mem.exec_epoch();
                symbols.update(&mem, opts.sysroot.as_deref());
            }
            match line(&mut out, record, &symbols, &mut function) {
                Ok(()) => {
                    left -= 1;
                    left > 0
                }
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        };
        outcome = trace(&mut *engine, &mut linux, &mut vcpu, u64::MAX, &mut sink);
    }
    // What the guest's exit left undone.
    let _ = linux.take_code_change();
    if std::process::id() != pid {
        // A process that the program has forked off: what is in the buffer is its parent's.
        std::mem::forget(out);
        return Ok(cmd::run::ended(guest::ended(outcome)?));
    }
    if let Some(error) = failed {
        return Err(error).context("cannot write the trace");
    }
    out.flush().context("cannot write the trace")?;
    Ok(match outcome {
        GuestOutcome::LimitReached => Outcome::DONE,
        outcome => cmd::run::ended(guest::ended(outcome)?),
    })
}

/// One instruction; before it, a heading where the function is another one.
fn line(
    out: &mut dyn Write,
    record: &TraceRecord,
    symbols: &Symbols,
    function: &mut String,
) -> io::Result<()> {
    let place = symbols.find(record.pc).map_or("", |place| match place.function {
        "" => place.file,
        function => function,
    });
    if place != function {
        place.clone_into(function);
        writeln!(out, "<{place}>")?;
    }
    let TraceRecord { count, pc, .. } = record;
    match record.word {
        Some(word) => {
            let text = disasm(word, *pc).to_string().replace('\t', " ");
            write!(out, "{count:>10} {pc:12x} {word:08x}  {text:<32}")?;
        }
        None => write!(out, "{count:>10} {pc:12x} ????????  {:<32}", "(not mapped)")?,
    }
    for change in &record.changes {
        match change {
            Change::R(n, value) => write!(out, " {}={value:#x}", INT_NAMES[usize::from(*n)])?,
            Change::F(n, value) => write!(out, " f{n}={value:#x}")?,
            Change::Fpcr(value) => write!(out, " fpcr={value:#x}")?,
        }
    }
    if record.next != pc.wrapping_add(4) {
        write!(out, " -> {:x}", record.next)?;
    }
    writeln!(out)
}
