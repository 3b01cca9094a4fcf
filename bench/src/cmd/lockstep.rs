//! `axplab lockstep`: two engines on one program, and the first instruction after which they differ.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::lockstep::{Difference, Divergence, Options, Side, lockstep};
use axp_emu::engine::replay::{Cursor, GuestKind, OFF_RECORD, Polled, Record, Recorder, Replayer};
use axp_emu::engine::replay::{SharedCursor, SharedRecord};
use axp_emu::engine::{
    self, Engine, EngineStats, Environment, Flow, Limit, Outcome as GuestOutcome,
};
use axp_emu::isa::{INT_NAMES, Osf, disasm};
use axp_emu::linux::{Linux, signal_name};
use axp_jit::auto::Tuning;

use crate::cli_debug::LockstepArgs;
use crate::guest::{self, Maker};
use crate::symbols::Symbols;
use crate::{Outcome, cmd};

/// Instructions shown before and after the one that differs.
const AROUND: u64 = 6;

/// Runs the command.
pub fn lockstep_command(args: LockstepArgs) -> anyhow::Result<Outcome> {
    let [left, right] = args.engines.as_slice() else {
        bail!("--engines takes two engines, such as interp,auto");
    };
    let opts = cmd::run::options_for(&args.guest, left)?;
    let makers = [guest::engine(left)?, guest::engine(right)?];
    cmd::run::options_for(&args.guest, right)?;
    let sysroot = opts.sysroot.clone();
    let (linux, mut vcpu) = guest::load(&opts, None)?;
    vcpu.precise = true;
    let kind = GuestKind::of(&vcpu);
    let record = Record::begin(&vcpu);
    let refused: Arc<Mutex<Option<u64>>> = Arc::default();
    let cursor = Cursor::new(&record);
    let one_thread = OneThread { linux, refused: refused.clone() };
    let child_maker = makers[0];
    let child = Box::new(move |vcpu: &mut Vcpu, env: &mut dyn Environment| {
        run_child(child_maker, vcpu, env);
    });
    let mem = vcpu.mem.clone();
    let recorder = Recorder::new(Box::new(one_thread), record.clone(), &vcpu, child);
    let mut live = Some((vcpu, recorder));
    let mut engine_error = None;
    // The first pair is the program itself and its follower; all later ones repeat the record.
    let mut make_left = || match live.take() {
        Some((vcpu, recorder)) => {
            let engine = make(makers[0], &mut engine_error);
            Side { engine, env: Box::new(recorder), vcpu }
        }
        None => follower(make(makers[0], &mut engine_error), &record, &kind, Cursor::new(&record)),
    };
    let mut other_error = None;
    let mut first = Some(cursor.clone());
    let mut make_right = || {
        let engine = make(makers[1], &mut other_error);
        let engine: Box<dyn Engine> = match args.plant {
            Some(at) => Box::new(Planted { engine, at }),
            None => engine,
        };
        let cursor = first.take().unwrap_or_else(|| Cursor::new(&record));
        follower(engine, &record, &kind, cursor)
    };
    let options = Options { limit: args.limit, slice: args.every, memory: !args.no_memory };
    let found = lockstep(&mut make_left, &mut make_right, options);
    if let Some(error) = engine_error.or(other_error) {
        return Err(error.context("cannot make an engine"));
    }
    let at = *refused.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pc) = at {
        bail!(
            "the program starts a thread at pc {pc:#x}; lockstep follows programs with one thread"
        );
    }
    let record = record.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = &record.failed {
        bail!("{why}; lockstep keeps a record of that and gives up");
    }
    let events = record.len();
    let mut out = io::stderr().lock();
    match found {
        Ok(end) => {
            let how = match end.outcome {
                Some(GuestOutcome::Exited(status)) => format!("the program exited with {status}"),
                Some(GuestOutcome::Signalled { signal, .. }) => {
                    format!("{} ended the program", signal_name(signal))
                }
                _ => "the limit was reached".to_owned(),
            };
            writeln!(
                out,
                "axplab: {left} and {right} agree: {} instructions, {events} events; {how}",
                end.count
            )?;
            Ok(Outcome::DONE)
        }
        Err(found) => {
            let symbols = Symbols::of(&mem, sysroot.as_deref());
            let off = cursor.lock().unwrap_or_else(PoisonError::into_inner).off.clone();
            drop(record);
            print(&mut out, [left, right], &found, off.as_deref(), &symbols, &mem)?;
            Ok(Outcome::Status(1))
        }
    }
}

fn make(maker: Maker, error: &mut Option<anyhow::Error>) -> Box<dyn Engine> {
    maker(Tuning::default(), None).unwrap_or_else(|e| {
        *error = Some(e);
        Box::new(Broken)
    })
}

/// Stands in for an engine that cannot be made: ends every run.
struct Broken;

impl Engine for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn run(&mut self, _: &mut Vcpu, _: Limit) -> Exit {
        Exit::Limit
    }

    fn invalidate(&mut self, _: u64, _: u64) {}

    fn stats(&self) -> EngineStats {
        EngineStats::default()
    }
}

fn follower(
    engine: Box<dyn Engine>,
    record: &SharedRecord,
    kind: &GuestKind,
    cursor: SharedCursor,
) -> Side {
    let guest = record.lock().unwrap_or_else(PoisonError::into_inner).guest(kind);
    let vcpu = guest.unwrap_or_else(|error| {
        // The window is address space only; without it there is nothing to go on with.
        eprintln!("axplab: cannot reserve a second address space: {error}");
        std::process::exit(2)
    });
    let env = Box::new(Replayer::new(cursor.clone()));
    Side { engine: Box::new(Polled::new(engine, cursor)), env, vcpu }
}

/// A process that the program has forked off runs on by itself and ends as its guest ends.
fn run_child(maker: Maker, vcpu: &mut Vcpu, env: &mut dyn Environment) -> ! {
    let status = match maker(Tuning::default(), None) {
        Ok(mut engine) => match engine::run(&mut *engine, env, vcpu, Limit::None) {
            GuestOutcome::Exited(status) => status,
            GuestOutcome::Signalled { signal, .. } => {
                axp_emu::linux::die_by_signal(axp_emu::linux::signal_to_host(signal))
            }
            GuestOutcome::LimitReached => 2,
        },
        Err(_) => 2,
    };
    std::process::exit(status)
}

/// The program's personality, which stops where a thread would begin.
struct OneThread {
    linux: Linux,
    refused: Arc<Mutex<Option<u64>>>,
}

/// Number of the call clone, and its flag for a thread.
const CLONE: u64 = 312;
const CLONE_THREAD: u64 = 0x1_0000;

impl Environment for OneThread {
    fn handle(&mut self, vcpu: &mut Vcpu, exit: Exit) -> Flow {
        let is_call = exit == Exit::CallPal(Osf::Callsys as u32);
        if is_call && vcpu.cpu.r[0] == CLONE && vcpu.cpu.r[16] & CLONE_THREAD != 0 {
            let at = vcpu.cpu.pc.wrapping_sub(4);
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
            return Flow::Stop(OFF_RECORD);
        }
        self.linux.handle(vcpu, exit)
    }

    fn take_code_change(&mut self) -> Option<(u64, u64)> {
        self.linux.take_code_change()
    }
}

/// An engine that gets one instruction wrong, for tests.
struct Planted {
    engine: Box<dyn Engine>,
    at: u64,
}

impl Engine for Planted {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        let before = vcpu.cpu.count;
        let exit = self.engine.run(vcpu, limit);
        if before < self.at && self.at <= vcpu.cpu.count {
            vcpu.cpu.unique ^= 1 << 40;
        }
        exit
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        self.engine.invalidate(start, end);
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}

fn print(
    out: &mut dyn Write,
    names: [&String; 2],
    found: &Divergence,
    off: Option<&str>,
    symbols: &Symbols,
    mem: &axp_emu::mem::AddressSpace,
) -> anyhow::Result<()> {
    let [left, right] = names;
    let Divergence { count, pc, .. } = *found;
    writeln!(out, "axplab: {left} and {right} differ")?;
    let place = symbols.describe(pc);
    if found.exact {
        writeln!(out, "after {count} instructions, at {pc:#x} ({place}):")?;
    } else {
        writeln!(
            out,
            "somewhere after {count} instructions, from {pc:#x} ({place}) on; made to run it again, \
             they agree:"
        )?;
    }
    if let Some(off) = off {
        writeln!(out, "  {right} met {off}")?;
    }
    writeln!(out, "\ncode:")?;
    for at in (pc.saturating_sub(4 * AROUND)..=pc.saturating_add(4 * AROUND)).step_by(4) {
        if let Ok(word) = mem.fetch_u32(at) {
            let mark = if at == pc { "=>" } else { "  " };
            writeln!(out, "{mark} {at:12x}:\t{word:08x}\t{}", disasm(word, at))?;
        }
    }
    writeln!(out, "\nwhat differs ({left}, {right}):")?;
    for what in &found.what {
        let shown = match what {
            Difference::R(n, ..) => format!("{:<5}{what}", INT_NAMES[usize::from(*n)]),
            _ => what.to_string(),
        };
        writeln!(out, "  {shown}")?;
    }
    writeln!(out, "\nregisters before, {left} after, {right} after:")?;
    let states = [&found.before, &found.left, &found.right];
    for (n, name) in INT_NAMES.iter().enumerate().take(31) {
        row(out, name, states.map(|s| s.r[n]))?;
    }
    for n in 0..31 {
        row(out, &format!("f{n}"), states.map(|s| s.f[n]))?;
    }
    row(out, "pc", states.map(|s| s.pc))?;
    row(out, "fpcr", states.map(|s| s.fpcr))?;
    row(out, "unique", states.map(|s| s.unique))?;
    row(out, "count", states.map(|s| s.count))?;
    out.flush().context("cannot write to standard error")
}

/// Registers that nothing has happened to and that are zero are left out.
fn row(out: &mut dyn Write, name: &str, [before, left, right]: [u64; 3]) -> io::Result<()> {
    if (before, left, right) == (0, 0, 0) {
        return Ok(());
    }
    let mark = |after: u64| if after == before { ' ' } else { '*' };
    let differs = if left == right { "" } else { "  <= differs" };
    writeln!(
        out,
        "  {name:<6} {before:016x}  {left:016x}{} {right:016x}{}{differs}",
        mark(left),
        mark(right)
    )
}
