//! Header compression (RFC 7541), as far as a load generator needs it.
//!
//! Of a response, only the status and the announced length matter, but the dynamic table must be
//! tracked exactly. So the table stores the sizes of each field and, for those two fields, the
//! number. No text is stored, and no memory is allocated after the first responses.

use std::collections::VecDeque;

use crate::fields::{BadFields, Fields, Input, LOOK, Name, decimal, integer, string};

/// The default size of the dynamic table of either side (RFC 9113, 6.5.2).
pub const TABLE_SIZE: usize = 4096;
/// Bytes that a field takes in the table, apart from its name and value.
const OVERHEAD: usize = 32;
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

/// Indices of the fields that matter in the static table.
const STATUS: std::ops::RangeInclusive<usize> = 8..=14;
const CONTENT_LENGTH: usize = 28;

/// One field of the table: its sizes and its number.
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

/// A decoder of one connection.
#[derive(Debug)]
pub struct Decoder {
    /// The fields, newest first.
    table: VecDeque<Field>,
    size: usize,
    limit: usize,
}

impl Decoder {
    /// Create a decoder with an empty table of [`TABLE_SIZE`].
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
    /// [`BadFields`]: the tables of the two sides differ now, and the connection is lost.
    pub fn decode(&mut self, block: &[u8]) -> Result<Fields, BadFields> {
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
                    // A table size update is allowed only at the start of a block (4.2).
                    let size = input.integer(5)?;
                    if !resizable || size > TABLE_SIZE {
                        return Err(BadFields);
                    }
                    self.limit = size;
                    self.evict(0);
                    continue;
                }
                _ => self.literal(&mut input, 4)?,
            };
            resizable = false;
            fields.take(field.name, field.number);
        }
        Ok(fields)
    }

    /// Return the field with this index.
    #[inline]
    fn get(&self, index: usize) -> Result<Field, BadFields> {
        if index > STATIC.len() {
            let field = self.table.get(index - STATIC.len() - 1);
            return field.copied().ok_or(BadFields);
        }
        let (name, value) = STATIC[index.checked_sub(1).ok_or(BadFields)?];
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

    /// Read a literal field, or one with the name of an index.
    fn literal(&self, input: &mut Input, prefix: u32) -> Result<Field, BadFields> {
        let mut seen = [0; LOOK];
        let (name, name_size) = match input.integer(prefix)? {
            0 => {
                let size = input.string(7, &mut seen)?;
                let name = seen.get(..size).map_or(Name::Other, Name::of);
                (name, size as u32)
            }
            index => {
                let field = self.get(index)?;
                (field.name, field.name_size)
            }
        };
        let value_size = input.string(7, &mut seen)?;
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

    /// Insert a field; one that is larger than the table empties it (4.4).
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

/// True if the peer keeps a field in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The field is inserted, with the lowest index of the dynamic table.
    Yes,
    /// The field is not inserted.
    No,
}

/// Return whether the static table contains a field, so that it can always be sent as an index.
pub fn is_static(name: &str, value: &str) -> bool {
    STATIC.contains(&(name, value))
}

/// Append a field: as an index if it [`is_static`], otherwise in full.
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
            string(name.as_bytes(), 7, 0, out);
        }
    }
    string(value.as_bytes(), 7, 0, out);
}

/// Append the index of a field in the dynamic table; 0 is the newest.
pub fn encode_index(place: usize, out: &mut Vec<u8>) {
    integer(STATIC.len() + 1 + place, 7, 0x80, out);
}

/// Append a size update for the peer's table.
pub fn encode_table_size(size: usize, out: &mut Vec<u8>) {
    integer(size, 5, 0x20, out);
}

/// Return the bytes that a field takes in the table.
pub fn field_size(name: &str, value: &str) -> usize {
    name.len() + value.len() + OVERHEAD
}
