//! The VUPS-like rows: the loop that VUPS.COM times, on the privileged machine, by every engine, one to
//! three at once. Called by `cmd/bench.rs` where every row is measured.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use axp_emu::mem::ProbeStrategy;
use serde_json::Value;

use crate::machine::{self, Job};
use crate::measure::Interrupt;
use crate::record::{Better, Metric, ResultRecord, RowRecord};

/// VUPS.COM's `cpu_multiplier` that the rows are for.
pub const MULTIPLIER: u32 = 10;

/// Iterations per CPU second that VUPS.COM rates as 1 with that multiplier.
pub const VUP_RATE: f64 = 39.05;

/// How many machines run at once.
const AT_ONCE: [usize; 3] = [1, 2, 3];

/// How PROBE finds its answers: as where nothing is chosen.
const STRATEGY: ProbeStrategy = ProbeStrategy::Inline;

/// The shares of time that are told, in the machine's order.
const MODES: [&str; 5] = ["kernel", "executive", "supervisor", "user", "palcode"];

/// The two commands that VUPS.COM times.
pub fn counting_loop(rounds: u64) -> String {
    format!(
        "$ loop_index = 0\n$ 30$:\n$ loop_index = loop_index + 1\n\
         $ if loop_index .ne. {rounds} then goto 30$\n$ exit\n"
    )
}

/// An engine in the making of a row.
#[derive(Clone)]
struct Cell<'a> {
    engine: &'a str,
    /// Iterations of the shorter of the two loops that make a sample.
    rounds: u64,
    samples: Vec<f64>,
    order: Vec<u32>,
    error: Option<String>,
}

/// The rows, by samples that each take `target` or a little more. An engine that fails says why in its result.
pub fn rows(
    engines: &[&str],
    samples: u32,
    target: Duration,
    interrupt: &Interrupt,
) -> Vec<RowRecord> {
    let mut rows = Vec::new();
    let ready: Vec<Cell> =
        engines.iter().map(|engine| calibrated(engine, target, interrupt)).collect();
    for at_once in AT_ONCE {
        let mut cells = ready.clone();
        let mut place = 0;
        for _ in 0..samples {
            for cell in cells.iter_mut().filter(|cell| cell.error.is_none()) {
                if interrupt.is_set() {
                    break;
                }
                match together(cell.engine, cell.rounds, at_once) {
                    Ok(rate) => {
                        cell.samples.push(rate / VUP_RATE);
                        cell.order.push(place);
                        place += 1;
                    }
                    Err(error) => cell.error = Some(format!("{error:#}")),
                }
            }
        }
        rows.push(RowRecord {
            suite: "vups".into(),
            row: match at_once {
                1 => "vups-like".into(),
                _ => format!("vups-like-{at_once}-at-once"),
            },
            params: BTreeMap::from([
                ("multiplier".to_owned(), Value::from(MULTIPLIER)),
                ("at_once".to_owned(), Value::from(at_once)),
                ("samples".to_owned(), Value::from(samples)),
            ]),
            unit: "VUPS-like".into(),
            better: Better::Higher,
            work: 1.0,
            comparable_to_published: false,
            results: cells.into_iter().filter_map(result).collect(),
        });
    }
    rows.retain(|row| !row.results.is_empty());
    rows
}

/// The number of rounds at which a sample takes `target`.
fn calibrated<'a>(engine: &'a str, target: Duration, interrupt: &Interrupt) -> Cell<'a> {
    const MOST: u64 = 1 << 28;
    let mut cell =
        Cell { engine, rounds: 4000, samples: Vec::new(), order: Vec::new(), error: None };
    while cell.rounds < MOST && !interrupt.is_set() {
        match seconds(engine, cell.rounds) {
            Ok(spent) if spent < target.as_secs_f64() => cell.rounds *= 2,
            Ok(_) => break,
            Err(error) => {
                cell.error = Some(format!("{error:#}"));
                break;
            }
        }
    }
    cell
}

/// CPU seconds of `3 * rounds` iterations: a long loop less a short one, which start and translate alike.
fn seconds(engine: &str, rounds: u64) -> anyhow::Result<f64> {
    let time = |rounds| {
        let done = machine::run(&Job::procedure(engine, STRATEGY, &counting_loop(rounds)))?;
        ensure!(done.status == 0, "the procedure ended with status {}", done.status);
        Ok(done.loop_time)
    };
    let (short, long) = (time(rounds)?, time(4 * rounds)?);
    Ok(long.saturating_sub(short).as_secs_f64())
}

/// Iterations per CPU second of a machine, the mean of some that run at once.
fn together(engine: &str, rounds: u64, at_once: usize) -> anyhow::Result<f64> {
    let spent = std::thread::scope(|scope| {
        let all: Vec<_> = (0..at_once).map(|_| scope.spawn(|| seconds(engine, rounds))).collect();
        let joined = all.into_iter().map(|one| one.join().map_err(|_| anyhow!("it panicked"))?);
        joined.collect::<anyhow::Result<Vec<f64>>>()
    })?;
    ensure!(spent.iter().all(|&s| s > 0.0), "too short to be measured");
    let rates = spent.iter().map(|s| 3.0 * rounds as f64 / s);
    Ok(rates.sum::<f64>() / at_once as f64)
}

/// Shares of time by mode, in percent, from a run of its own.
fn shares(engine: &str, rounds: u64) -> anyhow::Result<[f64; 5]> {
    let text = counting_loop(4 * rounds);
    let job = Job { sampler: Some(|_| ()), ..Job::procedure(engine, STRATEGY, &text) };
    let time = machine::run(&job)?.counters.time.map(|t| t.as_secs_f64());
    let total: f64 = time.iter().sum();
    ensure!(total > 0.0, "no time was taken");
    Ok(time.map(|t| 100.0 * t / total))
}

/// What came of it: never a figure beside an error, and nothing if it was interrupted before the first.
fn result(cell: Cell<'_>) -> Option<ResultRecord> {
    let artifact_sha256 = Some(axp_guests::sha256_hex(axp_guests::EXECUTIVE));
    let (engine, error) = (cell.engine.to_owned(), cell.error);
    if error.is_some() {
        return Some(ResultRecord { engine, artifact_sha256, error, ..ResultRecord::default() });
    }
    if cell.samples.is_empty() {
        return None;
    }
    let metric = |unit: &str, better, samples| Metric { unit: unit.into(), better, samples };
    let rates = cell.samples.iter().map(|s| s * VUP_RATE).collect();
    let mut metrics = BTreeMap::from([(
        "iterations_per_second".to_owned(),
        metric("1/s", Better::Higher, rates),
    )]);
    if let Ok(shares) = shares(cell.engine, cell.rounds) {
        let by_mode = MODES.iter().zip(shares);
        metrics.extend(
            by_mode.map(|(mode, s)| (format!("{mode}_share"), metric("%", Better::Lower, vec![s]))),
        );
    }
    Some(ResultRecord {
        order: cell.order,
        metrics,
        artifact_sha256,
        ..ResultRecord::measured(cell.engine, cell.samples)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_at_once_give_a_rate_each() {
        for engine in ["interp", "auto"] {
            let rate = together(engine, 500, 3).unwrap();
            assert!(rate.is_finite() && rate > 0.0, "{engine}: {rate}");
            let shares = shares(engine, 2000).unwrap();
            assert!((shares.iter().sum::<f64>() - 100.0).abs() < 1e-6, "{shares:?}");
            // DCL is a supervisor-mode program.
            assert!(shares[2] > 0.0, "{shares:?}");
        }
    }

    #[test]
    fn an_engine_that_fails_says_why() {
        let mut cell =
            calibrated("no-such-engine", Duration::from_millis(1), &Interrupt::default());
        // What it measured before it failed is no result.
        cell.samples.push(1.0);
        let result = result(cell).unwrap();
        assert!(!result.verified && result.error.is_some() && result.samples.is_empty());
    }
}
