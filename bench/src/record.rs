//! The record of one run: the only thing that reports read, so its form is stable, versioned and separate from how it was measured.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::warning::Warning;

/// The form this build writes. Readers ignore fields they do not know, so fields may be added under the same number.
pub const SCHEMA: &str = "axplab-record/1";

/// One run of the lab on one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// `SCHEMA`.
    pub schema: String,
    /// The machine's fingerprint.
    pub host: Host,
    /// The build that measured.
    pub axplab: Build,
    /// Each sample ran with code and environment placed anew, so that luck of layout is in the spread.
    #[serde(default)]
    pub randomised_layout: bool,
    /// One entry per row, in the order of the catalogue.
    pub rows: Vec<RowRecord>,
    /// The nbench-style indices.
    #[serde(default)]
    pub indices: Indices,
    /// What the reader should know before believing the numbers.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

/// What the numbers depend on besides the code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// The model name that the CPU gives itself.
    pub cpu: String,
    /// Vendor, family, model and stepping: the name alone is often generic in virtual machines.
    pub cpu_id: String,
    /// CPUs that this process may use.
    pub cores: usize,
    /// Architecture, as Rust names it.
    pub arch: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Frequency governor of the first CPU, where there is one.
    pub governor: Option<String>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Runnable processes over the last minute, before measuring.
    pub load: Option<f64>,
}

/// The build that measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Build {
    /// Package version.
    pub version: String,
    /// Commit, or `unknown`.
    pub commit: String,
    /// `release` or `debug`.
    pub profile: String,
    /// Version of the Rust compiler.
    pub rustc: String,
}

/// One row: a program, an input, a unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowRecord {
    /// The group of rows it belongs to: its class.
    pub suite: String,
    /// Its fixed name.
    pub row: String,
    /// What else was chosen: size, CPU of the guest build.
    #[serde(default)]
    pub params: BTreeMap<String, serde_json::Value>,
    /// Unit of every value of the row.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// Work of one repetition, in the kernel's own count.
    pub work: f64,
    /// False where the input was scaled down: such a row is not set beside published figures.
    pub comparable_to_published: bool,
    /// One entry per engine, in the order of the columns.
    pub results: Vec<ResultRecord>,
}

/// Which direction of a value is an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Work per time.
    Higher,
    /// Time.
    Lower,
}

/// What one engine did on one row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultRecord {
    /// The engine's name.
    pub engine: String,
    /// Median of `samples`; null in an error result.
    pub median: Option<f64>,
    /// Least sample.
    pub min: Option<f64>,
    /// Greatest sample.
    pub max: Option<f64>,
    /// Every sample, in the row's unit, in the order measured.
    pub samples: Vec<f64>,
    /// The place of each sample among all samples of the row.
    pub order: Vec<u32>,
    /// Every sample gave the right result.
    pub verified: bool,
    /// Guest instructions of the work loop in one sample: counted apart, or by an engine that counts anyway.
    pub guest_instructions: Option<u64>,
    /// Median time of the work loop in one sample.
    pub seconds: Option<f64>,
    /// Median user time of the whole process.
    pub cpu_user: Option<f64>,
    /// Median system time of the whole process.
    pub cpu_sys: Option<f64>,
    /// Greatest resident set of a sample, in bytes.
    pub max_rss: Option<u64>,
    /// Median seconds of each phase that the engine names.
    pub phases: BTreeMap<String, f64>,
    /// Whatever else was measured.
    pub metrics: BTreeMap<String, Metric>,
    /// The program that ran.
    pub artifact_sha256: Option<String>,
    /// What compiled that program.
    pub compiler: Option<String>,
    /// Why there is no value.
    pub error: Option<String>,
}

impl ResultRecord {
    /// A verified result of these samples, as if nothing had been measured between them.
    pub fn measured(engine: &str, samples: Vec<f64>) -> Self {
        let summary = crate::stats::Summary::new(&samples);
        ResultRecord {
            engine: engine.to_owned(),
            median: summary.map(|summary| summary.median),
            min: summary.map(|summary| summary.min),
            max: summary.map(|summary| summary.max),
            order: (0..samples.len() as u32).collect(),
            verified: true,
            samples,
            ..ResultRecord::default()
        }
    }
}

/// A further measured quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its unit.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// One value per sample.
    pub samples: Vec<f64>,
}

/// The three nbench-style indices: engine to value, relative to an AMD K6 at 233 MHz.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Indices {
    /// String sort, bitfield, assignment.
    pub memory: BTreeMap<String, f64>,
    /// Numeric sort, FP emulation, IDEA, Huffman.
    pub integer: BTreeMap<String, f64>,
    /// Fourier, neural net, LU decomposition.
    pub fp: BTreeMap<String, f64>,
}

impl Record {
    /// The engines of the record, in column order.
    pub fn engines(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for result in self.rows.iter().flat_map(|row| &row.results) {
            if !names.contains(&result.engine.as_str()) {
                names.push(&result.engine);
            }
        }
        names
    }

    /// True if a result is wrong or missing for a reason other than an absent engine.
    pub fn has_errors(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.results).any(|result| result.error.is_some())
    }

    /// Writes the record to `path` whole or not at all.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        write_atomically(path, |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            writeln!(out)?;
            Ok(())
        })
        .with_context(|| format!("cannot write the record to `{}`", path.display()))
    }
}

impl RowRecord {
    /// Its name among the rows of a record: with the strategy where it is measured by several.
    pub fn label(&self) -> String {
        match self.params.get("strategy").and_then(serde_json::Value::as_str) {
            Some(strategy) => format!("{} ({strategy})", self.row),
            None => self.row.clone(),
        }
    }

    /// The result of one engine.
    pub fn result(&self, engine: &str) -> Option<&ResultRecord> {
        self.results.iter().find(|result| result.engine == engine)
    }

    /// How many times as long `engine` takes as `base` for the same work; `None` unless both have a verified value.
    pub fn time_ratio(&self, engine: &str, base: &str) -> Option<f64> {
        let value = |name| self.result(name).filter(|r| r.verified).and_then(|r| r.median);
        let (ours, theirs) = (value(engine)?, value(base)?);
        let ratio = match self.better {
            Better::Higher => theirs / ours,
            Better::Lower => ours / theirs,
        };
        (ratio.is_finite() && ratio > 0.0).then_some(ratio)
    }
}

/// Finds out before any measuring whether `path` can be written at the end, and leaves nothing behind.
pub fn check_writable(path: &Path) -> anyhow::Result<()> {
    let (target, folder) = place(path)?;
    let hint = || {
        format!("cannot write `{}`; name a file in an existing, writable folder", path.display())
    };
    // Replacing by rename needs the folder, not the file; but a file that the user protected is not to be replaced.
    if target.exists() {
        std::fs::OpenOptions::new().append(true).open(&target).with_context(hint)?;
    }
    tempfile::NamedTempFile::new_in(&folder).with_context(hint)?.close().with_context(hint)
}

/// Writes a file beside its final place, syncs it, then renames it: a reader never sees half of it.
pub fn write_atomically(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (target, folder) = place(path)?;
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    // Temporary files are private; a record is an ordinary file.
    let mode = std::fs::metadata(&target)
        .map_or(0o644, |meta| std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777);
    let mut out = std::io::BufWriter::new(file.as_file_mut());
    fill(&mut out)?;
    out.flush()?;
    drop(out);
    file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(&target)?;
    // The rename itself is durable only once the folder is; some file systems refuse this, which loses nothing.
    if let Ok(folder) = std::fs::File::open(&folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// The file behind `path` (symbolic links followed, so that they survive) and the folder it lies in.
fn place(path: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Ok(meta) = target.metadata() {
        if meta.is_dir() {
            bail!("`{}` is a directory; name a file in it", path.display());
        }
        if !meta.is_file() {
            bail!("`{}` is no ordinary file; name one", path.display());
        }
    }
    if target.file_name().is_none() {
        bail!("`{}` names no file", path.display());
    }
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((target, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_ignore_unknown_fields_and_take_missing_ones_as_empty() {
        let text = r#"{"schema":"axplab-record/1","host":{"cpu":"x","moon":"full"},"axplab":{},
            "rows":[{"suite":"integer","row":"idea","unit":"1/s","better":"higher","work":1,"new":[],
            "comparable_to_published":true,"results":[{"engine":"native","median":2.5,"later":{}}]}]}"#;
        let record: Record = serde_json::from_str(text).unwrap();
        assert_eq!(record.engines(), ["native"]);
        assert_eq!(record.rows[0].results[0].median, Some(2.5));
        let again: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(again, record);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record.json");
        std::fs::write(&path, "old").unwrap();
        write_atomically(&path, |out| {
            out.write_all(b"half")?;
            bail!("disk full")
        })
        .unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        write_atomically(&path, |out| Ok(out.write_all(b"new")?)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("real"), "").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("real", &link).unwrap();
        check_writable(&link).unwrap();
        write_atomically(&link, |out| Ok(out.write_all(b"new")?)).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(dir.path().join("real")).unwrap(), "new");
    }

    #[test]
    fn what_cannot_be_written_is_refused_before() {
        for path in ["/nonexistent/x.json", "/", "/dev/null", "/proc/x.json"] {
            assert!(check_writable(Path::new(path)).is_err(), "{path}");
        }
    }
}
