//! `axplab profile` end to end: that what it writes can be read, and that time is found where it was
//! spent. The guest is compiled here; without an Alpha compiler the tests skip by name.

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
        let find =
            |e: fs::DirEntry| Some(e.path()).filter(|p| p.extension() == Some("dump".as_ref()));
        let dump = fs::read_dir(guest.dir.path()).unwrap().find_map(|e| find(e.unwrap())).unwrap();
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
