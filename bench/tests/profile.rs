//! `axplab profile` end to end: that what it writes can be read, and that time is found where it was
//! spent. The Linux guest is compiled here; without an Alpha compiler its tests skip by name.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use common::{COMPILER, has, sysroot};

const AXPLAB: &str = env!("CARGO_BIN_EXE_axplab");

/// Nearly all of its time is spent in one function, which another calls.
const BUSY: &str = r#"
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) unsigned long grind(unsigned long x, int n)
{
    for (int i = 0; i < n; i++)
        x = x * 6364136223846793005ul + (x >> 33);
    return x;
}
__attribute__((noinline)) unsigned long mill(int rounds)
{
    unsigned long x = 1;
    for (int i = 0; i < rounds; i++)
        x += grind(x, 1000000) ^ getppid();
    return x;
}
int main(int argc, char **argv) { return mill(atoi(argv[1])) == 0 ? 1 : 4; }
"#;

struct Guest {
    dir: tempfile::TempDir,
    program: PathBuf,
}

impl Guest {
    fn compile(test: &str) -> Option<Guest> {
        if !has(COMPILER, test) {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("busy.c");
        fs::write(&file, BUSY).unwrap();
        let program = dir.path().join("busy");
        let mut command = Command::new(COMPILER);
        command.args(["-O1", "-o"]).args([&program, &file]);
        assert!(command.status().unwrap().success());
        Some(Guest { dir, program })
    }

    fn profile(&self, options: &[&str], rounds: &str) -> Output {
        let mut command = Command::new(AXPLAB);
        command
            .arg("profile")
            .args(options)
            .args(["-L", &sysroot()])
            .arg(&self.program)
            .arg(rounds);
        command.current_dir(self.dir.path()).stdin(Stdio::null()).output().unwrap()
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join(name)).unwrap()).into_owned()
    }
}

#[test]
fn time_is_found_where_it_was_spent_and_other_tools_can_read_it() {
    let test = "time_is_found_where_it_was_spent_and_other_tools_can_read_it";
    let Some(guest) = Guest::compile(test) else { return };
    for engine in ["auto", "baseline", "interp"] {
        let options = [
            "--engine",
            engine,
            "-o",
            "report",
            "--flame-graph",
            "flame.svg",
            "--firefox",
            "profile.json",
            "--jitdump",
            ".",
            "--perf-map",
        ];
        let output = guest.profile(&options, "150");
        assert_eq!(output.status.code(), Some(4), "{engine}: {output:?}");
        let report = guest.read("report");
        // The first row of the first table, by time.
        let row = report.lines().skip_while(|l| !l.contains("self %")).nth(1).unwrap();
        assert!(row.contains("grind"), "{engine}: {report}");
        let share: f64 = row.split_whitespace().next().unwrap().parse().unwrap();
        assert!(share > 50.0, "{engine}: {report}");
        for say in ["system call", "mulq", "(all)"] {
            assert!(report.contains(say), "{engine}: {say:?} not in {report}");
        }
        // Guest and host code side by side.
        assert_eq!(report.contains(" imul "), engine != "interp", "{engine}: {report}");
        let flame = guest.read("flame.svg");
        assert!(flame.starts_with("<?xml") && flame.contains("mill") && flame.contains("grind"));
        let profile: serde_json::Value = serde_json::from_str(&guest.read("profile.json")).unwrap();
        let samples = profile["threads"][0]["samples"]["length"].as_u64();
        assert!(samples > Some(0), "{engine}");
        let says = String::from_utf8_lossy(&output.stderr).into_owned();
        let map = PathBuf::from(says.trim().rsplit(' ').next().unwrap());
        let names = fs::read_to_string(&map).unwrap();
        fs::remove_file(&map).unwrap();
        assert_eq!(names.contains("grind"), engine != "interp", "{engine}: {names}");
        let dump = dump(guest.dir.path());
        let bytes = fs::read(&dump).unwrap();
        fs::remove_file(&dump).unwrap();
        assert_eq!(bytes[..4], 0x4a69_5444u32.to_le_bytes());
        // Records follow each other to the end of the file.
        let mut at = 40;
        while at < bytes.len() {
            at += u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        }
        assert_eq!(at, bytes.len());
    }
}

#[test]
fn what_cannot_be_done_is_one_clear_line() {
    let Some(guest) = Guest::compile("what_cannot_be_done_is_one_clear_line") else { return };
    for (options, say) in [
        (&["--flame-graph", "/nonexistent/flame.svg"][..], "/nonexistent/flame.svg"),
        (&["--jitdump", "/nonexistent"], "/nonexistent"),
        (&["-o", "/nonexistent/report"], "/nonexistent/report"),
        (&["--hz", "0"], "--hz"),
        (&["--engine", "warp"], "warp"),
    ] {
        let output = guest.profile(options, "1");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(say) && error.lines().count() == 1, "{error}");
    }
    // Over before the first sample: an empty profile is one all the same.
    let output = guest.profile(&["--flame-graph", "f.svg", "--firefox", "f.json", "-o", "r"], "0");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    serde_json::from_str::<serde_json::Value>(&guest.read("f.json")).unwrap();
}

/// A procedure that calls the kernel by F$GETSYI; its lines come from executive mode.
const LOOP: &str = "$ i = 0\n$ loop:\n$ i = i + 1\n$ x = f$getsyi(\"VERSION\")\n\
    $ if i .lt. 40000 then goto loop\n$ write sys$output \"rounds \", i\n$ exit 4\n";

/// Stacks of a profile for the Firefox Profiler, outermost frames first.
fn stacks(profile: &serde_json::Value) -> Vec<Vec<String>> {
    let thread = &profile["threads"][0];
    let index = |value: &serde_json::Value| value.as_u64().map(|i| i as usize);
    let at = |table: &str, column: &str, i: usize| &thread[table][column][i];
    let strings = [&profile["shared"]["stringArray"], &thread["stringArray"]];
    let strings = strings.into_iter().find(|s| s.is_array()).unwrap();
    let mut all = Vec::new();
    for sample in thread["samples"]["stack"].as_array().unwrap() {
        let (mut names, mut next) = (Vec::new(), index(sample));
        while let Some(stack) = next {
            let frame = index(at("stackTable", "frame", stack)).unwrap();
            let function = index(at("frameTable", "func", frame)).unwrap();
            let name = index(at("funcTable", "name", function)).unwrap();
            names.insert(0, strings[name].as_str().unwrap().to_owned());
            next = index(at("stackTable", "prefix", stack));
        }
        all.push(names);
    }
    all
}

#[test]
fn time_on_the_machine_is_found_by_function_and_access_mode() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("loop.com"), LOOP).unwrap();
    let read = |name| fs::read_to_string(dir.path().join(name)).unwrap();
    for engine in ["auto", "interp"] {
        let output = Command::new(AXPLAB)
            .args(["profile", "--engine", engine, "-o", "report", "--flame-graph", "flame.svg"])
            .args(["--firefox", "profile.json", "--jitdump", ".", "--top", "100", "loop.com"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{engine}: {output:?}");
        assert_eq!(output.stdout, b"rounds 40000\n", "{engine}");
        let (report, flame) = (read("report"), read("flame.svg"));
        let modes = report.lines().nth(1).unwrap();
        let shares: Vec<f64> = modes.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert_eq!(shares.len(), 6, "{engine}: {modes}");
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 1.0, "{engine}: {modes}");
        assert!(shares[2] > 40.0 && shares[3] == 0.0, "{engine}: {modes}");
        // Functions of the interpreter and of what it calls, each in its mode and no other.
        let table: Vec<Vec<&str>> = report
            .lines()
            .skip_while(|line| !line.contains("self %"))
            .take_while(|line| !line.is_empty())
            .map(|line| line.split_whitespace().rev().take(3).collect())
            .collect();
        for (function, mode) in
            [("command", "supervisor"), ("execute", "supervisor"), ("rms_get", "executive")]
        {
            let rows = table.iter().filter(|row| row.get(1) == Some(&function));
            let found: Vec<&str> = rows.map(|row| row[2]).collect();
            assert_eq!(found, [mode], "{engine}: {function} in {report}");
            let frame = format!("{function}_[{mode}]");
            assert!(flame.contains(&frame), "{engine}: {frame}");
        }
        assert!(table.iter().any(|row| row[2] == "kernel"), "{engine}: {report}");
        for say in ["PALcode", "chmk", "rei", "[supervisor]"] {
            assert!(report.contains(say), "{engine}: {say:?} not in {report}");
        }
        // A tick asks for one poll, and no more.
        let first = |line: &str| line.split_whitespace().next().unwrap().parse::<u64>().unwrap();
        let (samples, polls) =
            (report.lines().next(), report.lines().find(|l| l.contains("poll (")));
        assert!(polls.map_or(0, first) <= samples.map_or(0, first) + 10, "{engine}: {report}");
        // Stacks lead through the modes out to where the interpreter was started.
        let profile = serde_json::from_str(&read("profile.json")).unwrap();
        let stacks = stacks(&profile);
        let whole = stacks.iter().filter(|s| s[0] == "dcl_entry [supervisor]").count();
        assert!(10 * whole >= 9 * stacks.len(), "{engine}: {whole} of {}", stacks.len());
        let crosses = |s: &&Vec<String>| s.last().is_some_and(|f| f == "rms_get [executive]");
        let crossing = stacks.iter().find(crosses).unwrap();
        assert!(crossing.contains(&"dcl_main [supervisor]".to_owned()), "{engine}: {crossing:?}");
        let names = String::from_utf8_lossy(&fs::read(dump(dir.path())).unwrap()).into_owned();
        assert_eq!(names.contains(", supervisor]"), engine != "interp", "{engine}");
        fs::remove_file(dump(dir.path())).unwrap();
    }
}

/// The jitdump in a folder.
fn dump(dir: &std::path::Path) -> PathBuf {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.into_iter().find(|path| path.extension() == Some("dump".as_ref())).unwrap()
}

#[test]
fn programs_of_the_executive_are_profiled_and_wrong_calls_told() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(AXPLAB)
            .arg("profile")
            .args(args)
            .current_dir(dir.path())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for probe in ["walk", "inline"] {
        let (status, report) =
            run(&["--probe", probe, "--iterations", "1000000", "--blocks", "50", "getsyi"]);
        assert_eq!(status, Some(0), "{report}");
        for (function, mode) in [("user_main", "user"), ("get_items", "kernel")] {
            let row = report.lines().find(|line| line.contains(function) && line.contains(".elf"));
            assert!(row.is_some_and(|row| row.contains(mode)), "{probe}: {function} in {report}");
        }
        assert!(report.contains("call_pal chmk") && !report.contains("callsys"), "{report}");
    }
    for (args, say) in [
        (&["missing.com"][..], "cannot read `missing.com`"),
        (&["getsyi", "--probe", "walk"], "stand before it"),
        (&["--probe", "guess", "getsyi"], "guess"),
        (&["nothing"], "`nothing` does not exist"),
    ] {
        let (status, error) = run(args);
        assert_eq!(status, Some(2), "{error}");
        assert!(error.contains(say) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn a_program_of_ones_own_on_the_machine_is_profiled() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("loop.s");
    let text = "lda r11, 0(r31)\n ldah r12, 8000(r31)\nagain: addq r11, 1, r11\n subq r12, 1, r12\n \
                bgt r12, again\n lda r16, 2(r31)\n lda r17, 0(r31)\n call_pal 0x09\n";
    fs::write(&program, text).unwrap();
    for command in [&["profile", "machine"][..], &["modes", "machine", "--"]] {
        let mut axplab = Command::new(AXPLAB);
        let out = axplab.args(command).arg(&program).stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(0), "{told}");
        if command[0] == "profile" {
            // The loop, by its address, in its mode.
            assert!(told.contains("  10008  0x10008 [kernel]"), "{told}");
            assert!(told.contains("cserve"), "{told}");
        } else {
            for name in ["Kernel Mode", "Supervisor Mode", "Idle Time"] {
                assert!(told.lines().any(|line| line.starts_with(name)), "{told}");
            }
        }
    }
    for more in [&["--deterministic"][..], &["--processors", "x"]] {
        let mut axplab = Command::new(AXPLAB);
        let axplab = axplab.args(["profile", "machine"]).arg(&program).args(more);
        let out = axplab.stdin(Stdio::null()).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{out:?}");
    }
}
