//! Codes of errors (RFC 9114, 8.1; RFC 9204, 6).

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
