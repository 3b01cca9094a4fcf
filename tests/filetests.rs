//! Runs the programs of `filetests/run` on every engine: small programs for known faults of
//! emulators and for what a translator may get wrong. Also long runs on a small stack.

use std::fs;
use std::path::Path;
use std::thread;

use axp_emu::cpu::Exit;
use axp_emu::engine::Limit;
use axp_emu::isa::assemble_block;
use axp_tests::engines::ENGINES;
use axp_tests::filetest::{Program, parse_program};
use axp_tests::source::files_below;
use axp_tests::state::{CODE, TestMachine};

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
