//! Frames of HTTP/2 (RFC 9113, sections 4, 6 and 7): their heads, and those that a client writes.

/// Bytes of a frame's head.
pub const HEAD: usize = 9;
/// The longest payload that a peer may send unless told otherwise, and we tell nothing else.
pub const MAX_PAYLOAD: usize = 16_384;
/// The largest window that flow control knows.
pub const MAX_WINDOW: i64 = 0x7fff_ffff;
/// The window at the start of a connection.
pub const FIRST_WINDOW: i64 = 65_535;

/// Types.
pub const DATA: u8 = 0;
/// Opens a stream, or answers on it.
pub const HEADERS: u8 = 1;
/// Obsolete, and allowed anywhere.
pub const PRIORITY: u8 = 2;
/// Ends a stream at once.
pub const RST_STREAM: u8 = 3;
/// Parameters of the connection.
pub const SETTINGS: u8 = 4;
/// Refused: a client that has no cache has no use for it.
pub const PUSH_PROMISE: u8 = 5;
/// Is to be echoed.
pub const PING: u8 = 6;
/// Ends the connection, gently or not.
pub const GOAWAY: u8 = 7;
/// Gives credit.
pub const WINDOW_UPDATE: u8 = 8;
/// More of a header block.
pub const CONTINUATION: u8 = 9;

/// Flags: of SETTINGS and PING,
pub const ACK: u8 = 1;
/// of DATA and HEADERS,
pub const END_STREAM: u8 = 1;
/// of HEADERS and CONTINUATION,
pub const END_HEADERS: u8 = 4;
/// of DATA and HEADERS,
pub const PADDED: u8 = 8;
/// of HEADERS.
pub const WITH_PRIORITY: u8 = 0x20;

/// Error codes that this client says or looks for.
pub const NO_ERROR: u32 = 0;
/// Something is against the rules.
pub const PROTOCOL_ERROR: u32 = 1;
/// A window was overrun.
pub const FLOW_CONTROL_ERROR: u32 = 3;
/// A frame of a wrong size.
pub const FRAME_SIZE_ERROR: u32 = 6;
/// Not processed at all.
pub const REFUSED_STREAM: u32 = 7;
/// No longer wanted.
pub const CANCEL: u32 = 8;
/// A header block that cannot be decoded.
pub const COMPRESSION_ERROR: u32 = 9;
/// Too much of something.
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// What settings are about.
pub const HEADER_TABLE_SIZE: u16 = 1;
/// Whether the server may push.
pub const ENABLE_PUSH: u16 = 2;
/// The most streams open at a time.
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
/// The window of a new stream.
pub const INITIAL_WINDOW_SIZE: u16 = 4;
/// The longest payload that it takes.
pub const MAX_FRAME_SIZE: u16 = 5;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the payload.
    pub length: usize,
    /// The type.
    pub kind: u8,
    /// Flags.
    pub flags: u8,
    /// The stream; 0 is the connection.
    pub stream: u32,
}

impl Head {
    /// From its bytes.
    #[inline]
    pub fn read(bytes: [u8; HEAD]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Append it.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        out.extend_from_slice(&[a, b, c, self.kind, self.flags, d, e, f, g]);
    }
}

/// Append a frame.
pub fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    Head {
        length: payload.len(),
        kind,
        flags,
        stream,
    }
    .write(out);
    out.extend_from_slice(payload);
}

/// Append what a client says first: nothing is pushed, and windows are as large as they can be, so
/// that no answer ever waits for the client's permission.
pub fn write_preface(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let mut settings = Vec::with_capacity(12);
    for (setting, value) in [(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, MAX_WINDOW as u32)] {
        settings.extend(setting.to_be_bytes());
        settings.extend(value.to_be_bytes());
    }
    write(SETTINGS, 0, 0, &settings, out);
    write_window_update(0, (MAX_WINDOW - FIRST_WINDOW) as u32, out);
}

/// Append credit for a stream, or for the connection.
pub fn write_window_update(stream: u32, credit: u32, out: &mut Vec<u8>) {
    write(WINDOW_UPDATE, 0, stream, &credit.to_be_bytes(), out);
}

/// Append the end of a stream.
pub fn write_reset(stream: u32, code: u32, out: &mut Vec<u8>) {
    write(RST_STREAM, 0, stream, &code.to_be_bytes(), out);
}

/// Append the end of the connection. No stream of the server's was processed: there is none.
pub fn write_goaway(code: u32, out: &mut Vec<u8>) {
    let [a, b, c, d] = code.to_be_bytes();
    write(GOAWAY, 0, 0, &[0, 0, 0, 0, a, b, c, d], out);
}
