//! HTTP/3 as a function of bytes (RFC 9114): requests rendered in advance, responses and the peer's
//! control stream parsed as they arrive.
//!
//! `quic` passes in the bytes of each stream, in order.

pub mod code;
mod control;
mod frame;
pub mod qpack;

use crate::errors::Kind;
use frame::{
    CANCEL_PUSH, DATA, GOAWAY, HEADERS, MAX_PUSH_ID, OF_HTTP2, PUSH_PROMISE, SETTINGS, Stash,
    at_most, put_varint,
};

pub use crate::fields::MAX_HEAD;
pub use control::Control;

/// The reason why the bytes of a stream are not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The response is malformed; the connection is not.
    Malformed,
    /// The field section is longer than [`MAX_HEAD`].
    HeadTooLarge,
    /// The stream ended within the response.
    Truncated,
    /// The connection must be closed with this code.
    Connection(u64),
}

impl From<Fault> for Kind {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Malformed | Fault::Connection(_) => Self::H3Protocol,
            Fault::HeadTooLarge => Self::HeadTooLarge,
            Fault::Truncated => Self::Truncated,
        }
    }
}

// ---------------------------------------------------------------- requests

/// Render the frames of a request up to its body: HEADERS, and the start of DATA if there is a
/// body.
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

/// Return whether a field may be sent over HTTP/3: not those of the connection (4.2).
fn may_carry(name: &str, value: &str) -> bool {
    match name {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => false,
        "te" => value.eq_ignore_ascii_case("trailers"),
        _ => true,
    }
}

/// Return the start of the client's control stream: its type, and SETTINGS with the longest
/// accepted field section. They offer no dynamic table, because its default size is 0.
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

// ---------------------------------------------------------------- responses

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Between frames.
    Head,
    /// In a field section; the bytes that remain.
    Fields(usize),
    /// In a piece of the body; the bytes that remain.
    Data(u64),
    /// In a frame to skip; the bytes that remain.
    Skip(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before the head of the final response.
    Head,
    /// After the head.
    Body,
    /// After the trailers.
    Trailers,
}

/// A parser of one stream's responses, one response at a time.
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
    /// Create a parser that expects a response to a request other than HEAD.
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

    /// Parse the next bytes of the stream. Pieces of the body are passed to `body` as they arrive.
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

    /// Handle the end of the stream. `Ok`: the response is complete.
    pub fn end(&self) -> Result<(), Fault> {
        let whole = self.stage != Stage::Head
            && self.part == Part::Head
            && self.stash.0.is_empty()
            && self.announced.is_none_or(|length| length == self.length);
        if whole { Ok(()) } else { Err(Fault::Truncated) }
    }

    /// Begin a frame.
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
            // Pushes are not allowed (4.6).
            PUSH_PROMISE => return Err(Fault::Connection(code::ID)),
            SETTINGS | GOAWAY | CANCEL_PUSH | MAX_PUSH_ID => return unexpected,
            kind if OF_HTTP2.contains(&kind) => return unexpected,
            _ if length > 0 => Part::Skip(length),
            _ => Part::Head,
        };
        Ok(())
    }

    /// Collect bytes of a field section, and read it once it is complete.
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
            // HTTP/3 has no switching of protocols (4.5).
            None | Some(101) => return Err(Fault::Malformed),
            // An interim response: the final one follows.
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
