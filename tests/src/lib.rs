//! What the cross-crate tests and the project chores share: generators, oracles, guest builds.

pub mod guests_build;
pub mod objdump;
pub mod words;
