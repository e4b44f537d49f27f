//! HTTP/2 servers, well and at fault: counted by kind, never a hang, never a panic.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::support::{Client, Responder, assert_accounted, measure, plan};
use serde_json::{Value, json};
use tuner_loadgen::http2::frame::{self, Head};
use tuner_loadgen::http2::hpack::{self, Keep};
use tuner_loadgen::output::WindowLine;

/// A server's end of one connection, after the preface.
struct Peer {
    client: Client,
    /// Streams that were opened so far.
    opened: usize,
}

impl Peer {
    /// Read the preface and send these settings.
    fn new(client: Client, settings: &[(u16, u32)]) -> Option<Self> {
        let mut preface = [0; 24];
        (&*client.stream).read_exact(&mut preface).ok()?;
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        let mut peer = Self { client, opened: 0 };
        peer.say(frame::SETTINGS, 0, 0, &payload).then_some(peer)
    }

    fn say(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let mut out = Vec::new();
        frame::write(kind, flags, stream, payload, &mut out);
        self.client.answer(&out).is_ok()
    }

    fn read(&mut self) -> Option<(Head, Vec<u8>)> {
        let mut head = [0; frame::HEAD];
        (&*self.client.stream).read_exact(&mut head).ok()?;
        let head = Head::read(head);
        let mut payload = vec![0; head.length];
        (&*self.client.stream).read_exact(&mut payload).ok()?;
        Some((head, payload))
    }

    /// The next stream that is opened.
    fn request(&mut self) -> Option<u32> {
        loop {
            let (head, _) = self.read()?;
            if head.kind == frame::HEADERS {
                self.opened += 1;
                return Some(head.stream);
            }
        }
    }

    /// Answer well.
    fn hello(&mut self, stream: u32) -> bool {
        let mut block = Vec::new();
        hpack::encode(":status", "200", Keep::No, &mut block);
        hpack::encode("server", "test", Keep::Yes, &mut block);
        self.say(frame::HEADERS, frame::END_HEADERS, stream, &block)
            && self.say(frame::DATA, frame::END_STREAM, stream, b"hello")
    }

    fn reset(&mut self, stream: u32, code: u32) -> bool {
        self.say(frame::RST_STREAM, 0, stream, &code.to_be_bytes())
    }

    /// Close, and read on until the client has closed too; false.
    fn linger(&mut self) -> bool {
        let _ = self.client.stream.shutdown(std::net::Shutdown::Write);
        while self.read().is_some() {}
        false
    }

    fn goaway(&mut self, last: u32, code: u32) -> bool {
        let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
        self.say(frame::GOAWAY, 0, 0, &payload)
    }
}

/// A server whose answer to each request is a closure; false ends the connection.
fn server(answer: impl Fn(&mut Peer, u32) -> bool + Send + Sync + 'static) -> Responder {
    Responder::start(move |client, _| {
        let Some(mut peer) = Peer::new(client, &[]) else {
            return;
        };
        while let Some(stream) = peer.request() {
            if !answer(&mut peer, stream) {
                return;
            }
        }
    })
}

fn offered(server: &Responder, window: Value, changes: Value) -> WindowLine {
    let mut plan = plan(
        server.address,
        json!({"connections": 4, "streams": 4}),
        changes,
    );
    let fields = window.as_object().cloned().unwrap_or_default();
    plan["windows"][0].as_object_mut().unwrap().extend(fields);
    plan["instances"][0]["protocol"] = Value::from("http2");
    let line = measure(&plan).remove(0);
    assert_accounted(&line);
    assert_eq!(line.protocol, "h2");
    line
}

/// Measure a window against such a server, in which all requests end with this kind of error.
fn assert_only(kind: &str, answer: impl Fn(&mut Peer, u32) -> bool + Send + Sync + 'static) {
    let line = offered(&server(answer), json!({"rate_per_s": 100}), json!({}));
    let kinds: Vec<&str> = line.errors.keys().map(String::as_str).collect();
    assert_eq!((kinds, line.completed), (vec![kind], 0), "{line:?}");
}

/// Several requests at a time on each connection, with prior knowledge.
#[test]
fn well() {
    let line = offered(&server(Peer::hello), json!({"rate_per_s": 2000}), json!({}));
    assert_eq!((line.completed, line.errors.len()), (line.offered, 0));
    assert_eq!((line.connects, line.reconnects), (4, 0));
}

/// The first byte is that of an interim response, long before the final one.
#[test]
fn first_byte() {
    let server = server(|peer, stream| {
        let mut block = Vec::new();
        hpack::encode(":status", "103", Keep::No, &mut block);
        let sent = peer.say(frame::HEADERS, frame::END_HEADERS, stream, &block);
        std::thread::sleep(Duration::from_millis(40));
        sent && peer.hello(stream)
    });
    let shape = json!({"connections": 16, "streams": 1, "rate_per_s": 100});
    let line = offered(&server, shape, json!({}));
    assert_eq!(line.completed, line.offered);
    let [first, whole] =
        [&line.latency.first_byte, &line.latency.corrected].map(|summary| summary.p50_us.unwrap());
    assert!(0.0 < first && first + 20_000.0 < whole, "{first} {whole}");
}

/// Never more streams at a time than the server takes.
#[test]
fn concurrency() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let server = Responder::start(move |client, _| {
        let limit = [(frame::MAX_CONCURRENT_STREAMS, 2)];
        let Some(mut peer) = Peer::new(client, &limit) else {
            return;
        };
        // Answers in pairs: the second request comes though the first is not answered.
        let mut open = BTreeSet::new();
        while let Some(stream) = peer.request() {
            open.insert(stream);
            seen.fetch_max(open.len(), SeqCst);
            if open.len() == 2 {
                for stream in std::mem::take(&mut open) {
                    peer.hello(stream);
                }
            }
        }
    });
    let window = json!({"mode": "closed", "rate_per_s": null, "connections": 2, "timeout_s": 0.5});
    let line = offered(&server, window, json!({}));
    assert!(line.completed > 100, "{line:?}");
    assert_eq!(most.load(SeqCst), 2);
}

/// A server that ends connections gracefully, as at the end of keepalive_requests: unprocessed
/// requests are sent again, the others finish, and none is lost.
#[test]
fn gentle_goaway() {
    let server = server(|peer, stream| {
        if peer.opened == 20 {
            // This request is processed, later ones are not.
            peer.goaway(stream, frame::NO_ERROR);
            std::thread::sleep(std::time::Duration::from_millis(2));
            peer.hello(stream);
            return peer.linger();
        }
        peer.opened > 20 || peer.hello(stream)
    });
    let line = offered(&server, json!({"rate_per_s": 2000}), json!({}));
    assert_eq!(
        (line.completed, line.errors.len()),
        (line.offered, 0),
        "{line:?}"
    );
    assert!(line.reconnects > 10, "{line:?}");
}

/// A server that ends connections with a reason: it is named.
#[test]
fn angry_goaway() {
    assert_only("h2_goaway_enhance_your_calm", |peer, _| {
        peer.goaway(0x7fff_ffff, 11);
        peer.linger()
    });
}

/// Streams that the server ends are counted by its reason, and the connection stays.
#[test]
fn reset_streams() {
    let server = server(|peer, stream| peer.reset(stream, 2));
    let line = offered(&server, json!({"rate_per_s": 100}), json!({}));
    assert_eq!(line.errors["h2_reset_internal_error"], line.offered);
    assert_eq!(line.reconnects, 0);
}

/// A refused request is sent again once, and counts as refused if that is refused too.
#[test]
fn refused_streams() {
    let some = server(|peer, stream| {
        if peer.opened.is_multiple_of(5) {
            peer.reset(stream, frame::REFUSED_STREAM)
        } else {
            peer.hello(stream)
        }
    });
    let line = offered(&some, json!({"rate_per_s": 500}), json!({}));
    assert!(line.retries > line.offered / 10, "{line:?}");
    assert!(line.completed > line.offered * 8 / 10, "{line:?}");
    assert_only("h2_reset_refused_stream", |peer, stream| {
        peer.reset(stream, frame::REFUSED_STREAM)
    });
}

/// Frames that break the rules, each by its kind.
#[test]
fn broken_frames() {
    assert_only("h2_frame_size", |peer, stream| {
        peer.say(frame::DATA, 0, stream, &[0; 16_385])
    });
    assert_only("h2_compression", |peer, stream| {
        peer.say(frame::HEADERS, frame::END_HEADERS, stream, &[0xff; 8])
    });
    assert_only("h2_flow_control", |peer, _| {
        peer.say(frame::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])
    });
    assert_only("h2_protocol", |peer, stream| {
        peer.say(
            frame::PUSH_PROMISE,
            frame::END_HEADERS,
            stream,
            &[0, 0, 0, 2],
        )
    });
    assert_only("h2_protocol", |peer, stream| {
        peer.say(frame::DATA, frame::END_STREAM, stream, b"hello")
    });
    assert_only("head_too_large", |peer, stream| {
        peer.say(frame::HEADERS, 0, stream, &[0; 16_000])
            && peer.say(frame::CONTINUATION, 0, stream, &[0; 16_000])
    });
}

/// Random bytes after the settings cause an error, not a hang.
#[test]
fn garbage() {
    let server = server(|peer, _| {
        let noise: Vec<u8> = (0..4000u32)
            .map(|i| ((i * 7919) >> 3) as u8 | 0x80)
            .collect();
        (&*peer.client.stream).write_all(&noise).is_ok()
    });
    let line = offered(&server, json!({"rate_per_s": 100}), json!({}));
    assert_eq!(line.completed, 0);
    assert!(!line.errors.is_empty(), "{line:?}");
}

/// A server that speaks HTTP/1.1, closes, or stays silent never receives a request.
#[test]
fn no_http2() {
    let window = json!({"rate_per_s": 100, "timeout_s": 0.2});
    let old = Responder::start(|client, _| {
        let mut preface = [0; 24];
        let _ = (&*client.stream).read_exact(&mut preface);
        let _ = (&*client.stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = (&*client.stream).read(&mut preface);
    });
    let shut = Responder::start(|client, _| {
        let mut preface = [0; 24];
        let _ = (&*client.stream).read_exact(&mut preface);
    });
    let silent = Responder::start(|client, _| {
        let mut bytes = [0; 4096];
        while matches!((&*client.stream).read(&mut bytes), Ok(1..)) {}
    });
    for (server, kind) in [
        (old, "connect_garbage"),
        (shut, "connect_closed"),
        (silent, "connect_timeout"),
    ] {
        let line = offered(&server, window.clone(), json!({}));
        assert!(line.errors.contains_key(kind), "{kind}: {line:?}");
        assert_eq!(line.unsent, line.offered);
    }
}

/// An unanswered stream times out alone; the others of its connection continue, and its late answer
/// is ignored.
#[test]
fn timeouts() {
    let server = server(|peer, stream| {
        if peer.opened == 10 {
            return true;
        }
        if peer.opened == 60 {
            peer.hello(19);
        }
        peer.hello(stream)
    });
    let window = json!({"rate_per_s": 100, "timeout_s": 0.3, "duration_s": 1, "warmup_s": 0,
        "connections": 1});
    let line = offered(&server, window, json!({}));
    assert_eq!((line.timeouts, line.reconnects), (1, 0), "{line:?}");
    assert_eq!(line.completed, line.offered - 1);
}

/// A peer that does not read: large bodies stay half written and time out.
#[test]
fn a_peer_that_does_not_read() {
    use base64::Engine as _;
    let body = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; 8 << 20]);
    let requests = json!({"requests": [{"method": "POST", "path": "/", "body_base64": body}]});
    let deaf = Responder::start(|client, _| {
        let large = [(frame::INITIAL_WINDOW_SIZE, 0x7fff_ffff)];
        if let Some(mut peer) = Peer::new(client, &large) {
            peer.say(frame::WINDOW_UPDATE, 0, 0, &0x7000_0000_u32.to_be_bytes());
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
    });
    let window = json!({"timeout_s": 0.2, "rate_per_s": 20, "duration_s": 0.3});
    let line = offered(&deaf, window, requests.clone());
    assert_eq!(line.completed, 0);
    assert!(line.timeouts + line.in_flight > 0, "{line:?}");

    // One that reads gets them whole, though its windows are small.
    let server = Responder::start(|client, _| {
        let Some(mut peer) = Peer::new(client, &[]) else {
            return;
        };
        while let Some((head, _)) = peer.read() {
            let (end, credit) = (head.has(frame::END_STREAM), head.length as u32);
            if head.kind == frame::DATA && end {
                peer.hello(head.stream);
            } else if head.kind == frame::DATA {
                peer.say(frame::WINDOW_UPDATE, 0, head.stream, &credit.to_be_bytes());
            }
            if head.kind == frame::DATA {
                peer.say(frame::WINDOW_UPDATE, 0, 0, &credit.to_be_bytes());
            }
        }
    });
    let window = json!({"timeout_s": 10.0, "rate_per_s": 10, "duration_s": 0.3, "warmup_s": 0});
    let line = offered(&server, window, requests);
    assert_eq!(
        (line.completed, line.errors.len()),
        (line.offered, 0),
        "{line:?}"
    );
}

/// Connections stay from one window to the next, with another number of streams too.
#[test]
fn windows() {
    let server = server(Peer::hello);
    let mut plan = plan(server.address, json!({"streams": 2}), json!({}));
    plan["instances"][0]["protocol"] = Value::from("http2");
    let mut second = plan["windows"][0].clone();
    second["id"] = Value::from("w1");
    second["streams"] = Value::from(8);
    plan["windows"].as_array_mut().unwrap().push(second);
    let lines = measure(&plan);
    assert_eq!((lines[0].connects, lines[1].connects), (8, 0));
    assert_eq!(lines[1].reopened, 0);
    assert!(
        lines.iter().all(|line| line.completed == line.offered),
        "{lines:?}"
    );
}

/// A connection is reopened after the given number of requests.
#[test]
fn handshake_load() {
    let window = json!({"rate_per_s": 1000, "requests_per_connection": 10});
    let line = offered(&server(Peer::hello), window, json!({}));
    assert_eq!(
        (line.completed, line.errors.len()),
        (line.offered, 0),
        "{line:?}"
    );
    assert!(line.reconnects >= 40, "{line:?}");
}
