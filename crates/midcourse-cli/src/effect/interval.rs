//! Differences between two groups with 95 % confidence intervals.
//!
//! Both formulas need one quantile of the normal distribution and no other special function, so
//! they are written out here; `simulation` checks how often the intervals contain the true value.

use serde::Serialize;

/// The 97.5 % quantile of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// An estimate with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Estimate {
    /// Applies an increasing function to the estimate and to both ends of its interval.
    pub(super) fn map(self, function: impl Fn(f64) -> f64) -> Self {
        let Self { value, low, high } = self;
        Self { value: function(value), low: function(low), high: function(high) }
    }
}

/// A share, such as 3 of 10.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    pub(super) count: f64,
    pub(super) of: f64,
}

impl Share {
    fn value(self) -> f64 {
        self.count / self.of
    }

    /// The share with its interval, by Wilson's score method.
    pub(super) fn estimate(self) -> Estimate {
        let (value, z2) = (self.value(), Z * Z);
        let middle = value + z2 / (2.0 * self.of);
        let spread = Z * (value * (1.0 - value) / self.of + z2 / (4.0 * self.of * self.of)).sqrt();
        let scale = 1.0 + z2 / self.of;
        Estimate { value, low: (middle - spread) / scale, high: (middle + spread) / scale }
    }
}

/// The difference `a - b` of two shares, by Newcombe's hybrid score method. It keeps its level for
/// small groups and for shares near 0 and 1, where the textbook interval is too short. Both shares
/// have to be of at least one case.
pub(super) fn share_difference(a: Share, b: Share) -> Estimate {
    let (a, b) = (a.estimate(), b.estimate());
    let value = a.value - b.value;
    Estimate {
        value,
        low: value - (a.value - a.low).hypot(b.high - b.value),
        high: value + (a.high - a.value).hypot(b.value - b.low),
    }
}

/// The difference of the means of two samples, by Welch's method, which does not assume equal
/// variances. `None` if a sample has fewer than two values, or if no value differs from its mean.
pub(super) fn mean_difference(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let (a, b) = (Moments::of(a)?, Moments::of(b)?);
    let variance = a.variance + b.variance;
    if variance <= 0.0 {
        return None;
    }
    let freedom = variance * variance
        / (a.variance * a.variance / a.freedom + b.variance * b.variance / b.freedom);
    let (value, spread) = (a.mean - b.mean, t_quantile(freedom) * variance.sqrt());
    Some(Estimate { value, low: value - spread, high: value + spread })
}

/// The mean of a sample; `None` if it is empty.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / number(values.len()))
}

struct Moments {
    mean: f64,
    /// Variance of the mean.
    variance: f64,
    /// Degrees of freedom of the variance.
    freedom: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Self> {
        let (mean, count) = (mean(values)?, number(values.len()));
        let freedom = count - 1.0;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        (freedom > 0.0).then(|| Self { mean, variance: squares / freedom / count, freedom })
    }
}

/// The 97.5 % quantile of Student's t distribution: the first terms of its expansion in powers of
/// `1 / freedom` (Abramowitz and Stegun 26.7.5). From 9 degrees of freedom on, which the smallest
/// groups have, the error is below 0.0005.
fn t_quantile(freedom: f64) -> f64 {
    let z2 = Z * Z;
    let terms = [
        1.0,
        (z2 + 1.0) / 4.0,
        ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0,
        (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0,
        ((((79.0 * z2 + 776.0) * z2 + 1_482.0) * z2 - 1_920.0) * z2 - 945.0) / 92_160.0,
    ];
    Z * terms.iter().rev().fold(0.0, |sum, term| sum / freedom + term)
}

/// A count as a number to compute with.
#[expect(clippy::cast_precision_loss, reason = "counts of cases are far below 2^52")]
pub(super) const fn number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() < tolerance, "{found} is not {expected}");
    }

    #[test]
    fn quantiles_are_those_of_published_tables() {
        for (freedom, expected) in
            [(9.0, 2.262_157), (15.0, 2.131_450), (30.0, 2.042_272), (100.0, 1.983_972)]
        {
            close(t_quantile(freedom), expected, 0.000_5);
        }
        close(t_quantile(1e12), Z, 1e-9);
    }

    /// Newcombe (1998), "Interval estimation for the difference between independent proportions",
    /// table II, method 10.
    #[test]
    fn intervals_of_shares_are_those_of_the_paper() {
        let difference =
            |a, m, b, n| share_difference(Share { count: a, of: m }, Share { count: b, of: n });
        for ((a, m, b, n), low, high) in [
            ((56.0, 70.0, 48.0, 80.0), 0.0524, 0.3339),
            ((9.0, 10.0, 3.0, 10.0), 0.1705, 0.8090),
            ((5.0, 56.0, 0.0, 29.0), -0.0381, 0.1926),
            ((0.0, 10.0, 0.0, 10.0), -0.2775, 0.2775),
            ((10.0, 10.0, 0.0, 20.0), 0.6791, 1.0),
        ] {
            let found = difference(a, m, b, n);
            close(found.low, low, 0.000_06);
            close(found.high, high, 0.000_06);
        }
    }

    /// The expected ends were computed with a numerical integral of the t density.
    #[test]
    fn intervals_of_means_are_welchs() {
        let a = [
            27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7,
            21.4,
        ];
        let b = [
            27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5,
            24.4,
        ];
        let found = mean_difference(&a, &b).unwrap();
        close(found.value, -2.166_667, 1e-5);
        close(found.low, -3.984_096, 1e-4);
        close(found.high, -0.349_237, 1e-4);
        assert_eq!(mean_difference(&[1.0], &b), None);
        assert_eq!(mean_difference(&[5.0, 5.0], &[5.0, 5.0]), None);
    }
}
