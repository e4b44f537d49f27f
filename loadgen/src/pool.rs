//! The connections of one thread to the instances of a window. A session keeps them for its next
//! windows.
//!
//! A connection is closed, connecting or open. Closed ones wait in a queue to be reopened; the
//! streams of open ones are [`Slots`] for requests.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::alarms::Alarms;
use crate::carrier::{Carrier, Endpoint};
use crate::errors::Kind;
use crate::quic;
use crate::request::Prepared;
use crate::slots::Slots;
use crate::sys::Epoll;

/// The longest wait after a failed attempt: 1 ms at first, doubled each time up to this.
const MAX_BACKOFF_MS: u64 = 128;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Closed, and not reopened before this instant.
    Closed(u64),
    /// Connecting since the first instant; given up at the second.
    Connecting(u64, u64),
    /// Established.
    Open,
}

/// The load of a connection and its limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// True if it accepts no new requests; it is reopened once its requests are done.
    pub closing: bool,
    /// Concurrent requests that it accepts.
    pub limit: u32,
    /// Number of busy slots.
    pub running: u32,
    /// Number of free slots.
    pub free: u32,
    /// Requests sent since it was opened.
    pub begun: u64,
    /// Responses received since it was opened.
    pub served: u64,
    /// Failed attempts to open it since its last response.
    pub failures: u32,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// The state.
    pub state: State,
    /// The load and its limit.
    pub usage: Usage,
    /// The protocol and its transport; `None` while it is closed.
    pub carrier: Option<Carrier>,
    /// True if it is queued for another turn of reading.
    pub read_pending: bool,
    /// Distinguishes the events of this socket from those of its predecessors.
    generation: u32,
    /// True if it was ever open.
    opened_before: bool,
}

impl Connection {
    fn new() -> Self {
        Self {
            state: State::Closed(0),
            usage: Usage::default(),
            carrier: None,
            read_pending: false,
            generation: 0,
            opened_before: false,
        }
    }
}

/// A successful handshake.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// True if the connection was open before.
    pub before: bool,
    /// When the handshake began.
    pub since: u64,
}

/// An instance that a pool connects to: one arm of its windows.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its address and protocol.
    pub endpoint: Endpoint,
    /// The requests, rendered for this instance.
    pub requests: Arc<[Prepared]>,
}

/// The connections of one thread to one instance, between windows.
#[derive(Debug)]
pub struct Bundle {
    target: Target,
    connections: Vec<Connection>,
}

impl Bundle {
    /// Create a bundle without connections.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            connections: Vec::new(),
        }
    }
}

/// The connections to one instance, or to several that are measured in turn. Each has as many.
/// Aligned so that the pools of two threads, which are neighbours, share no cache line.
#[derive(Debug)]
#[repr(align(128))]
pub struct Pool {
    /// The instances, in the order of the window's arms.
    pub targets: Vec<Target>,
    /// Events of these connections only, so that those of other instances do not disturb the
    /// window.
    pub epoll: Epoll,
    /// The connections; identified by their index.
    pub connections: Vec<Connection>,
    /// The streams of all connections.
    pub slots: Slots,
    /// Streams per connection.
    pub streams: u32,
    /// The deadlines of the carriers.
    pub alarms: Alarms,
    /// Counts of UDP and of QUIC's paths since the window began.
    pub path: quic::Path,
    /// Connections to each instance.
    each: u32,
    closed: VecDeque<u32>,
    connecting: usize,
}

impl Pool {
    /// Create a pool of exactly `each` connections to each instance.
    pub fn new(bundles: Vec<Bundle>, each: usize) -> io::Result<Self> {
        let mut targets = Vec::with_capacity(bundles.len());
        let mut connections = Vec::with_capacity(bundles.len() * each);
        for mut bundle in bundles {
            bundle.connections.resize_with(each, Connection::new);
            connections.append(&mut bundle.connections);
            targets.push(bundle.target);
        }
        Ok(Self {
            targets,
            epoll: Epoll::new()?,
            connections,
            slots: Slots::new(0, 0),
            streams: 1,
            alarms: Alarms::default(),
            path: quic::Path::default(),
            each: each as u32,
            closed: VecDeque::new(),
            connecting: 0,
        })
    }

    /// Return the number of connections to each instance.
    pub fn each(&self) -> usize {
        self.each as usize
    }

    /// Return the connections to each instance, in the order of the instances.
    pub fn into_bundles(self) -> impl Iterator<Item = Bundle> {
        let each = self.each();
        let mut left = self.connections.into_iter();
        self.targets.into_iter().map(move |target| Bundle {
            target,
            connections: left.by_ref().take(each).collect(),
        })
    }

    /// Prepare the connections for a window, with this number of streams each. New ones, and those
    /// that the server has closed in the meantime, are queued to be opened. `buffer` receives bytes
    /// that arrived in the meantime.
    pub fn prepare(&mut self, streams: u32, buffer: &mut [u8]) {
        let (each, n) = (self.each(), self.connections.len());
        self.slots = Slots::new(each * streams as usize, self.targets.len());
        self.streams = streams;
        self.alarms = Alarms::new(n);
        self.closed = VecDeque::with_capacity(n + 1);
        self.connecting = 0;
        for i in 0..n as u32 {
            let connection = self.at(i);
            connection.read_pending = false;
            connection.usage.failures = 0;
            connection.usage.running = 0;
            connection.usage.free = 0;
            let open = connection.state == State::Open && !connection.usage.closing;
            let carrier = connection.carrier.as_mut();
            let well = |carrier: &mut Carrier| {
                carrier.set_streams(streams);
                carrier.is_usable(buffer)
            };
            if open && carrier.is_some_and(well) && self.watch(i).is_ok() {
                self.admit(i);
                self.update_alarm(i);
            } else {
                self.drop_carrier(i, 0);
            }
        }
    }

    /// Add a connection's socket to the epoll set. The set reports readiness even if it is there
    /// already.
    fn watch(&self, i: u32) -> io::Result<()> {
        let connection = &self.connections[i as usize];
        let token = u64::from(i) | u64::from(connection.generation) << 32;
        match &connection.carrier {
            None => Ok(()),
            Some(carrier) if carrier.wants_writable() => self.epoll.add(carrier.socket(), token),
            Some(carrier) => self.epoll.add_reading(carrier.socket(), token),
        }
    }

    #[inline]
    fn at(&mut self, i: u32) -> &mut Connection {
        &mut self.connections[i as usize]
    }

    /// Return the connection of an event, if it still has the socket of the event.
    #[inline]
    pub fn connection_of(&self, token: u64) -> Option<u32> {
        let (i, generation) = (token as u32, (token >> 32) as u32);
        let connection = self.connections.get(i as usize)?;
        (connection.generation == generation && connection.carrier.is_some()).then_some(i)
    }

    /// Return the instance that a connection leads to.
    #[inline]
    pub fn arm_of(&self, i: u32) -> usize {
        if self.targets.len() == 1 {
            return 0;
        }
        (i / self.each) as usize
    }

    // ------------------------------------------------------------ streams

    /// Return the slots of a connection.
    pub fn slots_of(&self, i: u32) -> std::ops::Range<u32> {
        i * self.streams..(i + 1) * self.streams
    }

    /// Reserve a free slot for a request.
    #[inline]
    pub fn take(&mut self, slot: u32) {
        let i = slot / self.streams;
        self.slots.withhold(slot);
        let usage = &mut self.at(i).usage;
        usage.free -= 1;
        usage.running += 1;
        usage.begun += 1;
    }

    /// Return any free slot of a connection.
    pub fn free_slot_of(&self, i: u32) -> Option<u32> {
        self.slots_of(i).find(|slot| self.slots.is_free(*slot))
    }

    /// Adjust the free slots of an open connection to the number of requests that it accepts now.
    pub fn admit(&mut self, i: u32) {
        let connection = &mut self.connections[i as usize];
        let usage = &mut connection.usage;
        let carrier = connection.carrier.as_ref();
        usage.limit = carrier.map_or(0, Carrier::streams).min(self.streams);
        let open = if usage.closing { 0 } else { usage.limit };
        let goal = open.saturating_sub(usage.running);
        for slot in i * self.streams..(i + 1) * self.streams {
            if usage.free == goal {
                return;
            }
            if self.slots.is_free(slot) && usage.free > goal {
                self.slots.withhold(slot);
                usage.free -= 1;
            } else if !self.slots.is_free(slot) && !self.slots.is_busy(slot) && usage.free < goal {
                self.slots.release(slot);
                usage.free += 1;
            }
        }
    }

    // ------------------------------------------------------------ closed

    /// Return whether a connection is closed or connecting.
    #[inline]
    pub fn reconnecting(&self) -> bool {
        !self.closed.is_empty() || self.connecting > 0
    }

    /// Return a bit for each instance with handshakes in progress.
    pub fn connecting_arms(&self) -> u64 {
        if self.connecting == 0 {
            return 0;
        }
        let connections = (0u32..).zip(&self.connections);
        connections
            .filter(|(_, connection)| matches!(connection.state, State::Connecting(..)))
            .fold(0, |arms, (i, _)| arms | 1 << self.arm_of(i))
    }

    /// Return the number of handshakes in progress.
    pub fn connecting(&self) -> usize {
        self.connecting
    }

    /// Return whether every missing connection has failed at least `times` times.
    pub fn all_failed(&self, times: u32) -> bool {
        let failures = |i: &u32| self.connections[*i as usize].usage.failures;
        self.connecting == 0 && self.closed.iter().all(|i| failures(i) >= times)
    }

    /// Close a connection without requests and queue it to be reopened: at once if it has served a
    /// request, otherwise after an increasing wait. `abort` resets what is in progress.
    pub fn close(&mut self, i: u32, now: u64, abort: bool) {
        let connection = self.at(i);
        connection.usage.closing = true;
        if abort && let Some(carrier) = &connection.carrier {
            carrier.abort();
        }
        let usage = &mut connection.usage;
        let at = if usage.served > 0 || abort {
            now
        } else {
            usage.failures = usage.failures.saturating_add(1);
            let doubled = 1 << (usage.failures - 1).min(20);
            now + doubled.min(MAX_BACKOFF_MS) * 1_000_000
        };
        self.admit(i);
        self.drop_carrier(i, at);
    }

    fn drop_carrier(&mut self, i: u32, reopen_at: u64) {
        if matches!(self.at(i).state, State::Connecting(..)) {
            self.connecting = self.connecting.saturating_sub(1);
        }
        if let Some(path) = self.at(i).carrier.as_mut().and_then(Carrier::path) {
            self.path.add(&path);
        }
        let connection = self.at(i);
        connection.carrier = None;
        connection.generation = connection.generation.wrapping_add(1);
        connection.usage = Usage {
            failures: connection.usage.failures,
            ..Usage::default()
        };
        connection.state = State::Closed(reopen_at);
        self.closed.push_back(i);
    }

    /// Return whether answers may be read late, because the kernel timestamps them.
    pub fn may_read_late(&self) -> bool {
        let late = |target: &Target| target.endpoint.stamped && target.endpoint.tls.is_none();
        self.targets.iter().all(late)
    }

    /// Return when the connection at the head of the queue may be opened, and its instance.
    #[inline]
    pub fn next_opening(&self) -> Option<(u64, usize)> {
        let first = *self.closed.front()?;
        match self.connections[first as usize].state {
            State::Closed(at) => Some((at, self.arm_of(first))),
            _ => None,
        }
    }

    /// Move the head of the queue to its end: it may not be opened yet.
    pub fn rotate_closed(&mut self) {
        if let Some(i) = self.closed.pop_front() {
            self.closed.push_back(i);
        }
    }

    /// Return the earliest instant at which a closed connection to one of the instances that `may`
    /// be connected to may be opened. It checks all of them, so call it only before a sleep.
    pub fn earliest_opening(&self, may: impl Fn(usize) -> bool) -> Option<u64> {
        let closed = self.closed.iter();
        closed
            .filter(|i| may(self.arm_of(**i)))
            .filter_map(|i| match self.connections[*i as usize].state {
                State::Closed(at) => Some(at),
                _ => None,
            })
            .min()
    }

    /// Start to open the connection at the head of the queue; give up at `deadline`. An error names
    /// the instance.
    pub fn open(&mut self, now: u64, deadline: u64) -> Result<(), (usize, Kind)> {
        let Some(i) = self.closed.pop_front() else {
            return Ok(());
        };
        let arm = self.arm_of(i);
        let opened = Carrier::open(&self.targets[arm].endpoint, self.streams).and_then(|carrier| {
            self.at(i).carrier = Some(carrier);
            self.watch(i).map_err(|error| Kind::from_connect(&error))
        });
        match opened {
            Ok(()) => {
                self.update_alarm(i);
                self.at(i).state = State::Connecting(now, deadline);
                self.connecting += 1;
                Ok(())
            }
            Err(kind) => {
                self.close(i, now, false);
                Err((arm, kind))
            }
        }
    }

    /// Handle an event of a connecting connection: `Some` if it is established now (with free
    /// slots), `None` if it is not yet. After an error it is closed.
    pub fn establish(
        &mut self,
        i: u32,
        now: u64,
        buffer: &mut [u8],
    ) -> Result<Option<Opened>, Kind> {
        let connection = self.at(i);
        let (State::Connecting(since, _), Some(carrier)) =
            (connection.state, connection.carrier.as_mut())
        else {
            return Ok(None);
        };
        match carrier.establish(buffer) {
            Ok(false) => {
                self.update_alarm(i);
                Ok(None)
            }
            Ok(true) => {
                connection.state = State::Open;
                let before = std::mem::replace(&mut connection.opened_before, true);
                self.connecting -= 1;
                self.admit(i);
                self.update_alarm(i);
                Ok(Some(Opened { before, since }))
            }
            Err(kind) => {
                self.close(i, now, false);
                Err(kind)
            }
        }
    }

    /// Give up handshakes that took too long; call `each` with the instance of each.
    pub fn expire_connecting(&mut self, now: u64, mut each: impl FnMut(usize)) {
        if self.connecting == 0 {
            return;
        }
        let late = |state| matches!(state, State::Connecting(_, deadline) if deadline <= now);
        for i in 0..self.connections.len() as u32 {
            if late(self.at(i).state) {
                self.close(i, now, false);
                each(self.arm_of(i));
            }
        }
    }

    /// Return the size of the read buffer.
    pub fn buffer_bytes(&self) -> usize {
        let sizes = self
            .targets
            .iter()
            .map(|target| target.endpoint.buffer_bytes());
        sizes.max().unwrap_or(0)
    }

    /// Return the counts of UDP and of QUIC's paths since the last call.
    pub fn take_path(&mut self) -> quic::Path {
        let mut path = std::mem::take(&mut self.path);
        let carriers = self.connections.iter_mut();
        for its in carriers.filter_map(|connection| connection.carrier.as_mut()?.path()) {
            path.add(&its);
        }
        path
    }

    /// Update the alarm of a carrier whose deadline may have changed.
    #[inline]
    pub fn update_alarm(&mut self, i: u32) {
        let carrier = self.connections[i as usize].carrier.as_ref();
        self.alarms.set(i, carrier.and_then(Carrier::deadline));
    }
}
