//! `bench --resume`, `--program` and `import` through the command line, with stand-in commands; rows that make files leave none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A folder of its own, with a place for temporary files that must be empty in the end.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("config.toml"), "").unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Adds an engine by its command line.
    fn engine(&self, name: &str, run: &str) {
        let config = self.path("config.toml");
        let text = fs::read_to_string(&config).unwrap();
        fs::write(config, format!("{text}[engine.{name}]\nrun = '''{run}'''\n")).unwrap();
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_axplab"));
        command
            .args(args)
            .current_dir(self.path("out"))
            .env("TMPDIR", self.path("tmp"))
            .env("AXPLAB_CONFIG", self.path("config.toml"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn record(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path("out").join(name)).unwrap()).unwrap()
    }

    fn nothing_left(&self) {
        assert_eq!(fs::read_dir(self.path("tmp")).unwrap().count(), 0, "temporary files are left");
    }
}

/// What a kernel would print, from the arguments ROW REPS SIZE; appends its row to `log`.
fn kernel(log: &Path, checksums: &[(&str, String)]) -> String {
    let cases: String = checksums.iter().map(|(row, sum)| format!("{row}) sum={sum};; ")).collect();
    format!(
        "#!/bin/sh\necho $1 >> '{}'\ncase $1 in {cases}esac\n\
         printf 'AXPLAB1 row=%s size=%s reps=%s work=%s unit=x seconds=%d.00 checksum=%s\\n' $1 $3 $2 $2 $2 $sum\n",
        log.display()
    )
}

fn checksum(bench: &Bench, row: &str) -> String {
    let list: Value = serde_json::from_slice(&bench.run(&["list", "--json"]).stdout).unwrap();
    let row = list["rows"].as_array().unwrap().iter().find(|entry| entry["name"] == row).unwrap();
    row["checksums"][row["size"].to_string()].as_str().unwrap().to_owned()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn row_names(record: &Value) -> Vec<&str> {
    record["rows"].as_array().unwrap().iter().map(|row| row["row"].as_str().unwrap()).collect()
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    let bench = Bench::new();
    let log = bench.path("log");
    let sums = ["numeric-sort", "idea", "huffman"].map(|row| (row, checksum(&bench, row)));
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
    bench.nothing_left();
}

#[test]
fn a_record_that_cannot_be_gone_on_with_is_named_and_kept() {
    let bench = Bench::new();
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
    let bench = Bench::new();
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
    bench.nothing_left();
}

#[test]
fn lines_from_elsewhere_become_a_record() {
    let bench = Bench::new();
    let sum = checksum(&bench, "idea");
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
    let bench = Bench::new();
    // A kernel that makes a file where it is started, then is killed; the next one finds O_DIRECT refused.
    let sums = ["diskblock-100", "files-list-300"].map(|row| (row, checksum(&bench, row)));
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
    bench.nothing_left();

    let output = bench.run(&["bench", "files-list-300", "-e", "ds10", "--scratch", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--scratch"));
}
