//! The one line that a kernel prints, as data; the lab parses it from every engine's output,
//! native and foreign ones included.

use std::collections::{BTreeMap, HashMap};

/// A parsed `AXPLAB1` line.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultLine {
    /// The row's name.
    pub row: String,
    /// The input size used.
    pub size: u64,
    /// Repetitions done.
    pub reps: u64,
    /// Work done in all repetitions.
    pub work: u64,
    /// Unit of the work.
    pub unit: String,
    /// Seconds in the timed part of all repetitions.
    pub seconds: f64,
    /// Checksum of the result; `mismatch` if repetitions differed.
    pub checksum: String,
    /// What the row says besides, by name; figures only.
    pub extra: BTreeMap<String, f64>,
}

/// The fields of every line.
const FIELDS: [&str; 7] = ["row", "size", "reps", "work", "unit", "seconds", "checksum"];

/// Why a text is not a kernel's line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The text is not exactly one line that starts with the marker.
    #[error("not one AXPLAB1 line: {0:?}")]
    NotALine(String),
    /// A field is missing or malformed.
    #[error("AXPLAB1 line: bad or missing field '{0}'")]
    Field(&'static str),
}

impl ResultLine {
    /// Parses a kernel's whole standard output; fields beyond its own that are no figures are ignored.
    pub fn parse(stdout: &str) -> Result<ResultLine, LineError> {
        let line = stdout.strip_suffix('\n').unwrap_or(stdout);
        let fields = line
            .strip_prefix("AXPLAB1 ")
            .filter(|rest| !rest.contains('\n'))
            .ok_or_else(|| LineError::NotALine(stdout.chars().take(80).collect()))?;
        let fields: HashMap<&str, &str> =
            fields.split(' ').filter_map(|field| field.split_once('=')).collect();
        let text = |name| fields.get(name).copied().ok_or(LineError::Field(name));
        let number = |name| text(name)?.parse::<u64>().map_err(|_| LineError::Field(name));
        let seconds: f64 = text("seconds")?.parse().map_err(|_| LineError::Field("seconds"))?;
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(LineError::Field("seconds"));
        }
        let extra = fields
            .iter()
            .filter(|(name, _)| !FIELDS.contains(name))
            .filter_map(|(name, value)| Some(((*name).to_owned(), value.parse().ok()?)))
            .filter(|(_, value): &(String, f64)| value.is_finite())
            .collect();
        Ok(ResultLine {
            extra,
            row: text("row")?.to_owned(),
            size: number("size")?,
            reps: number("reps")?,
            work: number("work")?,
            unit: text("unit")?.to_owned(),
            seconds,
            checksum: text("checksum")?.to_owned(),
        })
    }
}
