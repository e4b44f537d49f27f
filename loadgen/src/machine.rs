//! A protocol's state machine, and the sink that takes what comes out of it.

use crate::errors::Kind;
use crate::request::Prepared;
use crate::sys;

/// Takes what comes out of a carrier, stream by stream.
pub trait Sink {
    /// What follows came in so many nanoseconds ago, by the kernel's word. Without it, it came at the
    /// instant at which the poll returned that told of it.
    fn arrived(&mut self, _age_ns: u64) {}
    /// The first byte of a response came.
    fn started(&mut self, stream: u32);
    /// Bytes of a body.
    fn body(&mut self, stream: u32, bytes: &[u8]);
    /// A response is complete; the stream is free for another request.
    fn complete(&mut self, stream: u32, status: u16, length: u64);
    /// A request came to nothing while the connection goes on. `again`: the server has certainly
    /// not processed it, so that it may be written once more.
    fn failed(&mut self, stream: u32, kind: Kind, again: bool);
    /// The connection takes no new requests; what runs comes to its end.
    fn closing(&mut self);
    /// The clock, in nanoseconds.
    fn now(&mut self) -> u64;
    /// Much is to be taken at once, and a piece of it was: the loop's own work is no stall, however
    /// much comes together.
    fn working(&mut self) {}
    /// Bytes went to the kernel.
    fn sent(&mut self, bytes: usize);
    /// The first byte of a request that had to wait went to the kernel, just after `at`.
    fn written(&mut self, stream: u32, at: u64);
}

/// A protocol on bytes alone. Streams are numbered from 0, one for each request that may be under
/// way at the same time; the numbers are used again and again.
pub trait Machine {
    /// The transport is there: what goes first.
    fn open(&mut self, _out: &mut Vec<u8>) {}

    /// Whether requests may be made: the peer has said what must be known before.
    fn ready(&self) -> bool {
        true
    }

    /// How many requests the peer takes at the same time, as of now.
    fn streams(&self) -> u32;

    /// So many streams are used from now on; none is under way.
    fn lend(&mut self, _streams: u32) {}

    /// Make a request on a free stream. What is returned is to be written after `out` and need not
    /// be copied there.
    fn request<'r>(
        &mut self,
        stream: u32,
        request: &'r Prepared,
        out: &mut Vec<u8>,
    ) -> Result<&'r [u8], Kind>;

    /// Bytes came. `out` holds what is yet unsent, and takes what must be said in return. An error
    /// ends the connection and what it carries.
    fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<(), Kind>;

    /// The peer's bytes have come to their end; an error befalls all requests that still run.
    fn end(&mut self, sink: &mut impl Sink) -> Result<(), Kind>;

    /// What lies behind an error of the transport, if the peer has said so before.
    fn reason(&self, kind: Kind) -> Kind {
        kind
    }

    /// A request is not waited for any longer; false if only a close can bring that about.
    fn cancel(&mut self, stream: u32, out: &mut Vec<u8>) -> bool;

    /// All that was in `out` is sent: more of what was too much at once.
    fn pump(&mut self, _out: &mut Vec<u8>) {}
}

/// What one reading brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes came.
    Bytes {
        /// How many.
        count: usize,
        /// Whether there may be more.
        more: bool,
    },
    /// There was nothing to read.
    Nothing,
    /// The peer's bytes have come to their end.
    End,
}

/// The sink of a connection that carries nothing.
#[derive(Debug, Default)]
pub struct Nobody {
    /// Whether it takes no requests either.
    pub closing: bool,
}

impl Sink for Nobody {
    fn started(&mut self, _stream: u32) {}
    fn body(&mut self, _stream: u32, _bytes: &[u8]) {}
    fn complete(&mut self, _stream: u32, _status: u16, _length: u64) {}
    fn failed(&mut self, _stream: u32, _kind: Kind, _again: bool) {}
    fn closing(&mut self) {
        self.closing = true;
    }
    fn now(&mut self) -> u64 {
        sys::now_ns()
    }
    fn sent(&mut self, _bytes: usize) {}
    fn written(&mut self, _stream: u32, _at: u64) {}
}
