//! From samples to the record: the results of cells, what must be said about them, and the nbench-style indices.

use std::collections::BTreeMap;

use crate::catalogue::{self, Row};
use crate::measure::Sample;
use crate::plan::{Cell, Settings};
use crate::record::{Better, Indices, Metric, ResultRecord, RowRecord};
use crate::warning::{self, Warning};
use crate::{report, stats};

/// What the samples are of.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    /// A row of the catalogue.
    Row(&'a Row),
    /// A program of the user's own, whose figure is its time from start to end.
    Whole,
}

impl Subject<'_> {
    fn figure(self, sample: &Sample, reps: f64) -> f64 {
        match self {
            Self::Row(row) => row.figure(sample, reps),
            Self::Whole => sample.wall,
        }
    }
}

/// The result of one cell: never a time beside an error. `compiler` made the file of that hash.
pub fn result(subject: Subject, cell: &Cell, sha256: &str, compiler: Option<&str>) -> ResultRecord {
    let artifact_sha256 = Some(sha256.to_owned());
    let compiler = compiler.map(str::to_owned);
    if cell.error.is_some() || cell.samples.is_empty() {
        let error = cell.error.clone().or_else(|| Some("interrupted".into()));
        let engine = cell.engine.name.clone();
        return ResultRecord { engine, artifact_sha256, compiler, error, ..Default::default() };
    }
    let column =
        |get: &dyn Fn(&Sample) -> f64| -> Vec<f64> { cell.samples.iter().map(get).collect() };
    let values = column(&|s| subject.figure(s, cell.reps as f64));
    ResultRecord {
        artifact_sha256,
        compiler,
        order: cell.order.clone(),
        guest_instructions: cell.samples.iter().find_map(|sample| sample.stats.instructions),
        seconds: stats::median(&column(&|s| s.seconds)),
        cpu_user: stats::median(&column(&|s| s.cpu_user)),
        cpu_sys: stats::median(&column(&|s| s.cpu_sys)),
        max_rss: cell.samples.iter().map(|sample| sample.max_rss).max(),
        phases: phases(&cell.samples),
        metrics: metrics(cell),
        ..ResultRecord::measured(&cell.engine.name, values)
    }
}

fn phases(samples: &[Sample]) -> BTreeMap<String, f64> {
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, &seconds) in samples.iter().flat_map(|sample| &sample.stats.phases) {
        all.entry(name).or_default().push(seconds);
    }
    let medians =
        all.into_iter().filter_map(|(name, xs)| Some((name.to_owned(), stats::median(&xs)?)));
    medians.collect()
}

fn metrics(cell: &Cell) -> BTreeMap<String, Metric> {
    type Get<'a> = &'a dyn Fn(&Sample) -> Option<f64>;
    let reps = cell.reps as f64;
    let quantities: [(&str, &str, Get); 7] = [
        ("work_seconds", "s", &|s| Some(s.seconds)),
        ("wall", "s", &|s| Some(s.wall)),
        ("repetitions", "1", &|_| Some(reps)),
        ("code_bytes", "B", &|s| s.stats.code_bytes.map(|x| x as f64)),
        ("compiled_instructions", "1", &|s| s.stats.compiled_instructions.map(|x| x as f64)),
        (COMPILE_TIME, "ns", &|s| Some(s.stats.phases.get("translate")? * 1e9 / compiled(s)?)),
        (CODE_BYTES, "B", &|s| Some(s.stats.code_bytes.filter(|&n| n > 0)? as f64 / compiled(s)?)),
    ];
    let mut metrics = BTreeMap::new();
    for (name, unit, get) in quantities {
        // A quantity that an engine does not tell is absent, not zero.
        let samples: Option<Vec<f64>> = cell.samples.iter().map(get).collect();
        if let Some(samples) = samples {
            let metric = Metric { unit: unit.to_owned(), better: Better::Lower, samples };
            metrics.insert(name.to_owned(), metric);
        }
    }
    let named = cell.samples.first().into_iter().flat_map(|sample| sample.extra.keys());
    for name in named {
        let samples: Option<Vec<f64>> =
            cell.samples.iter().map(|sample| sample.extra.get(name).copied()).collect();
        if let Some(samples) = samples {
            let unit = match () {
                () if name.ends_with("_cpu") => "%",
                () if name.ends_with("_user") || name.ends_with("_system") => "s",
                () => "1",
            };
            let metric = Metric { unit: unit.to_owned(), better: Better::Lower, samples };
            metrics.insert(name.clone(), metric);
        }
    }
    metrics
}

/// Nanoseconds of translation by guest instruction, as a metric's name.
pub const COMPILE_TIME: &str = "compile_time_per_instruction";
/// Bytes of host code by guest instruction.
pub const CODE_BYTES: &str = "code_bytes_per_instruction";

/// Guest instructions that were compiled; none where too few were to tell a rate.
fn compiled(sample: &Sample) -> Option<f64> {
    sample.stats.compiled_instructions.filter(|&count| count >= 16).map(|count| count as f64)
}

/// What the samples of one cell give cause to say.
pub fn warnings(
    row: &str,
    settings: &Settings,
    cell: &Cell,
    result: &ResultRecord,
) -> Vec<Warning> {
    let engine = &cell.engine.name;
    let mut warnings = Vec::new();
    let Some(summary) = stats::Summary::new(&result.samples) else { return warnings };
    let count = result.samples.len();
    if count < warning::FEW_SAMPLES && count < settings.samples as usize {
        let message = format!("only {count} samples, each takes long");
        warnings.push(Warning::cell("few-samples", row, engine, message));
    }
    if summary.spread() > warning::NOISE {
        let message = format!("spread {:.1} %", summary.spread() * 100.0);
        warnings.push(Warning::cell("noise", row, engine, message));
    }
    if summary.outliers > 0 && count >= warning::OUTLIER_SAMPLES {
        let message = format!("{} of {count} samples lie far off", summary.outliers);
        warnings.push(Warning::cell("outliers", row, engine, message));
    }
    warnings
}

/// The first engine whose file system refused to read past the page cache.
pub fn refused_direct(row: &RowRecord) -> Option<String> {
    let refused = |result: &&ResultRecord| {
        result.metrics.get("direct").is_some_and(|metric| metric.samples.contains(&0.0))
    };
    row.results.iter().find(refused).map(|result| result.engine.clone())
}

/// Says so if results were measured on less than a whole CPU: other processes ran, whatever the load was before.
pub fn starved(rows: &[RowRecord]) -> Option<Warning> {
    let busy = rows.iter().filter(|row| !catalogue::waits(&row.suite) && row.suite != "program");
    let shares: Vec<f64> = busy.flat_map(|row| &row.results).filter_map(cpu_share).collect();
    let starved = shares.iter().filter(|&&share| share < 0.9).count();
    (starved > 0).then(|| {
        let message = format!(
            "other processes ran: {starved} of {} results had less than 90 % of a CPU",
            shares.len()
        );
        Warning::general("starved", message)
    })
}

/// CPU time by wall time of a result's process; none where it ran on another machine, or too shortly to tell.
fn cpu_share(result: &ResultRecord) -> Option<f64> {
    let wall = stats::median(&result.metrics.get("wall")?.samples)?;
    let share = (result.cpu_user? + result.cpu_sys?) / wall;
    (wall > 0.05 && share > 0.1).then_some(share)
}

/// The nbench-style indices of each engine that has a verified value in every row of one.
pub fn indices(all: &[Row], rows: &[RowRecord]) -> Indices {
    let mut indices = Indices::default();
    let engines: Vec<String> =
        rows.iter().flat_map(|row| &row.results).map(|result| result.engine.clone()).collect();
    for (members, index) in [
        (report::INDEX_MEMORY, &mut indices.memory),
        (report::INDEX_INTEGER, &mut indices.integer),
        (report::INDEX_FP, &mut indices.fp),
    ] {
        for engine in &engines {
            let ratios: Option<Vec<f64>> = members
                .iter()
                .map(|name| {
                    let baseline = all.iter().find(|row| row.name == *name)?.nbench?.k6;
                    let row = rows.iter().find(|row| row.row == *name)?;
                    let result = row.result(engine).filter(|result| result.verified)?;
                    Some(result.median? / baseline)
                })
                .collect();
            if let Some(value) = ratios.as_deref().and_then(stats::geometric_mean) {
                index.insert(engine.clone(), value);
            }
        }
    }
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(wall: f64, cpu: f64) -> ResultRecord {
        let metric = Metric { unit: "s".into(), better: Better::Lower, samples: vec![wall] };
        ResultRecord {
            cpu_user: Some(cpu),
            cpu_sys: Some(0.0),
            metrics: BTreeMap::from([("wall".into(), metric)]),
            ..ResultRecord::default()
        }
    }

    fn row(name: &str, median: f64, verified: bool) -> RowRecord {
        let result =
            ResultRecord { engine: "x".into(), median: Some(median), verified, ..result(1.0, 1.0) };
        RowRecord {
            suite: String::new(),
            row: name.into(),
            params: BTreeMap::new(),
            unit: String::new(),
            better: Better::Higher,
            work: 1.0,
            comparable_to_published: true,
            results: vec![result],
        }
    }

    #[test]
    fn a_process_that_waited_for_a_cpu_is_told_from_one_on_another_machine() {
        assert!(cpu_share(&result(1.0, 0.5)).unwrap() < 0.9);
        assert!(cpu_share(&result(1.0, 1.7)).unwrap() > 0.9);
        assert_eq!(cpu_share(&result(1.0, 0.01)), None);
        assert_eq!(cpu_share(&result(0.01, 0.005)), None);
    }

    #[test]
    fn an_index_needs_every_member_verified() {
        let all = crate::catalogue::rows();
        let k6 =
            |name: &&str| all.iter().find(|row| row.name == **name).unwrap().nbench.unwrap().k6;
        let mut rows: Vec<RowRecord> = report::INDEX_INTEGER
            .iter()
            .zip([2.0, 2.0, 8.0, 8.0])
            .map(|(name, ratio)| row(name, k6(name) * ratio, true))
            .collect();
        let found = indices(&all, &rows);
        assert!((found.integer["x"] - 4.0).abs() < 1e-9);
        assert!(found.memory.is_empty() && found.fp.is_empty());
        rows[2].results[0].verified = false;
        assert!(indices(&all, &rows).integer.is_empty());
    }

    #[test]
    fn the_indices_have_the_members_that_the_catalogue_gives_them() {
        for (members, class) in [
            (report::INDEX_MEMORY, axp_guests::Class::Memory),
            (report::INDEX_INTEGER, axp_guests::Class::Integer),
            (report::INDEX_FP, axp_guests::Class::Fp),
        ] {
            let mut theirs: Vec<String> = crate::catalogue::rows()
                .iter()
                .filter(|row| row.nbench.is_some_and(|nbench| nbench.index == class))
                .map(|row| row.name.clone())
                .collect();
            let mut ours = members.to_vec();
            theirs.sort();
            ours.sort();
            assert_eq!(ours, theirs);
        }
    }
}
