//! The time between windows and the memory, by request: the schedule and the record before a window,
//! the samples, their figures and the line after it. All of it is the work of one thread.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tuner_loadgen::engine::{Agenda, Arm, Book, Ledger, Raw};
use tuner_loadgen::output::{self, Context, WindowLine};
use tuner_loadgen::plan::{Instance, Window};
use tuner_loadgen::quic;
use tuner_loadgen::rng::Rng;
use tuner_loadgen::schedule::{Mix, Schedule};
use tuner_loadgen::slots::Exchange;
use tuner_loadgen::stalls::Spans;
use tuner_loadgen::sys;

const PER_S: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// Mean of the latencies.
const LATENCY_NS: f64 = 100_000.0;

/// Return the figures of each round: windows of one second and of two, alone and in slices.
pub fn measure(rounds: usize) -> Value {
    let round = |_| {
        let alone: Vec<Value> = [1, 2].map(|seconds| one(seconds, false)).into();
        json!({"alone": alone, "slices": one(2, true), "peak_bytes": peak_bytes()})
    };
    (0..rounds).map(round).collect()
}

/// Return the times of the work for one window, in nanoseconds by request.
fn one(seconds: u64, slices: bool) -> Value {
    let arms = if slices { 2 } else { 1 };
    let window = window(seconds, slices);
    let before = sys::now_ns();
    let schedule = Schedule::of(&window, None, &Mix::new([1.0]));
    let scheduled = sys::now_ns();
    let agenda = Agenda::new(&window, schedule, None, None).expect("enough memory");
    let begun = sys::now_ns();
    agenda.begin(begun, &window);
    let requests = answer_all(&agenda, begun);
    let over = sys::now_ns();
    let raw = raw(&agenda, arms, begun, seconds);
    let read = sys::now_ns();
    let bytes = lines(&window, &raw);
    let ended = sys::now_ns();
    let each = |from: u64, to: u64| (to - from) as f64 / requests as f64;
    json!({
        "requests": requests,
        "schedule_ns": each(before, scheduled),
        "record_ns": each(scheduled, begun),
        "samples_ns": each(over, read),
        "figures_ns": each(read, ended),
        "line_bytes": bytes,
    })
}

/// Claim and answer every request, some time after it was intended; return their number.
fn answer_all(agenda: &Agenda, origin: u64) -> u64 {
    let mut ledger = Ledger::new(agenda, 2, 1);
    let mut rng = Rng::new(1);
    let mut count = 0;
    while !agenda.exhausted() {
        let due = agenda.due().max(origin);
        let next = agenda.next(due);
        let Some(index) = agenda.claim(next, due) else {
            continue;
        };
        let end = due + (LATENCY_NS * rng.exponential()) as u64;
        ledger.write(index, due);
        let exchange = Exchange {
            index,
            first: end,
            ..Exchange::default()
        };
        ledger.complete(next.arm, &exchange, None, end);
        count += 1;
    }
    count
}

fn raw(agenda: &Agenda, arms: usize, start: u64, seconds: u64) -> Raw {
    let end = start + seconds * SECOND;
    let arm = |samples| Arm {
        samples,
        book: Book::new(1),
        server_cpu_s: None,
        turn_cpu_s: None,
        frozen_s: 0.0,
        behind: None,
    };
    Raw {
        arms: agenda.samples(arms, end).into_iter().map(arm).collect(),
        borders: agenda.borders(),
        start,
        end,
        unfrozen: None,
        interrupted: false,
        started_unix_ns: 0,
        stalls: vec![Spans {
            list: Vec::new(),
            lost: 0,
        }],
        generator_cpu_ns: 0,
        busy_share: 0.0,
        path: quic::Path::default(),
    }
}

/// Compute the figures of each instance and write its line; return the bytes of all lines.
fn lines(window: &Window, raw: &Raw) -> usize {
    let instance: Instance =
        serde_json::from_value(json!({"id": "a", "address": "127.0.0.1:1"})).expect("valid");
    let cycles = output::cycles(window, raw, &[], false);
    let context = || Context {
        sent_every_us: None,
        gap_us: 100,
        realtime: false,
        server: Vec::new(),
        steal_s: BTreeMap::new(),
        server_wait_s: None,
        server_rss_bytes: None,
        samples_dir: None,
        frozen: false,
        not_frozen: None,
        warnings: Vec::new(),
    };
    let line = |place| {
        let line = WindowLine::new(
            window,
            &instance,
            &[0],
            raw,
            place,
            cycles.as_ref(),
            context(),
        );
        serde_json::to_vec(&line).expect("a line").len()
    };
    (0..raw.arms.len()).map(line).sum()
}

fn window(seconds: u64, slices: bool) -> Window {
    let mut fields = json!({
        "id": "w", "instance": "a", "mode": "open", "connections": 1,
        "rate_per_s": PER_S, "warmup_s": 0.0, "duration_s": seconds,
    });
    if slices {
        let fields = fields.as_object_mut().expect("an object");
        fields.remove("instance");
        let slices = json!({"instances": ["a", "b"], "length_ms": 20, "same_arrivals": true});
        fields.insert("slices".into(), slices);
    }
    serde_json::from_value(fields).expect("a valid window")
}

/// Return the largest resident memory of this process so far.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|text| text.split_whitespace().next());
    1024 * number.map_or(0, |text| text.parse().expect("a number"))
}
