//! Random blocks on every engine: the same registers, memory, exits and instruction counts as on
//! the reference, whole and in slices, counted and uncounted.
//!
//! `AXPLAB_FUZZ_BLOCKS=N` runs N blocks of each strength instead of the few hundred of a normal
//! run, `AXPLAB_FUZZ_SEED=N` starts elsewhere, `AXPLAB_FUZZ_ENGINE=NAME` runs one engine only. A
//! failure is shrunk and printed with its listing.

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Engine, EngineStats, Limit};
use axp_tests::engines::{ENGINES, EngineUnderTest};
use axp_tests::r#gen::{Block, Strength};
use axp_tests::state::{DATA, STOPPED, State, TestMachine, listing};
use axp_tests::words::Random;

/// Blocks of each strength in a normal run.
const BLOCKS: u64 = 400;
/// Instructions that a block may retire.
const BUDGET: u64 = 3000;
/// Guest events after which a run is given up; each is compared.
const EVENTS: usize = 24;

/// How the budget is handed out.
#[derive(Clone, Copy, Debug)]
enum Mode {
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

struct Bench {
    machine: TestMachine,
    reference: Box<dyn Engine>,
    subject: Box<dyn Engine>,
}

impl Bench {
    fn new(subject: &EngineUnderTest) -> Bench {
        Bench {
            machine: TestMachine::new(),
            reference: (ENGINES[0].make)(),
            subject: (subject.make)(),
        }
    }

    fn compare(&mut self, block: &Block, words: &[u32], mode: Mode) -> Option<String> {
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

    fn check(&mut self, name: &str, block: &Block) {
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

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn run(strength: Strength) {
    let blocks = number("AXPLAB_FUZZ_BLOCKS").unwrap_or(BLOCKS);
    let first = number("AXPLAB_FUZZ_SEED").unwrap_or(0);
    // The reference against a second one of its own kind shows that a block is deterministic.
    let only = std::env::var("AXPLAB_FUZZ_ENGINE").ok();
    for subject in ENGINES.iter().filter(|e| only.as_ref().is_none_or(|name| name == e.name)) {
        let mut bench = Bench::new(subject);
        for seed in first..first + blocks {
            bench.check(subject.name, &Block::generate(strength, seed));
        }
    }
}

#[test]
fn random_words_run_alike() {
    run(Strength::Words);
}

#[test]
fn straight_lines_run_alike() {
    run(Strength::Straight);
}

#[test]
fn idioms_run_alike() {
    run(Strength::Idioms);
}

#[test]
fn structured_code_runs_alike() {
    run(Strength::Structured);
}

#[test]
fn floating_point_code_runs_alike() {
    run(Strength::Floating);
}

/// An engine with a fault: it loses a carry once in a while.
struct Faulty(Box<dyn Engine>);

impl Engine for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        let exit = self.0.run(vcpu, limit);
        if vcpu.cpu.r[5] >> 60 == 5 {
            vcpu.cpu.r[5] ^= 1 << 32;
        }
        exit
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        self.0.invalidate(start, end);
    }

    fn stats(&self) -> EngineStats {
        self.0.stats()
    }
}

#[test]
#[should_panic(expected = "r5 (t4)")]
fn an_engine_with_a_fault_is_caught() {
    let faulty = EngineUnderTest { name: "faulty", make: || Box::new(Faulty((ENGINES[0].make)())) };
    let mut bench = Bench::new(&faulty);
    for seed in 0..100 {
        bench.check(faulty.name, &Block::generate(Strength::Straight, seed));
    }
}
