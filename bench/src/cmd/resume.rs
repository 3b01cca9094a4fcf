//! What a record that was not finished still gives: rows that need not be measured again.
//! `cmd/bench.rs` asks for each row before it measures it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};

use crate::record::{Build, Host, Record, RowRecord, SCHEMA};
use crate::warning::Warning;

/// Warnings on a whole run, which the new run says for itself.
const OF_THE_RUN: [&str; 8] = [
    "interrupted",
    "unfinished",
    "starved",
    "busy",
    "debug-build",
    "governor",
    "few-samples",
    "missing-engine",
];

/// The earlier run; the default is none.
#[derive(Debug, Default)]
pub struct Resumed {
    path: String,
    record: Option<Record>,
}

/// What a row must have been measured with.
#[derive(Debug)]
pub struct Wanted {
    /// The row's parameters.
    pub params: BTreeMap<String, serde_json::Value>,
    /// Engines and the hash of the file that each runs.
    pub artifacts: Vec<(String, String)>,
}

impl Resumed {
    /// Reads the record.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let hint = || {
            format!(
                "cannot go on with `{}`; name the record of an earlier `axplab bench`",
                path.display()
            )
        };
        let text = std::fs::read_to_string(path).with_context(hint)?;
        let record: Record = serde_json::from_str(&text).with_context(hint)?;
        if record.schema != SCHEMA {
            bail!("`{}` has the form `{}`, not {SCHEMA}", path.display(), record.schema);
        }
        Ok(Self { path: path.display().to_string(), record: Some(record) })
    }

    /// Rows of another machine or build do not belong into this run's record.
    pub fn check(&self, host: &Host, build: &Build) -> anyhow::Result<()> {
        let Some(record) = &self.record else { return Ok(()) };
        let machine = |host: &Host| (host.cpu.clone(), host.cpu_id.clone(), host.kernel.clone());
        if machine(&record.host) != machine(host) || record.axplab != *build {
            bail!(
                "`{}` was measured on another machine or by another build of axplab; start anew with --json",
                self.path
            );
        }
        Ok(())
    }

    /// The row and what was said of it, if it was measured to its end as it would be now.
    pub fn take(&mut self, name: &str, wanted: &Wanted) -> Option<(RowRecord, Vec<Warning>)> {
        let record = self.record.as_mut()?;
        let about = |w: &Warning| w.row.as_deref() == Some(name);
        if record.warnings.iter().any(|w| about(w) && w.kind == "unfinished") {
            return None;
        }
        let at = record.rows.iter().position(|row| row.row == name)?;
        let row = &record.rows[at];
        let measured = |(engine, sha256): &(String, String)| {
            row.result(engine).is_some_and(|result| {
                result.artifact_sha256.as_ref() == Some(sha256) && result.error.is_none()
            })
        };
        // Numbers may have been written with a digit less than they have.
        let same =
            serde_json::to_string(&row.params).ok() == serde_json::to_string(&wanted.params).ok();
        if !same
            || row.results.len() != wanted.artifacts.len()
            || !wanted.artifacts.iter().all(measured)
        {
            return None;
        }
        let row = record.rows.remove(at);
        let said = |w: &&Warning| about(w) && !OF_THE_RUN[..6].contains(&w.kind.as_str());
        Some((row, record.warnings.iter().filter(said).cloned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Better, ResultRecord};

    fn record() -> Record {
        let result = |engine: &str| ResultRecord {
            engine: engine.into(),
            artifact_sha256: Some("aa".into()),
            verified: true,
            ..ResultRecord::default()
        };
        let row = |name: &str| RowRecord {
            suite: "io".into(),
            row: name.into(),
            params: BTreeMap::from([("sample_time".to_owned(), 0.1.into())]),
            unit: String::new(),
            better: Better::Higher,
            work: 1.0,
            comparable_to_published: true,
            results: vec![result("x"), result("y")],
        };
        Record {
            schema: SCHEMA.into(),
            host: Host::default(),
            axplab: Build::default(),
            randomised_layout: false,
            rows: vec![row("whole"), row("half")],
            indices: Default::default(),
            warnings: vec![
                Warning { row: Some("half".into()), ..Warning::general("unfinished", "") },
                Warning::cell("noise", "whole", "x", "spread"),
            ],
        }
    }

    fn wanted(sha256: &str, engines: &[&str]) -> Wanted {
        Wanted {
            params: BTreeMap::from([("sample_time".to_owned(), 0.1.into())]),
            artifacts: engines.iter().map(|name| (name.to_string(), sha256.to_owned())).collect(),
        }
    }

    #[test]
    fn only_what_was_measured_to_its_end_in_the_same_way_is_kept() {
        let resumed = || Resumed { path: "r".into(), record: Some(record()) };
        let (row, warnings) = resumed().take("whole", &wanted("aa", &["x", "y"])).unwrap();
        assert_eq!((row.row.as_str(), warnings.len()), ("whole", 1));
        assert!(resumed().take("half", &wanted("aa", &["x", "y"])).is_none());
        assert!(resumed().take("other", &wanted("aa", &["x", "y"])).is_none());
        assert!(resumed().take("whole", &wanted("bb", &["x", "y"])).is_none());
        assert!(resumed().take("whole", &wanted("aa", &["x"])).is_none());
        assert!(resumed().take("whole", &wanted("aa", &["x", "y", "z"])).is_none());
        let mut other = wanted("aa", &["x", "y"]);
        other.params.insert("size".into(), 1.into());
        assert!(resumed().take("whole", &other).is_none());
        let mut wrong = resumed();
        wrong.record.as_mut().unwrap().rows[0].results[0].error = Some("wrong result".into());
        assert!(wrong.take("whole", &wanted("aa", &["x", "y"])).is_none());
        assert!(Resumed::default().take("whole", &wanted("aa", &["x", "y"])).is_none());
    }

    #[test]
    fn another_machine_or_build_is_refused() {
        let resumed = Resumed { path: "r".into(), record: Some(record()) };
        resumed.check(&Host::default(), &Build::default()).unwrap();
        let host = Host { cpu: "another".into(), ..Host::default() };
        assert!(resumed.check(&host, &Build::default()).is_err());
        let build = Build { commit: "another".into(), ..Build::default() };
        assert!(resumed.check(&Host::default(), &build).is_err());
    }
}
