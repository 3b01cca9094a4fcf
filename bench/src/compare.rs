//! Whether one run is slower than another: ratios within each run, bootstrap intervals of their change, and a verdict per row and tier.
//!
//! Absolute times drift with the machine, so a run's time is divided by the time of a fixed program
//! measured in turn with it. The engine's own geometric mean, in which rows weigh by how exactly they were
//! measured, decides first; rows are judged by intervals widened by Holm's rule for how many of them
//! there are. `cmd/compare.rs` prints the result.

use std::fmt::Write as _;

use anyhow::bail;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::record::{Better, Record, ResultRecord, RowRecord};
use crate::stats;

/// How to judge.
#[derive(Debug, Clone)]
pub struct Options {
    /// Changes up to this share are let pass.
    pub threshold: f64,
    /// The engine that times are divided by.
    pub base: String,
}

/// What is said of a row or a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its whole interval lies below the threshold's inverse.
    Faster,
    /// Its whole interval lies beyond the threshold.
    Slower,
    /// Its whole interval lies within the threshold.
    Same,
    /// Its interval reaches over the threshold, or there are too few samples.
    Unclear,
    /// Only one of the runs has it.
    Missing,
    /// The old run has a right result, the new one an error.
    Broken,
    /// Something else than the engine has changed.
    Incomparable,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Unclear => "unclear",
            Self::Missing => "missing",
            Self::Broken => "broken",
            Self::Incomparable => "incomparable",
        }
    }
}

/// A change of time: 1 is none, 1.1 takes a tenth longer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Best estimate.
    pub ratio: f64,
    /// Where it lies, at the level that the number of comparisons asks for.
    pub interval: (f64, f64),
}

/// The verdict on one row of one engine, or (without a row) on an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The row; for a tier, how many rows it has.
    pub row: String,
    /// The engine.
    pub engine: String,
    /// The change, where there is one.
    pub change: Option<Change>,
    /// What to think of it.
    pub verdict: Verdict,
    /// Why there is no better verdict.
    pub why: String,
}

/// All verdicts.
#[derive(Debug)]
pub struct Comparison {
    options: Options,
    /// One for each engine.
    pub tiers: Vec<Line>,
    /// One for each engine in each row.
    pub rows: Vec<Line>,
    notes: Vec<String>,
}

/// Samples below which nothing is judged.
const LEAST_SAMPLES: usize = 5;
const RESAMPLES: usize = 4000;
/// How sure, over all comparisons together.
const LEVEL: f64 = 0.95;

/// Compares two runs; the error says why they cannot be compared at all.
pub fn compare(old: &Record, new: &Record, options: &Options) -> anyhow::Result<Comparison> {
    let base = options.base.as_str();
    if ["interp", "interp-match", "baseline", "opt", "auto"].contains(&base) {
        bail!(
            "`{base}` changes with the build; compare by an engine that does not, such as native"
        );
    }
    for (record, which) in [(old, "old"), (new, "new")] {
        if !record.engines().contains(&base) {
            bail!(
                "the {which} record has no engine `{base}` to divide by; measure it too, or see --base"
            );
        }
    }
    let mut notes = Vec::new();
    if !(old.randomised_layout && new.randomised_layout) {
        notes.push(
            "a record without randomised layout: luck of code placement is not in its spread"
                .into(),
        );
    }
    let mut found: Vec<(Line, Option<Bootstrap>)> = Vec::new();
    for engine in union(&old.engines(), &new.engines()) {
        // Programs that no build of ours makes faster or slower.
        if engine == base || engine.starts_with("native") || engine == "qemu-alpha" {
            continue;
        }
        let names = |record: &'_ Record| -> Vec<String> {
            record.rows.iter().map(RowRecord::label).collect()
        };
        let (olds, news) = (names(old), names(new));
        let olds: Vec<&str> = olds.iter().map(String::as_str).collect();
        let news: Vec<&str> = news.iter().map(String::as_str).collect();
        for name in union(&olds, &news) {
            let of = |record: &'_ Record| record.rows.iter().position(|row| row.label() == name);
            let (a, b) = (of(old).map(|i| &old.rows[i]), of(new).map(|i| &new.rows[i]));
            let known = |row: Option<&RowRecord>| row.and_then(|row| row.result(engine)).is_some();
            if !known(a) && !known(b) {
                continue;
            }
            let seed = found.len() as u64;
            let judged = match measurable(old, new, a, b, engine, base) {
                Ok((before, after)) => Ok(Bootstrap::new(&before, &after, seed)),
                Err(reason) => Err(reason),
            };
            let (verdict, why, bootstrap) = match judged {
                Ok(bootstrap) => (Verdict::Unclear, String::new(), Some(bootstrap)),
                Err((verdict, why)) => (verdict, why, None),
            };
            let line = Line { row: name.into(), engine: engine.into(), change: None, verdict, why };
            found.push((line, bootstrap));
        }
    }
    let tiers = tiers(&found, options.threshold);
    holm(&mut found, options.threshold);
    let rows = found.into_iter().map(|(line, _)| line).collect();
    Ok(Comparison { options: options.clone(), tiers, rows, notes })
}

fn union<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<&'a str> {
    let mut all = a.to_vec();
    all.extend(b.iter().filter(|name| !a.contains(name)));
    all
}

type Reason = (Verdict, String);

/// What was measured, without how often and how long.
fn inputs(row: &RowRecord) -> Vec<(&String, &serde_json::Value)> {
    let how = |name: &str| matches!(name, "samples" | "sample_time");
    row.params.iter().filter(|(name, _)| !how(name)).collect()
}

/// The logarithms of the ratios of both runs, or what stands against comparing them.
fn measurable(
    old: &Record,
    new: &Record,
    a: Option<&RowRecord>,
    b: Option<&RowRecord>,
    engine: &str,
    base: &str,
) -> Result<(Vec<f64>, Vec<f64>), Reason> {
    let missing = |which: &str| (Verdict::Missing, format!("not in the {which} record"));
    let incomparable = |why: &str| Err((Verdict::Incomparable, why.to_owned()));
    let a = a.ok_or_else(|| missing("old"))?;
    let b = b.ok_or_else(|| missing("new"))?;
    let x = a.result(engine).ok_or_else(|| missing("old"))?;
    let y = b.result(engine).ok_or_else(|| missing("new"))?;
    if !x.verified {
        return Err((Verdict::Missing, "no right result in the old record".into()));
    }
    if !y.verified {
        let why = y.error.clone().unwrap_or_else(|| "no right result".into());
        return Err((Verdict::Broken, why));
    }
    let host = |record: &Record| (record.host.cpu.clone(), record.host.cpu_id.clone());
    if host(old) != host(new) || old.host.arch != new.host.arch {
        return incomparable("another CPU");
    }
    if old.axplab.profile != new.axplab.profile {
        return incomparable("a debug build against a release build");
    }
    if (inputs(a), &a.unit, a.better, a.work) != (inputs(b), &b.unit, b.better, b.work) {
        return incomparable("another input or unit");
    }
    let long = |row: &RowRecord| row.params.get("sample_time").and_then(|time| time.as_f64());
    if long(a).zip(long(b)).is_some_and(|(a, b)| a != b) {
        return incomparable("samples of another length: translation is a part of each");
    }
    let right = |row: &'_ RowRecord| -> Option<ResultRecord> {
        row.result(base).filter(|result| result.verified).cloned()
    };
    let (Some(p), Some(q)) = (right(a), right(b)) else {
        return Err((Verdict::Missing, format!("no right result of {base} to divide by")));
    };
    if p.compiler != q.compiler {
        return incomparable("another compiler of the base program");
    }
    if p.artifact_sha256 != q.artifact_sha256 || p.artifact_sha256.is_none() {
        return incomparable("another base program");
    }
    if x.artifact_sha256 != y.artifact_sha256 {
        return incomparable("another guest program");
    }
    let (before, after) = (logs(a, x, &p), logs(b, y, &q));
    if before.len().min(after.len()) < LEAST_SAMPLES {
        let count = before.len().min(after.len());
        return Err((Verdict::Unclear, format!("{count} samples; {LEAST_SAMPLES} are needed")));
    }
    if before.iter().chain(&after).any(|x| !x.is_finite()) {
        return incomparable("a sample is zero or no number");
    }
    Ok((before, after))
}

/// Time by the base's time of the same round: neighbours in time share what disturbed them.
fn logs(row: &RowRecord, ours: &ResultRecord, base: &ResultRecord) -> Vec<f64> {
    let pairs = ours.samples.iter().zip(&base.samples);
    pairs
        .map(|(&x, &b)| match row.better {
            Better::Higher => (b / x).ln(),
            Better::Lower => (x / b).ln(),
        })
        .collect()
}

/// Resampled changes of a trimmed mean of logarithms.
#[derive(Debug, Clone)]
struct Bootstrap {
    estimate: f64,
    changes: Vec<f64>,
    freedom: f64,
    /// Samples of the smaller run.
    count: f64,
}

/// Standard deviation of a row's change below which exactness earns no more weight: layouts and a
/// machine's mood differ by as much between two runs, whatever the samples within them say.
const EXACT: f64 = 0.01;

impl Bootstrap {
    fn new(before: &[f64], after: &[f64], seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(0x5eed_0000 + seed);
        let center = |xs: &[f64]| stats::trimmed_mean(xs).unwrap_or(f64::NAN);
        let mut draw = |xs: &[f64]| {
            let drawn: Vec<f64> = xs.iter().map(|_| xs[random.usize(..xs.len())]).collect();
            center(&drawn)
        };
        let changes = (0..RESAMPLES).map(|_| draw(after) - draw(before)).collect();
        Self {
            estimate: center(after) - center(before),
            changes,
            freedom: (before.len() + after.len() - 2) as f64,
            count: before.len().min(after.len()) as f64,
        }
    }

    fn variance(&self) -> f64 {
        let squares: f64 = self.changes.iter().map(|x| (x - self.estimate).powi(2)).sum();
        squares / RESAMPLES as f64
    }

    /// The mean over rows, whose samples are independent of each other. Rows weigh by their exactness:
    /// one row on which a machine is moody would otherwise hide what all others show.
    fn mean(all: &[&Self]) -> Option<Self> {
        let weights: Vec<f64> =
            all.iter().map(|one| 1.0 / (one.variance() + EXACT * EXACT)).collect();
        let total: f64 = weights.iter().sum();
        let of = |get: &dyn Fn(&Self) -> f64| -> f64 {
            all.iter().zip(&weights).map(|(one, weight)| get(one) * weight / total).sum()
        };
        // Welch and Satterthwaite: what the spread is known from, where few rows weigh most.
        let spreads: Vec<f64> = all
            .iter()
            .zip(&weights)
            .map(|(one, weight)| weight * weight * (one.variance() + EXACT * EXACT))
            .collect();
        let each = all.iter().zip(&spreads).map(|(one, spread)| spread * spread / one.freedom);
        let freedom = spreads.iter().sum::<f64>().powi(2) / each.sum::<f64>();
        (!all.is_empty()).then(|| Self {
            estimate: of(&|one| one.estimate),
            changes: (0..RESAMPLES).map(|i| of(&|one| one.changes[i])).collect(),
            freedom,
            count: all.iter().map(|one| one.count).fold(f64::MAX, f64::min),
        })
    }

    /// The percentile interval, widened to what Student's distribution asks of so few samples: resampling
    /// alone knows only the spread that it has seen.
    fn interval(&self, level: f64) -> (f64, f64) {
        let tail = (1.0 - level) / 2.0;
        let mut sorted = self.changes.clone();
        sorted.sort_by(f64::total_cmp);
        let last = (sorted.len() - 1) as f64;
        let at = |share: f64| sorted[(last * share).round() as usize];
        let wide = widening(tail, self.freedom, self.count);
        let (low, high) = (at(tail), at(1.0 - tail));
        (
            self.estimate + (low - self.estimate).min(0.0) * wide,
            self.estimate + (high - self.estimate).max(0.0) * wide,
        )
    }

    fn change(&self, level: f64) -> Change {
        let (low, high) = self.interval(level);
        Change { ratio: self.estimate.exp(), interval: (low.exp(), high.exp()) }
    }

    /// How far beyond the threshold, by its own spread: the order of Holm's rule.
    fn score(&self, threshold: f64) -> f64 {
        let (low, high) = self.interval(LEVEL);
        (self.estimate.abs() - threshold.ln_1p()) / (high - low).max(1e-12)
    }
}

fn widening(tail: f64, freedom: f64, count: f64) -> f64 {
    let (Ok(student), Ok(normal)) = (StudentsT::new(0.0, 1.0, freedom), Normal::new(0.0, 1.0))
    else {
        return 1.0;
    };
    let quantiles = student.inverse_cdf(1.0 - tail) / normal.inverse_cdf(1.0 - tail);
    quantiles.max(1.0) * (count / (count - 1.0)).sqrt()
}

fn verdict(change: &Change, threshold: f64) -> Verdict {
    let (low, high) = change.interval;
    let limit = 1.0 + threshold;
    match () {
        () if low > limit => Verdict::Slower,
        () if high < 1.0 / limit => Verdict::Faster,
        () if low >= 1.0 / limit && high <= limit => Verdict::Same,
        () => Verdict::Unclear,
    }
}

fn tiers(found: &[(Line, Option<Bootstrap>)], threshold: f64) -> Vec<Line> {
    let mut engines: Vec<&str> = Vec::new();
    for (line, _) in found {
        if !engines.contains(&line.engine.as_str()) {
            engines.push(&line.engine);
        }
    }
    let level = 1.0 - (1.0 - LEVEL) / engines.len().max(1) as f64;
    let judge = |engine: &&str| {
        let rows: Vec<&Bootstrap> = found
            .iter()
            .filter(|(line, _)| line.engine == *engine)
            .filter_map(|(_, bootstrap)| bootstrap.as_ref())
            .collect();
        let change = Bootstrap::mean(&rows).map(|mean| mean.change(level));
        Line {
            row: format!("geometric mean of {}", rows.len()),
            engine: engine.to_string(),
            change,
            verdict: change.map_or(Verdict::Missing, |change| verdict(&change, threshold)),
            why: if rows.is_empty() { "no row could be compared".into() } else { String::new() },
        }
    };
    engines.iter().map(judge).collect()
}

/// Holm's rule: the clearest row is judged as one of all, the next as one of the rest, until one is not beyond.
fn holm(found: &mut [(Line, Option<Bootstrap>)], threshold: f64) {
    let mut order: Vec<(usize, f64)> = found
        .iter()
        .enumerate()
        .filter_map(|(at, (_, bootstrap))| Some((at, bootstrap.as_ref()?.score(threshold))))
        .collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut stopped = false;
    for (rank, (at, _)) in order.iter().enumerate() {
        let (line, Some(bootstrap)) = &mut found[*at] else { continue };
        let level = 1.0 - (1.0 - LEVEL) / (order.len() - rank) as f64;
        let change = bootstrap.change(level);
        let said = verdict(&change, threshold);
        let beyond = matches!(said, Verdict::Slower | Verdict::Faster);
        line.verdict = if beyond && stopped { Verdict::Unclear } else { said };
        stopped |= !beyond;
        line.change = Some(change);
    }
}

impl Comparison {
    /// Something is slower, or no longer right.
    pub fn alarms(&self) -> bool {
        let alarm = |line: &Line| matches!(line.verdict, Verdict::Slower | Verdict::Broken);
        self.tiers.iter().chain(&self.rows).any(alarm)
    }

    /// The rows to measure again before anybody is alarmed: all, if an engine as a whole is slower.
    pub fn doubtful(&self) -> Vec<String> {
        let slower = |line: &&Line| line.verdict == Verdict::Slower;
        let all = self.tiers.iter().any(|line| slower(&line));
        let mut names: Vec<String> = self
            .rows
            .iter()
            .filter(|line| all || slower(line))
            .map(|line| line.row.clone())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Takes back what was slower and is not when measured `again`: what disturbs a machine for seconds makes
    /// the samples of a row alike, and their interval too short.
    pub fn confirm(&mut self, again: &Comparison) {
        let doubt = |line: &mut Line, second: Option<&Line>| {
            let repeated = second.is_some_and(|second| second.verdict == Verdict::Slower);
            if line.verdict == Verdict::Slower && !repeated {
                line.verdict = Verdict::Unclear;
                line.why = "slower, not when measured again".into();
            }
        };
        for line in &mut self.tiers {
            doubt(line, again.tiers.iter().find(|second| second.engine == line.engine));
        }
        for line in &mut self.rows {
            let same = |second: &&Line| second.engine == line.engine && second.row == line.row;
            doubt(line, again.rows.iter().find(same));
        }
    }

    /// There is not one row with a change, nor one that broke.
    pub fn nothing_compared(&self) -> bool {
        !self.rows.iter().any(|line| line.change.is_some() || line.verdict == Verdict::Broken)
    }

    /// Why the first row was not compared.
    pub fn first_reason(&self) -> &str {
        self.rows.first().map_or("no engine of both runs", |line| &line.why)
    }

    fn head(&self) -> String {
        format!(
            "time by {}'s time, new to old; threshold {:.1} %",
            self.options.base,
            self.options.threshold * 100.0
        )
    }

    fn cells(line: &Line) -> [String; 5] {
        let (change, interval) = match line.change {
            Some(change) => (
                percent(change.ratio),
                format!("{} .. {}", percent(change.interval.0), percent(change.interval.1)),
            ),
            None => ("-".into(), line.why.clone()),
        };
        let verdict = match line.change {
            Some(_) if !line.why.is_empty() => format!("{} ({})", line.verdict.name(), line.why),
            _ => line.verdict.name().to_owned(),
        };
        [line.engine.clone(), line.row.clone(), change, interval, verdict]
    }

    /// For the terminal.
    pub fn table(&self) -> String {
        let mut table = crate::report::plain_table();
        table.set_header(HEADER);
        for line in self.tiers.iter().chain(&self.rows) {
            table.add_row(Self::cells(line));
        }
        let mut text = format!("{}\n\n{table}\n", self.head());
        for note in &self.notes {
            let _ = writeln!(text, "\nnote: {note}");
        }
        let _ = writeln!(text, "\n{}", self.conclusion());
        text
    }

    /// For a merge request or a step's summary.
    pub fn markdown(&self) -> String {
        let mut text = format!("## axplab: {}\n\n{}\n\n", self.conclusion(), self.head());
        let _ = writeln!(text, "| {} |\n| --- | --- | ---: | ---: | --- |", HEADER.join(" | "));
        for line in self.tiers.iter().chain(&self.rows) {
            let cells = Self::cells(line).map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        for note in &self.notes {
            let _ = writeln!(text, "\nNote: {note}");
        }
        text
    }

    fn conclusion(&self) -> String {
        let count = |verdict| self.rows.iter().filter(|line| line.verdict == verdict).count();
        let tiers: Vec<&str> = self
            .tiers
            .iter()
            .filter(|line| line.verdict == Verdict::Slower)
            .map(|line| line.engine.as_str())
            .collect();
        let tiers =
            if tiers.is_empty() { String::new() } else { format!("{} slower; ", tiers.join(", ")) };
        let mut parts = Vec::new();
        for verdict in [
            Verdict::Slower,
            Verdict::Broken,
            Verdict::Faster,
            Verdict::Same,
            Verdict::Unclear,
            Verdict::Missing,
            Verdict::Incomparable,
        ] {
            if count(verdict) > 0 {
                parts.push(format!("{} {}", count(verdict), verdict.name()));
            }
        }
        format!("{tiers}rows: {}", parts.join(", "))
    }
}

const HEADER: [&str; 5] = ["engine", "row", "change", "interval", "verdict"];

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

#[cfg(test)]
mod tests;
