//! Placeholder.

pub mod fp;
