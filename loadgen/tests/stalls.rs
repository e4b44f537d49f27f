//! Stalls: noticed without looking at any latency.

use std::time::Duration;

use crate::support::{Responder, measure, plan};
use serde_json::json;
use tuner_loadgen::stalls::{Ticker, Watch};
use tuner_loadgen::{plan as plans, sys};

const MS: u64 = 1_000_000;

/// A loop that was kept from its clock for 5 ms has a span of at least 5 ms.
#[test]
fn a_gap_is_a_span() {
    let mut watch = Watch::new(MS);
    let before = watch.tick();
    std::thread::sleep(Duration::from_millis(5));
    let after = watch.tick();
    assert_eq!(watch.spans.list.last(), Some(&(before, after)));
    assert!(after - before >= 5 * MS);
}

/// A sleep that ended on time is not a stall, however long it was; one that ended late is, from the
/// instant at which it was due.
#[test]
fn only_the_late_part_of_a_sleep_is_a_stall() {
    let mut watch = Watch::new(10_000 * MS);
    watch.tick();
    watch.woke(sys::now_ns() + 1_000 * MS);
    assert!(watch.spans.list.is_empty(), "woken early by an event");

    let mut watch = Watch::new(MS);
    let due = watch.tick() + MS;
    std::thread::sleep(Duration::from_millis(8));
    let woke = watch.woke(due);
    assert_eq!(watch.spans.list.last(), Some(&(due, woke)));
}

/// With real-time priority the ticker reports it and ticks; without it, there are no spans at all.
#[test]
fn the_ticker_is_real_time_or_silent() {
    let config = plans::Ticker {
        cpus: vec![0],
        period_us: 500,
        priority: 50,
    };
    let ticker = Ticker::start(&config, 1);
    std::thread::sleep(Duration::from_millis(50));
    let realtime = ticker.realtime;
    let seen = ticker.finish();
    if realtime {
        // No wake-up is within a nanosecond of its due time.
        assert!(!seen[0].1.list.is_empty());
        assert!(seen[0].1.list.iter().all(|(due, woke)| woke > due));
    } else {
        assert!(seen.is_empty());
    }
}

/// A CPU that does not exist has no ticker.
#[test]
fn no_ticker_without_its_cpu() {
    let config = plans::Ticker {
        cpus: vec![1000],
        period_us: 500,
        priority: 50,
    };
    let ticker = Ticker::start(&config, 1);
    assert!(!ticker.realtime);
    assert!(ticker.finish().is_empty());
}

/// Spans of a window are in nanoseconds from the start of its measured part, have their start
/// before their end, and lie within the window, its warm-up and its drain.
#[test]
fn spans_are_relative_to_the_measured_part() {
    let server = Responder::good();
    let changes = json!({"gap_us": 1, "spin": "full"});
    let line = measure(&plan(server.address, json!({"rate_per_s": 2000}), changes)).remove(0);
    let spans = &line.stalls.generator;
    assert!(
        !spans.is_empty(),
        "a system call takes more than a microsecond"
    );
    for (start, end) in spans {
        assert!(start < end && *start > -5_000 * MS as i64 && *end < 5_000 * MS as i64);
    }
}
