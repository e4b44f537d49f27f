//! What the self-test found: for programs as JSON, for people as a table.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::accuracy::{Accuracy, TOLERANCE};
use super::arrivals::Arrivals;
use super::verdict::Verdict;

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

struct Us(Option<f64>);

impl fmt::Display for Us {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(us) => write!(f, "{us:.1} µs"),
            None => f.write_str("unknown"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |cpus: &[usize]| {
            let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
            cpus.join(",")
        };
        writeln!(
            f,
            "self-test of tuner-loadgen {}: generator on CPU {}, responder on CPU {}, {:.0} s\n",
            self.version,
            list(&self.cpus),
            list(&self.server_cpus),
            self.took_s
        )?;
        if self.shared_core {
            writeln!(
                f,
                "One CPU for both: each measures the other too, no stall can be told from work, and\n\
                 nothing is left out.\n"
            )?;
        }
        if !self.preferred {
            writeln!(
                f,
                "Other processes of this host are part of every figure. As root, and in a session of its\n\
                 own (setsid --wait tuner-loadgen self-test), they would have to wait.\n"
            )?;
        }
        let floor = &self.floor;
        writeln!(
            f,
            "floor      idle responder, {:.0}/s: p50 {}, p99 {} ({} with stalls)\n           \
             p99 of {} windows: standard deviation {}; {:.1} % of the requests excluded",
            floor.rate_per_s,
            Us(floor.p50_us),
            Us(floor.p99_us),
            Us(floor.raw_p99_us),
            floor.p99_by_window_us.len(),
            Us(floor.p99_deviation_us),
            floor.excluded_share * 100.0
        )?;
        let pacing = &self.pacing;
        writeln!(
            f,
            "pacing     send lag: p50 {}, p99 {}, max {} ({} with stalls)",
            Us(pacing.p50_us),
            Us(pacing.p99_us),
            Us(pacing.max_us),
            Us(pacing.raw_max_us)
        )?;
        for accuracy in &self.accuracy {
            write!(f, "{accuracy}")?;
        }
        write!(f, "{}", self.arrivals)?;
        for capacity in &self.capacity {
            write!(f, "{capacity}")?;
        }
        for cpu in &self.stalls {
            writeln!(
                f,
                "stalls     CPU {} ({}): {} over {} µs in {:.0} s, {:.2} % of the time, longest {:.0} µs; \
                 stolen {:.2} s",
                cpu.cpu,
                cpu.role,
                cpu.count,
                self.gap_us,
                self.watched_s,
                cpu.total_us / 1e4 / self.watched_s.max(1e-9),
                cpu.longest_us,
                self.steal_s.get(&cpu.cpu).copied().unwrap_or(0.0)
            )?;
        }
        match &self.verdict {
            Some(verdict) => write!(f, "\n{verdict}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "accuracy   {}: {} requests, {:.1} % excluded",
            self.name,
            self.samples,
            self.excluded_share * 100.0
        )?;
        for point in &self.points {
            let wrong = point.error.abs() > TOLERANCE;
            writeln!(
                f,
                "{:>16}  theory {:>10.1} µs  measured {:>10.1} µs  {:>+6.2} %{}",
                format!("p{}", point.quantile * 100.0),
                point.theory_us,
                point.measured_us,
                point.error * 100.0,
                if wrong { "  off" } else { "" }
            )?;
        }
        writeln!(
            f,
            "           single requests: {} from their theory at p50, {} at p99",
            Us(self.residual_p50_us),
            Us(self.residual_p99_us)
        )
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = |value: Option<f64>, digits: usize| match value {
            Some(value) => format!("{value:.digits$}"),
            None => "unknown".into(),
        };
        writeln!(
            f,
            "arrivals   {} gaps: Anderson-Darling {} (exponential up to {}), Spearman at lag 1 {} \
             (independent up to ±{})",
            self.gaps,
            found(self.anderson_darling, 2),
            self.anderson_darling_critical,
            found(self.spearman, 3),
            found(self.spearman_critical, 3)
        )
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = match self.open_per_s {
            Some(rate) => format!("{rate:.0}/s held"),
            None => "none held".into(),
        };
        writeln!(
            f,
            "rate       {} thread{}: open loop {open}, closed loop {:.0}/s, {:.2} µs of CPU time per \
             request, {:.0} % at work",
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            self.closed_per_s,
            self.cpu_us_per_request,
            self.generator_busy_share * 100.0
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let made_of = format!(
            "{} of noise between windows and {} of pacing",
            Us(self.noise_us),
            Us(self.pacing_us)
        );
        match self.above_us {
            Some(above) if self.fit => writeln!(
                f,
                "fit for p99 differences above {above:.0} µs on this host ({made_of})"
            )?,
            _ => writeln!(f, "not fit on this host ({made_of})")?,
        }
        for reason in &self.reasons {
            writeln!(f, "  - {reason}")?;
        }
        Ok(())
    }
}
