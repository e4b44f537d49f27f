//! A connection over QUIC that carries HTTP/3: transport and protocol in one (RFC 9000, RFC 9114).
//!
//! quinn-proto is the state machine; this module gives it datagrams, the time and a socket of its
//! own for each connection, so that the kernel tells the connections apart and the one epoll set
//! says who is ready. 0-RTT is off: a request without a round trip before it would be another
//! workload, and may be replayed.
//!
//! The client holds nothing back that it need not: receive windows are as large as they can be. What
//! the peer's flow control or the congestion window (CUBIC, RFC 9438, paced) holds back is told
//! apart by [`Sink::written`].

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
use crate::machine::{Nobody, Received, Sink};
use crate::sys;
use crate::tls::{Agreed, kinds};
use config::Clock;
use gate::Gate;
use session::Handshake;
use stream::{Stream, reason};

pub use config::Config;
pub use path::Path;

/// Datagrams per system call, when there is so much to send (UDP_SEGMENT takes 64).
const SEGMENTS: usize = 32;
/// After so long a send is tried again that the kernel had no room for. It does not tell when it
/// has: with UDP, that event comes for every datagram that left.
const RETRY_NS: u64 = 100_000;

/// A datagram, or a run of them, that the kernel had no room for.
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
    /// When the handshake was done.
    greeted: Option<u64>,
    control: Control,
    /// A GOAWAY was passed on.
    closing: bool,
    streams: Vec<Stream>,
    /// Requests under way.
    running: u32,
    /// Streams that the peer allows and that no request has taken, up to `wanted`.
    allowed: VecDeque<StreamId>,
    wanted: u32,
    /// Requests of which not a byte was sent, and their bytes, in order.
    waiting: VecDeque<(u32, usize)>,
    kept: Option<Kept>,
    /// One datagram in each system call: the path takes no runs of them.
    single: bool,
    deadline: u64,
    /// When the last datagram came.
    heard: u64,
    told: Path,
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
    /// Where datagrams are put together: as large as a run of them, so one for each thread and not
    /// for each connection.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Quic {
    /// Start to connect, for so many requests at the same time.
    ///
    /// # Errors
    /// The kind of the failure.
    pub fn open(address: SocketAddr, config: &Config, wanted: u32) -> Result<Self, Kind> {
        let socket = sys::connect_udp(&address).map_err(|error| Kind::of_connect(&error))?;
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
            greeted: None,
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
            heard: clock.ns,
            told: Path::default(),
        };
        quic.transmit(clock.ns, |_, _| ())?;
        Ok(quic)
    }

    /// The socket, to be watched for reading.
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// An event came, or the deadline passed, before the connection was established; whether it is
    /// now.
    ///
    /// # Errors
    /// The kind of the failure.
    pub fn establish(&mut self, buffer: &mut [u8]) -> Result<bool, Kind> {
        let mut nobody = Nobody::default();
        let now = nobody.now();
        if now >= self.deadline {
            self.alarm(now, &mut nobody).map_err(Kind::of_opening)?;
        }
        loop {
            let received = self.receive(buffer, &mut nobody);
            match received.map_err(Kind::of_opening)? {
                Received::Bytes { more: true, .. } => {}
                _ if self.closing => return Err(Kind::ConnectQuicClosed),
                _ => return Ok(self.greeted.is_some()),
            }
        }
    }

    /// What was agreed in the handshake, once it is done.
    pub fn agreed(&self) -> Option<Agreed> {
        let handshake = Handshake::of(&self.inner);
        Some(Agreed {
            version: kinds::version(handshake.version),
            cipher: kinds::cipher(handshake.cipher?),
            group: handshake.group.and_then(|group| group.as_str()),
            resumed: handshake.resumed,
            took_ns: self.greeted?.saturating_sub(self.clock.ns),
        })
    }

    /// What UDP and the path did since the last time that this was asked.
    pub fn path(&mut self) -> Path {
        let stats = self.inner.stats();
        let ns = |rtt: Duration| self.greeted.and(u64::try_from(rtt.as_nanos()).ok());
        let now = Path {
            datagrams_out: stats.udp_tx.datagrams,
            datagrams_in: stats.udp_rx.datagrams,
            lost_packets: stats.path.lost_packets,
            rtt_min_ns: ns(stats.path.min_rtt),
            rtt_max_ns: ns(stats.path.rtt),
        };
        let before = std::mem::replace(&mut self.told, now);
        Path {
            datagrams_out: now.datagrams_out - before.datagrams_out,
            datagrams_in: now.datagrams_in - before.datagrams_in,
            lost_packets: now.lost_packets - before.lost_packets,
            ..now
        }
    }

    /// Send what may be sent.
    ///
    /// # Errors
    /// The kind of what ended the connection.
    pub fn flush(&mut self, sink: &mut impl Sink) -> Result<(), Kind> {
        let now = sink.now();
        let sent = self.transmit(now, |stream, at| sink.written(stream, at))?;
        sink.sent(sent);
        Ok(())
    }

    /// Send all that may be sent. `written` is told of each request that waited no longer.
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
        let held_back: Result<bool, Kind> = SCRATCH.with_borrow_mut(|scratch| {
            loop {
                scratch.clear();
                self.gate.forget();
                let most = if self.single { 1 } else { SEGMENTS };
                let Some(transmit) = self.inner.poll_transmit(instant, most, scratch) else {
                    return Ok(self.gate.asked());
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
        if held_back? {
            // Streams are sent in the order in which they were made. Which of them the datagrams
            // held is not told, but their bytes are at most those of the datagrams.
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

    /// Send a datagram or a run of them; false: the kernel had no room.
    fn send(&mut self, bytes: &[u8], segment: Option<u16>) -> Result<bool, Kind> {
        let error = match sys::send_datagrams(&self.socket, bytes, segment) {
            Ok(_) => return Ok(true),
            Err(error) => error,
        };
        match (error.raw_os_error(), segment) {
            (Some(libc::EAGAIN | libc::ENOBUFS), _) => Ok(false),
            // A probe for a larger datagram, which the path does not take: as if it were lost.
            (Some(libc::EMSGSIZE), None) => Ok(true),
            // No runs of datagrams on this interface, or none of this size.
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

    /// When [`Self::alarm`] is to be called, unless there is a request or an event before.
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

    /// The deadline has passed.
    ///
    /// # Errors
    /// The kind of what ended the connection.
    pub fn alarm(&mut self, now: u64, sink: &mut impl Sink) -> Result<(), Kind> {
        self.inner.handle_timeout(self.clock.instant(now));
        self.follow(sink)?;
        self.flush(sink)
    }

    /// Read once, and take what came.
    ///
    /// # Errors
    /// The kind of what ended the connection.
    pub fn receive(&mut self, buffer: &mut [u8], sink: &mut impl Sink) -> Result<Received, Kind> {
        let datagrams = match sys::receive_datagrams(&self.socket, buffer) {
            Ok(datagrams) => datagrams,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Received::Nothing);
            }
            Err(error) => return Err(self.of_socket(&error)),
        };
        let now = sink.now();
        self.heard = now;
        let instant = self.clock.instant(now);
        let mut count = 0;
        for datagram in datagrams.of(buffer) {
            count += datagram.len();
            let bytes = BytesMut::from(datagram);
            let mut answer = Vec::new();
            let event = self
                .endpoint
                .handle(instant, self.address, None, None, bytes, &mut answer);
            // Nothing else is told of: no connection is accepted, and none is reset.
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.inner.handle_event(event);
            }
            // Of a server that sends runs of datagrams, hundreds come at once.
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

    /// Take what the state machine has to say.
    fn follow(&mut self, sink: &mut impl Sink) -> Result<(), Kind> {
        while let Some(event) = self.inner.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.inner.handle_event(event);
            }
        }
        while let Some(event) = self.inner.poll() {
            sink.working();
            match event {
                Event::Connected => self.greet(sink.now()),
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
        // It is gone either way.
        let _ = self.transmit(now, |_, _| ());
    }
}

impl Drop for Quic {
    /// Unlike TCP, nobody tells the server for us.
    fn drop(&mut self) {
        if !self.inner.is_closed() {
            self.close(code::NO_ERROR, sys::now_ns());
        }
    }
}
