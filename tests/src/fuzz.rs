//! Differential fuzzing with programs of csmith: each is compiled for Alpha at every optimisation level
//! and run on every engine, on qemu-alpha and natively. Called by `cargo xtask fuzz` for as long as one
//! likes and by `tests/csmith.rs` for a few fixed seeds.
//!
//! csmith's programs have no undefined behaviour and end by printing a checksum of their variables, so
//! whatever differs is a fault of an engine or of a compiler. What all ways of running an Alpha program
//! agree on is the compiler's, and is told apart.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::process;

/// Optimisation levels that each program is compiled at.
pub const LEVELS: &[&str] = &["-O0", "-O1", "-O2", "-O3"];
/// CPUs that programs are compiled for in turn: with and without byte accesses, counts, square roots.
const CPUS: &[&str] = &["ev4", "ev56", "pca56", "ev67"];
/// A program that runs longer natively is left out: many of csmith's do not end at all, and the interpreters
/// take minutes for what takes a second natively.
const NATIVE_LIMIT: Duration = Duration::from_millis(200);
/// The slowest engine gets this long for what took at most [`NATIVE_LIMIT`] natively.
const LIMIT: Duration = Duration::from_secs(240);
/// Where csmith's headers are, as Debian has them.
const HEADERS: &str = "/usr/include/csmith";

/// What one way of running a program printed and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observed {
    /// Standard output; for a run that did not end, nothing.
    pub output: String,
    /// As the shell would say it.
    pub status: String,
}

/// What became of a seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// So many Alpha runs, all alike and like the native one.
    Same(u64),
    /// The native program does not end in time, or a compiler refused the source.
    Skipped(String),
    /// All Alpha runs agree, the native one differs: a compiler's, or csmith's.
    Compiler(String),
    /// Engines differ from each other.
    Diverged(String),
}

/// The tools and folders of a campaign.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The program `run-guest`.
    pub runner: PathBuf,
    /// Root of the Alpha libraries.
    pub sysroot: String,
    /// Whether `opt` alone, which compiles all that is touched, runs each program at each level, or
    /// one program in four at one level.
    pub thorough: bool,
}

/// The first of the tools that is missing.
pub fn missing_tool() -> Option<&'static str> {
    let tools = ["csmith", "gcc", "alpha-linux-gnu-gcc", "qemu-alpha"];
    let there = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
    tools.into_iter().find(|tool| !there(tool))
}

fn observe(command: &mut Command, limit: Duration) -> Observed {
    match process::output(command, b"", limit) {
        Some(output) => Observed {
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            status: output.status.to_string(),
        },
        None => Observed { output: String::new(), status: format!("runs after {limit:?}") },
    }
}

fn compile(compiler: &str, flags: &[&str], source: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new(compiler);
    command.args(["-w", "-I", HEADERS]).args(flags).arg("-o").arg(to).arg(source);
    let limit = Duration::from_secs(120);
    let output = process::output(&mut command, b"", limit).context("the compiler does not end")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

impl Lab {
    /// Generates, compiles and runs the program of one seed in `dir`, at `levels`.
    pub fn judge(&self, seed: u64, levels: &[&str], dir: &Path) -> Result<Verdict> {
        let source = dir.join("prog.c");
        // Floating point every fourth time: it is slow to compile and hides integer code.
        let float = seed.is_multiple_of(4);
        let mut csmith = Command::new("csmith");
        csmith.args(["--seed", &seed.to_string(), "--output"]).arg(&source);
        // It leaves a file about the platform where it stands.
        csmith.current_dir(dir);
        if float {
            csmith.arg("--float");
        }
        let made = process::output(&mut csmith, b"", Duration::from_secs(60));
        if !made.is_some_and(|o| o.status.success()) {
            return Ok(Verdict::Skipped("csmith made no program".into()));
        }
        let native = dir.join("native");
        if let Err(error) = compile("gcc", &["-O1"], &source, &native) {
            return Ok(Verdict::Skipped(format!("native compiler: {error}")));
        }
        let expected = observe(&mut Command::new(&native), NATIVE_LIMIT);
        if expected.output.is_empty() {
            return Ok(Verdict::Skipped(format!("natively: {}", expected.status)));
        }
        let mut runs = 0;
        for (i, level) in levels.iter().enumerate() {
            let mut flags = vec![*level, "-mcpu=ev4"];
            let cpu = CPUS[(seed as usize / 4 + i) % CPUS.len()];
            let cpu_flag = format!("-mcpu={cpu}");
            flags[1] = &cpu_flag;
            if float {
                flags.push("-mieee");
            }
            let program = dir.join(format!("alpha{level}"));
            if let Err(error) = compile("alpha-linux-gnu-gcc", &flags, &source, &program) {
                return Ok(Verdict::Skipped(format!("Alpha compiler: {error}")));
            }
            let opt = self.thorough || seed % 4 == 1 && i == (seed as usize / 4) % LEVELS.len();
            let got = self.runs(&program, opt);
            runs += got.len() as u64;
            let said = || {
                let lines = got.iter().map(|(how, o)| format!("  {how}: {o:?}\n"));
                let list: String = lines.collect();
                format!("seed {seed} {flags:?}, natively {expected:?}\n{list}")
            };
            if got.iter().any(|(_, o)| *o != got[0].1) {
                return Ok(Verdict::Diverged(said()));
            }
            if got[0].1 != expected {
                return Ok(Verdict::Compiler(said()));
            }
        }
        Ok(Verdict::Same(runs))
    }

    /// One Alpha program every way there is.
    fn runs(&self, program: &Path, opt: bool) -> Vec<(String, Observed)> {
        let mut qemu = Command::new("qemu-alpha");
        qemu.args(["-L", &self.sysroot]).arg(program);
        let mut all = vec![("qemu-alpha".to_owned(), observe(&mut qemu, LIMIT))];
        let ways: &[&[&str]] = &[
            &["--engine", "interp"],
            &["--engine", "interp-match"],
            &["--engine", "baseline"],
            &["--engine", "auto"],
            &["--engine", "opt"],
        ];
        for way in ways.iter().filter(|way| opt || way[1] != "opt") {
            let mut command = Command::new(&self.runner);
            command.args(*way).args(["-L", &self.sysroot]).arg(program);
            all.push((way[1].to_owned(), observe(&mut command, LIMIT)));
        }
        all
    }
}

/// How long and where from.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// Wall time after which no further program is begun.
    pub minutes: f64,
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Programs at most.
    pub programs: u64,
    /// Programs at a time.
    pub jobs: usize,
    /// See [`Lab::thorough`].
    pub thorough: bool,
}

#[derive(Default)]
struct Tally {
    same: u64,
    runs: u64,
    skipped: u64,
    compiler: Vec<u64>,
    diverged: Vec<u64>,
}

/// Runs a campaign; sources and observations of what differed stay in `keep`.
///
/// # Errors
/// If anything diverged, or a tool is missing.
pub fn campaign(lab: &Lab, what: Campaign, keep: &Path) -> Result<()> {
    if let Some(tool) = missing_tool() {
        bail!("fuzzing needs {tool}, which is not installed");
    }
    let deadline = Instant::now() + Duration::from_secs_f64(what.minutes * 60.0);
    let end = what.seed.saturating_add(what.programs);
    let next = AtomicU64::new(what.seed);
    let tally = Mutex::new(Tally::default());
    let work = || -> Result<()> {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end || Instant::now() >= deadline {
                return Ok(());
            }
            let dir = tempfile::tempdir()?;
            let verdict = lab.judge(seed, LEVELS, dir.path())?;
            let mut tally = tally.lock().expect("no panics below");
            let note = match verdict {
                Verdict::Same(runs) => {
                    tally.same += 1;
                    tally.runs += runs;
                    None
                }
                Verdict::Skipped(_) => {
                    tally.skipped += 1;
                    None
                }
                Verdict::Compiler(said) => {
                    tally.compiler.push(seed);
                    Some(("compiler", said))
                }
                Verdict::Diverged(said) => {
                    tally.diverged.push(seed);
                    Some(("diverged", said))
                }
            };
            if let Some((what, said)) = note {
                println!("{what}: {said}");
                let to = keep.join(format!("{what}-{seed}"));
                fs::create_dir_all(&to)?;
                fs::write(to.join("observed.txt"), said)?;
                for entry in fs::read_dir(dir.path())? {
                    let path = entry?.path();
                    fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
                }
            }
            if (tally.same + tally.skipped) % 10 == 9 {
                println!("{}", summary(&tally));
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..what.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|w| w.join().expect("no panics above"))
    })?;
    let tally = tally.into_inner().expect("no panics above");
    println!("{}", summary(&tally));
    ensure!(tally.diverged.is_empty(), "engines diverged; see {}", keep.display());
    Ok(())
}

fn summary(tally: &Tally) -> String {
    format!(
        "{} programs alike in {} Alpha runs, {} left out, compilers disagree on {:?}, engines on {:?}",
        tally.same, tally.runs, tally.skipped, tally.compiler, tally.diverged
    )
}
