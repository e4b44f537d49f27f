//! Servers at fault: counted by kind, never a hang, never a panic.

use std::io::Read as _;
use std::time::Duration;

use crate::support::{
    Client, HELLO, Responder, assert_accounted, measure, plan, unused_address, window,
};
use serde_json::{Value, json};
use tuner_loadgen::output::WindowLine;

/// A short window at a server that answers every request with these bytes and then hangs up, or
/// stays silent.
fn answered_with(bytes: &'static [u8], hang_up: bool) -> WindowLine {
    let server = Responder::start(move |mut client, _| {
        while client.request().is_some() && client.answer(bytes).is_ok() && !hang_up {}
    });
    let line = window(
        server.address,
        json!({"timeout_s": 2, "duration_s": 0.3, "connections": 4, "rate_per_s": 100}),
    );
    assert_accounted(&line);
    line
}

/// All that was offered and sent ended in this one kind of error.
fn assert_only(line: &WindowLine, kind: &str) {
    let kinds: Vec<&str> = line.errors.keys().map(String::as_str).collect();
    assert_eq!(kinds, [kind], "{:?}", line.errors);
    assert_eq!((line.completed, line.timeouts), (0, 0));
}

/// If no process listens, no request is sent; all requests are accounted for, and attempts are
/// counted and spaced out.
#[test]
fn refused() {
    let line = window(unused_address(), json!({"timeout_s": 0.2}));
    assert_accounted(&line);
    assert_eq!(line.unsent, line.offered);
    assert_eq!(line.errors.len(), 1);
    let attempts = line.errors["connect_refused"];
    assert!(
        (8..2000).contains(&attempts),
        "{attempts} for 8 connections"
    );
}

/// A peer that accepts and resets at once, unread.
#[test]
fn reset() {
    let server = Responder::start(|client, _| {
        let mut byte = [0];
        // The request is there but for one byte, so that the close is a reset.
        let _ = (&*client.stream).read(&mut byte);
    });
    let line = window(server.address, json!({"timeout_s": 0.2}));
    assert_accounted(&line);
    assert_only(&line, "reset");
}

/// A peer that hangs up instead of answering.
#[test]
fn closed() {
    assert_only(&answered_with(b"", true), "closed");
}

/// Half a head, half a body, a body that ends too early within its chunks.
#[test]
fn truncated() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nContent-Le"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        assert_only(&answered_with(bytes, true), "truncated");
    }
}

/// A peer with another protocol, even without line ends and without closing.
#[test]
fn garbage() {
    assert_only(&answered_with(b"SSH-2.0-OpenSSH", false), "garbage");
    assert_only(&answered_with(&[0xff; 100], false), "garbage");
    assert_only(
        &answered_with(b"HTTP/1.1 twohundred\r\n\r\n", false),
        "garbage",
    );
}

/// Chunked coding that is none.
#[test]
fn bad_chunks() {
    let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
    assert_only(&answered_with(bytes, false), "bad_chunk");
}

/// More bytes than announced, and fewer than expected.
#[test]
fn wrong_lengths() {
    let more = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello world";
    assert_only(&answered_with(more, false), "excess_bytes");
    let fewer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell";
    assert_only(&answered_with(fewer, false), "wrong_length");
}

/// Another status than expected is named by its code, and the connection stays in use.
#[test]
fn wrong_status() {
    let line = answered_with(
        b"HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nhello",
        false,
    );
    assert_only(&line, "status_503");
    assert_eq!(line.reconnects, 0);
}

/// A body with the right length and the wrong content is found in the sample that is hashed.
#[test]
fn wrong_content() {
    let server = Responder::good();
    let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let requests =
        |sha256: &str| json!({"requests": [{"path": "/", "expect": {"sha256": sha256}}]});
    let few = json!({"rate_per_s": 100, "warmup_s": 0});
    let good = measure(&plan(server.address, few.clone(), requests(hello))).remove(0);
    assert_eq!(good.completed, good.offered);
    let bad = measure(&plan(server.address, few, requests(&"0".repeat(64)))).remove(0);
    assert_accounted(&bad);
    assert!(bad.errors["wrong_sha256"] >= 8, "{:?}", bad.errors);
    assert!(bad.completed > 0, "a sample is checked");
}

/// Every body is hashed on request.
#[test]
fn wrong_content_is_found_everywhere() {
    let server = Responder::good();
    let expect = json!({"sha256": "0".repeat(64), "check": "all"});
    let requests = json!({"requests": [{"path": "/", "expect": expect}]});
    let line = measure(&plan(server.address, json!({}), requests)).remove(0);
    assert_accounted(&line);
    assert_eq!(line.errors["wrong_sha256"], line.offered);
}

/// A head without end is cut off.
#[test]
fn endless_head() {
    let server = Responder::start(|mut client, _| {
        if client.request().is_some() {
            let _ = client.answer(b"HTTP/1.1 200 OK\r\n");
            let again = b"X-Again: and again\r\n".repeat(100);
            while client.answer(&again).is_ok() {}
        }
    });
    let line = window(server.address, json!({}));
    assert_accounted(&line);
    assert_only(&line, "head_too_large");
}

/// A body without end neither keeps the window from ending nor the others from their turn.
#[test]
fn endless_body() {
    let server = Responder::start(|mut client, number| {
        while client.request().is_some() {
            if number == 0 {
                let _ = client.answer(b"HTTP/1.1 200 OK\r\n\r\n");
                while client.answer(&[b'x'; 65_536]).is_ok() {}
            } else if client.answer(HELLO).is_err() {
                break;
            }
        }
    });
    let line = window(server.address, json!({"timeout_s": 0.3, "warmup_s": 0}));
    assert_accounted(&line);
    assert_eq!(line.timeouts + line.in_flight, 1, "{line:?}");
    assert_eq!(line.completed, line.offered - 1);
}

/// A response that comes byte by byte is a slow one, not a wrong one.
#[test]
fn slow_bytes() {
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            for byte in HELLO {
                std::thread::sleep(Duration::from_micros(200));
                if client.answer(&[*byte]).is_err() {
                    return;
                }
            }
        }
    });
    let line = window(server.address, json!({"rate_per_s": 50}));
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered);
    assert!(line.latency.service.p50_us.unwrap() >= 8000.0);
}

/// An answer that drips on and on (a slow loris of a server) times out like one that never comes.
#[test]
fn endless_drip() {
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            let _ = client.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
            while client.answer(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let line = window(
        server.address,
        json!({"rate_per_s": 50, "timeout_s": 0.3, "duration_s": 0.5, "warmup_s": 0}),
    );
    assert_accounted(&line);
    assert_eq!(line.completed, 0);
    assert!(line.timeouts > 0 && line.errors.is_empty(), "{line:?}");
}

/// A body without a last chunk of size zero continues until it times out.
#[test]
fn endless_chunks() {
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            let _ = client.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            let chunk = [b"4000\r\n".to_vec(), vec![b'x'; 0x4000], b"\r\n".to_vec()].concat();
            while client.answer(&chunk).is_ok() {}
        }
    });
    let line = window(
        server.address,
        json!({"rate_per_s": 20, "connections": 2, "timeout_s": 0.3, "warmup_s": 0}),
    );
    assert_accounted(&line);
    assert_eq!(line.completed, 0);
    assert!(line.timeouts > 0 && line.errors.is_empty(), "{line:?}");
}

/// Each error of chunked coding is counted as such.
#[test]
fn bad_chunks_of_all_kinds() {
    for chunks in [
        "-1\r\n",
        "11111111111111111\r\n",
        "5\rhello\r\n",
        "5\r\nhelloX\r\n",
        ";extension\r\n",
    ] {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer: &'static str = format!("{head}{chunks}").leak();
        assert_only(&answered_with(answer.as_bytes(), false), "bad_chunk");
    }
}

/// Servers that are wrong in turn: each answer is counted by its own kind, and the good ones are good.
#[test]
fn all_kinds_at_once() {
    let server = Responder::start(|mut client, number| {
        let answers: [&[u8]; 6] = [
            HELLO,
            b"HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell",
            b"SMTP ready\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        ];
        if client.request().is_some() {
            let _ = client.answer(answers[number % answers.len()]);
        }
    });
    let line = window(
        server.address,
        json!({"rate_per_s": 200, "duration_s": 1.0}),
    );
    assert_accounted(&line);
    for kind in [
        "status_500",
        "wrong_length",
        "garbage",
        "truncated",
        "bad_chunk",
    ] {
        assert!(line.errors[kind] > 0, "{kind} {:?}", line.errors);
    }
    assert!(line.completed > 0);
}

/// A server that never answers causes timeouts, each with its age; requests that are open at the
/// end of the drain are in flight.
#[test]
fn silence() {
    let server = Responder::start(|mut client, _| while client.request().is_some() {});
    let line = window(
        server.address,
        json!({"rate_per_s": 100, "connections": 64, "warmup_s": 0, "timeout_s": 0.2}),
    );
    assert_accounted(&line);
    assert_eq!(line.completed, 0);
    assert!(line.timeouts > 0, "{line:?}");
    assert!(line.errors.is_empty());
    assert!(line.latency.service.p50_us.unwrap() >= 200_000.0);
}

/// A peer that does not read: a large request stays half written and times out.
#[test]
fn a_peer_that_does_not_read() {
    use base64::Engine as _;
    let body = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; 8 << 20]);
    let requests = json!({"requests": [{"method": "POST", "path": "/", "body_base64": body}]});
    let wait = json!({"timeout_s": 0.2, "rate_per_s": 20, "connections": 2, "duration_s": 0.3});
    let deaf = Responder::start(|client, _| {
        std::thread::sleep(Duration::from_secs(2));
        drop(client);
    });
    let line = measure(&plan(deaf.address, wait.clone(), requests.clone())).remove(0);
    assert_accounted(&line);
    assert_eq!(line.completed, 0);

    let server = Responder::good();
    let time = json!({"rate_per_s": 20, "connections": 2, "duration_s": 0.3, "timeout_s": 20});
    let line = measure(&plan(server.address, time, requests)).remove(0);
    assert_accounted(&line);
    assert!(
        line.completed > 0,
        "a large request is written in pieces: {line:?}"
    );
}

fn closes_after(n: usize, how: fn(&mut Client)) -> Responder {
    Responder::start(move |mut client, _| {
        for i in 1.. {
            if client.request().is_none() {
                return;
            }
            if i == n {
                return how(&mut client);
            }
            if client.answer(HELLO).is_err() {
                return;
            }
        }
    })
}

/// A server that announces the end of a connection is not an error; the connection is reopened.
#[test]
fn announced_close() {
    const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
    let server = closes_after(5, |client| drop(client.answer(LAST)));
    let line = window(server.address, json!({"rate_per_s": 1000}));
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered);
    assert_eq!(line.retries, 0);
    assert!(line.reconnects >= line.offered / 10, "{line:?}");
}

/// Bodies that end with the connection are whole.
#[test]
fn read_until_close() {
    let line = answered_with(b"HTTP/1.1 200 OK\r\n\r\nhello", true);
    assert_eq!(line.completed, line.offered);
    assert!(line.errors.is_empty());
}

/// A server that closes just as a request is written (the keep-alive race) receives it again on a
/// new connection, and this is not an error.
#[test]
fn keepalive_race() {
    let server = closes_after(20, |_| {});
    let line = window(server.address, json!({"rate_per_s": 1000}));
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered);
    assert!(line.errors.is_empty());
    assert!(line.retries >= line.offered / 60, "{line:?}");
}

/// The same in a closed loop.
#[test]
fn keepalive_race_in_a_closed_loop() {
    let server = closes_after(20, |_| {});
    let line = window(server.address, json!({"mode": "closed", "duration_s": 0.3}));
    assert_accounted(&line);
    assert!(line.retries > 0 && line.errors.is_empty(), "{line:?}");
    assert_eq!(line.completed, line.offered);
}

/// A server that is down for a while in the middle of the window refuses connections, then answers
/// again, and the requests of the gap wait for it.
#[test]
fn restart_in_the_middle() {
    let serve = |mut client: Client, _| {
        while client.request().is_some() && client.answer(HELLO).is_ok() {}
    };
    let first = Responder::start(serve);
    let address = first.address;
    let restart = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(400));
        drop(first);
        std::thread::sleep(Duration::from_millis(300));
        let again = Responder::start_at(address, serve);
        std::thread::sleep(Duration::from_millis(1500));
        drop(again);
    });
    let line = window(address, json!({"duration_s": 1.2}));
    restart.join().unwrap();
    assert_accounted(&line);
    assert!(line.errors["connect_refused"] > 0, "{:?}", line.errors);
    assert!(line.reconnects >= 8);
    assert!(line.completed >= line.offered * 9 / 10, "{line:?}");
    assert!(line.latency.corrected.max_us.unwrap() > 150_000.0);
}

/// A server that closes all its connections at once, repeatedly, as on a reload: the affected
/// requests go to new connections, and few are affected twice.
#[test]
fn all_idle_connections_closed_at_once() {
    let server = std::sync::Arc::new(Responder::good());
    let closer = std::sync::Arc::clone(&server);
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = std::sync::Arc::clone(&done);
    let thread = std::thread::spawn(move || {
        while !stop.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
            closer.hang_up();
        }
    });
    let line = window(
        server.address,
        json!({"rate_per_s": 2000, "connections": 16}),
    );
    done.store(true, std::sync::atomic::Ordering::SeqCst);
    thread.join().unwrap();
    assert_accounted(&line);
    assert!(line.reconnects >= 32, "{line:?}");
    assert!(line.completed >= line.offered * 97 / 100, "{line:?}");
}

/// Connections that the server closed between two windows are reopened before the warm-up, and not
/// counted as reconnects.
#[test]
fn closed_between_windows() {
    let server = Responder::good();
    let mut plan = plan(server.address, json!({}), json!({}));
    let mut second = plan["windows"][0].clone();
    second["id"] = Value::from("w1");
    second["connections"] = Value::from(10);
    plan["windows"].as_array_mut().unwrap().push(second);
    let plan = tuner_loadgen::plan::Plan::parse(&plan.to_string()).unwrap();
    let mut session = tuner_loadgen::session::Session::new(&plan).unwrap();
    let first = session.measure(&plan.windows[0]).unwrap().remove(0);
    assert_eq!(
        (first.connects, first.reopened, first.reconnects),
        (8, 0, 0)
    );
    server.hang_up();
    std::thread::sleep(Duration::from_millis(50));
    let second = session.measure(&plan.windows[1]).unwrap().remove(0);
    assert_eq!(
        (second.connects, second.reopened, second.reconnects),
        (2, 8, 0)
    );
    assert_eq!(second.completed, second.offered);
    assert_eq!((second.retries, second.errors.len()), (0, 0));
}

/// Unsolicited bytes close an idle connection, and no request is lost.
#[test]
fn unsolicited_bytes() {
    let server = Responder::start(|mut client, _| {
        while client.request().is_some() {
            let _ = client.answer(HELLO);
            std::thread::sleep(Duration::from_millis(5));
            let _ = client.answer(b"HTTP/1.1 408 Request Timeout\r\n\r\n");
        }
    });
    let line = window(server.address, json!({"rate_per_s": 40}));
    assert_accounted(&line);
    assert!(line.reconnects > 0);
    assert!(line.completed > line.offered / 2, "{line:?}");
}

/// Heads of every kind without a body: HEAD, 204, 304.
#[test]
fn no_body() {
    for (method, head) in [
        ("HEAD", &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"[..]),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (
            "GET",
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        ),
    ] {
        let server =
            Responder::start(
                move |mut client, _| {
                    while client.request().is_some() && client.answer(head).is_ok() {}
                },
            );
        let changes = json!({"requests": [{"method": method, "path": "/"}]});
        let line = measure(&plan(server.address, json!({}), changes)).remove(0);
        assert_accounted(&line);
        assert_eq!((line.completed, line.reconnects), (line.offered, 0));
    }
}
