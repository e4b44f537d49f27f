//! A connection over QUIC that carries HTTP/3: transport and protocol in one (RFC 9000, RFC 9114).
//!
//! quinn-proto is the state machine; this module provides datagrams, time, and a socket for each
//! connection, so that the kernel separates the connections and one epoll set reports which are
//! ready. 0-RTT is off: a request without a round trip before it would be another workload, and may
//! be replayed.
//!
//! The client delays nothing: receive windows are as large as possible. What the peer's flow
//! control or the congestion window (CUBIC, RFC 9438, paced) delays is reported by
//! [`Sink::written`].

mod config;
mod faults;
mod gate;
mod path;
mod session;
mod stream;
mod streams;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, StreamEvent, StreamId,
};

use crate::errors::Kind;
use crate::http3::{Control, code};
use crate::machine::{NullSink, Received, Sink};
use crate::sys;
use crate::tls::{Agreed, kinds};
use config::Clock;
use gate::Gate;
use session::Handshake;
use stream::{Stream, reason};

pub use config::Config;
pub use path::Path;

/// Datagrams per system call, if there are enough to send (UDP_SEGMENT allows 64).
const SEGMENTS: usize = 32;
/// Time until a send is retried for which the kernel had no room. A writable event does not help:
/// with UDP, it comes for every datagram that has left.
const RETRY_NS: u64 = 100_000;

/// A datagram, or a batch of them, that the kernel had no room for.
#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    segment: Option<u16>,
    again_at: u64,
}

/// One connection.
pub struct Quic {
    socket: OwnedFd,
    address: SocketAddr,
    clock: Clock,
    gate: Gate,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    inner: Connection,
    /// When the handshake was complete.
    connected_at: Option<u64>,
    control: Control,
    /// True if a GOAWAY was reported to the sink.
    closing: bool,
    streams: Vec<Stream>,
    /// Number of requests in progress.
    running: u32,
    /// Streams that the peer allows and no request uses yet, up to `wanted`.
    allowed: VecDeque<StreamId>,
    wanted: u32,
    /// Requests without a sent byte, and their lengths, in order.
    waiting: VecDeque<(u32, usize)>,
    kept: Option<Kept>,
    /// True if each system call sends one datagram, because the path does not support batches.
    single: bool,
    deadline: u64,
    /// When the last datagram arrived.
    last_received: u64,
    reported: Path,
}

impl fmt::Debug for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Quic");
        shown.field("address", &self.address);
        shown
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// The buffer in which datagrams are assembled: as large as a batch, so there is one per
    /// thread, not per connection.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Quic {
    /// Start to connect, for this number of concurrent requests.
    ///
    /// # Errors
    /// The kind of the failure.
    pub fn open(address: SocketAddr, config: &Config, wanted: u32) -> Result<Self, Kind> {
        let socket = sys::connect_udp(&address).map_err(|error| Kind::from_connect(&error))?;
        let clock = Clock::start();
        let mut endpoint = Endpoint::new(Arc::clone(&config.endpoint), None, true, None);
        let client = config.client.clone();
        let opened = endpoint.connect(clock.instant, client, address, &config.server_name);
        let (handle, inner) = opened.map_err(|_| Kind::ConnectFailed)?;
        let mut quic = Self {
            socket,
            address,
            clock,
            gate: config.gate.clone(),
            endpoint,
            handle,
            inner,
            connected_at: None,
            control: Control::default(),
            closing: false,
            streams: Vec::new(),
            running: 0,
            allowed: VecDeque::new(),
            wanted,
            waiting: VecDeque::new(),
            kept: None,
            single: false,
            deadline: u64::MAX,
            last_received: clock.ns,
            reported: Path::default(),
        };
        quic.transmit(clock.ns, |_, _| ())?;
        Ok(quic)
    }

    /// Return the socket, to be polled for reading.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Handle an event or a deadline of a connection that is being established; return whether it
    /// now is.
    ///
    /// # Errors
    /// The kind of the failure.
    pub fn establish(&mut self, buffer: &mut [u8]) -> Result<bool, Kind> {
        let mut sink = NullSink::default();
        let now = sink.now();
        if now >= self.deadline {
            self.alarm(now, &mut sink).map_err(Kind::while_connecting)?;
        }
        loop {
            let received = self.receive(buffer, &mut sink);
            match received.map_err(Kind::while_connecting)? {
                Received::Bytes { more: true, .. } => {}
                _ if self.closing => return Err(Kind::ConnectQuicClosed),
                _ => return Ok(self.connected_at.is_some()),
            }
        }
    }

    /// Return what the handshake negotiated; `None` until it is complete.
    pub fn agreed(&self) -> Option<Agreed> {
        let handshake = Handshake::of(&self.inner);
        Some(Agreed {
            version: kinds::version(handshake.version),
            cipher: kinds::cipher(handshake.cipher?),
            group: handshake.group.and_then(|group| group.as_str()),
            resumed: handshake.resumed,
            took_ns: self.connected_at?.saturating_sub(self.clock.ns),
        })
    }

    /// Return the counts of UDP and of the path since the last call.
    pub fn path(&mut self) -> Path {
        let stats = self.inner.stats();
        let ns = |rtt: Duration| self.connected_at.and(u64::try_from(rtt.as_nanos()).ok());
        let now = Path {
            datagrams_out: stats.udp_tx.datagrams,
            datagrams_in: stats.udp_rx.datagrams,
            lost_packets: stats.path.lost_packets,
            rtt_min_ns: ns(stats.path.min_rtt),
            rtt_max_ns: ns(stats.path.rtt),
        };
        let before = std::mem::replace(&mut self.reported, now);
        Path {
            datagrams_out: now.datagrams_out - before.datagrams_out,
            datagrams_in: now.datagrams_in - before.datagrams_in,
            lost_packets: now.lost_packets - before.lost_packets,
            ..now
        }
    }

    /// Send all that may be sent now.
    ///
    /// # Errors
    /// The kind of the failure that ended the connection.
    pub fn flush(&mut self, sink: &mut impl Sink) -> Result<(), Kind> {
        let now = sink.now();
        let sent = self.transmit(now, |stream, at| sink.written(stream, at))?;
        sink.sent(sent);
        Ok(())
    }

    /// Send all that may be sent now. `written` is called for each request that no longer waits.
    fn transmit(&mut self, now: u64, mut written: impl FnMut(u32, u64)) -> Result<usize, Kind> {
        let mut sent = 0;
        if let Some(kept) = self.kept.take() {
            match self.send(&kept.bytes, kept.segment)? {
                true => sent += kept.bytes.len(),
                false => {
                    let again_at = now + RETRY_NS;
                    self.kept = Some(Kept { again_at, ..kept });
                    self.plan();
                    return Ok(0);
                }
            }
        }
        let instant = self.clock.instant(now);
        let limited: Result<bool, Kind> = SCRATCH.with_borrow_mut(|scratch| {
            loop {
                scratch.clear();
                self.gate.reset();
                let most = if self.single { 1 } else { SEGMENTS };
                let Some(transmit) = self.inner.poll_transmit(instant, most, scratch) else {
                    return Ok(self.gate.was_asked());
                };
                let bytes = &scratch[..transmit.size];
                let segment = transmit
                    .segment_size
                    .and_then(|size| u16::try_from(size).ok());
                if !self.send(bytes, segment)? {
                    self.kept = Some(Kept {
                        bytes: bytes.to_vec(),
                        segment,
                        again_at: now + RETRY_NS,
                    });
                    return Ok(true);
                }
                sent += bytes.len();
            }
        });
        if limited? {
            // Streams are sent in the order of their creation. quinn-proto does not report which of
            // them the datagrams contain, but their bytes are at most those of the datagrams.
            let mut left = sent;
            while left > 0
                && let Some((stream, bytes)) = self.waiting.pop_front()
            {
                left = left.saturating_sub(bytes);
                written(stream, now);
            }
        } else {
            for (stream, _) in self.waiting.drain(..) {
                written(stream, now);
            }
        }
        self.plan();
        Ok(sent)
    }

    /// Send a datagram or a batch of them; return false if the kernel had no room.
    fn send(&mut self, bytes: &[u8], segment: Option<u16>) -> Result<bool, Kind> {
        let error = match sys::send_datagrams(&self.socket, bytes, segment) {
            Ok(_) => return Ok(true),
            Err(error) => error,
        };
        match (error.raw_os_error(), segment) {
            (Some(libc::EAGAIN | libc::ENOBUFS), _) => Ok(false),
            // A probe for larger datagrams, too large for the path: treat it as lost.
            (Some(libc::EMSGSIZE), None) => Ok(true),
            // This interface does not support batches of datagrams, or not of this size.
            (Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE), Some(size)) => {
                self.single = true;
                for datagram in bytes.chunks(usize::from(size)) {
                    self.send(datagram, None)?;
                }
                Ok(true)
            }
            _ => Err(self.of_socket(&error)),
        }
    }

    /// Return when to call [`Self::alarm`] if no request and no event comes first.
    #[inline]
    pub fn deadline(&self) -> Option<u64> {
        Some(self.deadline)
    }

    fn plan(&mut self) {
        let timer = self.inner.poll_timeout();
        let timer = timer.map_or(u64::MAX, |instant| self.clock.ns(instant));
        let again = self.kept.as_ref().map_or(u64::MAX, |kept| kept.again_at);
        self.deadline = timer.min(again);
    }

    /// Handle a deadline that has passed.
    ///
    /// # Errors
    /// The kind of the failure that ended the connection.
    pub fn alarm(&mut self, now: u64, sink: &mut impl Sink) -> Result<(), Kind> {
        self.inner.handle_timeout(self.clock.instant(now));
        self.follow(sink)?;
        self.flush(sink)
    }

    /// Read once and process the datagrams.
    ///
    /// # Errors
    /// The kind of the failure that ended the connection.
    pub fn receive(&mut self, buffer: &mut [u8], sink: &mut impl Sink) -> Result<Received, Kind> {
        let datagrams = match sys::receive_datagrams(&self.socket, buffer) {
            Ok(datagrams) => datagrams,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Received::Nothing);
            }
            Err(error) => return Err(self.of_socket(&error)),
        };
        let now = sink.now();
        self.last_received = now;
        let instant = self.clock.instant(now);
        let mut count = 0;
        for datagram in datagrams.of(buffer) {
            count += datagram.len();
            let bytes = BytesMut::from(datagram);
            let mut answer = Vec::new();
            let event = self
                .endpoint
                .handle(instant, self.address, None, None, bytes, &mut answer);
            // No other event occurs: the endpoint accepts no connections and sends no resets.
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.inner.handle_event(event);
            }
            // A server that sends batches of datagrams causes hundreds at once.
            sink.working();
        }
        let followed = self.follow(sink);
        let flushed = self.flush(sink);
        followed?;
        flushed?;
        Ok(Received::Bytes {
            count,
            more: datagrams.more,
        })
    }

    /// Process the events of the state machine.
    fn follow(&mut self, sink: &mut impl Sink) -> Result<(), Kind> {
        while let Some(event) = self.inner.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.inner.handle_event(event);
            }
        }
        while let Some(event) = self.inner.poll() {
            sink.working();
            match event {
                Event::Connected => self.on_connected(sink.now()),
                Event::ConnectionLost { reason } => return Err(self.of_loss(&reason)),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(id) = self.inner.streams().accept(Dir::Uni) {
                        self.listen(id, sink)?;
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Uni => {
                    self.listen(id, sink)?;
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, sink)?,
                Event::Stream(StreamEvent::Writable { id }) => {
                    if let Some(stream) = self.stream_of(id) {
                        self.write(stream);
                    }
                }
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.allow(),
                _ => {}
            }
        }
        Ok(())
    }

    fn close(&mut self, code: u64, now: u64) {
        let instant = self.clock.instant(now);
        self.inner.close(instant, reason(code), Bytes::new());
        // The connection is closed either way.
        let _ = self.transmit(now, |_, _| ());
    }
}

impl Drop for Quic {
    /// Close the connection: unlike with TCP, the kernel does not notify the server.
    fn drop(&mut self) {
        if !self.inner.is_closed() {
            self.close(code::NO_ERROR, sys::now_ns());
        }
    }
}
