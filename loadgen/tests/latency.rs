//! The definition of latency: figures compared with theory, for servers with known delays.
//!
//! Bounds are wide, because the machine that runs the tests may stall; they distinguish the
//! definitions, which differ by far more.

use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::support::{HELLO, Responder, assert_accounted, measure, plan, window};
use serde_json::json;
use tuner_loadgen::sys;

/// A server that takes 20 ms for everything has a service time of 20 ms, and the same latency.
#[test]
fn a_constant_delay_is_seen() {
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            std::thread::sleep(Duration::from_millis(20));
            if client.answer(HELLO).is_err() {
                break;
            }
        }
    });
    let line = window(
        server.address,
        json!({"connections": 32, "rate_per_s": 300}),
    );
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered);
    assert!(line.errors.is_empty());
    for summary in [&line.latency.service, &line.latency.corrected] {
        let p50 = summary.p50_us.unwrap();
        assert!((20_000.0..45_000.0).contains(&p50), "{p50}");
    }
}

/// The first byte is not the last: half of a head after 20 ms, the rest 40 ms later.
#[test]
fn the_first_byte_has_a_time_of_its_own() {
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            std::thread::sleep(Duration::from_millis(20));
            let (head, rest) = HELLO.split_at(10);
            let _ = client.answer(head);
            std::thread::sleep(Duration::from_millis(40));
            if client.answer(rest).is_err() {
                break;
            }
        }
    });
    let line = window(
        server.address,
        json!({"connections": 32, "rate_per_s": 100}),
    );
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered);
    assert_eq!(line.latency.first_byte.count, line.offered);
    let first_byte = line.latency.first_byte.p50_us.unwrap();
    let whole = line.latency.corrected.p50_us.unwrap();
    assert!(
        first_byte > 20_000.0 && first_byte + 20_000.0 < whole,
        "{first_byte} {whole}"
    );
    let second = &line.seconds[0];
    assert!((second.first_byte_p50_us.unwrap() / first_byte - 1.0).abs() < 0.2);
}

/// A sleeping loop reads an answer when the next request is due, and uses the kernel's timestamp of
/// its arrival: with 1.9 ms between requests, most answers would otherwise seem to take that long.
#[test]
fn an_answer_that_is_read_late_was_not_late() {
    let server = Responder::good();
    let even = json!({"rate_per_s": 520, "arrival": "constant"});
    let line = window(server.address, even);
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered);
    let p50 = line.latency.service.p50_us.unwrap();
    assert!(p50 < 1500.0, "{p50}");
}

/// The kernel timestamps bytes, however late they are read.
#[test]
fn the_kernel_stamps_what_comes_in() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let socket: std::os::fd::OwnedFd = listener.accept().unwrap().0.into();
    assert!(sys::stamp_receives(&socket));
    // The kernel begins to stamp in a work queue, for the first socket that asks (net/core/dev.c,
    // net_enable_timestamp).
    std::thread::sleep(Duration::from_millis(200));
    peer.write_all(HELLO).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    let mut buffer = [0; 100];
    let (n, age_ns) = sys::receive_stamped(&socket, &mut buffer).unwrap();
    assert_eq!(&buffer[..n], HELLO);
    assert!((29_000_000..10_000_000_000).contains(&age_ns.unwrap()));
}

/// A server that freezes for 0.3 of 1.5 s: requests intended in the freeze waited for its end, so
/// that the share of latencies above x is (0.3 − x) / 1.5. The closed view sees few of them.
#[test]
fn a_freeze_counts_for_every_request_intended_in_it() {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    const BEGIN: Duration = Duration::from_millis(500);
    const END: Duration = Duration::from_millis(800);
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            let age = FIRST.get_or_init(Instant::now).elapsed();
            if (BEGIN..END).contains(&age) {
                std::thread::sleep(END - age);
            }
            if client.answer(HELLO).is_err() {
                break;
            }
        }
    });
    let line = window(
        server.address,
        json!({"connections": 4, "rate_per_s": 1000, "duration_s": 1.5, "seed": 3}),
    );
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered);
    let corrected = &line.latency.corrected;
    let p90 = corrected.p90_us.unwrap();
    let p99 = corrected.p99_us.unwrap();
    assert!(
        (120_000.0..200_000.0).contains(&p90),
        "theory 150000: {p90}"
    );
    assert!(
        (255_000.0..330_000.0).contains(&p99),
        "theory 285000: {p99}"
    );
    let first_byte = line.latency.first_byte.p90_us.unwrap();
    assert!(
        (120_000.0..200_000.0).contains(&first_byte),
        "the wait before the write counts: {first_byte}"
    );
    let service = line.latency.service.p90_us.unwrap();
    assert!(
        service < 60_000.0,
        "only four requests met the freeze: {service}"
    );
    let lag = line.latency.send_lag.p99_us.unwrap();
    assert!(lag > 200_000.0, "the others waited for a connection: {lag}");
}

/// With twice the load that a server can handle, nothing is censored: the achieved rate is the
/// server's, unsent requests count with their age, and the window ends.
#[test]
fn overload_is_not_censored() {
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            std::thread::sleep(Duration::from_millis(10));
            if client.answer(HELLO).is_err() {
                break;
            }
        }
    });
    let line = window(
        server.address,
        json!({"connections": 1, "rate_per_s": 200, "duration_s": 1.0, "timeout_s": 0.2}),
    );
    assert_accounted(&line);
    assert!(line.unsent > 0);
    assert!(line.achieved_per_s < 110.0, "{}", line.achieved_per_s);
    let p99 = line.latency.corrected.p99_us.unwrap();
    assert!(p99 > 450_000.0, "half of the load waits: {p99}");
    let p99 = line.latency.first_byte.p99_us.unwrap();
    assert!(
        p99 > 450_000.0,
        "without any byte it counts with its age: {p99}"
    );
}

/// A closed loop has no intended instants: latency is service time, and the rate follows from the
/// connections.
#[test]
fn closed_loop() {
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            std::thread::sleep(Duration::from_millis(10));
            if client.answer(HELLO).is_err() {
                break;
            }
        }
    });
    let line = window(
        server.address,
        json!({"mode": "closed", "connections": 5, "duration_s": 1.0}),
    );
    assert_accounted(&line);
    assert_eq!(line.rate_per_s, None);
    assert!(line.achieved_per_s > 100.0 && line.achieved_per_s < 510.0);
    assert_eq!(line.latency.send_lag.max_us, Some(0.0));
    assert_eq!(line.latency.corrected.hdr, line.latency.service.hdr);
}

/// The samples hold every request offered in order of intended time, and the same figures as the
/// line.
#[test]
fn samples_are_the_line_in_full() {
    let server = Responder::good();
    let dir = std::env::temp_dir().join(format!("tuner-loadgen-samples-{}", std::process::id()));
    let plan = plan(server.address, json!({}), json!({"samples_dir": dir}));
    let line = measure(&plan).remove(0);
    let bytes = std::fs::read(line.samples.as_ref().unwrap()).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(&bytes[..8], b"TNRS0002");
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let n = number(8) as usize;
    assert_eq!(n as u64, line.offered);
    assert_eq!(bytes.len(), 16 + n * 33);
    let column = |c: usize| (0..n).map(move |i| number(16 + (c * n + i) * 8));
    let intended: Vec<u64> = column(0).collect();
    assert!(intended.is_sorted());
    assert!(intended.iter().all(|ns| *ns < 500_000_000));
    for ((intended, written), completed) in column(0).zip(column(1)).zip(column(3)) {
        assert!(intended <= written && written < completed);
    }
    assert!(
        column(1)
            .zip(column(2))
            .all(|(written, first)| written < first)
    );
    let ok = bytes[16 + n * 32..].iter().filter(|outcome| **outcome == 0);
    assert_eq!(ok.count() as u64, line.completed);
    let slowest = column(0).zip(column(3)).map(|(from, to)| to - from).max();
    let max_us = line.latency.corrected.max_us.unwrap();
    assert!((max_us * 1000.0 / slowest.unwrap() as f64 - 1.0).abs() < 1e-3);
}

/// A folder that cannot be written to causes a warning and no samples file, but no failure.
#[test]
fn unwritable_samples_are_a_warning() {
    let server = Responder::good();
    let changes = json!({"samples_dir": "/proc/no/such/folder"});
    let line = measure(&plan(server.address, json!({}), changes)).remove(0);
    assert_eq!(line.samples, None);
    assert!(line.warnings[0].starts_with("samples not written"));
    assert_eq!(line.completed, line.offered);
}

/// The same seed offers the same requests at the same instants; requests follow their weights.
#[test]
fn the_mix_is_seeded() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let paths = std::sync::Arc::clone(&seen);
    let server = Responder::start(move |mut client, _| {
        while let Some(text) = client.request() {
            let path = text.split(' ').nth(1).unwrap().to_owned();
            paths.lock().unwrap().push(path);
            if client.answer(HELLO).is_err() {
                break;
            }
        }
    });
    let mix = json!({"requests": [{"path": "/a", "weight": 3}, {"path": "/b"}]});
    let one = json!({"connections": 1});
    let mut offered = Vec::new();
    let mut orders = Vec::new();
    for _ in 0..2 {
        offered.push(measure(&plan(server.address, one.clone(), mix.clone()))[0].offered);
        orders.push(std::mem::take(&mut *seen.lock().unwrap()));
    }
    assert_eq!(offered[0], offered[1]);
    assert_eq!(orders[0], orders[1]);
    let share = orders[0].iter().filter(|path| *path == "/a").count() as f64;
    assert!((share / orders[0].len() as f64 - 0.75).abs() < 0.12);
}

/// CPU time, waiting and memory are those of the server's processes that exist, and null if none
/// does.
#[test]
fn resources_of_the_server() {
    let server = Responder::good();
    let with = |pids: &[u32]| {
        let instances = json!([{"id": "a", "address": server.address.to_string(), "pids": pids}]);
        let changes = json!({"instances": instances});
        measure(&plan(server.address, json!({}), changes)).remove(0)
    };
    // The largest id that a process may have on any Linux, and none has.
    const NOBODY: u32 = 4_194_304;
    let line = with(&[std::process::id(), NOBODY]);
    assert!(line.server_cpu_s.unwrap() > 0.0);
    assert!(line.server_wait_s.is_some());
    assert!(line.server_rss_bytes.unwrap() > 100_000);
    let line = with(&[NOBODY]);
    assert_eq!(
        (line.server_cpu_s, line.server_wait_s, line.server_rss_bytes),
        (None, None, None)
    );
}
