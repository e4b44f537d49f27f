//! Frames of HTTP/3 (RFC 9114, 7), and the integers in them.

pub const DATA: u64 = 0x0;
pub const HEADERS: u64 = 0x1;
pub const CANCEL_PUSH: u64 = 0x3;
pub const SETTINGS: u64 = 0x4;
pub const PUSH_PROMISE: u64 = 0x5;
pub const GOAWAY: u64 = 0x7;
pub const MAX_PUSH_ID: u64 = 0xd;
/// Frame types of HTTP/2 that HTTP/3 forbids (7.2.8).
pub const OF_HTTP2: [u64; 4] = [0x2, 0x6, 0x8, 0x9];

/// Append an integer of up to 62 bits (RFC 9000, 16).
pub fn put_varint(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Return the integer at the start of the bytes, and how many bytes it takes; `None` if it is
/// incomplete.
#[inline]
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let size = 1 << (first >> 6);
    let rest = bytes.get(1..size)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| {
        value << 8 | u64::from(*byte)
    });
    Some((value, size))
}

/// Return the type and the length of a frame, and how many bytes they take; `None` if they are
/// incomplete.
#[inline]
pub fn frame_head(bytes: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, at) = varint(bytes)?;
    let (length, size) = varint(&bytes[at..])?;
    Some((kind, length, at + size))
}

/// Bytes that arrived in pieces, collected up to a limit.
#[derive(Debug, Default)]
pub struct Stash(pub Vec<u8>);

/// The most bytes of a frame's type and length.
pub const FRAME_HEAD: usize = 16;

impl Stash {
    /// Return the type and the length of the frame that begins here, and how many of the bytes
    /// belong to them.
    #[inline]
    pub fn frame_head(&mut self, bytes: &[u8]) -> (Option<(u64, u64)>, usize) {
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

/// Return how many of the bytes lie within a limit.
pub fn at_most(bytes: &[u8], limit: u64) -> usize {
    usize::try_from(limit).map_or(bytes.len(), |limit| limit.min(bytes.len()))
}
