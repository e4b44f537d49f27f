//! The self-test: accuracy and highest rate on this host, measured against a responder with known
//! delays.

pub mod accuracy;
pub mod arrivals;
pub mod report;
mod table;
pub mod verdict;

use std::io;

use serde_json::{Value, json};

use crate::engine::Raw;
use crate::plan::Plan;
use crate::record::{NEVER, Outcome, Sample};
use crate::resources;
use crate::responder::{ANSWER_LENGTH, Freezes, Responder};
use crate::schedule::{Mix, Schedule};
use crate::series::quantile_ns;
use crate::session::{Failure, Session, check_cpus};
use crate::sys;
use accuracy::{Accuracy, Known, Stalled};
use arrivals::Arrivals;
use report::{Capacity, Floor, Pacing, Report, StalledCpu};
use verdict::deviation;

/// Longer gaps are stalls, as in tuner.
const GAP_US: u64 = 100;
const GAP_NS: u64 = GAP_US * 1000;
const SECOND: f64 = 1e9;
/// The floor: number of windows, rate, and connections.
const FLOOR_WINDOWS: usize = 6;
const FLOOR_PER_S: f64 = 10_000.0;
const CONNECTIONS: usize = 32;
/// For delays: more connections than concurrent requests.
const MANY: usize = 256;
/// Gaps between requests are checked at a rate whose mean gap is far longer than a write.
const ARRIVALS_PER_S: f64 = 1000.0;
/// One in a hundred seeds fails the checks by chance, even as intended. This seed passes them by
/// far at every length used here, so a failure is due to the writes.
const ARRIVALS_SEED: u64 = 17;
/// Delays: exponential with this mean, in steps of equal probability.
const DELAYS_PER_S: f64 = 5000.0;
const MEAN_DELAY_US: f64 = 2000.0;
const DELAY_STEPS: usize = 1000;
/// Freezes: rate, interval, length, and delay.
const FREEZE_PER_S: f64 = 1000.0;
const FREEZE_EVERY_S: f64 = 1.0;
const FREEZE_FOR_S: f64 = 0.1;
const FREEZE_DELAY_US: usize = 20_000;
/// An open loop holds a rate if this share is answered in time, and written no later than this.
const HELD_SHARE: f64 = 0.99;
const HELD_LAG_US: f64 = 100.0;
/// Rates to try, as shares of the rate of the closed loop.
const LADDER: [f64; 6] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4];
/// Number of parts of the test's time; each window of the floor takes one.
const UNITS: f64 = 18.0;
/// The largest share of a window's requests that stalls may affect.
const MAX_EXCLUDED: f64 = 0.8;

/// Options of the self-test.
#[derive(Clone, Debug)]
pub struct Options {
    /// The generator's CPUs, one thread on each.
    pub cpus: Vec<usize>,
    /// The responder's CPUs.
    pub server_cpus: Vec<usize>,
    /// Approximate duration, in seconds.
    pub for_s: f64,
}

impl Options {
    /// Return whether generator and responder share a CPU.
    pub fn shared(&self) -> bool {
        self.cpus.iter().any(|cpu| self.server_cpus.contains(cpu))
    }
}

/// A callback before each stage, with its name and the remaining seconds.
pub type Progress<'a> = &'a mut dyn FnMut(&str, f64);

/// Run the self-test.
///
/// # Errors
/// The outer error is a message about CPUs that may not be used. The inner one is an interruption,
/// or an error of the system.
pub fn run(options: &Options, progress: Progress) -> Result<Result<Report, Failure>, String> {
    let own = options.cpus.iter().map(|cpu| ("--cpus", cpu));
    let server = options.server_cpus.iter();
    check_cpus(own.chain(server.map(|cpu| ("--server-cpus", cpu))))?;
    Ok(Test::start(options).and_then(|mut test| test.run(progress)))
}

/// A window of the test.
struct Stage<'a> {
    rate_per_s: Option<f64>,
    arrival: &'a str,
    seed: u64,
    connections: usize,
    warmup_s: f64,
    duration_s: f64,
    delays_us: &'a [usize],
    cpus: &'a [usize],
}

/// The measurements of a stage.
struct StageResult {
    raw: Raw,
    /// Stalls of the cores of generator and responder; none if they share one.
    stalled: Stalled,
    /// The requested delay of each sample, in nanoseconds.
    delays: Vec<u64>,
}

impl StageResult {
    /// Return the samples; with `stall_free`, only those that no stall may have affected.
    fn samples(&self, stall_free: bool) -> impl Iterator<Item = &Sample> {
        let samples = self.raw.arms[0].samples.iter();
        samples.filter(move |s| !stall_free || !self.stalled.affects(s.intended))
    }

    fn excluded_share(&self) -> f64 {
        let kept = self.samples(true).count() as f64;
        1.0 - kept / self.raw.arms[0].samples.len().max(1) as f64
    }

    fn failed(&self) -> u64 {
        let good = self.samples(false).filter(|s| s.outcome == Outcome::Ok);
        (self.raw.arms[0].samples.len() - good.count()) as u64
    }
}

struct Test<'a> {
    options: &'a Options,
    responder: Responder,
    preferred: bool,
    stalls: Vec<StalledCpu>,
    watched_ns: u64,
    failed: u64,
    left_s: f64,
}

fn latency(sample: &Sample) -> u64 {
    sample.completed.saturating_sub(sample.intended)
}

fn lag(sample: &Sample) -> Option<u64> {
    (sample.written != NEVER).then(|| sample.written.saturating_sub(sample.intended))
}

fn quantile_us(values: &mut [u64], q: f64) -> Option<f64> {
    quantile_ns(values, q).map(|ns| ns as f64 / 1000.0)
}

impl<'a> Test<'a> {
    fn start(options: &'a Options) -> Result<Self, Failure> {
        // As under tuner: before any thread starts, so that all threads inherit it.
        let preferred = sys::raise_priority();
        let spin = !options.shared();
        let cpus = options.cpus.iter().map(|cpu| ("generator", *cpu));
        let server = options.server_cpus.iter().map(|cpu| ("responder", *cpu));
        Ok(Self {
            options,
            preferred,
            responder: Responder::start(&options.server_cpus, spin, GAP_NS)?,
            stalls: cpus.chain(server).map(StalledCpu::from).collect(),
            watched_ns: 0,
            failed: 0,
            left_s: options.for_s,
        })
    }

    fn run(&mut self, progress: Progress) -> Result<Report, Failure> {
        let began = sys::now_ns();
        let named = self.options.cpus.iter().chain(&self.options.server_cpus);
        let cpus: Vec<usize> = named.copied().collect();
        let steal_before = resources::steal_s(&cpus);
        let mut step = |left_s: f64, name: &str| progress(name, left_s);

        let unit_s = self.options.for_s / UNITS;
        let mut windows = Vec::new();
        for i in 0..FLOOR_WINDOWS {
            step(self.left_s, "floor");
            windows.push(self.open(i as u64, FLOOR_PER_S, "poisson", unit_s)?);
        }
        let (floor, pacing) = floor_and_pacing(&windows);
        let floor_ns = floor.p50_us.map_or(0, |us| (us * 1000.0) as u64);
        drop(windows);

        step(self.left_s, "arrivals");
        let arrivals =
            check_arrivals(&self.open(ARRIVALS_SEED, ARRIVALS_PER_S, "poisson", 2.0 * unit_s)?);

        let mut accuracy = Vec::new();
        step(self.left_s, "known delays");
        accuracy.push(self.delays(2.0 * unit_s, floor_ns)?);
        for arrival in ["constant", "poisson"] {
            step(self.left_s, "freezes");
            accuracy.push(self.freezes(arrival, 3.0 * unit_s, floor_ns)?);
        }
        self.responder.freeze(Freezes::default());

        let mut capacity = Vec::new();
        let mut threads = vec![&self.options.cpus[..1]];
        if self.options.cpus.len() > 1 {
            threads.push(&self.options.cpus);
        }
        for cpus in &threads {
            step(self.left_s, "highest rate");
            capacity.push(self.capacity(cpus, 2.0 * unit_s / threads.len() as f64)?);
        }

        let mut steal_s = resources::steal_s(&cpus);
        for (cpu, after) in &mut steal_s {
            *after -= steal_before.get(cpu).copied().unwrap_or(*after);
        }
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION"),
            shared_core: self.options.shared(),
            preferred: self.preferred,
            cpus: self.options.cpus.clone(),
            server_cpus: self.options.server_cpus.clone(),
            took_s: (sys::now_ns() - began) as f64 / SECOND,
            floor,
            pacing,
            accuracy,
            arrivals,
            capacity,
            stalls: std::mem::take(&mut self.stalls),
            gap_us: GAP_US,
            watched_s: self.watched_ns as f64 / SECOND,
            steal_s,
            failed: self.failed,
            verdict: None,
        };
        report.verdict = Some(report.judge());
        Ok(report)
    }

    /// Measure requests without a delay.
    fn open(
        &mut self,
        seed: u64,
        rate_per_s: f64,
        arrival: &str,
        duration_s: f64,
    ) -> Result<StageResult, Failure> {
        let options = self.options;
        self.measure(&Stage {
            rate_per_s: Some(rate_per_s),
            arrival,
            seed,
            connections: CONNECTIONS,
            warmup_s: 0.05,
            duration_s,
            delays_us: &[0],
            cpus: &options.cpus[..1],
        })
    }

    /// Measure delays of an exponential distribution, with Poisson arrivals.
    fn delays(&mut self, duration_s: f64, floor_ns: u64) -> Result<Accuracy, Failure> {
        let steps = (0..DELAY_STEPS).map(|i| (i as f64 + 0.5) / DELAY_STEPS as f64);
        let delays: Vec<usize> = steps
            .map(|p| (-MEAN_DELAY_US * (1.0 - p).ln()) as usize)
            .collect();
        let options = self.options;
        let result = self.measure(&Stage {
            rate_per_s: Some(DELAYS_PER_S),
            arrival: "poisson",
            seed: 11,
            connections: MANY,
            warmup_s: 0.05,
            duration_s,
            delays_us: &delays,
            cpus: &options.cpus[..1],
        })?;
        Ok(compare(
            "known delays",
            &result,
            Freezes::default(),
            floor_ns,
            0,
        ))
    }

    /// Measure a responder that freezes at regular intervals, for whole periods.
    fn freezes(
        &mut self,
        arrival: &str,
        duration_s: f64,
        floor_ns: u64,
    ) -> Result<Accuracy, Failure> {
        let freezes = Freezes {
            origin: sys::now_ns(),
            every_ns: (FREEZE_EVERY_S * SECOND) as u64,
            for_ns: (FREEZE_FOR_S * SECOND) as u64,
        };
        self.responder.freeze(freezes);
        self.responder.answer_ns();
        let options = self.options;
        let result = self.measure(&Stage {
            rate_per_s: Some(FREEZE_PER_S),
            arrival,
            seed: 13,
            connections: MANY,
            warmup_s: 0.05,
            duration_s: (duration_s / FREEZE_EVERY_S).round().max(2.0) * FREEZE_EVERY_S,
            delays_us: &[FREEZE_DELAY_US],
            cpus: &options.cpus[..1],
        })?;
        let name = format!("freezes, {arrival} arrivals");
        let answer_ns = self.responder.answer_ns();
        Ok(compare(&name, &result, freezes, floor_ns, answer_ns))
    }

    /// Measure the highest rates on these CPUs: of a closed loop, and of an open one that is still
    /// on time.
    fn capacity(&mut self, cpus: &[usize], for_s: f64) -> Result<Capacity, Failure> {
        let closed_s = for_s / 2.0;
        let mut stage = Stage {
            rate_per_s: None,
            arrival: "poisson",
            seed: 17,
            connections: 2 * CONNECTIONS * cpus.len(),
            warmup_s: 0.05,
            duration_s: closed_s,
            delays_us: &[0],
            cpus,
        };
        let closed = self.measure(&stage)?;
        let closed_per_s = closed.raw.arms[0].book.counts.in_time as f64 / closed_s;
        let mut found = Capacity {
            threads: cpus.len(),
            closed_per_s,
            generator_busy_share: closed.raw.busy_share,
            cpu_us_per_request: closed.raw.generator_cpu_ns as f64
                / 1000.0
                / closed.raw.arms[0].book.counts.in_time.max(1) as f64,
            open_per_s: None,
        };
        drop(closed);
        stage.duration_s = closed_s / 4.0;
        for share in LADDER {
            stage.rate_per_s = Some((closed_per_s * share).max(1.0));
            let result = self.measure(&stage)?;
            let mut lags: Vec<u64> = result.samples(true).filter_map(lag).collect();
            let lag_us = quantile_us(&mut lags, 0.99).unwrap_or(f64::INFINITY);
            let offered = result.raw.arms[0].samples.len() as f64;
            if result.raw.arms[0].book.counts.in_time as f64 >= HELD_SHARE * offered
                && lag_us <= HELD_LAG_US
            {
                found.open_per_s = Some(offered / stage.duration_s);
                break;
            }
        }
        Ok(found)
    }

    fn measure(&mut self, stage: &Stage) -> Result<StageResult, Failure> {
        let plan = self.plan(stage);
        let plan = Plan::parse(&plan.to_string()).map_err(io::Error::other)?;
        let mut session = Session::new(&plan).map_err(io::Error::other)?;
        let window = &plan.windows[0];
        self.responder.stalls();
        let (_, raw) = session.measure_whole(window)?;
        let mut spans = self.responder.stalls();
        for (cpu, own) in stage.cpus.iter().zip(&raw.stalls) {
            spans.extend(own.list.iter().map(|(start, end)| (*cpu, *start, *end)));
        }
        let end = raw.end;
        for (_, start, stop) in &mut spans {
            (*start, *stop) = ((*start).max(raw.start), (*stop).min(end));
        }
        spans.retain(|(_, start, stop)| start < stop);
        for stalls in &mut self.stalls {
            stalls.add(&spans);
        }
        self.watched_ns += raw.end - raw.start;
        self.left_s -= stage.warmup_s + stage.duration_s;
        let delays = match stage.rate_per_s {
            None => Vec::new(),
            Some(_) => {
                // The same arguments give the same schedule, which gives the delay of each request.
                let schedule =
                    Schedule::of(window, None, &Mix::new(stage.delays_us.iter().map(|_| 1.0)));
                let measured = schedule.first_measured..schedule.intended_ns.len();
                let delay = |i| stage.delays_us[usize::from(schedule.request(i))] as u64 * 1000;
                measured.map(delay).collect()
            }
        };
        let excluded = spans.into_iter().filter(|_| !self.options.shared());
        let result = StageResult {
            stalled: Stalled::new(excluded.map(|(_, start, end)| (start, end))),
            raw,
            delays,
        };
        self.failed += result.failed();
        Ok(result)
    }

    fn plan(&self, stage: &Stage) -> Value {
        let requests = stage.delays_us.iter().map(|us| {
            json!({"path": format!("/{us}"), "expect": {"status": 200, "length": ANSWER_LENGTH}})
        });
        let spin = if self.options.shared() {
            json!({"last_us": 50})
        } else {
            json!("full")
        };
        json!({
            "version": 1,
            "cpus": stage.cpus,
            "spin": spin,
            "gap_us": GAP_US,
            "requests": requests.collect::<Vec<_>>(),
            "instances": [{"id": "responder", "address": self.responder.address.to_string()}],
            "windows": [{
                "id": "window", "instance": "responder",
                "mode": if stage.rate_per_s.is_some() { "open" } else { "closed" },
                "rate_per_s": stage.rate_per_s, "arrival": stage.arrival, "seed": stage.seed,
                "connections": stage.connections, "warmup_s": stage.warmup_s,
                "duration_s": stage.duration_s, "timeout_s": 2.0,
            }],
        })
    }
}

fn compare(
    name: &str,
    result: &StageResult,
    freezes: Freezes,
    floor_ns: u64,
    answer_ns: u64,
) -> Accuracy {
    let samples = result.raw.arms[0].samples.iter().zip(&result.delays);
    let requests: Vec<Known> = samples
        .map(|(sample, delay)| Known {
            intended: sample.intended,
            delay: *delay,
            latency: latency(sample),
        })
        .collect();
    Accuracy::of(
        name,
        &requests,
        freezes,
        &result.stalled,
        floor_ns,
        answer_ns,
    )
}

/// Return the floor and the pacing error, from windows without delays.
fn floor_and_pacing(windows: &[StageResult]) -> (Floor, Pacing) {
    let (mut p50s, mut p99s, mut raw_p99s) = (Vec::new(), Vec::new(), Vec::new());
    let (mut lags, mut raw_lags) = (Vec::new(), Vec::new());
    for window in windows {
        let mut all: Vec<u64> = window.samples(false).map(latency).collect();
        raw_p99s.extend(quantile_us(&mut all, 0.99));
        raw_lags.extend(window.samples(false).filter_map(lag));
        if window.excluded_share() > MAX_EXCLUDED {
            continue;
        }
        let mut kept: Vec<u64> = window.samples(true).map(latency).collect();
        p50s.extend(quantile_us(&mut kept, 0.5));
        p99s.extend(quantile_us(&mut kept, 0.99));
        lags.extend(window.samples(true).filter_map(lag));
    }
    let excluded: f64 = windows.iter().map(StageResult::excluded_share).sum();
    let samples = windows
        .iter()
        .map(|window| window.raw.arms[0].samples.len());
    let floor = Floor {
        rate_per_s: FLOOR_PER_S,
        windows: windows.len(),
        samples: samples.sum(),
        excluded_share: excluded / windows.len().max(1) as f64,
        p50_us: median(&p50s),
        p99_us: median(&p99s),
        raw_p99_us: median(&raw_p99s),
        p99_deviation_us: (p99s.len() > 1).then(|| deviation(&p99s)),
        p99_by_window_us: p99s,
    };
    let pacing = Pacing {
        p50_us: quantile_us(&mut lags, 0.5),
        p99_us: quantile_us(&mut lags, 0.99),
        max_us: quantile_us(&mut lags, 1.0),
        raw_max_us: quantile_us(&mut raw_lags, 1.0),
    };
    (floor, pacing)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// Check the gaps between requests as they were written; gaps that a stall may have affected are
/// `None`.
fn check_arrivals(result: &StageResult) -> Arrivals {
    let mut written: Vec<u64> = result.samples(false).map(|s| s.written).collect();
    written.retain(|ns| *ns != NEVER);
    written.sort_unstable();
    let gaps = written.windows(2).map(|pair| {
        let affected = result.stalled.affects_span(pair[0], pair[1]);
        (!affected).then(|| pair[1] - pair[0])
    });
    Arrivals::of(&gaps.collect::<Vec<_>>())
}
