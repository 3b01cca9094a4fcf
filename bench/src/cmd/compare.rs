//! `axplab compare` and `axplab check`: print the verdicts of `crate::compare` and make an exit status of them.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;

use super::bench;
use crate::booted;
use crate::compare::{self, Comparison, Options};
use crate::config::{Check as Defaults, Config};
use crate::record::{self, Record};
use crate::{Outcome, cli, records};

/// How to judge, for both commands.
#[derive(Debug, Args)]
pub struct JudgeArgs {
    /// Changes up to this many per cent are not alarmed about [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub threshold: Option<f64>,
    /// The engine of each run that its times are divided by [default: native]
    #[arg(long, value_name = "ENGINE")]
    pub base: Option<String>,
    /// Also write the verdicts as Markdown to FILE [in GitHub Actions: the step's summary]
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Configuration: further engines and defaults [default: as for `axplab bench`]
    #[arg(long, value_name = "FILE", env = "AXPLAB_CONFIG")]
    pub config: Option<PathBuf>,
}

/// Arguments of `axplab compare`.
#[derive(Debug, Args)]
#[command(after_help = STATUS)]
pub struct CompareArgs {
    /// The record to compare with
    pub old: PathBuf,
    /// The record to judge
    pub new: PathBuf,
    #[command(flatten)]
    judge: JudgeArgs,
}

/// Arguments of `axplab check`.
#[derive(Debug, Args)]
#[command(after_help = STATUS)]
pub struct CheckArgs {
    /// The record to compare with; its rows and engines are measured again
    #[arg(long, value_name = "FILE")]
    pub baseline: PathBuf,
    /// Keep the new record in FILE
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Samples of each row on each engine, at least 5 [default: as many as the baseline has, from 7]
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(5..=1000))]
    pub samples: Option<u32>,
    #[command(flatten)]
    judge: JudgeArgs,
}

const STATUS: &str = "Examples:\n  \
    axplab compare old.json new.json --threshold 3\n  \
    axplab bench --quick -e native,auto -n 25 --sample-time 0.05 --json main.json\n  \
    axplab check --baseline main.json --json new.json\n\n\
    Verdicts: faster, slower, same, unclear (the interval reaches over the threshold), missing,\n\
    broken (a right result before, none now), incomparable (another CPU, compiler or program).\n\
    `check` measures again what came out slower, and says so only if it is slower again.\n\
    Exit status: 0 no slow-down found, 1 something is slower or broken, 2 a wrong call or nothing\n\
    that could be compared, 130 interrupted.";

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1000.0).contains(&value) => Ok(value),
        _ => Err("expected a number of per cent from 0 to 1000".into()),
    }
}

/// Runs `axplab compare`.
pub fn compare(args: &CompareArgs) -> anyhow::Result<Outcome> {
    let summary = summary(&args.judge)?;
    let options = options(&args.judge, &config(&args.judge)?.check);
    let (old, new) = (records::read(&args.old)?, records::read(&args.new)?);
    judge(&compare::compare(&old, &new, &options)?, &summary)
}

/// Runs `axplab check`.
pub fn check(args: CheckArgs) -> anyhow::Result<Outcome> {
    let summary = summary(&args.judge)?;
    let defaults = config(&args.judge)?.check;
    let options = options(&args.judge, &defaults);
    let old = records::read(&args.baseline)?;
    if old.rows.is_empty() {
        bail!("`{}` has no rows to measure again", args.baseline.display());
    }
    let cpu = old.rows.iter().find_map(|row| row.params.get("cpu")?.as_str());
    let rows: Vec<String> = old.rows.iter().map(|row| row.row.clone()).collect();
    let measure = |rows: Vec<String>, json: Option<PathBuf>| {
        // Those on a booted kernel are measured together, and have no names in the catalogue.
        let (kernels, rows): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| booted::is_row(row));
        bench::measured(cli::BenchArgs {
            booted: !kernels.is_empty(),
            rows,
            engines: old.engines().iter().map(|name| name.to_string()).collect(),
            samples: Some(args.samples.or(defaults.samples).unwrap_or(usual_samples(&old))),
            quick: old.rows.iter().any(|row| !row.comparable_to_published),
            all: false,
            resume: None,
            programs: Vec::new(),
            native_twins: Vec::new(),
            program_args: Vec::new(),
            scratch: None,
            jit: Vec::new(),
            shard: None,
            json,
            format: crate::report::Format::Table,
            cpu: Some(cpu.unwrap_or("ev56").to_owned()),
            // As long as before: translation is a part of each sample.
            sample_time: usual_seconds(&old),
            timeout: None,
            config: args.judge.config.clone(),
        })
    };
    let (new, interrupted) = measure(rows, args.json.clone())?;
    if interrupted {
        return Ok(Outcome::INTERRUPTED);
    }
    let mut comparison = compare::compare(&old, &new, &options)?;
    let doubtful = comparison.doubtful();
    if !doubtful.is_empty() {
        eprintln!("axplab: measuring again what is slower: {}", doubtful.join(", "));
        let (again, interrupted) = measure(doubtful, None)?;
        if interrupted {
            return Ok(Outcome::INTERRUPTED);
        }
        comparison.confirm(&compare::compare(&old, &again, &options)?);
    }
    judge(&comparison, &summary)
}

fn config(args: &JudgeArgs) -> anyhow::Result<Config> {
    Config::load(args.config.as_deref())
}

fn options(args: &JudgeArgs, defaults: &Defaults) -> Options {
    let base = args.base.clone().or_else(|| defaults.base.clone());
    Options {
        threshold: args.threshold.or(defaults.threshold).unwrap_or(5.0) / 100.0,
        base: base.unwrap_or_else(|| "native".to_owned()),
    }
}

/// As many as the baseline has: the larger of two spreads decides, so more would be wasted.
fn usual_samples(record: &Record) -> u32 {
    let results = record.rows.iter().flat_map(|row| &row.results);
    let most = results.map(|result| result.samples.len() as u32).max().unwrap_or(0);
    most.clamp(7, 1000)
}

/// The length of its samples: as it was asked for, or as they came out.
fn usual_seconds(record: &Record) -> Option<f64> {
    let asked = record.rows.iter().find_map(|row| row.params.get("sample_time")?.as_f64());
    if asked.is_some() {
        return asked;
    }
    let all: Vec<f64> = record
        .rows
        .iter()
        .flat_map(|row| &row.results)
        .filter_map(|result| result.seconds)
        .collect();
    crate::stats::median(&all).filter(|&seconds| seconds > 0.0)
}

/// Where the Markdown goes, checked before any measuring; the flag says whether it is added to what is there.
fn summary(args: &JudgeArgs) -> anyhow::Result<Option<(PathBuf, bool)>> {
    if let Some(path) = &args.markdown {
        record::check_writable(path)?;
        return Ok(Some((path.clone(), false)));
    }
    let step = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty());
    Ok(step.map(|path| (path.into(), true)))
}

fn judge(
    comparison: &compare::Comparison,
    summary: &Option<(PathBuf, bool)>,
) -> anyhow::Result<Outcome> {
    let mut out = std::io::stdout().lock();
    write!(out, "{}", comparison.table()).and_then(|()| out.flush()).context("standard output")?;
    if let Some((path, append)) = summary {
        keep(path, *append, comparison)
            .with_context(|| format!("cannot write the summary to `{}`", path.display()))?;
    }
    if comparison.nothing_compared() {
        bail!("nothing could be compared: {}", comparison.first_reason());
    }
    Ok(if comparison.alarms() { Outcome::Status(1) } else { Outcome::DONE })
}

fn keep(path: &Path, append: bool, comparison: &Comparison) -> anyhow::Result<()> {
    let text = comparison.markdown();
    if append {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
        return Ok(file.write_all(text.as_bytes())?);
    }
    record::write_atomically(path, |out| Ok(out.write_all(text.as_bytes())?))
}
