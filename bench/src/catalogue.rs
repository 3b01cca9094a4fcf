//! The lab's view of the guest programs: what a row measures and which files to run; everything taken from `axp_guests` passes here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use axp_guests::{Catalogue, Class, Cpu, Program, Variant};
use sha2::{Digest, Sha256};

pub use axp_guests::{Published, Reference, Value};

use crate::engines::Build;
use crate::record::Better;

/// One row of the table with the program that measures it.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    program: &'static Program,
    row: &'static axp_guests::Row,
}

impl std::ops::Deref for Row {
    type Target = axp_guests::Row;

    fn deref(&self) -> &axp_guests::Row {
        self.row
    }
}

impl Row {
    /// Which way is better.
    pub fn better(&self) -> Better {
        match self.row.better {
            axp_guests::Better::Higher => Better::Higher,
            axp_guests::Better::Lower => Better::Lower,
        }
    }

    /// The name of its class, which is the record's suite.
    pub fn class_name(&self) -> &'static str {
        match self.class {
            Class::Memory => "memory",
            Class::Integer => "integer",
            Class::Fp => "fp",
            Class::Micro => "micro",
            Class::Crypto => "crypto",
            Class::System => "system",
            Class::Io => "io",
        }
    }

    /// The group of rows it belongs to in a record.
    pub fn suite(&self) -> &'static str {
        self.row.suite.as_deref().unwrap_or(self.class_name())
    }

    /// Whether it is measured when the user neither names rows nor asks for all: the kernels are.
    pub fn by_default(&self) -> bool {
        !matches!(self.class, Class::System | Class::Io)
    }

    /// The figure of one sample, in the row's display unit.
    pub fn figure(&self, sample: &crate::measure::Sample, reps: f64) -> f64 {
        let seconds = if self.value == Value::Wall { sample.wall } else { sample.seconds };
        self.value_of(sample.work, reps, seconds)
    }

    /// Why a build for the host is missing on purpose, if it is.
    pub fn no_native(&self, build: Build) -> Option<&'static str> {
        let variant = match build {
            Build::Guest => return None,
            Build::Native => Variant::Same,
            Build::NativeO3 => Variant::O3,
        };
        self.program.no_native.get(variant.name()).map(String::as_str)
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

/// All rows, in the order of the report.
pub fn rows() -> Vec<Row> {
    Catalogue::builtin().rows().map(|(program, row)| Row { program, row }).collect()
}

/// The rows of those names, in the catalogue's order; without names, those measured by default, or
/// `everything`.
pub fn select(all: &[Row], names: &[String], everything: bool) -> anyhow::Result<Vec<Row>> {
    if let Some(name) = names.iter().find(|name| !all.iter().any(|row| row.name == **name)) {
        // There are a hundred rows: those that begin alike, or where they are listed.
        let stem = name.split('-').next().unwrap_or(name);
        let like = all.iter().filter(|row| row.name.starts_with(stem) && !stem.is_empty());
        let like: Vec<&str> = like.map(|row| row.name.as_str()).take(12).collect();
        match like.is_empty() {
            true => bail!("unknown row `{name}`; `axplab list` names them all"),
            false => bail!("unknown row `{name}`; choose among {}", like.join(", ")),
        }
    }
    let wanted = |row: &&Row| match names.is_empty() {
        true => everything || row.by_default(),
        false => names.contains(&row.name),
    };
    Ok(all.iter().filter(wanted).copied().collect())
}

/// Whether a suite is one of kernels, whose means the bars are about.
pub fn is_kernels(suite: &str) -> bool {
    rows().iter().any(|row| row.suite() == suite && row.by_default())
}

/// Whether rows of a suite wait for something else than a processor.
pub fn waits(suite: &str) -> bool {
    rows().iter().any(|row| row.suite() == suite && row.class == Class::Io)
}

/// Published figures by row.
pub fn published() -> BTreeMap<&'static str, Published> {
    Catalogue::builtin().rows().map(|(_, row)| (row.name.as_str(), row.published)).collect()
}

/// Published figures of further systems, by row.
pub fn references() -> BTreeMap<&'static str, &'static [Reference]> {
    let catalogue = Catalogue::builtin();
    let rows = catalogue.rows().map(|(_, row)| (row.name.as_str(), row.references.as_slice()));
    let elsewhere = &catalogue.elsewhere;
    rows.chain(elsewhere.iter().map(|row| (row.name.as_str(), row.references.as_slice()))).collect()
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

/// The programs of the catalogue, unpacked for this run and removed with this value.
#[derive(Debug)]
pub struct Programs {
    folder: tempfile::TempDir,
}

impl Programs {
    /// Makes the folder.
    pub fn new() -> anyhow::Result<Self> {
        // Absolute: a program may be started in another folder.
        let place = std::path::absolute(std::env::temp_dir()).context("TMPDIR")?;
        let folder =
            tempfile::Builder::new().prefix("axplab-").tempdir_in(&place).with_context(|| {
                format!("cannot unpack guest programs into `{}`; set TMPDIR", place.display())
            })?;
        Ok(Self { folder })
    }

    /// The folder: also for the other files of a run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The build of a row's program that an engine runs; the inner error says why there is none.
    pub fn artifact(
        &self,
        row: &Row,
        build: Build,
        cpu: &str,
    ) -> anyhow::Result<Result<Artifact, String>> {
        let variant = match build {
            Build::Guest => return self.guest(row, cpu),
            Build::Native => Variant::Same,
            Build::NativeO3 => Variant::O3,
        };
        let bytes = match axp_guests::native(row.program, variant) {
            Ok(bytes) => bytes,
            Err(missing) => return Ok(Err(missing.reason)),
        };
        let name = format!("{}.{}", row.program.name, variant.name());
        let compiler = axp_guests::native_compiler().map(str::to_owned);
        self.unpack(&name, bytes, compiler).map(Ok)
    }

    fn guest(&self, row: &Row, cpu: &str) -> anyhow::Result<Result<Artifact, String>> {
        let Some(elf) = row.program.best_elf_for(build_for(cpu)) else {
            return Ok(Err(format!("{} has no build that runs on {cpu}", row.program.name)));
        };
        let bytes = row.program.elf_bytes(elf.cpu)?;
        let compiler = Some(Catalogue::builtin().toolchain.compiler.clone());
        self.unpack(&elf.file, bytes, compiler).map(Ok)
    }

    /// The CPU that the chosen guest build was compiled for.
    pub fn build_cpu(row: &Row, cpu: &str) -> Option<&'static str> {
        row.program.best_elf_for(build_for(cpu)).map(|elf| elf.cpu.name())
    }

    fn unpack(
        &self,
        name: &str,
        bytes: &[u8],
        compiler: Option<String>,
    ) -> anyhow::Result<Artifact> {
        let path = self.folder.path().join(name);
        if !path.exists() {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::write(&path, bytes)
                .and_then(|()| std::fs::set_permissions(&path, mode))
                .with_context(|| {
                    format!("cannot unpack a guest program to `{}`; set TMPDIR", path.display())
                })?;
        }
        Ok(Artifact { path, sha256: hex(&Sha256::digest(bytes)), compiler })
    }
}

/// The newest build that a CPU model runs: ev5 lacks BWX, ev6 lacks CIX.
fn build_for(cpu: &str) -> Cpu {
    match cpu {
        "ev4" | "ev5" => Cpu::Ev4,
        "ev67" => Cpu::Ev67,
        _ => Cpu::Ev56,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
