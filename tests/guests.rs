//! The lab's guest programs on every engine: each build of each row, at its quick size, gives the
//! checksum that the catalogue records; the hosted C programs give what qemu-alpha and the native
//! build give, byte for byte.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use axp_guests::{Catalogue, ResultLine, Row};
use axp_tests::engines::PROGRAM_RUNS;
use axp_tests::guests_build::{self, CrossCompiler, cross_compiler};
use axp_tests::process::{self, DEADLINE};

const RUNNER: &str = env!("CARGO_BIN_EXE_run-guest");

/// Command lines that run a program, one for each engine.
fn engines() -> Vec<Vec<&'static str>> {
    PROGRAM_RUNS.iter().map(|options| [&[RUNNER], *options].concat()).collect()
}

/// Whether qemu-alpha is here; where tools are required, it has to be.
fn oracle(test: &str) -> Option<Vec<&'static str>> {
    if Command::new("qemu-alpha").arg("--version").output().is_ok() {
        return Some(vec!["qemu-alpha"]);
    }
    skip(test, "no qemu-alpha");
    None
}

/// Runs a row once and says what is wrong with the outcome.
fn check(engine: &[&str], elf: &Path, row: &Row, scratch: &Path) -> Option<String> {
    let size = row.quick_size.to_string();
    let mut command = Command::new(engine[0]);
    command.args(&engine[1..]).arg(elf).args([row.name.as_str(), "1", &size]);
    command.current_dir(scratch);
    let title = format!("{} {} {engine:?}", elf.file_name()?.display(), row.name);
    let Some(output) = process::output(&mut command, b"", DEADLINE) else {
        return Some(format!("{title}: has not ended after {DEADLINE:?}"));
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Some(format!("{title}: {}\n{text}{errors}", output.status));
    }
    match ResultLine::parse(&text) {
        Err(error) => Some(format!("{title}: {error}")),
        Ok(line) if line.checksum != row.quick_checksum => {
            Some(format!("{title}: checksum {}, not {}", line.checksum, row.quick_checksum))
        }
        Ok(line) if (line.size, line.reps) != (row.quick_size, 1) => {
            Some(format!("{title}: {line:?}"))
        }
        Ok(_) => None,
    }
}

#[test]
fn every_row_gives_its_result_on_every_engine() {
    let folder = tempfile::tempdir().unwrap();
    let mut builds = Vec::new();
    for program in &Catalogue::builtin().programs {
        for elf in &program.elf {
            let path = folder.path().join(&elf.file);
            fs::write(&path, program.elf_bytes(elf.cpu).unwrap()).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            builds.extend(program.rows.iter().map(|row| (path.clone(), row)));
        }
    }
    let oracle = oracle("every_row_gives_its_result_on_every_engine");
    let engines: Vec<_> = engines().into_iter().chain(oracle).collect();
    // Rows that make files take them away again, on every engine.
    let run = |engine: &[&str]| -> Vec<String> {
        let scratch = tempfile::tempdir().unwrap();
        let wrong = builds.iter().filter_map(|(elf, row)| check(engine, elf, row, scratch.path()));
        let mut wrong: Vec<String> = wrong.collect();
        let left = fs::read_dir(scratch.path()).unwrap();
        wrong.extend(left.map(|file| format!("{engine:?} left {:?}", file.unwrap().path())));
        wrong
    };
    let failures: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = engines.iter().map(|engine| scope.spawn(|| run(engine))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn hosted_programs_give_what_qemu_and_the_host_give() {
    let test = "hosted_programs_give_what_qemu_and_the_host_give";
    let catalogue = Catalogue::builtin();
    if cross_compiler(catalogue).unwrap() == CrossCompiler::Missing {
        return skip(test, "no Alpha compiler");
    }
    let Some(oracle) = oracle(test) else { return };
    let root = std::env::var("AXPLAB_SYSROOT").unwrap_or("/usr/alpha-linux-gnu".to_owned());
    let folder = tempfile::tempdir().unwrap();
    for name in ["hello", "userland"] {
        let program = folder.path().join(name);
        guests_build::compile_hosted(catalogue, name, &[], &program).unwrap();
        let native = folder.path().join(format!("{name}.native"));
        let source = guests_build::folder().join(format!("c/{name}.c"));
        let built = Command::new("cc")
            .args(["-O2", "-std=gnu17", "-ffp-contract=off", "-o"])
            .args([&native, &source])
            .arg("-lm")
            .status();
        assert!(built.unwrap().success());
        let run = |mut command: Command| {
            let dir = tempfile::tempdir().unwrap();
            command.args(["one", "two"]).env("AXPLAB_TEST", "yes").current_dir(dir.path());
            let output = process::output(&mut command, b"", DEADLINE);
            let output = output.unwrap_or_else(|| panic!("{command:?} does not end"));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            (text, output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let expected = run(Command::new(&native));
        for engine in engines().into_iter().chain([oracle.clone()]) {
            let mut command = Command::new(engine[0]);
            command.args(&engine[1..]).args(["-L", &root]).arg(&program);
            let got = run(command);
            assert_eq!((&got.0, got.1), (&expected.0, expected.1), "{name} {engine:?}: {}", got.2);
        }
    }
}

/// Says past the test harness, which would swallow the output of a test that passes, that a test
/// has been skipped; where tools are required, that is a failure.
fn skip(test: &str, why: &str) {
    let required = std::env::var_os("AXPLAB_REQUIRE_TOOLS").is_some_and(|v| v == "1");
    assert!(!required, "{test}: {why}");
    let _ = writeln!(std::io::stderr(), "skipped: {test} ({why})");
}

/// The committed ELF files are what their sources give, byte for byte.
#[test]
fn the_committed_programs_can_be_rebuilt() {
    let why = match cross_compiler(Catalogue::builtin()).unwrap() {
        CrossCompiler::Recorded => {
            guests_build::guests(true).unwrap();
            return;
        }
        // The hashes hold for the recorded version only.
        CrossCompiler::Other { recorded, found } => format!("{found} is not {recorded}"),
        CrossCompiler::Missing => "no Alpha compiler".to_string(),
    };
    skip("the_committed_programs_can_be_rebuilt", &why);
}
