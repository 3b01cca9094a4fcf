//! `axplab report`: prints records that were measured before.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::report::{self, Format};
use crate::{Outcome, record, records};

/// Arguments of `axplab report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    axplab report run.json --format markdown\n  \
    axplab report shard-*.json --format json > whole.json\n  \
    axplab report here.json there.json\n\n\
    Records of one host and build are put together, those of several hosts set side by side.\n\
    Exit status: 0 done, 2 a record or path to correct.")]
pub struct ReportArgs {
    /// Records that `axplab bench --json` wrote
    #[arg(required = true, value_name = "RECORD")]
    pub records: Vec<PathBuf>,
    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Write to FILE, whole or not at all, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Runs the command.
pub fn report(args: &ReportArgs) -> anyhow::Result<Outcome> {
    if let Some(path) = &args.output {
        record::check_writable(path)?;
    }
    let mut read = Vec::new();
    for path in &args.records {
        read.push((path.display().to_string(), records::read(path)?));
    }
    let merged = records::merge(read)?;
    let writer = report::writer(args.format);
    match &args.output {
        Some(path) => record::write_atomically(path, |out| writer.write(&merged, out))
            .with_context(|| format!("cannot write the report to `{}`", path.display()))?,
        None => {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            writer
                .write(&merged, &mut out)
                .and_then(|()| Ok(out.flush()?))
                .context("cannot write the report to standard output")?;
        }
    }
    Ok(Outcome::DONE)
}
