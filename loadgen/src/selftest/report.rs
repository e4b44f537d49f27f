//! The results of the self-test, and the verdict on them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::accuracy::Accuracy;
use super::arrivals::Arrivals;
use super::verdict::{LARGEST_US, Verdict, noise_us};

/// The largest share of a CPU's time that may be stalled.
const MAX_STALLED: f64 = 0.2;

/// The results of the self-test.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "self_test")]
pub struct Report {
    /// Version of this program.
    pub version: &'static str,
    /// The generator's CPUs.
    pub cpus: Vec<usize>,
    /// The responder's CPUs.
    pub server_cpus: Vec<usize>,
    /// True if they share a CPU. If so, stalls cannot be distinguished from work, and no request is
    /// left out.
    pub shared_core: bool,
    /// True if this program ran at a higher priority than other processes (niceness -20), as tuner
    /// runs it where permitted.
    pub preferred: bool,
    /// Duration of the self-test.
    pub took_s: f64,
    /// Latency of an idle responder.
    pub floor: Floor,
    /// The generator's own lateness.
    pub pacing: Pacing,
    /// Percentiles compared with theory.
    pub accuracy: Vec<Accuracy>,
    /// The arrival process as it was written.
    pub arrivals: Arrivals,
    /// The highest rates of one thread and of all.
    pub capacity: Vec<Capacity>,
    /// Stalls of each CPU.
    pub stalls: Vec<StalledCpu>,
    /// The shortest gap that counts as a stall, in microseconds.
    pub gap_us: u64,
    /// The time for which the CPUs were watched.
    pub watched_s: f64,
    /// Time stolen by the hypervisor from each CPU.
    pub steal_s: BTreeMap<usize, f64>,
    /// Number of failed requests.
    pub failed: u64,
    /// The verdict.
    pub verdict: Option<Verdict>,
}

/// The latency of an idle responder: the lowest that can be measured.
#[derive(Debug, Serialize)]
pub struct Floor {
    /// The rate of the Poisson arrivals.
    pub rate_per_s: f64,
    /// Number of windows.
    pub windows: usize,
    /// Number of requests in all windows.
    pub samples: usize,
    /// Share of the requests that stalls may have affected, which count in `raw_p99_us` only.
    pub excluded_share: f64,
    /// Median over the windows of their p50.
    pub p50_us: Option<f64>,
    /// Median over the windows of their p99.
    pub p99_us: Option<f64>,
    /// Median over the windows of their p99 with all requests.
    pub raw_p99_us: Option<f64>,
    /// The p99 of each window with enough requests that no stall affected.
    pub p99_by_window_us: Vec<f64>,
    /// Standard deviation of these p99.
    pub p99_deviation_us: Option<f64>,
}

/// Lateness of the generator's writes, outside stalls.
#[derive(Debug, Serialize)]
pub struct Pacing {
    /// Median of the send lag.
    pub p50_us: Option<f64>,
    /// 99th percentile of the send lag.
    pub p99_us: Option<f64>,
    /// The largest send lag.
    pub max_us: Option<f64>,
    /// The largest send lag, stalls included.
    pub raw_max_us: Option<f64>,
}

/// The highest load that some threads can offer.
#[derive(Debug, Serialize)]
pub struct Capacity {
    /// Number of threads, each on a CPU of its own.
    pub threads: usize,
    /// Answers per second of a closed loop, which the responder may limit.
    pub closed_per_s: f64,
    /// Share of the time in which the closed loop had work; below 1, the responder was the limit.
    pub generator_busy_share: f64,
    /// CPU time of the generator per request of the closed loop.
    pub cpu_us_per_request: f64,
    /// The highest tried rate that an open loop held, with writes on time; `None` (null) if it held
    /// none.
    pub open_per_s: Option<f64>,
}

/// The stalls of a CPU.
#[derive(Debug, Serialize)]
pub struct StalledCpu {
    /// `generator` or `responder`.
    pub role: &'static str,
    /// The CPU.
    pub cpu: usize,
    /// Number of stalls.
    pub count: u64,
    /// Total length of the stalls.
    pub total_us: f64,
    /// The longest stall.
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
    /// Add the stalls of this CPU.
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
    /// Return the verdict on these results.
    ///
    /// The lateness of writes counts in full: it is part of every latency, and it may differ
    /// between two arms.
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
            if share > MAX_STALLED {
                reasons.push(format!(
                    "CPU {} was stalled for {:.0} % of the time by the hypervisor or by other \
                     processes; reduce the load on the host and try again",
                    cpu.cpu,
                    share * 100.0
                ));
            }
        }
        for accuracy in &self.accuracy {
            reasons.extend(accuracy.problems());
        }
        reasons.extend(self.arrivals.problems());
        match above_us {
            None => reasons.push(format!(
                "{} of {} windows at the idle responder had enough requests without stalls, 3 are \
                 needed",
                self.floor.p99_by_window_us.len(),
                self.floor.windows
            )),
            Some(limit) if limit > LARGEST_US => reasons.push(format!(
                "the smallest difference that can be detected, {limit:.0} µs, is above {LARGEST_US:.0} µs"
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
