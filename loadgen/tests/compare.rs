//! `compare`: several servers under the same load, in slices.

use crate::support::{HELLO, Responder, assert_described, output_of};
use serde_json::Value;

fn url(server: &Responder) -> String {
    format!("http://{}/", server.address)
}

const SHORT: [&str; 8] = [
    "-d800ms", "--round", "400ms", "--slice", "10ms", "-R4k", "-c4", "-w0.1",
];

/// The document has every key of its schema; each server has its figures, and all but the first a
/// ratio.
#[test]
fn servers_are_compared() {
    let (one, other) = (Responder::good(), Responder::good());
    let urls = [url(&one), url(&other)];
    // So few that a busy host answers them all in time.
    let slowly = SHORT.map(|word| if word == "-R4k" { "-R1k" } else { word });
    let arguments = [&["compare", &urls[0], &urls[1], "--json"][..], &slowly].concat();
    let (text, errors, code) = output_of(&arguments);
    assert_eq!((errors.as_str(), code), ("", Some(0)), "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    let schema = serde_json::from_str(include_str!("../schema/compare.schema.json")).unwrap();
    assert_described(&schema, &schema, &found, "");
    assert_eq!(
        (&found["rounds"], &found["slice_ms"]),
        (&2.into(), &10.0.into())
    );
    for (server, url) in found["servers"].as_array().unwrap().iter().zip(&urls) {
        assert_eq!(server["url"], **url);
        assert_eq!(server["completed"], server["offered"]);
        // Half of 800 requests, within 6 standard deviations.
        let offered = server["offered"].as_u64().unwrap();
        assert!((280..520).contains(&offered), "{offered}");
    }
    assert!(
        found["servers"][0]["ratios"]
            .as_object()
            .unwrap()
            .is_empty()
    );
    assert!(found["servers"][1]["ratios"]["p50"]["rounds"].is_u64());
}

/// The text names what was done, and a server's errors.
#[test]
fn the_text_names_seed_and_errors() {
    let good = Responder::good();
    let broken = Responder::start(|mut client, _| {
        let answer = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
        while client.request().is_some() && client.answer(answer).is_ok() {}
    });
    let urls = [url(&good), url(&broken)];
    let arguments = [&["compare", &urls[0], &urls[1], "--seed", "7"][..], &SHORT].concat();
    let (text, errors, code) = output_of(&arguments);
    assert_eq!((errors.as_str(), code), ("", Some(0)), "{text}");
    let first = "2 rounds of 0.4 s in slices of 10 ms, 4000 requests/s, 4 connections to each \
                 server, seed 7\n";
    assert!(text.starts_with(first), "{text}");
    for words in [
        &*urls[0],
        "ratio to 1",
        "2  p99  too few",
        "error of 2: status_503, ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// A server that cannot keep up is named.
#[test]
fn a_server_that_falls_behind_is_named() {
    let good = Responder::good();
    let slow = Responder::start(|mut client, _| {
        while client.request().is_some() {
            std::thread::sleep(std::time::Duration::from_millis(50));
            if client.answer(HELLO).is_err() {
                return;
            }
        }
    });
    let urls = [url(&good), url(&slow)];
    let arguments = [&["compare", &urls[0], &urls[1]][..], &SHORT].concat();
    let (text, errors, code) = output_of(&arguments);
    assert_eq!((errors.as_str(), code), ("", Some(0)), "{text}");
    let words = format!(
        "{} could not keep up with the load: in 2 of 2 rounds",
        urls[1]
    );
    assert!(text.contains(&words), "{text}");
}

/// Wrong arguments are refused with what is allowed.
#[test]
fn wrong_arguments_are_refused() {
    let one = "http://127.0.0.1:1/";
    for (arguments, words) in [
        (&["compare", one][..], "at least two URLs"),
        (
            &["compare", one, "http://127.0.0.1:2/other"],
            "its path must be \"/\"",
        ),
        (
            &["compare", one, one, "-d", "3s"],
            "at least 2 rounds of 3 s",
        ),
        (
            &["compare", one, one, "--slice", "90s"],
            "length_ms: 90000.0 is not allowed",
        ),
        (
            &["compare", one, one, "--hgrm", "x"],
            "--hgrm is an option of `run`",
        ),
        (&["run", one, one], "unexpected argument"),
        (&["run", one, "--freeze"], "invalid option '--freeze'"),
        (
            &["compare", one, one, "--freeze"],
            "--freeze: no process that listens on 127.0.0.1:1 (http://127.0.0.1:1/) is visible",
        ),
    ] {
        let (text, errors, code) = output_of(arguments);
        assert_eq!((text.as_str(), code), ("", Some(2)), "{errors}");
        assert!(errors.contains(words), "{words}: {errors}");
    }
}
