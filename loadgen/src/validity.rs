//! Validity of a window's figures, and who is at fault if they are not valid.
//!
//! Lines of a plan leave this to their reader, who may know of stalls on other hosts. `run` has no
//! such reader, so it applies the rules of tuner itself (docs/instrument.md).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

use crate::histogram::{self, Summary};
use crate::output::WindowLine;
use crate::plan::Mode;
use crate::record::{NEVER, Outcome, Sample};

/// The largest share of the time that the generator may be busy; above it, requests are sent late.
const STARVED_SHARE: f64 = 0.9;
/// The largest share of requests that are not answered within the window.
const RATE_ERROR: f64 = 0.01;
/// The largest p99 of the generator's own delay, as a share of the p99 of the latency.
const SEND_LAG_SHARE: f64 = 0.10;
/// The largest share of the requests that may be left out because of stalls.
const EXCLUDED_SHARE: f64 = 0.8;
/// The fewest values with a two-sided 95 % bound of their p99 by order statistics.
const MIN_SAMPLES: u64 = 368;
/// With this many values, the 95 % interval of a p99 lies between the ranks of 98.8 % and 99.2 %
/// (order statistics).
const PRECISE_SAMPLES: u64 = 10_000;
/// Requests intended this long before a stall may still be open when it begins.
const BEFORE_NS: i64 = 1_000_000;
/// Requests intended this long after a stall may meet its backlog.
const AFTER_NS: i64 = 2_000_000;

/// The validity of one window.
#[derive(Debug, Serialize)]
pub struct Validity {
    /// True if there are no reasons.
    pub valid: bool,
    /// The reasons why the figures should not be trusted or compared.
    pub reasons: Vec<Reason>,
    /// Further remarks.
    pub notes: Vec<String>,
    /// True if `stall_free` excludes requests near stalls: only if the generator has a core of its
    /// own, because otherwise delays of the server look like stalls.
    pub stalls_excluded: bool,
    /// Share of the excluded requests.
    pub excluded_share: f64,
    /// Corrected latency without the excluded requests.
    pub stall_free: Summary,
    /// The generator's own delay: stall-free send lag of requests with a free connection.
    pub own_lag: Summary,
}

/// One reason.
#[derive(Debug, Serialize)]
pub struct Reason {
    /// The part to fix.
    pub at_fault: Fault,
    /// The event, and how to fix it.
    pub text: String,
}

/// The part at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The server, or the network in between.
    Server,
    /// This program.
    Generator,
    /// The machine: other processes use its cores.
    Host,
    /// The options: too short, too few.
    Options,
}

impl Validity {
    /// Judge a window from its samples, in order of their intended instants, and its line.
    ///
    /// `start` is the start of the measured part on the clock of the samples. `own_core`: the
    /// generator spins on a core that no other process should use.
    pub fn of(line: &WindowLine, samples: &[Sample], start: u64, own_core: bool) -> Self {
        let spans = if own_core {
            disturbed(line)
        } else {
            Vec::new()
        };
        let undisturbed = Undisturbed::new(&spans, start);
        let mut stall_free = histogram::new();
        let mut own_lag = histogram::new();
        let mut excluded = 0u64;
        let mut late = 0u64;
        let duration_ns = (line.duration_s * 1e9) as u64;
        let early = start + duration_ns - duration_ns / 100;
        let mut still_free = undisturbed.clone();
        for sample in samples {
            if !still_free.has(sample.intended) {
                excluded += 1;
                continue;
            }
            if sample.outcome == Outcome::Error {
                continue;
            }
            stall_free.saturating_record(sample.completed.saturating_sub(sample.intended));
            let in_drain = sample.completed > start + duration_ns && sample.intended < early;
            late += u64::from(sample.outcome == Outcome::Ok && in_drain);
        }
        let mut still_free = undisturbed;
        let slots = line.connections * line.streams as usize;
        each_own_lag(samples, slots, |sample, lag| {
            if still_free.has(sample.intended) {
                own_lag.saturating_record(lag);
            }
        });
        let mut validity = Self {
            valid: true,
            reasons: Vec::new(),
            notes: Vec::new(),
            stalls_excluded: own_core,
            excluded_share: excluded as f64 / samples.len().max(1) as f64,
            stall_free: Summary::of(&stall_free),
            own_lag: Summary::of(&own_lag),
        };
        validity.judge(line, late);
        validity.note(line);
        validity.valid = validity.reasons.is_empty();
        validity
    }

    fn judge(&mut self, line: &WindowLine, late: u64) {
        let starved = line.mode == Mode::Open && line.generator_busy_share > STARVED_SHARE;
        let busy = line.generator_busy_share * 100.0;
        let answered = line.completed + line.timeouts + line.unsent + line.in_flight;
        let failed = line.offered.saturating_sub(answered);
        if failed > 0 {
            let text = format!("{failed} of {} requests failed", line.offered);
            self.add(Fault::Server, text);
        }
        if line.offered == 0 {
            self.add(Fault::Options, "no request was sent".into());
            return;
        }
        if line.completed == 0 && line.errors.keys().any(|kind| kind.starts_with("connect_")) {
            let kinds: Vec<&str> = line.errors.keys().map(String::as_str).collect();
            let text = format!("no connection succeeded: {}", kinds.join(", "));
            self.add(Fault::Server, text);
        }
        if line.mode == Mode::Open {
            let late = late + line.timeouts + line.unsent + line.in_flight;
            if late as f64 > RATE_ERROR * line.offered as f64 {
                let text = format!(
                    "the rate was not achieved: {late} of {} requests were not answered within \
                     the window",
                    line.offered
                );
                if starved {
                    let text = format!("{text}; the generator was {busy:.0} % busy");
                    self.add(Fault::Generator, text);
                } else {
                    self.add(Fault::Server, text);
                }
            }
            self.judge_lag(line, starved);
        }
        if self.stall_free.count < MIN_SAMPLES {
            let text = format!(
                "{} values are too few for a p99 (95 % bounds need {MIN_SAMPLES}); use a longer -d",
                self.stall_free.count
            );
            self.add(Fault::Options, text);
        }
        if self.excluded_share > EXCLUDED_SHARE {
            let text = format!(
                "stalls of the machine affected {:.0} % of the requests",
                self.excluded_share * 100.0
            );
            self.add(Fault::Host, text);
        }
    }

    fn judge_lag(&mut self, line: &WindowLine, starved: bool) {
        let (Some(lag), Some(p99)) = (self.own_lag.p99_us, self.stall_free.p99_us) else {
            return;
        };
        // A request that waits for a connection to be reopened waits because of the server.
        let reconnecting = line.reconnects * 100 > line.offered;
        if lag <= SEND_LAG_SHARE * p99 || (reconnecting && !starved) {
            return;
        }
        if let (Some(us), false) = (line.sent_every_us, starved) {
            let text = format!(
                "requests waited to be sent together, every {us} µs: the send lag has a p99 of \
                 {lag:.0} µs, {:.0} % of the latency's; use --spin off or full to send each at its instant",
                lag / p99 * 100.0
            );
            return self.add(Fault::Options, text);
        }
        let way_out = if starved {
            "it could not keep up; lower -R, or give it more cores (-t)"
        } else if self.stalls_excluded {
            "another process runs on its core"
        } else {
            "it was woken late; --cpu N gives it a core to spin on"
        };
        let text = format!(
            "the generator's own delay has a p99 of {lag:.0} µs, {:.0} % of the latency's: {way_out}",
            lag / p99 * 100.0
        );
        self.add(Fault::Generator, text);
    }

    fn note(&mut self, line: &WindowLine) {
        if line.completed > 0 && (MIN_SAMPLES..PRECISE_SAMPLES).contains(&self.stall_free.count) {
            let above = self.stall_free.count / 100;
            let text = format!("the p99 depends on the {above} slowest requests");
            self.notes.push(text);
        }
        if !self.stalls_excluded {
            let text = "requests near stalls were not left out, because the generator has no core \
                        of its own (--cpu)";
            self.notes.push(text.into());
        } else if !line.stalls.realtime {
            let text = "the server's cores were not watched for stalls; that needs --ticker-cpu and \
                        real-time priority";
            self.notes.push(text.into());
        }
    }

    fn add(&mut self, at_fault: Fault, text: String) {
        self.reasons.push(Reason { at_fault, text });
    }
}

/// Return the spans affected by stalls, in ns from the start of the measured part: disjoint, in
/// order.
fn disturbed(line: &WindowLine) -> Vec<(i64, i64)> {
    let server = line.stalls.server.iter();
    let mut spans: Vec<(i64, i64)> = server
        .map(|(_, start, end)| (*start, *end))
        .chain(line.stalls.generator.iter().copied())
        .map(|(start, end)| (start - BEFORE_NS, end + AFTER_NS))
        .collect();
    spans.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::with_capacity(spans.len());
    for (start, end) in spans {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// A cursor along the spans, for instants in order.
#[derive(Clone)]
struct Undisturbed<'a> {
    spans: &'a [(i64, i64)],
    start: u64,
}

impl<'a> Undisturbed<'a> {
    fn new(spans: &'a [(i64, i64)], start: u64) -> Self {
        Self { spans, start }
    }

    fn has(&mut self, instant: u64) -> bool {
        let at = instant.wrapping_sub(self.start) as i64;
        while let [(_, end), rest @ ..] = self.spans
            && *end < at
        {
            self.spans = rest;
        }
        self.spans.first().is_none_or(|(start, _)| at < *start)
    }
}

/// Call `each` with the send lag of each request for which a connection was free when it was due.
///
/// If all connections were busy, the request waited for the server and not for the generator.
fn each_own_lag(samples: &[Sample], slots: usize, mut each: impl FnMut(&Sample, u64)) {
    let mut open = BinaryHeap::with_capacity(slots + 1);
    for sample in samples {
        while let Some(&Reverse(completed)) = open.peek()
            && completed <= sample.intended
        {
            open.pop();
        }
        let free = open.len() < slots;
        if sample.written == NEVER {
            continue;
        }
        if free && sample.outcome == Outcome::Ok {
            each(sample, sample.written.saturating_sub(sample.intended));
        }
        open.push(Reverse(sample.completed));
        if open.len() > slots {
            // One of them was completed before this one.
            open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(intended: u64, written: u64, completed: u64) -> Sample {
        Sample {
            intended,
            written,
            first: completed,
            completed,
            outcome: Outcome::Ok,
        }
    }

    /// Waiting for a busy connection counts as the server's delay, being late for a free one as the
    /// generator's.
    #[test]
    fn own_lag_is_not_waiting() {
        let samples = [
            sample(100, 110, 1000),
            sample(200, 1000, 1500),
            sample(1600, 1650, 1700),
        ];
        let lags = |slots| {
            let mut lags = Vec::new();
            each_own_lag(&samples, slots, |_, lag| lags.push(lag));
            lags
        };
        assert_eq!(lags(1), [10, 50]);
        assert_eq!(lags(2), [10, 800, 50]);
    }

    /// Requests from before a span to after it are excluded, the others are not.
    #[test]
    fn spans_are_walked_in_order() {
        let spans = [(-50, 10), (100, 200)];
        let mut walk = Undisturbed::new(&spans, 1000);
        let found: Vec<bool> = [1000, 1010, 1011, 1099, 1100, 1200, 1201]
            .map(|at| walk.has(at))
            .into();
        assert_eq!(found, [false, false, true, true, false, false, true]);
    }
}
