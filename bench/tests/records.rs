//! What is done with records, through the command line: reports, shards, comparisons, bad input, the page in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_axplab"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env("XDG_CONFIG_HOME", self.path("no-config"))
            .env_remove("AXPLAB_CONFIG")
            .env_remove("GITHUB_STEP_SUMMARY")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// A record in which `auto` takes `factor` times as long as it usually does.
    fn record(&self, name: &str, factor: f64) -> Value {
        let samples = [98.0, 99.0, 100.0, 101.0, 102.0];
        let result = |engine: &str, by: f64| {
            let samples: Vec<f64> = samples.iter().map(|x| x * by).collect();
            json!({
                "engine": engine, "median": 100.0 * by, "min": 98.0 * by, "max": 102.0 * by,
                "samples": samples, "order": [0, 1, 2, 3, 4], "verified": true,
                "artifact_sha256": "ab", "compiler": "cc",
            })
        };
        let row = |name: &str| {
            json!({
                "suite": "integer", "row": name, "params": {"size": 1}, "unit": "1/s",
                "better": "higher", "work": 1.0, "comparable_to_published": true,
                "results": [result("native", 1.0), result("auto", 0.4 / factor)],
            })
        };
        let record = json!({
            "schema": "axplab-record/1", "randomised_layout": true,
            "host": {"cpu": "A CPU", "cpu_id": "x", "cores": 2, "arch": "x86_64", "kernel": "Linux"},
            "axplab": {"version": "1", "commit": "c", "profile": "release", "rustc": "r"},
            "rows": [row("numeric-sort"), row("idea"), row("ttcp-1"), row("ttcp-4096")],
            "warnings": [{"kind": "busy", "message": "the machine is busy"}],
        });
        fs::write(self.path(name), record.to_string()).unwrap();
        record
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_check_measures_what_its_baseline_did_and_compares_it() {
    let lab = Lab::new();
    let how = ["-e", "native,interp", "--quick", "-n", "5", "--sample-time", "0.013"];
    let bench = [&["bench", "numeric-sort", "mul-128", "--json", "base.json"][..], &how].concat();
    let output = lab.run(&bench);
    assert!(output.status.success(), "{output:?}");
    let base: Value =
        serde_json::from_str(&fs::read_to_string(lab.path("base.json")).unwrap()).unwrap();
    if base["rows"][0]["results"][0]["engine"] != "native" {
        assert!(std::env::var_os("AXPLAB_REQUIRE_TOOLS").is_none(), "a C compiler is required");
        println!("skipped: no native programs without a C compiler");
        return;
    }
    // What the verdicts are depends on the machine; that there are some does not.
    for samples in ["5", "7"] {
        let args = ["check", "--baseline", "base.json", "--samples", samples];
        let output = lab.run(&args);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        let table = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(table.contains("mul-128") && !table.contains("incomparable"), "{table}");
    }
    // Other samples are not comparable, and that is said.
    let other = ["bench", "mul-128", "--json", "other.json", "-e", "native,interp", "--quick"];
    assert!(
        lab.run(&[&other[..], &["-n", "5", "--sample-time", "0.02"]].concat()).status.success()
    );
    let output = lab.run(&["compare", "base.json", "other.json"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("samples of another length"), "{table}");
}

#[test]
fn verdicts_become_an_exit_status_and_a_summary() {
    let lab = Lab::new();
    lab.record("old.json", 1.0);
    lab.record("slow.json", 1.2);
    let same = lab.run(&["compare", "old.json", "old.json"]);
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    assert!(text(&same.stdout).contains("rows: 4 same"), "{same:?}");
    let slow = lab
        .command(&["compare", "old.json", "slow.json"])
        .env("GITHUB_STEP_SUMMARY", lab.path("step.md"))
        .output()
        .unwrap();
    assert_eq!(slow.status.code(), Some(1), "{slow:?}");
    assert!(text(&slow.stdout).contains("auto slower"), "{slow:?}");
    let summary = fs::read_to_string(lab.path("step.md")).unwrap();
    assert!(summary.contains("| auto | idea | +20.0 % |"), "{summary}");
    let let_pass = lab.run(&["compare", "old.json", "slow.json", "--threshold", "40"]);
    assert_eq!(let_pass.status.code(), Some(0), "{let_pass:?}");
    let better = lab.run(&["compare", "slow.json", "old.json", "--markdown", "s.md"]);
    assert_eq!(better.status.code(), Some(0), "{better:?}");
    assert!(fs::read_to_string(lab.path("s.md")).unwrap().contains("4 faster"));
}

#[test]
fn bad_records_and_paths_are_one_line_and_status_2_and_harm_nothing() {
    let lab = Lab::new();
    let good = lab.record("good.json", 1.0).to_string();
    fs::write(lab.path("cut.json"), &good[..good.len() / 2]).unwrap();
    fs::write(lab.path("future.json"), good.replace("record/1", "record/9")).unwrap();
    fs::write(lab.path("foreign.json"), "{\"a\": 1}").unwrap();
    fs::write(lab.path("zero.json"), good.replace("98.0", "0.0")).unwrap();
    fs::write(lab.path("cpu.json"), good.replace("A CPU", "Another")).unwrap();
    fs::create_dir(lab.path("folder")).unwrap();
    let before = fs::read(lab.path("good.json")).unwrap();
    let calls: &[(&[&str], &str)] = &[
        (&["report", "none.json"], "none.json"),
        (&["report", "folder"], "folder"),
        (&["report", "cut.json"], "cut off"),
        (&["report", "future.json"], "form 9"),
        (&["report", "foreign.json"], "no record of axplab"),
        (&["report", "zero.json"], "a sample is 0"),
        (&["report", "good.json", "good.json"], "`axplab compare`"),
        (&["report", "good.json", "-o", "/no/such/x"], "/no/such/x"),
        (&["report", "good.json", "-o", "folder"], "directory"),
        (&["report", "cut.json", "-o", "good.json"], "cut off"),
        (&["compare", "good.json", "cpu.json"], "another CPU"),
        (&["compare", "good.json", "good.json", "--base", "interp"], "`interp`"),
        (&["compare", "good.json", "good.json", "--base", "qemu-alpha"], "`qemu-alpha`"),
        (&["compare", "good.json", "good.json", "--markdown", "/dev/full"], "/dev/full"),
        (&["check", "--baseline", "cut.json"], "cut off"),
        (&["bench", "idea", "--shard", "3/2"], "K/N"),
        (&["man", "none"], "none"),
    ];
    for (args, say) in calls {
        let output = lab.run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(error.starts_with("axplab: ") && error.lines().count() == 1, "{args:?}: {error}");
        assert!(error.contains(say), "{args:?}: {error}");
    }
    for format in ["table", "csv", "json", "html", "bmf"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = lab
            .command(&["report", "good.json", "--format", format])
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{format}: {output:?}");
        assert_eq!(text(&output.stderr).lines().count(), 1, "{format}: {output:?}");
    }
    assert_eq!(fs::read(lab.path("good.json")).unwrap(), before);
}

#[test]
fn every_form_of_a_report_has_every_row() {
    let lab = Lab::new();
    let record = lab.record("a.json", 1.0);
    fs::write(lab.path("b.json"), record.to_string().replace("A CPU", "Another")).unwrap();
    let forms = ["table", "markdown", "csv", "json", "html", "bmf", "github-action-benchmark"];
    for format in forms {
        for files in [&["a.json"][..], &["a.json", "b.json"]] {
            let mut args = vec!["report", "--format", format];
            args.extend(files);
            let output = lab.run(&args);
            assert!(output.status.success(), "{format}: {output:?}");
            for row in ["numeric-sort", "idea", "ttcp-1"] {
                assert!(text(&output.stdout).contains(row), "{format}: {row}");
            }
        }
    }
    let again = lab.run(&["report", "a.json", "--format", "json"]);
    fs::write(lab.path("again.json"), &again.stdout).unwrap();
    assert_eq!(lab.run(&["report", "again.json", "--format", "json"]).stdout, again.stdout);
}

#[test]
fn shards_measured_apart_make_the_whole() {
    let lab = Lab::new();
    let rows = ["numeric-sort", "idea", "huffman", "bitfield", "assignment"];
    let line = "AXPLAB1 row=%s size=%s reps=%s work=%s unit=x seconds=0.3 checksum=0\\n";
    let script = format!("printf '{line}' $1 $3 $2 $2");
    fs::write(lab.path("e.sh"), script).unwrap();
    let run = format!("engine.e.run = \"sh '{}' {{args}}\"", lab.path("e.sh").display());
    fs::write(lab.path("c.toml"), run).unwrap();
    let mut files = Vec::new();
    for shard in ["1/2", "2/2"] {
        let file = format!("{}.json", &shard[..1]);
        let mut args = vec!["bench", "--config", "c.toml", "-e", "e", "-n", "1", "--shard", shard];
        args.extend(["--json", file.as_str()]);
        args.extend(rows);
        // The stand-in's checksum is wrong: what counts here is which rows were taken.
        assert_eq!(lab.run(&args).status.code(), Some(1));
        files.push(file);
    }
    let output = lab.run(&["report", &files[0], &files[1], "--format", "json"]);
    let whole: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut names: Vec<&str> =
        whole["rows"].as_array().unwrap().iter().map(|row| row["row"].as_str().unwrap()).collect();
    names.sort_unstable();
    let mut rows = rows;
    rows.sort_unstable();
    assert_eq!(names, rows);
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let lab = Lab::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = lab.run(&["completions", shell]);
        assert!(output.status.success(), "{output:?}");
        assert!(text(&output.stdout).contains("compare"), "{shell}");
    }
    fs::create_dir(lab.path("man")).unwrap();
    assert!(lab.run(&["man", "man"]).status.success());
    for page in ["axplab.1", "axplab-bench.1", "axplab-report.1", "axplab-check.1"] {
        assert!(lab.path("man").join(page).is_file(), "{page}");
    }
}

/// A program on PATH. A browser is not among the tools that may be required: it is large and this page is all it serves.
fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        |name: &&str| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file());
    names.iter().find_map(found)
}

/// Opens the page with one more script in it and returns the document as it is then.
fn browse(browser: &Path, lab: &Lab, page: &str, script: &str, size: &str) -> String {
    let file = lab.path("page.html");
    let page = page.replace("</body>", &format!("<script>{script}</script></body>"));
    fs::write(&file, page).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"])
        .arg(format!("--user-data-dir={}", lab.path("profile").display()))
        .arg(format!("--window-size={size}"))
        .arg("--dump-dom")
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_fits_a_phone_and_names_its_pictures() {
    let Some(browser) = find(&["chromium", "chromium-browser", "google-chrome"]) else {
        eprintln!("skipped: the_page_fits_a_phone_and_names_its_pictures needs chromium");
        return;
    };
    let lab = Lab::new();
    lab.record("a.json", 1.0);
    let output = lab.run(&["report", "a.json", "--format", "html"]);
    let script = "const e=document.documentElement,wide=e.scrollWidth>Math.max(e.clientWidth,500);\
        const named=[...document.querySelectorAll('svg')].every(s=>s.getAttribute('aria-labelledby')\
        .split(' ').every(i=>document.getElementById(i).textContent.length>9));\
        document.title=`FOUND wide=${wide} named=${named} charts=${document.querySelectorAll('svg').length}`";
    let page = browse(&browser, &lab, text(&output.stdout), script, "500,900");
    assert!(page.contains("FOUND wide=false named=true charts=2"), "{}", &page[..600]);
}

/// `AXPLAB_AXE` names the file `axe.min.js` of the npm package axe-core.
#[test]
fn the_page_has_no_fault_that_axe_finds() {
    let browser = find(&["chromium", "chromium-browser", "google-chrome"]);
    let axe = std::env::var_os("AXPLAB_AXE").and_then(|path| fs::read_to_string(path).ok());
    let (Some(browser), Some(axe)) = (browser, axe) else {
        eprintln!("skipped: the_page_has_no_fault_that_axe_finds needs chromium and AXPLAB_AXE");
        return;
    };
    let lab = Lab::new();
    lab.record("a.json", 1.0);
    let output = lab.run(&["report", "a.json", "--format", "html"]);
    let script = format!(
        "{axe};axe.run().then(r=>{{document.title='FAULTS '+r.violations.map(v=>v.id+': '+\
         v.nodes.map(n=>n.html).join(' ')).join('; ')+' END'}})"
    );
    let page = browse(&browser, &lab, text(&output.stdout), &script, "1200,900");
    let said = page.split("<title>").nth(1).unwrap_or("").split("</title>").next().unwrap_or("");
    assert_eq!(said, "FAULTS  END");
}
