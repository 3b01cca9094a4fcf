//! Project chores: `cargo xtask ci | bless | docs | guests`. Parses and dispatches, no more.

fn main() {}
