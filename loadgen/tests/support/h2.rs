//! An HTTP/2 client without a socket, and frames of a server.

use serde_json::{Value, json};
use tuner_loadgen::errors::Kind;
use tuner_loadgen::http2::Http2;
use tuner_loadgen::http2::frame::{self, Head};
use tuner_loadgen::http2::hpack::{self, Keep};
use tuner_loadgen::machine::{Machine, Sink};
use tuner_loadgen::plan;
use tuner_loadgen::prepare;
use tuner_loadgen::request::Prepared;

/// An event of a connection; pieces of bodies are joined.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Started(u32),
    Body(u32, Vec<u8>),
    Complete(u32, u16, u64),
    Failed(u32, Kind, bool),
    Closing,
}

#[derive(Debug, Default)]
pub struct Log(pub Vec<Event>);

impl Sink for Log {
    fn started(&mut self, slot: u32) {
        self.0.push(Event::Started(slot));
    }
    fn body(&mut self, slot: u32, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(Event::Body(of, body)) if *of == slot => body.extend_from_slice(bytes),
            _ => self.0.push(Event::Body(slot, bytes.to_vec())),
        }
    }
    fn complete(&mut self, slot: u32, status: u16, length: u64) {
        self.0.push(Event::Complete(slot, status, length));
    }
    fn failed(&mut self, slot: u32, kind: Kind, again: bool) {
        self.0.push(Event::Failed(slot, kind, again));
    }
    fn closing(&mut self) {
        self.0.push(Event::Closing);
    }
    fn now(&mut self) -> u64 {
        0
    }
    fn sent(&mut self, _bytes: usize) {}
    fn written(&mut self, _slot: u32, _at: u64) {}
}

pub fn mix(requests: Value) -> Vec<Prepared> {
    let requests: Vec<plan::Request> = serde_json::from_value(requests).unwrap();
    prepare::all(&requests, "localhost", "https").to_vec()
}

pub fn get() -> Prepared {
    mix(json!([{"path": "/"}])).remove(0)
}

pub fn post(bytes: usize) -> Prepared {
    use base64::Engine as _;
    let body = base64::engine::general_purpose::STANDARD.encode(vec![b'x'; bytes]);
    mix(json!([{"method": "POST", "path": "/", "body_base64": body}])).remove(0)
}

/// A frame of the server's.
pub fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(kind, flags, stream, payload, &mut out);
    out
}

pub fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = settings
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame_of(frame::SETTINGS, 0, 0, &payload)
}

/// A header block of these fields, which enters none.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        hpack::encode(name, value, Keep::No, &mut block);
    }
    block
}

pub const WHOLE: u8 = frame::END_HEADERS;
pub const LAST: u8 = frame::END_HEADERS | frame::END_STREAM;

pub fn ok(stream: u32, body: &[u8]) -> Vec<u8> {
    let mut out = frame_of(frame::HEADERS, WHOLE, stream, &block(&[(":status", "200")]));
    out.extend(frame_of(frame::DATA, frame::END_STREAM, stream, body));
    out
}

/// Split the bytes of a client into frames, after its preface if there is one.
pub fn frames(mut bytes: &[u8]) -> Vec<(Head, Vec<u8>)> {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    bytes = bytes.strip_prefix(preface).unwrap_or(bytes);
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let head = Head::read(bytes[..frame::HEAD].try_into().unwrap());
        let (payload, rest) = bytes[frame::HEAD..].split_at(head.length);
        frames.push((head, payload.to_vec()));
        bytes = rest;
    }
    frames
}

/// Return a client that has sent its preface and received these settings.
pub fn settled(slots: u32, with: &[(u16, u32)]) -> Http2 {
    let mut out = Vec::new();
    let mut client = Http2::new(slots);
    client.open(&mut out);
    let result = client.receive(&settings(with), &mut out, &mut Log::default());
    assert_eq!((result, client.ready()), (Ok(()), true));
    client
}

/// The result of bytes for a client with `open` requests in progress: the result, the events, and
/// the frames that it wrote.
pub type Results = (Result<(), Kind>, Vec<Event>, Vec<(Head, Vec<u8>)>);
pub fn result_of(bytes: &[u8], open: u32) -> Results {
    let mut client = settled(4, &[]);
    let mut out = Vec::new();
    for slot in 0..open {
        client.request(slot, &get(), &mut out).unwrap();
    }
    out.clear();
    let mut log = Log::default();
    let result = client.receive(bytes, &mut out, &mut log);
    (result, log.0, frames(&out))
}
