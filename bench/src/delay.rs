//! A slow-down planted in one engine, to see whether the lab finds it: `AXPLAB_PLANT_DELAY=opt:0.1` in the environment.
//!
//! Real time passes in the engine's process, before its exit is answered, so that the guest's own clock
//! sees it: hence no `run_with`, by which system calls would be answered before the time has passed.
//! Nothing that was measured is changed afterwards.

use std::hint::spin_loop;
use std::time::Instant;

use axp_emu::cpu::{Exit, Vcpu};
use axp_emu::engine::{Engine, EngineStats, Limit};

/// The engine, slowed down if the environment says so.
pub fn planted(engine: Box<dyn Engine>) -> Box<dyn Engine> {
    match std::env::var("AXPLAB_PLANT_DELAY").ok().and_then(|text| share(&text, engine.name())) {
        Some(share) => Box::new(Delayed { engine, share }),
        None => engine,
    }
}

fn share(text: &str, engine: &str) -> Option<f64> {
    let (name, share) = text.split_once(':')?;
    let share: f64 = share.parse().ok()?;
    (name == engine && (0.0..=10.0).contains(&share)).then_some(share)
}

/// Takes `share` longer than the engine in it.
struct Delayed {
    engine: Box<dyn Engine>,
    share: f64,
}

impl Engine for Delayed {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn run(&mut self, vcpu: &mut Vcpu, limit: Limit) -> Exit {
        let start = Instant::now();
        let exit = self.engine.run(vcpu, limit);
        let ran = start.elapsed();
        let until = ran.mul_f64(1.0 + self.share);
        while start.elapsed() < until {
            spin_loop();
        }
        exit
    }

    fn invalidate(&mut self, start: u64, end: u64) {
        self.engine.invalidate(start, end);
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_engine_is_slowed() {
        assert_eq!(share("opt:0.1", "opt"), Some(0.1));
        for text in ["auto:0.1", "opt", "opt:-1", "opt:NaN", "opt:x", ""] {
            assert_eq!(share(text, "opt"), None, "{text}");
        }
    }
}
