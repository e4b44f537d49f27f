//! HTTP/2 as a function of bytes: valid and invalid frames of a server, and every way to cut them
//! into pieces.

use proptest::prelude::*;
use serde_json::json;
use tuner_loadgen::errors::Kind;
use tuner_loadgen::http2::Http2;
use tuner_loadgen::http2::frame;
use tuner_loadgen::http2::hpack::{self, Decoder, Keep};
use tuner_loadgen::huffman;
use tuner_loadgen::machine::Machine;

use crate::support::h2::*;

/// The client sends its preface with windows of the largest size, so that no answer ever waits for
/// it.
#[test]
fn preface() {
    let mut out = Vec::new();
    let mut client = Http2::new(1);
    client.open(&mut out);
    assert!(out.starts_with(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    let frames = frames(&out);
    let kinds: Vec<u8> = frames.iter().map(|(head, _)| head.kind).collect();
    assert_eq!(kinds, [frame::SETTINGS, frame::WINDOW_UPDATE]);
    assert_eq!(frames[0].1, b"\0\x02\0\0\0\0\0\x04\x7f\xff\xff\xff");
    assert_eq!(frames[1].1, (0x7fff_ffff_u32 - 65_535).to_be_bytes());
    assert_eq!(
        client.streams(),
        0,
        "no requests before the server's settings"
    );
}

/// As many requests as slots and as the server takes.
#[test]
fn concurrency() {
    assert_eq!(settled(8, &[]).streams(), 8);
    let mut client = settled(8, &[(frame::MAX_CONCURRENT_STREAMS, 3)]);
    assert_eq!(client.streams(), 3);
    let mut out = Vec::new();
    client.request(0, &get(), &mut out).unwrap();
    assert!(client.request(0, &get(), &mut out).is_err(), "it is taken");
    assert!(
        client.request(8, &get(), &mut out).is_err(),
        "there is none"
    );
    let more = settings(&[(frame::MAX_CONCURRENT_STREAMS, 100)]);
    let result = client.receive(&more, &mut out, &mut Log::default());
    assert_eq!((result, client.streams()), (Ok(()), 8));
}

/// Responses of several streams are interleaved; slots are reused with higher streams.
#[test]
fn responses() {
    let mut bytes = frame_of(frame::HEADERS, WHOLE, 3, &block(&[(":status", "404")]));
    bytes.extend(ok(1, b"hello"));
    bytes.extend(frame_of(frame::DATA, frame::END_STREAM, 3, b"none"));
    let (result, events, _) = result_of(&bytes, 2);
    assert_eq!(result, Ok(()));
    let expected = [
        Event::Started(1),
        Event::Started(0),
        Event::Body(0, b"hello".to_vec()),
        Event::Complete(0, 200, 5),
        Event::Body(1, b"none".to_vec()),
        Event::Complete(1, 404, 4),
    ];
    assert_eq!(events, expected);

    let mut client = settled(1, &[]);
    for stream in [1, 3, 5] {
        let mut out = Vec::new();
        client.request(0, &get(), &mut out).unwrap();
        assert_eq!(frames(&out)[0].0.stream, stream);
        let mut log = Log::default();
        let result = client.receive(&ok(stream, b"x"), &mut out, &mut log);
        assert_eq!(result, Ok(()));
        assert_eq!(log.0.last(), Some(&Event::Complete(0, 200, 1)));
    }
}

/// Interim responses, padding, priority, continuations, trailers and unknown frames are read over.
#[test]
fn everything_that_is_allowed() {
    let final_head = block(&[(":status", "200"), ("content-length", "5"), ("x", "y")]);
    let mut padded = vec![3, 0, 0, 0, 0, 16];
    padded.extend(block(&[(":status", "103")]));
    padded.extend([0; 3]);
    let flags = WHOLE | frame::PADDED | frame::WITH_PRIORITY;
    let mut bytes = frame_of(frame::HEADERS, flags, 1, &padded);
    bytes.extend(frame_of(0xbe, 0xff, 7, b"unknown"));
    bytes.extend(frame_of(0xbe, 0, 0, b""));
    bytes.extend(frame_of(frame::HEADERS, 0, 1, &final_head[..3]));
    bytes.extend(frame_of(frame::CONTINUATION, 0, 1, b""));
    bytes.extend(frame_of(frame::CONTINUATION, WHOLE, 1, &final_head[3..]));
    bytes.extend(frame_of(frame::DATA, frame::PADDED, 1, b"\x04hel\0\0\0\0"));
    bytes.extend(frame_of(frame::DATA, 0, 1, b""));
    bytes.extend(frame_of(frame::PRIORITY, 0, 9, &[0; 5]));
    bytes.extend(frame_of(frame::DATA, 0, 1, b"lo"));
    bytes.extend(frame_of(
        frame::HEADERS,
        LAST,
        1,
        &block(&[("grpc-status", "0")]),
    ));
    let (result, events, wrote) = result_of(&bytes, 1);
    let expected = [
        // The interim response has the first byte, and the final one is reported too.
        Event::Started(0),
        Event::Started(0),
        Event::Body(0, b"hello".to_vec()),
        Event::Complete(0, 200, 5),
    ];
    assert_eq!((result, events), (Ok(()), expected.to_vec()));
    assert_eq!(wrote, [], "nothing of that needs an answer");
}

/// Responses that end with their head.
#[test]
fn no_body() {
    let mut bytes = frame_of(frame::HEADERS, LAST, 1, &block(&[(":status", "204")]));
    let announced = block(&[(":status", "304"), ("content-length", "5")]);
    bytes.extend(frame_of(frame::HEADERS, LAST, 3, &announced));
    let (_, events, _) = result_of(&bytes, 2);
    assert_eq!(events[1], Event::Complete(0, 204, 0));
    assert_eq!(events[3], Event::Complete(1, 304, 0));

    let mut client = settled(1, &[]);
    let mut out = Vec::new();
    let head = mix(json!([{"method": "HEAD", "path": "/"}])).remove(0);
    client.request(0, &head, &mut out).unwrap();
    let announced = block(&[(":status", "200"), ("content-length", "5")]);
    let bytes = frame_of(frame::HEADERS, LAST, 1, &announced);
    let mut log = Log::default();
    assert_eq!(client.receive(&bytes, &mut out, &mut log), Ok(()));
    assert_eq!(log.0[1], Event::Complete(0, 200, 0));
}

/// SETTINGS and PING are answered.
#[test]
fn answers() {
    let mut bytes = frame_of(frame::PING, 0, 0, b"12345678");
    bytes.extend(frame_of(frame::PING, frame::ACK, 0, b"87654321"));
    bytes.extend(settings(&[(77, 1)]));
    bytes.extend(frame_of(frame::SETTINGS, frame::ACK, 0, b""));
    let (_, _, wrote) = result_of(&bytes, 0);
    let wrote: Vec<_> = wrote
        .iter()
        .map(|(h, p)| (h.kind, h.flags, &p[..]))
        .collect();
    let pong = (frame::PING, frame::ACK, &b"12345678"[..]);
    assert_eq!(wrote, [pong, (frame::SETTINGS, frame::ACK, &b""[..])]);
}

/// A stream error ends that stream; the others continue.
#[test]
fn stream_errors() {
    let with = |fields: &[(&str, &str)]| frame_of(frame::HEADERS, WHOLE, 1, &block(fields));
    let end = frame_of(frame::DATA, frame::END_STREAM, 1, b"hello");
    let announced = |n: &str| {
        [
            with(&[(":status", "200"), ("content-length", n)]),
            end.clone(),
        ]
        .concat()
    };
    for (bytes, kind) in [
        (end.clone(), Kind::H2Protocol),
        (with(&[("x", "no status")]), Kind::H2Protocol),
        (with(&[(":status", "20x")]), Kind::H2Protocol),
        (with(&[(":status", "101")]), Kind::H2Protocol),
        (
            with(&[(":status", "200"), (":status", "200")]),
            Kind::H2Protocol,
        ),
        (announced("five"), Kind::H2Protocol),
        (announced("6"), Kind::Truncated),
        (announced("4"), Kind::ExcessBytes),
        (
            frame_of(frame::WINDOW_UPDATE, 0, 1, &[0; 4]),
            Kind::H2Protocol,
        ),
        (
            frame_of(frame::WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]),
            Kind::H2FlowControl,
        ),
    ] {
        let (result, events, wrote) = result_of(&[bytes.clone(), ok(3, b"x")].concat(), 2);
        assert_eq!(result, Ok(()), "{kind:?}");
        assert!(
            events.contains(&Event::Failed(0, kind, false)),
            "{events:?}"
        );
        assert_eq!(events.last(), Some(&Event::Complete(1, 200, 1)));
        let reset = wrote
            .iter()
            .any(|(h, _)| (h.kind, h.stream) == (frame::RST_STREAM, 1));
        assert!(reset, "the server receives a reset: {wrote:?}");
    }
}

/// RST_STREAM is reported with its code; a refused request may be sent again.
#[test]
fn resets() {
    for (code, again) in [(0, false), (2, false), (7, true), (11, false), (99, false)] {
        let reset = frame_of(frame::RST_STREAM, 0, 1, &u32::to_be_bytes(code));
        let late = frame_of(frame::DATA, frame::END_STREAM, 1, b"late");
        let (result, events, _) = result_of(&[reset, late, ok(3, b"")].concat(), 2);
        assert_eq!(result, Ok(()));
        assert_eq!(events[0], Event::Failed(0, Kind::StreamReset(code), again));
        assert_eq!(events[2..], [Event::Complete(1, 200, 0)]);
    }
}

/// After GOAWAY, requests above its last stream may be sent again, the others finish, and no new
/// ones start.
#[test]
fn goaway() {
    let goaway = frame_of(frame::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0, b'x']);
    let mut client = settled(4, &[]);
    let mut out = Vec::new();
    client.request(0, &get(), &mut out).unwrap();
    client.request(1, &get(), &mut out).unwrap();
    let mut log = Log::default();
    let result = client.receive(&[goaway, ok(1, b"")].concat(), &mut out, &mut log);
    assert_eq!((result, client.streams()), (Ok(()), 0));
    let expected = [
        Event::Closing,
        Event::Failed(1, Kind::GoAway(0), true),
        Event::Started(0),
        Event::Complete(0, 200, 0),
    ];
    assert_eq!(log.0, expected);
}

/// The end of the stream before a response, within one, and after an angry GOAWAY.
#[test]
fn ends() {
    let heads = frame_of(frame::HEADERS, WHOLE, 1, &block(&[(":status", "200")]));
    for (bytes, kind) in [
        (Vec::new(), Kind::Closed),
        (heads.clone(), Kind::Truncated),
        (
            frame_of(frame::GOAWAY, 0, 0, &[0, 0, 0, 9, 0, 0, 0, 11]),
            Kind::GoAway(11),
        ),
    ] {
        let mut client = settled(1, &[]);
        let mut out = Vec::new();
        client.request(0, &get(), &mut out).unwrap();
        let mut log = Log::default();
        client.receive(&bytes, &mut out, &mut log).unwrap();
        let ended = client.end(&mut log);
        let failed = log.0.last() == Some(&Event::Failed(0, kind, false));
        assert!(ended == Err(kind) || failed, "{ended:?} {log:?}");
    }
}

/// A connection error ends the connection, with the code of the RFC.
#[test]
fn connection_errors() {
    let header = |block: &[u8]| frame_of(frame::HEADERS, WHOLE, 1, block);
    let mut too_large = frame_of(frame::HEADERS, 0, 1, &[0; 16_384]);
    too_large.extend(frame_of(frame::CONTINUATION, 0, 1, &[0; 1]));
    let protocol = (Kind::H2Protocol, frame::PROTOCOL_ERROR);
    let size = (Kind::H2FrameSize, frame::FRAME_SIZE_ERROR);
    let flow = (Kind::H2FlowControl, frame::FLOW_CONTROL_ERROR);
    let compression = (Kind::H2Compression, frame::COMPRESSION_ERROR);
    for (bytes, (kind, code)) in [
        (frame_of(frame::DATA, 0, 0, b"x"), protocol),
        (frame_of(frame::DATA, 0, 2, b"x"), protocol),
        (frame_of(frame::DATA, 0, 5, b"x"), protocol),
        (frame_of(frame::DATA, frame::PADDED, 1, b"\x01"), protocol),
        (frame_of(frame::DATA, frame::PADDED, 1, b""), size),
        (frame_of(frame::DATA, 0, 1, &[0; 16_385]), size),
        (
            frame_of(frame::HEADERS, LAST, 5, &block(&[(":status", "200")])),
            protocol,
        ),
        (
            frame_of(frame::HEADERS, WHOLE | frame::PADDED, 1, b"\x09x"),
            protocol,
        ),
        (frame_of(frame::HEADERS, 0, 1, b""), protocol), // followed by PING below
        (frame_of(frame::CONTINUATION, WHOLE, 1, b""), protocol),
        (
            frame_of(frame::PUSH_PROMISE, WHOLE, 1, &[0, 0, 0, 2]),
            protocol,
        ),
        (frame_of(frame::PRIORITY, 0, 1, b"four"), size),
        (frame_of(frame::RST_STREAM, 0, 1, b"five."), size),
        (frame_of(frame::RST_STREAM, 0, 9, b"four"), protocol),
        (frame_of(frame::SETTINGS, 0, 1, b""), protocol),
        (frame_of(frame::SETTINGS, 0, 0, b"seven.."), size),
        (frame_of(frame::SETTINGS, frame::ACK, 0, b"sixsix"), size),
        (settings(&[(frame::ENABLE_PUSH, 1)]), protocol),
        (settings(&[(frame::INITIAL_WINDOW_SIZE, 1 << 31)]), flow),
        (settings(&[(frame::MAX_FRAME_SIZE, 1)]), protocol),
        (frame_of(frame::PING, 0, 1, b"12345678"), protocol),
        (frame_of(frame::PING, 0, 0, b"1234567"), size),
        (frame_of(frame::GOAWAY, 0, 1, &[0; 8]), protocol),
        (frame_of(frame::GOAWAY, 0, 0, &[0; 7]), size),
        (frame_of(frame::WINDOW_UPDATE, 0, 0, &[0; 4]), protocol),
        (
            frame_of(frame::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
            flow,
        ),
        (header(&[0x80]), compression),
        (header(&[0xc0]), compression),
        (header(&[0x3f, 0xff, 0xff, 0xff, 0xff, 0xff]), compression),
        (header(&[0x88, 0x20]), compression),
        (header(&[0x00, 0x81, 0xff]), compression),
        (header(&[0x00, 0x05, b'x']), compression),
        (too_large, (Kind::HeadTooLarge, frame::ENHANCE_YOUR_CALM)),
    ] {
        let bytes = [bytes, frame_of(frame::PING, 0, 0, b"12345678")].concat();
        let (result, _, wrote) = result_of(&bytes, 1);
        assert_eq!(result, Err(kind), "{:?}", &bytes[..bytes.len().min(40)]);
        let (head, payload) = wrote.last().unwrap();
        assert_eq!(head.kind, frame::GOAWAY);
        assert_eq!(payload[4..], code.to_be_bytes(), "{kind:?}");
    }
}

/// A server with another protocol is detected by its first bytes.
#[test]
fn garbage() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &frame_of(frame::SETTINGS, frame::ACK, 0, b""),
        &frame_of(frame::PING, 0, 0, b"12345678"),
    ] {
        let mut out = Vec::new();
        let mut client = Http2::new(1);
        let result = client.receive(bytes, &mut out, &mut Log::default());
        assert_eq!(result, Err(Kind::Garbage));
    }
}

/// Replies that the peer does not read are limited.
#[test]
fn flood() {
    let pings = frame_of(frame::PING, 0, 0, b"12345678").repeat(100_000);
    let (result, _, _) = result_of(&pings, 1);
    assert_eq!(result, Err(Kind::H2Flood));
}

/// Bodies are written as far as the server's windows go, and on as credit comes.
#[test]
fn uploads() {
    let mut client = settled(2, &[(frame::INITIAL_WINDOW_SIZE, 10)]);
    let mut out = Vec::new();
    client.request(0, &post(25), &mut out).unwrap();
    let wrote = frames(&out);
    assert!(!wrote[0].0.has(frame::END_STREAM));
    assert_eq!((wrote[1].0.kind, wrote[1].0.length), (frame::DATA, 10));

    out.clear();
    let credit = frame_of(frame::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 5]);
    client
        .receive(&credit, &mut out, &mut Log::default())
        .unwrap();
    let wrote = frames(&out);
    assert_eq!((wrote[0].0.length, wrote[0].0.flags), (5, 0));

    // A change of the initial window reaches streams that are open.
    out.clear();
    let larger = settings(&[(frame::INITIAL_WINDOW_SIZE, 100)]);
    client
        .receive(&larger, &mut out, &mut Log::default())
        .unwrap();
    let wrote = frames(&out);
    let data = wrote
        .iter()
        .find(|(head, _)| head.kind == frame::DATA)
        .unwrap();
    assert_eq!((data.0.length, data.0.flags), (10, frame::END_STREAM));
    out.clear();
    client.pump(&mut out);
    assert!(out.is_empty(), "all is written, or given up");
}

/// A body larger than all windows stops at the connection's window, and continues in frames of 16
/// KB; an early answer ends it.
#[test]
fn large_uploads() {
    let mut client = settled(1, &[(frame::INITIAL_WINDOW_SIZE, 1 << 30)]);
    let mut out = Vec::new();
    client.request(0, &post(1 << 20), &mut out).unwrap();
    let sizes: Vec<usize> = frames(&out)[1..].iter().map(|(h, _)| h.length).collect();
    assert_eq!(sizes, [16_384, 16_384, 16_384, 16_383]);
    out.clear();
    let credit = frame_of(frame::WINDOW_UPDATE, 0, 0, &[0, 0x10, 0, 0]);
    client
        .receive(&credit, &mut out, &mut Log::default())
        .unwrap();
    assert!(out.len() < 200_000, "what is not taken yet is not copied");
    out.clear();
    let mut log = Log::default();
    client.receive(&ok(1, b""), &mut out, &mut log).unwrap();
    assert_eq!(log.0.last(), Some(&Event::Complete(0, 200, 0)));
    assert_eq!(frames(&out)[0].0.kind, frame::RST_STREAM);
    out.clear();
    client.pump(&mut out);
    assert!(out.is_empty(), "all is written, or given up");
}

/// A request that is given up frees its slot, and its late answer is ignored.
#[test]
fn cancelled() {
    let mut client = settled(1, &[]);
    let mut out = Vec::new();
    client.request(0, &get(), &mut out).unwrap();
    out.clear();
    client.cancel(0, &mut out);
    assert_eq!(frames(&out)[0].0.kind, frame::RST_STREAM);
    client.request(0, &get(), &mut out).unwrap();
    let mut log = Log::default();
    let bytes = [ok(1, b"late"), ok(3, b"x")].concat();
    client.receive(&bytes, &mut out, &mut log).unwrap();
    let x = Event::Body(0, b"x".to_vec());
    assert_eq!(log.0, [Event::Started(0), x, Event::Complete(0, 200, 1)]);
}

/// A mix shares the fields that all of its requests have, and only those.
#[test]
fn shared_fields() {
    let requests = mix(json!([
        {"path": "/a", "headers": [["Accept", "*/*"], ["X-Same", "same"], ["Connection", "close"]]},
        {"path": "/b", "headers": [["X-Same", "same"], ["X-Own", "own"]]},
    ]));
    // :method and :scheme are static; :authority and x-same are entered, the last one first.
    let path = |path: &str| {
        let mut block = Vec::new();
        hpack::encode(":path", path, Keep::No, &mut block);
        block
    };
    let own = |name: &str, value: &str| {
        let mut block = Vec::new();
        hpack::encode(name, value, Keep::No, &mut block);
        block
    };
    let expected = [
        &[0xbf, 0x82, 0x87][..],
        &path("/a"),
        &[0xbe],
        &own("accept", "*/*"),
    ]
    .concat();
    assert_eq!(*requests[0].http2.next, *expected);
    let expected = [
        &[0xbf, 0x82, 0x87][..],
        &path("/b"),
        &[0xbe],
        &own("x-own", "own"),
    ]
    .concat();
    assert_eq!(*requests[1].http2.next, *expected);
}

/// Among the fields of a connection, only `te: trailers` may be sent.
#[test]
fn fields_of_connections() {
    let requests = mix(json!([
        {"path": "/", "headers": [["TE", "trailers"]]},
        {"path": "/", "headers": [["TE", "gzip"], ["Upgrade", "x"]]},
    ]));
    let mut trailers = Vec::new();
    hpack::encode("te", "trailers", Keep::No, &mut trailers);
    assert!(requests[0].http2.plain.ends_with(&trailers));
    assert_eq!(
        requests[0].http2.plain.len(),
        requests[1].http2.plain.len() + trailers.len()
    );
}

/// The first request inserts the shared fields, the next ones refer to them; a server without a
/// table receives no references.
#[test]
fn tables() {
    let request = get();
    let head = |client: &mut Http2| {
        let mut out = Vec::new();
        client.request(0, &request, &mut out).unwrap();
        client.cancel(0, &mut Vec::new());
        frames(&out).remove(0).1
    };
    let mut client = settled(1, &[]);
    assert_eq!(head(&mut client), *request.http2.first);
    assert_eq!(head(&mut client), *request.http2.next);
    let mut client = settled(1, &[(frame::HEADER_TABLE_SIZE, 0)]);
    assert_eq!(head(&mut client), [&[0x20], &*request.http2.plain].concat());
    assert_eq!(head(&mut client), *request.http2.plain);
}

/// Long heads go in several frames.
#[test]
fn long_requests() {
    let value = "\u{7f}".repeat(20_000);
    let request = mix(json!([{"path": "/", "headers": [["x", value]]}])).remove(0);
    let mut client = settled(1, &[]);
    let mut out = Vec::new();
    client.request(0, &request, &mut out).unwrap();
    let wrote = frames(&out);
    let kinds: Vec<_> = wrote
        .iter()
        .map(|(h, _)| (h.kind, h.flags, h.length))
        .collect();
    assert_eq!(kinds[0], (frame::HEADERS, frame::END_STREAM, 16_384));
    assert_eq!((kinds[1].0, kinds[1].1), (frame::CONTINUATION, WHOLE));
}

// ---------------------------------------------------------------- any bytes

/// Frames that are nearly right, so that every state is met.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let small = prop::collection::vec(any::<u8>(), 0..40);
    let stream = prop_oneof![4 => 0..8u32, 1 => any::<u32>()];
    let framed = (0..11u8, any::<u8>(), stream, small.clone())
        .prop_map(|(kind, flags, stream, payload)| frame_of(kind, flags, stream, &payload));
    let status = prop_oneof![Just("200"), Just("100"), Just("304"), Just("x")];
    let head = (status, 0..8u32, any::<u8>()).prop_map(|(status, stream, flags)| {
        let flags = flags & !frame::PADDED & !frame::WITH_PRIORITY;
        frame_of(
            frame::HEADERS,
            flags,
            stream,
            &block(&[(":status", status)]),
        )
    });
    let set = (1..7u16, prop_oneof![0..20_000u32, any::<u32>()])
        .prop_map(|(id, value)| settings(&[(id, value)]));
    let good = (0..4u32, small.clone()).prop_map(|(n, body)| ok(2 * n + 1, &body));
    let piece = prop_oneof![3 => good, 3 => framed, 2 => head, 1 => set, 1 => small];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// The result of a stream for a client with four requests in progress, one of them with a body.
fn cut(stream: &[u8], cuts: &[usize]) -> (Result<(), Kind>, Vec<Event>, Vec<u8>) {
    let mut client = settled(4, &[]);
    let mut out = Vec::new();
    for slot in 0..3 {
        client.request(slot, &get(), &mut out).unwrap();
    }
    client.request(3, &post(200_000), &mut out).unwrap();
    out.clear();
    let mut log = Log::default();
    let mut at = 0;
    for cut in cuts.iter().copied().chain([stream.len()]) {
        let cut = cut.clamp(at, stream.len());
        let result = client.receive(&stream[at..cut], &mut out, &mut log);
        if result.is_err() {
            return (result, log.0, out);
        }
        at = cut;
    }
    let ended = client.end(&mut log);
    (ended, log.0, out)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However a stream is cut, the same comes out, and every request ends once.
    #[test]
    fn cuts_do_not_matter(
        stream in streams(),
        mut cuts in prop::collection::vec(0..400usize, 0..20),
    ) {
        cuts.sort_unstable();
        let in_one = cut(&stream, &[]);
        prop_assert_eq!(&cut(&stream, &cuts), &in_one);
        let bytewise: Vec<usize> = (1..stream.len()).collect();
        prop_assert_eq!(&cut(&stream, &bytewise), &in_one);
        for slot in 0..4 {
            let ends = in_one.1.iter().filter(|event| {
                matches!(event, Event::Complete(of, ..) | Event::Failed(of, ..) if *of == slot)
            });
            let ends = ends.count();
            prop_assert!(ends == 1 || ends == 0 && in_one.0.is_err(), "{:?}", in_one);
        }
    }

    /// No bytes make it panic.
    #[test]
    fn any_bytes_are_survived(stream in prop::collection::vec(any::<u8>(), 0..500)) {
        let mut out = Vec::new();
        let mut client = Http2::new(4);
        let _ = client.receive(&stream, &mut out, &mut Log::default());
        let _ = cut(&stream, &[]);
        let _ = Decoder::new().decode(&stream);
        let _ = huffman::decode(&stream, |_| {});
    }
}
