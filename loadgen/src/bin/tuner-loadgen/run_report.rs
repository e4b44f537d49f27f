//! The text output of `run`: first what users of wrk2 know, with the words that their scripts
//! search for, then what wrk2 does not report: sources of delay, and whether the figures are valid.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use hdrhistogram::Histogram;
use tuner_loadgen::engine::Raw;
use tuner_loadgen::hgrm;
use tuner_loadgen::histogram::{Histograms, Summary};
use tuner_loadgen::output::WindowLine;
use tuner_loadgen::plan::{Arrival, Mode};
use tuner_loadgen::record::{Outcome, Sample};
use tuner_loadgen::validity::{Fault, Validity};

use crate::cli::RunOptions;
use crate::cli::units::{bytes, count, time_s, time_us};

const RULE: &str = "----------------------------------------------------------";
/// The percentiles of wrk2's table.
const LEVELS: [f64; 8] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];

/// A measured window, with everything that the report needs.
#[derive(Debug)]
pub struct Measured<'a> {
    pub options: &'a RunOptions,
    pub line: &'a WindowLine,
    pub raw: &'a Raw,
    pub histograms: &'a Histograms,
    pub validity: &'a Validity,
}

/// Return the text that is printed before the window begins.
pub fn opening(options: &RunOptions, duration_s: f64, connections: usize) -> String {
    format!(
        "Running {} test @ {}\n  {} threads and {connections} connections\n",
        time_s(duration_s),
        options.url,
        options.threads(),
    )
}

impl fmt::Display for Measured<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line.interrupted {
            let measured = time_s(self.line.duration_s);
            writeln!(f, "  INTERRUPTED: the results cover {measured}")?;
        }
        self.thread_stats(f)?;
        let all = self.histograms;
        if self.options.latency {
            spectrum(f, &all.corrected, "Recorded Latency")?;
        }
        if self.options.uncorrected {
            let words = "Uncorrected Latency (measured without taking delayed starts into account)";
            writeln!(f)?;
            spectrum(f, &all.service, words)?;
        }
        self.summary(f)?;
        self.table(f)?;
        self.pieces(f)?;
        self.instrument(f)?;
        self.judgement(f)
    }
}

impl Measured<'_> {
    fn thread_stats(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  Thread Stats{:>6}{:>11}{:>8}{:>12}",
            "Avg", "Stdev", "Max", "+/- Stdev"
        )?;
        let latency = &self.histograms.corrected;
        let us = |ns: f64| time_us(ns / 1000.0);
        let (mean, stdev) = if latency.is_empty() {
            (0.0, 0.0)
        } else {
            (latency.mean(), latency.stdev())
        };
        stats_row(
            f,
            "Latency",
            [us(mean), us(stdev), us(latency.max() as f64)],
            within(latency, mean, stdev),
        )?;
        let rates = rates(&self.raw.arms[0].samples, self.raw.start, self.raw.end);
        let rates: Vec<f64> = rates
            .iter()
            .map(|rate| rate / self.options.threads() as f64)
            .collect();
        let n = rates.len().max(1) as f64;
        let mean = rates.iter().sum::<f64>() / n;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / n;
        let stdev = variance.sqrt();
        let near = rates.iter().filter(|rate| (*rate - mean).abs() <= stdev);
        let most = rates.iter().copied().fold(0.0, f64::max);
        stats_row(
            f,
            "Req/Sec",
            [count(mean), count(stdev), count(most)],
            near.count() as f64 / n,
        )
    }

    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        writeln!(
            f,
            "  {} requests in {}, {}B read",
            line.completed,
            time_us(line.duration_s * 1e6),
            bytes(line.bytes_in as f64)
        )?;
        let sum = |wanted: &dyn Fn(&str) -> bool| -> u64 {
            let errors = line.errors.iter();
            errors
                .filter(|(kind, _)| wanted(kind))
                .map(|(_, n)| n)
                .sum()
        };
        let connect = sum(&|kind| kind.starts_with("connect_"));
        let read = sum(&|kind| !kind.starts_with("connect_") && !kind.starts_with("status_"));
        let statuses = sum(&|kind| kind.starts_with("status_"));
        if connect + read + line.timeouts > 0 {
            writeln!(
                f,
                "  Socket errors: connect {connect}, read {read}, write 0, timeout {}",
                line.timeouts
            )?;
        }
        if statuses > 0 {
            writeln!(f, "  Non-2xx or 3xx responses: {statuses}")?;
        }
        writeln!(f, "Requests/sec: {:>9.2}", line.achieved_per_s)?;
        let rate = line.bytes_in as f64 / line.duration_s;
        writeln!(f, "Transfer/sec: {:>10}B", bytes(rate))
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "µs", "p50", "p90", "p99", "p99.9", "max", "mean"
        )?;
        let latency = &self.line.latency;
        if self.line.mode == Mode::Closed {
            row(f, "service", &latency.service)?;
            row(f, "first byte", &latency.first_byte)?;
            return writeln!(
                f,
                "     service: from the write of a request to its complete response\n  \
                 first byte: from the write to the first byte of the response"
            );
        }
        row(f, "latency", &latency.corrected)?;
        if self.validity.stalls_excluded {
            row(f, "stall-free", &self.validity.stall_free)?;
        }
        row(f, "first byte", &latency.first_byte)?;
        row(f, "service", &latency.service)?;
        row(f, "send lag", &latency.send_lag)?;
        row(f, "own lag", &self.validity.own_lag)?;
        writeln!(
            f,
            "     latency: from the intended instant of the request to its complete response\n  \
             first byte: from the intended instant to the first byte of the response"
        )?;
        if self.validity.stalls_excluded {
            writeln!(
                f,
                "  stall-free: without the {:.1} % of requests near a stall of the machine",
                self.validity.excluded_share * 100.0
            )?;
        }
        writeln!(
            f,
            "     service: from the write; send lag: from the intended instant to the write\n     \
             own lag: send lag of the requests with a free connection"
        )
    }

    /// Write the pieces of a ladder of rates.
    fn pieces(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(pieces) = &self.line.pieces else {
            return Ok(());
        };
        writeln!(
            f,
            "\n{:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "from s", "rate/s", "to", "p50 µs", "p99 µs", "max µs", "failed"
        )?;
        for piece in pieces {
            let part = &piece.part;
            let us = |value: Option<f64>| value.map_or("-".into(), |us| format!("{us:.1}"));
            writeln!(
                f,
                "{:>12.1} {:>10.0} {:>10.0} {:>10} {:>10} {:>10} {:>10}",
                part.from_s,
                piece.rate_per_s,
                piece.to_rate_per_s.unwrap_or(piece.rate_per_s),
                us(part.p50_us),
                us(part.p99_us),
                us(part.max_us),
                part.errors + part.unanswered
            )?;
        }
        Ok(())
    }

    fn instrument(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        writeln!(f)?;
        let arrival = match line.arrival {
            Some(Arrival::Poisson) => "Poisson arrivals",
            Some(Arrival::Constant) => "constant gaps",
            None if line.mode == Mode::Open => "recorded instants",
            None => "closed loop",
        };
        let rate = match (line.rate_per_s, &line.pieces) {
            (Some(rate), _) => format!(" at {rate}/s"),
            (None, Some(pieces)) => format!(" at {} rates", pieces.len()),
            (None, None) => String::new(),
        };
        writeln!(
            f,
            "  offered      {} requests, {arrival}{rate}, seed {}, after {} s of warm-up",
            line.offered, line.seed, line.warmup_s
        )?;
        self.protocol(f)?;
        writeln!(
            f,
            "  unanswered   {} timeouts, {} unsent, {} in flight",
            line.timeouts, line.unsent, line.in_flight
        )?;
        writeln!(f, "  errors       {}", listed(&line.errors))?;
        writeln!(
            f,
            "  connections  {} opened, {} reconnects, {} requests retried",
            line.connects + line.reopened,
            line.reconnects,
            line.retries
        )?;
        if let Some(us) = line.sent_every_us {
            writeln!(
                f,
                "  sending      every {us} µs, all requests due by then; late by up to {us} µs (send lag)"
            )?;
        }
        writeln!(f, "  stalls       {}", self.stalls())?;
        writeln!(
            f,
            "  generator    {:.0} % busy, {:.1} µs of CPU time per request",
            line.generator_busy_share * 100.0,
            line.generator_cpu_s * 1e6 / line.offered.max(1) as f64
        )
    }

    /// Write the protocol, unless it is HTTP/1.1 in cleartext.
    fn protocol(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        if line.tls.is_none() && line.streams == 1 && line.protocol == "http/1.1" {
            return Ok(());
        }
        write!(f, "  protocol     {}", line.protocol)?;
        if line.protocol != "http/1.1" {
            write!(f, ", {} streams on each connection", line.streams)?;
        }
        if let Some(tls) = line.tls.as_ref().filter(|tls| !tls.version.is_empty()) {
            let names = |counts: &BTreeMap<_, u64>| {
                counts.keys().copied().collect::<Vec<&str>>().join(", ")
            };
            write!(
                f,
                "; {} {} {}, {} full handshakes, {} resumed",
                names(&tls.version),
                names(&tls.cipher),
                names(&tls.group),
                tls.full,
                tls.resumed
            )?;
        }
        writeln!(f)?;
        if line.blocked.count > 0 {
            writeln!(
                f,
                "  blocked      {} requests waited for others on their connection, p99 {:.1} µs",
                line.blocked.count,
                line.blocked.p99_us.unwrap_or(0.0)
            )?;
        }
        Ok(())
    }

    fn stalls(&self) -> String {
        let stalls = &self.line.stalls;
        let longest = |spans: &mut dyn Iterator<Item = i64>| spans.max().unwrap_or(0) / 1000;
        let own = longest(&mut stalls.generator.iter().map(|(start, end)| end - start));
        let mut text = format!(
            "over {} µs: generator {} (longest {own} µs)",
            stalls.gap_us,
            stalls.generator.len(),
        );
        // Writing to a string does not fail.
        let _ = if stalls.realtime {
            let theirs = longest(&mut stalls.server.iter().map(|(_, start, end)| end - start));
            let n = stalls.server.len();
            write!(text, ", server {n} (longest {theirs} µs)")
        } else {
            write!(text, "; server not watched")
        };
        let steal: f64 = self.line.steal_s.values().sum();
        if steal > 0.0 {
            let _ = write!(text, "; {steal:.2} s stolen");
        }
        text
    }

    fn judgement(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let validity = self.validity;
        if validity.valid {
            writeln!(f, "\n  VALID")?;
        } else {
            writeln!(f, "\n  NOT VALID")?;
        }
        for reason in &validity.reasons {
            let at_fault = match reason.at_fault {
                Fault::Server => "server",
                Fault::Generator => "generator",
                Fault::Host => "machine",
                Fault::Options => "options",
            };
            writeln!(f, "  {at_fault:<11}  {}", reason.text)?;
        }
        for note in &validity.notes {
            writeln!(f, "  note         {note}")?;
        }
        for warning in &self.line.warnings {
            writeln!(f, "  warning      {warning}")?;
        }
        Ok(())
    }
}

/// Write the distribution and the spectrum in wrk2's format.
fn spectrum(f: &mut fmt::Formatter<'_>, histogram: &Histogram<u64>, name: &str) -> fmt::Result {
    writeln!(f, "  Latency Distribution (HdrHistogram - {name})")?;
    for level in LEVELS {
        let ns = histogram.value_at_percentile(level);
        let value = padded(&time_us(ns as f64 / 1000.0), 10);
        writeln!(f, "{level:>7.3}%{value}")?;
    }
    writeln!(f, "\n  Detailed Percentile spectrum:")?;
    write!(f, "{}", hgrm::text(histogram, 3))?;
    writeln!(f, "{RULE}")
}

fn stats_row(f: &mut fmt::Formatter<'_>, name: &str, of: [String; 3], near: f64) -> fmt::Result {
    let [mean, stdev, most] = of;
    writeln!(
        f,
        "    {name:<10}{}{}{}{:>8.2}%",
        padded(&mean, 8),
        padded(&stdev, 10),
        padded(&most, 9),
        near * 100.0
    )
}

/// Align right so that numbers with different units line up (wrk2's `print_units`): the last two
/// columns are for the unit.
fn padded(text: &str, width: usize) -> String {
    let unit = text.chars().rev().take_while(char::is_ascii_alphabetic);
    let pad = 2 - unit.count().min(2);
    format!("{text:>width$}{:pad$}", "", width = width - pad)
}

/// Return the share of the values within a standard deviation of the mean.
fn within(histogram: &Histogram<u64>, mean: f64, stdev: f64) -> f64 {
    if histogram.is_empty() {
        return 0.0;
    }
    let (low, high) = ((mean - stdev).max(0.0), mean + stdev);
    let near = histogram.count_between(low as u64, high as u64);
    near as f64 / histogram.len() as f64
}

/// Return the good answers per second: for each second, or for each tenth of a second in a short
/// window.
fn rates(samples: &[Sample], start: u64, end: u64) -> Vec<f64> {
    let step = if end - start >= 10_000_000_000 {
        1_000_000_000
    } else {
        100_000_000
    };
    let mut counts = vec![0.0; ((end - start) / step) as usize];
    for sample in samples.iter().filter(|s| s.outcome == Outcome::Ok) {
        let at = sample.completed.saturating_sub(start) / step;
        if let Some(count) = counts.get_mut(at as usize) {
            *count += 1e9 / step as f64;
        }
    }
    counts
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, summary: &Summary) -> fmt::Result {
    write!(f, "{name:>12}")?;
    for value in [
        summary.p50_us,
        summary.p90_us,
        summary.p99_us,
        summary.p999_us,
        summary.max_us,
        summary.mean_us,
    ] {
        match value {
            Some(us) => write!(f, " {us:>10.1}")?,
            None => write!(f, " {:>10}", "-")?,
        }
    }
    writeln!(f)
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
