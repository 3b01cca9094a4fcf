//! One sample: runs a command line as a sub-process with a deadline, takes its resource usage, and checks its result line.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axp_guests::ResultLine;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use wait4::{ResUse, Wait4};

/// More output than any kernel makes; what comes after is read and dropped.
const OUTPUT_LIMIT: usize = 64 << 10;

/// A flag that Ctrl-C, a hang-up or a request to terminate sets; whoever waits looks at it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches the signals from now on.
    pub fn catch() -> anyhow::Result<Self> {
        let interrupt = Self::default();
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            signal_hook::flag::register(signal.as_raw(), interrupt.0.clone())?;
        }
        Ok(interrupt)
    }

    /// True once the user wants to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What to run once and what it must answer.
#[derive(Debug)]
pub struct Invocation {
    /// The command line.
    pub argv: Vec<OsString>,
    /// Where an in-tree engine leaves its statistics; read and removed after the run.
    pub stats: PathBuf,
    /// Row that the result line must name.
    pub row: String,
    /// Size that it must name.
    pub size: u64,
    /// Repetitions that it must name.
    pub reps: u64,
    /// The right checksum; `None` where the catalogue knows none for this size.
    pub checksum: Option<String>,
    /// After this long the run is given up.
    pub timeout: Duration,
    /// The folder it is started in, if not this process's.
    pub cwd: Option<PathBuf>,
    /// It prints no result line: the sample is the process's whole time, the result what it wrote and
    /// its exit status.
    pub whole: bool,
}

/// One verified run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Work done, in the kernel's count.
    pub work: f64,
    /// Time of the kernel's own work loop.
    pub seconds: f64,
    /// What the kernel computed.
    pub checksum: String,
    /// Time from start to end of the process.
    pub wall: f64,
    /// User time of the process.
    pub cpu_user: f64,
    /// System time of the process.
    pub cpu_sys: f64,
    /// Greatest resident set, in bytes.
    pub max_rss: u64,
    /// What an in-tree engine says of itself.
    pub stats: RunStats,
    /// What the kernel says besides its result.
    pub extra: BTreeMap<String, f64>,
}

/// The file that `axplab run --stats-json` writes, as far as the lab reads it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RunStats {
    /// Guest instructions, where they were counted.
    pub instructions: Option<u64>,
    /// Guest instructions that were compiled.
    pub compiled_instructions: Option<u64>,
    /// Bytes of host code.
    pub code_bytes: Option<u64>,
    /// Seconds by phase: load, translate, execute.
    pub phases: BTreeMap<String, f64>,
}

/// Why there is no sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// The user stopped the run.
    Interrupted,
    /// The run was given up; the text is as below.
    Timeout(String),
    /// The run went wrong; the text is for the table's cell and the record.
    Wrong(String),
}

/// Runs once.
pub fn measure(what: &Invocation, interrupt: &Interrupt) -> Result<Sample, Failure> {
    let finished = run(what, interrupt)?;
    let stats = std::fs::read(&what.stats).ok();
    let _ = std::fs::remove_file(&what.stats);
    let line = match what.whole {
        true => whole(&finished),
        false => check(what, &finished),
    };
    let line = line.map_err(Failure::Wrong)?;
    Ok(Sample {
        work: line.work as f64,
        seconds: line.seconds,
        checksum: line.checksum,
        wall: finished.wall.as_secs_f64(),
        cpu_user: finished.usage.rusage.utime.as_secs_f64(),
        cpu_sys: finished.usage.rusage.stime.as_secs_f64(),
        max_rss: finished.usage.rusage.maxrss,
        stats: stats.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default(),
        extra: line.extra,
    })
}

struct Finished {
    usage: ResUse,
    wall: Duration,
    stdout: Vec<u8>,
    /// Of all that it wrote, also of what was dropped.
    sha256: String,
    stderr: Vec<u8>,
}

/// Starts the process, waits for its end, the deadline or the user, and reaps it in every case.
fn run(what: &Invocation, interrupt: &Interrupt) -> Result<Finished, Failure> {
    if interrupt.is_set() {
        return Err(Failure::Interrupted);
    }
    let start = Instant::now();
    let mut command = Command::new(&what.argv[0]);
    if let Some(folder) = &what.cwd {
        command.current_dir(folder);
    }
    crate::layout::vary(&mut command);
    let child = command
        .args(&what.argv[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: Ctrl-C reaches the lab alone, and the lab ends the whole group.
        .process_group(0)
        .spawn();
    let child = child
        .map_err(|error| Failure::Wrong(format!("cannot start {:?}: {error}", what.argv[0])))?;
    let mut running = Running { pid: Pid::from_child(&child), child: Some(child) };
    let waited = wait(&mut running, what.timeout, start, interrupt);
    let usage = running.end().map_err(|error| Failure::Wrong(format!("wait4: {error}")))?;
    let (wall, stdout, sha256, stderr) = waited?;
    Ok(Finished { usage, wall, stdout, sha256, stderr })
}

/// A child that is killed, with its group, and reaped on every way out.
struct Running {
    pid: Pid,
    child: Option<Child>,
}

impl Running {
    fn end(&mut self) -> std::io::Result<ResUse> {
        let Some(child) = self.child.take() else {
            return Err(std::io::ErrorKind::NotFound.into());
        };
        // Before reaping, while the number of the group cannot have been given to another.
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        child.wait4()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

type Output = (Duration, Vec<u8>, String, Vec<u8>);

/// Waits without a thread: the process and both pipes are polled together.
fn wait(
    running: &mut Running,
    timeout: Duration,
    start: Instant,
    interrupt: &Interrupt,
) -> Result<Output, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Wrong(format!("waiting: {error}"));
    let process = rustix::process::pidfd_open(running.pid, PidfdFlags::empty())
        .map_err(|error| wrong(&error))?;
    let child = running.child.as_mut().ok_or_else(|| wrong(&"no process"))?;
    let mut out = Pipe::new(child.stdout.take());
    let mut err = Pipe::new(child.stderr.take());
    loop {
        if interrupt.is_set() {
            return Err(Failure::Interrupted);
        }
        let left = timeout.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(Failure::Timeout(format!("no result after {} s", timeout.as_secs_f64())));
        }
        // A signal ends the poll; the bound covers one that came just before it.
        let slice = left.min(Duration::from_millis(200));
        let slice = Timespec { tv_sec: 0, tv_nsec: slice.as_nanos() as _ };
        let (ended, out_ready, err_ready) = {
            let mut fds = vec![PollFd::new(&process, PollFlags::IN)];
            fds.extend(out.source.as_ref().map(|source| PollFd::new(source, PollFlags::IN)));
            fds.extend(err.source.as_ref().map(|source| PollFd::new(source, PollFlags::IN)));
            match rustix::event::poll(&mut fds, Some(&slice)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(wrong(&error)),
            }
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
            let ended = ready.next().unwrap_or(false);
            let out_ready = out.source.is_some() && ready.next().unwrap_or(false);
            (ended, out_ready, err.source.is_some() && ready.next().unwrap_or(false))
        };
        if ended {
            let wall = start.elapsed();
            // What it wrote lies in the pipes; a grandchild may keep them open, so they are not read to their end.
            out.drain();
            err.drain();
            let sha256 = format!("{:x}", out.hash.finalize());
            return Ok((wall, out.bytes, sha256, err.bytes));
        }
        if out_ready {
            out.read();
        }
        if err_ready {
            err.read();
        }
    }
}

struct Pipe<R> {
    source: Option<R>,
    bytes: Vec<u8>,
    hash: Sha256,
}

impl<R: Read + std::os::fd::AsFd> Pipe<R> {
    fn new(source: Option<R>) -> Self {
        if let Some(source) = &source {
            let _ = rustix::io::ioctl_fionbio(source, true);
        }
        Self { source, bytes: Vec::new(), hash: Sha256::new() }
    }

    /// Reads once; true if there may be more.
    fn read(&mut self) -> bool {
        let Some(source) = &mut self.source else { return false };
        let mut buffer = [0; 4096];
        match source.read(&mut buffer) {
            Ok(0) => {
                self.source = None;
                false
            }
            Ok(count) => {
                let room = OUTPUT_LIMIT.saturating_sub(self.bytes.len());
                self.bytes.extend_from_slice(&buffer[..count.min(room)]);
                self.hash.update(&buffer[..count]);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => true,
            Err(_) => false,
        }
    }

    fn drain(&mut self) {
        // Bounded, since a grandchild may write without end.
        for _ in 0..OUTPUT_LIMIT / 1024 {
            if !self.read() {
                break;
            }
        }
    }
}

/// The result of a program that knows nothing of the lab: what it wrote, and how it ended.
fn whole(finished: &Finished) -> Result<ResultLine, String> {
    let status = finished.usage.status;
    let Some(code) = status.code() else {
        let said = last_line(&finished.stderr).map_or(String::new(), |line| format!(": {line}"));
        return Err(format!("{}{said}", describe(status)));
    };
    Ok(ResultLine {
        row: String::new(),
        size: 0,
        reps: 1,
        work: 1,
        unit: String::new(),
        seconds: finished.wall.as_secs_f64(),
        checksum: format!("output {} and status {code}", finished.sha256.get(..16).unwrap_or("")),
        extra: BTreeMap::new(),
    })
}

/// The result line, if the run ended well and the line is what was asked for.
fn check(what: &Invocation, finished: &Finished) -> Result<ResultLine, String> {
    let text = String::from_utf8_lossy(&finished.stdout);
    if text.contains("checksum=mismatch") {
        return Err("wrong result: the kernel found it itself".into());
    }
    if !finished.usage.status.success() {
        let said = last_line(&finished.stderr).map_or(String::new(), |line| format!(": {line}"));
        return Err(format!("{}{said}", describe(finished.usage.status)));
    }
    // Other lines are let pass: a remote shell may greet.
    let mut lines = text.lines().filter(|line| line.starts_with("AXPLAB1 "));
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return Err("no result line, or more than one".into());
    };
    let line = ResultLine::parse(line).map_err(|error| clip(&error.to_string()))?;
    if (line.row.as_str(), line.size, line.reps) != (&what.row, what.size, what.reps) {
        return Err(format!(
            "the result is of {} size {} x {}, not of what was asked for",
            clip(&line.row),
            line.size,
            line.reps
        ));
    }
    match &what.checksum {
        Some(right) if *right != line.checksum => {
            Err(format!("wrong result: checksum {} instead of {right}", clip(&line.checksum)))
        }
        _ => Ok(line),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => {
            let name = signal_hook::low_level::signal_name(signal)
                .map_or_else(|| format!("signal {signal}"), str::to_owned);
            format!("killed by {name}")
        }
        (None, None) => status.to_string(),
    }
}

fn last_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(clip)
}

/// Foreign text in a message: short and without control characters.
fn clip(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "AXPLAB1 row=idea size=8 reps=2 work=16 unit=blocks seconds=0.5 checksum=00000000000000ff";

    fn shell(script: &str) -> Invocation {
        Invocation {
            argv: ["sh", "-c", script].map(OsString::from).to_vec(),
            stats: "/nonexistent/stats".into(),
            row: "idea".into(),
            size: 8,
            reps: 2,
            checksum: Some("00000000000000ff".into()),
            timeout: Duration::from_secs(20),
            cwd: None,
            whole: false,
        }
    }

    fn wrong(invocation: &Invocation) -> String {
        match measure(invocation, &Interrupt::default()) {
            Err(Failure::Wrong(text) | Failure::Timeout(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_right_answer_is_a_sample() {
        let script = format!("echo banner; echo '{GOOD}'; echo noise >&2");
        let sample = measure(&shell(&script), &Interrupt::default()).unwrap();
        assert_eq!(
            (sample.work, sample.seconds, sample.checksum.as_str()),
            (16.0, 0.5, "00000000000000ff")
        );
        assert!(sample.max_rss > 0 && sample.wall > 0.0);
    }

    #[test]
    fn a_program_of_its_own_is_judged_by_what_it_wrote_and_how_it_ended() {
        let answer = |script: &str| {
            let invocation = Invocation { whole: true, ..shell(script) };
            measure(&invocation, &Interrupt::default()).map(|sample| sample.checksum)
        };
        let right = answer("seq 100000; exit 3").unwrap();
        assert_eq!(answer("seq 100000; echo noise >&2; exit 3").unwrap(), right);
        assert_ne!(answer("seq 100001; exit 3").unwrap(), right);
        assert_ne!(answer("seq 100000").unwrap(), right);
        assert!(
            matches!(answer("kill -SEGV $$"), Err(Failure::Wrong(text)) if text.contains("SIGSEGV"))
        );
    }

    #[test]
    fn figures_beyond_the_result_are_kept() {
        let script = format!("echo '{} sender_cpu=12.5 name=x'; pwd >&2", GOOD);
        let invocation = Invocation { cwd: Some("/".into()), ..shell(&script) };
        let sample = measure(&invocation, &Interrupt::default()).unwrap();
        assert_eq!(sample.extra, [("sender_cpu".to_owned(), 12.5)].into());
    }

    #[test]
    fn every_other_answer_says_what_is_wrong() {
        for (script, say) in [
            ("exit 3".to_owned(), "exit status 3"),
            ("echo why >&2; exit 2".into(), "exit status 2: why"),
            ("kill -SEGV $$".into(), "killed by SIGSEGV"),
            ("true".into(), "no result line"),
            (format!("echo '{GOOD}'; echo '{GOOD}'"), "more than one"),
            (format!("echo '{GOOD}'; exit 1"), "exit status 1"),
            (format!("echo '{}'", GOOD.replace("ff", "fe")), "00fe instead of"),
            (format!("echo '{}'", GOOD.replace("size=8", "size=9")), "size 9"),
            (
                format!("echo '{}'", GOOD.replace("seconds=0.5", "seconds=NaN")),
                "bad or missing field 'seconds'",
            ),
            (
                format!("echo '{}'; exit 1", GOOD.replace("00000000000000ff", "mismatch")),
                "wrong result",
            ),
        ] {
            let text = wrong(&shell(&script));
            assert!(text.contains(say), "{script}: {text}");
        }
        let mut absent = shell("");
        absent.argv[0] = "/nonexistent/tool".into();
        assert!(wrong(&absent).contains("/nonexistent/tool"));
    }

    #[test]
    fn a_run_that_does_not_end_is_given_up_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let alive = dir.path().join("alive");
        let script = format!("(sleep 1; touch '{}') & sleep 1000", alive.display());
        let mut invocation = shell(&script);
        invocation.timeout = Duration::from_millis(200);
        assert!(wrong(&invocation).contains("no result after 0.2 s"));
        std::thread::sleep(Duration::from_millis(1300));
        assert!(!alive.exists());
    }

    #[test]
    fn a_grandchild_that_keeps_the_pipe_does_not_hold_the_lab_up() {
        let script = format!("echo '{GOOD}'; sleep 1000 &");
        measure(&shell(&script), &Interrupt::default()).unwrap();
    }

    #[test]
    fn endless_output_neither_fills_memory_nor_blocks() {
        let mut invocation = shell("yes");
        invocation.timeout = Duration::from_millis(300);
        assert!(wrong(&invocation).contains("no result after"));
    }

    #[test]
    fn an_interrupted_lab_starts_nothing() {
        let interrupt = Interrupt::default();
        interrupt.0.store(true, Ordering::Relaxed);
        assert_eq!(measure(&shell("true"), &interrupt), Err(Failure::Interrupted));
    }
}
