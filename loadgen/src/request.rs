//! A request in the bytes of every protocol, rendered before the window starts.

use std::sync::Arc;

use bytes::Bytes;

/// A request ready to be sent, and the expected response.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The whole request in HTTP/1.1.
    pub http1: Box<[u8]>,
    /// The request in HTTP/3: the frames before the body, and the body.
    pub http3: [Bytes; 2],
    /// The method.
    pub method: Box<str>,
    /// Host, with the port if one was given: `Host` and `:authority`.
    pub authority: Box<str>,
    /// The target in origin form.
    pub path: Box<str>,
    /// The header fields in order, with names as they were given; without `Host`.
    pub fields: Box<[(Box<str>, Box<str>)]>,
    /// The head in HTTP/2.
    pub http2: Blocks,
    /// The body; empty if there is none.
    pub body: Arc<[u8]>,
    /// True if the method is HEAD: its response has no body, whatever its fields say.
    pub head: bool,
    /// The expected status.
    pub status: Option<u16>,
    /// The expected length of the body.
    pub length: Option<u64>,
    /// The expected hash of the body.
    pub sha256: Option<[u8; 32]>,
    /// True if the hash is checked on every response, not only on a sample.
    pub check_all: bool,
}

/// The header block of a request, in three forms.
///
/// The first request of a connection enters the fields that all requests share into the server's
/// table, and later requests refer to them by index. A field that differs between requests (such as
/// the path) is always sent in full, as a browser does.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// The header block that enters the shared fields.
    pub first: Box<[u8]>,
    /// The header block that refers to them.
    pub next: Box<[u8]>,
    /// The header block for a server that keeps no table.
    pub plain: Box<[u8]>,
}
