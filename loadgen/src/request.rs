//! A request made ready before the window starts, for whichever protocol carries it.

use std::sync::Arc;

use bytes::Bytes;

/// A request ready to be sent, with what its response must look like.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The whole request as HTTP/1.1 writes it.
    pub http1: Box<[u8]>,
    /// The whole request as HTTP/3 writes it, its body apart from what comes before.
    pub http3: [Bytes; 2],
    /// The method.
    pub method: Box<str>,
    /// Host, with the port if it was given: `Host` and `:authority`.
    pub authority: Box<str>,
    /// The target in origin form.
    pub path: Box<str>,
    /// The header fields in order, names as they were given; `Host` is not among them.
    pub fields: Box<[(Box<str>, Box<str>)]>,
    /// Its head as HTTP/2 writes it.
    pub http2: Blocks,
    /// The body; empty if there is none.
    pub body: Arc<[u8]>,
    /// A response to HEAD has no body whatever its fields say.
    pub head: bool,
    /// The status to expect.
    pub status: Option<u16>,
    /// The length of the body to expect.
    pub length: Option<u64>,
    /// The hash of the body to expect.
    pub sha256: Option<[u8; 32]>,
    /// Whether the hash is checked on every response, not on a sample.
    pub check_all: bool,
}

/// The header block of a request, in three forms.
///
/// Fields that all requests of the mix have in common are entered into the server's table by the
/// first request of a connection, and are indices ever after: what a browser sends in full again
/// and again (its path, say) is sent in full here too.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// The header block that enters the common fields.
    pub first: Box<[u8]>,
    /// The header block that relies on them.
    pub next: Box<[u8]>,
    /// The header block for a server that keeps no table.
    pub plain: Box<[u8]>,
}
