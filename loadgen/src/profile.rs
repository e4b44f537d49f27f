//! Rates over time, which the arrivals of a schedule follow.
//!
//! An arrival process of a changing rate is one of rate 1 on a clock that runs in proportion to the
//! rate (the time change of a Poisson process: Daley and Vere-Jones, An Introduction to the Theory
//! of Point Processes I, 7.4). The instant at which that clock shows n is a root of a quadratic in
//! each piece, so ramps are exact and not steps.

use serde::Deserialize;

/// A rate, or a ramp between two rates, for a length of time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Length in seconds.
    pub for_s: f64,
    /// The rate, or the first rate of a ramp.
    pub rate_per_s: f64,
    /// The last rate of a ramp; absent if the rate is constant.
    #[serde(default)]
    pub to_rate_per_s: Option<f64>,
}

/// A piece of a profile: a rate, or a ramp from one rate to another.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Nanoseconds from the start of the schedule.
    start: f64,
    end: f64,
    /// Nanoseconds between requests at the start.
    gap_ns: f64,
    /// Requests per nanosecond at the start, and their growth per nanosecond.
    rate: f64,
    slope: f64,
    /// Requests before the start.
    before: f64,
}

impl Stretch {
    /// Return the requests from `from` (nanoseconds of the schedule) to the end.
    fn rest(&self, from: f64) -> f64 {
        let (at, left) = (from - self.start, self.end - from);
        (self.rate + self.slope * at + 0.5 * self.slope * left) * left
    }

    /// Return when `requests` more have come after `from`; infinite if that never happens.
    fn after(&self, from: f64, requests: f64) -> f64 {
        if self.slope == 0.0 {
            return from + self.gap_ns * requests;
        }
        let rate = self.rate + self.slope * (from - self.start);
        let root = rate * rate + 2.0 * self.slope * requests;
        if root < 0.0 {
            return f64::INFINITY;
        }
        // This form of the root is accurate for small slopes.
        from + 2.0 * requests / (rate + root.sqrt())
    }
}

/// Consecutive rates without gaps in time.
#[derive(Clone, Debug)]
pub struct Profile {
    stretches: Vec<Stretch>,
}

impl Profile {
    /// Create the profile of these pieces; there is at least one.
    pub fn new(pieces: &[Piece]) -> Self {
        let (mut start, mut before) = (0.0, 0.0);
        let stretches = pieces.iter().map(|piece| {
            let length = piece.for_s * 1e9;
            let to = piece.to_rate_per_s.unwrap_or(piece.rate_per_s);
            let stretch = Stretch {
                start,
                end: start + length,
                gap_ns: 1e9 / piece.rate_per_s,
                rate: piece.rate_per_s / 1e9,
                slope: (to - piece.rate_per_s) / 1e9 / length,
                before,
            };
            start += length;
            before += stretch.rest(stretch.start);
            stretch
        });
        Self {
            stretches: stretches.collect(),
        }
    }

    /// Return the expected requests of all pieces.
    pub fn requests(&self) -> f64 {
        let last = self.stretches.last();
        last.map_or(0.0, |last| last.before + last.rest(last.start))
    }

    /// Return when `requests` more are due after the instant `from`, in nanoseconds; beyond the end
    /// if there are not that many.
    pub fn after(&self, mut from: f64, mut requests: f64) -> f64 {
        let first = self.stretches.partition_point(|s| s.end <= from);
        let Some((last, others)) = self.stretches[first..].split_last() else {
            return f64::INFINITY;
        };
        for stretch in others {
            let rest = stretch.rest(from);
            if requests <= rest {
                return stretch.after(from, requests);
            }
            requests -= rest;
            from = stretch.end;
        }
        last.after(from, requests)
    }

    /// Return when the first `requests` have come, in nanoseconds. It sums no gaps, and so
    /// accumulates no rounding errors.
    pub fn at(&self, requests: f64) -> f64 {
        let after = self.stretches.partition_point(|s| s.before <= requests);
        let stretch = self.stretches[after.saturating_sub(1)];
        stretch.after(stretch.start, requests - stretch.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(for_s: f64, rate_per_s: f64, to_rate_per_s: Option<f64>) -> Piece {
        Piece {
            for_s,
            rate_per_s,
            to_rate_per_s,
        }
    }

    fn ladder() -> Profile {
        Profile::new(&[
            piece(1.0, 100.0, None),
            piece(2.0, 100.0, Some(300.0)),
            piece(1.0, 0.0, None),
            piece(2.0, 50.0, Some(0.0)),
        ])
    }

    /// The number of requests is the area under the rates: 100 + 400 + 0 + 50.
    #[test]
    fn requests_are_the_area() {
        assert!((ladder().requests() - 550.0).abs() < 1e-9);
    }

    /// After n requests the clock shows the instant at which the area is n; a pause is skipped.
    #[test]
    fn instants_invert_the_area() {
        let profile = ladder();
        for (requests, seconds) in [
            (50.0, 0.5),
            (100.0, 1.0),
            // 100 t + 50 t² = 150 after one second of the ramp.
            (250.0, 2.0),
            (499.999_999, 3.0),
            // 50 t - 12.5 t² = 37.5 after one second of the last.
            (537.5, 5.0),
        ] {
            let at = profile.at(requests) / 1e9;
            assert!((at - seconds).abs() < 1e-6, "{requests}: {at}");
        }
        assert!(profile.at(500.001) / 1e9 > 4.0);
    }

    /// Step by step or at once, the same instants; past the end there are none.
    #[test]
    fn steps_add_up() {
        let profile = ladder();
        let mut at = profile.after(0.0, 0.5);
        for i in 1..550 {
            at = profile.after(at, 1.0);
            let whole = profile.at(f64::from(i) + 0.5);
            assert!((at - whole).abs() < 10.0, "{i}: {at} {whole}");
        }
        assert!(profile.after(at, 2.0) >= 6e9);
        assert_eq!(profile.after(6e9, 1.0), f64::INFINITY);
    }
}
