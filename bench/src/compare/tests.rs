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
    // A tenth more in the median of few, spread samples says nothing yet.
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
