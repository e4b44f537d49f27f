//! Frames of HTTP/2 (RFC 9113, sections 4, 6 and 7): their heads, and those that a client sends.

/// Bytes of a frame's head.
pub const HEAD: usize = 9;
/// The longest payload that a peer may send by default; this client does not change it.
pub const MAX_PAYLOAD: usize = 16_384;
/// The largest flow-control window.
pub const MAX_WINDOW: i64 = 0x7fff_ffff;
/// The window at the start of a connection.
pub const FIRST_WINDOW: i64 = 65_535;

/// Frame type: part of a body.
pub const DATA: u8 = 0;
/// Frame type: opens a stream, or begins a response.
pub const HEADERS: u8 = 1;
/// Frame type: obsolete, and allowed anywhere.
pub const PRIORITY: u8 = 2;
/// Frame type: ends a stream at once.
pub const RST_STREAM: u8 = 3;
/// Frame type: parameters of the connection.
pub const SETTINGS: u8 = 4;
/// Frame type: rejected, because a client without a cache has no use for it.
pub const PUSH_PROMISE: u8 = 5;
/// Frame type: requires an echo.
pub const PING: u8 = 6;
/// Frame type: ends the connection, gracefully or not.
pub const GOAWAY: u8 = 7;
/// Frame type: enlarges a flow-control window.
pub const WINDOW_UPDATE: u8 = 8;
/// Frame type: continues a header block.
pub const CONTINUATION: u8 = 9;

/// Flag of SETTINGS and PING.
pub const ACK: u8 = 1;
/// Flag of DATA and HEADERS.
pub const END_STREAM: u8 = 1;
/// Flag of HEADERS and CONTINUATION.
pub const END_HEADERS: u8 = 4;
/// Flag of DATA and HEADERS.
pub const PADDED: u8 = 8;
/// Flag of HEADERS.
pub const WITH_PRIORITY: u8 = 0x20;

/// Error code: no error.
pub const NO_ERROR: u32 = 0;
/// Error code: any other violation of the protocol.
pub const PROTOCOL_ERROR: u32 = 1;
/// Error code: a flow-control window was exceeded.
pub const FLOW_CONTROL_ERROR: u32 = 3;
/// Error code: a frame of an invalid size.
pub const FRAME_SIZE_ERROR: u32 = 6;
/// Error code: the request was not processed at all.
pub const REFUSED_STREAM: u32 = 7;
/// Error code: the stream is no longer needed.
pub const CANCEL: u32 = 8;
/// Error code: a header block cannot be decoded.
pub const COMPRESSION_ERROR: u32 = 9;
/// Error code: excessive load.
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// Setting: the size of the table of header fields.
pub const HEADER_TABLE_SIZE: u16 = 1;
/// Setting: whether the server may push.
pub const ENABLE_PUSH: u16 = 2;
/// Setting: the most concurrent streams.
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
/// Setting: the window of a new stream.
pub const INITIAL_WINDOW_SIZE: u16 = 4;
/// Setting: the longest payload that is accepted.
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
    /// Parse its bytes.
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

    /// Return whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Append its bytes.
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

/// Append the client's preface: no push, and windows of the largest size, so that no answer waits
/// for the client's permission.
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

/// Append a WINDOW_UPDATE for a stream, or for the connection.
pub fn write_window_update(stream: u32, credit: u32, out: &mut Vec<u8>) {
    write(WINDOW_UPDATE, 0, stream, &credit.to_be_bytes(), out);
}

/// Append a RST_STREAM.
pub fn write_reset(stream: u32, code: u32, out: &mut Vec<u8>) {
    write(RST_STREAM, 0, stream, &code.to_be_bytes(), out);
}

/// Append a GOAWAY. The last stream is 0, because the server opens none.
pub fn write_goaway(code: u32, out: &mut Vec<u8>) {
    let [a, b, c, d] = code.to_be_bytes();
    write(GOAWAY, 0, 0, &[0, 0, 0, 0, a, b, c, d], out);
}
