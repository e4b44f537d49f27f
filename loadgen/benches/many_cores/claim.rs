//! The claim of a request: alone, by two threads and by sixteen, and the time that a cache line takes
//! from one core to another.
//!
//! The threads do nothing but claim, so they meet at the shared line as often as they can. Sixteen
//! threads on two cores show that a claimer that loses its core holds up nobody; sixteen cores would
//! at most all take the line once before a claim, which the time of a transfer bounds.

use std::hint::{black_box, spin_loop};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use serde_json::{Value, json};
use tuner_loadgen::engine::{Agenda, Ledger};
use tuner_loadgen::plan::Window;
use tuner_loadgen::schedule::Schedule;
use tuner_loadgen::slots::Exchange;
use tuner_loadgen::sys;

const REQUESTS: usize = 1_000_000;
const GAP_NS: u64 = 1_000;
const MANY: usize = 16;
const TRANSFERS: u64 = 1_000_000;
/// Time between the preparations of a paced load and its first request.
const LEAD_NS: u64 = 5_000_000;
/// All requests are due.
const LATE: u64 = u64::MAX - 1;

/// Return the figures of each round, in nanoseconds.
pub fn measure(cpus: &[usize], rounds: usize) -> Value {
    let round = |_| {
        json!({
            "claim_ns": costs(cpus, false),
            "books_ns": costs(cpus, true),
            "transfer_ns": transfer(cpus),
            "paced": [paced(cpus, 1), paced(cpus, 2), paced(cpus, MANY)],
        })
    };
    (0..rounds).map(round).collect()
}

/// Return the CPU time of a request by each number of threads; `apart`: two threads, each with a
/// schedule of its own. With `books`, a request is also written to the record and completed.
fn costs(cpus: &[usize], books: bool) -> Value {
    let by = |threads: usize| {
        let agenda = agenda(REQUESTS);
        let took = together(cpus, threads, |_| claim_all(&agenda, books));
        took.iter().sum::<u64>() as f64 / REQUESTS as f64
    };
    let two = [agenda(REQUESTS / 2), agenda(REQUESTS / 2)];
    let apart = together(cpus, 2, |place| claim_all(&two[place], books));
    json!({
        "alone": by(1),
        "two": by(2),
        "sixteen": by(MANY),
        "apart": apart.iter().sum::<u64>() as f64 / REQUESTS as f64,
    })
}

/// Claim every request that no other thread claims; return the CPU time.
fn claim_all(agenda: &Agenda, books: bool) -> u64 {
    let mut ledger = Ledger::new(agenda, 1, 1);
    ledger.measuring = true;
    let begun = sys::thread_cpu_ns();
    while agenda.due() <= LATE {
        let Some(index) = agenda.claim(agenda.next(LATE), LATE) else {
            continue;
        };
        if books {
            ledger.write(index, begun);
            let exchange = Exchange {
                index,
                first: begun,
                ..Exchange::default()
            };
            ledger.complete(0, &exchange, None, begun);
        }
        black_box(index);
    }
    sys::thread_cpu_ns() - begun
}

/// Claim requests when they are due, one in each microsecond; return how late they were claimed, and
/// how many claims were lost to another thread for each that was won.
fn paced(cpus: &[usize], threads: usize) -> Value {
    let agenda = agenda(REQUESTS / 2);
    let window = window(REQUESTS / 2);
    let origin = sys::now_ns() + LEAD_NS;
    agenda.begin(origin, &window);
    let lost: u64 = together(cpus, threads, |_| claim_in_time(&agenda))
        .iter()
        .sum();
    let samples = agenda.samples(1, LATE).swap_remove(0);
    let mut late: Vec<u64> = samples.iter().map(|s| s.written - s.intended).collect();
    late.sort_unstable();
    json!({
        "threads": threads,
        "late_p50_ns": late[late.len() / 2],
        "late_p99_ns": late[late.len() / 100 * 99],
        "lost": lost as f64 / late.len() as f64,
    })
}

/// Claim requests when they are due; return how many other threads claimed first.
fn claim_in_time(agenda: &Agenda) -> u64 {
    let ledger = Ledger::new(agenda, 1, 1);
    let mut lost = 0;
    while !agenda.exhausted() {
        let now = sys::now_ns();
        while agenda.due() <= now {
            match agenda.claim(agenda.next(now), now) {
                Some(index) => ledger.write(index, now),
                None => lost += 1,
            }
        }
    }
    lost
}

/// Return the time in which a line goes from one core to another, by handing a number to and fro.
fn transfer(cpus: &[usize]) -> f64 {
    let line = AtomicU64::new(0);
    let begun = sys::now_ns();
    together(cpus, 2, |place| {
        for turn in 0..TRANSFERS / 2 {
            while line.load(Relaxed) != 2 * turn + place as u64 {
                spin_loop();
            }
            line.store(2 * turn + place as u64 + 1, Relaxed);
        }
        0
    });
    (sys::now_ns() - begun) as f64 / TRANSFERS as f64
}

/// Run threads, on the CPUs in turn, that begin together.
fn together(cpus: &[usize], threads: usize, work: impl Fn(usize) -> u64 + Sync) -> Vec<u64> {
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        let run = |place: usize| {
            let (barrier, work, cpu) = (&barrier, &work, cpus[place % cpus.len()]);
            scope.spawn(move || {
                sys::pin(&[cpu]).expect("a usable CPU");
                barrier.wait();
                work(place)
            })
        };
        let handles: Vec<_> = (0..threads).map(run).collect();
        let ended = handles.into_iter().map(|handle| handle.join());
        ended.map(|took| took.expect("no panic")).collect()
    })
}

fn agenda(requests: usize) -> Agenda {
    let schedule = Schedule {
        intended_ns: (0..requests as u64).map(|index| index * GAP_NS).collect(),
        request: vec![0; requests],
        pick: vec![0; requests],
        first_measured: 0,
    };
    let window = window(requests);
    let agenda = Agenda::new(&window, schedule, None, None).expect("enough memory");
    agenda.begin(0, &window);
    agenda
}

fn window(requests: usize) -> Window {
    let fields = json!({
        "id": "w", "instance": "a", "mode": "open", "connections": 1,
        "rate_per_s": 1_000_000, "warmup_s": 0.0, "duration_s": requests as f64 / 1e6,
    });
    serde_json::from_value(fields).expect("a valid window")
}
