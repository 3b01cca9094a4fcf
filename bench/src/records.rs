//! Records as files: reads them with one clear line for whatever is wrong, and puts the shards of one host together.
//!
//! `cmd/report.rs` and `cmd/compare.rs` come here first, so that reports only ever see sound records.

use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::catalogue::{self, Row};
use crate::collect;
use crate::record::{Host, Record, ResultRecord, SCHEMA};
use crate::warning::Warning;

/// Reads a record and looks at what reports rely on.
pub fn read(path: &Path) -> anyhow::Result<Record> {
    let name = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read the record `{name}`"))?;
    parse(&bytes).with_context(|| format!("`{name}`"))
}

/// Only what tells whether the rest can be understood.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

fn parse(bytes: &[u8]) -> anyhow::Result<Record> {
    let head: Head = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => {
            anyhow::anyhow!("the record is cut off at line {}", error.line())
        }
        _ => anyhow::anyhow!("this is no record of axplab ({error})"),
    })?;
    let schema = head.schema.unwrap_or_default();
    if schema != SCHEMA {
        let Some(number) = schema.strip_prefix("axplab-record/") else {
            bail!("this is no record of axplab; `axplab bench --json FILE` writes one");
        };
        bail!("form {number} of the record is not known to this axplab; use the one that wrote it");
    }
    let record: Record = serde_json::from_slice(bytes)
        .map_err(|error| anyhow::anyhow!("the record is damaged: {error}"))?;
    for row in &record.rows {
        for result in &row.results {
            sound(result).with_context(|| {
                format!("the record is damaged: {} on {}", row.row, result.engine)
            })?;
        }
    }
    Ok(record)
}

/// A value stands for work that was done in a time: a positive number.
fn sound(result: &ResultRecord) -> anyhow::Result<()> {
    let figures = result.samples.iter().copied();
    let medians = [result.median, result.min, result.max];
    for figure in figures.chain(medians.into_iter().flatten()) {
        if !(figure.is_finite() && figure > 0.0) {
            bail!("a sample is {figure}");
        }
    }
    if result.verified && result.median.is_none() {
        bail!("a verified result has no value");
    }
    Ok(())
}

/// Whether two records may be parts of one: the same machine and the same build.
pub fn same_host(a: &Record, b: &Record) -> bool {
    // Load and free memory change while the shards run.
    let steady = |host: &Host| Host { load: None, governor: None, memory: None, ..host.clone() };
    steady(&a.host) == steady(&b.host) && a.axplab == b.axplab
}

/// Puts records of one host and build together, in the order given; one record remains for each host.
pub fn merge(records: Vec<(String, Record)>) -> anyhow::Result<Vec<Record>> {
    let all = catalogue::rows();
    let mut merged: Vec<Record> = Vec::new();
    for (name, record) in records {
        match merged.iter_mut().find(|known| same_host(known, &record)) {
            None => merged.push(record),
            Some(known) => join(known, record, &all).with_context(|| format!("`{name}`"))?,
        }
    }
    Ok(merged)
}

fn join(into: &mut Record, from: Record, all: &[Row]) -> anyhow::Result<()> {
    for row in from.rows {
        let known = into.rows.iter_mut().find(|known| known.label() == row.label());
        let Some(known) = known else {
            into.rows.push(row);
            continue;
        };
        if (&known.params, &known.unit) != (&row.params, &row.unit) {
            bail!("{} was measured with other inputs in an earlier file of that host", row.row);
        }
        for result in row.results {
            if known.result(&result.engine).is_some() {
                bail!(
                    "{} on {} stands in an earlier file of that host too; `axplab compare` sets two runs side by side",
                    row.row,
                    result.engine
                );
            }
            known.results.push(result);
        }
    }
    // The catalogue's order, whatever shard a row came from; unknown rows stay behind, as they came.
    let place = |name: &str| all.iter().position(|row| row.name == name).unwrap_or(usize::MAX);
    into.rows.sort_by_key(|row| place(&row.row));
    for warning in from.warnings {
        if !into.warnings.contains(&warning) {
            into.warnings.push(warning);
        }
    }
    // What was missing from one shard may be in another.
    let measured: Vec<String> = into.engines().iter().map(|name| name.to_string()).collect();
    let found = |w: &Warning| {
        w.kind == "missing-engine" && w.engine.as_ref().is_some_and(|name| measured.contains(name))
    };
    into.warnings.retain(|warning| !found(warning));
    into.indices = collect::indices(all, &into.rows);
    into.randomised_layout &= from.randomised_layout;
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::{Better, Indices, RowRecord};

    /// A record with one row for each name and the same samples everywhere.
    pub fn record(rows: &[&str], engines: &[(&str, &[f64])]) -> Record {
        let result = |&(engine, samples): &(&str, &[f64])| ResultRecord {
            engine: engine.into(),
            median: crate::stats::median(samples),
            samples: samples.to_vec(),
            verified: true,
            artifact_sha256: Some(format!("hash of {engine}'s program")),
            ..ResultRecord::default()
        };
        let row = |name: &&str| RowRecord {
            suite: "integer".into(),
            row: (*name).into(),
            params: BTreeMap::new(),
            unit: "1/s".into(),
            better: Better::Higher,
            work: 1.0,
            comparable_to_published: true,
            results: engines.iter().map(result).collect(),
        };
        Record {
            schema: SCHEMA.into(),
            host: Host::default(),
            axplab: Default::default(),
            randomised_layout: true,
            rows: rows.iter().map(row).collect(),
            indices: Indices::default(),
            warnings: Vec::new(),
        }
    }

    fn said(bytes: &[u8]) -> String {
        format!("{:#}", parse(bytes).unwrap_err())
    }

    #[test]
    fn what_is_no_sound_record_is_told_apart() {
        let good = serde_json::to_string(&record(&["idea"], &[("auto", &[1.0, 2.0])])).unwrap();
        assert!(parse(good.as_bytes()).is_ok());
        for cut in [0, 1, good.len() / 2, good.len() - 1] {
            assert!(said(&good.as_bytes()[..cut]).contains("cut off"), "{cut}");
        }
        for (from, to, say) in [
            ("record/1", "record/2", "form 2 of the record is not known"),
            ("axplab-record/1", "other/1", "no record of axplab"),
            ("\"schema\"", "\"scheme\"", "no record of axplab"),
            ("[1.0,2.0]", "[1.0,0.0]", "idea on auto: a sample is 0"),
            ("[1.0,2.0]", "[1.0,-2.0]", "a sample is -2"),
            ("[1.0,2.0]", "[1.0,null]", "damaged"),
            ("[1.0,2.0]", "[1.0,NaN]", "no record"),
            ("\"rows\"", "\"lines\"", "missing field `rows`"),
            ("1.5", "null", "no value"),
        ] {
            let text = good.replace(from, to);
            assert_ne!(text, good, "{from}");
            assert!(said(text.as_bytes()).contains(say), "{to}: {}", said(text.as_bytes()));
        }
        assert!(said(b"[1, 2]").contains("no record"));
        assert!(said(&[0xff; 9]).contains("no record"));
    }

    #[test]
    fn shards_of_a_host_become_one_record_in_the_catalogues_order() {
        let rows = catalogue::rows();
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let whole = record(&names, &[("native", &[2.0]), ("auto", &[1.0])]);
        let shard = |k: usize| {
            let mut part = whole.clone();
            part.host.load = Some(k as f64);
            let mut place = 0;
            part.rows.retain(|_| {
                place += 1;
                place % 3 == k
            });
            (k.to_string(), part)
        };
        let merged = merge(vec![shard(2), shard(0), shard(1)]).unwrap();
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0].rows, whole.rows);
        assert_eq!(merged[0].indices, collect::indices(&rows, &whole.rows));
        assert!(!merged[0].indices.integer.is_empty());

        let mut other = whole.clone();
        other.host.cpu = "another".into();
        assert_eq!(merge(vec![("a".into(), whole.clone()), ("b".into(), other)]).unwrap().len(), 2);
        let twice = merge(vec![("a".into(), whole.clone()), ("b".into(), whole)]).unwrap_err();
        assert!(format!("{twice:#}").contains("`axplab compare`"), "{twice:#}");
    }
}
