//! Runs the programs of `filetests/run` on every engine: small programs for known faults of
//! emulators and for what a translator may get wrong. Also long runs on a small stack.

use std::fs;
use std::path::Path;
use std::thread;

use axp_emu::cpu::Exit;
use axp_emu::engine::Limit;
use axp_emu::isa::{CpuModel, assemble_block};
use axp_tests::engines::ENGINES;
use axp_tests::filetest::{Program, parse_program};
use axp_tests::source::files_below;
use axp_tests::state::{CODE, DATA, DATA_SIZE, TestMachine};

fn programs() -> Vec<Program> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests/run");
    let files = files_below(&dir, "axp");
    let parsed = files.iter().map(|path| parse_program(path, &fs::read_to_string(path).unwrap()));
    parsed.map(|program| program.unwrap_or_else(|error| panic!("{error}"))).collect()
}

#[test]
fn programs_leave_what_they_should_on_every_engine() {
    let programs = programs();
    assert!(programs.len() > 20, "the programs are not there");
    let mut failures = Vec::new();
    for program in &programs {
        let mut count = None;
        for engine in ENGINES {
            let mut machine = TestMachine::new();
            match program.check(&mut machine, &mut *(engine.make)()) {
                Ok(state) => {
                    // Counted runs of a deterministic program retire the same number everywhere.
                    let expected = *count.get_or_insert(state.count);
                    if state.count != expected {
                        let (name, got) = (&program.name, state.count);
                        failures
                            .push(format!("{name}: {}: {got:?}, not {expected:?}", engine.name));
                    }
                }
                Err(report) => failures.push(report),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Engines must not grow the host's stack with the number of instructions or calls they execute.
#[test]
fn a_hundred_million_instructions_run_on_a_small_stack() {
    const INSTRUCTIONS: u64 = 100_000_000;
    let source = "loop: addq t0, 1, t0\n xor t0, t1, t2\n bsr ra, leaf\n blbs t0, loop\n \
                  s4addq t2, t1, t1\n br zero, loop\n leaf: cmpult t1, t2, t3\n ret (ra)";
    let words = assemble_block(source, CODE).unwrap();
    let mut finals = Vec::new();
    for engine in ENGINES {
        let words = words.clone();
        let make = engine.make;
        let run = move || {
            let mut machine = TestMachine::new();
            machine.load(&words);
            machine.run(&mut *make(), Limit::Count(INSTRUCTIONS))
        };
        let thread = thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
        let state = thread.join().unwrap();
        assert_eq!((state.exit, state.count), (Exit::Limit, Some(INSTRUCTIONS)), "{}", engine.name);
        finals.push((engine.name, state));
    }
    for (name, state) in &finals[1..] {
        assert_eq!(state.diff(&finals[0].1), Vec::<String>::new(), "{name}");
    }
}

/// A loop that copies 32 bytes a round from a0 to a1, which move on by a2 and a3, a4 times: by quadwords, or
/// by what LDQ_U and EXTxx put together of unaligned data. `order` tells in which order the quadwords are
/// stored.
fn copy_loop(unaligned: bool, order: [usize; 4]) -> Vec<u32> {
    let mut source = String::from("loop:\n");
    if unaligned {
        // As compilers do it: all parts first.
        for (i, part) in ["t0", "t2", "t4", "t6"].into_iter().enumerate() {
            let rest = ["t1", "t3", "t5", "t7"][i];
            source += &format!("ldq_u {part}, {}(a0)\n ldq_u {rest}, {}(a0)\n", 8 * i, 8 * i + 7);
        }
        for (i, (part, rest)) in
            [("t0", "t1"), ("t2", "t3"), ("t4", "t5"), ("t6", "t7")].into_iter().enumerate()
        {
            source += &format!(
                "lda s0, {}(a0)\n extql {part}, s0, {part}\n extqh {rest}, s0, {rest}\n \
                 bis {part}, {rest}, {part}\n",
                8 * i
            );
        }
    } else {
        for (i, part) in ["t0", "t2", "t4", "t6"].into_iter().enumerate() {
            source += &format!("ldq {part}, {}(a0)\n", 8 * i);
        }
    }
    for i in order {
        source += &format!("stq {}, {}(a1)\n", ["t0", "t2", "t4", "t6"][i], 8 * i);
    }
    source += "addq a0, a2, a0\n addq a1, a3, a1\n subq a4, 1, a4\n bne a4, loop\n";
    assemble_block(&source, CODE).unwrap()
}

/// Copies by octawords are copies by quadwords to whoever looks: where they overlap, and where they reach
/// memory that is not there, which the right instruction finds after the right stores.
#[test]
fn copies_do_the_same_on_every_engine() {
    let run = |engine: &mut dyn axp_emu::engine::Engine, words: &[u32], registers: [u64; 5]| {
        let mut machine = TestMachine::new();
        machine.observed = false;
        // Where a handler may look at the registers, each access counts by itself.
        machine.precise = false;
        machine.reset(CpuModel::Ev6);
        machine.load(words);
        machine.vcpu.cpu.r[16..21].copy_from_slice(&registers);
        for at in (0..DATA_SIZE).step_by(8) {
            machine.vcpu.mem.store_u64(DATA + at, at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).unwrap();
        }
        let state = machine.run(engine, Limit::None);
        (state.exit, state.pc, state.memory)
    };
    let (start, end) = (DATA + 64, DATA + DATA_SIZE);
    for (unaligned, order) in
        [(false, [0, 1, 2, 3]), (true, [0, 1, 2, 3]), (false, [3, 0, 1, 2]), (true, [2, 3, 0, 1])]
    {
        let words = copy_loop(unaligned, order);
        let mut cases = Vec::new();
        for shift in if unaligned { vec![0, 1, 5, 8, 15, 24, 31] } else { vec![0, 8, 16, 24] } {
            // The source runs off the end, the target does, and neither does.
            cases.push([end - 32 * 400 + shift, start, 32, 0, 1 << 20]);
            cases.push([start + shift, end - 32 * 400 + shift / 8 * 8, 0, 32, 1 << 20]);
            for distance in [8, 16, 24, 40] {
                cases.push([start + shift, start + distance, 8, 8, 300]);
                cases.push([start + 64 + shift, start + 64 - distance, 32, 32, 300]);
            }
        }
        for case in cases {
            let mut expected = None;
            for engine in ENGINES {
                let found = run(&mut *(engine.make)(), &words, case);
                let expected = expected.get_or_insert_with(|| found.clone());
                let what = format!("{}: unaligned {unaligned}, {order:?}, {case:x?}", engine.name);
                assert_eq!((found.0, found.1), (expected.0, expected.1), "{what}");
                assert!(found.2 == expected.2, "{what}: memory differs");
            }
        }
    }
}
