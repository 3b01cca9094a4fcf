//! Reports: pure functions from a record to text. Each format is one file and one implementation of `ReportWriter`.

mod chart;
mod csv;
mod exports;
mod html;
mod json;
mod markdown;
mod references;
mod table;
mod view;

use std::io::Write;

use crate::record::Record;

/// The rows of the nbench-style memory index.
pub const INDEX_MEMORY: &[&str] = &["string-sort", "bitfield", "assignment"];
/// The rows of the nbench-style integer index.
pub const INDEX_INTEGER: &[&str] = &["numeric-sort", "fp-emulation", "idea", "huffman"];
/// The rows of the nbench-style floating-point index.
pub const INDEX_FP: &[&str] = &["fourier", "neural-net", "lu-decomposition"];

/// The formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For the terminal
    Table,
    /// For a README or a merge request
    Markdown,
    /// One line for each sample
    Csv,
    /// The record itself
    Json,
    /// One page with charts, for a browser
    Html,
    /// Bencher Metric Format
    Bmf,
    /// A list for github-action-benchmark's `customSmallerIsBetter`
    GithubActionBenchmark,
}

/// Writes records in one format: one for each host.
pub trait ReportWriter {
    /// Writes all of it; the caller flushes.
    fn write(&self, records: &[Record], out: &mut dyn Write) -> anyhow::Result<()>;
}

/// The writer of a format.
pub fn writer(format: Format) -> &'static dyn ReportWriter {
    match format {
        Format::Table => &table::Table,
        Format::Markdown => &markdown::Markdown,
        Format::Csv => &csv::Csv,
        Format::Json => &json::Json,
        Format::Html => &html::Html,
        Format::Bmf => &exports::Bmf,
        Format::GithubActionBenchmark => &exports::GithubActionBenchmark,
    }
}

/// A table for the terminal: a rule below the header, no other lines.
pub fn plain_table() -> comfy_table::Table {
    use comfy_table::{ContentArrangement, Table, TableComponent, presets};
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_style(TableComponent::HeaderLines, '─');
    table.set_style(TableComponent::MiddleHeaderIntersections, '─');
    // Never folded: a folded figure is misread, and terminals scroll.
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Text as HTML shows it.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}
