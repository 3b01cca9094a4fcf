//! Programs of the user's own in the table: run as they are, timed from start to end, held
//! against each other by what they write and how they end. Called by `cmd/bench.rs`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use axp_guests::sha256_hex;

use super::bench::{Bar, Lab, agree};
use crate::cli::BenchArgs;
use crate::collect::{self, Subject};
use crate::engines::{Build, EngineSpec, Values};
use crate::measure::{Interrupt, Invocation};
use crate::plan::{self, Cell, Progress, Settings};
use crate::record::{Better, RowRecord};
use crate::warning::Warning;

/// One program.
pub struct Own {
    /// Its file's name, which is the row's.
    pub name: String,
    elf: (PathBuf, String),
    native: Option<(PathBuf, String)>,
    args: Vec<OsString>,
}

impl Own {
    /// The file that an engine runs, and its hash.
    pub fn file(&self, build: Build) -> Option<(&Path, &str)> {
        let (path, sha256) = match build {
            Build::Guest => &self.elf,
            Build::Native => self.native.as_ref()?,
            // What the user compiled stands in one column only.
            Build::NativeO3 => return None,
        };
        Some((path, sha256))
    }

    /// The row's parameters.
    pub fn params(&self, settings: &Settings) -> BTreeMap<String, serde_json::Value> {
        let args: Vec<_> = self.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        BTreeMap::from([
            ("args".to_owned(), args.into()),
            ("samples".to_owned(), settings.samples.into()),
        ])
    }
}

/// The programs that the call names, read once so that what runs is known.
pub fn programs(args: &BenchArgs) -> anyhow::Result<Vec<Own>> {
    if args.programs.is_empty() && !(args.native_twins.is_empty() && args.program_args.is_empty()) {
        bail!("arguments and native twins need a program: --program ELF");
    }
    if args.native_twins.len() > args.programs.len() {
        bail!("more native twins than programs: one --native-twin for each --program");
    }
    let mut all: Vec<Own> = Vec::new();
    for (at, path) in args.programs.iter().enumerate() {
        let elf = file(path)?;
        let name = path.file_name().map_or(path.to_string_lossy(), |name| name.to_string_lossy());
        let name = match all.iter().any(|own| own.name == name) {
            true => path.display().to_string(),
            false => name.into_owned(),
        };
        let native = args.native_twins.get(at).map(|path| file(path)).transpose()?;
        all.push(Own { name, elf, native, args: args.program_args.clone() });
    }
    Ok(all)
}

fn file(path: &Path) -> anyhow::Result<(PathBuf, String)> {
    let hint = || format!("cannot read `{}`; give the path of a program", path.display());
    let bytes = std::fs::read(path).with_context(hint)?;
    // A bare name would be looked for on PATH.
    Ok((std::path::absolute(path).with_context(hint)?, sha256_hex(&bytes)))
}

/// Measures one program on all engines.
pub fn measure(
    lab: &Lab,
    own: &Own,
    bar: &Bar,
    interrupt: &Interrupt,
    warnings: &mut Vec<Warning>,
) -> anyhow::Result<RowRecord> {
    let mut cells = Vec::new();
    let mut files = Vec::new();
    for engine in &lab.engines {
        match own.file(engine.build()) {
            Some((path, sha256)) => {
                let mut cell = Cell::new(engine.clone());
                cell.once = true;
                cells.push(cell);
                files.push((path, sha256));
            }
            None => {
                bar.done(plan::steps(&lab.settings));
                let message = "no such build of it; name it with --native-twin";
                if engine.build() == Build::Native {
                    warnings.push(Warning::cell("missing-build", &own.name, &engine.name, message));
                }
            }
        }
    }
    let stats = lab.folder().join("stats.json");
    let specs: Vec<EngineSpec> = cells.iter().map(|cell| cell.engine.clone()).collect();
    let command = |index: usize, reps: u64| {
        let values = Values {
            axplab: &lab.axplab,
            program: files[index].0,
            stats: &stats,
            cpu: "ev67",
            args: &own.args,
        };
        Invocation {
            argv: specs[index].argv(&values),
            stats: stats.clone(),
            row: own.name.clone(),
            size: 0,
            reps,
            checksum: None,
            timeout: lab.settings.timeout,
            cwd: None,
            whole: true,
        }
    };
    plan::measure_row(&mut cells, &lab.settings, &command, bar, interrupt);
    agree(&mut cells);
    let results: Vec<_> = cells
        .iter()
        .zip(&files)
        .map(|(cell, (_, sha256))| collect::result(Subject::Whole, cell, sha256, None))
        .collect();
    for (cell, result) in cells.iter().zip(&results) {
        warnings.extend(collect::warnings(&own.name, &lab.settings, cell, result));
    }
    Ok(RowRecord {
        suite: "program".into(),
        row: own.name.clone(),
        params: own.params(&lab.settings),
        unit: "s".into(),
        better: Better::Lower,
        work: 1.0,
        comparable_to_published: true,
        results,
    })
}
