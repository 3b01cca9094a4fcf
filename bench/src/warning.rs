//! What a reader should know before believing the numbers, as values: collected while measuring, kept in the record, printed by reports.

use serde::{Deserialize, Serialize};

/// Relative spread above which a cell counts as noisy.
pub const NOISE: f64 = 0.05;
/// Samples below which a median says little.
pub const FEW_SAMPLES: usize = 5;
/// Samples from which on an outlier can be told from a narrow spread.
pub const OUTLIER_SAMPLES: usize = 10;

/// One warning. The kind is for programs, the message for people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// A short fixed word: `noise`, `few-samples`, `missing-engine`, `busy`, `debug-build`, `governor`, `interrupted`…
    pub kind: String,
    /// The row it concerns, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// The engine it concerns, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// One sentence.
    pub message: String,
}

impl Warning {
    /// A warning on the whole run.
    pub fn general(kind: &str, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), row: None, engine: None, message: message.into() }
    }

    /// A warning on one engine.
    pub fn engine(kind: &str, engine: &str, message: impl Into<String>) -> Self {
        Self { engine: Some(engine.into()), ..Self::general(kind, message) }
    }

    /// A warning on one engine's result in one row.
    pub fn cell(kind: &str, row: &str, engine: &str, message: impl Into<String>) -> Self {
        Self { row: Some(row.into()), ..Self::engine(kind, engine, message) }
    }
}
