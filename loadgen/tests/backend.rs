//! The backend through real sockets, and its protocols with hostile input.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tuner_loadgen::backend::{Answers, Backend, Peer};
use tuner_loadgen::rng::Rng;

fn answers() -> Answers {
    let text = "x".repeat(300_000);
    Answers::parse(&format!(
        r#"{{"live_path":"/live","live_token":"alive","content_type":"text/html","text":"{text}",
        "answers":[{{"size":5}},{{"size":300000}},{{"size":5,"times_us":[30000]}}]}}"#
    ))
    .unwrap()
}

fn started() -> Backend {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Backend::start(listener, answers(), 1).unwrap()
}

/// Return what a backend sends to a peer until it closes the connection.
fn exchange(backend: &Backend, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(backend.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn scgi(number: u32) -> Vec<u8> {
    let block = format!("CONTENT_LENGTH\x000\0HTTP_TUNER_ANSWER\0{number}\0");
    format!("{}:{block},", block.len()).into_bytes()
}

/// One port answers a request for its token over HTTP, and requests of the other protocols.
#[test]
fn one_port_speaks_all() {
    let backend = started();
    let live = exchange(&backend, b"GET /live HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(live.ends_with(b"\r\n\r\nalive"));
    let other = exchange(&backend, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(other.starts_with(b"HTTP/1.1 404 "));
    let answer = exchange(&backend, &scgi(0));
    assert!(answer.starts_with(b"Status: 200 OK\r\n"));
    assert!(answer.ends_with(b"\r\n\r\nxxxxx"));
}

/// An answer arrives whole even if it does not fit into the socket at once.
#[test]
fn large_answers_arrive_whole() {
    let answer = exchange(&started(), &scgi(1));
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n");
    assert_eq!(answer.len() - head.unwrap() - 4, 300_000);
}

/// An answer comes after its time, and those of other connections do not wait for it.
#[test]
fn answers_wait_for_their_time() {
    let backend = started();
    let begun = Instant::now();
    let mut slow = TcpStream::connect(backend.address).unwrap();
    slow.write_all(&scgi(2)).unwrap();
    exchange(&backend, &scgi(0));
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(30));
    assert!(answer.ends_with(b"xxxxx"));
}

/// Peers that leave early, or say nothing that is understood, do not disturb the others.
#[test]
fn broken_peers_do_no_harm() {
    let backend = started();
    for bytes in [
        &b""[..],
        b"P",
        b"\x01\x09garbage that is no record",
        b"1x:",
        b"GET",
    ] {
        let mut stream = TcpStream::connect(backend.address).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // A reset is a close too.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert!(exchange(&backend, &scgi(0)).ends_with(b"xxxxx"));
}

/// Return bytes that begin as one of the protocols does.
fn hostile(rng: &mut Rng) -> Vec<u8> {
    const STARTS: [&[u8]; 5] = [
        b"\x01\x01\0\x01\0\x08\0\0\0\x01\x01\0\0\0\0\0\x01\x04\0\x01\0\x00\0\0\x01\x05\0\x01\0\0\0\0",
        b"\0\x10\0\0\x0e\0CONTENT_LENGTH\0\0",
        b"19:CONTENT_LENGTH\x0010\0\0,",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\0\x01\x88",
        b"GET /live HTTP/1.1\r\n\r\n",
    ];
    let below = |rng: &mut Rng, n: usize| (rng.unit() * n as f64) as usize;
    let start = STARTS[below(rng, STARTS.len())];
    let mut bytes = start.repeat(1 + below(rng, 3));
    for _ in 0..below(rng, 8) {
        let at = below(rng, bytes.len());
        match below(rng, 3) {
            0 => bytes[at] = rng.bits() as u8,
            1 => bytes.truncate(at.max(1)),
            _ => bytes.insert(at, rng.bits() as u8),
        }
    }
    bytes
}

/// No input panics, or makes a peer write more than a small multiple of what it was sent before
/// any answer.
#[test]
fn no_input_panics() {
    let answers = answers();
    for number in 0..20_000 {
        let mut rng = Rng::new(number);
        let (mut peer, mut asked) = (Peer::new(), Vec::new());
        let bytes = hostile(&mut rng);
        let size = 1 + (rng.unit() * bytes.len() as f64) as usize;
        let taken = bytes
            .chunks(size)
            .try_for_each(|piece| peer.take(piece, &answers, &mut asked));
        assert!(peer.out.len() <= 4 * bytes.len() + 256, "input {number}");
        if taken.is_ok() {
            for request in asked {
                peer.answer(request.stream, answers.of(request.number), &answers);
            }
            peer.pump(&answers);
        }
    }
}
