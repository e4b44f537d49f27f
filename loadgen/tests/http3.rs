//! HTTP/3 as a function of bytes: valid and invalid ones, cut in every way.

use proptest::prelude::*;
use tuner_loadgen::fields::Fields;
use tuner_loadgen::http3::qpack;
use tuner_loadgen::http3::{Control, Fault, MAX_HEAD, Response, code, preface};
use tuner_loadgen::prepare;

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 0x80];
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend_from_slice(payload);
    bytes
}

fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    qpack::encode_prefix(&mut bytes);
    for (name, value) in fields {
        qpack::encode(name, value, &mut bytes);
    }
    bytes
}

fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(1, &section(fields))
}

/// Parse bytes in pieces of this size; return status, body, and how the stream ended.
fn parse(bytes: &[u8], piece: usize) -> (u16, Vec<u8>, Result<(), Fault>) {
    let mut response = Response::new();
    let mut body = Vec::new();
    for piece in bytes.chunks(piece) {
        if let Err(fault) = response.feed(piece, |bytes| body.extend_from_slice(bytes)) {
            return (response.status, body, Err(fault));
        }
    }
    (response.status, body, response.end())
}

fn fault(bytes: &[u8]) -> Fault {
    let whole = parse(bytes, usize::MAX).2;
    assert_eq!(whole, parse(bytes, 1).2);
    whole.unwrap_err()
}

/// A request as it is written.
fn request(text: &str) -> Vec<u8> {
    let mix = [serde_json::from_str(text).unwrap()];
    prepare::all(&mix, "example", "https")[0].http3.concat()
}

/// A response with everything a response may have, cut into pieces of every size.
#[test]
fn every_cut() {
    let bytes = [
        headers(&[(":status", "103"), ("link", "</a.css>")]),
        headers(&[(":status", "200"), ("content-length", "10"), ("x-a", "b")]),
        frame(0x21, b"reserved"),
        frame(0, b"hello"),
        frame(0, b""),
        frame(0, b"world"),
        headers(&[("x-checksum", "1")]),
        frame(0x21, b""),
    ]
    .concat();
    for piece in 1..=bytes.len() {
        let (status, body, end) = parse(&bytes, piece);
        assert_eq!(
            (status, body.as_slice(), end),
            (200, &b"helloworld"[..], Ok(()))
        );
    }
}

/// A response that is cut before its end is not complete, if its length was announced.
#[test]
fn truncated() {
    let bytes = [
        headers(&[(":status", "200"), ("content-length", "5")]),
        frame(0, b"hello"),
    ]
    .concat();
    for end in 0..bytes.len() {
        assert_eq!(fault(&bytes[..end]), Fault::Truncated);
    }
    assert_eq!(parse(&bytes, 3).2, Ok(()));
}

/// A response to HEAD, and 304, announce a length and have no body.
#[test]
fn bodiless() {
    let mut response = Response::new();
    response.expect(true);
    let head = headers(&[(":status", "200"), ("content-length", "5")]);
    response.feed(&head, |_| ()).unwrap();
    assert_eq!(response.end(), Ok(()));
    let not_modified = headers(&[(":status", "304"), ("content-length", "5")]);
    assert_eq!(parse(&not_modified, 1).2, Ok(()));
}

/// A malformed message ends the stream.
#[test]
fn malformed() {
    let ok = || headers(&[(":status", "200")]);
    for bytes in [
        headers(&[("x", "y")]),
        headers(&[(":status", "abc")]),
        headers(&[(":status", "99")]),
        headers(&[(":status", "101")]),
        headers(&[(":status", "200"), (":status", "200")]),
        headers(&[(":status", "200"), ("content-length", "-1")]),
        [ok(), headers(&[(":status", "200")])].concat(),
        [
            headers(&[(":status", "200"), ("content-length", "4")]),
            frame(0, b"hello"),
        ]
        .concat(),
    ] {
        assert_eq!(fault(&bytes), Fault::Malformed);
    }
    let large = frame(1, &vec![0; MAX_HEAD + 1]);
    assert_eq!(fault(&large), Fault::HeadTooLarge);
}

/// A protocol error ends the connection, with its code.
#[test]
fn against_the_protocol() {
    let ok = || headers(&[(":status", "200")]);
    for (bytes, code) in [
        (frame(0, b"body first"), code::FRAME_UNEXPECTED),
        (frame(4, b""), code::FRAME_UNEXPECTED),
        (frame(7, b"\0"), code::FRAME_UNEXPECTED),
        (frame(6, b""), code::FRAME_UNEXPECTED),
        (frame(5, b"\0"), code::ID),
        (frame(1, b"\x01\0"), code::QPACK_DECOMPRESSION_FAILED),
        (frame(1, b"\0\0\xff\xff"), code::QPACK_DECOMPRESSION_FAILED),
        (frame(1, b"\0\0\x80"), code::QPACK_DECOMPRESSION_FAILED),
        (frame(1, b""), code::QPACK_DECOMPRESSION_FAILED),
    ] {
        assert_eq!(fault(&bytes), Fault::Connection(code), "{bytes:?}");
    }
    let trailers = || headers(&[("x", "y")]);
    let after = [ok(), trailers(), frame(0, b"more")].concat();
    assert_eq!(fault(&after), Fault::Connection(code::FRAME_UNEXPECTED));
}

/// The example of RFC 9204, B.1, and the statuses that the static table does not hold.
#[test]
fn field_sections() {
    let example = b"\0\0\x51\x0b/index.html";
    assert_eq!(qpack::decode(example), Ok(Fields::default()));
    for status in [100, 200, 206, 299, 404, 429, 502, 599] {
        let fields = qpack::decode(&section(&[(":status", &status.to_string())])).unwrap();
        assert_eq!(fields.status, Some(status));
    }
    // A name in full, though the table has it.
    let fields = qpack::decode(b"\0\0\x27\x00:status\x03429").unwrap();
    assert_eq!(fields.status, Some(429));
}

/// A request has its pseudo-fields, omits connection-specific fields, and adds the body's length.
#[test]
fn requests() {
    let plain = request(r#"{"path": "/"}"#);
    let expected = section(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "example"),
        (":path", "/"),
    ]);
    assert_eq!(plain[0], 1);
    assert_eq!(usize::from(plain[1]), expected.len());
    assert_eq!(plain[2..], expected);
    let full = request(
        r#"{"path": "/a", "method": "POST", "body_base64": "aGVsbG8=", "headers":
        [["Host", "other"], ["Connection", "close"], ["TE", "gzip"], ["X-A", "b"]]}"#,
    );
    let expected = section(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "other"),
        (":path", "/a"),
        ("x-a", "b"),
        ("content-length", "5"),
    ]);
    assert_eq!(full[2..2 + expected.len()], expected);
    assert_eq!(&full[2 + expected.len()..], b"\0\x05hello");
}

/// Feed one of the server's streams, whole and byte by byte.
fn control(bytes: &[u8]) -> (Result<(), u64>, Option<u64>) {
    let mut whole = Control::default();
    let said = whole.feed(3, bytes);
    let mut cut = Control::default();
    let mut again = Ok(());
    for byte in bytes {
        again = again.and_then(|()| cut.feed(3, &[*byte]));
    }
    assert_eq!((said, whole.goaway), (again, cut.goaway), "{bytes:?}");
    (said, whole.goaway)
}

/// SETTINGS come first and once; a later GOAWAY may have a lower id; unknown frames are skipped.
#[test]
fn control_stream() {
    let with = |frames: &[u8]| [b"\0\x04\x02\x01\0", frames].concat();
    assert_eq!(control(&preface()), (Ok(()), None));
    assert_eq!(
        control(&with(b"\x21\x03abc\x07\x01\x08")),
        (Ok(()), Some(8))
    );
    assert_eq!(
        control(&with(b"\x07\x01\x08\x07\x01\x04")),
        (Ok(()), Some(4))
    );
    for (bytes, code) in [
        (with(b"\x07\x01\x04\x07\x01\x08"), code::ID),
        (with(b"\x07\x01\x05"), code::ID),
        (with(b"\x07\x02\x04\x04"), code::FRAME),
        (with(b"\x07\x00"), code::FRAME),
        (with(b"\x04\x00"), code::FRAME_UNEXPECTED),
        (with(b"\x01\x00"), code::FRAME_UNEXPECTED),
        (with(b"\x07\x7f\xff"), code::EXCESSIVE_LOAD),
        (b"\0\x07\x01\x04".to_vec(), code::MISSING_SETTINGS),
        (b"\0\x04\x02\x02\0".to_vec(), code::SETTINGS),
        (b"\0\x04\x01\x01".to_vec(), code::FRAME),
        (b"\x01".to_vec(), code::ID),
        (b"\x02\x3f".to_vec(), code::QPACK_ENCODER_STREAM),
    ] {
        assert_eq!(control(&bytes).0, Err(code), "{bytes:?}");
    }
    assert_eq!(control(b"\x02\x20").0, Ok(()));
    assert_eq!(control(b"\x40\x21anything").0, Ok(()));
}

/// There is one control stream, and it stays open.
#[test]
fn critical_streams() {
    let mut peer = Control::default();
    peer.feed(3, b"\0\x04\0").unwrap();
    assert_eq!(peer.feed(7, b"\0"), Err(code::STREAM_CREATION));
    assert_eq!(peer.end(3), Err(code::CLOSED_CRITICAL_STREAM));
    peer.feed(11, b"\x21grease").unwrap();
    assert_eq!(peer.end(11), Ok(()));
    assert_eq!(peer.end(99), Ok(()));
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let anything = proptest::collection::vec(any::<u8>(), 0..200);
    // Mostly right, so that the deeper states are reached.
    let valid = (0u8..14, proptest::collection::vec(any::<u8>(), 0..80))
        .prop_map(|(kind, payload)| frame(kind, &payload));
    let head = (100u16..600, any::<u32>()).prop_map(|(status, length)| {
        headers(&[
            (":status", &status.to_string()),
            ("content-length", &length.to_string()),
        ])
    });
    let fields = proptest::collection::vec(("[!-~]{0,12}", "[ -~]{0,40}"), 0..6).prop_map(|all| {
        let all: Vec<(&str, &str)> = all.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        headers(&all)
    });
    let one = prop_oneof![anything, valid, head, fields];
    proptest::collection::vec(one, 0..6).prop_map(|all| all.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// No bytes make the response's parser panic, and pieces change nothing.
    #[test]
    fn any_response(bytes in pieces(), piece in 1usize..40) {
        let whole = parse(&bytes, usize::MAX);
        let cut = parse(&bytes, piece);
        prop_assert_eq!(whole.0, cut.0);
        prop_assert_eq!(whole.2, cut.2);
    }

    /// No bytes make the control stream's parser panic, and pieces change nothing.
    #[test]
    fn any_control(bytes in pieces(), settled in any::<bool>()) {
        let bytes = if settled { [b"\0\x04\0", bytes.as_slice()].concat() } else { bytes };
        let _ = control(&bytes);
    }

    /// No bytes make the field decoder panic.
    #[test]
    fn any_section(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = qpack::decode(&bytes);
        let _ = qpack::decode(&[b"\0\0", bytes.as_slice()].concat());
    }

    /// Decoding returns the encoded fields.
    #[test]
    fn round_trip(status in 100u16..1000, length: u64, name in "[a-z-]{1,30}", value in "[ -~]{0,200}") {
        prop_assume!(name != "content-length");
        let (status_text, length_text) = (status.to_string(), length.to_string());
        let fields = qpack::decode(&section(&[
            (name.as_str(), value.as_str()),
            (":status", &status_text),
            (name.as_str(), value.as_str()),
            ("content-length", &length_text),
        ])).unwrap();
        prop_assert_eq!(fields, Fields { status: Some(status), length: Some(length), answer: None, malformed: false });
    }
}

/// Inputs per property: more with PROPTEST_CASES.
fn cases() -> u32 {
    let given = std::env::var("PROPTEST_CASES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(2000)
}
