//! What translating costs each tier, as rows of their own: computed from what the engines said of
//! themselves in the other rows of a run. Called by `cmd/bench.rs` where every row is measured.

use std::collections::BTreeMap;

use crate::collect::{CODE_BYTES, COMPILE_TIME};
use crate::record::{Better, ResultRecord, RowRecord};
use crate::stats;

/// The rows: compile time and bytes of host code, by guest instruction. A sample is one measured
/// row's median; a tier that compiled nothing has no result.
pub fn rows(measured: &[RowRecord]) -> Vec<RowRecord> {
    [
        ("compile-time", "ns/instruction", COMPILE_TIME),
        ("code-bytes", "bytes/instruction", CODE_BYTES),
    ]
    .into_iter()
    .filter_map(|(name, unit, metric)| {
        let results = results(measured, metric);
        let over = BTreeMap::from([("over".to_owned(), measured.len().into())]);
        (!results.is_empty()).then(|| RowRecord {
            suite: "translation".into(),
            row: name.into(),
            params: over,
            unit: unit.into(),
            better: Better::Lower,
            work: 1.0,
            comparable_to_published: true,
            results,
        })
    })
    .collect()
}

fn results(measured: &[RowRecord], metric: &str) -> Vec<ResultRecord> {
    let mut by_engine: Vec<(&str, Vec<f64>)> = Vec::new();
    for result in measured.iter().flat_map(|row| &row.results).filter(|result| result.verified) {
        let found = result.metrics.get(metric);
        let Some(value) = found.and_then(|metric| stats::median(&metric.samples)) else { continue };
        match by_engine.iter_mut().find(|(engine, _)| *engine == result.engine) {
            Some((_, values)) => values.push(value),
            None => by_engine.push((&result.engine, vec![value])),
        }
    }
    by_engine.into_iter().map(|(engine, values)| ResultRecord::measured(engine, values)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Metric;

    fn row(engine: &str, values: &[f64], verified: bool) -> RowRecord {
        let metric = Metric { unit: "ns".into(), better: Better::Lower, samples: values.to_vec() };
        RowRecord {
            suite: String::new(),
            row: "x".into(),
            params: BTreeMap::new(),
            unit: String::new(),
            better: Better::Higher,
            work: 1.0,
            comparable_to_published: true,
            results: vec![ResultRecord {
                engine: engine.into(),
                verified,
                metrics: BTreeMap::from([(COMPILE_TIME.to_owned(), metric)]),
                ..ResultRecord::default()
            }],
        }
    }

    #[test]
    fn a_tier_has_the_median_of_its_rows() {
        let measured = [
            row("opt", &[100.0, 300.0, 200.0], true),
            row("opt", &[400.0], true),
            row("opt", &[9000.0], false),
            row("baseline", &[7.0], true),
        ];
        let found = rows(&measured);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].row, "compile-time");
        assert_eq!(found[0].result("opt").unwrap().samples, [200.0, 400.0]);
        assert_eq!(found[0].result("opt").unwrap().median, Some(300.0));
        assert_eq!(found[0].result("baseline").unwrap().median, Some(7.0));
        assert!(rows(&[]).is_empty());
    }
}
