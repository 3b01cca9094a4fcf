//! What the cross-crate tests and the project chores share.

pub mod guests_build;
