//! The lab end to end, through its command line: stand-in engines with known figures, wrong results, bad input, interruption.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use common::{Folder, has, text};

/// Adds an engine that claims `rate` units of work per second and gives the right result.
fn right(bench: &Folder, name: &str, row: &str, rate: u64) {
    bench.scripted(name, &answer(rate, &bench.checksum(row)));
}

/// A script whose clock shows a hundredth of a second for each repetition.
fn answer(rate: u64, checksum: &str) -> String {
    format!(
        "ms=$(($2 * 10))\n\
         printf 'AXPLAB1 row=%s size=%s reps=%s work=%s unit=x seconds=%d.%03d checksum={checksum}\\n' \
         $1 $3 $2 $(($2 * {rate} / 100)) $((ms / 1000)) $((ms % 1000))\n"
    )
}

const ROW: &str = "numeric-sort";

#[test]
fn figures_are_work_by_time_and_the_record_has_its_form() {
    let bench = Folder::new();
    right(&bench, "slow", ROW, 200);
    right(&bench, "fast", ROW, 800);
    let args = ["bench", ROW, "--engines", "slow,fast", "--samples", "5", "--json", "r.json"];
    let output = bench.run(&args);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(bench.left(), ["r.json"]);
    let table = text(&output.stdout);
    assert!(table.contains("200.0 ±0.0%") && table.contains("800.0 ±0.0%"), "{table}");

    let record = bench.record("r.json");
    assert_eq!(record["schema"], "axplab-record/1");
    for field in ["host", "axplab", "rows", "indices", "warnings"] {
        assert!(!record[field].is_null(), "{field}");
    }
    let row = &record["rows"][0];
    for field in ["suite", "row", "params", "unit", "better", "work", "comparable_to_published"] {
        assert!(!row[field].is_null(), "{field}");
    }
    assert_eq!(
        (&row["row"], &row["better"], &row["work"]),
        (&ROW.into(), &"higher".into(), &2.0.into())
    );
    let slow = &row["results"][0];
    let fields = slow.as_object().unwrap();
    for field in [
        "engine",
        "median",
        "min",
        "max",
        "samples",
        "order",
        "verified",
        "guest_instructions",
        "seconds",
        "cpu_user",
        "cpu_sys",
        "max_rss",
        "phases",
        "metrics",
        "artifact_sha256",
        "compiler",
        "error",
    ] {
        assert!(fields.contains_key(field), "{field}");
    }
    assert_eq!((&slow["engine"], &slow["median"]), (&"slow".into(), &200.0.into()));
    assert_eq!(slow["verified"], true);
    assert_eq!(slow["error"], Value::Null);
    // Engine after engine, round after round, another one first in each.
    assert_eq!(slow["order"], serde_json::json!([0, 3, 4, 7, 8]));
    assert_eq!(row["results"][1]["order"], serde_json::json!([1, 2, 5, 6, 9]));
    assert_eq!(slow["metrics"]["wall"]["samples"].as_array().unwrap().len(), 5);
}

#[test]
fn what_an_engine_tells_of_itself_is_in_the_record() {
    let bench = Folder::new();
    let script = format!(
        "echo '{{\"instructions\":5,\"engine\":\"x\",\"phases\":{{\"load\":0.25,\"execute\":2}},\"code_bytes\":64}}' >\"$1\"\n\
         shift\n{}",
        answer(200, &bench.checksum(ROW))
    );
    fs::write(bench.path("tells.sh"), script).unwrap();
    let run = format!("sh '{}' {{stats}} {{args}}", bench.path("tells.sh").display());
    fs::write(bench.path("config.toml"), format!("engine.tells.run = \"{run}\"")).unwrap();
    let output = bench.run(&["bench", ROW, "-e", "tells", "-n", "2", "--json", "r.json"]);
    assert!(output.status.success(), "{output:?}");
    let result = &bench.record("r.json")["rows"][0]["results"][0];
    assert_eq!(result["guest_instructions"], 5);
    assert_eq!(result["phases"], serde_json::json!({"load": 0.25, "execute": 2.0}));
    assert_eq!(result["metrics"]["code_bytes"]["samples"], serde_json::json!([64.0, 64.0]));
    assert_eq!(bench.left(), ["r.json"]);
}

#[test]
fn a_wrong_result_is_an_error_and_status_1_but_spoils_nothing_else() {
    let bench = Folder::new();
    right(&bench, "good", ROW, 200);
    bench.scripted("wrong", &answer(300, "0123456789abcdef"));
    bench.scripted("crash", "kill -SEGV $$");
    bench.scripted("fails", "echo 'no disk' >&2; exit 7");
    bench.scripted("hangs", "sleep 100");
    bench.scripted("silent", "true");
    let engines = "good,wrong,crash,fails,hangs,silent";
    let args = ["bench", ROW, "-e", engines, "-n", "2", "--timeout", "1", "--json", "r.json"];
    let output = bench.run(&args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let table = text(&output.stdout);
    assert!(table.contains("200.0 ±0.0%") && !table.contains("300"), "{table}");
    let record = bench.record("r.json");
    let results = record["rows"][0]["results"].as_array().unwrap();
    assert_eq!(results[0]["median"], 200.0);
    let said =
        ["checksum 0123456789abcdef", "SIGSEGV", "7: no disk", "after 1 s", "no result line"];
    for (result, say) in results[1..].iter().zip(said) {
        assert_eq!((&result["median"], &result["samples"]), (&Value::Null, &serde_json::json!([])));
        assert_eq!(result["verified"], false);
        let error = result["error"].as_str().unwrap();
        assert!(error.contains(say), "{error}");
        assert!(table.contains(error), "{table}");
    }
    assert_eq!(bench.left(), ["r.json"]);
}

#[test]
fn an_engine_that_hangs_on_every_row_is_left_out_after_some() {
    let bench = Folder::new();
    bench.scripted("hangs", "sleep 100");
    let rows = [ROW, "idea", "huffman", "bitfield", "assignment"];
    let call = ["-e", "hangs", "--timeout", "0.1", "--json", "r.json"];
    let output = bench.command(&["bench"]).args(rows).args(call).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let record = bench.record("r.json");
    let errors: Vec<&str> = record["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["results"][0]["error"].as_str().unwrap())
        .collect();
    assert!(errors[..3].iter().all(|error| error.contains("after 0.1 s")), "{errors:?}");
    assert!(errors[3..].iter().all(|error| error.contains("in 3 rows before")), "{errors:?}");
}

#[test]
fn what_the_user_must_correct_is_one_line_and_status_2_and_leaves_no_file() {
    let bench = Folder::new();
    right(&bench, "good", ROW, 200);
    fs::create_dir(bench.path("out/folder")).unwrap();
    fs::write(bench.path("bad.toml"), "[engine.x]\nrun = 'x'\n").unwrap();
    fs::write(bench.path("x86.elf"), fs::read(env!("CARGO_BIN_EXE_axplab")).unwrap()).unwrap();
    fs::write(bench.path("empty"), "").unwrap();
    let path = |name: &str| bench.path(name).display().to_string();
    let (bad, x86, empty, none) = (path("bad.toml"), path("x86.elf"), path("empty"), path("none"));
    let calls: &[(&[&str], &[&str])] = &[
        (&["bench", "no-such-row"], &["`no-such-row`", "axplab list"]),
        (&["bench", "md5"], &["`md5`", "md5-8192"]),
        (&["bench", "--engines", "warp"], &["`warp`", "qemu-alpha"]),
        (&["bench", "--cpu", "ev8"], &["`ev8`", "ev67"]),
        (&["bench", ROW, "-e", "good", "--json", "/no/such/r.json"], &["`/no/such/r.json`"]),
        (&["bench", ROW, "-e", "good", "--json", "folder"], &["`folder`", "directory"]),
        (&["bench", ROW, "-e", "good", "--json", "/dev/full"], &["`/dev/full`"]),
        (&["bench", ROW, "-e", "good", "--json", ""], &["--json <FILE>"]),
        (&["bench", "--samples", "0"], &["'0'", "--samples <N>", "1..=1000"]),
        (&["bench", "--sample-time", "nan"], &["'nan'", "number of seconds"]),
        (&["bench", "--jsn", "x"], &["--jsn", "--json"]),
        (&["bencg"], &["bencg", "bench"]),
        (&["run"], &["<PROG>"]),
        (&["bench", "--config", &bad], &["bad.toml", "`x`", "{args}"]),
        (&["bench", "--config", &none], &[&none]),
        (&["run", "--engine", "warp", "x"], &["`warp`", "interp"]),
        (&["run", "--cpu", "vax", "x"], &["`vax`", "ev56"]),
        (&["run", "no-such-program"], &["`no-such-program`"]),
        (&["run", "folder"], &["`folder`", "directory"]),
        (&["run", "-L", "no-such-root", &x86], &["`no-such-root`"]),
        (&["disasm", "no-such-file"], &["`no-such-file`"]),
        (&["disasm", "folder"], &["`folder`"]),
        (&["disasm", &x86], &["x86.elf", "another architecture"]),
        (&["disasm", &empty], &["empty", "no 64-bit"]),
    ];
    for (args, says) in calls {
        let output = bench.run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert_eq!(output.stdout, b"", "{args:?}");
        assert!(error.starts_with("axplab: ") && error.lines().count() == 1, "{args:?}: {error}");
        for say in *says {
            assert!(error.contains(say), "{args:?}: {error}");
        }
        assert_eq!(bench.left(), ["folder"], "{args:?}");
    }
}

#[test]
fn a_bad_path_is_found_before_anything_is_measured() {
    let bench = Folder::new();
    bench.scripted("marks", &format!("touch '{}'", bench.path("measured").display()));
    bench.run(&["bench", ROW, "-e", "marks", "--json", "/no/such/r.json"]);
    assert!(!bench.path("measured").exists());
}

#[test]
fn an_engine_that_is_missing_keeps_its_column_with_a_warning() {
    let bench = Folder::new();
    right(&bench, "good", ROW, 200);
    let config = bench.path("config.toml");
    let text_before = fs::read_to_string(&config).unwrap();
    let more =
        "[engine.absent]\nrun = 'no-such-emulator {elf} {args}'\ninstall = 'ask its maker'\n";
    fs::write(&config, text_before + more).unwrap();
    let output = bench.run(&["bench", ROW, "-e", "good,absent", "-n", "2"]);
    assert!(output.status.success(), "{output:?}");
    let table = text(&output.stdout);
    assert!(table.contains("absent") && table.contains("missing"), "{table}");
    assert!(table.contains("`no-such-emulator` is not on PATH; ask its maker"), "{table}");
    let output = bench.run(&["bench", ROW, "-e", "absent"]);
    assert_eq!(output.status.code(), Some(2), "nothing to measure: {output:?}");
    assert!(text(&bench.run(&["list"]).stdout).contains("no: `no-such-emulator`"));
}

#[test]
fn an_interrupted_run_keeps_what_it_measured_and_ends_its_children() {
    let bench = Folder::new();
    right(&bench, "good", ROW, 200);
    // Calibrates quickly, then sleeps in its second sample, telling its process id.
    let (pid, count) = (bench.path("pid"), bench.path("count"));
    let (pid_file, count_file) = (pid.display(), count.display());
    let script = format!(
        "echo x >> '{count_file}'\n\
         if [ $(wc -l < '{count_file}') -ge 4 ]; then echo $$ > '{pid_file}'; sleep 1000; fi\n{}",
        answer(400, &bench.checksum(ROW))
    );
    bench.scripted("sleeps", &script);
    let args = ["bench", ROW, "-e", "good,sleeps", "-n", "9", "--json", "r.json"];
    let child = bench.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while !fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n')) {
        assert!(start.elapsed() < Duration::from_secs(60), "the engine never came to sleep");
        std::thread::sleep(Duration::from_millis(10));
    }
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(text(&output.stderr).contains("interrupted"), "{output:?}");
    assert_eq!(bench.left(), ["r.json"]);
    let record = bench.record("r.json");
    let results = record["rows"][0]["results"].as_array().unwrap();
    assert_eq!((&results[0]["median"], &results[1]["median"]), (&200.0.into(), &400.0.into()));
    assert!(record["warnings"].as_array().unwrap().iter().any(|w| w["kind"] == "interrupted"));
    let sleeper = fs::read_to_string(&pid).unwrap();
    assert!(!Path::new("/proc").join(sleeper.trim()).exists(), "the engine's process is left");
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let bench = Folder::new();
    let mut child = bench.command(&["list"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(0), None));
}

#[test]
fn the_record_and_markdown_go_to_standard_output_on_request() {
    let bench = Folder::new();
    right(&bench, "good", ROW, 200);
    let output = bench.run(&["bench", ROW, "-e", "good", "-n", "2", "--json", "-"]);
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["rows"][0]["results"][0]["median"], 200.0);
    let output = bench.run(&["bench", ROW, "-e", "good", "-n", "2", "--format", "markdown"]);
    assert!(text(&output.stdout).contains("| numeric-sort | iterations/s | 200.0 ±0.0% |"));
    assert_eq!(bench.left(), [""; 0]);
}

#[test]
fn real_kernels_agree_natively_and_under_qemu() {
    let bench = Folder::new();
    let args =
        ["bench", ROW, "call-recursive", "-n", "2", "--sample-time", "0.02", "--json", "r.json"];
    let mut engines = "native,native-o3".to_owned();
    if !has("cc", "the native column of real_kernels_agree_natively_and_under_qemu") {
        return;
    }
    if has("qemu-alpha", "the qemu column of real_kernels_agree_natively_and_under_qemu") {
        engines += ",qemu-alpha";
    }
    let output = bench.command(&args).args(["--engines", &engines]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let record = bench.record("r.json");
    for row in record["rows"].as_array().unwrap() {
        for result in row["results"].as_array().unwrap() {
            assert!(result["median"].as_f64().unwrap() > 0.0 && result["verified"] == true);
            assert_eq!(result["artifact_sha256"].as_str().unwrap().len(), 64);
        }
    }
}

#[test]
fn the_disassembly_of_every_guest_program_is_objdumps() {
    if !has("alpha-linux-gnu-objdump", "the_disassembly_of_every_guest_program_is_objdumps") {
        return;
    }
    let bench = Folder::new();
    for (program, elf) in axp_guests::Catalogue::builtin()
        .programs
        .iter()
        .flat_map(|program| program.elf.iter().map(move |elf| (program, elf)))
    {
        let file = bench.path(&elf.file);
        fs::write(&file, program.elf_bytes(elf.cpu).unwrap()).unwrap();
        let path = file.to_str().unwrap();
        let theirs = Command::new("alpha-linux-gnu-objdump").args(["-d", path]).output().unwrap();
        let ours = bench.run(&["disasm", path]);
        assert!(ours.status.success() && theirs.status.success());
        let lines = text(&ours.stdout).lines().zip(text(&theirs.stdout).lines());
        for (ours, theirs) in lines {
            assert_eq!(ours, theirs, "{}", elf.file);
        }
        assert_eq!(ours.stdout.len(), theirs.stdout.len(), "{}", elf.file);
    }
}
