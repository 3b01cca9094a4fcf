//! Threads of a guest have regions from each other: what one has had compiled the others install.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use common::{COMPILER, has, sysroot, text};

const AXPLAB: &str = env!("CARGO_BIN_EXE_axplab");

fn compile(source: &Path, program: &Path) -> bool {
    let mut command = Command::new(COMPILER);
    command.args(["-w", "-O2", "-mieee", "-o"]).args([program, source]);
    let output = command.args(["-lutil", "-pthread"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    true
}

/// Regions that were compiled, those that came from another thread, and what the guest printed.
fn run(dir: &Path, program: &PathBuf, options: &[&str], args: &[&str]) -> (u64, u64, String) {
    let json = dir.join("stats.json");
    let mut command = Command::new(AXPLAB);
    command.arg("run").args(options).arg("--stats-json").arg(&json).args(["-L", &sysroot()]);
    let output = command.arg(program).args(args).output().unwrap();
    assert!(output.status.success(), "{options:?}: {output:?}");
    let stats: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let tiers = stats["tiers"].as_array().unwrap();
    let regions = tiers.iter().find(|tier| tier["name"] == "opt").unwrap();
    let count = |name: &str| regions[name].as_u64().unwrap();
    (count("translations"), count("shared"), text(&output.stdout).to_owned())
}

#[test]
fn eight_threads_with_the_same_work_compile_it_once() {
    let test = "eight_threads_with_the_same_work_compile_it_once";
    if !has(COMPILER, test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("crew");
    compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/crew.c"), &program);
    for options in [&[][..], &["--jit", "sync"], &["--engine", "opt"]] {
        let (one, none, sum) = run(dir.path(), &program, options, &["1", "20"]);
        let (eight, shared, same) = run(dir.path(), &program, options, &["8", "20"]);
        assert_eq!(sum, same, "{options:?}");
        assert!(one > 0, "{options:?}: {one}, {none}");
        // Some are compiled by two threads at the same time, or chosen differently; without sharing it would
        // be several times as many.
        assert!(
            eight <= 2 * one + 4,
            "{options:?}: {one} regions for one thread, {eight} for eight"
        );
        assert!(shared >= 7, "{options:?}: {shared} were shared of {eight}");
    }
}

#[test]
fn code_that_changes_under_many_threads_is_never_a_stale_one() {
    let test = "code_that_changes_under_many_threads_is_never_a_stale_one";
    if !has(COMPILER, test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("change");
    compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/change.c"), &program);
    for options in [&[][..], &["--jit", "sync,threshold=20"], &["--engine", "opt"]] {
        let (_, shared, printed) = run(dir.path(), &program, options, &[]);
        assert_eq!(printed, "right\n", "{options:?}");
        assert!(shared > 0, "{options:?}");
    }
}
