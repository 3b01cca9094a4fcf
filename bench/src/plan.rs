//! Measures one row on all engines: finds the repetitions for each, then takes the samples in turn, engine after engine, another one first in each round.

use std::time::Duration;

use crate::engines::{Build, EngineSpec};
use crate::measure::{Failure, Interrupt, Invocation, Sample, measure};

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Samples of each cell, unless it is slow.
    pub samples: u32,
    /// A slow cell gets fewer samples, but not fewer than this.
    pub least_samples: u32,
    /// The work loop's aimed-at seconds in one sample.
    pub target: f64,
    /// When a run is given up.
    pub timeout: Duration,
    /// All engines repeat a row as often as the slowest does, and seldom, since repetitions leave something
    /// behind: a file system, say, is slower after many files were deleted.
    pub alike: bool,
}

/// One engine's part in a row.
#[derive(Debug)]
pub struct Cell {
    /// The engine.
    pub engine: EngineSpec,
    /// Repetitions of each sample, once calibrated.
    pub reps: u64,
    /// Samples to take.
    pub wanted: u32,
    /// Samples taken.
    pub samples: Vec<Sample>,
    /// The place of each among all samples of the row.
    pub order: Vec<u32>,
    /// What went wrong; such a cell has no value. A cell that has an error from the start is not measured.
    pub error: Option<String>,
    /// What went wrong was that nothing came.
    pub timed_out: bool,
    /// One repetition a sample, as many samples as are asked for: there is nothing to calibrate.
    pub once: bool,
}

impl Cell {
    /// A cell not yet measured.
    pub fn new(engine: EngineSpec) -> Self {
        Self {
            engine,
            reps: 1,
            wanted: 0,
            samples: Vec::new(),
            order: Vec::new(),
            error: None,
            timed_out: false,
            once: false,
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.timed_out = matches!(failure, Failure::Timeout(_));
        self.error = match failure {
            Failure::Timeout(text) | Failure::Wrong(text) => Some(text),
            Failure::Interrupted => Some("interrupted".into()),
        };
    }
}

/// Where the measuring stands, for the progress bar.
pub trait Progress {
    /// Something is about to run.
    fn doing(&self, engine: &str, what: &str);
    /// That many samples, or the calibration for one, are behind us.
    fn done(&self, steps: u32);
}

/// Steps of one cell on the progress bar: its samples, and one for the calibration.
pub fn steps(settings: &Settings) -> u32 {
    settings.samples + 1
}

/// Measures the cells of a row. `command` makes the invocation for an engine (by its place) and repetitions.
///
/// Returns false if the user interrupted; what was measured by then stands.
pub fn measure_row(
    cells: &mut [Cell],
    settings: &Settings,
    command: &dyn Fn(usize, u64) -> Invocation,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> bool {
    for (index, cell) in cells.iter_mut().enumerate() {
        if cell.error.is_some() {
            progress.done(steps(settings));
            continue;
        }
        progress.doing(&cell.engine.name, "calibration");
        if cell.once {
            (cell.reps, cell.wanted) = (1, settings.samples);
            progress.done(1);
            continue;
        }
        let translates = cell.engine.build() == Build::Guest;
        let short = Settings { target: settings.target / SELDOM, ..*settings };
        let settings = if settings.alike { &short } else { settings };
        match calibrate(settings, translates, &|reps| command(index, reps), interrupt) {
            Ok(found) => (cell.reps, cell.wanted) = found,
            Err(Failure::Interrupted) => return false,
            Err(failure) => cell.fail(failure),
        }
        // The samples that will not be taken are behind us too.
        progress.done(1 + settings.samples - cell.wanted);
    }
    if settings.alike {
        let measured = |cell: &&mut Cell| cell.error.is_none();
        let least = cells.iter_mut().filter(measured).map(|cell| cell.reps).min();
        cells.iter_mut().filter(measured).for_each(|cell| cell.reps = least.unwrap_or(cell.reps));
    }
    let mut place = 0;
    for round in 0..settings.samples {
        // Nobody shall always run behind the same neighbour, or first on what the last round left.
        let first = round as usize % cells.len().max(1);
        for index in (first..cells.len()).chain(0..first) {
            let cell = &mut cells[index];
            if round >= cell.wanted || cell.error.is_some() {
                continue;
            }
            progress.doing(&cell.engine.name, &format!("sample {}", round + 1));
            match measure(&command(index, cell.reps), interrupt) {
                Ok(sample) if sample.seconds > 0.0 => {
                    cell.samples.push(sample);
                    cell.order.push(place);
                    place += 1;
                    progress.done(1);
                }
                Ok(_) => cell.error = Some("the kernel's clock did not move".into()),
                Err(Failure::Interrupted) => return false,
                Err(failure) => cell.fail(failure),
            }
            if cell.error.is_some() {
                progress.done(cell.wanted - round);
            }
        }
    }
    true
}

/// Repetitions for the aimed-at time, and how many samples of that length are worth their time.
///
/// A compiler translates within the first repetitions, so a guest engine's repetitions are chosen by what a *further*
/// repetition takes: translation is part of each sample, but does not stand in for the work.
fn calibrate(
    settings: &Settings,
    translates: bool,
    command: &dyn Fn(u64) -> Invocation,
    interrupt: &Interrupt,
) -> Result<(u64, u32), Failure> {
    let mut before = (0u64, 0.0, 0.0);
    let mut reps = 1u64;
    loop {
        let sample = measure(&command(reps), interrupt)?;
        let each = sample.seconds / reps as f64;
        let further = (sample.seconds - before.1) / (reps - before.0) as f64;
        // Noise may make a further repetition look free: never believe in less than a fiftieth.
        let further = further.max(each / 50.0);
        // What a row does outside its work loop is not measured, but takes its time.
        let around = match before.0 {
            0 => 0.0,
            done => (sample.wall - before.2) / (reps - done) as f64 / UNTIMED,
        };
        let further = further.max(around);
        let wanted = scale(1, settings.target / further);
        let first = before.0 == 0 && translates && sample.seconds < 4.0 * settings.target;
        let long = sample.seconds >= 4.0 * settings.target;
        if long || reps >= MOST || (!first && wanted <= reps.saturating_mul(2)) {
            let reps_taken = if long { wanted.min(reps) } else { wanted };
            let more = further * (reps_taken as f64 - reps as f64);
            return Ok((reps_taken, worthwhile(settings, sample.wall + more)));
        }
        before = (reps, sample.seconds, sample.wall);
        // Short times foretell little, but are cheap: the closer the target, the smaller the step.
        let short = sample.seconds < settings.target / 10.0 && sample.wall < settings.target;
        let step = if short { 100 } else { 8 };
        reps = wanted.clamp(reps.saturating_mul(2), reps.saturating_mul(step));
    }
}

/// How many times shorter a sample is aimed at where repetitions leave something behind.
const SELDOM: f64 = 8.0;

/// How many times the aimed-at time a sample may take in all, start-up aside.
const UNTIMED: f64 = 8.0;

/// More repetitions than any kernel needs.
const MOST: u64 = 1 << 40;

fn scale(reps: u64, factor: f64) -> u64 {
    ((reps as f64 * factor).round() as u64).clamp(1, MOST)
}

/// Where one repetition takes many times the target, fewer samples keep the whole table bounded.
fn worthwhile(settings: &Settings, wall: f64) -> u32 {
    let allowance = 3.0 * settings.target * f64::from(settings.samples);
    let affordable = (allowance / wall.max(1e-9)) as u32;
    affordable.clamp(settings.least_samples.min(settings.samples), settings.samples)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ffi::OsString;

    use super::*;
    use crate::engines;

    struct Silent;

    impl Progress for Silent {
        fn doing(&self, _: &str, _: &str) {}
        fn done(&self, _: u32) {}
    }

    const SETTINGS: Settings = Settings {
        samples: 3,
        least_samples: 1,
        target: 0.5,
        timeout: Duration::from_secs(20),
        alike: false,
    };

    /// A kernel whose clock shows a fixed time and `per_rep` for each repetition, without taking that long.
    fn pretend(fixed: f64, per_rep: f64, reps: u64) -> Invocation {
        let seconds = fixed + per_rep * reps as f64;
        let line = format!(
            "AXPLAB1 row=idea size=1 reps={reps} work={reps} unit=x seconds={seconds:.12} checksum=0000000000000001"
        );
        Invocation {
            argv: ["echo", &line].map(OsString::from).to_vec(),
            stats: "/nonexistent/stats".into(),
            row: "idea".into(),
            size: 1,
            reps,
            checksum: Some("0000000000000001".into()),
            timeout: SETTINGS.timeout,
            cwd: None,
            whole: false,
        }
    }

    fn cells(count: usize) -> Vec<Cell> {
        let all = engines::built_in().unwrap();
        all[..count].iter().cloned().map(Cell::new).collect()
    }

    #[test]
    fn repetitions_are_chosen_per_engine_for_the_target() {
        for fixed in [0.0, 0.1, 0.5] {
            for per_rep in [1e-8, 1e-4, 0.04, 0.26, 3.0] {
                let command = |reps| pretend(fixed, per_rep, reps);
                let found = calibrate(&SETTINGS, true, &command, &Interrupt::default());
                let reps = found.unwrap().0;
                let work = per_rep * reps as f64;
                assert!(reps == 1 || (0.3..=0.8).contains(&work), "{fixed} {per_rep}: {reps}");
            }
        }
    }

    #[test]
    fn what_is_not_timed_does_not_multiply_beyond_reason() {
        let asked = RefCell::new(0);
        let command = |reps: u64| {
            *asked.borrow_mut() = reps;
            let mut invocation = pretend(0.0, 1e-6, reps);
            // Ten milliseconds of preparation for a microsecond of work.
            let wait = format!("sleep {}; echo \"$0\"", 0.01 * reps as f64);
            let line = invocation.argv.pop().unwrap();
            invocation.argv = ["sh", "-c", &wait].map(OsString::from).to_vec();
            invocation.argv.push(line);
            invocation
        };
        let settings = Settings { target: 0.05, ..SETTINGS };
        let found = calibrate(&settings, true, &command, &Interrupt::default()).unwrap();
        assert!((2..=200).contains(&found.0) && asked.into_inner() <= 200, "{found:?}");
    }

    #[test]
    fn a_native_program_of_the_right_length_is_run_once() {
        let asked = RefCell::new(0);
        let command = |reps| {
            *asked.borrow_mut() += 1;
            pretend(0.0, 0.4, reps)
        };
        let found = calibrate(&SETTINGS, false, &command, &Interrupt::default());
        assert_eq!((found, asked.into_inner()), (Ok((1, 3)), 1));
    }

    #[test]
    fn a_slow_cell_gets_fewer_samples_but_some() {
        assert_eq!(worthwhile(&SETTINGS, 0.5), 3);
        assert_eq!(worthwhile(&SETTINGS, 2.0), 2);
        assert_eq!(worthwhile(&SETTINGS, 100.0), 1);
    }

    #[test]
    fn samples_are_interleaved_and_the_order_recorded() {
        let mut cells = cells(3);
        let asked = RefCell::new(Vec::new());
        let command = |index, reps| {
            asked.borrow_mut().push(index);
            pretend(0.0, 0.5, reps)
        };
        assert!(measure_row(&mut cells, &SETTINGS, &command, &Silent, &Interrupt::default()));
        assert_eq!(asked.into_inner()[4..], [0, 1, 2, 1, 2, 0, 2, 0, 1]);
        assert_eq!(cells[1].order, [1, 3, 8]);
        assert_eq!(cells[1].samples.len(), 3);
    }

    #[test]
    fn engines_repeat_alike_where_repetitions_leave_something_behind() {
        let repetitions = |alike| {
            let mut cells = cells(2);
            let command = |index, reps| pretend(0.0, [0.01, 0.05][index], reps);
            let settings = Settings { alike, ..SETTINGS };
            assert!(measure_row(&mut cells, &settings, &command, &Silent, &Interrupt::default()));
            [cells[0].reps, cells[1].reps]
        };
        assert_eq!((repetitions(false), repetitions(true)), ([50, 10], [1, 1]));
    }

    #[test]
    fn one_wrong_sample_spoils_its_cell_and_no_other() {
        let mut cells = cells(2);
        let runs = RefCell::new(0);
        let command = |index, reps| {
            let mut invocation = pretend(0.0, 0.5, reps);
            *runs.borrow_mut() += usize::from(index == 1);
            if index == 1 && *runs.borrow() == 3 {
                invocation.checksum = Some("0000000000000002".into());
            }
            invocation
        };
        assert!(measure_row(&mut cells, &SETTINGS, &command, &Silent, &Interrupt::default()));
        assert!(cells[0].error.is_none() && cells[0].samples.len() == 3);
        assert!(cells[1].error.as_ref().unwrap().contains("checksum"));
    }
}
