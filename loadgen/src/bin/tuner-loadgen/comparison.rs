//! The result of `compare`: latencies of each server over all rounds, and ratios to the first.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tuner_loadgen::cycles::Undisturbed;
use tuner_loadgen::output::{SliceFigures, WindowLine};
use tuner_loadgen::plan::Plan;

/// A percentile of a round needs this many effective requests above it: with fewer, order
/// statistics give no two-sided 95 % bounds (368 requests for a p99).
const MIN_ABOVE: f64 = 3.68;
/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

type Value = fn(&Undisturbed) -> Option<f64>;

/// The compared percentiles: name, level, and value of a round.
const PERCENTILES: [(&str, f64, Value); 3] = [
    ("p50", 0.5, |found| found.p50_us),
    ("p90", 0.9, |found| found.p90_us),
    ("p99", 0.99, |found| found.p99_us),
];

/// The result of a comparison.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Completed rounds.
    rounds: usize,
    /// Length of a round, in seconds.
    round_s: f64,
    /// Length of a slice, in milliseconds.
    slice_ms: f64,
    /// True if the servers that were not at turn were stopped, in all rounds.
    frozen: bool,
    /// Seed of the first round; the others follow it.
    seed: u64,
    /// The rate at the server at turn; `None` in a closed loop.
    rate_per_s: Option<f64>,
    /// Connections to each server.
    connections: usize,
    /// The servers, the baseline first.
    servers: Vec<Server>,
    /// Facts that a reader should know.
    notes: Vec<String>,
}

/// One server.
#[derive(Debug, Serialize)]
struct Server {
    url: String,
    /// Requests of all rounds.
    offered: u64,
    /// Requests answered as expected.
    completed: u64,
    /// Errors by kind.
    errors: BTreeMap<String, u64>,
    /// Good responses per second of its slices.
    achieved_per_s: f64,
    /// Share of the requests that a stall or a border affected.
    excluded_share: f64,
    /// Requests of equal weight with the same information, of all rounds.
    effective: f64,
    /// Geometric means of the rounds' percentiles, in microseconds.
    latency_us: BTreeMap<&'static str, Option<f64>>,
    /// Ratios to the first server; empty for that one.
    ratios: BTreeMap<&'static str, Ratio>,
}

/// A ratio to the first server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Ratio {
    /// Rounds in which both percentiles rest on enough requests.
    rounds: usize,
    /// Geometric mean of the rounds' ratios; `None` without rounds.
    ratio: Option<f64>,
    /// Its 95 % interval; `None` with fewer than two rounds.
    low: Option<f64>,
    high: Option<f64>,
}

impl Comparison {
    /// Evaluate the lines of each round.
    pub fn new(plan: &Plan, urls: &[&str], rounds: &[Vec<WindowLine>]) -> Self {
        let window = &plan.windows[0];
        let servers = urls.iter().enumerate();
        Self {
            rounds: rounds.len(),
            round_s: window.duration_ns() as f64 / 1e9,
            slice_ms: window
                .slices
                .as_ref()
                .map_or(0.0, |slices| slices.length_ms),
            frozen: !rounds.is_empty() && slices(rounds).all(|slices| slices.frozen),
            seed: window.seed,
            rate_per_s: window.rate_per_s,
            connections: window.connections,
            servers: servers
                .map(|(place, url)| Server::new(url, place, rounds))
                .collect(),
            notes: notes(plan, urls, rounds),
        }
    }
}

/// Return what the lines of all rounds say of their slices.
fn slices(rounds: &[Vec<WindowLine>]) -> impl Iterator<Item = &SliceFigures> {
    rounds
        .iter()
        .flatten()
        .filter_map(|line| line.slices.as_ref())
}

/// Return the latency of a server in a round.
fn undisturbed(round: &[WindowLine], place: usize) -> Option<&Undisturbed> {
    Some(&round.get(place)?.slices.as_ref()?.undisturbed)
}

/// Return a percentile of a server in a round, if enough requests lie above it.
fn percentile(round: &[WindowLine], place: usize, level: f64, value: Value) -> Option<f64> {
    let found = undisturbed(round, place)?;
    let enough = found.effective * (1.0 - level) >= MIN_ABOVE;
    value(found).filter(|us| enough && *us > 0.0)
}

impl Server {
    fn new(url: &str, place: usize, rounds: &[Vec<WindowLine>]) -> Self {
        let lines = || rounds.iter().filter_map(|round| round.get(place));
        let mut errors = BTreeMap::new();
        for (kind, count) in lines().flat_map(|line| &line.errors) {
            *errors.entry(kind.clone()).or_default() += count;
        }
        let measured = || rounds.iter().filter_map(|round| undisturbed(round, place));
        let answered: f64 = measured()
            .map(|u| u.count as f64 / (1.0 - u.excluded_share).max(1e-9))
            .sum();
        let kept: u64 = measured().map(|u| u.count).sum();
        let mut latency_us = BTreeMap::new();
        let mut ratios = BTreeMap::new();
        for (name, level, value) in PERCENTILES {
            let of = |round: &Vec<WindowLine>, place| percentile(round, place, level, value);
            let logs: Vec<f64> = rounds
                .iter()
                .filter_map(|round| Some(of(round, place)?.ln()))
                .collect();
            latency_us.insert(name, mean(&logs).map(f64::exp));
            if place > 0 {
                let differences: Vec<f64> = rounds
                    .iter()
                    .filter_map(|round| Some((of(round, place)? / of(round, 0)?).ln()))
                    .collect();
                ratios.insert(name, Ratio::of(&differences));
            }
        }
        let seconds: f64 = lines().map(|line| line.duration_s).sum();
        let good: f64 = lines().map(|l| l.achieved_per_s * l.duration_s).sum();
        Self {
            url: url.to_owned(),
            offered: lines().map(|line| line.offered).sum(),
            completed: lines().map(|line| line.completed).sum(),
            errors,
            achieved_per_s: if seconds > 0.0 { good / seconds } else { 0.0 },
            excluded_share: 1.0 - kept as f64 / answered.max(1.0),
            effective: measured().map(|u| u.effective).sum(),
            latency_us,
            ratios,
        }
    }
}

impl Ratio {
    /// Return the ratio of these differences of logarithms, one of each round.
    fn of(differences: &[f64]) -> Self {
        let n = differences.len();
        let middle = mean(differences);
        let half = middle.filter(|_| n > 1).map(|middle| {
            let squares: f64 = differences.iter().map(|d| (d - middle).powi(2)).sum();
            let t = T_95.get(n - 2).copied().unwrap_or(1.96);
            t * (squares / (n - 1) as f64 / n as f64).sqrt()
        });
        let at = |sign: f64| Some((middle? + sign * half?).exp());
        Self {
            rounds: n,
            ratio: middle.map(f64::exp),
            low: at(-1.0),
            high: at(1.0),
        }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn notes(plan: &Plan, urls: &[&str], rounds: &[Vec<WindowLine>]) -> Vec<String> {
    let mut notes = Vec::new();
    for (place, url) in urls.iter().enumerate() {
        let own = rounds.iter().filter_map(|round| round.get(place));
        let behind = own.filter_map(|line| line.slices.as_ref()?.behind);
        let count = behind.count();
        if count > 0 {
            notes.push(format!(
                "{url} could not keep up with the load: in {count} of {} rounds it fell behind and \
                 was sent no more requests; lower -R",
                rounds.len()
            ));
        }
    }
    if plan.ticker.is_none() {
        notes.push("the servers' CPU was not watched for stalls (--ticker-cpu)".to_owned());
    }
    if plan.cpus.is_empty() {
        notes.push("the generator has no CPU of its own (--cpu)".to_owned());
    }
    let mut lines = rounds.iter().flatten();
    let worst = lines.clone().map(|line| line.generator_busy_share);
    if lines.any(|line| line.generator_busy_share > 0.9) {
        let share = 100.0 * worst.fold(0.0, f64::max);
        notes.push(format!(
            "the generator was {share:.0} % busy, so its own delay is in the figures; lower -R"
        ));
    }
    if let Some(why) = slices(rounds).find_map(|slices| slices.not_frozen.as_ref()) {
        notes.push(format!("servers were not frozen: {why}"));
    }
    for warning in rounds.iter().flatten().flat_map(|line| &line.warnings) {
        if !notes.contains(warning) {
            notes.push(warning.clone());
        }
    }
    notes
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = match self.rate_per_s {
            Some(rate) => format!("{rate} requests/s"),
            None => "closed loop".into(),
        };
        let frozen = if self.frozen { " (frozen)" } else { "" };
        writeln!(
            f,
            "{} rounds of {} s in slices of {} ms{frozen}, {load}, {} connections to each server, seed {}\n",
            self.rounds, self.round_s, self.slice_ms, self.connections, self.seed
        )?;
        writeln!(
            f,
            "      {:>10} {:>10} {:>10} {:>10} {:>10}",
            "p50 µs", "p90 µs", "p99 µs", "excluded", "effective"
        )?;
        for (number, server) in (1..).zip(&self.servers) {
            write!(f, "  {number:>2}  ")?;
            for (name, ..) in PERCENTILES {
                match server.latency_us[name] {
                    Some(us) => write!(f, "{us:>10.1} ")?,
                    None => write!(f, "{:>10} ", "-")?,
                }
            }
            let excluded = format!("{:.0} %", 100.0 * server.excluded_share);
            writeln!(
                f,
                "{excluded:>10} {:>10.0}  {}",
                server.effective, server.url
            )?;
        }
        writeln!(f, "\nratio to 1 (95 % interval)")?;
        for (number, server) in (1..).zip(&self.servers).skip(1) {
            for (name, ..) in PERCENTILES {
                writeln!(f, "  {number:>2}  {name}  {}", server.ratios[name])?;
            }
        }
        for (number, server) in (1..).zip(&self.servers) {
            for (kind, count) in &server.errors {
                writeln!(f, "error of {number}: {kind}, {count} times")?;
            }
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ratio, self.low, self.high) {
            (Some(ratio), Some(low), Some(high)) => {
                write!(
                    f,
                    "{ratio:.3}  ({low:.3} to {high:.3}, {} rounds)",
                    self.rounds
                )
            }
            (Some(ratio), ..) => write!(f, "{ratio:.3}  (one round has no interval)"),
            _ => write!(f, "too few undisturbed requests; raise -R or --round"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interval is that of Student's t on the logarithms.
    #[test]
    fn the_interval_is_students() {
        let found = Ratio::of(&[0.1, 0.2, 0.3]);
        let half = 4.303 * 0.1 / 3.0_f64.sqrt();
        assert!((found.ratio.unwrap().ln() - 0.2).abs() < 1e-12);
        assert!((found.low.unwrap().ln() - (0.2 - half)).abs() < 1e-12);
        assert!((found.high.unwrap().ln() - (0.2 + half)).abs() < 1e-12);
        assert_eq!(Ratio::of(&[0.1]).low, None);
        assert_eq!(Ratio::of(&[]).ratio, None);
    }
}
