//! `bench --resume`, `--program` and `import` through the command line, with stand-in commands; rows that make files leave none.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use common::{Folder, text};

/// What a kernel would print, from the arguments ROW REPS SIZE; appends its row to `log`.
fn kernel(log: &Path, checksums: &[(&str, String)]) -> String {
    let cases: String = checksums.iter().map(|(row, sum)| format!("{row}) sum={sum};; ")).collect();
    format!(
        "#!/bin/sh\necho $1 >> '{}'\ncase $1 in {cases}esac\n\
         printf 'AXPLAB1 row=%s size=%s reps=%s work=%s unit=x seconds=%d.00 checksum=%s\\n' $1 $3 $2 $2 $2 $sum\n",
        log.display()
    )
}

fn row_names(record: &Value) -> Vec<&str> {
    record["rows"].as_array().unwrap().iter().map(|row| row["row"].as_str().unwrap()).collect()
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    let bench = Folder::new();
    let log = bench.path("log");
    let sums = ["numeric-sort", "idea", "huffman"].map(|row| (row, bench.checksum(row)));
    let answer = kernel(&log, &sums);
    // Sleeps in the second of three rows, the first time.
    let gate = bench.path("gate");
    let sleep =
        format!("[ $1 = idea ] && [ ! -e '{0}' ] && touch '{0}' && sleep 1000\n", gate.display());
    let script =
        bench.script("k.sh", &answer.replace("#!/bin/sh\n", &format!("#!/bin/sh\n{sleep}")));
    bench.engine("ds10", &format!("{} {{args}}", script.display()));
    let args = ["bench", "numeric-sort", "idea", "huffman", "-e", "ds10", "-n", "2"];
    let child = bench
        .command(&[&args[..], &["--json", "r.json"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !gate.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "the second row never came");
        std::thread::sleep(Duration::from_millis(10));
    }
    // What is measured is on the disk already, not only after the interruption.
    assert_eq!(row_names(&bench.record("r.json")), ["numeric-sort"]);
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    fs::write(&log, "").unwrap();

    let output = bench.run(&[&args[..], &["--resume", "r.json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record = bench.record("r.json");
    assert_eq!(row_names(&record), ["numeric-sort", "idea", "huffman"]);
    let again = fs::read_to_string(&log).unwrap();
    assert!(!again.contains("numeric-sort") && again.contains("idea"), "{again}");
    let warned =
        |kind: &str| record["warnings"].as_array().unwrap().iter().any(|w| w["kind"] == kind);
    assert!(!warned("interrupted") && !warned("unfinished"));

    // Other samples make another measurement.
    fs::write(&log, "").unwrap();
    let other = [&args[..6], &["-n", "3", "--resume", "r.json"]].concat();
    assert!(bench.run(&other).status.success());
    assert!(fs::read_to_string(&log).unwrap().contains("numeric-sort"));
    bench.left();
}

#[test]
fn a_record_that_cannot_be_gone_on_with_is_named_and_kept() {
    let bench = Folder::new();
    bench.engine("x", "true {args}");
    let path = bench.path("out").join("r.json");
    for (content, say) in [
        ("{", "cannot go on with `r.json`"),
        (r#"{"schema":"axplab-record/9","host":{},"axplab":{},"rows":[]}"#, "axplab-record/9"),
        (r#"{"schema":"axplab-record/1","host":{},"axplab":{},"rows":[]}"#, "another machine"),
    ] {
        fs::write(&path, content).unwrap();
        let output = bench.run(&["bench", "idea", "-e", "x", "--resume", "r.json"]);
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
        assert!(error.contains(say), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn a_program_of_the_users_own_stands_in_the_table() {
    let bench = Folder::new();
    let guest = bench.script("mine.alpha", "#!/bin/sh\nsleep 0.05; echo \"$@\"; exit 3\n");
    let twin = bench.script("mine", "#!/bin/sh\necho \"$@\"; exit 3\n");
    bench.engine("ds10", "{elf} {args}");
    bench.engine("wrong", "{elf} {args} more");
    let (guest, twin) = (guest.to_str().unwrap(), twin.to_str().unwrap());
    let args = ["bench", "--program", guest, "--native-twin", twin, "-n", "3", "--json", "r.json"];
    let output = bench.run(&[&args[..], &["-e", "native,ds10", "--", "-x", "two words"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let record = bench.record("r.json");
    let row = &record["rows"][0];
    assert_eq!(
        (&row["row"], &row["suite"], &row["unit"]),
        (&"mine.alpha".into(), &"program".into(), &"s".into())
    );
    assert_eq!(row["params"]["args"], serde_json::json!(["-x", "two words"]));
    let median = |at: usize| row["results"][at]["median"].as_f64().unwrap();
    assert!(median(1) >= 0.05 && median(0) > 0.0);

    let output = bench.run(&[&args[..], &["-e", "native,wrong", "--", "a"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let error = bench.record("r.json")["rows"][0]["results"][1]["error"].to_string();
    assert!(error.contains("wrong result") && error.contains("native has"), "{error}");

    for (args, say) in [
        (&["bench", "--program", "/nonexistent/x"][..], "/nonexistent/x"),
        (&["bench", "--native-twin", "/bin/true"], "--program ELF"),
        (&["bench", "--all", "idea"], "--all"),
    ] {
        let output = bench.run(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(say), "{}", text(&output.stderr));
    }
    bench.left();
}

#[test]
fn lines_from_elsewhere_become_a_record() {
    let bench = Folder::new();
    let sum = bench.checksum("idea");
    let line = |seconds: &str, sum: &str| {
        format!(
            "ds10$ AXPLAB1 row=idea size=4000 reps=2 work=2 unit=iterations seconds={seconds} checksum={sum}\r\n"
        )
    };
    let console =
        ["Welcome to Linux/Alpha\n", &line("1.0", &sum), &line("2.0", &sum), &line("4.0", &sum)]
            .concat();
    fs::write(bench.path("out/ds10.txt"), console).unwrap();
    let args = [
        "import",
        "ds10.txt",
        "--engine",
        "ds10",
        "--host",
        "AlphaServer DS10",
        "--json",
        "r.json",
    ];
    let output = bench.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let record = bench.record("r.json");
    let result = &record["rows"][0]["results"][0];
    assert_eq!(record["host"]["cpu"], "AlphaServer DS10");
    assert_eq!(result["samples"], serde_json::json!([2.0, 1.0, 0.5]));
    assert_eq!((&result["median"], &result["verified"]), (&1.0.into(), &true.into()));
    assert_eq!(record["rows"][0]["comparable_to_published"], true);

    fs::write(bench.path("out/ds10.txt"), line("1.0", "00000000000000ff")).unwrap();
    let output = bench.run(&args);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("wrong result"));
    assert_eq!(bench.record("r.json")["rows"][0]["results"][0]["median"], Value::Null);

    fs::remove_file(bench.path("out/r.json")).unwrap();
    for (content, say) in [
        ("nothing", "no line that begins with AXPLAB1"),
        ("AXPLAB1 row=idea", "field"),
        (&line("1", &sum).replace("idea", "warp"), "no row is named `warp`"),
    ] {
        fs::write(bench.path("out/ds10.txt"), content).unwrap();
        let output = bench.run(&args);
        assert_eq!(output.status.code(), Some(2), "{say}");
        assert!(text(&output.stderr).contains(say), "{}", text(&output.stderr));
        assert!(!bench.path("out/r.json").exists());
    }
}

#[test]
fn rows_that_make_files_leave_none_even_when_killed() {
    let bench = Folder::new();
    // A kernel that makes a file where it is started, then is killed; the next one finds O_DIRECT refused.
    let sums = ["diskblock-100", "files-list-300"].map(|row| (row, bench.checksum(row)));
    let answer = kernel(&bench.path("log"), &sums).replace("checksum=", "direct=0 checksum=");
    let killed = "touch left-by-$1; [ $1 = files-list-300 ] && kill -KILL $$\n";
    let script =
        bench.script("k.sh", &answer.replace("#!/bin/sh\n", &format!("#!/bin/sh\n{killed}")));
    bench.engine("ds10", &format!("{} {{args}}", script.display()));
    let args =
        ["bench", "diskblock-100", "files-list-300", "-e", "ds10", "-n", "2", "--json", "r.json"];
    assert_eq!(bench.run(&args).status.code(), Some(1));
    let record = bench.record("r.json");
    assert_eq!(record["rows"][0]["comparable_to_published"], false);
    let warnings = record["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|w| w["kind"] == "o-direct-refused"));
    assert!(record["rows"][1]["results"][0]["error"].as_str().unwrap().contains("SIGKILL"));
    assert_eq!(fs::read_dir(bench.path("out")).unwrap().count(), 1);
    bench.left();

    let output = bench.run(&["bench", "files-list-300", "-e", "ds10", "--scratch", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--scratch"));
}

/// The scripts of `docs/ci.md`, as the two schedulers would start them, on two parts instead of eight.
#[test]
fn the_documented_jobs_measure_every_row_once() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/ci.md");
    let page = fs::read_to_string(page).unwrap();
    let slurm = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let kubernetes = page.split("command: [sh, -c, '").nth(1).unwrap().split("']").next().unwrap();
    let bench = Folder::new();
    let line = "AXPLAB1 row=%s size=%s reps=%s work=%s unit=x seconds=0.1 checksum=0\\n";
    bench.scripted("e", &format!("printf '{line}' $1 $3 $2 $2\n"));
    let config = fs::read_to_string(bench.path("config.toml")).unwrap();
    fs::write(
        bench.path("config.toml"),
        format!("bench.engines = ['e']\nbench.samples = 1\n{config}"),
    )
    .unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_axplab")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let whole = bench.run(&["list", "--json"]);
    let list: Value = serde_json::from_slice(&whole.stdout).unwrap();
    let kernels = |row: &&Value| !["io", "system"].contains(&row["class"].as_str().unwrap());
    let mut expected: Vec<&str> = list["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(kernels)
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    expected.sort_unstable();
    for (variable, first, script) in
        [("SLURM_ARRAY_TASK_ID", 1, slurm), ("JOB_COMPLETION_INDEX", 0, kubernetes)]
    {
        let script = script.replace("/8", "/2").replace("/out/", "");
        for task in [first, first + 1] {
            let mut shell = bench.within(Command::new("sh"));
            shell.args(["-c", &script]).env("PATH", &path).env(variable, task.to_string());
            // The stand-in's results are wrong: what counts here is which rows were taken.
            let output = shell.output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{output:?}");
        }
        let output = bench.run(&["report", "part-1.json", "part-2.json", "--format", "json"]);
        let merged: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut names = row_names(&merged);
        names.sort_unstable();
        assert_eq!(names, expected, "{variable}");
        bench.left();
        for part in ["part-1.json", "part-2.json"] {
            fs::remove_file(bench.path("out").join(part)).unwrap();
        }
    }
}
