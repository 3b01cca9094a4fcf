//! One block of code on two engines: whole, in slices and uncounted, with the states at all stops
//! compared. Called by `tests/differential.rs` with random blocks and by the fuzz targets of
//! `tests/fuzz` with blocks that a fuzzer has made.

use axp_emu::cpu::Exit;
use axp_emu::engine::{Engine, Limit};

use crate::engines::{ENGINES, EngineUnderTest};
use crate::r#gen::{Block, Strength};
use crate::state::{DATA, STOPPED, State, TestMachine, listing};
use crate::words::Random;

/// Instructions that a block may retire.
const BUDGET: u64 = 3000;
/// Guest events after which a run is given up; each is compared.
const EVENTS: usize = 24;

/// How the budget is handed out.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// In one piece.
    Whole,
    /// In slices whose lengths come from this seed.
    Sliced(u64),
    /// Not at all: the code ends by itself.
    Uncounted,
}

/// The states at all stops of a run. Faulting instructions are stepped over.
fn trace(
    machine: &mut TestMachine,
    engine: &mut dyn Engine,
    block: &Block,
    words: &[u32],
    mode: Mode,
) -> Vec<State> {
    machine.reset(block.model);
    machine.load(words);
    machine.vcpu.mem.write_bytes(DATA, &block.memory).unwrap();
    machine.vcpu.cpu.r[..31].copy_from_slice(&block.r);
    machine.vcpu.cpu.f[..31].copy_from_slice(&block.f);
    machine.vcpu.cpu.fpcr = block.fpcr;
    let mut lengths = Random::new(if let Mode::Sliced(seed) = mode { seed } else { 0 });
    let mut states = Vec::new();
    while states.len() < EVENTS {
        let left = BUDGET.saturating_sub(machine.vcpu.cpu.count);
        let limit = match mode {
            Mode::Whole => Limit::Count(left),
            Mode::Sliced(_) => Limit::Count(left.min(1 + u64::from(lengths.below(24)))),
            Mode::Uncounted => Limit::None,
        };
        let state = machine.run(engine, limit);
        let exit = state.exit;
        states.push(state);
        match exit {
            STOPPED => break,
            Exit::Limit if left == 0 || matches!(mode, Mode::Whole) => break,
            Exit::Fault(_) | Exit::Unaligned(_) | Exit::Illegal(_) => {
                machine.vcpu.cpu.pc = machine.vcpu.cpu.pc.wrapping_add(4);
            }
            _ => {}
        }
    }
    states
}

/// The first stop at which two runs differ, in words.
fn first_difference(reference: &[State], got: &[State]) -> Option<String> {
    for (i, (want, got)) in reference.iter().zip(got).enumerate() {
        let lines = got.diff(want);
        if !lines.is_empty() {
            return Some(format!("at stop {i}:\n    {}", lines.join("\n    ")));
        }
    }
    (reference.len() != got.len())
        .then(|| format!("{} stops, expected {}", got.len(), reference.len()))
}

/// An engine under test beside the reference.
pub struct Bench {
    machine: TestMachine,
    reference: Box<dyn Engine>,
    subject: Box<dyn Engine>,
}

impl Bench {
    /// `subject` beside the first of [`ENGINES`].
    pub fn new(subject: &EngineUnderTest) -> Bench {
        Bench {
            machine: TestMachine::new(),
            reference: (ENGINES[0].make)(),
            subject: (subject.make)(),
        }
    }

    /// What differs, in words, if `words` run in the place of the block's own.
    pub fn compare(&mut self, block: &Block, words: &[u32], mode: Mode) -> Option<String> {
        let want = trace(&mut self.machine, &mut *self.reference, block, words, mode);
        let got = trace(&mut self.machine, &mut *self.subject, block, words, mode);
        if let Some(difference) = first_difference(&want, &got) {
            return Some(difference);
        }
        if want.iter().any(|state| matches!(state.exit, Exit::Fault(_))) {
            return None;
        }
        // Without faults, code that need not keep registers in memory does the same.
        self.machine.precise = false;
        let got = trace(&mut self.machine, &mut *self.subject, block, words, mode);
        if let Some(text) = first_difference(&want, &got) {
            self.machine.precise = true;
            return Some(format!("(imprecise) {text}"));
        }
        // Where every stop is a call, no one can see registers that the code does not need.
        let only_calls = want.iter().all(|state| matches!(state.exit, Exit::CallPal(_)));
        self.machine.observed = !only_calls;
        let got = trace(&mut self.machine, &mut *self.subject, block, words, mode);
        (self.machine.precise, self.machine.observed) = (true, true);
        first_difference(&want, &got).map(|text| format!("(unobserved) {text}"))
    }

    /// The words of a failing block with all that is not needed for the failure made NOPs.
    fn shrink(&mut self, block: &Block, mode: Mode) -> Vec<u32> {
        const NOP: u32 = 0x47ff_041f;
        let mut words = block.words.clone();
        for i in 0..words.len() {
            let kept = std::mem::replace(&mut words[i], NOP);
            // Without its loop control a block need not end; leave branches of uncounted runs.
            let control = matches!(mode, Mode::Uncounted) && matches!(kept >> 26, 0x1a | 0x30..);
            let counter = matches!(mode, Mode::Uncounted) && matches!(kept >> 26, 0x08 | 0x10);
            if control || counter || self.compare(block, &words, mode).is_none() {
                words[i] = kept;
            }
        }
        words
    }

    /// # Panics
    /// With a listing, shrunk, if the engines differ.
    pub fn check(&mut self, name: &str, block: &Block) {
        let mut modes = vec![Mode::Whole, Mode::Sliced(block.seed)];
        if block.strength.ends() {
            modes.push(Mode::Uncounted);
        }
        for mode in modes {
            let Some(difference) = self.compare(block, &block.words, mode) else { continue };
            let words = self.shrink(block, mode);
            let shrunk = self.compare(block, &words, mode);
            panic!(
                "{name} differs from {}: {:?} block, seed {:#x}, {mode:?}, {}, fpcr {:#x}\n{}\
                 shrunk to\n{}{}",
                ENGINES[0].name,
                block.strength,
                block.seed,
                block.model.name(),
                block.fpcr,
                difference,
                listing(&words),
                shrunk.unwrap_or_default(),
            );
        }
    }
}

/// The fuzz target for the loader: no file makes it panic, and what it gives is in order.
///
/// # Panics
/// If an image has segments outside of its own bounds.
pub fn fuzz_loader(file: &[u8]) {
    if let Ok(image) = axp_emu::load::parse(file) {
        for segment in &image.segments {
            assert!(image.low() <= segment.vaddr && segment.end() <= image.high());
            assert!(segment.data.len() as u64 <= segment.end() - segment.vaddr);
        }
    }
}

/// The fuzz target for blocks: the first eight bytes choose registers and memory, the others are
/// instruction words, which every engine has to execute alike.
///
/// # Panics
/// If an engine differs from the reference.
pub fn fuzz_block(benches: &mut [(&'static str, Bench)], data: &[u8]) {
    let Some((seed, code)) = data.split_first_chunk::<8>() else { return };
    let words: Vec<u32> = code.as_chunks::<4>().0.iter().map(|w| u32::from_le_bytes(*w)).collect();
    let mut block = Block::generate(Strength::Words, u64::from_le_bytes(*seed));
    let room = block.words.len();
    // What follows the fuzzer's words is what stops a block.
    for (slot, word) in block.words.iter_mut().zip(words).take(room.saturating_sub(1)) {
        *slot = word;
    }
    for (name, bench) in benches {
        for mode in [Mode::Whole, Mode::Sliced(block.seed)] {
            if let Some(difference) = bench.compare(&block, &block.words, mode) {
                panic!("{name} differs, {mode:?}: {difference}\n{}", listing(&block.words));
            }
        }
    }
}

/// A bench for each engine but the reference.
pub fn benches() -> Vec<(&'static str, Bench)> {
    ENGINES[1..].iter().map(|engine| (engine.name, Bench::new(engine))).collect()
}
