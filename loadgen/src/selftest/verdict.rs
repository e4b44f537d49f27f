//! The finest difference of p99 that the instrument can be held to on this host.

use serde::Serialize;

use super::report::Report;

/// A difference that this instrument cannot tell, with a timer of whole milliseconds neither can
/// anybody's: there is no use in it.
pub const LARGEST_US: f64 = 1000.0;

/// A CPU of which more is taken away is not there to measure with.
const MOST_STALLED: f64 = 0.2;

/// Student's t at 97.5 %, for 1 to 15 degrees of freedom (any table; scipy.stats.t.ppf).
const STUDENT: [f64; 15] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131,
];

/// Whether the instrument is fit for its purpose here, and for which.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Nothing is wrong, and the limit is known and of use.
    pub fit: bool,
    /// Differences of p99 above this, between two windows, are not the instrument's; `None` (null)
    /// if it is not known.
    pub above_us: Option<f64>,
    /// Its first part: what p99 differs by between two windows in which nothing differs, 95 %.
    pub noise_us: Option<f64>,
    /// Its second part: the lateness of the generator's own writes, p99 outside stalls.
    pub pacing_us: Option<f64>,
    /// Why it is not fit.
    pub reasons: Vec<String>,
}

/// The largest difference to be expected between the p99 of two windows in which nothing differs:
/// t · √2 · s, with the standard deviation s of the p99 of `p99s` windows and Student's t for their
/// number. `None` with fewer than three.
pub fn noise_us(p99s: &[f64]) -> Option<f64> {
    let n = p99s.len();
    if n < 3 {
        return None;
    }
    let t = STUDENT.get(n - 2).copied().unwrap_or(STUDENT[14]);
    Some(t * 2_f64.sqrt() * deviation(p99s))
}

/// The standard deviation of a sample.
pub fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0)).sqrt()
}

impl Verdict {
    /// Judge what was found.
    ///
    /// The lateness of writes is added in full: it is part of every latency, and nothing proves that
    /// two arms suffer the same of it.
    pub fn of(report: &Report) -> Self {
        let noise_us = noise_us(&report.floor.p99_by_window_us);
        let pacing_us = report.pacing.p99_us;
        let above_us = noise_us
            .zip(pacing_us)
            .map(|(noise, pacing)| noise + pacing);
        let mut reasons = Vec::new();
        if report.failed > 0 {
            reasons.push(format!(
                "{} requests to the built-in responder failed",
                report.failed
            ));
        }
        for cpu in &report.stalls {
            let share = cpu.total_us / 1e6 / report.watched_s.max(1e-9);
            if share > MOST_STALLED {
                reasons.push(format!(
                    "CPU {} was taken away for {:.0} % of the time, by the hypervisor or by other \
                     processes: quieten the host and try again",
                    cpu.cpu,
                    share * 100.0
                ));
            }
        }
        for accuracy in &report.accuracy {
            reasons.extend(accuracy.complaints());
        }
        reasons.extend(report.arrivals.complaints());
        match above_us {
            None => reasons.push(format!(
                "{} of {} windows at the idle responder had enough requests without stalls, 3 are \
                 needed",
                report.floor.p99_by_window_us.len(),
                report.floor.windows
            )),
            Some(limit) if limit > LARGEST_US => reasons.push(format!(
                "the finest difference that can be told, {limit:.0} µs, is above {LARGEST_US:.0} µs"
            )),
            Some(_) => {}
        }
        Self {
            fit: reasons.is_empty(),
            above_us,
            noise_us,
            pacing_us,
            reasons,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Between two windows in which nothing differs, a twentieth of the differences is larger: with
    /// six windows that the deviation is known from, and normal p99.
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

    /// Two windows tell no deviation that could be built on.
    #[test]
    fn few_windows_tell_nothing() {
        assert_eq!(noise_us(&[100.0, 110.0]), None);
    }
}
