//! Random blocks on every engine: the same registers, memory, exits and instruction counts as on
//! the reference, whole and in slices, counted and uncounted.
//!
//! `AXPLAB_FUZZ_BLOCKS=N` runs N blocks of each strength instead of the few hundred of a normal
//! run, `AXPLAB_FUZZ_SEED=N` starts elsewhere, `AXPLAB_FUZZ_ENGINE=NAME` runs one engine only. A
//! failure is shrunk and printed with its listing.

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Engine, EngineStats, Limit};
use axp_tests::blocks::{Bench, benches, fuzz_block, fuzz_loader};
use axp_tests::engines::{ENGINES, EngineUnderTest};
use axp_tests::r#gen::{Block, Strength};
use axp_tests::words::Random;

/// Blocks of each strength in a normal run.
const BLOCKS: u64 = 400;
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

/// The targets of `tests/fuzz` as a fuzzer would call them, on bytes of chance and on a real file that
/// is damaged here and there.
#[test]
fn fuzz_targets_find_nothing_at_once() {
    let mut benches = benches();
    let mut random = Random::new(1);
    let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let mut file = me[..me.len().min(4096)].to_vec();
    file[18..20].copy_from_slice(&0x9026u16.to_le_bytes());
    for _ in 0..200 {
        let mut damaged = file.clone();
        let at = random.below(600) as usize;
        damaged[at] = random.below(256) as u8;
        damaged.truncate(4096 - random.below(4000) as usize);
        fuzz_loader(&damaged);
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        fuzz_loader(&bytes);
        if random.below(8) == 0 {
            fuzz_block(&mut benches, &bytes);
        }
    }
}
