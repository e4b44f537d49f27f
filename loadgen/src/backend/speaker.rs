//! The events that each protocol gives the loop: complete requests, and the error that ends a connection.

/// A request that is complete, body and all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its number on the connection, for the answer.
    pub stream: u32,
    /// The number of its answer, if it names one.
    pub number: Option<u64>,
}

/// The error that the peer does not follow its protocol, or exceeds a limit: its connection is
/// closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation;
