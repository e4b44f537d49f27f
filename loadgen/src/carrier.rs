//! What carries requests: a protocol's state machine over a transport.
//!
//! One enum with static dispatch. To add a protocol over TCP, write a [`Machine`](crate::machine::Machine) (bytes in, bytes
//! out, no socket and no clock) and give [`Carrier`] a variant `Stream<Machine>`; to add a way to
//! bring its bytes to the peer, give [`Transport`] a variant. A protocol that brings its transport
//! with it (QUIC) is a variant of [`Carrier`] of its own and answers all of its methods.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use crate::errors::Kind;
use crate::http1::Http1;
use crate::http2::Http2;
use crate::machine::{Machine as _, Nobody, Received, Sink};
use crate::plan::Protocol;
use crate::quic::{self, Quic};
use crate::request::Prepared;
use crate::sys;
use crate::tls::{self, Agreed};
use crate::transport::{Stream, Transport};

/// Where a carrier leads, and what it is to be made of.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// IP address and port.
    pub address: SocketAddr,
    /// What is spoken there.
    pub protocol: Protocol,
    /// How it is encrypted, if it is.
    pub tls: Option<tls::Client>,
    /// What HTTP/3 needs besides, for one thread's connections.
    pub quic: Option<quic::Config>,
    /// Whether the kernel shall say when bytes came in: for a loop that sleeps, and reads them later.
    pub stamped: bool,
}

impl Endpoint {
    /// To be read into at once: HTTP/3 takes several runs of datagrams from the kernel.
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

/// What one connection is made of.
#[derive(Debug)]
pub enum Carrier {
    /// HTTP/1.1 over TCP.
    Http1(Stream<Http1>),
    /// HTTP/2 over TCP.
    Http2(Stream<Http2>),
    /// HTTP/3 over QUIC. It is large, and the others shall not pay for that.
    Http3(Box<Quic>),
}

impl Carrier {
    /// Start to connect; so many streams will be used.
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
                // Plans without TLS are refused when they are read.
                let config = endpoint.quic.as_ref().ok_or(Kind::ConnectFailed)?;
                let quic = Quic::open(endpoint.address, config, streams)?;
                Ok(Self::Http3(Box::new(quic)))
            }
        }
    }

    /// So many streams are used from now on; none is under way.
    pub fn lend(&mut self, streams: u32) {
        match self {
            Self::Http1(stream) => stream.machine.lend(streams),
            Self::Http2(stream) => stream.machine.lend(streams),
            Self::Http3(quic) => quic.want(streams),
        }
    }

    /// What was agreed about encryption, once it is established.
    pub fn agreed(&self) -> Option<Agreed> {
        match self {
            Self::Http1(stream) => stream.transport.agreed(),
            Self::Http2(stream) => stream.transport.agreed(),
            Self::Http3(quic) => quic.agreed(),
        }
    }

    /// What UDP and the path did since the last time that this was asked, if it is QUIC.
    pub fn path(&mut self) -> Option<quic::Path> {
        match self {
            Self::Http1(_) | Self::Http2(_) => None,
            Self::Http3(quic) => Some(quic.path()),
        }
    }

    /// Whether [`Self::flush`] is to be called when the socket can be written to again.
    pub fn heeds_room(&self) -> bool {
        !matches!(self, Self::Http3(_))
    }

    /// The socket, to be watched, edge-triggered.
    pub fn socket(&self) -> &OwnedFd {
        match self {
            Self::Http1(stream) => stream.transport.socket(),
            Self::Http2(stream) => stream.transport.socket(),
            Self::Http3(quic) => quic.socket(),
        }
    }

    /// An event came for a connection that is not established; whether it is now.
    pub fn establish(&mut self, buffer: &mut [u8]) -> Result<bool, Kind> {
        match self {
            Self::Http1(stream) => stream.establish(buffer),
            Self::Http2(stream) => stream.establish(buffer),
            Self::Http3(quic) => quic.establish(buffer),
        }
    }

    /// How many requests it takes at the same time, as of now.
    #[inline]
    pub fn streams(&self) -> u32 {
        match self {
            Self::Http1(stream) => stream.machine.streams(),
            Self::Http2(stream) => stream.machine.streams(),
            Self::Http3(quic) => quic.streams(),
        }
    }

    /// Send a request on a free stream. False: not even its first byte went to the kernel yet, and
    /// [`Sink::written`] will tell when it does.
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

    /// The peer takes bytes again: send what is left.
    #[inline]
    pub fn flush(&mut self, sink: &mut impl Sink) -> Result<(), Kind> {
        match self {
            Self::Http1(stream) => stream.flush(sink),
            Self::Http2(stream) => stream.flush(sink),
            Self::Http3(quic) => quic.flush(sink),
        }
    }

    /// Read once, and take what came. Bytes that come unasked may be an error.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8], sink: &mut impl Sink) -> Result<Received, Kind> {
        match self {
            Self::Http1(stream) => stream.receive(buffer, sink),
            Self::Http2(stream) => stream.receive(buffer, sink),
            Self::Http3(quic) => quic.receive(buffer, sink),
        }
    }

    /// A request is not waited for any longer; false if the connection must be closed for that.
    pub fn cancel(&mut self, stream: u32) -> bool {
        match self {
            Self::Http1(carrier) => carrier.cancel(stream),
            Self::Http2(carrier) => carrier.cancel(stream),
            Self::Http3(quic) => quic.cancel(stream),
        }
    }

    /// When [`Self::alarm`] is to be called, if before any event: timers of the protocol.
    #[inline]
    pub fn deadline(&self) -> Option<u64> {
        match self {
            Self::Http1(_) | Self::Http2(_) => None,
            Self::Http3(quic) => quic.deadline(),
        }
    }

    /// The deadline has passed.
    pub fn alarm(&mut self, now: u64, sink: &mut impl Sink) -> Result<(), Kind> {
        match self {
            Self::Http1(_) | Self::Http2(_) => Ok(()),
            Self::Http3(quic) => quic.alarm(now, sink),
        }
    }

    /// Take what came while nothing was under way; whether it is still of use.
    pub fn is_well(&mut self, buffer: &mut [u8]) -> bool {
        let mut nobody = Nobody::default();
        let now = nobody.now();
        if self.deadline().is_some_and(|deadline| deadline <= now)
            && self.alarm(now, &mut nobody).is_err()
        {
            return false;
        }
        loop {
            match self.receive(buffer, &mut nobody) {
                Ok(Received::Bytes { .. }) => {}
                Ok(Received::Nothing) => return !nobody.closing,
                Ok(Received::End) | Err(_) => return false,
            }
        }
    }

    /// Let the coming drop cut off what is under way instead of lingering.
    pub fn abort(&self) {
        match self {
            Self::Http1(stream) => sys::reset_on_close(stream.transport.socket()),
            Self::Http2(stream) => sys::reset_on_close(stream.transport.socket()),
            // It always tells the peer.
            Self::Http3(_) => {}
        }
    }
}
