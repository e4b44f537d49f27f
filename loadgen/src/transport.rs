//! Byte streams to a peer, in cleartext or over TLS, and a protocol's state machine on top of one.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use crate::errors::Kind;
use crate::machine::{Machine, NullSink, Received, Sink};
use crate::request::Prepared;
use crate::sys;
use crate::tls::{self, Agreed, Tls};

/// A byte stream to a peer.
#[derive(Debug)]
pub enum Transport {
    /// TCP, cleartext.
    Plain(OwnedFd),
    /// TCP in cleartext, with kernel timestamps of incoming bytes.
    Stamped(OwnedFd),
    /// TLS over TCP. Boxed, because it is large.
    Tls(Box<Tls>),
}

impl Transport {
    /// Start to connect. `stamped`: let the kernel timestamp incoming bytes, where it can.
    pub fn open(
        address: &SocketAddr,
        tls: Option<&tls::Client>,
        stamped: bool,
    ) -> Result<Self, Kind> {
        let opened = sys::connect(address);
        let (socket, _) = opened.map_err(|error| Kind::from_connect(&error))?;
        match tls {
            None if stamped && sys::stamp_receives(&socket) => Ok(Self::Stamped(socket)),
            None => Ok(Self::Plain(socket)),
            Some(client) => Ok(Self::Tls(Box::new(Tls::new(client, socket)?))),
        }
    }

    /// Return the socket, to be polled.
    pub fn socket(&self) -> &OwnedFd {
        match self {
            Self::Plain(socket) | Self::Stamped(socket) => socket,
            Self::Tls(tls) => tls.socket(),
        }
    }

    /// Return the negotiated encryption; `None` until the connection is established.
    pub fn agreed(&self) -> Option<Agreed> {
        match self {
            Self::Plain(_) | Self::Stamped(_) => None,
            Self::Tls(tls) => tls.agreed(),
        }
    }

    /// Handle an event of a transport that is being established; return whether it now is.
    fn handshake(&mut self, buffer: &mut [u8]) -> Result<bool, Kind> {
        match self {
            Self::Plain(socket) | Self::Stamped(socket) => match sys::socket_error(socket) {
                Some(error) => Err(Kind::from_connect(&error)),
                None => Ok(true),
            },
            Self::Tls(tls) => tls.handshake(buffer),
        }
    }

    /// Send as many bytes as the kernel takes. Bytes count as sent once the kernel has them.
    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) | Self::Stamped(socket) => sys::send(socket, bytes),
            Self::Tls(tls) => tls.send(bytes),
        }
    }

    /// Receive the available bytes, if any, and whether there may be more. 0 bytes mean the end of
    /// the stream.
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
            // A short read has emptied the socket; later bytes cause another event.
            Ok(n) => Ok(Some((n, n == buffer.len()))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(Kind::from_transfer(&error)),
        }
    }
}

/// Unsent bytes move to the front of the buffer when this many sent bytes precede them.
const COMPACT: usize = 64 * 1024;

/// Bytes that the transport has not taken yet.
#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    /// Streams of which no byte is sent yet, and where in `bytes` their request begins.
    waiting: VecDeque<(u32, usize)>,
}

impl Outbox {
    /// Send the pending bytes, as far as the transport takes them.
    fn flush(&mut self, transport: &mut Transport, sink: &mut impl Sink) -> Result<(), Kind> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let at = if self.waiting.is_empty() {
            0
        } else {
            sink.now()
        };
        let n = taken_bytes(transport.send(&self.bytes[self.sent..]))?;
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

fn taken_bytes(sent: io::Result<usize>) -> Result<usize, Kind> {
    match sent {
        Ok(n) => Ok(n),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Kind::TlsGarbage),
        Err(error) => Err(Kind::from_transfer(&error)),
    }
}

/// A protocol over a byte stream.
#[derive(Debug)]
pub struct Stream<M> {
    /// The transport.
    pub transport: Transport,
    /// The protocol.
    pub machine: M,
    connected: bool,
    outbox: Outbox,
}

impl<M: Machine> Stream<M> {
    /// Create a protocol over a transport that is being established.
    pub fn new(transport: Transport, machine: M) -> Self {
        Self {
            transport,
            machine,
            connected: false,
            outbox: Outbox::default(),
        }
    }

    /// Continue to connect after an event; return whether requests may be sent.
    pub fn establish(&mut self, buffer: &mut [u8]) -> Result<bool, Kind> {
        if !self.connected {
            if !self.transport.handshake(buffer)? {
                return Ok(false);
            }
            self.connected = true;
            self.machine.open(&mut self.outbox.bytes);
        }
        let mut sink = NullSink::default();
        self.flush(&mut sink).map_err(Kind::while_connecting)?;
        while !self.machine.ready() {
            let received = self.receive(buffer, &mut sink);
            match received.map_err(Kind::while_connecting)? {
                Received::Bytes { .. } => {}
                Received::Nothing => return Ok(false),
                Received::End => return Err(Kind::ConnectClosed),
            }
        }
        if sink.closing {
            return Err(Kind::ConnectClosed);
        }
        Ok(true)
    }

    /// Send the pending bytes, as far as the peer takes them.
    #[inline]
    pub fn flush(&mut self, sink: &mut impl Sink) -> Result<(), Kind> {
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

    /// Send a request on a free stream; return false if not even its first byte reached the kernel.
    #[inline]
    pub fn request(
        &mut self,
        stream: u32,
        request: &Prepared,
        sink: &mut impl Sink,
    ) -> Result<bool, Kind> {
        let begins = self.outbox.bytes.len();
        let out = &mut self.outbox.bytes;
        let rest = self.machine.request(stream, request, out)?;
        if out.is_empty() {
            // Nothing is pending, so send it directly, without a copy.
            let n = taken_bytes(self.transport.send(rest))?;
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

    /// Read once and process the bytes.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8], sink: &mut impl Sink) -> Result<Received, Kind> {
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
            // Report the fault to the peer, if that is possible.
            taken.and(flushed)?;
        } else {
            taken?;
        }
        Ok(Received::Bytes { count, more })
    }

    /// Cancel a request; return false if that requires closing the connection.
    pub fn cancel(&mut self, stream: u32) -> bool {
        self.outbox.waiting.retain(|(waits, _)| *waits != stream);
        self.machine.cancel(stream, &mut self.outbox.bytes)
    }
}
