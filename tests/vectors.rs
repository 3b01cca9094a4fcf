//! Runs `vectors/**.axp`, one instruction per line, on every engine: decoder, disassembler and
//! semantics against the manual's definitions (see `vectors/model`).

use std::fs;
use std::path::Path;

use axp_emu::isa::Opcode;
use axp_tests::engines::{ENGINES, EngineUnderTest};
use axp_tests::filetest::{Vector, parse_vectors};
use axp_tests::source::files_below;
use axp_tests::state::TestMachine;

/// Failures shown per engine; one mistake in the semantics breaks many lines.
const SHOWN: usize = 12;
/// Vectors that each row of the table has at least.
const LEAST: usize = 3;

fn vectors() -> Vec<Vector> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let mut all = Vec::new();
    for path in files_below(&dir, "axp") {
        all.extend(parse_vectors(&path, &fs::read_to_string(&path).unwrap()).unwrap());
    }
    all
}

fn report(what: &str, failures: Vec<String>) {
    if failures.is_empty() {
        return;
    }
    let shown = failures.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n");
    panic!("{what}: {} failures, of them:\n{shown}", failures.len());
}

fn run_on(engine: &EngineUnderTest) {
    let mut machine = TestMachine::new();
    let mut subject = (engine.make)();
    let check = |v: &Vector| v.check(&mut machine, &mut *subject).err();
    report(engine.name, vectors().iter().filter_map(check).collect());
}

#[test]
fn the_disassembly_is_objdumps() {
    report("disassembly", vectors().iter().filter_map(|v| v.check_text().err()).collect());
}

#[test]
fn every_engine_gives_the_manuals_results() {
    for engine in ENGINES {
        run_on(engine);
    }
}

#[test]
fn every_row_of_the_table_has_vectors() {
    let mut counts = vec![0; Opcode::ALL.len()];
    for op in vectors().iter().filter_map(Vector::opcode) {
        counts[op as usize] += 1;
    }
    let poor: Vec<String> = Opcode::ALL
        .iter()
        .filter(|&&op| counts[op as usize] < LEAST)
        .map(|&op| format!("{}: {}", op.info().mnemonic, counts[op as usize]))
        .collect();
    assert!(poor.is_empty(), "rows with fewer than {LEAST} vectors: {}", poor.join(", "));
}
