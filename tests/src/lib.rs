//! What the test programs share: generator, state, vectors, engines under test, source scans.

pub mod source;
