//! Header fields: their syntax, and integers and strings as HPACK and QPACK write them (RFC 7541,
//! 5; RFC 9204, 4.1).
//!
//! Of a response, only the status and the announced length are read, and of a request the number of
//! its answer; no text is stored.

use crate::huffman;

/// The longest head of a response that is accepted, in bytes, for every protocol.
pub const MAX_HEAD: usize = 16 * 1024;
/// The longest name or value that is inspected: `content-length`, and twenty digits.
pub const LOOK: usize = 20;

/// The error that a header block or a field section cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFields;

impl From<huffman::BadHuffman> for BadFields {
    fn from(_: huffman::BadHuffman) -> Self {
        Self
    }
}

/// The content of a header block or a field section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `:status`, if present.
    pub status: Option<u16>,
    /// `content-length`, if present.
    pub length: Option<u64>,
    /// `tuner-answer`, if present and a number.
    pub answer: Option<u64>,
    /// True if it violates HTTP, though not the compression.
    pub malformed: bool,
}

/// The names that are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `:status`.
    Status,
    /// `content-length`.
    ContentLength,
    /// `tuner-answer`: the number of the answer that a request asks a backend for.
    Answer,
    /// Any other.
    Other,
}

impl Name {
    /// Return the name of these octets.
    pub fn of(name: &[u8]) -> Self {
        match name {
            b":status" => Self::Status,
            b"content-length" => Self::ContentLength,
            b"tuner-answer" => Self::Answer,
            _ => Self::Other,
        }
    }
}

impl Fields {
    /// Add a field of this name, with its value if that is a number.
    #[inline]
    pub fn take(&mut self, name: Name, number: Option<u64>) {
        match name {
            Name::Status => {
                let status = number.and_then(|number| u16::try_from(number).ok());
                let good = status.is_some_and(|status| (100..=999).contains(&status));
                self.malformed |= !good || self.status.is_some();
                self.status = status;
            }
            Name::ContentLength => {
                let again = self.length.is_some() && self.length != number;
                self.malformed |= number.is_none() || again;
                self.length = number;
            }
            Name::Answer => self.answer = number,
            Name::Other => {}
        }
    }
}

/// Parse a number in decimal digits; return `None` for anything else.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Return whether a text is a token (RFC 9110, 5.6.2).
pub fn is_token(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(good)
}

/// Return whether a text has no line breaks and no NUL, and so may be a field value.
pub fn is_field_value(text: &str) -> bool {
    !text.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// The rest of a block or a section.
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// Return the next byte without consuming it.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, BadFields> {
        let (first, rest) = self.0.split_first().ok_or(BadFields)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Read an integer with a prefix of this many bits (RFC 7541, 5.1).
    #[inline]
    pub fn integer(&mut self, prefix: u32) -> Result<usize, BadFields> {
        let most = (1 << prefix) - 1;
        let first = usize::from(self.byte()?) & most;
        if first < most {
            return Ok(first);
        }
        let mut value = most;
        for shift in (0..28).step_by(7) {
            let byte = self.byte()?;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(BadFields)
    }

    /// Read a string with a prefix of this many bits: return its decoded size, and store its start
    /// in `seen`.
    pub fn string(&mut self, prefix: u32, seen: &mut [u8; LOOK]) -> Result<usize, BadFields> {
        let coded = self.peek().ok_or(BadFields)? & (1 << prefix) != 0;
        let size = self.integer(prefix)?;
        let (text, rest) = self.0.split_at_checked(size).ok_or(BadFields)?;
        self.0 = rest;
        if !coded {
            let n = size.min(LOOK);
            seen[..n].copy_from_slice(&text[..n]);
            return Ok(size);
        }
        let mut size = 0;
        huffman::decode(text, |octet| {
            if let Some(place) = seen.get_mut(size) {
                *place = octet;
            }
            size += 1;
        })?;
        Ok(size)
    }
}

/// Append an integer with a prefix of this many bits; `bits` are the bits above it.
pub fn integer(value: usize, prefix: u32, bits: u8, out: &mut Vec<u8>) {
    let most = (1 << prefix) - 1;
    if value < most {
        out.push(bits | value as u8);
        return;
    }
    out.push(bits | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Append a string in the shorter of its two forms, as browsers and nghttp2 do.
pub fn string(text: &[u8], prefix: u32, bits: u8, out: &mut Vec<u8>) {
    let coded = huffman::coded_length(text);
    if coded < text.len() {
        integer(coded, prefix, bits | 1 << prefix, out);
        huffman::encode(text, out);
    } else {
        integer(text.len(), prefix, bits, out);
        out.extend_from_slice(text);
    }
}
