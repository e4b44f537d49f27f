//! What the self-test found: for programs as JSON, for people as a table.

use std::collections::BTreeMap;

use serde::Serialize;

use super::accuracy::Accuracy;
use super::arrivals::Arrivals;
use super::verdict::{LARGEST_US, Verdict, noise_us};

/// A CPU of which more is taken away is not there to measure with.
const MOST_STALLED: f64 = 0.2;

/// All of it.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "self_test")]
pub struct Report {
    /// Of this program.
    pub version: &'static str,
    /// The generator's CPUs.
    pub cpus: Vec<usize>,
    /// The responder's.
    pub server_cpus: Vec<usize>,
    /// Whether they share one: then no stall can be told from work, and nothing is left out.
    pub shared_core: bool,
    /// Whether other processes had to wait for it (niceness -20), as tuner runs it where permitted.
    pub preferred: bool,
    /// How long it took.
    pub took_s: f64,
    /// Latency at an idle responder.
    pub floor: Floor,
    /// The generator's own lateness.
    pub pacing: Pacing,
    /// Percentiles beside theory.
    pub accuracy: Vec<Accuracy>,
    /// The arrival process as it was written.
    pub arrivals: Arrivals,
    /// The highest rates, of one thread and of all.
    pub capacity: Vec<Capacity>,
    /// Stalls of each CPU.
    pub stalls: Vec<StalledCpu>,
    /// What counts as one.
    pub gap_us: u64,
    /// The time in which they were watched for.
    pub watched_s: f64,
    /// Time stolen by the hypervisor from each CPU.
    pub steal_s: BTreeMap<usize, f64>,
    /// Requests that failed.
    pub failed: u64,
    /// What follows.
    pub verdict: Option<Verdict>,
}

/// The latency that an idle responder shows: what nobody can measure less than.
#[derive(Debug, Serialize)]
pub struct Floor {
    /// The rate, Poisson.
    pub rate_per_s: f64,
    /// Windows.
    pub windows: usize,
    /// Requests of all windows.
    pub samples: usize,
    /// Share of them that stalls may have touched, which count in `raw_p99_us` only.
    pub excluded_share: f64,
    /// Median over the windows of their p50.
    pub p50_us: Option<f64>,
    /// Of their p99.
    pub p99_us: Option<f64>,
    /// Of their p99 with everything in it.
    pub raw_p99_us: Option<f64>,
    /// The p99 of each window with enough requests that no stall touched.
    pub p99_by_window_us: Vec<f64>,
    /// Their standard deviation.
    pub p99_deviation_us: Option<f64>,
}

/// How late the generator writes, outside stalls.
#[derive(Debug, Serialize)]
pub struct Pacing {
    /// Median of the send lag.
    pub p50_us: Option<f64>,
    /// Its 99th percentile.
    pub p99_us: Option<f64>,
    /// The largest.
    pub max_us: Option<f64>,
    /// The largest, stalls included.
    pub raw_max_us: Option<f64>,
}

/// How much load some threads can offer.
#[derive(Debug, Serialize)]
pub struct Capacity {
    /// Threads, each on a CPU of its own.
    pub threads: usize,
    /// Answers per second of a closed loop. The responder is part of it.
    pub closed_per_s: f64,
    /// Share of the time in which the loop was at work then: below 1, the responder was the limit.
    pub generator_busy_share: f64,
    /// CPU time of the generator per request then.
    pub cpu_us_per_request: f64,
    /// The highest of the rates tried that an open loop held, with writes on time; `None` (null) if
    /// it held none.
    pub open_per_s: Option<f64>,
}

/// What a CPU lost.
#[derive(Debug, Serialize)]
pub struct StalledCpu {
    /// Whose it is.
    pub role: &'static str,
    /// Which.
    pub cpu: usize,
    /// Stalls.
    pub count: u64,
    /// Their sum.
    pub total_us: f64,
    /// The longest.
    pub longest_us: f64,
}

impl From<(&'static str, usize)> for StalledCpu {
    fn from((role, cpu): (&'static str, usize)) -> Self {
        Self {
            role,
            cpu,
            count: 0,
            total_us: 0.0,
            longest_us: 0.0,
        }
    }
}

impl StalledCpu {
    /// Count those that are of this CPU.
    pub fn add(&mut self, spans: &[(usize, u64, u64)]) {
        for (_, start, end) in spans.iter().filter(|span| span.0 == self.cpu) {
            let us = (end - start) as f64 / 1000.0;
            self.count += 1;
            self.total_us += us;
            self.longest_us = self.longest_us.max(us);
        }
    }
}

impl Report {
    /// Judge what was found.
    ///
    /// The lateness of writes is added in full: it is part of every latency, and nothing proves that
    /// two arms suffer the same of it.
    pub fn judge(&self) -> Verdict {
        let noise_us = noise_us(&self.floor.p99_by_window_us);
        let pacing_us = self.pacing.p99_us;
        let above_us = noise_us
            .zip(pacing_us)
            .map(|(noise, pacing)| noise + pacing);
        let mut reasons = Vec::new();
        if self.failed > 0 {
            reasons.push(format!(
                "{} requests to the built-in responder failed",
                self.failed
            ));
        }
        for cpu in &self.stalls {
            let share = cpu.total_us / 1e6 / self.watched_s.max(1e-9);
            if share > MOST_STALLED {
                reasons.push(format!(
                    "CPU {} was taken away for {:.0} % of the time, by the hypervisor or by other \
                     processes: quieten the host and try again",
                    cpu.cpu,
                    share * 100.0
                ));
            }
        }
        for accuracy in &self.accuracy {
            reasons.extend(accuracy.complaints());
        }
        reasons.extend(self.arrivals.complaints());
        match above_us {
            None => reasons.push(format!(
                "{} of {} windows at the idle responder had enough requests without stalls, 3 are \
                 needed",
                self.floor.p99_by_window_us.len(),
                self.floor.windows
            )),
            Some(limit) if limit > LARGEST_US => reasons.push(format!(
                "the finest difference that can be told, {limit:.0} µs, is above {LARGEST_US:.0} µs"
            )),
            Some(_) => {}
        }
        Verdict {
            fit: reasons.is_empty(),
            above_us,
            noise_us,
            pacing_us,
            reasons,
        }
    }
}
