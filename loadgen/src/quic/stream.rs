//! The stream of one request.

use bytes::Bytes;
use quinn_proto::{StreamId, VarInt};

use crate::http3::Response;

/// One request and its response.
#[derive(Debug)]
pub struct Stream {
    /// The id of the stream; `None` without a request in progress.
    pub id: Option<StreamId>,
    /// The parser of the response.
    pub response: Response,
    /// True if the first byte of the response came.
    pub started: bool,
    /// The rest of the request that flow control has not accepted: head and body.
    pub rest: [Bytes; 2],
    /// When the request was started.
    pub since: u64,
}

/// Convert an error code of HTTP/3.
pub fn reason(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
