//! Placeholder.

pub mod sem;
