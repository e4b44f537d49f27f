//! The interface of a protocol's state machine, and the sink that takes its events.

use crate::errors::Kind;
use crate::request::Prepared;
use crate::sys;

/// A receiver of a connection's events, by stream.
pub trait Sink {
    /// The bytes of the next calls arrived this many nanoseconds ago, as timestamped by the kernel.
    /// Without this call, they arrived at the instant at which the poll returned that reported
    /// them.
    fn arrived(&mut self, _age_ns: u64) {}
    /// Bytes of a response arrived. Only the first call for a response matters.
    fn started(&mut self, stream: u32);
    /// Bytes of a body arrived.
    fn body(&mut self, stream: u32, bytes: &[u8]);
    /// A response is complete, and the stream is free for another request.
    fn complete(&mut self, stream: u32, status: u16, length: u64);
    /// A request failed, but the connection did not. `again`: the server has certainly not
    /// processed it, so it may be sent again.
    fn failed(&mut self, stream: u32, kind: Kind, again: bool);
    /// The connection accepts no new requests; those in progress still finish.
    fn closing(&mut self);
    /// Return the time, in nanoseconds of the monotonic clock.
    fn now(&mut self) -> u64;
    /// One piece of a large batch of work is done. The generator's own work does not count as a
    /// stall, however much arrives at once.
    fn working(&mut self) {}
    /// Bytes reached the kernel.
    fn sent(&mut self, bytes: usize);
    /// The first byte of a delayed request reached the kernel, just after `at`.
    fn written(&mut self, stream: u32, at: u64);
}

/// A protocol as a function of bytes, without a socket. Streams are numbered from 0, one for each
/// concurrent request; numbers are reused.
pub trait Machine {
    /// Append what the client sends first, now that the transport is established.
    fn open(&mut self, _out: &mut Vec<u8>) {}

    /// Return whether requests may be sent: the peer has sent its settings, where the protocol has
    /// any.
    fn ready(&self) -> bool {
        true
    }

    /// Return how many concurrent requests the peer accepts now.
    fn streams(&self) -> u32;

    /// Change the number of streams. No request may be in progress.
    fn set_streams(&mut self, _streams: u32) {}

    /// Start a request on a free stream. Write the returned bytes after `out`; they need not be
    /// copied there.
    fn request<'r>(
        &mut self,
        stream: u32,
        request: &'r Prepared,
        out: &mut Vec<u8>,
    ) -> Result<&'r [u8], Kind>;

    /// Process received bytes. `out` holds the unsent bytes; replies are appended to it. An error
    /// ends the connection and all of its requests.
    fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<(), Kind>;

    /// The peer ended its side of the stream. An error applies to all requests in progress.
    fn end(&mut self, sink: &mut impl Sink) -> Result<(), Kind>;

    /// Return the cause of a transport error, if the peer reported one before.
    fn reason(&self, kind: Kind) -> Kind {
        kind
    }

    /// Cancel a request; return false if that requires closing the connection.
    fn cancel(&mut self, stream: u32, out: &mut Vec<u8>) -> bool;

    /// Append more of the bodies that are still to be sent, now that `out` is empty.
    fn pump(&mut self, _out: &mut Vec<u8>) {}
}

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes were read.
    Bytes {
        /// Number of bytes.
        count: usize,
        /// True if more may be available.
        more: bool,
    },
    /// Nothing was available.
    Nothing,
    /// The peer ended its side of the stream.
    End,
}

/// A sink that ignores all events, for a connection without requests.
#[derive(Debug, Default)]
pub struct NullSink {
    /// True if the connection accepts no more requests.
    pub closing: bool,
}

impl Sink for NullSink {
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
