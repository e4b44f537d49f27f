//! Header compression (RFC 7541), as far as a load generator needs it.
//!
//! Of a response only the status and the announced length matter, yet the dynamic table has to be
//! followed exactly. So the table keeps of each field its sizes and, of those two fields, the
//! number: no text is stored, and no memory is taken after the first responses.

use std::collections::VecDeque;

use crate::huffman;

/// The size of the dynamic table that either side may use unless told otherwise (RFC 9113, 6.5.2).
pub const TABLE_SIZE: usize = 4096;
/// What a field takes of the table besides its name and value.
const OVERHEAD: usize = 32;
/// The longest name or value that is looked at: `content-length`, and twenty digits.
const LOOK: usize = 20;

/// The static table (appendix A).
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
];

/// Where the fields that matter stand in the static table.
const STATUS: std::ops::RangeInclusive<usize> = 8..=14;
const CONTENT_LENGTH: usize = 28;

/// A header block cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlock;

impl From<huffman::BadHuffman> for BadBlock {
    fn from(_: huffman::BadHuffman) -> Self {
        Self
    }
}

/// What a header block says.
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

/// One field of the table: what it takes and what it says.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: Name,
    name_size: u32,
    value_size: u32,
    number: Option<u64>,
}

impl Field {
    fn size(&self) -> usize {
        self.name_size as usize + self.value_size as usize + OVERHEAD
    }
}

/// The decoder of one connection.
#[derive(Debug)]
pub struct Decoder {
    /// The newest first.
    table: VecDeque<Field>,
    size: usize,
    limit: usize,
}

impl Decoder {
    /// A decoder with an empty table of [`TABLE_SIZE`].
    pub fn new() -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            limit: TABLE_SIZE,
        }
    }

    /// Decode one block.
    ///
    /// # Errors
    /// [`BadBlock`]: the table is not what the peer takes it for any longer, the connection is lost.
    pub fn decode(&mut self, block: &[u8]) -> Result<Fields, BadBlock> {
        let mut input = Input(block);
        let mut fields = Fields::default();
        let mut resizable = true;
        while let Some(first) = input.peek() {
            let field = match first {
                0x80.. => self.get(input.integer(7)?)?,
                0x40.. => {
                    let field = self.literal(&mut input, 6)?;
                    self.insert(field);
                    field
                }
                0x20.. => {
                    // A new size of the table stands at the start of a block only (4.2).
                    let size = input.integer(5)?;
                    if !resizable || size > TABLE_SIZE {
                        return Err(BadBlock);
                    }
                    self.limit = size;
                    self.evict(0);
                    continue;
                }
                _ => self.literal(&mut input, 4)?,
            };
            resizable = false;
            match field.name {
                Name::Status => {
                    let status = field.number.and_then(|number| u16::try_from(number).ok());
                    let good = status.is_some_and(|status| (100..=999).contains(&status));
                    fields.malformed |= !good || fields.status.is_some();
                    fields.status = status;
                }
                Name::ContentLength => {
                    let again = fields.length.is_some() && fields.length != field.number;
                    fields.malformed |= field.number.is_none() || again;
                    fields.length = field.number;
                }
                Name::Other => {}
            }
        }
        Ok(fields)
    }

    /// The field of an index.
    #[inline]
    fn get(&self, index: usize) -> Result<Field, BadBlock> {
        if index > STATIC.len() {
            let field = self.table.get(index - STATIC.len() - 1);
            return field.copied().ok_or(BadBlock);
        }
        let (name, value) = STATIC[index.checked_sub(1).ok_or(BadBlock)?];
        let kind = if STATUS.contains(&index) {
            Name::Status
        } else if index == CONTENT_LENGTH {
            Name::ContentLength
        } else {
            Name::Other
        };
        Ok(Field {
            name: kind,
            name_size: name.len() as u32,
            value_size: value.len() as u32,
            number: decimal(value.as_bytes()),
        })
    }

    /// A field in full, or with the name of an index.
    fn literal(&self, input: &mut Input, prefix: u32) -> Result<Field, BadBlock> {
        let mut seen = [0; LOOK];
        let (name, name_size) = match input.integer(prefix)? {
            0 => {
                let size = input.string(&mut seen)?;
                let name = match seen.get(..size) {
                    Some(b":status") => Name::Status,
                    Some(b"content-length") => Name::ContentLength,
                    _ => Name::Other,
                };
                (name, size as u32)
            }
            index => {
                let field = self.get(index)?;
                (field.name, field.name_size)
            }
        };
        let value_size = input.string(&mut seen)?;
        Ok(Field {
            name,
            name_size,
            value_size: value_size as u32,
            number: match name {
                Name::Other => None,
                _ => seen.get(..value_size).and_then(decimal),
            },
        })
    }

    /// Enter a field; one that is larger than the table empties it (4.4).
    fn insert(&mut self, field: Field) {
        self.evict(field.size());
        if field.size() <= self.limit {
            self.size += field.size();
            self.table.push_front(field);
        }
    }

    fn evict(&mut self, room: usize) {
        while self.size + room > self.limit {
            let Some(oldest) = self.table.pop_back() else {
                return;
            };
            self.size -= oldest.size();
        }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
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

/// What is left of a block.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, BadBlock> {
        let (first, rest) = self.0.split_first().ok_or(BadBlock)?;
        self.0 = rest;
        Ok(*first)
    }

    /// An integer behind a prefix of so many bits (5.1).
    #[inline]
    fn integer(&mut self, prefix: u32) -> Result<usize, BadBlock> {
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
        Err(BadBlock)
    }

    /// A string: its decoded size, and its start in `seen`.
    fn string(&mut self, seen: &mut [u8; LOOK]) -> Result<usize, BadBlock> {
        let coded = self.peek().ok_or(BadBlock)? & 0x80 != 0;
        let size = self.integer(7)?;
        let (text, rest) = self.0.split_at_checked(size).ok_or(BadBlock)?;
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

/// Whether the peer shall keep a field in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It is entered, and has the lowest index of the dynamic table from now on.
    Yes,
    /// It is not.
    No,
}

/// Whether a field stands in the static table, so that it is an index from the start.
pub fn is_static(name: &str, value: &str) -> bool {
    STATIC.contains(&(name, value))
}

/// Append a field: an index if it [`is_static`], otherwise in full.
pub fn encode(name: &str, value: &str, keep: Keep, out: &mut Vec<u8>) {
    if let Some(i) = STATIC.iter().position(|field| *field == (name, value)) {
        return integer(i + 1, 7, 0x80, out);
    }
    let (prefix, bits) = match keep {
        Keep::Yes => (6, 0x40),
        Keep::No => (4, 0),
    };
    match STATIC.iter().position(|field| field.0 == name) {
        Some(i) => integer(i + 1, prefix, bits, out),
        None => {
            integer(0, prefix, bits, out);
            string(name.as_bytes(), out);
        }
    }
    string(value.as_bytes(), out);
}

/// Append the index of a field in the dynamic table, 0 being the one entered last.
pub fn encode_index(place: usize, out: &mut Vec<u8>) {
    integer(STATIC.len() + 1 + place, 7, 0x80, out);
}

/// Append a new size of the peer's table.
pub fn encode_table_size(size: usize, out: &mut Vec<u8>) {
    integer(size, 5, 0x20, out);
}

/// What a field takes of the table.
pub fn field_size(name: &str, value: &str) -> usize {
    name.len() + value.len() + OVERHEAD
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

/// A string in the shorter of its two forms, as browsers and nghttp2 do.
fn string(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::coded_length(text);
    if coded < text.len() {
        integer(coded, 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        integer(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}
