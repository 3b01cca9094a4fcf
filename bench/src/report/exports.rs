//! What tools that follow benchmarks over time read: Bencher's metric format and github-action-benchmark's lists.

use std::io::Write;

use serde_json::{Map, Value, json};

use super::ReportWriter;
use crate::record::{Better, Record, ResultRecord, RowRecord};
use crate::stats::Summary;

/// Bencher Metric Format: benchmark, measure, value with its interval.
pub struct Bmf;

/// github-action-benchmark's `customSmallerIsBetter`.
pub struct GithubActionBenchmark;

/// Every verified result with a name that is its own over all hosts.
fn results(records: &[Record]) -> Vec<(String, &Record, &RowRecord, &ResultRecord, Summary)> {
    let mut all = Vec::new();
    for (index, record) in records.iter().enumerate() {
        for row in &record.rows {
            for result in row.results.iter().filter(|result| result.verified) {
                let Some(summary) = Summary::new(&result.samples) else { continue };
                let host =
                    if records.len() > 1 { format!("host {}/", index + 1) } else { String::new() };
                let name = format!("{host}{}/{}", row.label(), result.engine);
                all.push((name, record, row, result, summary));
            }
        }
    }
    all
}

/// Nanoseconds in a unit of time, which is what Bencher's `latency` is counted in.
fn nanoseconds(unit: &str) -> Option<f64> {
    [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)]
        .into_iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| factor)
}

impl ReportWriter for Bmf {
    fn write(&self, records: &[Record], out: &mut dyn Write) -> anyhow::Result<()> {
        let mut all = Map::new();
        for (name, _, row, result, summary) in results(records) {
            let (measure, factor) = match (row.better, nanoseconds(&row.unit)) {
                (Better::Lower, Some(factor)) => ("latency", factor),
                (Better::Lower, None) => ("cost", 1.0),
                (Better::Higher, _) => ("throughput", 1.0),
            };
            let mut measures = Map::new();
            measures.insert(
                measure.into(),
                json!({
                    "value": summary.median * factor,
                    "lower_value": summary.interval.0 * factor,
                    "upper_value": summary.interval.1 * factor,
                }),
            );
            if let Some(ratio) = row.time_ratio(&result.engine, "native") {
                measures.insert("time-to-native".into(), json!({ "value": ratio }));
            }
            all.insert(name, Value::Object(measures));
        }
        finish(out, &Value::Object(all))
    }
}

impl ReportWriter for GithubActionBenchmark {
    fn write(&self, records: &[Record], out: &mut dyn Write) -> anyhow::Result<()> {
        let entries: Vec<Value> = results(records)
            .into_iter()
            .map(|(name, record, row, result, summary)| {
                // One list has one direction, so rates become times.
                let (value, unit) = match row.better {
                    Better::Lower => (summary.median, row.unit.clone()),
                    Better::Higher => (1.0 / summary.median, inverse(&row.unit)),
                };
                let hash = result.artifact_sha256.as_deref().unwrap_or("unknown");
                json!({
                    "name": name,
                    "unit": unit,
                    "value": value,
                    "range": format!("± {:.1} %", summary.spread() * 100.0),
                    "extra": format!(
                        "{}\ncommit {}\nprogram {hash}\n{} samples",
                        record.host.cpu,
                        record.axplab.commit,
                        result.samples.len()
                    ),
                })
            })
            .collect();
        finish(out, &Value::Array(entries))
    }
}

fn inverse(unit: &str) -> String {
    match unit.split_once('/') {
        Some((what, "s")) => format!("s/{what}"),
        _ => format!("1/({unit})"),
    }
}

fn finish(out: &mut dyn Write, value: &Value) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::record;

    fn json(writer: &dyn ReportWriter, records: &[Record]) -> Value {
        let mut out = Vec::new();
        writer.write(records, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn bencher_gets_values_within_their_intervals() {
        let mut one = record(&["idea", "pi"], &[("native", &[40.0]), ("auto", &[9.0, 10.0, 12.0])]);
        one.rows[1].better = Better::Lower;
        one.rows[1].unit = "ms".into();
        one.rows[0].results[0].verified = false;
        let bmf = json(&Bmf, std::slice::from_ref(&one));
        let auto = &bmf["idea/auto"]["throughput"];
        assert_eq!((&auto["value"], &auto["lower_value"]), (&json!(10.0), &json!(9.0)));
        assert_eq!(bmf["pi/auto"]["latency"]["value"], 10e6);
        assert_eq!(bmf["pi/auto"]["time-to-native"]["value"], 0.25);
        assert!(bmf.get("idea/native").is_none(), "a result that is not verified is exported");
        let two = json(&Bmf, &[one.clone(), one]);
        assert!(two.get("host 2/pi/native").is_some());
    }

    #[test]
    fn github_action_benchmark_gets_one_direction() {
        let list = json(&GithubActionBenchmark, &[record(&["idea"], &[("auto", &[8.0])])]);
        assert_eq!((&list[0]["value"], &list[0]["unit"]), (&json!(0.125), &json!("s/1")));
        for field in ["name", "unit", "value", "range", "extra"] {
            assert!(!list[0][field].is_null(), "{field}");
        }
    }
}
