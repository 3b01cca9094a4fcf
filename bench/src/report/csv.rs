//! One line for each sample, for spreadsheets, R and pandas.

use std::io::Write;

use super::ReportWriter;
use crate::record::{Better, Record};

/// Writes comma-separated values with a header line.
pub struct Csv;

const HEADER: [&str; 14] = [
    "host",
    "cpu",
    "commit",
    "suite",
    "row",
    "unit",
    "better",
    "engine",
    "sample",
    "order",
    "value",
    "verified",
    "program_sha256",
    "error",
];

impl ReportWriter for Csv {
    fn write(&self, records: &[Record], out: &mut dyn Write) -> anyhow::Result<()> {
        let mut csv = csv::Writer::from_writer(out);
        csv.write_record(HEADER)?;
        for (host, record) in records.iter().enumerate() {
            for row in &record.rows {
                let better = match row.better {
                    Better::Higher => "higher",
                    Better::Lower => "lower",
                };
                for result in &row.results {
                    let mut line = |sample: &str, order: &str, value: &str| {
                        csv.write_record([
                            (host + 1).to_string().as_str(),
                            record.host.cpu.as_str(),
                            record.axplab.commit.as_str(),
                            row.suite.as_str(),
                            row.row.as_str(),
                            row.unit.as_str(),
                            better,
                            result.engine.as_str(),
                            sample,
                            order,
                            value,
                            if result.verified { "true" } else { "false" },
                            result.artifact_sha256.as_deref().unwrap_or_default(),
                            result.error.as_deref().unwrap_or_default(),
                        ])
                    };
                    // A failed result keeps its line: its absence would look like success.
                    if result.samples.is_empty() {
                        line("", "", "")?;
                    }
                    for (index, value) in result.samples.iter().enumerate() {
                        let order = result.order.get(index).map(u32::to_string).unwrap_or_default();
                        line(&index.to_string(), &order, &value.to_string())?;
                    }
                }
            }
        }
        csv.flush()?;
        Ok(())
    }
}
