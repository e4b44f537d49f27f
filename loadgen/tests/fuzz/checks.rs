//! Checks of the readers of foreign bytes, each a function of any input; a check that fails panics.
//!
//! `tests/fuzz.rs` calls them with inputs that are made from numbers and with every input that once
//! failed; `fuzz/` calls them with inputs that libFuzzer chooses by coverage.

use std::sync::LazyLock;

use serde_json::json;
use tuner_loadgen::backend::{Answers, Peer};
use tuner_loadgen::errors::Kind;
use tuner_loadgen::fields::Fields;
use tuner_loadgen::http1::{self, Parser};
use tuner_loadgen::http2::Http2;
use tuner_loadgen::http2::frame;
use tuner_loadgen::http2::hpack::Decoder;
use tuner_loadgen::http3::{self, Control, Response, qpack};
use tuner_loadgen::huffman;
use tuner_loadgen::instants;
use tuner_loadgen::machine::{Machine as _, Sink};
use tuner_loadgen::plan::{self, InstantsUnit, Mode, Plan, urls};
use tuner_loadgen::prepare;
use tuner_loadgen::request::Prepared;

/// A reader's check.
pub type Check = fn(&[u8]);

/// All checks, by the name of the reader.
pub const ALL: [(&str, Check); 8] = [
    ("http1", http1),
    ("hpack", hpack),
    ("qpack", qpack),
    ("http2", http2),
    ("http3", http3),
    ("plan", plan),
    ("lists", lists),
    ("backend", backend),
];

// ---------------------------------------------------------------- HTTP/1.1

/// The outcome of parsing one response.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    /// Bytes of a complete response, `None` if it is incomplete, or the fault.
    pub result: Result<Option<usize>, http1::Fault>,
    status: u16,
    body: Vec<u8>,
    keep_alive: bool,
    end: Result<(), http1::Fault>,
}

/// Parse a stream in pieces of the given lengths.
pub fn parse(stream: &[u8], head: bool, mut piece: impl FnMut() -> usize) -> Parsed {
    let mut parser = Parser::new();
    parser.expect(head);
    let (mut body, mut at, mut result) = (Vec::new(), 0, Ok(None));
    while at < stream.len() {
        let to = (at + piece().max(1)).min(stream.len());
        match parser.feed(&stream[at..to], |bytes| body.extend_from_slice(bytes)) {
            Ok(None) => at = to,
            Ok(Some(used)) => {
                assert!(used <= to - at, "no more is used than there was");
                result = Ok(Some(at + used));
                break;
            }
            Err(fault) => {
                result = Err(fault);
                break;
            }
        }
    }
    assert_eq!(parser.length, body.len() as u64);
    let end = if result == Ok(None) {
        parser.end()
    } else {
        Ok(())
    };
    Parsed {
        result,
        status: parser.status,
        body,
        keep_alive: parser.keep_alive,
        end,
    }
}

/// The result of a response does not depend on how it is cut. The first byte chooses the pieces and
/// the method.
pub fn http1(data: &[u8]) {
    let Some((choice, stream)) = data.split_first() else {
        return;
    };
    let head = choice & 0x80 != 0;
    let whole = parse(stream, head, || usize::MAX / 2);
    let in_pieces = parse(stream, head, pieces(choice & 0x7f));
    assert_eq!(in_pieces, whole);
}

/// Return lengths of pieces: alternately short and long ones.
fn pieces(choice: u8) -> impl FnMut() -> usize {
    let (short, long) = (
        1 + usize::from(choice & 7),
        1 + usize::from(choice >> 3) * 4,
    );
    let mut odd = false;
    move || {
        odd = !odd;
        if odd { short } else { long }
    }
}

// ---------------------------------------------------------------- header compression

/// Blocks of one connection decode without a panic. Each begins with its length in a byte. What
/// Huffman's code decodes is encoded as it was.
pub fn hpack(data: &[u8]) {
    let mut decoder = Decoder::new();
    for block in blocks(data) {
        match decoder.decode(block) {
            Ok(fields) => sound(&fields),
            Err(_) => break,
        }
    }
    let mut text = Vec::new();
    if huffman::decode(data, |octet| text.push(octet)).is_ok() {
        let mut coded = Vec::new();
        huffman::encode(&text, &mut coded);
        assert_eq!(coded, data, "a text has one code");
        assert_eq!(coded.len(), huffman::coded_length(&text));
    }
}

/// A section decodes without a panic, and alike every time.
pub fn qpack(data: &[u8]) {
    let decoded = qpack::decode(data);
    if let Ok(fields) = &decoded {
        sound(fields);
    }
    assert_eq!(decoded, qpack::decode(data));
}

fn blocks(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first()?;
        let (block, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        data = rest;
        Some(block)
    })
}

/// Check that fields without an error have a valid status.
fn sound(fields: &Fields) {
    let good = fields
        .status
        .is_none_or(|status| (100..=999).contains(&status));
    assert!(good || fields.malformed, "{fields:?}");
}

// ---------------------------------------------------------------- HTTP/2

/// Events of a connection; pieces of bodies are joined.
#[derive(Debug, Default, PartialEq)]
struct Events(Vec<Event>);

#[derive(Debug, PartialEq)]
enum Event {
    Started(u32),
    Body(u32, u64),
    Complete(u32, u16, u64),
    Failed(u32, Kind, bool),
    Closing,
}

impl Sink for Events {
    fn started(&mut self, stream: u32) {
        self.0.push(Event::Started(stream));
    }
    fn body(&mut self, stream: u32, bytes: &[u8]) {
        let more = bytes.len() as u64;
        match self.0.last_mut() {
            _ if more == 0 => {}
            Some(Event::Body(of, length)) if *of == stream => *length += more,
            _ => self.0.push(Event::Body(stream, more)),
        }
    }
    fn complete(&mut self, stream: u32, status: u16, length: u64) {
        self.0.push(Event::Complete(stream, status, length));
    }
    fn failed(&mut self, stream: u32, kind: Kind, again: bool) {
        self.0.push(Event::Failed(stream, kind, again));
    }
    fn closing(&mut self) {
        self.0.push(Event::Closing);
    }
    fn now(&mut self) -> u64 {
        0
    }
    fn sent(&mut self, _bytes: usize) {}
    fn written(&mut self, _stream: u32, _at: u64) {}
}

static REQUESTS: LazyLock<Vec<Prepared>> = LazyLock::new(|| {
    use base64::Engine as _;
    let body = base64::engine::general_purpose::STANDARD.encode([b'x'; 70_000]);
    let mix: Vec<plan::Request> = serde_json::from_value(json!([
        {"path": "/"},
        {"path": "/", "method": "POST", "body_base64": body},
        {"path": "/", "method": "HEAD"},
    ]))
    .expect("valid requests");
    prepare::all(&mix, "localhost", "https").to_vec()
});

/// Events and replies of a connection do not depend on how the server's bytes are cut. The first
/// two bytes choose the number of streams, whether settings come first, and the pieces; requests
/// are sent before each half of the rest.
pub fn http2(data: &[u8]) {
    let [choice, cut, stream @ ..] = data else {
        return;
    };
    let whole = connection(*choice, stream, || usize::MAX / 2);
    let in_pieces = connection(*choice, stream, pieces(*cut));
    assert_eq!(in_pieces, whole);
}

fn connection(
    choice: u8,
    stream: &[u8],
    mut piece: impl FnMut() -> usize,
) -> (Result<(), Kind>, Events, Vec<u8>) {
    let slots = 1 + u32::from(choice & 3);
    let (mut peer, mut out, mut events) = (Http2::new(slots), Vec::new(), Events::default());
    peer.open(&mut out);
    let mut result = Ok(());
    if choice & 4 != 0 {
        let mut settings = Vec::new();
        frame::write(frame::SETTINGS, 0, 0, &[], &mut settings);
        result = peer.receive(&settings, &mut out, &mut events);
        assert_eq!(result, Ok(()));
    }
    let (first, second) = stream.split_at(stream.len() / 2);
    for mut half in [first, second] {
        for slot in 0..peer.streams() {
            let request = &REQUESTS[(slot as usize + usize::from(choice >> 3)) % REQUESTS.len()];
            // A slot with a request refuses another.
            let _ = peer.request(slot, request, &mut out);
        }
        while result.is_ok() && !half.is_empty() {
            let (now, rest) = half.split_at(piece().min(half.len()));
            result = peer.receive(now, &mut out, &mut events);
            half = rest;
        }
    }
    let result = result.and_then(|()| peer.end(&mut events));
    (result, events, out)
}

// ---------------------------------------------------------------- HTTP/3

/// A response and the control streams read alike however their bytes are cut. The first two bytes
/// choose what is read and the pieces.
pub fn http3(data: &[u8]) {
    let [choice, cut, stream @ ..] = data else {
        return;
    };
    if choice & 1 == 0 {
        let head = choice & 2 != 0;
        let whole = response(head, stream, || usize::MAX / 2);
        assert_eq!(response(head, stream, pieces(*cut)), whole);
    } else {
        let whole = control(stream, || usize::MAX / 2);
        assert_eq!(control(stream, pieces(*cut)), whole);
    }
}

/// The status, and the length of a complete body: how much of a faulty one arrives before its fault
/// depends on the pieces.
type Answer = Result<(u16, u64), http3::Fault>;

fn response(head: bool, mut stream: &[u8], mut piece: impl FnMut() -> usize) -> Answer {
    let mut response = Response::new();
    response.expect(head);
    let mut length = 0;
    while !stream.is_empty() {
        let (now, rest) = stream.split_at(piece().min(stream.len()));
        response.feed(now, |bytes| length += bytes.len() as u64)?;
        assert_eq!(length, response.length);
        stream = rest;
    }
    response.end()?;
    Ok((response.status, response.length))
}

/// Read the two halves as two of the server's streams.
fn control(stream: &[u8], mut piece: impl FnMut() -> usize) -> (Result<(), u64>, Option<u64>) {
    let mut control = Control::default();
    let (first, second) = stream.split_at(stream.len() / 2);
    let mut result = Ok(());
    for (id, mut half) in [(3, first), (7, second)] {
        while result.is_ok() && !half.is_empty() {
            let (now, rest) = half.split_at(piece().min(half.len()));
            result = control.feed(id, now);
            half = rest;
        }
    }
    let result = result.and_then(|()| control.end(7));
    (result, control.goaway)
}

// ---------------------------------------------------------------- plan

/// An error is one line, and an accepted plan is sound.
pub fn plan(data: &[u8]) {
    accepts(data);
}

/// Check a plan and return whether it is accepted.
pub fn accepts(data: &[u8]) -> bool {
    match Plan::read(&String::from_utf8_lossy(data)) {
        Ok(plan) => {
            assert_sound(&plan);
            true
        }
        Err(error) => {
            let words = error.to_string();
            assert!(
                !words.contains(char::is_control) && words.len() > 10,
                "{words:?}"
            );
            false
        }
    }
}

/// Check an accepted plan: all derived values are finite, and nothing is offered beyond the
/// request.
fn assert_sound(plan: &Plan) {
    for request in plan.requests.iter().filter(|r| r.urls_file.is_none()) {
        let prepared = &prepare::all(std::slice::from_ref(request), "host", "http")[0];
        let end = prepared.http1.windows(4).position(|w| w == b"\r\n\r\n");
        let head = &prepared.http1[..end.expect("a head has an end")];
        let lines = head.iter().filter(|byte| **byte == b'\n').count();
        assert!(lines <= request.headers.len() + 2, "a value became a line");
        let length = prepared.http1.len() - head.len() - 4;
        assert_eq!(length, request.body().map_or(0, |body| body.len()));
    }
    for window in &plan.windows {
        assert!(window.duration_ns() <= 86_400_000_000_000);
        assert!(window.timeout_ns() > 0 && window.connections > 0);
        assert!(
            window
                .warmup_ns()
                .checked_add(window.duration_ns())
                .is_some()
        );
        let rated = window.mode == Mode::Closed || window.instants_file.is_some();
        assert!(rated || !window.pieces().is_empty());
        for piece in window.pieces() {
            assert!(piece.for_s > 0.0 && piece.rate_per_s.is_finite());
        }
    }
}

/// The files that a plan names: URLs have a positive weight, and instants ascend within the window.
pub fn lists(data: &[u8]) {
    const DURATION_NS: u64 = 1_000_000_000;
    let text = String::from_utf8_lossy(data);
    if let Ok(entries) = urls::parse(&text) {
        for entry in entries {
            assert!(entry.weight > 0.0 && entry.weight.is_finite());
            assert!(entry.path.starts_with('/'), "{:?}", entry.path);
        }
    }
    for unit in [InstantsUnit::S, InstantsUnit::Ns] {
        if let Ok(instants) = instants::parse(&text, unit, DURATION_NS) {
            assert!(instants.is_sorted());
            assert!(instants.last().is_some_and(|last| *last < DURATION_NS));
        }
    }
    let _ = Answers::parse(&text);
}

// ---------------------------------------------------------------- backend

static ANSWERS: LazyLock<Answers> = LazyLock::new(|| {
    let text = "x".repeat(70_000);
    Answers::parse(&format!(
        r#"{{"live_path":"/live","live_token":"alive","content_type":"text/html","text":"{text}",
        "answers":[{{"size":5}},{{"size":70000}}]}}"#
    ))
    .expect("valid answers")
});

/// A backend answers or closes on any bytes of a proxy; what it holds to send has a limit.
pub fn backend(data: &[u8]) {
    let Some((cut, mut stream)) = data.split_first() else {
        return;
    };
    let (mut peer, mut asked, mut piece) = (Peer::new(), Vec::new(), pieces(*cut));
    while !stream.is_empty() && !peer.ends() {
        let (now, rest) = stream.split_at(piece().min(stream.len()));
        if peer.take(now, &ANSWERS, &mut asked).is_err() {
            break;
        }
        for one in asked.drain(..) {
            peer.answer(one.stream, ANSWERS.of(one.number), &ANSWERS);
        }
        peer.out.clear();
        peer.pump(&ANSWERS);
        stream = rest;
    }
}
