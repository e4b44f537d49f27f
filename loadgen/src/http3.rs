//! HTTP/3 on bytes alone (RFC 9114): requests rendered beforehand, responses and the peer's
//! control stream parsed as they trickle in.
//!
//! No socket, no clock and no QUIC in here: `quic` brings the bytes of each stream, in order.

mod control;
pub mod qpack;

pub use control::Control;

/// The largest field section accepted, in bytes.
pub const MAX_HEAD: usize = 16 * 1024;

/// Codes of errors (RFC 9114, 8.1; RFC 9204, 6).
pub mod code {
    /// Nothing wrong.
    pub const NO_ERROR: u64 = 0x100;
    /// Against the rules in a way that has no code of its own.
    pub const GENERAL_PROTOCOL: u64 = 0x101;
    /// A second stream of a kind of which there is one.
    pub const STREAM_CREATION: u64 = 0x103;
    /// A stream that lives as long as the connection was closed.
    pub const CLOSED_CRITICAL_STREAM: u64 = 0x104;
    /// A frame where it may not be.
    pub const FRAME_UNEXPECTED: u64 = 0x105;
    /// A frame of a wrong size.
    pub const FRAME: u64 = 0x106;
    /// The peer makes us work for nothing.
    pub const EXCESSIVE_LOAD: u64 = 0x107;
    /// An identifier that may not be: a push, a GOAWAY that grows.
    pub const ID: u64 = 0x108;
    /// Settings that may not be.
    pub const SETTINGS: u64 = 0x109;
    /// The control stream does not begin with SETTINGS.
    pub const MISSING_SETTINGS: u64 = 0x10a;
    /// The server has not processed the request.
    pub const REQUEST_REJECTED: u64 = 0x10b;
    /// The request, or its answer, is of no more interest.
    pub const REQUEST_CANCELLED: u64 = 0x10c;
    /// Against the rules of HTTP itself.
    pub const MESSAGE: u64 = 0x10e;
    /// A field section that cannot be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: u64 = 0x200;
    /// An instruction for a table that was not offered.
    pub const QPACK_ENCODER_STREAM: u64 = 0x201;
}

const DATA: u64 = 0x0;
const HEADERS: u64 = 0x1;
const CANCEL_PUSH: u64 = 0x3;
const SETTINGS: u64 = 0x4;
const PUSH_PROMISE: u64 = 0x5;
const GOAWAY: u64 = 0x7;
const MAX_PUSH_ID: u64 = 0xd;
/// Types of HTTP/2 that mean nothing here and are refused (7.2.8).
const OF_HTTP2: [u64; 4] = [0x2, 0x6, 0x8, 0x9];

/// Why the bytes of a stream are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The response is malformed; the connection is not.
    Malformed,
    /// The field section is longer than [`MAX_HEAD`].
    HeadTooLarge,
    /// The stream ended within the response.
    Truncated,
    /// The connection is of no more use, and closed with this code.
    Connection(u64),
}

// ---------------------------------------------------------------- requests

/// The frames of a request up to its body: HEADERS, and the start of DATA if there is a body.
pub fn render<'f>(
    method: &str,
    authority: &str,
    path: &str,
    fields: impl Iterator<Item = (&'f str, &'f str)>,
    body_length: usize,
) -> Vec<u8> {
    let mut section = Vec::new();
    qpack::encode_prefix(&mut section);
    qpack::encode(":method", method, &mut section);
    qpack::encode(":scheme", "https", &mut section);
    qpack::encode(":authority", authority, &mut section);
    qpack::encode(":path", path, &mut section);
    for (name, value) in fields {
        let name = name.to_ascii_lowercase();
        if may_carry(&name, value) {
            qpack::encode(&name, value, &mut section);
        }
    }
    let mut bytes = Vec::new();
    put_varint(HEADERS, &mut bytes);
    put_varint(section.len() as u64, &mut bytes);
    bytes.extend_from_slice(&section);
    if body_length > 0 {
        put_varint(DATA, &mut bytes);
        put_varint(body_length as u64, &mut bytes);
    }
    bytes
}

/// Whether a field may be sent over HTTP/3: not those of the connection (4.2).
fn may_carry(name: &str, value: &str) -> bool {
    match name {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => false,
        "te" => value.eq_ignore_ascii_case("trailers"),
        _ => true,
    }
}

/// What our control stream begins with: its type, and SETTINGS that offer no dynamic table (its
/// size is 0 unless told otherwise) and say how long a field section may be.
pub fn preface() -> Vec<u8> {
    const CONTROL: u64 = 0;
    const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
    let mut settings = Vec::new();
    put_varint(MAX_FIELD_SECTION_SIZE, &mut settings);
    put_varint(MAX_HEAD as u64, &mut settings);
    let mut bytes = Vec::new();
    put_varint(CONTROL, &mut bytes);
    put_varint(SETTINGS, &mut bytes);
    put_varint(settings.len() as u64, &mut bytes);
    bytes.extend_from_slice(&settings);
    bytes
}

/// Append an integer of up to 62 bits (RFC 9000, 16).
fn put_varint(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// The integer at the start of the bytes, and how many of them it takes; `None`: not all there.
#[inline]
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let size = 1 << (first >> 6);
    let rest = bytes.get(1..size)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| {
        value << 8 | u64::from(*byte)
    });
    Some((value, size))
}

/// Type and length of a frame, and how many bytes they take; `None`: not all there.
#[inline]
fn frame_head(bytes: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, at) = varint(bytes)?;
    let (length, size) = varint(&bytes[at..])?;
    Some((kind, length, at + size))
}

/// Bytes that came in pieces, put together up to a limit.
#[derive(Debug, Default)]
struct Stash(Vec<u8>);

/// The longest type and length of a frame.
const FRAME_HEAD: usize = 16;

impl Stash {
    /// Type and length of the frame that begins here; how many of the bytes belong to them.
    #[inline]
    fn frame_head(&mut self, bytes: &[u8]) -> (Option<(u64, u64)>, usize) {
        if self.0.is_empty()
            && let Some((kind, length, used)) = frame_head(bytes)
        {
            return (Some((kind, length)), used);
        }
        let before = self.0.len();
        let room = FRAME_HEAD.saturating_sub(before).min(bytes.len());
        self.0.extend_from_slice(&bytes[..room]);
        match frame_head(&self.0) {
            Some((kind, length, used)) => {
                self.0.clear();
                (Some((kind, length)), used - before)
            }
            None => (None, room),
        }
    }
}

// ---------------------------------------------------------------- responses

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Between frames.
    Head,
    /// In a field section of which so many bytes are to come.
    Fields(usize),
    /// In a piece of the body.
    Data(u64),
    /// In a frame that is stepped over.
    Skip(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The final response's head has not come.
    Head,
    /// It has.
    Body,
    /// The trailers have.
    Trailers,
}

/// The parser of one stream's responses, one response at a time.
#[derive(Debug)]
pub struct Response {
    part: Part,
    stage: Stage,
    stash: Stash,
    head_request: bool,
    announced: Option<u64>,
    /// The status code.
    pub status: u16,
    /// Bytes of the body so far.
    pub length: u64,
}

impl Response {
    /// A parser that expects a response to a request other than HEAD.
    pub fn new() -> Self {
        Self {
            part: Part::Head,
            stage: Stage::Head,
            stash: Stash::default(),
            head_request: false,
            announced: None,
            status: 0,
            length: 0,
        }
    }

    /// Expect a new response, to a HEAD request or another.
    pub fn expect(&mut self, head_request: bool) {
        self.part = Part::Head;
        self.stage = Stage::Head;
        self.stash.0.clear();
        self.head_request = head_request;
        self.announced = None;
        self.status = 0;
        self.length = 0;
    }

    /// Take the next bytes of the stream. Pieces of the body go to `body` as they come.
    pub fn feed(&mut self, bytes: &[u8], mut body: impl FnMut(&[u8])) -> Result<(), Fault> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = match self.part {
                Part::Head => {
                    let (found, used) = self.stash.frame_head(rest);
                    if let Some((kind, length)) = found {
                        self.begin(kind, length)?;
                    }
                    used
                }
                Part::Fields(left) => self.fields(rest, left)?,
                Part::Data(left) => {
                    let n = at_most(rest, left);
                    self.length += n as u64;
                    if self.announced.is_some_and(|most| self.length > most) {
                        return Err(Fault::Malformed);
                    }
                    body(&rest[..n]);
                    let left = left - n as u64;
                    self.part = if left == 0 {
                        Part::Head
                    } else {
                        Part::Data(left)
                    };
                    n
                }
                Part::Skip(left) => {
                    let n = at_most(rest, left);
                    let left = left - n as u64;
                    self.part = if left == 0 {
                        Part::Head
                    } else {
                        Part::Skip(left)
                    };
                    n
                }
            };
            rest = &rest[used..];
        }
        Ok(())
    }

    /// The stream ended. `Ok`: that completes the response.
    pub fn end(&self) -> Result<(), Fault> {
        let whole = self.stage != Stage::Head
            && self.part == Part::Head
            && self.stash.0.is_empty()
            && self.announced.is_none_or(|length| length == self.length);
        if whole { Ok(()) } else { Err(Fault::Truncated) }
    }

    /// A frame begins.
    fn begin(&mut self, kind: u64, length: u64) -> Result<(), Fault> {
        let unexpected = Err(Fault::Connection(code::FRAME_UNEXPECTED));
        self.part = match kind {
            HEADERS if self.stage == Stage::Trailers => return unexpected,
            HEADERS => match usize::try_from(length) {
                Ok(0) => return self.section(&[]),
                Ok(length) if length <= MAX_HEAD => Part::Fields(length),
                _ => return Err(Fault::HeadTooLarge),
            },
            DATA if self.stage != Stage::Body => return unexpected,
            DATA if length > 0 => Part::Data(length),
            // Nothing was allowed to be pushed (4.6).
            PUSH_PROMISE => return Err(Fault::Connection(code::ID)),
            SETTINGS | GOAWAY | CANCEL_PUSH | MAX_PUSH_ID => return unexpected,
            kind if OF_HTTP2.contains(&kind) => return unexpected,
            _ if length > 0 => Part::Skip(length),
            _ => Part::Head,
        };
        Ok(())
    }

    /// Take bytes of a field section, and read it once it is all there.
    fn fields(&mut self, bytes: &[u8], left: usize) -> Result<usize, Fault> {
        let n = left.min(bytes.len());
        let piece = &bytes[..n];
        if n < left {
            self.stash.0.extend_from_slice(piece);
            self.part = Part::Fields(left - n);
        } else if self.stash.0.is_empty() {
            self.section(piece)?;
        } else {
            let mut stash = std::mem::take(&mut self.stash);
            stash.0.extend_from_slice(piece);
            let read = self.section(&stash.0);
            stash.0.clear();
            self.stash = stash;
            read?;
        }
        Ok(n)
    }

    fn section(&mut self, section: &[u8]) -> Result<(), Fault> {
        self.part = Part::Head;
        let failed = Fault::Connection(code::QPACK_DECOMPRESSION_FAILED);
        let fields = qpack::decode(section).map_err(|_| failed)?;
        if fields.malformed {
            return Err(Fault::Malformed);
        }
        if self.stage == Stage::Body {
            // Trailers have no pseudo-fields (4.3).
            self.stage = Stage::Trailers;
            return match fields.status {
                None => Ok(()),
                Some(_) => Err(Fault::Malformed),
            };
        }
        match fields.status {
            // There is no switching of protocols here (4.5).
            None | Some(101) => return Err(Fault::Malformed),
            // An interim response: the real one follows.
            Some(100..200) => return Ok(()),
            Some(status) => self.status = status,
        }
        let bodiless = self.head_request || matches!(self.status, 204 | 304);
        self.announced = fields.length.filter(|_| !bodiless);
        self.stage = Stage::Body;
        Ok(())
    }
}

impl Default for Response {
    fn default() -> Self {
        Self::new()
    }
}

fn at_most(bytes: &[u8], limit: u64) -> usize {
    usize::try_from(limit).map_or(bytes.len(), |limit| limit.min(bytes.len()))
}
