//! The driver loop: engine, guest event, personality, and round again.

use super::{Engine, Environment, Flow, Limit, Outcome};
use crate::cpu::{Exit, Vcpu};

/// Runs `vcpu` on `engine` until `env` says that it has ended or `limit` instructions have retired.
pub fn run(
    engine: &mut dyn Engine,
    env: &mut dyn Environment,
    vcpu: &mut Vcpu,
    limit: Limit,
) -> Outcome {
    let end = match limit {
        Limit::None => None,
        Limit::Count(n) => Some(vcpu.cpu.count.saturating_add(n)),
    };
    loop {
        let slice = match end {
            None => Limit::None,
            Some(end) => Limit::Count(end.saturating_sub(vcpu.cpu.count)),
        };
        let exit = match (slice, env.palcode()) {
            (Limit::None, Some(palcode)) => engine.run_with(vcpu, palcode),
            _ => engine.run(vcpu, slice),
        };
        if exit == Exit::Limit {
            return Outcome::LimitReached;
        }
        let flow = env.handle(vcpu, exit);
        if let Some((start, end)) = env.take_code_change() {
            engine.invalidate(start, end);
        }
        if let Flow::Stop(outcome) = flow {
            return outcome;
        }
    }
}
