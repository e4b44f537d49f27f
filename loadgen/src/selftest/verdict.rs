//! The smallest difference of p99 that the instrument can detect on this host.

use serde::Serialize;

/// The largest useful limit: a tool with a timer of whole milliseconds detects this difference,
/// too.
pub const LARGEST_US: f64 = 1000.0;

/// Student's t at 97.5 %, for 1 to 15 degrees of freedom (any table; scipy.stats.t.ppf).
const STUDENT: [f64; 15] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131,
];

/// The verdict on the instrument.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// True if nothing is wrong, and the limit is known and useful.
    pub fit: bool,
    /// Differences of p99 between two windows above this limit are not due to the instrument;
    /// `None` (null) if it is unknown.
    pub above_us: Option<f64>,
    /// First part of the limit: the difference of p99 between two windows without a difference, 95
    /// %.
    pub noise_us: Option<f64>,
    /// Second part of the limit: the lateness of the generator's own writes, p99 outside stalls.
    pub pacing_us: Option<f64>,
    /// The reasons why it is not fit.
    pub reasons: Vec<String>,
}

/// Return the largest expected difference between the p99 of two windows without a difference: t ·
/// √2 · s, with the standard deviation s of the p99 of `p99s` windows and Student's t for their
/// number. `None` with fewer than three.
pub fn noise_us(p99s: &[f64]) -> Option<f64> {
    let n = p99s.len();
    if n < 3 {
        return None;
    }
    let t = STUDENT.get(n - 2).copied().unwrap_or(STUDENT[14]);
    Some(t * 2_f64.sqrt() * deviation(p99s))
}

/// Return the standard deviation of a sample.
pub fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Between two windows without a difference, one difference in twenty is larger: with a
    /// deviation from six windows, and normally distributed p99.
    #[test]
    fn the_noise_holds_its_level() {
        let mut rng = Rng::new(3);
        let mut normal = || {
            let radius = (2.0 * rng.exponential()).sqrt();
            100.0 + 5.0 * radius * (std::f64::consts::TAU * rng.unit()).cos()
        };
        let larger = (0..10_000).filter(|_| {
            let windows: Vec<f64> = (0..6).map(|_| normal()).collect();
            let (a, b) = (normal(), normal());
            (a - b).abs() > noise_us(&windows).unwrap()
        });
        let share = larger.count() as f64 / 10_000.0;
        assert!((share - 0.05).abs() < 0.011, "{share}");
    }

    /// Two windows are too few for a deviation.
    #[test]
    fn few_windows_give_no_noise() {
        assert_eq!(noise_us(&[100.0, 110.0]), None);
    }
}
