//! `axplab machine`: boots a program of the user's on the privileged machine.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::{Context, bail};
use axp_emu::engine::Outcome as Ended;
use axp_emu::isa::assemble_block;
use axp_emu::load::{self, Image, ImageKind, Segment};
use axp_emu::machine::{Board, Console, Disk, Drive, Machine, Settings};
use axp_emu::mem::AddressSpace;
use axp_jit::auto::Tuning;

use crate::cli::MachineArgs;
use crate::machine::strategy;
use crate::{Outcome, guest};

/// Where an assembled program stands and starts.
const START: u64 = 0x1_0000;

/// Runs the command.
pub fn machine(args: MachineArgs) -> anyhow::Result<Outcome> {
    Ok(run(&args, None)?.0)
}

/// Boots and runs the program, each processor by `drive` if there is one; with the memory as it was left.
pub fn run(
    args: &MachineArgs,
    drive: Option<Drive<'_>>,
) -> anyhow::Result<(Outcome, Arc<AddressSpace>)> {
    let probe = strategy(&args.probe)?;
    let engine = guest::engine(&args.engine)?;
    drop(engine(Tuning::default(), None)?);
    let make = || engine(Tuning::default(), None).ok();
    let path = args.program.display();
    let bytes = std::fs::read(&args.program).with_context(|| format!("cannot read `{path}`"))?;
    if bytes.is_empty() {
        bail!("`{path}` is empty; give an ELF file or lines of assembly");
    }
    let image = if bytes.starts_with(b"\x7fELF") {
        load::parse(&bytes).with_context(|| format!("`{path}`"))?
    } else {
        assembled(&bytes).with_context(|| format!("`{path}`"))?
    };
    let disk = match &args.disk {
        Some(path) => Disk::open(path)?,
        None => Disk::default(),
    };
    let console = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let board = Board::new(Console::File(console), disk, &args.parameters);
    let board = Arc::new(board.with_processors(args.processors));
    if !std::io::stdin().is_terminal() {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut text)?;
        board.type_in(&text);
    }
    let settings = Settings { memory: args.memory << 20, probe, ..Settings::default() };
    let (mut machine, mut vcpu) = Machine::boot(&image, board, &settings)?;
    let outcome = match (args.deterministic, drive) {
        (_, Some(drive)) => machine.run_in_time_by(&mut vcpu, &make, &settings, drive),
        (Some(quantum), _) => machine.run_in_turns(&mut vcpu, &make, &settings, quantum),
        (None, None) => machine.run_in_time(&mut vcpu, &make, &settings),
    };
    let outcome = outcome.context("no engine for a processor")?;
    if let Some(report) = machine.report() {
        eprintln!("axplab: {report}");
    }
    match outcome {
        Ended::Exited(status) => Ok((Outcome::Status(status as u8), vcpu.mem.clone())),
        other => bail!("the machine ended with {other:?}"),
    }
}

/// A program in the line assembler's language.
fn assembled(bytes: &[u8]) -> anyhow::Result<Image> {
    let text = std::str::from_utf8(bytes).context("neither an ELF file nor text")?;
    let data: Vec<u8> =
        assemble_block(text, START)?.into_iter().flat_map(u32::to_le_bytes).collect();
    let segment = Segment {
        vaddr: START,
        mem_size: data.len() as u64,
        data,
        read: true,
        write: true,
        execute: true,
    };
    Ok(Image {
        kind: ImageKind::Fixed,
        segments: vec![segment],
        entry: START,
        interp: None,
        phdr: None,
        phnum: 0,
        e_flags: 0,
        exec_stack: true,
        symbols: Vec::new(),
    })
}
