//! Error codes (RFC 9114, 8.1; RFC 9204, 6).

/// No error.
pub const NO_ERROR: u64 = 0x100;
/// Any other violation of the protocol.
pub const GENERAL_PROTOCOL: u64 = 0x101;
/// A second stream of a type that exists only once.
pub const STREAM_CREATION: u64 = 0x103;
/// A stream was closed that must stay open as long as the connection.
pub const CLOSED_CRITICAL_STREAM: u64 = 0x104;
/// A frame that is not allowed at this place.
pub const FRAME_UNEXPECTED: u64 = 0x105;
/// A frame of an invalid size.
pub const FRAME: u64 = 0x106;
/// The peer causes excessive load.
pub const EXCESSIVE_LOAD: u64 = 0x107;
/// An invalid identifier: a push, or a GOAWAY with a higher one than before.
pub const ID: u64 = 0x108;
/// Invalid settings.
pub const SETTINGS: u64 = 0x109;
/// The control stream does not begin with SETTINGS.
pub const MISSING_SETTINGS: u64 = 0x10a;
/// The server has not processed the request.
pub const REQUEST_REJECTED: u64 = 0x10b;
/// The request or its response is no longer needed.
pub const REQUEST_CANCELLED: u64 = 0x10c;
/// A malformed message of HTTP.
pub const MESSAGE: u64 = 0x10e;
/// A field section cannot be decoded.
pub const QPACK_DECOMPRESSION_FAILED: u64 = 0x200;
/// An instruction for a table that was not offered.
pub const QPACK_ENCODER_STREAM: u64 = 0x201;
