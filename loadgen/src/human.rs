//! What people read: the tables of `run` and `stalls`.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::Serialize;
use tuner_loadgen::histogram::Summary;
use tuner_loadgen::output::WindowLine;
use tuner_loadgen::resources;
use tuner_loadgen::stalls::{Spans, Watched};

/// A window as a table.
pub fn window(line: &WindowLine) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = table(&mut out, line);
    out
}

fn table(out: &mut String, line: &WindowLine) -> fmt::Result {
    let offered = line.offered as f64 / line.duration_s;
    writeln!(
        out,
        "{} connections, {} s: {} requests, {:.0}/s offered, {:.0}/s achieved",
        line.connections, line.duration_s, line.offered, offered, line.achieved_per_s
    )?;
    writeln!(
        out,
        "\n{:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "µs", "p50", "p90", "p99", "p99.9", "max", "mean"
    )?;
    row(out, "latency", &line.latency.corrected)?;
    row(out, "service", &line.latency.service)?;
    row(out, "send lag", &line.latency.send_lag)?;
    writeln!(
        out,
        "\nlatency: from the instant at which the request was to be sent; service: from its write;\n\
         send lag: between the two. Nothing is left out on account of stalls."
    )?;
    writeln!(
        out,
        "\nnot answered: {} timeouts, {} unsent, {} in flight; errors: {}",
        line.timeouts,
        line.unsent,
        line.in_flight,
        listed(&line.errors)
    )?;
    writeln!(
        out,
        "connections: {} opened, {} reopened, {} reconnects, {} requests retried",
        line.connects, line.reopened, line.reconnects, line.retries
    )?;
    let stalls = &line.stalls;
    let longest = stalls.generator.iter().map(|(start, end)| end - start);
    writeln!(
        out,
        "stalls over {} µs: {} of the generator, the longest {} µs; {}",
        stalls.gap_us,
        stalls.generator.len(),
        longest.max().unwrap_or(0) / 1000,
        if stalls.realtime {
            let longest = stalls.server.iter().map(|(_, start, end)| end - start);
            let longest = longest.max().unwrap_or(0) / 1000;
            format!(
                "{} of the server's CPUs, the longest {longest} µs",
                stalls.server.len()
            )
        } else {
            "the server's CPUs were not watched".into()
        }
    )?;
    writeln!(
        out,
        "generator: {:.0} % of the time at work, {:.3} s of CPU time",
        line.generator_busy_share * 100.0,
        line.generator_cpu_s
    )?;
    for warning in &line.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}

fn row(out: &mut String, name: &str, summary: &Summary) -> fmt::Result {
    write!(out, "{name:>12}")?;
    for value in [
        summary.p50_us,
        summary.p90_us,
        summary.p99_us,
        summary.p999_us,
        summary.max_us,
        summary.mean_us,
    ] {
        match value {
            Some(us) => write!(out, " {us:>10.1}")?,
            None => write!(out, " {:>10}", "-")?,
        }
    }
    writeln!(out)
}

fn listed(errors: &BTreeMap<String, u64>) -> String {
    if errors.is_empty() {
        return "none".into();
    }
    let parts: Vec<String> = errors
        .iter()
        .map(|(kind, n)| format!("{n} {kind}"))
        .collect();
    parts.join(", ")
}

/// Stolen time before a watch.
pub struct Steal {
    cpus: Vec<usize>,
    before: BTreeMap<usize, f64>,
}

impl Steal {
    /// Read it now.
    pub fn before(cpus: &[usize]) -> Self {
        Self {
            cpus: cpus.to_vec(),
            before: resources::steal_s(cpus),
        }
    }
}

/// What watched cores showed.
#[derive(Serialize)]
#[serde(tag = "type", rename = "stalls")]
pub struct StallReport {
    gap_us: u64,
    realtime: bool,
    cpus: Vec<StalledCpu>,
}

#[derive(Serialize)]
struct StalledCpu {
    cpu: usize,
    watched_s: f64,
    /// Gaps in the readings of a thread that only read the clock.
    spin: StallCount,
    /// Late wake-ups of a real-time thread; null if that priority is not permitted.
    ticker: Option<StallCount>,
    steal_s: Option<f64>,
}

#[derive(Serialize)]
struct StallCount {
    count: u64,
    /// Stalled share of the time watched.
    share: f64,
    total_us: f64,
    longest_us: f64,
}

impl StallCount {
    fn new(spans: &Spans, watched_ns: u64) -> Self {
        let lengths = || spans.list.iter().map(|(start, end)| end - start);
        let total: u64 = lengths().sum();
        Self {
            count: spans.list.len() as u64 + spans.lost,
            share: total as f64 / watched_ns.max(1) as f64,
            total_us: total as f64 / 1000.0,
            longest_us: lengths().max().unwrap_or(0) as f64 / 1000.0,
        }
    }
}

impl StallReport {
    /// Sum up.
    pub fn new(watched: &[Watched], gap_us: u64, steal: &Steal) -> Self {
        let after = resources::steal_s(&steal.cpus);
        let cpus = watched.iter().map(|w| StalledCpu {
            cpu: w.cpu,
            watched_s: w.watched_ns as f64 / 1e9,
            spin: StallCount::new(&w.gaps, w.watched_ns),
            ticker: w
                .late
                .as_ref()
                .map(|late| StallCount::new(late, w.watched_ns)),
            steal_s: after
                .get(&w.cpu)
                .zip(steal.before.get(&w.cpu))
                .map(|(after, before)| after - before),
        });
        Self {
            gap_us,
            realtime: watched.iter().all(|w| w.late.is_some()),
            cpus: cpus.collect(),
        }
    }
}

impl fmt::Display for StallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let granted = if self.realtime {
            "granted"
        } else {
            "not granted"
        };
        writeln!(
            f,
            "stalls over {} µs; real-time priority {granted}",
            self.gap_us
        )?;
        for cpu in &self.cpus {
            write!(f, "cpu {:>3}  spin {}", cpu.cpu, cpu.spin)?;
            match &cpu.ticker {
                Some(ticker) => writeln!(f, "   ticker {ticker}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for StallCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>5} ({:>6.3} % of the time, longest {:>8.0} µs)",
            self.count,
            self.share * 100.0,
            self.longest_us
        )
    }
}
