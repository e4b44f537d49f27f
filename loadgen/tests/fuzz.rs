//! The readers of external input, with inputs that are nearly valid, and with all that once failed.
//!
//! Each input is made of a number alone, so that a failure is repeated by its number:
//! `FUZZ_FIRST=n FUZZ_INPUTS=1`. `make fuzz` runs millions of them with overflow checks on; `fuzz/`
//! chooses inputs by coverage.

#[path = "fuzz/checks.rs"]
mod checks;

use std::path::Path;

use serde_json::{Value, json};
use tuner_loadgen::http1::MAX_HEAD;
use tuner_loadgen::rng::Rng;

use checks::{accepts, parse};

/// Inputs that `cargo test` spends on each.
const SHORT: u64 = 5_000;

/// Print the input when a check panics.
struct Naming(&'static str, u64);

impl Drop for Naming {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(target, number) = self;
            eprintln!("{target}: repeat with FUZZ_FIRST={number} FUZZ_INPUTS=1");
        }
    }
}

fn fuzz(target: &'static str, mut check: impl FnMut(&mut Rng)) {
    let from_environment = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = from_environment("FUZZ_FIRST").unwrap_or(1);
    let inputs = from_environment("FUZZ_INPUTS").unwrap_or(SHORT);
    for number in first..first + inputs {
        let naming = Naming(target, number);
        check(&mut Rng::new(number));
        drop(naming);
    }
    println!("{target}: {inputs} inputs from {first} on");
}

fn below(rng: &mut Rng, n: usize) -> usize {
    ((u128::from(rng.bits()) * n as u128) >> 64) as usize
}

fn one<'a, T: ?Sized>(rng: &mut Rng, of: &[&'a T]) -> &'a T {
    of[below(rng, of.len())]
}

/// Bytes that mean something to one of the two.
const TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b":",
    b";",
    b",",
    b"0",
    b"-1",
    b"18446744073709551615",
    b"18446744073709551616",
    b"ffffffffffffffff",
    b"10000000000000000",
    b"HTTP/1.1 ",
    b"\xff\xfe",
    b"\"",
    b"}",
    b"[",
    b"1e308",
    b"\\u0000",
];

/// Change a few bytes: flip, drop, double, insert, cut off.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, times: usize) {
    for _ in 0..times {
        let at = below(rng, bytes.len() + 1);
        match below(rng, 6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << below(rng, 8),
            1 if at < bytes.len() => {
                let end = (at + 1 + below(rng, 20)).min(bytes.len());
                bytes.drain(at..end);
            }
            2 => {
                let end = (at + below(rng, 40)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = below(rng, bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            3 if at < bytes.len() => bytes[at] = rng.bits() as u8,
            4 if below(rng, 8) == 0 => bytes.truncate(at),
            _ => {
                let token = one(rng, TOKENS);
                bytes.splice(at..at, token.iter().copied());
            }
        }
    }
}

// ---------------------------------------------------------------- HTTP/1.1

fn response(rng: &mut Rng) -> Vec<u8> {
    let mut stream = Vec::new();
    if below(rng, 8) == 0 {
        stream.extend(b"HTTP/1.1 100 Continue\r\n\r\n");
    }
    let lines: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\n",
        b"HTTP/1.0 200\r\n",
        b"HTTP/1.1 204 No Content\r\n",
        b"HTTP/1.1 304 Not Modified\r\n",
        b"HTTP/1.1 503 Busy\r\n",
    ];
    stream.extend(one(rng, lines));
    let length = below(rng, 40);
    let mut chunked = false;
    for _ in 0..below(rng, 4) {
        match below(rng, 7) {
            0 => stream.extend(b"Server: x\r\n"),
            1 => stream.extend(b"Connection: close\r\n"),
            2 => stream.extend(b"Connection: keep-alive , close\r\n"),
            3 => stream.extend(format!("X: {}\r\n", "x".repeat(below(rng, 60))).bytes()),
            4 | 5 => stream.extend(format!("Content-Length: {length}\r\n").bytes()),
            _ => {
                chunked = true;
                stream.extend(b"transfer-encoding: chunked\r\n");
            }
        }
    }
    if below(rng, 2000) == 0 {
        let long = MAX_HEAD - 100 + below(rng, 200);
        stream.extend(format!("Y: {}\r\n", "y".repeat(long)).bytes());
    }
    stream.extend(b"\r\n");
    if !chunked {
        stream.extend(std::iter::repeat_n(b'z', length));
        return stream;
    }
    for _ in 0..below(rng, 5) {
        let n = 1 + below(rng, 30);
        let extension = one(rng, &["", "", ";a", ";a=\"b\"", " "]);
        stream.extend(format!("{n:x}{extension}\r\n{}\r\n", "c".repeat(n)).bytes());
    }
    stream.extend(b"0\r\n");
    if below(rng, 4) == 0 {
        stream.extend(b"X-Sum: 1\r\n");
    }
    stream.extend(b"\r\n");
    stream
}

/// No response makes the parser panic, and the result does not depend on how the response is cut.
#[test]
fn http1_parser() {
    let (mut whole_ones, mut faulty) = (0u64, 0u64);
    fuzz("http1", |rng| {
        let mut stream = response(rng);
        let times = below(rng, 5);
        mutate(rng, &mut stream, times);
        let head = below(rng, 16) == 0;
        let whole = parse(&stream, head, || usize::MAX / 2);
        let longest = 1 + below(rng, 64);
        let in_pieces = parse(&stream, head, || 1 + below(rng, longest));
        assert_eq!(in_pieces, whole, "{:?}", String::from_utf8_lossy(&stream));
        whole_ones += u64::from(matches!(whole.result, Ok(Some(_))));
        faulty += u64::from(whole.result.is_err());
    });
    // Inputs that are all refused, or none, would show nothing.
    println!("http1: {whole_ones} whole responses, {faulty} refused");
}

// ---------------------------------------------------------------- plan

fn full_plan() -> Value {
    json!({
        "version": 1, "cpus": [0], "spin": {"last_us": 200}, "gap_us": 100, "samples_dir": null,
        "ticker": {"cpus": [1], "period_us": 500, "priority": 50},
        "requests": [
            {"weight": 1, "method": "GET", "path": "/", "headers": [["Accept", "*/*"]],
                "body_base64": "aGVsbG8=",
                "expect": {"status": 200, "length": 5, "sha256": null, "check": "all"}},
            {"urls_file": "urls.txt", "body_file": null},
        ],
        "instances": [{"id": "a", "address": "127.0.0.1:80", "host": "localhost", "pids": [1],
            "protocol": "http1"}],
        "windows": [
            {"id": "w", "instance": "a", "mode": "open", "rate_per_s": 10, "arrival": "constant",
                "seed": 7, "connections": 1, "streams": 1, "requests_per_connection": null,
                "warmup_s": 0.1, "duration_s": 1.0, "timeout_s": 2.0},
            {"id": "v", "instance": "a", "mode": "open", "connections": 1, "duration_s": 2.0,
                "rates": [{"for_s": 1, "rate_per_s": 5}, {"for_s": 1, "rate_per_s": 5,
                    "to_rate_per_s": 9}]},
            {"id": "u", "instance": "a", "mode": "closed", "connections": 3, "duration_s": 1.0},
        ],
    })
}

fn value(rng: &mut Rng) -> Value {
    let texts = [
        "",
        "a",
        "w",
        "GET",
        "/",
        "/x y",
        "open",
        "closed",
        "full",
        "off",
        "s",
        "ns",
        "[::1]:443",
        "a\r\nb: c",
        "../w",
        "aGVsbG8=",
        "é",
        "http2",
        "sample",
    ];
    match below(rng, 9) {
        0 => Value::Null,
        1 => json!(below(rng, 2) == 0),
        2 => json!(below(rng, 200)),
        3 => json!(-(below(rng, 200) as i64)),
        4 => json!(rng.bits()),
        5 => json!(f64::from_bits(rng.bits())),
        6 => json!([]),
        7 => json!({}),
        _ => json!(one(rng, &texts)),
    }
}

/// Change one thing somewhere in a value.
fn change(rng: &mut Rng, at: &mut Value) {
    match at {
        Value::Object(fields) if !fields.is_empty() => {
            let n = below(rng, fields.len());
            let name = fields.keys().nth(n).cloned().unwrap_or_default();
            match below(rng, 12) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert("extra".into(), value(rng))),
                2 => drop(fields.insert(name, value(rng))),
                _ => fields
                    .get_mut(&name)
                    .into_iter()
                    .for_each(|inner| change(rng, inner)),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let n = below(rng, items.len());
            match below(rng, 12) {
                0 => drop(items.remove(n)),
                1 => items.push(items[n].clone()),
                2 => items[n] = value(rng),
                _ => change(rng, &mut items[n]),
            }
        }
        _ => *at = value(rng),
    }
}

/// No text makes the parser panic; an error is one line; an accepted plan is sound.
#[test]
fn plan_reader() {
    let base = full_plan();
    let mut accepted = 0u64;
    fuzz("plan", |rng| {
        let mut plan = base.clone();
        for _ in 0..below(rng, 4) {
            change(rng, &mut plan);
        }
        let mut text = plan.to_string().into_bytes();
        if below(rng, 3) == 0 {
            let times = 1 + below(rng, 3);
            mutate(rng, &mut text, times);
        }
        accepted += u64::from(accepts(&text));
    });
    println!("plan: {accepted} accepted");
}

// ---------------------------------------------------------------- every reader

/// The seeds of the coverage-guided fuzzer, changed in a few bytes, break no reader.
#[test]
fn changed_seeds() {
    for (name, check) in checks::ALL {
        let seeds = files(&format!("fuzz/seeds/{name}"));
        assert!(!seeds.is_empty(), "{name} has no seeds");
        fuzz(name, |rng| {
            let mut input = seeds[below(rng, seeds.len())].clone();
            let times = below(rng, 6);
            mutate(rng, &mut input, times);
            check(&input);
        });
    }
}

/// Inputs on which a check once failed pass it.
#[test]
fn inputs_that_once_failed() {
    for (name, check) in checks::ALL {
        for input in files(&format!("tests/fuzz/failed/{name}")) {
            check(&input);
        }
    }
}

/// Return the contents of a folder's files, in the order of their names; none if it is missing.
fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}
