//! One connection: a protocol over a transport.
//!
//! One enum with static dispatch. To add a protocol over TCP, write a
//! [`Machine`](crate::machine::Machine) (bytes in, bytes out, no socket and no clock) and add a
//! variant `Stream<Machine>` to [`Carrier`]. To add a way to transport its bytes, add a variant to
//! [`Transport`]. A protocol with a transport of its own (QUIC) is a variant of [`Carrier`] that
//! implements all of its methods.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use crate::errors::Kind;
use crate::http1::Http1;
use crate::http2::Http2;
use crate::machine::{Machine as _, NullSink, Received, Sink};
use crate::plan::Protocol;
use crate::quic::{self, Quic};
use crate::request::Prepared;
use crate::sys;
use crate::tls::{self, Agreed};
use crate::transport::{Stream, Transport};

/// The peer of a carrier, and how to reach it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// IP address and port.
    pub address: SocketAddr,
    /// The protocol spoken there.
    pub protocol: Protocol,
    /// TLS settings; `None` for cleartext.
    pub tls: Option<tls::Client>,
    /// QUIC settings of one thread's connections, for HTTP/3.
    pub quic: Option<quic::Config>,
    /// True if the kernel timestamps incoming bytes, for a loop that sleeps and reads them later.
    pub stamped: bool,
}

impl Endpoint {
    /// Return the size of the read buffer. HTTP/3 takes several batches of datagrams from the
    /// kernel.
    pub fn buffer_bytes(&self) -> usize {
        match self.protocol {
            Protocol::Http1 | Protocol::Http2 => 64 * 1024,
            Protocol::Http3 => 4 * 64 * 1024,
        }
    }

    fn transport(&self) -> Result<Transport, Kind> {
        Transport::open(&self.address, self.tls.as_ref(), self.stamped)
    }
}

/// One connection.
#[derive(Debug)]
pub enum Carrier {
    /// HTTP/1.1 over TCP.
    Http1(Stream<Http1>),
    /// HTTP/2 over TCP.
    Http2(Stream<Http2>),
    /// HTTP/3 over QUIC. Boxed, because it is large.
    Http3(Box<Quic>),
}

impl Carrier {
    /// Start to connect, for this number of streams.
    pub fn open(endpoint: &Endpoint, streams: u32) -> Result<Self, Kind> {
        match endpoint.protocol {
            Protocol::Http1 => {
                let transport = endpoint.transport()?;
                Ok(Self::Http1(Stream::new(transport, Http1::default())))
            }
            Protocol::Http2 => {
                let transport = endpoint.transport()?;
                Ok(Self::Http2(Stream::new(transport, Http2::new(streams))))
            }
            Protocol::Http3 => {
                // Plans of HTTP/3 without TLS are rejected when they are read.
                let config = endpoint.quic.as_ref().ok_or(Kind::ConnectFailed)?;
                let quic = Quic::open(endpoint.address, config, streams)?;
                Ok(Self::Http3(Box::new(quic)))
            }
        }
    }

    /// Change the number of streams. No request may be in progress.
    pub fn set_streams(&mut self, streams: u32) {
        match self {
            Self::Http1(stream) => stream.machine.set_streams(streams),
            Self::Http2(stream) => stream.machine.set_streams(streams),
            Self::Http3(quic) => quic.set_streams(streams),
        }
    }

    /// Return the negotiated encryption; `None` until the connection is established.
    pub fn agreed(&self) -> Option<Agreed> {
        match self {
            Self::Http1(stream) => stream.transport.agreed(),
            Self::Http2(stream) => stream.transport.agreed(),
            Self::Http3(quic) => quic.agreed(),
        }
    }

    /// Return the counts of UDP and of the path since the last call; `None` unless it is QUIC.
    pub fn path(&mut self) -> Option<quic::Path> {
        match self {
            Self::Http1(_) | Self::Http2(_) => None,
            Self::Http3(quic) => Some(quic.path()),
        }
    }

    /// Return whether [`Self::flush`] must be called when the socket becomes writable.
    pub fn wants_writable(&self) -> bool {
        !matches!(self, Self::Http3(_))
    }

    /// Return the socket, to be polled edge-triggered.
    pub fn socket(&self) -> &OwnedFd {
        match self {
            Self::Http1(stream) => stream.transport.socket(),
            Self::Http2(stream) => stream.transport.socket(),
            Self::Http3(quic) => quic.socket(),
        }
    }

    /// Handle an event of a connection that is being established; return whether it now is.
    pub fn establish(&mut self, buffer: &mut [u8]) -> Result<bool, Kind> {
        match self {
            Self::Http1(stream) => stream.establish(buffer),
            Self::Http2(stream) => stream.establish(buffer),
            Self::Http3(quic) => quic.establish(buffer),
        }
    }

    /// Return how many concurrent requests the peer accepts now.
    #[inline]
    pub fn streams(&self) -> u32 {
        match self {
            Self::Http1(stream) => stream.machine.streams(),
            Self::Http2(stream) => stream.machine.streams(),
            Self::Http3(quic) => quic.streams(),
        }
    }

    /// Send a request on a free stream. Return false if not even its first byte reached the kernel;
    /// [`Sink::written`] reports when it does.
    #[inline]
    pub fn request(
        &mut self,
        stream: u32,
        request: &Prepared,
        sink: &mut impl Sink,
    ) -> Result<bool, Kind> {
        match self {
            Self::Http1(carrier) => carrier.request(stream, request, sink),
            Self::Http2(carrier) => carrier.request(stream, request, sink),
            Self::Http3(quic) => quic.request(stream, request, sink),
        }
    }

    /// Send the pending bytes, now that the socket is writable.
    #[inline]
    pub fn flush(&mut self, sink: &mut impl Sink) -> Result<(), Kind> {
        match self {
            Self::Http1(stream) => stream.flush(sink),
            Self::Http2(stream) => stream.flush(sink),
            Self::Http3(quic) => quic.flush(sink),
        }
    }

    /// Read once and process the bytes. Unsolicited bytes may be an error.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8], sink: &mut impl Sink) -> Result<Received, Kind> {
        match self {
            Self::Http1(stream) => stream.receive(buffer, sink),
            Self::Http2(stream) => stream.receive(buffer, sink),
            Self::Http3(quic) => quic.receive(buffer, sink),
        }
    }

    /// Cancel a request; return false if that requires closing the connection.
    pub fn cancel(&mut self, stream: u32) -> bool {
        match self {
            Self::Http1(carrier) => carrier.cancel(stream),
            Self::Http2(carrier) => carrier.cancel(stream),
            Self::Http3(quic) => quic.cancel(stream),
        }
    }

    /// Return when to call [`Self::alarm`] if no event comes first: timers of the protocol.
    #[inline]
    pub fn deadline(&self) -> Option<u64> {
        match self {
            Self::Http1(_) | Self::Http2(_) => None,
            Self::Http3(quic) => quic.deadline(),
        }
    }

    /// Handle a deadline that has passed.
    pub fn alarm(&mut self, now: u64, sink: &mut impl Sink) -> Result<(), Kind> {
        match self {
            Self::Http1(_) | Self::Http2(_) => Ok(()),
            Self::Http3(quic) => quic.alarm(now, sink),
        }
    }

    /// Process what came while the connection was idle; return whether it is still usable.
    pub fn is_usable(&mut self, buffer: &mut [u8]) -> bool {
        let mut sink = NullSink::default();
        let now = sink.now();
        if self.deadline().is_some_and(|deadline| deadline <= now)
            && self.alarm(now, &mut sink).is_err()
        {
            return false;
        }
        loop {
            match self.receive(buffer, &mut sink) {
                Ok(Received::Bytes { .. }) => {}
                Ok(Received::Nothing) => return !sink.closing,
                Ok(Received::End) | Err(_) => return false,
            }
        }
    }

    /// Make the coming drop reset the connection instead of letting it linger.
    pub fn abort(&self) {
        match self {
            Self::Http1(stream) => sys::reset_on_close(stream.transport.socket()),
            Self::Http2(stream) => sys::reset_on_close(stream.transport.socket()),
            // QUIC always notifies the peer.
            Self::Http3(_) => {}
        }
    }
}
