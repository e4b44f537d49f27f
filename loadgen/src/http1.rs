//! HTTP/1.1 as a function of bytes: requests rendered in advance, responses parsed as they arrive.
//!
//! There is no socket and no clock in this module, so the same state machine serves cleartext and
//! TLS, and can be tested with every way to cut a stream into pieces (RFC 9112).

use memchr::memchr;

use crate::errors::Kind;
use crate::fields::decimal;
use crate::machine::{Machine, Sink};
use crate::plan;
use crate::request::Prepared;

pub use crate::fields::MAX_HEAD;

/// Render a whole request. `Host` and `Content-Length` are added unless given.
pub fn render(request: &plan::Request, host: &str, body: &[u8]) -> Vec<u8> {
    let given = |name: &str| {
        let mut headers = request.headers.iter();
        headers.any(|(given, _)| given.eq_ignore_ascii_case(name))
    };
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    if !given("host") {
        head += &format!("Host: {host}\r\n");
    }
    for (name, value) in &request.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if request.body_base64.is_some() && !given("content-length") {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    head += "\r\n";
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// One connection, with one request at a time.
#[derive(Debug, Default)]
pub struct Http1 {
    parser: Parser,
    /// True if a response is expected.
    awaiting: bool,
    /// True if its first byte arrived.
    started: bool,
}

impl Http1 {
    fn complete(&mut self, sink: &mut impl Sink) {
        self.awaiting = false;
        if !self.parser.keep_alive {
            sink.closing();
        }
        sink.complete(0, self.parser.status, self.parser.length);
    }
}

impl Machine for Http1 {
    fn streams(&self) -> u32 {
        1
    }

    #[inline]
    fn request<'r>(
        &mut self,
        _stream: u32,
        request: &'r Prepared,
        _out: &mut Vec<u8>,
    ) -> Result<&'r [u8], Kind> {
        self.parser.expect(request.head);
        self.awaiting = true;
        self.started = false;
        Ok(&request.http1)
    }

    #[inline]
    fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<(), Kind> {
        if !self.awaiting {
            // Unsolicited bytes: a 408, for example.
            return Err(Kind::ExcessBytes);
        }
        if !self.started {
            self.started = true;
            sink.started(0);
        }
        match self.parser.feed(bytes, |body| sink.body(0, body))? {
            None => Ok(()),
            Some(used) if used < bytes.len() => Err(Kind::ExcessBytes),
            Some(_) => {
                if !out.is_empty() {
                    // The answer came before the whole request was written; the rest would be taken
                    // for the next request.
                    sink.closing();
                }
                self.complete(sink);
                Ok(())
            }
        }
    }

    fn end(&mut self, sink: &mut impl Sink) -> Result<(), Kind> {
        if !self.awaiting {
            return Ok(());
        }
        match self.parser.end() {
            Ok(()) => {
                self.complete(sink);
                Ok(())
            }
            Err(_) if !self.started => Err(Kind::Closed),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Return false: only closing the connection cancels a request.
    fn cancel(&mut self, _stream: u32, _out: &mut Vec<u8>) -> bool {
        false
    }
}

/// The reason why bytes are not a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not HTTP/1.x, or a malformed head.
    Garbage,
    /// The head is longer than [`MAX_HEAD`].
    HeadTooLarge,
    /// Malformed chunked coding.
    BadChunk,
    /// The stream ended within the response.
    Truncated,
}

impl From<Fault> for Kind {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Garbage => Self::Garbage,
            Fault::HeadTooLarge => Self::HeadTooLarge,
            Fault::BadChunk => Self::BadChunk,
            Fault::Truncated => Self::Truncated,
        }
    }
}

/// The longest chunk extension or trailer section accepted, in bytes.
const MAX_CHUNK_EXTRA: u32 = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// Remaining bytes of a body of known length.
    Length(u64),
    /// The body ends with the stream.
    UntilClose,
    /// Number of digits of a chunk's size so far, and their value.
    ChunkSize(u8, u64),
    /// Between size and line end; the flag is true after a CR.
    ChunkExtension(u64, bool),
    ChunkData(u64),
    /// 0: CR expected; 1: LF expected.
    ChunkEnd(u8),
    /// Bytes in the current trailer line, a lone CR not counted.
    Trailer(u32),
    Done,
}

/// A parser of one connection's responses, one response at a time.
#[derive(Debug)]
pub struct Parser {
    state: State,
    /// The head so far, if it did not arrive in one piece. Allocated only then: 16 KB for each of
    /// 10,000 connections would be most of the generator's memory.
    stash: Vec<u8>,
    /// Chunk extension and trailer bytes so far.
    extra: u32,
    head_request: bool,
    /// The status code.
    pub status: u16,
    /// Bytes of the body so far, chunking removed.
    pub length: u64,
    /// True if the connection stays open for another request.
    pub keep_alive: bool,
}

impl Parser {
    /// Create a parser that expects nothing yet.
    pub fn new() -> Self {
        Self {
            state: State::Done,
            stash: Vec::new(),
            extra: 0,
            head_request: false,
            status: 0,
            length: 0,
            keep_alive: true,
        }
    }

    /// Expect a new response, to a HEAD request or another.
    #[inline]
    pub fn expect(&mut self, head_request: bool) {
        self.state = State::Head;
        self.stash.clear();
        self.extra = 0;
        self.head_request = head_request;
        self.status = 0;
        self.length = 0;
        self.keep_alive = true;
    }

    /// Parse the next bytes of the stream. `Some(n)`: the response is complete after `n` of them.
    ///
    /// Pieces of the body are passed to `body` as they arrive.
    #[inline]
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut body: impl FnMut(&[u8]),
    ) -> Result<Option<usize>, Fault> {
        let mut at = 0;
        loop {
            if self.state == State::Done {
                return Ok(Some(at));
            }
            let rest = &bytes[at..];
            if rest.is_empty() {
                return Ok(None);
            }
            at += match self.state {
                State::Head => self.head(rest)?,
                State::Length(left) => {
                    let n = self.body(rest, left, &mut body);
                    let left = left - n as u64;
                    self.state = if left == 0 {
                        State::Done
                    } else {
                        State::Length(left)
                    };
                    n
                }
                State::UntilClose => self.body(rest, u64::MAX, &mut body),
                State::ChunkData(left) => {
                    let n = self.body(rest, left, &mut body);
                    let left = left - n as u64;
                    self.state = if left == 0 {
                        State::ChunkEnd(0)
                    } else {
                        State::ChunkData(left)
                    };
                    n
                }
                _ => {
                    self.chunk_byte(rest[0])?;
                    1
                }
            };
        }
    }

    /// Handle the end of the stream. `Ok`: the response is complete.
    pub fn end(&mut self) -> Result<(), Fault> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(Fault::Truncated),
        }
    }

    fn body(&mut self, bytes: &[u8], limit: u64, body: &mut impl FnMut(&[u8])) -> usize {
        let n = bytes
            .len()
            .min(usize::try_from(limit).unwrap_or(usize::MAX));
        self.length += n as u64;
        body(&bytes[..n]);
        n
    }

    /// Collect bytes of the head, and parse it once its last line is complete.
    fn head(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        if self.stash.is_empty() {
            check_prefix(bytes)?;
            if let Some(end) = head_end(bytes, 0) {
                if end > MAX_HEAD {
                    return Err(Fault::HeadTooLarge);
                }
                self.parse_head(&bytes[..end])?;
                return Ok(end);
            }
            if bytes.len() > MAX_HEAD {
                return Err(Fault::HeadTooLarge);
            }
            self.stash.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let before = self.stash.len();
        let room = (MAX_HEAD - before).min(bytes.len());
        self.stash.extend_from_slice(&bytes[..room]);
        check_prefix(&self.stash)?;
        // The last line may begin two bytes before the new ones.
        match head_end(&self.stash, before.saturating_sub(2)) {
            Some(end) => {
                let stash = std::mem::take(&mut self.stash);
                let result = self.parse_head(&stash[..end]);
                self.stash = stash;
                self.stash.clear();
                result.map(|()| end - before)
            }
            None if room < bytes.len() => Err(Fault::HeadTooLarge),
            None => Ok(room),
        }
    }

    fn parse_head(&mut self, head: &[u8]) -> Result<(), Fault> {
        let mut lines = Lines(head);
        let status_line = lines.next().ok_or(Fault::Garbage)?;
        let (status, minor) = parse_status_line(status_line)?;
        let mut length: Option<u64> = None;
        let mut chunked = false;
        let mut other_coding = false;
        let mut keep_alive = minor >= 1;
        for line in lines {
            if line.is_empty() {
                break;
            }
            let colon = memchr(b':', line).ok_or(Fault::Garbage)?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            match name.len() {
                14 if name.eq_ignore_ascii_case(b"content-length") => {
                    let parsed = decimal(value).ok_or(Fault::Garbage)?;
                    if length.is_some_and(|before| before != parsed) {
                        return Err(Fault::Garbage);
                    }
                    length = Some(parsed);
                }
                17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                    if value.eq_ignore_ascii_case(b"chunked") {
                        chunked = true;
                    } else {
                        other_coding = true;
                    }
                }
                10 if name.eq_ignore_ascii_case(b"connection") => {
                    for option in value.split(|byte| *byte == b',') {
                        let option = option.trim_ascii();
                        if option.eq_ignore_ascii_case(b"close") {
                            keep_alive = false;
                        } else if option.eq_ignore_ascii_case(b"keep-alive") && minor == 0 {
                            keep_alive = true;
                        }
                    }
                }
                0 => return Err(Fault::Garbage),
                _ => {}
            }
        }
        if status < 200 {
            // An interim response: the final one follows. No request asks to switch protocols.
            return if status == 101 {
                Err(Fault::Garbage)
            } else {
                Ok(())
            };
        }
        self.status = status;
        self.keep_alive = keep_alive;
        self.state = if self.head_request || status == 204 || status == 304 {
            State::Done
        } else if chunked && !other_coding {
            State::ChunkSize(0, 0)
        } else if chunked || other_coding || length.is_none() {
            self.keep_alive = false;
            State::UntilClose
        } else if length == Some(0) {
            State::Done
        } else {
            State::Length(length.unwrap_or(0))
        };
        Ok(())
    }

    /// Parse one byte between the chunks.
    fn chunk_byte(&mut self, byte: u8) -> Result<(), Fault> {
        self.state = match (self.state, byte) {
            (State::ChunkSize(digits, size), _) if byte.is_ascii_hexdigit() => {
                if digits == 16 {
                    return Err(Fault::BadChunk);
                }
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                State::ChunkSize(digits + 1, size << 4 | u64::from(digit))
            }
            (State::ChunkSize(0, _), _) => return Err(Fault::BadChunk),
            (State::ChunkSize(_, size) | State::ChunkExtension(size, _), b'\n') => {
                if size == 0 {
                    State::Trailer(0)
                } else {
                    State::ChunkData(size)
                }
            }
            (State::ChunkSize(_, size), b'\r') => State::ChunkExtension(size, true),
            (State::ChunkSize(_, size), b';' | b' ' | b'\t') => {
                self.count_extra()?;
                State::ChunkExtension(size, false)
            }
            (State::ChunkExtension(_, true), _) => return Err(Fault::BadChunk),
            (State::ChunkExtension(size, false), _) => {
                self.count_extra()?;
                State::ChunkExtension(size, byte == b'\r')
            }
            (State::ChunkEnd(0), b'\r') => State::ChunkEnd(1),
            (State::ChunkEnd(_), b'\n') => State::ChunkSize(0, 0),
            (State::Trailer(0), b'\n') => State::Done,
            (State::Trailer(_), b'\n') => State::Trailer(0),
            (State::Trailer(n), b'\r') => State::Trailer(n),
            (State::Trailer(n), _) => {
                self.count_extra()?;
                State::Trailer(n + 1)
            }
            _ => return Err(Fault::BadChunk),
        };
        Ok(())
    }

    fn count_extra(&mut self) -> Result<(), Fault> {
        self.extra += 1;
        if self.extra > MAX_CHUNK_EXTRA {
            return Err(Fault::BadChunk);
        }
        Ok(())
    }
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

/// The lines of a head, without their line ends.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];
    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = memchr(b'\n', self.0)?;
        let line = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Return where the head ends: after its first empty line that begins at or after the next line end
/// from `from`.
#[inline]
fn head_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(found) = memchr(b'\n', &bytes[at..]) {
        at += found + 1;
        match &bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// Reject at once what cannot become a status line: a peer with another protocol may never send a
/// line end.
fn check_prefix(bytes: &[u8]) -> Result<(), Fault> {
    const PREFIX: &[u8] = b"HTTP/1.";
    let n = bytes.len().min(PREFIX.len());
    if bytes[..n] == PREFIX[..n] {
        Ok(())
    } else {
        Err(Fault::Garbage)
    }
}

/// Parse the status code and the minor version.
fn parse_status_line(line: &[u8]) -> Result<(u16, u8), Fault> {
    match line {
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            minor,
            b' ',
            a,
            b,
            c,
            rest @ ..,
        ] if minor.is_ascii_digit()
            && (b'1'..=b'9').contains(a)
            && b.is_ascii_digit()
            && c.is_ascii_digit()
            && (rest.is_empty() || rest[0] == b' ') =>
        {
            let digit = |byte: &u8| u16::from(byte - b'0');
            Ok((digit(a) * 100 + digit(b) * 10 + digit(c), minor - b'0'))
        }
        _ => Err(Fault::Garbage),
    }
}
