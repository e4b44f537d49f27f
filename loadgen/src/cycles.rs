//! Busy cycles: which requests a stall of the host touched, and what the others say.
//!
//! A busy cycle lasts from the last moment at which nothing is outstanding to the next such moment.
//! Whatever delays a server within a cycle may delay every request of it, and none outside. So a
//! request counts if its cycle holds no stall and, in slices, no border between arms.
//!
//! A long cycle is likelier to meet a stall than a short one. The cycles that are left are therefore
//! too short, and a slow server would look better than it is. Stalls are the host's and do not
//! depend on the queue, so each cycle that is left is weighted by the inverse of its chance to be
//! left: 1/S(l), where S(l) is the share of undisturbed time after which the next disturbance is
//! more than the length l away (Horvitz and Thompson, JASA 1952; regenerative simulation: Crane and
//! Iglehart, Oper. Res. 1975).
//!
//! With many workers something is always outstanding. Cycles are then counted above a `level`: what
//! up to `level` outstanding requests do is deemed independent of one another.

use serde::Serialize;

use crate::record::{Outcome, Sample};

/// Heavier weights would let a few long cycles decide.
const HEAVIEST: f64 = 50.0;

/// Disturbances of the measurement, and the busy cycles of all requests together.
#[derive(Debug)]
pub struct Cycles {
    /// Start and end of each, in order. Borders between arms have no length.
    disturbances: Vec<(u64, u64)>,
    /// Start and end of each time in which more than `level` requests were outstanding, in order.
    busy: Vec<(u64, u64)>,
    survival: Survival,
}

impl Cycles {
    /// Find the cycles of the requests of all arms together, given the begin and the end of each.
    ///
    /// `stalls` and `borders` are instants on the clock of the samples, as are `start` and `end` of
    /// the measured part. The load before the start is unknown, so the start counts as a border.
    pub fn new(
        requests: impl IntoIterator<Item = (u64, u64)>,
        stalls: impl IntoIterator<Item = (u64, u64)>,
        borders: impl IntoIterator<Item = u64>,
        (start, end): (u64, u64),
        level: usize,
    ) -> Self {
        let inside = |(from, to): &(u64, u64)| *to > start && *from < end;
        let ends = [(start, start), (end, end)];
        let mut all: Vec<(u64, u64)> = stalls.into_iter().filter(inside).chain(ends).collect();
        all.extend(borders.into_iter().map(|at| (at, at)).filter(inside));
        all.sort_unstable();
        let mut disturbances: Vec<(u64, u64)> = Vec::with_capacity(all.len());
        for (from, to) in all {
            match disturbances.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => disturbances.push((from, to)),
            }
        }
        let quiet = disturbances.windows(2).map(|pair| pair[1].0 - pair[0].1);
        Self {
            survival: Survival::new(quiet),
            busy: busy(requests, level),
            disturbances,
        }
    }

    /// Summarise the requests of one arm whose cycles were not disturbed.
    pub fn summary(&self, samples: &[Sample]) -> Undisturbed {
        let mut latencies = Vec::with_capacity(samples.len());
        let mut answered = 0u64;
        for sample in samples {
            if sample.outcome == Outcome::Error {
                continue;
            }
            answered += 1;
            let (from, to) = self.cycle(sample);
            if !self.disturbed(from, to) {
                let latency = sample.completed.saturating_sub(sample.intended);
                latencies.push((latency, 1.0 / self.survival.at(to - from)));
            }
        }
        Undisturbed::of(latencies, answered)
    }

    /// The request's own time and that of every cycle that it lies in.
    fn cycle(&self, sample: &Sample) -> (u64, u64) {
        let (mut from, mut to) = (sample.intended, sample.completed.max(sample.intended));
        let first = self.busy.partition_point(|(_, end)| *end <= from);
        let after = self.busy.partition_point(|(start, _)| *start < to);
        if first < after {
            from = from.min(self.busy[first].0);
            to = to.max(self.busy[after - 1].1);
        }
        (from, to)
    }

    fn disturbed(&self, from: u64, to: u64) -> bool {
        let first = self.disturbances.partition_point(|(_, end)| *end <= from);
        let next = self.disturbances.get(first);
        next.is_some_and(|(start, _)| *start < to)
    }
}

/// The times in which more than `level` requests were outstanding.
fn busy(requests: impl IntoIterator<Item = (u64, u64)>, level: usize) -> Vec<(u64, u64)> {
    let (mut begun, mut ended): (Vec<u64>, Vec<u64>) = requests
        .into_iter()
        .map(|(begin, end)| (begin, end.max(begin)))
        .unzip();
    begun.sort_unstable();
    ended.sort_unstable();
    let mut spans = Vec::new();
    let (mut open, mut gone, mut since) = (0, 0, None);
    while gone < ended.len() {
        // What begins as another ends has met it.
        if open < begun.len() && begun[open] <= ended[gone] {
            let at = begun[open];
            open += 1;
            if open - gone == level + 1 {
                since = Some(at);
            }
        } else {
            let at = ended[gone];
            gone += 1;
            if open - gone == level
                && let Some(from) = since.take()
            {
                spans.push((from, at));
            }
        }
    }
    spans
}

/// Probability that an undisturbed moment is followed by a given undisturbed time.
#[derive(Debug)]
struct Survival {
    /// Lengths of the undisturbed times, ascending.
    lengths: Vec<u64>,
    /// The sum of each length and all that are longer.
    sums: Vec<u64>,
}

impl Survival {
    fn new(lengths: impl Iterator<Item = u64>) -> Self {
        let mut lengths: Vec<u64> = lengths.collect();
        lengths.sort_unstable();
        let mut sums = lengths.clone();
        for place in (1..sums.len()).rev() {
            sums[place - 1] += sums[place];
        }
        Self { lengths, sums }
    }

    /// The share of undisturbed time with more than `length` of it ahead, at least 1/HEAVIEST.
    fn at(&self, length: u64) -> f64 {
        let first = self.lengths.partition_point(|other| *other <= length);
        let longer = (self.lengths.len() - first) as u64;
        let ahead = self.sums.get(first).map_or(0, |sum| sum - longer * length);
        let all = self.sums.first().copied().unwrap_or(0).max(1);
        (ahead as f64 / all as f64).max(1.0 / HEAVIEST)
    }
}

/// The latency of undisturbed requests, from their intended instants. Weighted, see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Undisturbed {
    /// Requests whose cycles held no disturbance.
    pub count: u64,
    /// Share of the requests that were disturbed, errors aside.
    pub excluded_share: f64,
    /// Requests of equal weight that would say as much: (Σw)²/Σw².
    pub effective: f64,
    /// Percentiles in microseconds; `None` (null) without values.
    pub p50_us: Option<f64>,
    /// 90 %.
    pub p90_us: Option<f64>,
    /// 99 %.
    pub p99_us: Option<f64>,
    /// 99.9 %.
    pub p999_us: Option<f64>,
}

impl Undisturbed {
    fn of(mut latencies: Vec<(u64, f64)>, answered: u64) -> Self {
        if latencies.is_empty() {
            return Self {
                excluded_share: f64::from(u8::from(answered > 0)),
                ..Self::default()
            };
        }
        latencies.sort_unstable_by_key(|(latency, _)| *latency);
        let sum: f64 = latencies.iter().map(|(_, weight)| weight).sum();
        let squares: f64 = latencies.iter().map(|(_, weight)| weight * weight).sum();
        let percentile = |level: f64| {
            let mut below = 0.0;
            // Sums of weights carry rounding errors.
            let enough = level * sum * (1.0 - 1e-12);
            let reached = latencies.iter().find(|(_, weight)| {
                below += weight;
                below >= enough
            });
            let (latency, _) = reached.or(latencies.last())?;
            Some(*latency as f64 / 1e3)
        };
        Self {
            count: latencies.len() as u64,
            excluded_share: 1.0 - latencies.len() as f64 / answered as f64,
            effective: sum * sum / squares,
            p50_us: percentile(0.5),
            p90_us: percentile(0.9),
            p99_us: percentile(0.99),
            p999_us: percentile(0.999),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const SECOND: u64 = 1_000_000_000;

    fn sample(intended: u64, completed: u64) -> Sample {
        Sample {
            intended,
            written: intended,
            first: completed,
            completed,
            outcome: Outcome::Ok,
        }
    }

    fn load(samples: &[Sample]) -> impl Iterator<Item = (u64, u64)> {
        samples
            .iter()
            .map(|sample| (sample.intended, sample.completed))
    }

    fn cycles(samples: &[Sample], stalls: &[(u64, u64)], level: usize) -> Cycles {
        Cycles::new(
            load(samples),
            stalls.iter().copied(),
            [],
            (0, 10_000),
            level,
        )
    }

    /// A stall touches the requests of its cycle, before it and after it, and no others.
    #[test]
    fn a_stall_touches_its_cycle() {
        let samples = [
            sample(100, 200),
            sample(1000, 1100),
            sample(1050, 1600),
            sample(1500, 1700),
            sample(1700, 1800),
            sample(3000, 3100),
        ];
        // In the second cycle, which ends at 1800; and in idle time.
        let found = cycles(&samples, &[(1300, 1350), (2000, 2500)], 0);
        let touched = samples.map(|sample| {
            let (from, to) = found.cycle(&sample);
            found.disturbed(from, to)
        });
        assert_eq!(touched, [false, true, true, true, true, false]);
    }

    /// The border between two slices touches the cycle that it cuts, over all arms together.
    #[test]
    fn a_border_touches_the_cycle_that_it_cuts() {
        let (one, other) = (
            [sample(900, 1040)],
            [sample(1010, 1100), sample(1200, 1300)],
        );
        let found = Cycles::new(load(&one).chain(load(&other)), [], [1000], (0, 10_000), 0);
        assert_eq!(found.summary(&one).count, 0);
        assert_eq!(found.summary(&other).count, 1);
        // A cycle that begins with a slice belongs to it.
        let whole = [sample(1000, 1100)];
        let found = Cycles::new(load(&whole), [], [1000], (0, 10_000), 0);
        assert_eq!(found.summary(&whole).count, 1);
    }

    /// Above a level, a stall touches those who were there, and the crowd that it met.
    #[test]
    fn levels_leave_out_the_usual_company() {
        let samples = [
            sample(100, 2000),
            sample(300, 700),
            sample(400, 600),
            sample(900, 1200),
        ];
        let found = cycles(&samples, &[(1500, 1600)], 2);
        let touched = samples.map(|sample| {
            let (from, to) = found.cycle(&sample);
            found.disturbed(from, to)
        });
        assert_eq!(touched, [true, false, false, false]);
    }

    /// S is the share of undisturbed time with more than a length ahead.
    #[test]
    fn survival_follows_the_gaps() {
        let survival = Survival::new([100, 300].into_iter());
        for (length, share) in [(0, 1.0), (100, 0.5), (200, 0.25), (300, 0.02)] {
            assert!((survival.at(length) - share).abs() < 1e-9, "{length}");
        }
    }

    /// Without disturbances the weights are one and the percentiles those of all requests.
    #[test]
    fn undisturbed_requests_all_count() {
        let samples: Vec<Sample> = (0..100).map(|i| sample(i * 50, i * 50 + i + 1)).collect();
        let found = Cycles::new(load(&samples), [], [], (0, SECOND), 0).summary(&samples);
        assert_eq!((found.count, found.excluded_share), (100, 0.0));
        assert!(
            (found.effective - 100.0).abs() < 1e-3,
            "{}",
            found.effective
        );
        let p99_us = found.p99_us.unwrap();
        assert!((0.098..=0.1).contains(&p99_us), "{p99_us}");
        let nothing = Cycles::new([], [], [], (0, SECOND), 0).summary(&[]);
        assert_eq!((nothing.count, nothing.p99_us), (0, None));
    }

    /// Poisson arrivals at one server with lognormal service, which stalls freeze.
    fn queue(seed: u64, service_us: f64, rate: f64, stalls: &[(u64, u64)], s: u64) -> Vec<Sample> {
        let mut rng = Rng::new(seed);
        let mut normal = || {
            let (radius, turn) = ((2.0 * rng.exponential()).sqrt(), rng.unit());
            radius * (std::f64::consts::TAU * turn).cos()
        };
        let sigma: f64 = 0.5;
        let services: Vec<f64> = (0..(rate * s as f64 * 1.1) as usize)
            .map(|_| service_us * 1e3 * (sigma * normal() - sigma * sigma / 2.0).exp())
            .collect();
        let mut rng = Rng::new(seed + 1);
        let (mut at, mut free, mut next) = (0.0, 0u64, 0);
        let mut samples = Vec::with_capacity(services.len());
        for service in services {
            at += rng.exponential() / rate * 1e9;
            if at >= (s * SECOND) as f64 {
                break;
            }
            let mut now = free.max(at as u64);
            let mut left = service as u64;
            while next < stalls.len() && stalls[next].1 <= now {
                next += 1;
            }
            for (from, to) in &stalls[next..] {
                if now + left <= *from {
                    break;
                }
                left -= from.saturating_sub(now);
                now = *to;
            }
            free = now + left;
            samples.push(sample(at as u64, free));
        }
        samples
    }

    /// Stalls of the host, 60 a second, lognormal with a median of 1 ms.
    fn host(seed: u64, s: u64) -> Vec<(u64, u64)> {
        let mut rng = Rng::new(seed);
        let (mut at, mut stalls) = (0.0, Vec::new());
        while at < (s * SECOND) as f64 {
            at += rng.exponential() / 60.0 * 1e9;
            let radius = (2.0 * rng.exponential()).sqrt();
            let normal = radius * (std::f64::consts::TAU * rng.unit()).cos();
            let long = (1e6 * (0.7 * normal).exp()).min(10e6);
            stalls.push((at as u64, (at + long) as u64));
            at += long;
        }
        stalls
    }

    /// On a host that stalls, the weighted cycles find the p99 of a server, and the ratio to one
    /// that is a tenth slower, as they would be without stalls; all requests together do not.
    #[test]
    fn the_true_ratio_is_found_among_stalls() {
        let seconds = 120;
        let stalls = host(9, seconds);
        let p99 = |seed, service_us, disturbed: bool| {
            let stalls = if disturbed { &stalls[..] } else { &[] };
            let samples = queue(seed, service_us, 3500.0, stalls, seconds);
            let whole = (0, seconds * SECOND);
            let found = |stalls: &[(u64, u64)]| {
                let stalls = stalls.iter().copied();
                let summary = Cycles::new(load(&samples), stalls, [], whole, 0).summary(&samples);
                summary.p99_us.unwrap()
            };
            (found(stalls), found(&[]))
        };
        let (slow, _) = p99(1, 200.0, false);
        let (fast, _) = p99(3, 180.0, false);
        let ((found_slow, raw_slow), (found_fast, _)) = (p99(5, 200.0, true), p99(7, 180.0, true));
        let off = (found_fast / found_slow) / (fast / slow) - 1.0;
        assert!(off.abs() < 0.06, "{off}");
        assert!(
            (found_slow / slow - 1.0).abs() < 0.06,
            "{found_slow} {slow}"
        );
        assert!(raw_slow > 1.5 * slow, "{raw_slow} {slow}");
    }
}
