//! One request's stream.

use bytes::Bytes;
use quinn_proto::{StreamId, VarInt};

use crate::http3::Response;

/// One request and its response.
#[derive(Debug)]
pub struct Stream {
    /// `None`: nothing is under way.
    pub id: Option<StreamId>,
    /// The parser of the response.
    pub response: Response,
    /// Whether its first byte came.
    pub started: bool,
    /// What flow control did not take of the request: head and body.
    pub rest: [Bytes; 2],
    /// When the request was made.
    pub since: u64,
}

/// An error code of HTTP/3 as QUIC carries it.
pub fn reason(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
