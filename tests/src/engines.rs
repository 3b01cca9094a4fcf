//! The engines under test, in one place: vectors, random blocks and micro-programs iterate over
//! [`ENGINES`], whole programs over [`PROGRAM_RUNS`]. To put a new engine under all of them, add a line
//! to each.

use axp_emu::engine::Engine;
use axp_emu::interp::{Dispatch, Interpreter};
use axp_jit::auto::{Auto, Tuning};
use axp_jit::baseline::Baseline;
use axp_jit::opt::Opt;

/// An engine and how to make one.
#[derive(Clone, Copy)]
pub struct EngineUnderTest {
    /// Name as `--engine` spells it.
    pub name: &'static str,
    /// Makes one that has translated nothing.
    pub make: fn() -> Box<dyn Engine>,
}

/// All engines; the first is the reference that the others are compared with.
pub const ENGINES: &[EngineUnderTest] = &[
    EngineUnderTest { name: "interp-match", make: || Box::new(Interpreter::new(Dispatch::Match)) },
    EngineUnderTest { name: "interp", make: || Box::new(Interpreter::new(Dispatch::Threaded)) },
    EngineUnderTest {
        name: "baseline",
        make: || Box::new(Baseline::new().expect("this host is supported")),
    },
    EngineUnderTest { name: "opt", make: || Box::new(Opt::new().expect("this host is supported")) },
    EngineUnderTest {
        name: "opt-eager",
        // Regions from wherever control arrives.
        make: || Box::new(Opt::with_patience(0).expect("this host is supported")),
    },
    EngineUnderTest {
        name: "auto",
        // So low that short tests see regions, too.
        make: || auto(Tuning { threshold: Some(3), sync: true, off: false }),
    },
    EngineUnderTest {
        name: "auto-background",
        make: || auto(Tuning { threshold: Some(3), sync: false, off: false }),
    },
];

fn auto(tuning: Tuning) -> Box<dyn Engine> {
    Box::new(Auto::with_tuning(tuning).expect("this host is supported"))
}

/// Options of `run-guest` under which whole programs run. Of the interpreter one dispatch is enough,
/// since both have the same handlers; of the window at another address than zero the engine that both
/// interprets and compiles.
pub const PROGRAM_RUNS: &[&[&str]] = &[
    &["--engine", "interp"],
    &["--engine", "baseline"],
    &["--engine", "opt"],
    &["--engine", "auto"],
    &["--engine", "auto-background"],
    &["--engine", "auto", "--based"],
];
