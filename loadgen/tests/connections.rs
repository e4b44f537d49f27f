//! Connections by number and age, and the threads that share them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{HELLO, Responder, assert_accounted, measure, plan, window};
use serde_json::json;
use tuner_loadgen::sys;

/// A server that keeps count of the requests of each connection.
fn counting() -> (Responder, Arc<Mutex<HashMap<usize, usize>>>) {
    let counts = Arc::new(Mutex::new(HashMap::new()));
    let kept = Arc::clone(&counts);
    let server = Responder::start(move |mut client, number| {
        while client.request().is_some() {
            *kept.lock().unwrap().entry(number).or_default() += 1;
            if client.answer(HELLO).is_err() {
                break;
            }
        }
    });
    (server, counts)
}

/// Each connection is closed and reopened after the given number of requests: all requests are
/// answered, no connection has more, and each new one is a handshake with a duration.
#[test]
fn a_new_connection_every_n_requests() {
    for n in [1, 3] {
        let (server, counts) = counting();
        let line = window(
            server.address,
            json!({"requests_per_connection": n, "rate_per_s": 600}),
        );
        assert_accounted(&line);
        assert_eq!(line.completed, line.offered, "{line:?}");
        assert_eq!((line.retries, line.errors.len()), (0, 0));
        let counts = counts.lock().unwrap();
        assert!(counts.values().all(|count| *count <= n), "{counts:?}");
        let total: usize = counts.values().sum();
        let least = total / n;
        assert!((least..=least + 8).contains(&counts.len()), "{counts:?}");
        let handshakes = &line.handshakes;
        assert_eq!(handshakes.during.count, line.reconnects);
        assert_eq!(
            handshakes.before.count,
            line.connects + line.reopened,
            "{line:?}"
        );
        assert!(handshakes.during.p50_us.unwrap() > 0.0);
        assert!(line.reconnects >= line.offered / n as u64 - 8);
    }
}

/// The same in a closed loop, where nothing but the answers sets the pace.
#[test]
fn a_new_connection_every_n_requests_in_a_closed_loop() {
    let (server, counts) = counting();
    let line = window(
        server.address,
        json!({"mode": "closed", "requests_per_connection": 2, "duration_s": 0.3}),
    );
    assert_accounted(&line);
    assert_eq!((line.completed, line.retries), (line.offered, 0));
    assert!(line.reconnects > 0 && line.errors.is_empty(), "{line:?}");
    assert!(counts.lock().unwrap().values().all(|count| *count <= 2));
}

/// A handshake is timed from the first packet. The queue of a server that does not accept makes no
/// difference to TCP, so a handshake on loopback takes less time than a request that is answered
/// after 20 ms.
#[test]
fn handshakes_are_no_requests() {
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            std::thread::sleep(Duration::from_millis(20));
            if client.answer(HELLO).is_err() {
                break;
            }
        }
    });
    let line = window(server.address, json!({"rate_per_s": 50}));
    assert_eq!(line.handshakes.before.count, 8);
    assert!(line.handshakes.before.p50_us < line.latency.service.p50_us);
    assert_eq!(line.blocked.count, 0, "no connection is shared");
}

fn two_cpus() -> Option<Vec<usize>> {
    let cpus = sys::usable_cpus(0..64);
    // With one CPU there is nothing to show.
    (cpus.len() >= 2).then(|| cpus[..2].to_vec())
}

/// Two threads share one schedule: every request is offered once, at its instant, by one of them,
/// and both have their part of the connections.
#[test]
fn threads_share_one_schedule() {
    let Some(cpus) = two_cpus() else { return };
    let (server, counts) = counting();
    let one = json!({"rate_per_s": 2000, "connections": 7, "seed": 5});
    let alone = window(server.address, one.clone());
    let dir = std::env::temp_dir().join(format!("tuner-loadgen-threads-{}", std::process::id()));
    let changes = json!({"cpus": cpus, "samples_dir": dir});
    let both = std::thread::spawn({
        let plan = plan(server.address, one, changes);
        // The confinement to two CPUs is that thread's.
        move || measure(&plan).remove(0)
    });
    let both = both.join().unwrap();
    assert_accounted(&both);
    assert_eq!((both.threads, alone.threads), (2, 1));
    assert_eq!((both.offered, both.connects), (alone.offered, 7));
    assert_eq!(both.completed, both.offered);
    let bytes = std::fs::read(both.samples.as_ref().unwrap()).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let n = both.offered as usize;
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let intended: Vec<u64> = (0..n).map(|i| number(16 + i * 8)).collect();
    assert!(intended.is_sorted());
    let asked: usize = counts.lock().unwrap().values().sum();
    assert_eq!(counts.lock().unwrap().len(), 14);
    assert!(asked as u64 >= both.offered + alone.offered);
    let spans = &both.stalls;
    let cpus_of_spans = spans.generator_cpus.as_ref().unwrap();
    assert_eq!(cpus_of_spans.len(), spans.generator.len());
}

/// Two threads in a closed loop: nothing is counted twice, and the samples are in order.
#[test]
fn threads_in_a_closed_loop() {
    let Some(cpus) = two_cpus() else { return };
    let (server, _) = counting();
    let closed = json!({"mode": "closed", "connections": 5, "duration_s": 0.3, "warmup_s": 0.1});
    let plan = plan(server.address, closed, json!({"cpus": cpus}));
    let line = std::thread::spawn(move || measure(&plan).remove(0));
    let line = line.join().unwrap();
    assert_accounted(&line);
    assert_eq!((line.threads, line.connects), (2, 5));
    assert_eq!(line.completed, line.offered);
    assert!(line.generator_cpu_s > 0.0 && line.generator_busy_share <= 1.0);
}

/// There are no more threads than connections, and all threads reconnect to a server that restarts.
#[test]
fn threads_reconnect() {
    let Some(cpus) = two_cpus() else { return };
    let (server, counts) = counting();
    let changes = json!({"cpus": cpus});
    let few = plan(server.address, json!({"connections": 1}), changes.clone());
    let line = std::thread::spawn(move || measure(&few).remove(0));
    assert_eq!(line.join().unwrap().threads, 1);

    let asked = || counts.lock().unwrap().values().sum::<usize>();
    let before = asked();
    let plan = plan(server.address, json!({"rate_per_s": 1000}), changes);
    let line = std::thread::spawn(move || measure(&plan).remove(0));
    // The warm-up has some hundred requests: it is over now, and all connections are established.
    while asked() < before + 300 && !line.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    server.hang_up();
    let line = line.join().unwrap();
    assert_accounted(&line);
    assert!(line.reconnects >= 8, "{line:?}");
    assert!(line.completed >= line.offered * 97 / 100, "{line:?}");
}
