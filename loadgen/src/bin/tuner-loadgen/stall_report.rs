//! The output of `stalls`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tuner_loadgen::resources;
use tuner_loadgen::stalls::{Spans, Watched};

/// Stolen time of CPUs before they were watched.
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

/// The stalls of watched cores.
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
    /// Gaps between the clock readings of a thread that only reads the clock.
    spin: StallCount,
    /// Late wake-ups of a real-time thread; null if that priority is not permitted.
    ticker: Option<StallCount>,
    steal_s: Option<f64>,
}

#[derive(Serialize)]
struct StallCount {
    count: u64,
    /// Share of the watched time.
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
    /// Summarize the stalls.
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
