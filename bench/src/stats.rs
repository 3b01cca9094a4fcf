//! Robust statistics over a handful of samples: what the record's medians and the table's spreads are made of.

/// A summary of samples of one quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The middle value.
    pub median: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// Median absolute deviation from the median, not scaled.
    pub mad: f64,
    /// A 95 % bootstrap interval of the median.
    pub interval: (f64, f64),
    /// Samples further from the median than a normal distribution explains.
    pub outliers: usize,
}

impl Summary {
    /// Summarises finite samples; `None` if there are none.
    pub fn new(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples)?;
        let median = middle(&sorted);
        let mad = mad(&sorted, median);
        // Hampel's rule: 3.5 scaled deviations; with no deviation at all, nothing is called an outlier.
        let limit = 3.5 * mad / 0.6745;
        let outliers = sorted.iter().filter(|&&x| mad > 0.0 && (x - median).abs() > limit).count();
        Some(Self {
            median,
            min: sorted[0],
            max: sorted[sorted.len() - 1],
            mad,
            interval: bootstrap_median(&sorted, 1000, 0.95),
            outliers,
        })
    }

    /// The spread as a share of the median: the scaled deviation, which equals the standard deviation of a normal one.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.mad / 0.6745 / self.median).abs() }
    }
}

/// The median of finite samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    sorted(samples).map(|sorted| middle(&sorted))
}

/// The mean of finite samples without the least and the greatest fifth: nearly as exact as the mean where all is
/// well, and moved by neither end. (Times on a shared machine have two humps, between which a median jumps.)
pub fn trimmed_mean(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples)?;
    let cut = sorted.len() / 5;
    let kept = &sorted[cut..sorted.len() - cut];
    Some(kept.iter().sum::<f64>() / kept.len() as f64)
}

/// The geometric mean of positive values; `None` if there are none or one is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let fit = !values.is_empty() && values.iter().all(|&x| x > 0.0 && x.is_finite());
    // Logarithms, since a product of many ratios may leave the range.
    fit.then(|| (values.iter().map(|x| x.ln()).sum::<f64>() / values.len() as f64).exp())
}

fn sorted(samples: &[f64]) -> Option<Vec<f64>> {
    let fit = !samples.is_empty() && samples.iter().all(|x| x.is_finite());
    fit.then(|| {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted
    })
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    // Halved before adding, so that the sum stays finite.
    if sorted.len() % 2 == 1 { sorted[half] } else { sorted[half - 1] / 2.0 + sorted[half] / 2.0 }
}

fn mad(sorted: &[f64], median: f64) -> f64 {
    let mut deviations: Vec<f64> = sorted.iter().map(|x| (x - median).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    middle(&deviations)
}

/// The percentile interval of the median over resamples. The seed is fixed: one record gives one report.
fn bootstrap_median(sorted: &[f64], resamples: usize, level: f64) -> (f64, f64) {
    let mut random = fastrand::Rng::with_seed(0x0a15_a0a5);
    let mut medians: Vec<f64> = (0..resamples)
        .map(|_| {
            let mut draw: Vec<f64> =
                (0..sorted.len()).map(|_| sorted[random.usize(..sorted.len())]).collect();
            draw.sort_by(f64::total_cmp);
            middle(&draw)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    let at = |share: f64| medians[((resamples - 1) as f64 * share).round() as usize];
    (at(tail), at(1.0 - tail))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(1e-6f64..1e12, 1..40)
    }

    proptest! {
        #[test]
        fn the_summary_is_ordered_and_does_not_depend_on_order(mut xs in samples(), seed in any::<u64>()) {
            let summary = Summary::new(&xs).unwrap();
            prop_assert!(summary.min <= summary.interval.0 && summary.interval.1 <= summary.max);
            prop_assert!(summary.interval.0 <= summary.median && summary.median <= summary.interval.1);
            prop_assert!(summary.mad >= 0.0 && summary.mad <= summary.max - summary.min);
            fastrand::Rng::with_seed(seed).shuffle(&mut xs);
            prop_assert_eq!(Summary::new(&xs).unwrap(), summary);
        }

        #[test]
        fn at_least_half_lie_on_each_side_of_the_median(xs in samples()) {
            let middle = median(&xs).unwrap();
            prop_assert!(xs.iter().filter(|&&x| x <= middle).count() * 2 >= xs.len());
            prop_assert!(xs.iter().filter(|&&x| x >= middle).count() * 2 >= xs.len());
        }

        #[test]
        fn scaling_scales_all_but_the_relative_spread(xs in samples(), exponent in -8i32..8) {
            // A power of two, so that scaling is exact.
            let factor = 2f64.powi(exponent);
            let scaled: Vec<f64> = xs.iter().map(|x| x * factor).collect();
            let (one, two) = (Summary::new(&xs).unwrap(), Summary::new(&scaled).unwrap());
            prop_assert_eq!(one.median * factor, two.median);
            prop_assert_eq!(one.outliers, two.outliers);
            prop_assert!((one.spread() - two.spread()).abs() <= 1e-12);
        }

        #[test]
        fn the_geometric_mean_lies_between_and_inverts(xs in samples()) {
            let mean = geometric_mean(&xs).unwrap();
            let (low, high) = (xs.iter().copied().fold(f64::MAX, f64::min), xs.iter().copied().fold(0.0, f64::max));
            prop_assert!(low * 0.999_999 <= mean && mean <= high * 1.000_001);
            let inverse: Vec<f64> = xs.iter().map(|x| 1.0 / x).collect();
            prop_assert!((geometric_mean(&inverse).unwrap() * mean - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn known_samples_give_known_figures() {
        let summary = Summary::new(&[9.0, 10.0, 10.0, 11.0, 50.0]).unwrap();
        assert_eq!((summary.median, summary.min, summary.max, summary.mad), (10.0, 9.0, 50.0, 1.0));
        assert_eq!(summary.outliers, 1);
        assert_eq!(median(&[1.0, 2.0, 3.0, 4.0]), Some(2.5));
        assert_eq!(median(&[f64::MAX, f64::MAX]), Some(f64::MAX));
        assert!((geometric_mean(&[2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(trimmed_mean(&[900.0, 1.0, 2.0, 3.0, -900.0]), Some(2.0));
        assert_eq!(trimmed_mean(&[1.0, 5.0]), Some(3.0));
    }

    #[test]
    fn nothing_is_made_of_nothing_or_of_what_is_no_number() {
        assert_eq!(Summary::new(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!((trimmed_mean(&[]), trimmed_mean(&[f64::INFINITY])), (None, None));
    }

    #[test]
    fn the_interval_of_the_median_covers_the_true_one_about_as_often_as_it_says() {
        let mut random = fastrand::Rng::with_seed(7);
        let covered = (0..300)
            .filter(|_| {
                // Sums of uniforms: nearly normal around 6.
                let xs: Vec<f64> = (0..25).map(|_| (0..12).map(|_| random.f64()).sum()).collect();
                let (low, high) = Summary::new(&xs).unwrap().interval;
                low <= 6.0 && 6.0 <= high
            })
            .count();
        assert!((270..=298).contains(&covered), "{covered} of 300");
    }
}
