//! What carries requests: a protocol's state machine over a transport.
//!
//! One enum with static dispatch. To add a protocol over TCP, write a [`Machine`] (bytes in, bytes
//! out, no socket and no clock) and give [`Carrier`] a variant `Stream<Machine>`; to add a way to
//! bring its bytes to the peer, give [`Transport`] a variant. A protocol that brings its transport
//! with it (QUIC) is a variant of [`Carrier`] of its own and answers all of its methods.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use crate::errors::Kind;
use crate::http1::Http1;
use crate::http2::Http2;
use crate::plan::Protocol;
use crate::quic::{self, Quic};
use crate::request::Prepared;
use crate::sys;
use crate::tls::{self, Agreed, Tls};

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
}

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

/// Brings bytes to the peer and back.
#[derive(Debug)]
pub enum Transport {
    /// TCP, cleartext.
    Plain(OwnedFd),
    /// The same, with the kernel's word of when bytes came in.
    Stamped(OwnedFd),
    /// TLS over TCP. It is large, and cleartext shall not pay for that.
    Tls(Box<Tls>),
}

impl Transport {
    fn open(endpoint: &Endpoint) -> Result<Self, Kind> {
        let opened = sys::connect(&endpoint.address);
        let (socket, _) = opened.map_err(|error| Kind::of_connect(&error))?;
        match &endpoint.tls {
            None if endpoint.stamped && sys::stamp_receives(&socket) => Ok(Self::Stamped(socket)),
            None => Ok(Self::Plain(socket)),
            Some(client) => Ok(Self::Tls(Box::new(Tls::new(client, socket)?))),
        }
    }

    /// The socket, to be watched.
    pub fn socket(&self) -> &OwnedFd {
        match self {
            Self::Plain(socket) | Self::Stamped(socket) => socket,
            Self::Tls(tls) => tls.socket(),
        }
    }

    fn agreed(&self) -> Option<Agreed> {
        match self {
            Self::Plain(_) | Self::Stamped(_) => None,
            Self::Tls(tls) => tls.agreed(),
        }
    }

    /// An event came before the transport was there; whether it is now.
    fn handshake(&mut self, buffer: &mut [u8]) -> Result<bool, Kind> {
        match self {
            Self::Plain(socket) | Self::Stamped(socket) => match sys::socket_error(socket) {
                Some(error) => Err(Kind::of_connect(&error)),
                None => Ok(true),
            },
            Self::Tls(tls) => tls.handshake(buffer),
        }
    }

    /// Send what is taken. Bytes count as sent once the kernel has them.
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) | Self::Stamped(socket) => sys::send(socket, bytes),
            Self::Tls(tls) => tls.send(bytes),
        }
    }

    /// Receive what is there, if anything is, and whether there may be more. 0 bytes are the end.
    #[inline]
    fn receive(
        &mut self,
        buffer: &mut [u8],
        sink: &mut impl Sink,
    ) -> Result<Option<(usize, bool)>, Kind> {
        let received = match self {
            Self::Plain(socket) => sys::receive(socket, buffer),
            Self::Stamped(socket) => sys::receive_stamped(socket, buffer).map(|(n, age_ns)| {
                if let Some(age_ns) = age_ns {
                    sink.arrived(age_ns);
                }
                n
            }),
            Self::Tls(tls) => return tls.receive(buffer),
        };
        match received {
            // A short read has emptied the socket; what comes later brings an event of its own.
            Ok(n) => Ok(Some((n, n == buffer.len()))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(Kind::of_transfer(&error)),
        }
    }
}

/// Unsent bytes are moved to the front when so many before them are sent.
const COMPACT: usize = 64 * 1024;

/// Bytes that the transport did not take yet.
#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    /// Streams whose request has no byte sent yet, and where in `bytes` it begins.
    waiting: VecDeque<(u32, usize)>,
}

impl Outbox {
    /// Send on.
    fn flush(&mut self, transport: &mut Transport, sink: &mut impl Sink) -> Result<(), Kind> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let at = if self.waiting.is_empty() {
            0
        } else {
            sink.now()
        };
        let n = taken(transport.send(&self.bytes[self.sent..]))?;
        sink.sent(n);
        self.sent += n;
        while let Some((stream, begins)) = self.waiting.front().copied()
            && begins < self.sent
        {
            self.waiting.pop_front();
            sink.written(stream, at);
        }
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent > COMPACT {
            self.bytes.drain(..self.sent);
            for (_, begins) in &mut self.waiting {
                *begins -= self.sent;
            }
            self.sent = 0;
        }
        Ok(())
    }
}

fn taken(sent: io::Result<usize>) -> Result<usize, Kind> {
    match sent {
        Ok(n) => Ok(n),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Kind::TlsGarbage),
        Err(error) => Err(Kind::of_transfer(&error)),
    }
}

/// A protocol over a stream of bytes.
#[derive(Debug)]
pub struct Stream<M> {
    transport: Transport,
    connected: bool,
    machine: M,
    outbox: Outbox,
}

impl<M: Machine> Stream<M> {
    fn new(transport: Transport, machine: M) -> Self {
        Self {
            transport,
            connected: false,
            machine,
            outbox: Outbox::default(),
        }
    }

    fn establish(&mut self, buffer: &mut [u8]) -> Result<bool, Kind> {
        if !self.connected {
            if !self.transport.handshake(buffer)? {
                return Ok(false);
            }
            self.connected = true;
            self.machine.open(&mut self.outbox.bytes);
        }
        let mut nobody = Nobody::default();
        self.flush(&mut nobody).map_err(Kind::of_opening)?;
        while !self.machine.ready() {
            let received = self.receive(buffer, &mut nobody);
            match received.map_err(Kind::of_opening)? {
                Received::Bytes { .. } => {}
                Received::Nothing => return Ok(false),
                Received::End => return Err(Kind::ConnectClosed),
            }
        }
        if nobody.closing {
            return Err(Kind::ConnectClosed);
        }
        Ok(true)
    }

    /// Send what there is, as far as the peer takes it.
    #[inline]
    fn flush(&mut self, sink: &mut impl Sink) -> Result<(), Kind> {
        loop {
            let flushed = self.outbox.flush(&mut self.transport, sink);
            flushed.map_err(|kind| self.machine.reason(kind))?;
            if !self.outbox.bytes.is_empty() {
                return Ok(());
            }
            self.machine.pump(&mut self.outbox.bytes);
            if self.outbox.bytes.is_empty() {
                return Ok(());
            }
        }
    }

    #[inline]
    fn request(
        &mut self,
        stream: u32,
        request: &Prepared,
        sink: &mut impl Sink,
    ) -> Result<bool, Kind> {
        let begins = self.outbox.bytes.len();
        let out = &mut self.outbox.bytes;
        let rest = self.machine.request(stream, request, out)?;
        if out.is_empty() {
            // Nothing before it: from where it lies, without a copy.
            let n = taken(self.transport.send(rest))?;
            sink.sent(n);
            out.extend_from_slice(&rest[n..]);
            if n > 0 {
                return Ok(true);
            }
        } else {
            out.extend_from_slice(rest);
            if begins == 0 {
                self.flush(sink)?;
                if self.outbox.bytes.is_empty() || self.outbox.sent > 0 {
                    return Ok(true);
                }
            }
        }
        self.outbox.waiting.push_back((stream, begins));
        Ok(false)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8], sink: &mut impl Sink) -> Result<Received, Kind> {
        let received = self.transport.receive(buffer, sink);
        let Some((count, more)) = received.map_err(|kind| self.machine.reason(kind))? else {
            return Ok(Received::Nothing);
        };
        if count == 0 {
            self.machine.end(sink)?;
            return Ok(Received::End);
        }
        let out = &mut self.outbox.bytes;
        let unsent = out.len();
        let taken = self.machine.receive(&buffer[..count], out, sink);
        if out.len() > unsent {
            let flushed = self.flush(sink);
            // A peer that is at fault is told so, if it can be.
            taken.and(flushed)?;
        } else {
            taken?;
        }
        Ok(Received::Bytes { count, more })
    }

    fn cancel(&mut self, stream: u32) -> bool {
        self.outbox.waiting.retain(|(waits, _)| *waits != stream);
        self.machine.cancel(stream, &mut self.outbox.bytes)
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
                let transport = Transport::open(endpoint)?;
                Ok(Self::Http1(Stream::new(transport, Http1::default())))
            }
            Protocol::Http2 => {
                let transport = Transport::open(endpoint)?;
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

/// The sink of a connection that carries nothing.
#[derive(Debug, Default)]
pub(crate) struct Nobody {
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
