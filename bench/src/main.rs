//! The `axplab` command.

fn main() {}
