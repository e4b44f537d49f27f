//! Received bytes that are not complete frames yet.

use super::frame::{self, Head};

/// The expected next part.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// A frame's head; the number of its bytes so far.
    Head(usize),
    /// The length of the padding, before this many bytes.
    Pad(usize),
    /// Bytes of DATA, then bytes of padding.
    Data(usize, usize),
    /// Bytes to skip.
    Skip(usize),
    /// A payload that is processed as a whole.
    Payload,
}

/// Received bytes that are not complete frames yet.
#[derive(Debug)]
pub struct Input {
    /// The expected next part.
    pub state: State,
    /// The bytes of the head so far.
    pub bytes: [u8; frame::HEAD],
    /// The last complete head.
    pub head: Head,
    /// The payload so far, if it did not arrive in one piece.
    pub stash: Vec<u8>,
    /// The stream of an incomplete header block, and whether the stream ends with it.
    pub block: Option<(u32, bool)>,
    /// The header block so far.
    pub parts: Vec<u8>,
}

impl Input {
    /// Create the state before the first byte.
    pub fn new() -> Self {
        Self {
            state: State::Head(0),
            bytes: [0; frame::HEAD],
            head: Head::read([0; frame::HEAD]),
            stash: Vec::new(),
            block: None,
            parts: Vec::new(),
        }
    }
}
