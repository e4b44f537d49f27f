//! The commands about the instrument itself: `self-test` and `ticker`, and the responder behind the
//! former.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::support::{assert_accounted, assert_described, measure, plan};
use serde_json::{Value, json};
use tuner_loadgen::responder::{Freezes, Responder};
use tuner_loadgen::{selftest, sys};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tuner-loadgen");
const MS: u64 = 1_000_000;

fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Keep the other tests of this file waiting. A self-test spins, as root above all other priorities:
/// a responder on its core would get a hundredth of it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A test that failed has left nothing behind that another could meet.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn responder() -> Responder {
    // Asleep when it has nothing to do: tests share their cores.
    Responder::start(&sys::usable_cpus(0..1024)[..1], false, MS).unwrap()
}

/// The path is the delay in microseconds, for each request its own.
#[test]
fn the_responder_delays_as_requested() {
    let _alone = alone();
    let server = responder();
    let expect = json!({"status": 200, "length": 5});
    let changes = json!({"requests": [{"path": "/20000", "expect": expect},
        {"path": "/60000", "weight": 1e-6, "expect": expect}]});
    let window = json!({"connections": 64, "rate_per_s": 300});
    let line = measure(&plan(server.address, window, changes)).remove(0);
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
    let p50 = line.latency.service.p50_us.unwrap();
    assert!(p50 >= 20_000.0, "{p50}");
}

/// The responder does not answer during a freeze: with a freeze of 90 of 100 ms, the median waits
/// for nearly half of that, at least in the corrected latency.
#[test]
fn the_responder_freezes_as_set() {
    let _alone = alone();
    let server = responder();
    server.freeze(Freezes {
        origin: sys::now_ns(),
        every_ns: 100 * MS,
        for_ns: 90 * MS,
    });
    let window = json!({"connections": 256, "rate_per_s": 1000, "warmup_s": 0.0});
    let line = measure(&plan(server.address, window, json!({}))).remove(0);
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
    let p50 = line.latency.corrected.p50_us.unwrap();
    // Half of 500 Poisson arrivals; the standard error of their median is 2200 us.
    assert!(p50 >= 28_000.0, "theory 40000: {p50}");
}

/// The responder serves other connections while one is slow, and outlives those that end badly.
#[test]
fn the_responder_outlives_its_clients() {
    let _alone = alone();
    let server = responder();
    for words in [
        "GET /1000000 HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\n\r\n",
        "GET /",
    ] {
        let mut client = std::net::TcpStream::connect(server.address).unwrap();
        client.write_all(words.as_bytes()).unwrap();
    }
    let line = measure(&plan(server.address, json!({}), json!({}))).remove(0);
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
}

/// A short self-test: every figure is present, all requests are answered, and the exit code matches
/// the verdict. The verdict itself depends on the machine that runs the tests.
#[test]
fn the_self_test_ends_with_a_verdict() {
    let _alone = alone();
    let arguments = ["self-test", "--for", "4", "--json"];
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).expect(&words);
    assert!(words.contains("s left"), "progress: {words}");
    assert_eq!(report["failed"], 0);
    assert_eq!(report["floor"]["windows"], 6);
    assert_eq!(report["accuracy"].as_array().unwrap().len(), 3);
    assert!(report["capacity"][0]["closed_per_s"].as_f64().unwrap() > 0.0);
    assert!(report["arrivals"]["gaps"].is_u64());
    let verdict = &report["verdict"];
    let fit = verdict["fit"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!fit)));
    assert_eq!(verdict["reasons"].as_array().unwrap().is_empty(), fit);
    let schema = schema(include_str!("../schema/self-test.schema.json"));
    assert_described(&schema, &schema, &report, "");
}

/// On one core the report has a note, no request is left out, and the test completes.
#[test]
fn a_shared_core_is_reported() {
    let _alone = alone();
    let cpu = sys::usable_cpus(0..1024)[0];
    let options = selftest::Options {
        cpus: vec![cpu],
        server_cpus: vec![cpu],
        for_s: 4.0,
    };
    let report = selftest::run(&options, &mut |_, _| {}).unwrap().unwrap();
    assert!(report.shared_core);
    assert_eq!(report.failed, 0);
    assert_eq!(report.floor.excluded_share, 0.0);
    assert!(report.to_string().contains("share one CPU"));
}

/// The ticker answers each line with the clocks, and ends with its input. Instants on its two clocks
/// differ by the same everywhere.
#[test]
fn the_ticker_reports_both_clocks() {
    let cpu = sys::usable_cpus(0..1024)[0].to_string();
    let mut child = Command::new(PROGRAM)
        .args(["ticker", "--cpus", &cpu, "--gap", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let schema = schema(include_str!("../schema/ticker.schema.json"));
    let mut next = move || -> Option<Value> {
        let line: Value = serde_json::from_str(&lines.next()?.unwrap()).unwrap();
        let kind = line["type"].as_str().unwrap();
        assert_described(&schema, &schema["$defs"][kind], &line, kind);
        Some(line)
    };
    let header = next().unwrap();
    assert_eq!(header["type"], "ticker");
    assert!(header["resolution_us"].as_f64().unwrap() > 0.0);
    let between =
        |line: &Value| line["unix_ns"].as_i64().unwrap() - line["monotonic_ns"].as_i64().unwrap();
    let before = sys::now_ns();
    input.write_all(b"7\n").unwrap();
    let answer = loop {
        let line = next().unwrap();
        if line["answer"] == "7" {
            break line;
        }
        if line["type"] == "stall" {
            // No wake-up is within a microsecond of its instant.
            let (start, end) = (&line["monotonic_ns"][0], &line["monotonic_ns"][1]);
            assert!(start.as_u64() < end.as_u64());
            assert!(line["unix_ns"][0].as_u64() < line["unix_ns"][1].as_u64());
        }
    };
    let reported = answer["monotonic_ns"].as_u64().unwrap();
    assert!(before <= reported && reported <= sys::now_ns());
    // Up to the slewing of the realtime clock.
    assert!((between(&answer) - between(&header)).abs() < 50 * MS as i64);
    assert!(answer["steal_s"][&cpu].is_number());
    drop(input);
    let mut last = json!(null);
    while let Some(line) = next() {
        last = line;
    }
    assert_eq!(
        (&last["type"], &last["reason"]),
        (&json!("end"), &json!("eof"))
    );
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The ticker ends when its time is up.
#[test]
fn the_ticker_has_a_time() {
    let cpu = sys::usable_cpus(0..1024)[0].to_string();
    let mut child = Command::new(PROGRAM)
        .args(["ticker", "--cpus", &cpu, "--for", "0.3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(input);
    let text = String::from_utf8(output.stdout).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["reason"], "done");
}
