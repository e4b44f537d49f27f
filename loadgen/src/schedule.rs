//! The arrival schedule of a window: one global list, computed before the window starts.
//!
//! There is one list for all connections, not one per connection: the latter couples arrivals to
//! the phase of each connection and lets a slow answer shift the load after it.

use crate::plan::{Arrival, Mode, Piece, Window};
use crate::profile::Profile;
use crate::rng::Rng;
use crate::slices::Turns;

/// The requests of a window: when each is intended, which request of the plan it is, and a number
/// that chooses its connection.
#[derive(Debug, Default, PartialEq)]
pub struct Schedule {
    /// Nanoseconds from the start of the warm-up, ascending.
    pub intended_ns: Vec<u64>,
    /// Index into the plan's requests.
    pub request: Vec<u16>,
    /// Uniform 32-bit numbers, which choose one of the connections free at that moment.
    pub pick: Vec<u32>,
    /// Index of the first request of the measured part; earlier ones belong to the warm-up.
    pub first_measured: usize,
}

impl Schedule {
    /// Return the schedule of a window: from its mode, its rates, or its recorded instants
    /// (nanoseconds from the start of the measured part, ascending). The same arguments always give
    /// the same schedule.
    pub fn of(window: &Window, recorded: Option<&[u64]>, mix: &Mix) -> Self {
        if window.mode == Mode::Closed {
            return Self::closed(mix, window.seed);
        }
        if let Some(slices) = &window.slices
            && slices.same_arrivals
        {
            return Self::in_each_slice(window, &window.turns(), mix);
        }
        let mut pieces = window.pieces();
        if let Some(recorded) = recorded {
            let rate_per_s = recorded.len() as f64 / window.duration_s;
            let mut rng = Rng::new(window.seed);
            let mut schedule = Self::default();
            if window.warmup_s > 0.0 {
                let warmup = Profile::new(&[flat(window.warmup_s, rate_per_s)]);
                let end = window.warmup_ns();
                schedule.extend(
                    window.arrival,
                    window.phase,
                    &warmup,
                    (end, end),
                    mix,
                    &mut rng,
                );
            }
            for ns in recorded {
                schedule.push(window.warmup_ns() + ns, window.warmup_ns(), mix, &mut rng);
            }
            return schedule;
        }
        match (pieces.first().copied(), window.rates.is_some()) {
            // A constant rate is one piece, warm-up included.
            (Some(only), false) => {
                pieces = vec![flat(window.warmup_s + only.for_s, only.rate_per_s)]
            }
            (Some(first), true) if window.warmup_s > 0.0 => {
                pieces.insert(0, flat(window.warmup_s, first.rate_per_s));
            }
            _ => {}
        }
        let warmup_ns = window.warmup_ns();
        let until = (warmup_ns, warmup_ns + window.duration_ns());
        let (arrival, phase) = (window.arrival, window.phase);
        let mut schedule = Self::default();
        let mut rng = Rng::new(window.seed);
        schedule.extend(arrival, phase, &Profile::new(&pieces), until, mix, &mut rng);
        schedule
    }

    /// Return the schedule of a window in which a set of slices has the same requests, at the same
    /// instants of each slice: common random numbers (Law, Simulation Modeling and Analysis,
    /// chapter 11). Bursts of arrivals decide most of a percentile, and all arms then meet the same.
    ///
    /// It is drawn on a clock that runs in one slice of each set, and repeated in the others.
    fn in_each_slice(window: &Window, turns: &Turns, mix: &Mix) -> Self {
        let end = window.warmup_ns() + window.duration_ns();
        let length = turns.length_ns();
        let drawn_ns = turns.sets() as u64 * length;
        let rate = Profile::new(&[flat(
            drawn_ns as f64 / 1e9,
            window.rate_per_s.unwrap_or_default(),
        )]);
        let mut drawn = Self::default();
        let mut rng = Rng::new(window.seed);
        let (arrival, phase) = (window.arrival, window.phase);
        drawn.extend(arrival, phase, &rate, (0, drawn_ns), mix, &mut rng);
        let mut schedule = Self::default();
        let mut first = 0;
        for set in 0..turns.sets() {
            let begin = set as u64 * length;
            let within = drawn.intended_ns[first..].partition_point(|at| *at < begin + length);
            for start in turns.slices_of(set) {
                for index in first..first + within {
                    // The first set may begin before the window.
                    let at = start + (drawn.intended_ns[index] - begin) as i64;
                    if let Ok(at) = u64::try_from(at)
                        && at < end
                    {
                        schedule.first_measured += usize::from(at < window.warmup_ns());
                        schedule.intended_ns.push(at);
                        schedule.request.push(drawn.request[index]);
                        schedule.pick.push(drawn.pick[index]);
                    }
                }
            }
            first += within;
        }
        schedule
    }

    /// Add arrivals at the rates of a profile until the ends of the warm-up and of the measured part:
    /// with exponential gaps (Poisson), or with equal ones on the profile's clock, of which the first
    /// is cut to `phase`.
    fn extend(
        &mut self,
        arrival: Arrival,
        phase: f64,
        profile: &Profile,
        (warmup_ns, end_ns): (u64, u64),
        mix: &Mix,
        rng: &mut Rng,
    ) {
        let room = (profile.requests() * 1.01) as usize + 1000;
        self.intended_ns.reserve(room);
        self.request.reserve(room);
        self.pick.reserve(room);
        let mut index = 0.0;
        let mut at = 0.0;
        loop {
            at = match arrival {
                Arrival::Poisson => profile.after(at, rng.exponential()),
                // Computed from the index, not summed up: no drift over millions of requests.
                Arrival::Constant => profile.at(index + phase),
            };
            if at >= end_ns as f64 {
                break;
            }
            self.push(at as u64, warmup_ns, mix, rng);
            index += 1.0;
        }
    }

    fn push(&mut self, at_ns: u64, warmup_ns: u64, mix: &Mix, rng: &mut Rng) {
        if at_ns < warmup_ns {
            self.first_measured += 1;
        }
        self.intended_ns.push(at_ns);
        self.request.push(mix.choose(rng));
        self.pick.push((rng.bits() >> 32) as u32);
    }

    /// Return the requests of a closed loop, without instants: a mix that repeats.
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

    /// Return which request of the plan the one at `index` is.
    #[inline]
    pub fn request(&self, index: usize) -> u16 {
        self.request
            .get(index)
            .copied()
            .unwrap_or_else(|| self.request[index % CLOSED_CYCLE])
    }

    /// Return the number that chooses the connection of the request at `index`.
    #[inline]
    pub fn pick(&self, index: usize) -> u32 {
        self.pick.get(index).copied().unwrap_or(0)
    }
}

fn flat(for_s: f64, rate_per_s: f64) -> Piece {
    Piece {
        for_s,
        rate_per_s,
        to_rate_per_s: None,
    }
}

/// Requests of a closed loop before its mix repeats.
const CLOSED_CYCLE: usize = 65_536;

/// The cumulative weights of the requests.
#[derive(Clone, Debug)]
pub struct Mix {
    cumulative: Vec<f64>,
}

impl Mix {
    /// Create a mix. Weights are positive; their sum need not be 1.
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

    /// Return the index of a request, drawn by weight.
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
        let fields = serde_json::json!({"rate_per_s": 10_000, "duration_s": 9.0, "seed": seed});
        Schedule::of(&window(fields), None, &Mix::new([1.0]))
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
        let fields =
            serde_json::json!({"rate_per_s": 3000, "arrival": "constant", "duration_s": 2.0});
        let schedule = Schedule::of(&window(fields), None, &Mix::new([1.0]));
        assert_eq!(schedule.intended_ns.len(), 9000);
        assert_eq!(schedule.first_measured, 3000);
        let gaps = schedule.intended_ns.windows(2).map(|w| w[1] - w[0]);
        assert!(
            gaps.into_iter()
                .all(|gap| (333_333..=333_334).contains(&gap))
        );
    }

    fn window(fields: serde_json::Value) -> Window {
        let mut window = serde_json::json!({
            "id": "w", "instance": "a", "mode": "open", "connections": 1, "seed": 3,
            "warmup_s": 1.0, "duration_s": 4.0,
        });
        let object = window.as_object_mut().unwrap();
        object.extend(fields.as_object().unwrap().clone());
        serde_json::from_value(window).unwrap()
    }

    /// Requests intended in each second.
    fn per_second(schedule: &Schedule) -> Vec<f64> {
        let mut counts = vec![0.0; 5];
        for ns in &schedule.intended_ns {
            counts[(ns / SECOND) as usize] += 1.0;
        }
        counts
    }

    /// A seed gives the same schedule as in version 0.1.0, because records contain seeds.
    #[test]
    fn a_seed_keeps_its_schedule() {
        for (arrival, golden) in [
            ("poisson", (61_092, 0x111f_aaea_cbc1_1e9f)),
            ("constant", (61_728, 0xba5e_1194_40d0_85e1)),
        ] {
            let fields = serde_json::json!({"rate_per_s": 12_345.6, "arrival": arrival});
            let schedule = Schedule::of(&window(fields), None, &Mix::new([1.0, 2.0]));
            assert_eq!((schedule.intended_ns.len(), checksum(&schedule)), golden);
        }
    }

    fn checksum(schedule: &Schedule) -> u64 {
        let mut sum = 0u64;
        for (i, ns) in schedule.intended_ns.iter().enumerate() {
            let drawn = u64::from(schedule.pick[i]) ^ u64::from(schedule.request[i]);
            sum = sum
                .rotate_left(7)
                .wrapping_add(*ns)
                .wrapping_mul(0x9e37_79b9)
                ^ drawn;
        }
        sum
    }

    /// A ladder offers its rates one after another, and the first one in the warm-up; a ramp has
    /// the mean of its ends. Poisson counts lie within 5 standard deviations.
    #[test]
    fn ladders_follow_their_rates() {
        let rates = serde_json::json!([
            {"for_s": 1.0, "rate_per_s": 1000},
            {"for_s": 2.0, "rate_per_s": 1000, "to_rate_per_s": 5000},
            {"for_s": 1.0, "rate_per_s": 0},
        ]);
        let expected = [1000.0, 1000.0, 2000.0, 4000.0, 0.0_f64];
        for (arrival, tolerance) in [("poisson", 5.0), ("constant", 0.05)] {
            let window = window(serde_json::json!({"rates": rates, "arrival": arrival}));
            let schedule = Schedule::of(&window, None, &Mix::new([1.0]));
            assert!(schedule.intended_ns.is_sorted());
            let found = per_second(&schedule);
            for (found, expected) in found.iter().zip(expected) {
                let far = (found - expected).abs();
                assert!(far <= tolerance * expected.sqrt(), "{arrival}: {found}");
            }
            let first = schedule.intended_ns[schedule.first_measured];
            assert!((SECOND..SECOND + SECOND / 10).contains(&first));
        }
    }

    /// Over twelve hours the instants do not drift: equal gaps stay at their exact places, and a
    /// Poisson process has as many arrivals in its last hours as in its first ones.
    #[test]
    fn twelve_hours_do_not_drift() {
        const HOURS: u64 = 12;
        let of = |arrival: &str| {
            let window = window(serde_json::json!({
                "rate_per_s": 7.3, "arrival": arrival, "warmup_s": 0.0, "duration_s": HOURS * 3600,
            }));
            Schedule::of(&window, None, &Mix::new([1.0])).intended_ns
        };
        let constant = of("constant");
        assert_eq!(constant.len(), 315_360);
        for (place, ns) in constant.iter().enumerate() {
            let exact = (place as f64 + 0.5) / 7.3 * 1e9;
            assert!(
                (*ns as f64 - exact).abs() <= 1.0,
                "{place}: {ns}, not {exact}"
            );
        }
        let poisson = of("poisson");
        for hour in 0..HOURS {
            let hours = hour * 3600 * SECOND..(hour + 1) * 3600 * SECOND;
            let found = poisson.iter().filter(|ns| hours.contains(ns)).count() as f64;
            let expected = 7.3 * 3600.0_f64;
            assert!(
                (found - expected).abs() < 5.0 * expected.sqrt(),
                "hour {hour}: {found}"
            );
        }
    }

    /// The equal gaps of several generators, each with its share of the rate and a phase of its own,
    /// interleave to the instants of one generator, to the nanosecond that rounding takes; at one
    /// rate, and on a ramp.
    #[test]
    fn shares_of_equal_gaps_interleave() {
        let rates = |n: f64| {
            serde_json::json!([
                {"for_s": 3.0, "rate_per_s": 900.0 / n},
                {"for_s": 1.0, "rate_per_s": 900.0 / n, "to_rate_per_s": 3000.0 / n},
            ])
        };
        let offers: [fn(f64) -> serde_json::Value; 2] = [
            |n| serde_json::json!({"rate_per_s": 1000.0 / n}),
            |_| serde_json::json!({}),
        ];
        for (place, offer) in offers.iter().enumerate() {
            let instants = |n: u32, i: u32| {
                let n = f64::from(n);
                let mut fields = offer(n);
                if place == 1 {
                    fields["rates"] = rates(n);
                }
                fields["arrival"] = "constant".into();
                fields["phase"] = ((f64::from(i) + 0.5) / n).into();
                Schedule::of(&window(fields), None, &Mix::new([1.0])).intended_ns
            };
            let whole = instants(1, 0);
            for n in [2, 3, 7] {
                let mut shared: Vec<u64> = (0..n).flat_map(|i| instants(n, i)).collect();
                shared.sort_unstable();
                assert_eq!(shared.len(), whole.len());
                let apart = shared.iter().zip(&whole).map(|(a, b)| a.abs_diff(*b));
                assert!(apart.max() <= Some(1));
            }
        }
    }

    fn in_slices(fields: serde_json::Value) -> (Window, Schedule) {
        let mut window = window(serde_json::json!({
            "instance": "", "rate_per_s": 4000, "warmup_s": 0.15,
            "slices": {"instances": ["a", "b", "c"], "length_ms": 20, "same_arrivals": true},
        }));
        let object = fields.as_object().unwrap();
        if let Some(arrival) = object.get("arrival") {
            window.arrival = serde_json::from_value(arrival.clone()).unwrap();
        }
        let schedule = Schedule::of(&window, None, &Mix::new([1.0, 2.0]));
        (window, schedule)
    }

    /// In each set, every slice has the same requests at the same instants, and other ones than the
    /// sets before it.
    #[test]
    fn the_slices_of_a_set_have_the_same_requests() {
        for arrival in ["poisson", "constant"] {
            let (window, schedule) = in_slices(serde_json::json!({"arrival": arrival}));
            assert!(schedule.intended_ns.is_sorted());
            let turns = window.turns();
            let slice_at = |start: u64| {
                let requests = schedule.intended_ns.iter().enumerate();
                let own =
                    requests.filter(|(_, at)| (start..start + turns.length_ns()).contains(at));
                own.map(|(i, at)| (at - start, schedule.request[i], schedule.pick[i]))
                    .collect::<Vec<_>>()
            };
            let mut before = Vec::new();
            for set in 1..turns.sets() {
                let starts: Vec<u64> = turns.slices_of(set).map(|at| at as u64).collect();
                let first = slice_at(starts[0]);
                assert!(!first.is_empty(), "{arrival}, set {set}");
                assert_ne!(first, before);
                for start in &starts[1..] {
                    assert_eq!(slice_at(*start), first, "{arrival}, set {set}");
                }
                before = first;
            }
        }
    }

    /// The rate is that of the plan, in the warm-up too, which may begin within a set.
    #[test]
    fn same_arrivals_keep_the_rate() {
        let (window, schedule) = in_slices(serde_json::json!({"arrival": "constant"}));
        let measured = schedule.intended_ns.len() - schedule.first_measured;
        assert_eq!(measured as u64, 4 * window.duration_ns() / 1_000_000);
        assert_eq!(schedule.first_measured, 600);
        let end = window.warmup_ns() + window.duration_ns();
        assert!(schedule.intended_ns.iter().all(|at| *at < end));
        let (window, schedule) = in_slices(serde_json::json!({}));
        // A third of the requests is drawn, and each of them counts three times.
        let expected = 4 * window.duration_ns() / 1_000_000;
        let off = (schedule.intended_ns.len() - schedule.first_measured) as f64 - expected as f64;
        assert!(
            off.abs() < 5.0 * 3.0 * (expected as f64 / 3.0).sqrt(),
            "{off}"
        );
    }

    /// Recorded instants are kept as they are, after a warm-up at their mean rate.
    #[test]
    fn recorded_instants_are_kept() {
        let window = window(serde_json::json!({"instants_file": "x", "arrival": "constant"}));
        let recorded: Vec<u64> = (0..4000).map(|i| i * i * 200).collect();
        let schedule = Schedule::of(&window, Some(&recorded), &Mix::new([1.0]));
        assert_eq!(schedule.first_measured, 1000);
        let measured = &schedule.intended_ns[1000..];
        assert!(
            measured
                .iter()
                .zip(&recorded)
                .all(|(at, ns)| *at == SECOND + ns)
        );
        assert_eq!(measured.len(), recorded.len());
    }

    /// The measured part starts at the first arrival after the warm-up.
    #[test]
    fn the_warm_up_is_not_measured() {
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
