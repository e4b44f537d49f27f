//! HTTP/3 at a server by other hands, and at servers at fault: counted by kind, never a hang.

use std::net::UdpSocket;
use std::time::Duration;

use crate::support::quic::{HELLO, Lossy, OK, Quic, SETTINGS, hello, raw};
use crate::support::{assert_accounted, measure, merge, plan};
use quinn::VarInt;
use serde_json::{Value, json};
use tuner_loadgen::output::WindowLine;

/// One window at a server, with changes to the window and to the plan.
fn window_with(server: &Quic, window: Value, changes: Value) -> WindowLine {
    let mut all = server.changes();
    merge(&mut all, changes);
    measure(&plan(server.address, window, all)).remove(0)
}

fn window(server: &Quic, changes: Value) -> WindowLine {
    let line = window_with(server, changes, json!({}));
    assert_accounted(&line);
    line
}

fn few() -> Value {
    json!({"timeout_s": 3, "duration_s": 0.4, "connections": 4, "rate_per_s": 100})
}

/// All that was offered ended in this one kind of error.
fn assert_only(line: &WindowLine, kind: &str) {
    let kinds: Vec<&str> = line.errors.keys().map(String::as_str).collect();
    assert_eq!(kinds, [kind], "{:?}", line.errors);
    assert_eq!(line.completed, 0);
}

/// Every request is answered, on one connection with many streams and on many with one.
#[test]
fn answered() {
    let server = Quic::good();
    for shape in [
        json!({"connections": 1, "streams": 16, "rate_per_s": 2000, "timeout_s": 20}),
        json!({"connections": 16, "streams": 1, "rate_per_s": 2000, "timeout_s": 20}),
    ] {
        let line = window(&server, shape);
        assert_eq!(line.completed, line.offered, "{:?}", line.errors);
        assert_eq!(line.protocol, "http/3");
        assert_eq!(line.reconnects, 0);
        let quic = line.quic.unwrap();
        assert!(quic.datagrams_in > 0 && quic.datagrams_out > 0);
        assert!(quic.rtt_min_us.unwrap() <= quic.rtt_max_us.unwrap());
    }
}

/// The first byte of a response comes before its end.
#[test]
fn first_byte() {
    let server = Quic::start(|connection, _| {
        raw(connection, |mut send, _, _| async move {
            let _ = send.write_all(OK).await;
            tokio::time::sleep(Duration::from_millis(40)).await;
            let _ = send.write_all(b"\0\x05hello").await;
            let _ = send.finish();
            let _ = send.stopped().await;
        })
    });
    let line = window(&server, few());
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
    let [first, whole] =
        [&line.latency.first_byte, &line.latency.corrected].map(|summary| summary.p50_us.unwrap());
    assert!(0.0 < first && first + 20_000.0 < whole, "{first} {whole}");
}

/// Version, cipher and group are reported, and whether sessions were resumed.
#[test]
fn handshakes() {
    let server = Quic::good();
    let shape = json!({"connections": 1, "requests_per_connection": 10, "timeout_s": 20});
    let line = window(&server, shape.clone());
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
    assert!(line.reconnects > 5);
    let tls = line.tls.unwrap();
    assert_eq!(tls.version.keys().collect::<Vec<_>>(), [&"TLSv1.3"]);
    assert_eq!(tls.group.keys().collect::<Vec<_>>(), [&"X25519MLKEM768"]);
    assert_eq!(tls.full, 1);
    let opened = line.connects + line.reopened + line.reconnects;
    assert_eq!(tls.resumed, opened - 1);
    assert_eq!(tls.handshake.count, tls.full + tls.resumed);
    let mut anew = server.changes();
    anew["instances"][0]["tls"]["resume"] = json!(false);
    let line = window_with(&server, shape, anew);
    assert_eq!(line.tls.unwrap().resumed, 0);
}

/// Methods, bodies and large answers are sent and received completely.
#[test]
fn bodies() {
    let server = Quic::good();
    let body = base64(&vec![b'y'; 200_000]);
    let requests = json!({"requests": [
        {"path": "/large", "expect": {"status": 200, "length": 300_000}},
        {"path": "/", "method": "POST", "body_base64": body, "expect": {"length": 5}},
        {"path": "/", "method": "HEAD", "expect": {"status": 200}},
    ]});
    let shape = json!({"rate_per_s": 60, "connections": 2, "streams": 4, "timeout_s": 10});
    let line = window_with(&server, shape, requests);
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
}

/// The delay of a request by the congestion window is reported as the client's wait. Losses keep the
/// window small; without them it soon holds all that a busy machine sends.
#[test]
fn blocked() {
    let server = Quic::good();
    let path = Lossy::start(server.address, 7);
    let body = base64(&vec![b'y'; 100_000]);
    let mut changes = server.changes();
    changes["instances"][0]["address"] = json!(path.address.to_string());
    changes["requests"] = json!([{"path": "/", "method": "POST", "body_base64": body}]);
    let shape = json!({"rate_per_s": 30, "connections": 1, "streams": 8, "timeout_s": 20});
    let line = window_with(&server, shape, changes);
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
    assert!(line.blocked.count > 0);
    let calm = window(&server, json!({"rate_per_s": 40, "connections": 8}));
    assert_eq!(calm.blocked.count, 0);
}

/// A server that takes fewer requests at a time than we would make: the others wait for a stream.
#[test]
fn few_streams() {
    let server = Quic::limited(2);
    let line = window(
        &server,
        json!({"connections": 1, "streams": 32, "rate_per_s": 2000, "timeout_s": 20}),
    );
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
}

/// Connections are kept from one window to the next, and take another number of streams.
#[test]
fn kept() {
    let server = Quic::good();
    let mut two = plan(server.address, json!({"connections": 2}), server.changes());
    let mut second = two["windows"][0].clone();
    merge(&mut second, json!({"id": "w1", "streams": 10}));
    two["windows"].as_array_mut().unwrap().push(second);
    let lines = measure(&two);
    assert_eq!((lines[0].connects, lines[1].connects), (2, 0));
    assert_eq!((lines[1].reopened, lines[1].reconnects), (0, 0));
    assert_eq!(lines[1].completed, lines[1].offered, "{:?}", lines[1]);
}

/// Lost datagrams are sent again: every request is answered, late.
#[test]
fn losses() {
    let server = Quic::good();
    let path = Lossy::start(server.address, 7);
    let mut changes = server.changes();
    changes["instances"][0]["address"] = json!(path.address.to_string());
    let shape = json!({"connections": 4, "streams": 4, "rate_per_s": 200, "timeout_s": 20});
    let line = window_with(&server, shape, changes);
    assert_accounted(&line);
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
    assert!(line.quic.unwrap().lost_packets > 0);
}

/// If no process listens, ICMP reports it, no request is sent, and attempts are spaced out.
#[test]
fn refused() {
    let mut server = Quic::good();
    server.vanish();
    let line = window(&server, json!({"timeout_s": 0.2}));
    assert_eq!(line.unsent, line.offered);
    assert_eq!(line.errors.len(), 1, "{:?}", line.errors);
    assert!((8..2000).contains(&line.errors["connect_refused"]));
}

/// A peer that receives datagrams and stays silent.
#[test]
fn silent() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = Quic::good();
    let mut changes = server.changes();
    changes["instances"][0]["address"] = json!(socket.local_addr().unwrap().to_string());
    let line = window_with(&server, json!({"timeout_s": 0.2}), changes);
    assert_accounted(&line);
    assert_eq!(line.unsent, line.offered);
    assert!(line.errors["connect_timeout"] >= 8, "{:?}", line.errors);
}

/// A peer that answers each datagram with these bytes.
fn echo(answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> WindowLine {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let address = socket.local_addr().unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; 2000];
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            if let Ok((n, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&answer(&buffer[..n]), from);
            }
        }
    });
    let server = Quic::good();
    let mut changes = server.changes();
    changes["instances"][0]["address"] = json!(address.to_string());
    let line = window_with(&server, few(), changes);
    drop(stop);
    thread.join().unwrap();
    assert_accounted(&line);
    assert_eq!(line.unsent, line.offered);
    line
}

/// A peer that speaks no version of ours (RFC 9000, 17.2.1).
#[test]
fn other_version() {
    let line = echo(|initial| {
        let destination = &initial[6..6 + usize::from(initial[5])];
        let mut answer = vec![0x80, 0, 0, 0, 0, 0, destination.len() as u8];
        answer.extend_from_slice(destination);
        answer.extend_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a]);
        answer
    });
    assert_only(&line, "connect_quic_version");
}

/// A peer with another protocol.
#[test]
fn garbage_datagrams() {
    let line = echo(|_| b"\x85not QUIC at all, neither a long header nor a short one".to_vec());
    assert_only(&line, "connect_timeout");
    let line = echo(|_| Vec::new());
    assert_only(&line, "connect_timeout");
}

/// Certificates that are not trusted, or for another name, and one that is not verified.
#[test]
fn certificates() {
    let (server, other) = (Quic::good(), Quic::good());
    let with = |changes: Value| {
        let mut all = server.changes();
        merge(&mut all["instances"][0]["tls"], changes);
        window_with(&server, few(), all)
    };
    let untrusted = with(json!({"ca_file": other.certificate}));
    assert_only(&untrusted, "connect_tls_untrusted");
    let wrong = with(json!({"server_name": "example.org"}));
    assert_only(&wrong, "connect_tls_wrong_name");
    let unverified = with(json!({"server_name": "example.org", "verify": false}));
    assert_eq!(unverified.completed, unverified.offered);
    assert_eq!(unverified.warnings.len(), 1);
}

/// CONNECTION_CLOSE in the midst of a request, with a code of the application.
#[test]
fn closed_by_application() {
    let server = Quic::start(|connection, _| async move {
        let _ = connection.accept_bi().await;
        connection.close(VarInt::from_u32(0x102), b"");
    });
    let line = window(&server, few());
    assert!(
        line.errors["h3_close_internal_error"] > 0,
        "{:?}",
        line.errors
    );
    assert_eq!(line.completed, 0);
}

/// A connection that is refused in the handshake with a code of the transport.
#[test]
fn refused_by_server() {
    let line = window(&Quic::refusing(), few());
    assert_only(&line, "connect_quic_closed");
}

/// RESET_STREAM fails the request, not the connection; a rejected request is sent again.
#[test]
fn streams_reset() {
    let reset = |code: u32| {
        let server = Quic::start(move |connection, _| {
            raw(connection, move |mut send, _, _| async move {
                let _ = send.write_all(OK).await;
                let _ = send.reset(VarInt::from_u32(code));
            })
        });
        window(&server, few())
    };
    let line = reset(0x102);
    assert_only(&line, "h3_reset_internal_error");
    assert_eq!(line.reconnects, 0);
    let line = reset(0x4242);
    assert_only(&line, "h3_reset_unknown_error");
}

/// Invalid answers of a server are counted by kind.
#[test]
fn bad_answers() {
    let answered = |bytes: &'static [u8]| {
        let server = Quic::start(move |connection, _| {
            raw(connection, move |mut send, _, _| async move {
                let _ = send.write_all(bytes).await;
                let _ = send.finish();
                let _ = send.stopped().await;
            })
        });
        window(&server, few())
    };
    assert_eq!(answered(HELLO).errors.len(), 0);
    assert_only(&answered(b""), "truncated");
    assert_only(&answered(b"\x01\x03\0\0\xd9\0\x05hel"), "truncated");
    assert_only(&answered(b"\x01\x03\0\0\xd9\0\x04hell"), "wrong_length");
    // Status 404; DATA first; SETTINGS; a dynamic table; no status.
    assert_only(&answered(b"\x01\x03\0\0\xdb\0\x05hello"), "status_404");
    for bytes in [
        &b"\0\x05hello"[..],
        b"\x04\0",
        b"\x01\x03\0\0\x80",
        b"\x01\x02\0\0",
    ] {
        assert_only(&answered(bytes), "h3_protocol");
    }
    assert_only(&answered(b"\x01\x80\x01\x00\x00"), "head_too_large");
}

/// A control stream that breaks the rules ends the connection.
#[test]
fn bad_control_stream() {
    let server = Quic::start(|connection, _| async move {
        let mut control = connection.open_uni().await.unwrap();
        let _ = connection.accept_bi().await;
        let _ = control.write_all(b"\0\x07\x01\0").await;
        connection.closed().await;
    });
    let line = window(&server, few());
    assert_eq!(line.completed, 0);
    assert!(line.errors["h3_protocol"] > 0, "{:?}", line.errors);
}

/// After GOAWAY, rejected requests are sent again on another connection, the others finish.
#[test]
fn goaway() {
    let server = Quic::start(|connection, number| async move {
        if number > 0 {
            return hello(connection).await;
        }
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(SETTINGS).await.unwrap();
        let mut seen = 0;
        while let Ok((mut send, mut receive)) = connection.accept_bi().await {
            let _ = receive.read_to_end(10_000).await;
            if seen == 5 {
                // This one is not processed: GOAWAY names its id.
                let id = VarInt::from(send.id()).into_inner() as u8;
                let _ = control.write_all(&[0x07, 0x01, id]).await;
                connection.closed().await;
                return;
            }
            let _ = send.write_all(HELLO).await;
            let _ = send.finish();
            seen += 1;
        }
    });
    let line = window(
        &server,
        json!({"connections": 1, "rate_per_s": 100, "warmup_s": 0}),
    );
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
    assert_eq!(line.retries, 1);
}

/// A request that comes too late for several ending connections is sent again each time (RFC 9114,
/// 5.2); on a connection that stays open, a second rejection is an error.
#[test]
fn too_late() {
    let rejecting = |ends: bool| {
        Quic::start(move |connection, number| async move {
            if number > 2 {
                return hello(connection).await;
            }
            let mut control = connection.open_uni().await.unwrap();
            control.write_all(SETTINGS).await.unwrap();
            while let Ok((mut send, _receive)) = connection.accept_bi().await {
                if ends {
                    // The id of the GOAWAY is above this request, which is rejected all the same.
                    let _ = control.write_all(&[0x07, 0x01, 0x3c]).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                let _ = send.reset(VarInt::from_u32(0x10b));
            }
        })
    };
    let shape = json!({"connections": 1, "rate_per_s": 20, "warmup_s": 0, "timeout_s": 20});
    let line = window(&rejecting(true), shape.clone());
    assert_eq!(line.completed, line.offered, "{:?}", line.errors);
    assert!(line.retries >= 3);
    assert_only(
        &window(&rejecting(false), shape),
        "h3_reset_request_rejected",
    );
}

/// A server that no longer answers: its requests time out, and so does the connection.
#[test]
fn server_gone() {
    let server = Quic::start(|connection, number| async move {
        if number < 2 {
            raw(connection, |send, receive, _| async move {
                let _kept = (send, receive);
                std::future::pending().await
            })
            .await;
        } else {
            hello(connection).await;
        }
    });
    let line = window(
        &server,
        json!({"connections": 2, "timeout_s": 1, "rate_per_s": 100, "warmup_s": 0}),
    );
    assert!(line.timeouts > 0);
    assert!(line.errors.is_empty(), "{:?}", line.errors);
}

/// A server restarts during the run: the new process does not know the connections, and sends
/// stateless resets; the requests continue.
#[test]
fn restarted() {
    let (served, seen) = std::sync::mpsc::channel();
    let server = Quic::start(move |connection, _| {
        let served = served.clone();
        raw(connection, move |mut send, _, _| {
            let _ = served.send(());
            async move {
                let _ = send.write_all(HELLO).await;
                let _ = send.finish();
                let _ = send.stopped().await;
            }
        })
    });
    let (address, changes) = (server.address, server.changes());
    let handle = std::thread::spawn(move || {
        // In the midst of the measured part.
        (0..100).for_each(|_| seen.recv().unwrap());
        server.restart()
    });
    let shape = json!({"connections": 4, "duration_s": 2.0, "timeout_s": 3});
    let line = measure(&plan(address, shape, changes)).remove(0);
    let _server = handle.join().unwrap();
    assert_accounted(&line);
    assert!(line.reconnects >= 4, "{line:?}");
    assert!(line.completed > line.offered / 2, "{line:?}");
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
