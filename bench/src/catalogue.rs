//! The lab's view of the guest programs: what a row measures and which files to run; everything taken from `axp_guests` passes here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use crate::engines::Program;
use crate::record::Better;

/// One row of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Fixed name.
    pub name: String,
    /// One line for `axplab list`.
    pub about: String,
    /// memory, integer, fp, micro or crypto.
    pub class: String,
    /// Unit of the value.
    pub unit: String,
    /// How the value comes from work and time.
    pub value: Value,
    /// The input's size in a full run.
    pub size: u64,
    /// The size in a quick run; the same where the row is quick anyway.
    pub quick_size: u64,
    /// Right checksums by size.
    pub checksums: BTreeMap<u64, u64>,
    /// The AMD K6/233's value, for the rows that make up the nbench-style indices.
    pub baseline: Option<f64>,
    /// Figures that others published for the row.
    pub published: Published,
}

/// How a value is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Work per second, times this.
    Rate(f64),
    /// Seconds per repetition.
    Seconds,
}

/// Published figures of three systems, in the row's unit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Published {
    /// AlphaServer DS10 6/466.
    pub ds10: Option<f64>,
    /// AlphaServer ES47 at 1.15 GHz.
    pub es47: Option<f64>,
    /// AlphaVM-Pro on a Xeon E3-1270v3.
    pub alphavm: Option<f64>,
}

impl Row {
    /// Which way is better.
    pub fn better(&self) -> Better {
        match self.value {
            Value::Rate(_) => Better::Higher,
            Value::Seconds => Better::Lower,
        }
    }

    /// The value of a sample.
    pub fn value(&self, work: f64, reps: u64, seconds: f64) -> f64 {
        match self.value {
            Value::Rate(scale) => work / seconds * scale,
            Value::Seconds => seconds / reps as f64,
        }
    }
}

/// A file to run.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// Where it lies.
    pub path: PathBuf,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// What compiled it.
    pub compiler: Option<String>,
}

/// The rows of those names, in the catalogue's order; without names, all.
pub fn select(all: &[Row], names: &[String]) -> anyhow::Result<Vec<Row>> {
    if let Some(name) = names.iter().find(|name| !all.iter().any(|row| row.name == **name)) {
        let known: Vec<&str> = all.iter().map(|row| row.name.as_str()).collect();
        bail!("unknown row `{name}`; choose among {}", known.join(", "));
    }
    Ok(all.iter().filter(|row| names.is_empty() || names.contains(&row.name)).cloned().collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a program where it can be executed.
fn unpack(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes)
        .and_then(|()| {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        })
        .with_context(|| format!("cannot unpack a guest program to `{}`", path.display()))
}

/// Published nbench indices: memory, integer, floating point.
pub fn published_indices() -> [Published; 3] {
    let of = |ds10, es47, alphavm| Published {
        ds10: Some(ds10),
        es47: Some(es47),
        alphavm: Some(alphavm),
    };
    [of(3.417, 8.635, 12.751), of(2.511, 6.151, 8.771), of(8.346, 21.079, 9.191)]
}

/// Published figures by row.
pub fn published() -> BTreeMap<String, Published> {
    rows().unwrap_or_default().into_iter().map(|row| (row.name, row.published)).collect()
}

/// All rows.
pub fn rows() -> anyhow::Result<Vec<Row>> {
    let row = |name: &str, class: &str, unit: &str| Row {
        name: name.into(),
        about: format!("provisional {name}"),
        class: class.into(),
        unit: unit.into(),
        value: Value::Rate(1.0),
        size: 8192,
        quick_size: 8192,
        checksums: BTreeMap::from([(8192, 0xff)]),
        baseline: None,
        published: Published::default(),
    };
    let mut md5 = row("md5-8192", "crypto", "kB/s");
    md5.published =
        Published { ds10: Some(42636.0), es47: Some(104788.0), alphavm: Some(234367.0) };
    Ok(vec![md5, row("idea", "integer", "iterations/s")])
}

/// The programs of the catalogue, unpacked for this run and removed with this value.
pub struct Programs {
    folder: tempfile::TempDir,
}

impl Programs {
    /// Makes the folder.
    pub fn new() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("axplab-")
            .tempdir()
            .context("cannot make a temporary folder for the guest programs; set TMPDIR to one that is writable")?;
        Ok(Self { folder })
    }

    /// The folder: also for the other files of a run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The Alpha program of a row, for a CPU.
    pub fn guest(&self, row: &Row, cpu: &str) -> anyhow::Result<Artifact> {
        self.artifact(&format!("{}.{cpu}.elf", row.name), b"#!/bin/sh\nexit 3\n", None)
    }

    /// The native twin of a row; the inner error says why there is none.
    pub fn native(&self, row: &Row, program: Program) -> anyhow::Result<Result<Artifact, String>> {
        let suffix = if program == Program::NativeO3 { "native-o3" } else { "native" };
        let script = b"#!/bin/sh\nsleep 0.02\necho AXPLAB1 row=$1 reps=$2 size=$3 work=$2 unit=x seconds=0.02$2 checksum=00000000000000ff\n";
        self.artifact(&format!("{}.{suffix}", row.name), script, Some("cc".into())).map(Ok)
    }

    fn artifact(
        &self,
        name: &str,
        bytes: &[u8],
        compiler: Option<String>,
    ) -> anyhow::Result<Artifact> {
        let path = self.folder.path().join(name);
        if !path.exists() {
            unpack(&path, bytes)?;
        }
        Ok(Artifact { path, sha256: hex(&Sha256::digest(bytes)), compiler })
    }
}
