//! The bytes of a connection on their way to be frames.

use super::frame::{self, Head};

/// What is expected next.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// A frame's head, of which so many bytes are there.
    Head(usize),
    /// The length of the padding that follows so many bytes.
    Pad(usize),
    /// So many bytes of DATA, then so many to be skipped.
    Data(usize, usize),
    /// So many bytes to be skipped.
    Skip(usize),
    /// A payload that is looked at as a whole.
    Payload,
}

/// Bytes on their way to be frames.
#[derive(Debug)]
pub struct Input {
    /// What is expected next.
    pub state: State,
    /// The head as far as it came.
    pub bytes: [u8; frame::HEAD],
    /// The last whole head.
    pub head: Head,
    /// A payload as far as it came, if it did not come in one piece.
    pub stash: Vec<u8>,
    /// A header block that goes on: its stream, whether that ends with it, and what there is.
    pub block: Option<(u32, bool)>,
    /// The block as far as it came.
    pub parts: Vec<u8>,
}

impl Input {
    /// Before the first byte.
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
