//! The statistics against samples of known distributions, and the verdicts on doctored records.

use super::*;
use crate::records::tests::record;

const ROWS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn options() -> Options {
    Options { threshold: 0.05, base: "native".into() }
}

/// Nearly normal around 0 with deviation 1.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

/// A run whose clock drifts by up to a half, with noise of `sigma`; `auto` takes `factor` times as long.
fn run(random: &mut fastrand::Rng, sigma: f64, factor: f64, count: usize) -> Record {
    let mut run = record(&ROWS, &[("native", &[1.0]), ("auto", &[1.0])]);
    for row in &mut run.rows {
        for index in 0..count {
            let clock = 100.0 * (1.0 + 0.5 * random.f64());
            if index == 0 {
                row.results.iter_mut().for_each(|result| result.samples.clear());
            }
            row.results[0].samples.push(clock * (sigma * normal(random)).exp());
            row.results[1].samples.push(clock / 3.0 / factor * (sigma * normal(random)).exp());
        }
    }
    run
}

#[test]
fn a_planted_tenth_is_found_and_the_same_build_raises_no_alarm() {
    let mut random = fastrand::Rng::with_seed(3);
    let (mut found, mut false_alarms) = (0, 0);
    for _ in 0..20 {
        let old = run(&mut random, 0.03, 1.0, 5);
        let slow = compare(&old, &run(&mut random, 0.03, 1.1, 5), &options()).unwrap();
        found += usize::from(slow.tiers[0].verdict == Verdict::Slower && slow.alarms());
        let same = compare(&old, &run(&mut random, 0.03, 1.0, 5), &options()).unwrap();
        false_alarms += usize::from(same.alarms());
    }
    assert!(found >= 19 && false_alarms == 0, "found {found}, false {false_alarms}");
}

/// What was measured on a busy machine: for each row, rates of native and opt, round after round.
fn recorded() -> Vec<[Vec<f64>; 2]> {
    let mut columns = include_str!("noise.txt").lines().skip(1).map(|line| -> Vec<f64> {
        line.split(' ').skip(2).map(|word| word.parse().unwrap()).collect()
    });
    std::iter::from_fn(|| Some([columns.next()?, columns.next()?])).collect()
}

/// A run whose rounds are drawn from the recorded ones.
fn noisy(random: &mut fastrand::Rng, factor: f64, count: usize) -> Record {
    let rows = recorded();
    let names: Vec<String> = (0..rows.len()).map(|row| row.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut run = record(&names, &[("native", &[1.0]), ("auto", &[1.0])]);
    for (row, [native, auto]) in run.rows.iter_mut().zip(&rows) {
        let rounds: Vec<usize> = (0..count).map(|_| random.usize(..native.len())).collect();
        row.results[0].samples = rounds.iter().map(|&at| native[at]).collect();
        row.results[1].samples = rounds.iter().map(|&at| auto[at] / factor).collect();
    }
    run
}

#[test]
fn a_planted_tenth_is_found_in_the_noise_of_a_busy_machine() {
    let mut random = fastrand::Rng::with_seed(6);
    let (mut found, mut false_alarms) = (0, 0);
    for _ in 0..20 {
        let old = noisy(&mut random, 1.0, 25);
        let slow = compare(&old, &noisy(&mut random, 1.1, 25), &options()).unwrap();
        found += usize::from(slow.tiers[0].verdict == Verdict::Slower);
        let same = compare(&old, &noisy(&mut random, 1.0, 25), &options()).unwrap();
        false_alarms += usize::from(same.alarms());
    }
    assert!(found >= 19 && false_alarms == 0, "found {found}, false {false_alarms}");
}

#[test]
fn a_row_without_steadiness_does_not_hide_what_the_others_show() {
    let mut random = fastrand::Rng::with_seed(8);
    let mut with_wild = |factor: f64| {
        let mut run = run(&mut random, 0.02, factor, 9);
        for sample in &mut run.rows[0].results[1].samples {
            *sample *= (0.8 * normal(&mut random)).exp();
        }
        run
    };
    let found = compare(&with_wild(1.0), &with_wild(1.1), &options()).unwrap();
    assert_eq!(found.tiers[0].verdict, Verdict::Slower, "{:?}", found.tiers[0]);
    // And where every row is exact, each weighs the same.
    let steady = |factors: [f64; 2]| {
        let samples = [100.0; 5];
        let mut run = record(&["a", "b"], &[("native", &samples), ("auto", &samples)]);
        for (row, factor) in run.rows.iter_mut().zip(factors) {
            row.results[1].samples = vec![100.0 / factor; 5];
        }
        run
    };
    let found = compare(&steady([1.0, 1.0]), &steady([1.0, 1.21]), &options()).unwrap();
    assert!((found.tiers[0].change.unwrap().ratio - 1.1).abs() < 1e-9);
}

#[test]
fn even_wild_noise_rarely_raises_an_alarm() {
    let mut random = fastrand::Rng::with_seed(4);
    let mut alarm = || {
        let (old, new) = (run(&mut random, 0.15, 1.0, 5), run(&mut random, 0.15, 1.0, 5));
        compare(&old, &new, &options()).unwrap().alarms()
    };
    let alarms = (0..20).filter(|_| alarm()).count();
    assert!(alarms <= 2, "{alarms} of 20");
}

#[test]
fn intervals_cover_the_true_change_at_least_about_as_often_as_they_say() {
    let mut random = fastrand::Rng::with_seed(5);
    for count in [5, 9, 20] {
        let covered = (0..200).filter(|&seed| {
            let mut draw = |shift: f64| -> Vec<f64> {
                (0..count).map(|_| shift + 0.1 * normal(&mut random)).collect()
            };
            let (low, high) = Bootstrap::new(&draw(0.0), &draw(0.3), seed).interval(0.95);
            low <= 0.3 && 0.3 <= high
        });
        let covered = covered.count();
        assert!(covered >= 186, "{covered} of 200 with {count} samples");
    }
}

#[test]
fn each_change_has_its_verdict() {
    let samples = [98.0, 99.0, 100.0, 101.0, 102.0];
    let with = |factor: f64| {
        let auto = samples.map(|x| x * factor);
        record(&["a"], &[("native", &samples), ("auto", &auto)])
    };
    for (factor, expected) in [
        (1.0, Verdict::Same),
        (0.5, Verdict::Slower),
        (2.0, Verdict::Faster),
        (0.94, Verdict::Slower),
        (0.97, Verdict::Same),
    ] {
        let found = compare(&with(1.0), &with(factor), &options()).unwrap();
        assert_eq!(found.rows[0].verdict, expected, "{factor}");
        assert_eq!(found.alarms(), expected == Verdict::Slower);
        let ratio = found.rows[0].change.unwrap().ratio;
        assert!((ratio * factor - 1.0).abs() < 1e-9, "{ratio}");
    }
    // A tenth more in few, spread samples says nothing yet.
    let mut wild = with(1.0);
    wild.rows[0].results[1].samples = vec![60.0, 70.0, 90.0, 130.0, 150.0];
    assert_eq!(compare(&with(1.0), &wild, &options()).unwrap().rows[0].verdict, Verdict::Unclear);
}

#[test]
fn doctored_records_are_judged_as_they_should_be() {
    let samples = [98.0, 99.0, 100.0, 101.0, 102.0];
    let good = record(&["a", "b"], &[("native", &samples), ("auto", &samples)]);
    let judged = |change: &dyn Fn(&mut Record)| {
        let mut new = good.clone();
        change(&mut new);
        let found = compare(&good, &new, &options()).unwrap();
        (found.rows[0].verdict, found.alarms(), found.nothing_compared())
    };
    type Doctor<'a> = &'a dyn Fn(&mut Record);
    let cases: [(Doctor, Verdict, bool, bool); 10] = [
        (&|r| r.host.cpu = "other".into(), Verdict::Incomparable, false, true),
        (&|r| r.axplab.profile = "other".into(), Verdict::Incomparable, false, true),
        (
            &|r| r.rows[0].results[0].compiler = Some("other".into()),
            Verdict::Incomparable,
            false,
            false,
        ),
        (&|r| r.rows[0].results[0].artifact_sha256 = None, Verdict::Incomparable, false, false),
        (&|r| r.rows[0].results[1].artifact_sha256 = None, Verdict::Incomparable, false, false),
        (&|r| r.rows[0].work = 2.0, Verdict::Incomparable, false, false),
        (&|r| r.rows[0].results[1].samples.truncate(4), Verdict::Unclear, false, false),
        (&|r| r.rows[0].results[1].samples[2] = 0.0, Verdict::Incomparable, false, false),
        (&|r| drop(r.rows[0].results.pop()), Verdict::Missing, false, false),
        (&|r| r.rows[0].results[1].verified = false, Verdict::Broken, true, false),
    ];
    for (index, (change, verdict, alarms, nothing)) in cases.into_iter().enumerate() {
        assert_eq!(judged(change), (verdict, alarms, nothing), "case {index}");
    }
    let none = Options { base: "qemu-alpha".into(), ..options() };
    assert!(compare(&good, &good, &none).is_err());
    assert!(compare(&good, &good, &Options { base: "interp".into(), ..options() }).is_err());
    let text = compare(&good, &good, &options()).unwrap().markdown();
    assert!(text.contains("| auto | geometric mean of 2 | +0.0 % |"), "{text}");
}

#[test]
fn an_alarm_stands_only_if_it_repeats_itself() {
    let mut random = fastrand::Rng::with_seed(5);
    let old = run(&mut random, 0.01, 1.0, 9);
    let slow = |random: &mut fastrand::Rng, factor| {
        compare(&old, &run(random, 0.01, factor, 9), &options()).unwrap()
    };
    let mut first = slow(&mut random, 1.2);
    assert!(first.alarms() && first.doubtful() == ROWS);
    first.confirm(&slow(&mut random, 1.2));
    assert!(first.alarms() && first.tiers[0].verdict == Verdict::Slower);
    first.confirm(&slow(&mut random, 1.0));
    assert!(!first.alarms() && first.doubtful().is_empty());
    assert!(first.rows.iter().all(|line| line.why.contains("measured again")));
    // One row alone.
    let mut one = slow(&mut random, 1.0);
    one.rows[2].verdict = Verdict::Slower;
    assert_eq!(one.doubtful(), ["c"]);
    let mut again = slow(&mut random, 1.2);
    again.rows.retain(|line| line.row == "c");
    one.confirm(&again);
    assert_eq!(one.rows[2].verdict, Verdict::Slower);
}
