//! Project chores: `cargo xtask ci | guests | bless | docs`.

fn main() {}
