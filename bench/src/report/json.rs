//! The record as it is, for programs.

use std::io::Write;

use super::ReportWriter;
use crate::record::Record;

/// Writes the record's JSON; of several hosts a list.
pub struct Json;

impl ReportWriter for Json {
    fn write(&self, records: &[Record], out: &mut dyn Write) -> anyhow::Result<()> {
        match records {
            [record] => serde_json::to_writer_pretty(&mut *out, record)?,
            several => serde_json::to_writer_pretty(&mut *out, several)?,
        }
        writeln!(out)?;
        Ok(())
    }
}
