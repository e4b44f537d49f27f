//! The validity of a run: what is at fault, from the outcomes of its requests.

use crate::support::{Responder, window};
use serde_json::json;
use tuner_loadgen::output::WindowLine;
use tuner_loadgen::record::{Outcome, Sample};
use tuner_loadgen::validity::{Fault, Validity};

const START: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// The line of a second with a thousand requests that all went well, on one connection.
fn line() -> WindowLine {
    let server = Responder::good();
    let mut line = window(server.address, json!({"duration_s": 0.2, "connections": 1}));
    line.duration_s = 1.0;
    (line.offered, line.completed) = (1000, 1000);
    (line.timeouts, line.unsent, line.in_flight, line.reconnects) = (0, 0, 0, 0);
    line.generator_busy_share = 0.1;
    line.stalls.generator.clear();
    line.stalls.server.clear();
    line
}

/// One request per millisecond, with this send lag and service time in nanoseconds.
fn samples(lag: u64, service: u64) -> Vec<Sample> {
    let sample = |i: u64| {
        let intended = START + i * MS;
        Sample {
            intended,
            written: intended + lag,
            first: intended + lag + service,
            completed: intended + lag + service,
            outcome: Outcome::Ok,
        }
    };
    (0..1000).map(sample).collect()
}

fn at_fault(validity: &Validity) -> Vec<Fault> {
    validity
        .reasons
        .iter()
        .map(|reason| reason.at_fault)
        .collect()
}

/// Sent on time and answered: valid.
#[test]
fn a_good_run_is_valid() {
    let validity = Validity::of(&line(), &samples(1_000, 200_000), START, true);
    assert!(validity.valid, "{:?}", validity.reasons);
    assert_eq!(validity.excluded_share, 0.0);
}

/// Late although the connection was free: the generator's fault. Late because it was busy: not.
#[test]
fn lateness_is_not_waiting() {
    let validity = Validity::of(&line(), &samples(100_000, 200_000), START, true);
    assert_eq!(at_fault(&validity), [Fault::Generator]);
    let mut waiting = samples(1_000, 200_000);
    for pair in waiting.chunks_exact_mut(2) {
        // The first takes 1.5 ms, so that the second waits half a millisecond for its connection.
        pair[0].completed = pair[0].written + 3 * MS / 2;
        pair[1].written = pair[0].completed + 1_000;
        pair[1].completed = pair[1].written + 200_000;
    }
    let validity = Validity::of(&line(), &waiting, START, true);
    assert!(validity.valid, "{:?}", validity.reasons);
}

/// A requested lag is not the generator's fault, but the figures are still not valid.
#[test]
fn a_chosen_lag_is_the_options_fault() {
    let mut line = line();
    line.sent_every_us = Some(1000);
    let validity = Validity::of(&line, &samples(500_000, 200_000), START, false);
    assert_eq!(at_fault(&validity), [Fault::Options]);
    assert!(validity.reasons[0].text.contains("every 1000 µs"));
}

/// A rate that is not achieved is the server's fault, unless the generator was too busy.
#[test]
fn a_missed_rate_is_somebodys_fault() {
    let mut line = line();
    (line.completed, line.unsent) = (900, 100);
    let good = samples(1_000, 200_000);
    assert_eq!(
        at_fault(&Validity::of(&line, &good, START, true)),
        [Fault::Server]
    );
    line.generator_busy_share = 0.97;
    assert_eq!(
        at_fault(&Validity::of(&line, &good, START, true)),
        [Fault::Generator]
    );
}

/// Requests near stalls are left out, only with a core of one's own, and not most of them.
#[test]
fn stalls_are_left_out() {
    let mut line = line();
    line.stalls
        .generator
        .push((100 * MS as i64, 110 * MS as i64));
    let mut slow = samples(1_000, 200_000);
    for sample in &mut slow[100..110] {
        sample.completed += 50 * MS;
    }
    let own = Validity::of(&line, &slow, START, true);
    assert!(own.valid, "{:?}", own.reasons);
    // From 1 ms before to 2 ms after, both ends included.
    assert_eq!(own.excluded_share, 0.014);
    assert!(own.stall_free.max_us.unwrap() < 300.0);
    let shared = Validity::of(&line, &slow, START, false);
    assert!(shared.stall_free.max_us.unwrap() > 50_000.0);
    line.stalls.server.push((1, 0, 900 * MS as i64));
    assert!(at_fault(&Validity::of(&line, &slow, START, true)).contains(&Fault::Host));
}
