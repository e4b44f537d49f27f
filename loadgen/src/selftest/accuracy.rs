//! Accuracy of a window against the responder: measured percentiles compared with theory.
//!
//! The true latency of every request is known. A request that is intended at t and has the delay d
//! is read at r = L(t) and answered at L(r + d), where L(x) is x itself or the end of the freeze
//! that contains x. There are enough connections that no request waits for one. So its latency is W
//! = L(L(t) + d) − t, plus the latency of an idle responder (the floor). The percentiles of theory
//! are those of W over the requests of the window. So neither random arrivals nor random delays
//! blur the comparison: any difference is due to the instrument.

use serde::Serialize;

use crate::responder::Freezes;
use crate::series::quantile_ns;

/// Requests from this long before a stall to this long after it are left out: the rule that tuner
/// applies to its measurements.
const BEFORE_NS: u64 = 1_000_000;
const AFTER_NS: u64 = 2_000_000;
/// The percentiles that are compared.
pub const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];
/// The fewest requests for a comparison.
pub const MIN_REQUESTS: usize = 500;
/// The largest accepted error of a percentile.
pub const TOLERANCE: f64 = 0.02;

/// Stalls of all cores in question, in nanoseconds of the monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct Stalled {
    /// Spans that a stall may have affected, disjoint and in order.
    disturbed: Vec<(u64, u64)>,
}

impl Stalled {
    /// Create it from stalls in any order.
    pub fn new(spans: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut spans: Vec<_> = spans
            .into_iter()
            .map(|(start, end)| (start.saturating_sub(BEFORE_NS), end + AFTER_NS))
            .collect();
        spans.sort_unstable();
        let mut disturbed: Vec<(u64, u64)> = Vec::new();
        for (start, end) in spans {
            match disturbed.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => disturbed.push((start, end)),
            }
        }
        Self { disturbed }
    }

    /// Return whether a stall may have affected an event at `instant`.
    pub fn affects(&self, instant: u64) -> bool {
        let after = self.disturbed.partition_point(|span| span.0 <= instant);
        after > 0 && instant <= self.disturbed[after - 1].1
    }

    /// Return whether a stall may have affected events between `start` and `end`.
    pub fn affects_span(&self, start: u64, end: u64) -> bool {
        let after = self.disturbed.partition_point(|span| span.0 <= end);
        after > 0 && start <= self.disturbed[after - 1].1
    }
}

/// A request with its known delay and its measured latency. Nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The intended instant.
    pub intended: u64,
    /// The requested delay.
    pub delay: u64,
    /// The measured corrected latency.
    pub latency: u64,
}

/// One percentile.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// The quantile, such as 0.99.
    pub quantile: f64,
    /// Quantile of the true latencies plus the floor.
    pub theory_us: f64,
    /// Quantile of the measured latencies.
    pub measured_us: f64,
    /// Measured / theory − 1.
    pub error: f64,
}

/// One window compared with theory.
#[derive(Clone, Debug, Serialize)]
pub struct Accuracy {
    /// The behaviour of the responder.
    pub name: String,
    /// Number of requests that no stall affected.
    pub samples: usize,
    /// Share of the requests that a stall may have affected.
    pub excluded_share: f64,
    /// Percentiles; none with too few requests.
    pub points: Vec<Point>,
    /// The largest error of any percentile; `None` (null) with too few requests.
    pub worst_error: Option<f64>,
    /// Median of the difference between single requests and their theory.
    pub residual_p50_us: Option<f64>,
    /// 99th percentile of that difference.
    pub residual_p99_us: Option<f64>,
}

impl Accuracy {
    /// Compare. A request is left out if a stall may have affected one of the three instants that
    /// determine its latency: when it was intended, read, and answered. All three come from theory,
    /// none from measurement.
    ///
    /// Requests are in order of their intended instants. If their delays are equal, they are
    /// answered in this order, and each answer takes `answer_ns`: requests that a freeze has queued
    /// are answered one after another (Lindley's recursion, 1952). With 0, no answer waits for
    /// another.
    pub fn of(
        name: &str,
        requests: &[Known],
        freezes: Freezes,
        stalled: &Stalled,
        floor_ns: u64,
        answer_ns: u64,
    ) -> Self {
        let mut before = None;
        let (mut theory, mut measured, mut residual) = (Vec::new(), Vec::new(), Vec::new());
        for request in requests {
            let (read, mut answered) = freezes.answered(request.intended, request.delay);
            if answer_ns > 0 {
                answered = answered.max(before.map_or(0, |before| before + answer_ns));
                before = Some(answered);
            }
            let instants = [request.intended, read, answered];
            if instants.iter().any(|instant| stalled.affects(*instant)) {
                continue;
            }
            let truth = answered - request.intended + floor_ns;
            theory.push(truth);
            measured.push(request.latency);
            residual.push(truth.abs_diff(request.latency));
        }
        let enough = measured.len() >= MIN_REQUESTS;
        let mut quantile = |q| {
            let theory_us = quantile_ns(&mut theory, q)? as f64 / 1000.0;
            let measured_us = quantile_ns(&mut measured, q)? as f64 / 1000.0;
            Some(Point {
                quantile: q,
                theory_us,
                measured_us,
                error: measured_us / theory_us - 1.0,
            })
        };
        let quantiles = QUANTILES.into_iter().filter(|_| enough);
        let points: Vec<Point> = quantiles.filter_map(&mut quantile).collect();
        let worst = points.iter().map(|point| point.error.abs());
        let mut residual_us = |q| quantile_ns(&mut residual, q).map(|ns| ns as f64 / 1000.0);
        Self {
            name: name.into(),
            samples: measured.len(),
            excluded_share: 1.0 - measured.len() as f64 / requests.len().max(1) as f64,
            worst_error: worst.reduce(f64::max),
            points,
            residual_p50_us: residual_us(0.5),
            residual_p99_us: residual_us(0.99),
        }
    }

    /// Return a message for each percentile that is off, and for too few requests.
    pub fn problems(&self) -> Vec<String> {
        let wrong = self.points.iter().filter(|p| p.error.abs() > TOLERANCE);
        let mut problems: Vec<String> = wrong
            .map(|p| {
                format!(
                    "{}: p{} is {:+.1} % off theory; at most {:.0} % is allowed",
                    self.name,
                    p.quantile * 100.0,
                    p.error * 100.0,
                    TOLERANCE * 100.0
                )
            })
            .collect();
        if self.samples < MIN_REQUESTS {
            problems.push(format!(
                "{}: only {} requests were not affected by stalls; {MIN_REQUESTS} are needed",
                self.name, self.samples
            ));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const MS: u64 = 1_000_000;
    const FREEZES: Freezes = Freezes {
        origin: 0,
        every_ns: 1000 * MS,
        for_ns: 100 * MS,
    };

    /// Return the theoretical quantiles, without stalls, of requests evenly spread over whole
    /// periods.
    fn quantiles(delay: u64) -> Vec<f64> {
        let even = (0..30_000).map(|i| Known {
            intended: i * MS / 10 + 50_000,
            delay,
            latency: 1,
        });
        let requests: Vec<_> = even.collect();
        let found = Accuracy::of("", &requests, FREEZES, &Stalled::default(), 0, 0);
        found
            .points
            .iter()
            .map(|point| point.theory_us / 1000.0)
            .collect()
    }

    /// Without a delay P(W > x) = (F − x) / T: p95 is 50 ms, p99 90 ms, p99.9 99 ms. With a delay
    /// d < F, P(W > x) = (F + d − x) / T + d / T from d to F, and twice the former term above:
    /// p50 is d, p90 F + 2 d − 0.1 T, p99.9 F + d − T / 2000.
    #[test]
    fn theory_is_the_closed_form() {
        for (found, exact) in quantiles(0).into_iter().zip([0.0, 0.0, 50.0, 90.0, 99.0]) {
            assert!((found - exact).abs() <= 0.11, "{found} {exact}");
        }
        let exact = [20.0, 40.0, 90.0, 115.0, 119.5];
        for (found, exact) in quantiles(20 * MS).into_iter().zip(exact) {
            assert!((found - exact).abs() <= 0.11, "{found} {exact}");
        }
    }

    /// An instrument that reports the truth plus the floor has no error; one that counts from the
    /// write, and so omits the wait during a freeze, has a large one.
    #[test]
    fn coordinated_omission_is_detected() {
        let mut rng = Rng::new(1);
        let requests: Vec<_> = (0..5000)
            .map(|i| {
                let intended = i * MS + (rng.unit() * 1e6) as u64;
                let (_, answered) = FREEZES.answered(intended, 2 * MS);
                Known {
                    intended,
                    delay: 2 * MS,
                    latency: answered - intended + 30_000,
                }
            })
            .collect();
        let good = Accuracy::of("", &requests, FREEZES, &Stalled::default(), 30_000, 0);
        assert!(good.worst_error.unwrap() < 1e-9 && good.problems().is_empty());
        let closed: Vec<_> = requests
            .iter()
            .map(|request| Known {
                latency: request.latency.min(2 * MS + 30_000),
                ..*request
            })
            .collect();
        let bad = Accuracy::of("", &closed, FREEZES, &Stalled::default(), 30_000, 0);
        assert!(bad.worst_error.unwrap() > 0.9);
        assert_eq!(bad.problems().len(), 4);
    }

    /// A request is left out if a stall affected its intended, read or answered instant, but not
    /// for a stall in between, when nothing happened.
    #[test]
    fn stalls_are_left_out_by_theory() {
        let stalled = Stalled::new([(500 * MS, 501 * MS)]);
        let request = |intended, delay| Known {
            intended: intended * MS,
            delay: delay * MS,
            latency: 1,
        };
        for (intended, delay, kept) in [
            (498, 0, 1),
            (499, 0, 0),
            (503, 0, 0),
            (504, 0, 1),
            (450, 50, 0),
            (450, 100, 1),
        ] {
            let one = [request(intended, delay)];
            let found = Accuracy::of("", &one, FREEZES, &stalled, 0, 0);
            assert_eq!(found.samples, kept, "{intended} {delay}");
        }
        let during_a_freeze = Stalled::new([(1050 * MS, 1051 * MS)]);
        let one = [request(1020, 0)];
        assert_eq!(
            Accuracy::of("", &one, FREEZES, &during_a_freeze, 0, 0).samples,
            1
        );
        let at_its_end = Stalled::new([(1100 * MS, 1101 * MS)]);
        assert_eq!(
            Accuracy::of("", &one, FREEZES, &at_its_end, 0, 0).samples,
            0
        );
    }

    /// Requests that a freeze has queued are answered one after another. With an answer every half
    /// millisecond and a request every millisecond, the k-th waits for 100 − k/2 ms, until all 200
    /// are answered: p95 is 75 ms and p99 95 ms.
    #[test]
    fn a_backlog_takes_time() {
        let requests: Vec<_> = (0..1000)
            .map(|i| Known {
                intended: i * MS,
                delay: 0,
                latency: 1,
            })
            .collect();
        let none = Stalled::default();
        let found = Accuracy::of("", &requests, FREEZES, &none, 0, MS / 2);
        let quantiles: Vec<f64> = found.points.iter().map(|p| p.theory_us / 1000.0).collect();
        for (found, exact) in quantiles.into_iter().zip([0.0, 50.0, 75.0, 95.0, 99.5]) {
            assert!((found - exact).abs() <= 0.51, "{found} {exact}");
        }
    }

    /// Without measurements, the comparison fails.
    #[test]
    fn no_requests_are_no_proof() {
        let found = Accuracy::of("x", &[], FREEZES, &Stalled::default(), 0, 0);
        assert_eq!(found.worst_error, None);
        assert_eq!(found.problems().len(), 1);
    }
}
