//! What the test programs and the project chores share: sources as text, vectors, generator,
//! machine state, the engines under test, and the build of the guest programs.

pub mod guests_build;
pub mod source;
