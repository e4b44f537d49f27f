//! QPACK with the static table alone (RFC 9204): no dynamic table is offered, so a field section
//! stands for itself, and no response waits for the encoder's stream.
//!
//! Of a response only the status and the announced length matter: other names and values are
//! stepped over, and no text is stored.

use crate::huffman;

/// The longest name or value that is looked at: `content-length`, and twenty digits.
const LOOK: usize = 20;

/// The static table (appendix A).
#[rustfmt::skip]
const STATIC: [(&str, &str); 99] = [
    (":authority", ""), (":path", "/"), ("age", "0"), ("content-disposition", ""),
    ("content-length", "0"), ("cookie", ""), ("date", ""), ("etag", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("last-modified", ""), ("link", ""), ("location", ""), ("referer", ""),
    ("set-cookie", ""), (":method", "CONNECT"), (":method", "DELETE"), (":method", "GET"),
    (":method", "HEAD"), (":method", "OPTIONS"), (":method", "POST"), (":method", "PUT"),
    (":scheme", "http"), (":scheme", "https"), (":status", "103"), (":status", "200"),
    (":status", "304"), (":status", "404"), (":status", "503"), ("accept", "*/*"),
    ("accept", "application/dns-message"), ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"), ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"), ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"), ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"), ("cache-control", "no-cache"),
    ("cache-control", "no-store"), ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"), ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"), ("content-type", "application/javascript"),
    ("content-type", "application/json"), ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"), ("content-type", "image/jpeg"), ("content-type", "image/png"),
    ("content-type", "text/css"), ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"), ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"), ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"), ("vary", "origin"), ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"), (":status", "100"), (":status", "204"),
    (":status", "206"), (":status", "302"), (":status", "400"), (":status", "403"),
    (":status", "421"), (":status", "425"), (":status", "500"), ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"), ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"), ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"), ("access-control-request-method", "get"),
    ("access-control-request-method", "post"), ("alt-svc", "clear"), ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"), ("expect-ct", ""), ("forwarded", ""), ("if-range", ""), ("origin", ""),
    ("purpose", "prefetch"), ("server", ""), ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"), ("user-agent", ""), ("x-forwarded-for", ""),
    ("x-frame-options", "deny"), ("x-frame-options", "sameorigin"),];

/// A field section cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSection;

impl From<huffman::BadHuffman> for BadSection {
    fn from(_: huffman::BadHuffman) -> Self {
        Self
    }
}

/// What a field section says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `:status`, if it is there.
    pub status: Option<u16>,
    /// `content-length`, if it is there.
    pub length: Option<u64>,
    /// Whether something in it is against the rules of HTTP, though not of the compression.
    pub malformed: bool,
}

/// The names that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Status,
    ContentLength,
    Other,
}

impl Name {
    fn of(name: &[u8]) -> Self {
        match name {
            b":status" => Self::Status,
            b"content-length" => Self::ContentLength,
            _ => Self::Other,
        }
    }
}

impl Fields {
    /// Decode one section (4.5).
    ///
    /// # Errors
    /// [`BadSection`]: malformed, or it refers to a dynamic table, which was not offered.
    pub fn decode(section: &[u8]) -> Result<Self, BadSection> {
        let mut input = Input(section);
        let mut fields = Self::default();
        // The required insert count is 0 where no table is; the base then means nothing.
        if input.integer(8)? != 0 {
            return Err(BadSection);
        }
        input.integer(7)?;
        let mut seen = [0; LOOK];
        while let Some(first) = input.peek() {
            match first {
                0xc0.. => {
                    let (name, value) = entry(input.integer(6)?)?;
                    fields.take(Name::of(name), decimal(value));
                }
                0x50..=0x5f | 0x70..=0x7f => {
                    let (name, _) = entry(input.integer(4)?)?;
                    let size = input.string(7, &mut seen)?;
                    fields.take(Name::of(name), seen.get(..size).and_then(decimal));
                }
                0x20..=0x3f => {
                    let size = input.string(3, &mut seen)?;
                    let name = seen.get(..size).map_or(Name::Other, Name::of);
                    let size = input.string(7, &mut seen)?;
                    fields.take(name, seen.get(..size).and_then(decimal));
                }
                _ => return Err(BadSection),
            }
        }
        Ok(fields)
    }

    #[inline]
    fn take(&mut self, name: Name, number: Option<u64>) {
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
            Name::Other => {}
        }
    }
}

#[inline]
fn entry(index: usize) -> Result<(&'static [u8], &'static [u8]), BadSection> {
    let (name, value) = STATIC.get(index).ok_or(BadSection)?;
    Ok((name.as_bytes(), value.as_bytes()))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// What is left of a section.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, BadSection> {
        let (first, rest) = self.0.split_first().ok_or(BadSection)?;
        self.0 = rest;
        Ok(*first)
    }

    /// An integer behind a prefix of so many bits (RFC 7541, 5.1).
    #[inline]
    fn integer(&mut self, prefix: u32) -> Result<usize, BadSection> {
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
        Err(BadSection)
    }

    /// A string behind a prefix of so many bits: its decoded size, and its start in `seen`.
    fn string(&mut self, prefix: u32, seen: &mut [u8; LOOK]) -> Result<usize, BadSection> {
        let coded = self.peek().ok_or(BadSection)? & (1 << prefix) != 0;
        let size = self.integer(prefix)?;
        let (text, rest) = self.0.split_at_checked(size).ok_or(BadSection)?;
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

/// Append the start of a section that refers to no dynamic table.
pub fn encode_prefix(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Append a field: by index where the static table has it or its name.
pub fn encode(name: &str, value: &str, out: &mut Vec<u8>) {
    if let Some(i) = STATIC.iter().position(|field| *field == (name, value)) {
        return integer(i, 6, 0xc0, out);
    }
    match STATIC.iter().position(|field| field.0 == name) {
        Some(i) => integer(i, 4, 0x50, out),
        None => string(name.as_bytes(), 3, 0x20, out),
    }
    string(value.as_bytes(), 7, 0, out);
}

fn integer(value: usize, prefix: u32, bits: u8, out: &mut Vec<u8>) {
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

/// A string in the shorter of its two forms.
fn string(text: &[u8], prefix: u32, bits: u8, out: &mut Vec<u8>) {
    let coded = huffman::coded_length(text);
    if coded < text.len() {
        integer(coded, prefix, bits | 1 << prefix, out);
        huffman::encode(text, out);
    } else {
        integer(text.len(), prefix, bits, out);
        out.extend_from_slice(text);
    }
}
