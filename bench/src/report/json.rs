//! The record as it is, for programs.

use std::io::Write;

use super::ReportWriter;
use crate::record::Record;

/// Writes the record's JSON.
pub struct Json;

impl ReportWriter for Json {
    fn write(&self, record: &Record, out: &mut dyn Write) -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut *out, record)?;
        writeln!(out)?;
        Ok(())
    }
}
