//! Requests sent together (`spin.every_us`): their instants and latencies.

use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{Responder, assert_accounted, measure, plan};
use serde_json::{Value, json};
use tuner_loadgen::output::WindowLine;
use tuner_loadgen::sys;

const EVERY_NS: u64 = 20_000_000;

fn together(address: SocketAddr, window: Value, every_us: u64) -> WindowLine {
    let changes = json!({"spin": {"every_us": every_us}});
    measure(&plan(address, window, changes)).remove(0)
}

/// Intended, written and completed of each request, in ns from the start of the measured part.
fn samples(line: &WindowLine) -> Vec<[u64; 3]> {
    let bytes = std::fs::read(line.samples.as_ref().unwrap()).unwrap();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let n = number(8) as usize;
    let of = |i: usize| [0, 1, 2].map(|column| number(16 + (column * n + i) * 8));
    (0..n).map(of).collect()
}

/// No request is written before the multiple that follows its instant, and the wait is in send lag
/// and corrected latency, not in the service time. The warm-up is five multiples long.
#[test]
fn the_wait_is_reported() {
    let server = Responder::good();
    let dir = std::env::temp_dir().join(format!("tuner-loadgen-together-{}", std::process::id()));
    let changes = json!({"spin": {"every_us": EVERY_NS / 1000}, "samples_dir": dir});
    let window = json!({"connections": 32, "rate_per_s": 1000, "arrival": "constant"});
    let line = measure(&plan(server.address, window, changes)).remove(0);
    let samples = samples(&line);
    std::fs::remove_dir_all(&dir).unwrap();
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered);
    assert_eq!(line.sent_every_us, Some(EVERY_NS / 1000));
    for [intended, written, completed] in samples {
        assert!(written >= intended.next_multiple_of(EVERY_NS));
        assert!(completed > written);
    }
    // Spread evenly over the multiples, they wait for half of one.
    let half_us = EVERY_NS as f64 / 2000.0;
    assert!(line.latency.send_lag.mean_us.unwrap() > 0.9 * half_us);
    let (corrected, service) = (&line.latency.corrected, &line.latency.service);
    assert!(corrected.mean_us.unwrap() > service.mean_us.unwrap() + 0.9 * half_us);
}

/// Requests intended at the end of the measured part may be sent after it, and are answered in the
/// drain: the last multiple of 90 ms in half a second is at 0.45.
#[test]
fn the_drain_sends_the_last() {
    let server = Responder::good();
    let window = json!({"connections": 64, "warmup_s": 0});
    let line = together(server.address, window, 90_000);
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered);
    assert!((line.achieved_per_s * line.duration_s) < line.offered as f64);
}

/// More concurrent requests than events of one poll, on several threads: all are answered.
#[test]
fn several_threads_share_the_multiples() {
    let server = Responder::good();
    let window = json!({"connections": 200, "rate_per_s": 4000});
    let cpus = sys::usable_cpus(0..1024);
    let cpus: Vec<usize> = cpus.into_iter().cycle().take(2).collect();
    let changes = json!({"spin": {"every_us": 50_000}, "cpus": cpus});
    let line = measure(&plan(server.address, window, changes)).remove(0);
    assert_accounted(&line);
    assert_eq!((line.threads, line.completed), (2, line.offered));
}

/// A server that never answers: every request is given up in time, and the window ends.
#[test]
fn timeouts_are_kept() {
    let server = Responder::start(|mut client, _| while client.request().is_some() {});
    let window = json!({"connections": 4, "rate_per_s": 100, "timeout_s": 0.1});
    let line = together(server.address, window, 30_000);
    assert_accounted(&line);
    assert!(line.timeouts > 0);
    assert_eq!(line.completed, 0);
}

/// A closed loop has no instants to send at: its answers still decide, and the line shows no
/// interval.
#[test]
fn a_closed_loop_sends_at_once() {
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            std::thread::sleep(Duration::from_millis(1));
            if client.answer(crate::support::HELLO).is_err() {
                break;
            }
        }
    });
    let window = json!({"mode": "closed", "connections": 2});
    let line = together(server.address, window, 100_000);
    assert_accounted(&line);
    assert_eq!(line.sent_every_us, None);
    assert!(line.completed > 20, "ten would be one for each multiple");
}
