//! Published figures of systems that have no column of their own, set beside what was measured:
//! one line for each. Called by `view.rs`.

use super::view::{Grid, NONE, number};
use crate::catalogue;
use crate::record::{Record, ResultRecord};
use crate::stats;

/// The engines whose figures stand beside the published ones.
const BESIDE: [&str; 3] = ["native", "auto", "qemu-alpha"];

/// The table, and how to read it; nothing if no measured row has such a figure.
pub fn grid(record: &Record) -> Option<(Grid, String)> {
    let references = catalogue::references();
    let measured = record.engines();
    let mut beside: Vec<&str> = BESIDE.into_iter().filter(|name| measured.contains(name)).collect();
    if beside.is_empty() {
        beside.extend(measured.first());
    }
    let mut rows = Vec::new();
    for row in &record.rows {
        for reference in references.get(row.row.as_str()).copied().unwrap_or_default() {
            let mut cells = vec![row.row.clone(), row.unit.clone(), reference.system.clone()];
            cells.push(with_cpu(reference.value, reference.sender_cpu, reference.receiver_cpu));
            cells.extend(beside.iter().map(|name| ours(row.result(name))));
            cells.push(if row.comparable_to_published { "yes" } else { "no" }.to_owned());
            rows.push(cells);
        }
    }
    let mut header = ["row", "unit", "published system", "published"].map(str::to_owned).to_vec();
    header.extend(beside.iter().map(|name| name.to_string()));
    header.push("comparable".into());
    let note = "published figures of further systems: `comparable` is no where the input, the medium (a network, a \
        file server's protocol) or the disk differs; a / b after a figure: processor use of sender and receiver in percent";
    let title = "published figures beside ours".into();
    (!rows.is_empty()).then(|| (Grid { title, header, rows, text_columns: 3 }, note.to_owned()))
}

fn ours(result: Option<&ResultRecord>) -> String {
    let Some(result) = result.filter(|result| result.verified) else { return NONE.into() };
    let Some(median) = result.median else { return NONE.into() };
    let metric = |name: &str| stats::median(&result.metrics.get(name)?.samples);
    with_cpu(median, metric("sender_cpu"), metric("receiver_cpu"))
}

fn with_cpu(value: f64, sender: Option<f64>, receiver: Option<f64>) -> String {
    match (sender, receiver) {
        (Some(sender), Some(receiver)) => {
            format!("{} ({sender:.0} / {receiver:.0})", number(value))
        }
        _ => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Better, RowRecord, SCHEMA};

    #[test]
    fn a_published_figure_has_a_line_with_ours_beside_it() {
        let result = ResultRecord {
            engine: "auto".into(),
            median: Some(900.0),
            verified: true,
            ..ResultRecord::default()
        };
        let row = |name: &str| RowRecord {
            suite: "ttcp".into(),
            row: name.into(),
            params: Default::default(),
            unit: "MB/s".into(),
            better: Better::Higher,
            work: 1.0,
            comparable_to_published: false,
            results: vec![result.clone()],
        };
        let record = Record {
            schema: SCHEMA.into(),
            host: Default::default(),
            axplab: Default::default(),
            randomised_layout: false,
            rows: vec![row("ttcp-1460"), row("ttcp-108")],
            indices: Default::default(),
            warnings: Vec::new(),
        };
        let (grid, _) = grid(&record).unwrap();
        assert_eq!(grid.rows.len(), 2);
        assert_eq!(grid.rows[0][3..], ["5.712 (86 / 30)", "900.0", "no"]);
    }
}
