//! System calls of Linux programs are carried out in the midst of compiled code (ADR 22). A process of its
//! own: a guest in this one changes what other tests' children inherit.

use std::ffi::OsString;
use std::path::Path;

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Engine, EngineStats, Limit, Outcome, Palcode};
use axp_emu::linux::{Linux, LinuxOptions};
use axp_tests::engines::ENGINES;

/// Counts how often an engine comes back, with the personality's PALcode lent to it or without.
struct Returns {
    engine: Box<dyn Engine>,
    lent: bool,
    times: u64,
}

impl Engine for Returns {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        self.times += 1;
        self.engine.run(vcpu, limit)
    }

    fn run_with(&mut self, vcpu: &mut Vcpu, palcode: &mut dyn Palcode) -> Exit {
        self.times += 1;
        if self.lent {
            self.engine.run_with(vcpu, palcode)
        } else {
            self.engine.run(vcpu, Limit::None)
        }
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        self.engine.invalidate(start, end);
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}

#[test]
fn system_calls_do_not_leave_compiled_code() {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-programs/elf");
    let argv = ["system", "syscalls", "2", "8192"].map(OsString::from);
    for under_test in ENGINES.iter().filter(|e| ["baseline", "opt", "auto"].contains(&e.name)) {
        let [with, without] = [true, false].map(|lent| {
            let options = LinuxOptions { based: true, ..LinuxOptions::default() };
            let program = guests.join("system.ev56.elf");
            let (mut linux, mut vcpu) = Linux::load(&program, &argv, &[], options).unwrap();
            let mut engine = Returns { engine: (under_test.make)(), lent, times: 0 };
            let outcome = axp_emu::engine::run(&mut engine, &mut linux, &mut vcpu, Limit::None);
            assert_eq!(outcome, Outcome::Exited(0), "{}", under_test.name);
            engine.times
        });
        assert!(without > 10_000 && 100 * with < without, "{}: {with}, {without}", under_test.name);
    }
}
