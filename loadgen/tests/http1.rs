//! The response parser: every framing of RFC 9112, and every way of cutting a stream.

use proptest::prelude::*;
use tuner_loadgen::http1::{Fault, MAX_HEAD, Parser};
use tuner_loadgen::plan;
use tuner_loadgen::prepare;

/// The result of parsing a stream.
#[derive(Debug, PartialEq)]
struct Parsed {
    result: Result<Option<usize>, Fault>,
    status: u16,
    body: Vec<u8>,
    keep_alive: bool,
}

/// Feed a stream in pieces that end at `cuts`.
fn parse(stream: &[u8], cuts: &[usize], head_request: bool) -> Parsed {
    let mut parser = Parser::new();
    parser.expect(head_request);
    let mut body = Vec::new();
    let mut at = 0;
    let mut result = Ok(None);
    for cut in cuts.iter().copied().chain([stream.len()]) {
        let cut = cut.clamp(at, stream.len());
        match parser.feed(&stream[at..cut], |piece| body.extend_from_slice(piece)) {
            Ok(Some(used)) => {
                result = Ok(Some(at + used));
                break;
            }
            Ok(None) => at = cut,
            Err(fault) => {
                result = Err(fault);
                break;
            }
        }
    }
    assert_eq!(parser.length, body.len() as u64);
    Parsed {
        result,
        status: parser.status,
        body,
        keep_alive: parser.keep_alive,
    }
}

fn whole(stream: &str) -> Parsed {
    parse(stream.as_bytes(), &[], false)
}

/// A response of known length ends at its last byte and leaves the rest alone.
#[test]
fn content_length() {
    let parsed = whole("HTTP/1.1 200 OK\r\ncontent-LENGTH:  5 \r\n\r\nhelloHTTP");
    assert_eq!(parsed.result, Ok(Some(45)));
    assert_eq!((parsed.status, &parsed.body[..]), (200, &b"hello"[..]));
    assert!(parsed.keep_alive);
}

/// Chunks are joined, with extensions and trailers read over.
#[test]
fn chunked() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let stream = format!("{head}5;a=b\r\nhello\r\n0A\r\n, worlds!!\r\n0\r\nX-Sum: 1\r\n\r\n");
    let parsed = whole(&stream);
    assert_eq!(parsed.result, Ok(Some(stream.len())));
    assert_eq!(parsed.body, b"hello, worlds!!");
    for bad in [
        "g\r\n",
        "\r\n",
        "5\r\nhelloX",
        "11111111111111111\r\n",
        "5\rX",
    ] {
        let parsed = whole(&format!("{head}{bad}"));
        assert_eq!(parsed.result, Err(Fault::BadChunk), "{bad:?}");
    }
}

/// Responses without a body end with their head.
#[test]
fn no_body() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let parsed = parse(head.as_bytes(), &[], true);
    assert_eq!(parsed.result, Ok(Some(head.len())));
    for status in ["204 No Content", "304 Not Modified"] {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(whole(&head).result, Ok(Some(head.len())));
    }
    let empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(whole(empty).result, Ok(Some(empty.len())));
}

/// Without length and chunks the body ends with the stream, and so does the connection.
#[test]
fn until_close() {
    let mut parser = Parser::new();
    parser.expect(false);
    let fed = parser.feed(b"HTTP/1.1 200 OK\r\n\r\nhello", |_| {});
    assert_eq!((fed, parser.length), (Ok(None), 5));
    assert!(!parser.keep_alive);
    assert_eq!(parser.end(), Ok(()));
}

/// The end of the stream anywhere else truncates the response.
#[test]
fn truncated() {
    let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for n in 0..stream.len() {
        let mut parser = Parser::new();
        parser.expect(false);
        assert_eq!(parser.feed(&stream[..n], |_| {}), Ok(None));
        assert_eq!(parser.end(), Err(Fault::Truncated), "{n}");
    }
}

/// Interim responses are skipped; switching protocols is an error.
#[test]
fn interim() {
    let stream = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\
                  HTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx";
    let parsed = whole(stream);
    assert_eq!(
        (parsed.result, parsed.status),
        (Ok(Some(stream.len())), 201)
    );
    let switch = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    assert_eq!(whole(switch).result, Err(Fault::Garbage));
}

/// True if the connection stays follows version and Connection field.
#[test]
fn keep_alive() {
    for (head, keep_alive) in [
        ("HTTP/1.1 200 OK\r\n", true),
        (
            "HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\n",
            false,
        ),
        ("HTTP/1.0 200 OK\r\n", false),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", true),
    ] {
        let stream = format!("{head}Content-Length: 1\r\n\r\nx");
        assert_eq!(whole(&stream).keep_alive, keep_alive, "{head:?}");
    }
}

/// Bytes that are not HTTP/1.x are rejected at once, malformed heads when they are complete.
#[test]
fn garbage() {
    for stream in [
        "SSH",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 2000\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: no name\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ] {
        assert_eq!(whole(stream).result, Err(Fault::Garbage), "{stream:?}");
    }
}

/// A head has a largest size, in one piece or in many.
#[test]
fn large_heads() {
    let field = |n: usize| format!("HTTP/1.1 204 OK\r\nX: {}\r\n\r\n", "x".repeat(n));
    let most = field(MAX_HEAD - 24);
    assert_eq!(most.len(), MAX_HEAD);
    assert_eq!(whole(&most).result, Ok(Some(MAX_HEAD)));
    let cuts: Vec<usize> = (0..2 * MAX_HEAD).step_by(1000).collect();
    let over = field(MAX_HEAD - 23);
    assert_eq!(whole(&over).result, Err(Fault::HeadTooLarge));
    assert_eq!(
        parse(over.as_bytes(), &cuts, false).result,
        Err(Fault::HeadTooLarge)
    );
}

/// Requests are rendered with Host and Content-Length unless these are given.
#[test]
fn requests() {
    let request = plan::Request {
        weight: 1.0,
        method: "POST".into(),
        path: "/a?b=c".into(),
        headers: vec![("Accept".into(), "*/*".into())],
        body_base64: Some("aGVsbG8=".into()),
        urls_file: None,
        body_file: None,
        expect: None,
    };
    let render = |request: &plan::Request| {
        let all = prepare::all(std::slice::from_ref(request), "localhost", "http");
        String::from_utf8_lossy(&all[0].http1).into_owned()
    };
    assert_eq!(
        render(&request),
        "POST /a?b=c HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Length: 5\r\n\r\nhello"
    );
    let mut own = request.clone();
    own.headers = vec![
        ("host".into(), "x".into()),
        ("content-length".into(), "5".into()),
    ];
    assert_eq!(
        render(&own),
        "POST /a?b=c HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"
    );
}

/// Streams that are nearly responses, so that every state is met.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("HTTP/1.1 200 OK\r\n".to_owned()),
        Just("HTTP/1.0 404 Not Found\n".to_owned()),
        Just("HTTP/1.1 100 Continue\r\n\r\n".to_owned()),
        Just("Transfer-Encoding: chunked\r\n".to_owned()),
        Just("Connection: close\r\n".to_owned()),
        (0..20usize).prop_map(|n| format!("Content-Length: {n}\r\n")),
        Just("\r\n".to_owned()),
        Just("\n".to_owned()),
        (0..30usize).prop_map(|n| format!("{n:x}\r\n{}\r\n", "y".repeat(n))),
        Just("0;x=y\r\n\r\n".to_owned()),
        "[ -~\r\n]{0,12}",
        (0..3usize).prop_map(|n| "z".repeat(n * MAX_HEAD / 2)),
    ];
    let start = prop_oneof![9 => Just("HTTP/1.1 200 OK\r\n"), 1 => Just("")];
    (start, prop::collection::vec(piece, 0..12))
        .prop_map(|(start, pieces)| (start.to_owned() + &pieces.concat()).into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However a stream is cut, the same response, body and fault come out.
    #[test]
    fn cuts_do_not_matter(
        stream in streams(),
        mut cuts in prop::collection::vec(0..2000usize, 0..20),
        head_request: bool,
    ) {
        cuts.sort_unstable();
        let in_one = parse(&stream, &[], head_request);
        prop_assert_eq!(&parse(&stream, &cuts, head_request), &in_one);
        let bytewise: Vec<usize> = (1..stream.len()).collect();
        prop_assert_eq!(&parse(&stream, &bytewise, head_request), &in_one);
    }

    /// No bytes make the parser panic or run past the end.
    #[test]
    fn any_bytes_are_survived(
        stream in prop::collection::vec(any::<u8>(), 0..500),
        after_head: bool,
        cuts in prop::collection::vec(0..500usize, 0..10),
    ) {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let start: &[u8] = if after_head { head } else { b"" };
        let stream = [start, &stream].concat();
        let parsed = parse(&stream, &cuts, false);
        prop_assert!(parsed.result.is_err() || parsed.result.unwrap().unwrap_or(0) <= stream.len());
    }
}
