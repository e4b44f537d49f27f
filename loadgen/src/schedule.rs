//! The arrival schedule of a window: one global list, computed before the window starts.
//!
//! One list for all connections and not one per connection, since the latter couples arrivals to
//! the phase of each connection and lets a slow answer shift the load that follows it.

use crate::plan::Arrival;
use crate::rng::Rng;

/// When each request is intended, which one it is, and a number to choose its connection with.
#[derive(Debug, Default, PartialEq)]
pub struct Schedule {
    /// Nanoseconds from the start of the warm-up, ascending.
    pub intended_ns: Vec<u64>,
    /// Index into the plan's requests.
    pub request: Vec<u16>,
    /// Uniform over the 32-bit numbers: picks one of the connections free at that moment.
    pub pick: Vec<u32>,
    /// The first request of the measured part; those before it belong to the warm-up.
    pub first_measured: usize,
}

impl Schedule {
    /// Arrivals over `warmup_ns + duration_ns` at `rate_per_s`: exponential gaps (Poisson) or equal
    /// ones. The same arguments give the same schedule, always.
    pub fn open(
        arrival: Arrival,
        rate_per_s: f64,
        warmup_ns: u64,
        duration_ns: u64,
        mix: &Mix,
        seed: u64,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let end = (warmup_ns + duration_ns) as f64;
        let gap_ns = 1e9 / rate_per_s;
        let room = (end / gap_ns * 1.01) as usize + 1000;
        let mut schedule = Self {
            intended_ns: Vec::with_capacity(room),
            request: Vec::with_capacity(room),
            pick: Vec::with_capacity(room),
            first_measured: 0,
        };
        let mut index = 0.0;
        let mut at = 0.0;
        loop {
            match arrival {
                Arrival::Poisson => at += gap_ns * rng.exponential(),
                // Multiplied, not summed up: no drift over millions of requests.
                Arrival::Constant => at = gap_ns * (index + 0.5),
            }
            if at >= end {
                break;
            }
            let at_ns = at as u64;
            if at_ns < warmup_ns {
                schedule.first_measured += 1;
            }
            schedule.intended_ns.push(at_ns);
            schedule.request.push(mix.choose(&mut rng));
            schedule.pick.push((rng.bits() >> 32) as u32);
            index += 1.0;
        }
        schedule
    }

    /// The requests of a closed loop, which come when they come: a mix long enough to be repeated.
    pub fn closed(mix: &Mix, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            intended_ns: Vec::new(),
            request: (0..CLOSED_CYCLE).map(|_| mix.choose(&mut rng)).collect(),
            pick: vec![0],
            // Known when the measured part starts.
            first_measured: usize::MAX,
        }
    }

    /// Which of the plan's requests the one at `index` is.
    #[inline]
    pub fn request(&self, index: usize) -> u16 {
        self.request
            .get(index)
            .copied()
            .unwrap_or_else(|| self.request[index % CLOSED_CYCLE])
    }

    /// The number to choose the connection of the one at `index` with.
    #[inline]
    pub fn pick(&self, index: usize) -> u32 {
        self.pick.get(index).copied().unwrap_or(0)
    }
}

/// Requests of a closed loop before its mix repeats.
const CLOSED_CYCLE: usize = 65_536;

/// The requests' weights, ready to draw from.
#[derive(Clone, Debug)]
pub struct Mix {
    cumulative: Vec<f64>,
}

impl Mix {
    /// Weights are positive; their sum need not be 1.
    pub fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut total = 0.0;
        let cumulative = weights
            .into_iter()
            .map(|weight| {
                total += weight;
                total
            })
            .collect();
        Self { cumulative }
    }

    /// The index of one request, drawn by weight.
    pub fn choose(&self, rng: &mut Rng) -> u16 {
        if self.cumulative.len() < 2 {
            return 0;
        }
        let last = self.cumulative.len() - 1;
        let point = rng.unit() * self.cumulative[last];
        self.cumulative
            .partition_point(|bound| *bound <= point)
            .min(last) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn poisson(seed: u64) -> Schedule {
        let mix = Mix::new([1.0]);
        Schedule::open(Arrival::Poisson, 10_000.0, SECOND, 9 * SECOND, &mix, seed)
    }

    /// The same seed gives the same schedule, another seed another one.
    #[test]
    fn is_seeded() {
        assert_eq!(poisson(7), poisson(7));
        assert_ne!(poisson(7), poisson(8));
    }

    /// Poisson gaps are exponential: Kolmogorov–Smirnov at the 0.1 % level, and the right mean.
    #[test]
    fn poisson_gaps_are_exponential() {
        let schedule = poisson(7);
        let times = &schedule.intended_ns;
        let mut gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        assert!(
            (mean / 100_000.0 - 1.0).abs() < 4.0 / n.sqrt(),
            "mean {mean}"
        );
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(i, gap)| {
                let theory = 1.0 - (-gap / 100_000.0).exp();
                (theory - i as f64 / n)
                    .abs()
                    .max((theory - (i + 1) as f64 / n).abs())
            })
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / n.sqrt(), "KS distance {distance}");
    }

    /// Successive Poisson gaps are independent: no correlation at lag one.
    #[test]
    fn poisson_gaps_are_independent() {
        let schedule = poisson(11);
        let gaps: Vec<f64> = schedule
            .intended_ns
            .windows(2)
            .map(|w| (w[1] - w[0]) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance: f64 = gaps.iter().map(|gap| (gap - mean).powi(2)).sum();
        let lagged: f64 = gaps.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
        let correlation = lagged / variance;
        assert!(correlation.abs() < 4.0 / (gaps.len() as f64).sqrt());
    }

    /// Constant gaps are equal, exact in number, and do not drift.
    #[test]
    fn constant_gaps_are_equal() {
        let mix = Mix::new([1.0]);
        let schedule = Schedule::open(Arrival::Constant, 3000.0, SECOND, 2 * SECOND, &mix, 1);
        assert_eq!(schedule.intended_ns.len(), 9000);
        assert_eq!(schedule.first_measured, 3000);
        let gaps = schedule.intended_ns.windows(2).map(|w| w[1] - w[0]);
        assert!(
            gaps.into_iter()
                .all(|gap| (333_333..=333_334).contains(&gap))
        );
    }

    /// The measured part starts at the first arrival after the warm-up.
    #[test]
    fn warm_up_is_told_apart() {
        let schedule = poisson(3);
        let first = schedule.first_measured;
        assert!(schedule.intended_ns[first - 1] < SECOND);
        assert!(schedule.intended_ns[first] >= SECOND);
    }

    /// Requests appear in proportion to their weights.
    #[test]
    fn requests_follow_their_weights() {
        let mix = Mix::new([1.0, 0.5, 2.5]);
        let mut rng = Rng::new(5);
        let mut counts = [0; 3];
        for _ in 0..40_000 {
            counts[usize::from(mix.choose(&mut rng))] += 1;
        }
        for (count, expected) in counts.into_iter().zip([10_000.0_f64, 5_000.0, 25_000.0]) {
            assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt());
        }
    }
}
