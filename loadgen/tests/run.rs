//! `run`, as engineers use it by hand: wrk2's options in, wrk2's text and a judgement out.

#![allow(unsafe_code)]

use std::process::Command;

use crate::support::{Responder, output_of};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tuner-loadgen");

/// The options of wrk2 are accepted, and scripts that parse its text find their lines.
#[test]
fn run_reads_and_writes_as_wrk2() {
    let server = Responder::good();
    let url = format!("http://{}/", server.address);
    let joined = [
        "run", "-t1", "-c4", "-d300ms", "-R0.5k", "-T2s", "-w0", "-U",
    ];
    let header = ["-H", "X-One: 1", &url];
    let (text, errors, code) = output_of(&[&joined[..], &header].concat());
    assert_eq!((errors.as_str(), code), ("", Some(0)), "{text}");
    for line in [
        "Running 0.30s test @ http://127.0.0.1",
        "  1 threads and 4 connections",
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev",
        "    Latency ",
        "    Req/Sec ",
        "  Latency Distribution (HdrHistogram - Recorded Latency)",
        " 50.000%",
        " 99.999%",
        "100.000%",
        "  Detailed Percentile spectrum:",
        "       Value   Percentile   TotalCount 1/(1-Percentile)",
        "#[Mean    = ",
        "#[Max     = ",
        "#[Buckets = ",
        "Uncorrected Latency (measured without taking delayed starts into account)",
        " requests in 300.00ms, ",
        "Requests/sec:",
        "Transfer/sec:",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
    let (_, refused, code) = output_of(&["run", &url, "-s", "report.lua"]);
    assert!(refused.contains("no Lua") && code == Some(2), "{refused}");
}

/// `run` judges its own figures, and with --strict its exit code depends on the result.
#[test]
fn run_judges_itself() {
    let server = Responder::good();
    let url = format!("http://{}/", server.address);
    let short = ["run", &url, "-c4", "-d0.2", "-w0", "-R200", "--json"];
    let (text, _, code) = output_of(&[&short[..], &["--strict"]].concat());
    let validity = &serde_json::from_str::<Value>(&text).unwrap()["validity"];
    assert_eq!(code, Some(3), "some 40 requests have no p99");
    assert_eq!(validity["valid"], false);
    let reasons = validity["reasons"].as_array().unwrap();
    assert!(
        reasons.iter().any(|r| r["at_fault"] == "options"),
        "{validity}"
    );

    let answer = ["--expect-status", "204"];
    let (text, ..) = output_of(&[&short[..], &answer].concat());
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["errors"]["status_200"], line["offered"]);
    let reasons = line["validity"]["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|r| r["at_fault"] == "server"));
}

/// URLs of a list are requested by weight; methods, bodies and header files are sent.
#[test]
fn run_requests_the_contents_of_files() {
    use std::sync::{Arc, Mutex};
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&seen);
    let server = Responder::start(move |mut client, _| {
        while let Some(request) = client.request() {
            heard.lock().unwrap().push(request);
            if client.answer(crate::support::HELLO).is_err() {
                return;
            }
        }
    });
    let dir = std::env::temp_dir().join(format!("tuner-loadgen-files-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let whole = format!(
        "http://{}/whole 2\n/rare 0.5\nPOST /form\n# no\n",
        server.address
    );
    let (urls, body) = (file("urls", &whole), file("body", "0123456789"));
    let headers = format!("@{}", file("headers", "X-One: 1\nX-Two: 2\n"));
    let hgrm = file("latency.hgrm", "");
    let arguments = [
        "run",
        "--urls",
        &urls,
        "--body-file",
        &body,
        "-H",
        &headers,
        "--hgrm",
        &hgrm,
        "-c2",
        "-d0.5",
        "-w0",
        "-R400",
        "--method",
        "GET",
        "--json",
    ];
    let (text, errors, code) = output_of(&arguments);
    let spectrum = std::fs::read_to_string(&hgrm).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(code, Some(0), "{errors}");
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["completed"], line["offered"]);
    assert!(spectrum.contains(&format!(
        "Total count    = {:>12}]",
        line["offered"].as_u64().unwrap()
    )));
    let seen = seen.lock().unwrap();
    let count = |start: &str| seen.iter().filter(|text| text.starts_with(start)).count();
    let (whole, rare, form) = (
        count("GET /whole "),
        count("GET /rare "),
        count("POST /form "),
    );
    assert_eq!(whole + rare + form, seen.len());
    assert!(
        whole > form && form > rare && rare > 0,
        "{whole} {rare} {form}"
    );
    assert!(
        seen.iter()
            .all(|text| text.contains("X-One: 1\r\nX-Two: 2"))
    );
    let with_body = seen
        .iter()
        .filter(|text| text.contains("Content-Length: 10"));
    assert_eq!(
        with_body.count(),
        seen.len(),
        "the method was given, and the body with it"
    );

    let (_, refused, code) = output_of(&["run", "--urls", "/no/such/list"]);
    assert!(
        refused.contains("/no/such/list") && code == Some(2),
        "{refused}"
    );
}

/// The results are also written to a file, in the format of its ending: the seconds as CSV.
#[test]
fn run_writes_its_seconds() {
    let server = Responder::good();
    let url = format!("http://{}/", server.address);
    let file = std::env::temp_dir().join(format!("tuner-loadgen-{}.csv", std::process::id()));
    let (text, errors, code) = output_of(&[
        "run",
        &url,
        "-c4",
        "-d1.2",
        "-w0",
        "-R200",
        "--json",
        "--out",
        file.to_str().unwrap(),
    ]);
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    let line: Value = serde_json::from_str(&text).unwrap();
    let rows: Vec<Vec<&str>> = written
        .lines()
        .map(|row| row.split(',').collect())
        .collect();
    let seconds = line["seconds"].as_array().unwrap();
    assert_eq!((rows.len(), seconds.len()), (3, 2), "{written}");
    for (row, second) in rows[1..].iter().zip(seconds) {
        for (name, cell) in rows[0].iter().zip(row) {
            let value = cell.parse::<f64>().unwrap();
            let expected = match *name {
                "started_unix_s" => {
                    let started_s = line["started_unix_ns"].as_f64().unwrap() / 1e9;
                    started_s + second["from_s"].as_f64().unwrap()
                }
                "duration_s" => second["for_s"].as_f64().unwrap(),
                name => second[name].as_f64().unwrap(),
            };
            assert!((value - expected).abs() < 1e-3, "{name}: {cell}");
        }
    }
    // A column for every figure, and the instant of the second.
    assert_eq!(rows[0].len(), seconds[0].as_object().unwrap().len() + 1);
}

/// `--format` prints the document instead of the report; HdrHistogram reads the log.
#[test]
fn run_prints_a_document() {
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    let server = Responder::good();
    let url = format!("http://{}/", server.address);
    let short = ["run", &url, "-c4", "-d1.2", "-w0", "-R200"];
    let file = std::env::temp_dir().join(format!("tuner-loadgen-{}.out", std::process::id()));
    let formats = ["--format", "hlog", "--hgrm", file.to_str().unwrap()];
    let (log, errors, code) = output_of(&[&short[..], &formats].concat());
    let spectrum = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    assert!(log.starts_with("#[Histogram log format version 1.3]\n#[StartTime: "));
    let mut counted = 0;
    let mut intervals = 0;
    // The reader knows no legend.
    let entries = log
        .split_inclusive('\n')
        .filter(|line| !line.starts_with('"'));
    let entries: String = entries.collect();
    for entry in IntervalLogIterator::new(entries.as_bytes()) {
        if let LogEntry::Interval(interval) = entry.unwrap() {
            use base64::Engine as _;
            let packed = interval.encoded_histogram();
            let bytes = base64::engine::general_purpose::STANDARD.decode(packed);
            let bytes = bytes.unwrap();
            let histogram: Histogram<u64> =
                Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
            let max_ms = histogram.max() as f64 / 1e6;
            assert!((interval.max() / max_ms - 1.0).abs() < 1e-3);
            counted += histogram.len();
            intervals += 1;
        }
    }
    assert_eq!(intervals, 2);
    let total = format!("Total count    = {counted:>12}]");
    assert!(spectrum.contains(&total), "{total} in\n{spectrum}");
}

/// A file that cannot be written is refused before anything is measured, with a way out, and no empty
/// file is left if the options are wrong.
#[test]
fn run_refuses_a_wrong_file_at_once() {
    let url = format!("http://{}/", crate::support::unused_address());
    let left = std::env::temp_dir().join(format!("tuner-loadgen-{}.left", std::process::id()));
    let left = left.to_str().unwrap();
    for (options, expected) in [
        (vec!["--out", "/no/such/s.csv"], "folder that exists"),
        (vec!["--hgrm", "/no/such/s"], "--hgrm: /no/such/s: "),
        (vec!["--out", "seconds.txt"], "add --format"),
        (vec!["--out", "seconds"], "add --format"),
        (vec!["--format", "xml"], "csv, hgrm, hlog or json"),
        (vec!["--json", "--format", "csv"], "omit one of the two"),
        (vec!["--hgrm", left, "--out", "x.y"], "add --format"),
    ] {
        let run = ["run", &url, "-d1h"];
        let (_, errors, code) = output_of(&[&run[..], &options[..]].concat());
        assert!(errors.contains(expected) && code == Some(2), "{errors}");
    }
    assert!(!std::path::Path::new(left).exists());
}

/// `run` prints a table, or the line of a plan.
#[test]
fn run_is_for_people() {
    let server = Responder::good();
    let url = format!("http://{}/", server.address);
    let common = ["run", &url, "-c", "4", "-d", "0.2", "-w", "0", "-R", "200"];
    let output = Command::new(PROGRAM).args(common).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for word in [
        "p99.9",
        "latency",
        "service",
        "send lag",
        "errors       none",
    ] {
        assert!(text.contains(word), "{text}");
    }
    let output = Command::new(PROGRAM)
        .args(common)
        .arg("--json")
        .output()
        .unwrap();
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["completed"], line["offered"]);
}

/// Ctrl-C ends the measured part, and the results so far are printed as such.
#[test]
fn an_interrupt_keeps_what_was_measured() {
    let server = Responder::good();
    let url = format!("http://{}/", server.address);
    for (mode, json) in [
        ("--arrival=poisson", true),
        ("--closed", true),
        ("--closed", false),
    ] {
        let mut run = Command::new(PROGRAM);
        run.args(["run", &url, "-c4", "-d60s", "-w0", "-R200", mode]);
        run.args(json.then_some("--json"));
        let child = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
        crate::support::await_handler(child.id(), libc::SIGTERM);
        std::thread::sleep(std::time::Duration::from_millis(1500));
        // SAFETY: it is a child of this process that has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(130), "{text}");
        if !json {
            assert!(
                text.contains("INTERRUPTED") && text.contains("Requests/sec:"),
                "{text}"
            );
            continue;
        }
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["interrupted"], true);
        assert!(line["duration_s"].as_f64().unwrap() < 30.0);
        assert!(line["completed"].as_u64().unwrap() > 0);
        assert_eq!(
            line["completed"], line["offered"],
            "what was open was waited for"
        );
    }
}

/// After an interrupt the run waits for open answers, and a second interrupt ends that wait.
#[test]
fn a_second_interrupt_does_not_wait() {
    let server = Responder::start(|mut client, _| while client.request().is_some() {});
    let url = format!("http://{}/", server.address);
    let mut run = Command::new(PROGRAM);
    run.args([
        "run", &url, "-c4", "-d600s", "-w0", "-R20", "-T600s", "--json",
    ]);
    let child = run.stdout(std::process::Stdio::piped()).spawn().unwrap();
    crate::support::await_handler(child.id(), libc::SIGTERM);
    for _ in 0..2 {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        // SAFETY: it is a child of this process that has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    }
    let output = child.wait_with_output().unwrap();
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |name: &str| line[name].as_u64().unwrap();
    assert_eq!((count("completed"), count("in_flight")), (0, 4));
    assert_eq!(count("offered"), count("in_flight") + count("unsent"));
}
