//! Rows on a booted system: a Linux kernel under `axplab boot`, and under qemu-system-alpha where it is installed,
//! whose first program works and says so. Called by `cmd/bench.rs`.
//!
//! The guest tells what it has done; the clock is the host's, read when a line arrives.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::measure::Interrupt;
use crate::record::{Better, ResultRecord, RowRecord};

/// The other emulator, and the name of its column.
const QEMU: &str = "qemu-system-alpha";
/// What the kernel need not measure: the rounds of its delay loop in a tick.
const APPEND: &str = "console=ttyS0 lpj=1000000 quiet";
/// Megabytes of memory.
const MEMORY: &str = "128";

/// A row: its name, its unit, and what the guest calls the work that it times.
struct Kind {
    row: &'static str,
    unit: &'static str,
    work: &'static str,
    /// What the unit has of it.
    scale: f64,
}

const KINDS: [Kind; 9] = [
    Kind { row: "boot-int", unit: "M/s", work: "int", scale: 1e6 },
    Kind { row: "boot-xorshift", unit: "M/s", work: "xorshift", scale: 1e6 },
    Kind { row: "boot-fp", unit: "M/s", work: "fp", scale: 1e6 },
    Kind { row: "boot-memory", unit: "M/s", work: "memory", scale: 1e6 },
    Kind { row: "boot-syscalls", unit: "1/s", work: "syscalls", scale: 1.0 },
    Kind { row: "boot-page-faults", unit: "1/s", work: "faults", scale: 1.0 },
    Kind { row: "boot-switches", unit: "1/s", work: "switches", scale: 1.0 },
    Kind { row: "boot-fork-exec", unit: "1/s", work: "programs", scale: 1.0 },
    Kind { row: "boot-idle", unit: "%", work: "idle", scale: 1.0 },
];

/// Rows of a run in which the guest does nothing but start and end.
const STARTS: [&str; 2] = ["boot-to-init", "boot-power-off"];

/// Whether a row is one of these.
pub fn is_row(name: &str) -> bool {
    STARTS.contains(&name) || KINDS.iter().any(|kind| kind.row == name)
}

/// A kernel and its initial RAM disk, as `cargo xtask kernel` builds them.
#[derive(Debug)]
pub struct Kernel {
    kernel: PathBuf,
    initrd: PathBuf,
}

impl Kernel {
    /// Where one was built; what is missing otherwise.
    pub fn find() -> Result<Kernel, String> {
        let named = std::env::var_os("AXPLAB_KERNELS").map(PathBuf::from);
        let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kernel");
        let folder = named.unwrap_or_else(built);
        let found = Kernel {
            kernel: folder.join("minimal/vmlinux"),
            initrd: folder.join("initramfs.cpio"),
        };
        for file in [&found.kernel, &found.initrd] {
            if !file.exists() {
                let file = file.display();
                return Err(format!(
                    "rows on a booted system need {file}: `cargo xtask kernel` builds it"
                ));
            }
        }
        Ok(found)
    }

    fn command(&self, axplab: &Path, engine: &str, words: &str) -> Command {
        let mut command;
        let append = if engine == QEMU {
            command = Command::new(QEMU);
            command.args([
                "-M",
                "clipper",
                "-nographic",
                "-vga",
                "none",
                "-nic",
                "none",
                "-m",
                MEMORY,
            ]);
            command.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&self.initrd);
            // The rate that its processor counts at; the kernel would doubt it.
            command.arg("-append");
            format!("cycle=250000000 {APPEND} {words}")
        } else {
            command = Command::new(axplab);
            command.args(["boot", "--engine", engine, "--memory", MEMORY, "--kernel"]);
            command.arg(&self.kernel).arg("--initrd").arg(&self.initrd).arg("--append");
            format!("{APPEND} {words}")
        };
        command.arg(append.trim_end());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }
}

/// Whether the other emulator is there.
fn has_qemu() -> bool {
    let version = Command::new(QEMU).arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// What a guest said at some time after its start, and the CPU time that its emulator had used by then.
struct Line {
    at: Duration,
    cpu: f64,
    text: String,
}

/// CPU seconds of a process, as far as the host tells.
fn cpu_seconds(child: &Child) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Runs a guest to its end; its lines, and how long it took.
fn run(
    mut command: Command,
    timeout: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<(Vec<Line>, Duration)> {
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let output = child.stdout.take().context("no pipe")?;
    let (send, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if send.send((start.elapsed(), text)).is_err() {
                return;
            }
        }
    });
    let mut said = Vec::new();
    let ended = loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok((at, text)) => {
                let cpu = cpu_seconds(&child).unwrap_or(0.0);
                said.push(Line { at, cpu, text });
            }
            Err(RecvTimeoutError::Disconnected) => break true,
            Err(RecvTimeoutError::Timeout) => {
                if start.elapsed() > timeout || interrupt.is_set() {
                    break false;
                }
            }
        }
    };
    if !ended {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let whole = start.elapsed();
    let _ = reader.join();
    ensure!(ended, "no end within {} s", timeout.as_secs());
    ensure!(status.success(), "it ended with {status}");
    ensure!(said.iter().any(|line| line.text == "init: all is well"), "the guest found a fault");
    Ok((said, whole))
}

/// What each kind of work has to come to, computed here.
fn right(work: &str, count: u64) -> u64 {
    match work {
        "int" => (0..count).fold(0, |sum: u64, i| sum.wrapping_add(i ^ sum >> 3)),
        "xorshift" => (0..count).fold(88_172_645_463_325_252, |x: u64, _| {
            let x = x ^ x << 13;
            let x = x ^ x >> 7;
            x ^ x << 17
        }),
        "fp" => (0..count).fold(1.0, |x: f64, _| x * 0.999_999 + 1.25).to_bits(),
        "memory" => {
            let rounds = count / 8192;
            let word = |i: u64| rounds * i + rounds * rounds.saturating_sub(1) / 2;
            (0..8192).fold(0, |sum: u64, i| sum.wrapping_add(word(i).wrapping_mul(i | 1)))
        }
        "syscalls" => 1,
        "faults" | "programs" => count,
        "switches" => count / 2,
        _ => 0,
    }
}

/// One value for each row that a sample has: of a run that starts and ends, and of one that works.
fn sample(
    kernel: &Kernel,
    axplab: &Path,
    engine: &str,
    timeout: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<BTreeMap<&'static str, f64>> {
    let mut values = BTreeMap::new();
    let (said, whole) = run(kernel.command(axplab, engine, ""), timeout, interrupt)?;
    let started = said.iter().find(|line| line.text == "init: started");
    let started = started.context("the first program was not started")?;
    values.insert(STARTS[0], started.at.as_secs_f64());
    values.insert(STARTS[1], whole.as_secs_f64());
    let (said, _) = run(kernel.command(axplab, engine, "bench"), timeout, interrupt)?;
    let told: Vec<(&Line, Vec<&str>)> = said
        .iter()
        .filter_map(|line| Some((line, line.text.strip_prefix("bench: ")?.split(' ').collect())))
        .collect();
    if told.is_empty() {
        bail!(
            "the first program measures nothing: it is an older one; `cargo xtask kernel` builds it"
        );
    }
    for pair in told.windows(2) {
        let [(before, _), (after, words)] = pair else { continue };
        let &[work, count, result] = words.as_slice() else { bail!("what is `{}`", after.text) };
        if work == "settled" {
            continue;
        }
        let kind = KINDS.iter().find(|kind| kind.work == work);
        let kind = kind.with_context(|| format!("what is `{work}`"))?;
        let [count, result] = [count, result].map(|digits| u64::from_str_radix(digits, 16));
        let (count, result) = (count?, result?);
        ensure!(result == right(work, count), "{work} came to {result:#x}");
        let seconds = (after.at.saturating_sub(before.at)).as_secs_f64().max(1e-9);
        let value = match work {
            "idle" => 100.0 * (after.cpu - before.cpu) / seconds,
            _ => count as f64 / kind.scale / seconds,
        };
        values.insert(kind.row, value);
    }
    Ok(values)
}

/// The rows, measured in turns. An engine that fails says why in its results.
pub fn rows(
    kernel: &Kernel,
    axplab: &Path,
    engines: &[&str],
    samples: u32,
    timeout: Duration,
    interrupt: &Interrupt,
) -> Vec<RowRecord> {
    let mut columns: Vec<&str> = engines.to_vec();
    if has_qemu() {
        columns.push(QEMU);
    }
    let mut values: Vec<Vec<(u32, BTreeMap<&str, f64>)>> = vec![Vec::new(); columns.len()];
    let mut errors: Vec<Option<String>> = vec![None; columns.len()];
    let mut place = 0;
    for _ in 0..samples {
        for (i, engine) in columns.iter().enumerate() {
            if interrupt.is_set() || errors[i].is_some() {
                continue;
            }
            match sample(kernel, axplab, engine, timeout, interrupt) {
                Ok(sample) => values[i].push((place, sample)),
                Err(_) if interrupt.is_set() => {}
                Err(error) => errors[i] = Some(format!("{error:#}")),
            }
            place += 1;
        }
    }
    let hash = std::fs::read(&kernel.kernel).ok().map(|bytes| axp_guests::sha256_hex(&bytes));
    let starts = STARTS.map(|row| (row, "s"));
    let names = starts.into_iter().chain(KINDS.iter().map(|kind| (kind.row, kind.unit)));
    let record = |(row, unit): (&str, &str)| RowRecord {
        suite: "boot".into(),
        row: row.into(),
        params: BTreeMap::from([
            ("kernel".to_owned(), Value::from("minimal")),
            ("memory_mb".to_owned(), Value::from(MEMORY)),
            ("samples".to_owned(), Value::from(samples)),
        ]),
        unit: unit.into(),
        better: if matches!(unit, "s" | "%") { Better::Lower } else { Better::Higher },
        work: 1.0,
        comparable_to_published: false,
        results: (0..columns.len())
            .filter_map(|i| result(columns[i], row, &values[i], errors[i].clone(), hash.clone()))
            .collect(),
    };
    let mut rows: Vec<RowRecord> = names.map(record).collect();
    rows.retain(|row| !row.results.is_empty());
    rows
}

/// What came of it: never a figure beside an error, and nothing if it was interrupted before the first.
fn result(
    engine: &str,
    row: &str,
    values: &[(u32, BTreeMap<&str, f64>)],
    error: Option<String>,
    artifact_sha256: Option<String>,
) -> Option<ResultRecord> {
    if error.is_some() {
        let engine = engine.to_owned();
        return Some(ResultRecord { engine, artifact_sha256, error, ..ResultRecord::default() });
    }
    let all = values.iter().filter_map(|(place, sample)| Some((*place, *sample.get(row)?)));
    let (order, samples): (Vec<u32>, Vec<f64>) = all.unzip();
    let measured = || ResultRecord {
        order,
        artifact_sha256,
        ..ResultRecord::measured(engine, samples.clone())
    };
    (!samples.is_empty()).then(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_work_comes_to_is_what_doing_it_comes_to() {
        let mut words = vec![0u64; 8192];
        for round in 0..3 {
            for i in 0..8192 {
                words[i as usize] += i + round;
            }
        }
        let sum = words.iter().zip(0u64..).map(|(word, i)| word * (i | 1)).sum::<u64>();
        assert_eq!(right("memory", 3 * 8192), sum);
        assert_eq!(right("int", 3), 3);
        assert_eq!(right("fp", 1), (0.999_999f64 + 1.25).to_bits());
        assert_eq!(right("switches", 20), 10);
    }

    #[test]
    fn an_engine_that_fails_has_no_figure() {
        let values = [(0, BTreeMap::from([("boot-int", 1.0)]))];
        let failed = result("x", "boot-int", &values, Some("why".into()), None).unwrap();
        assert!(failed.median.is_none() && failed.samples.is_empty() && failed.error.is_some());
        assert_eq!(result("x", "boot-int", &values, None, None).unwrap().median, Some(1.0));
        assert!(result("x", "boot-fp", &values, None, None).is_none());
    }
}
