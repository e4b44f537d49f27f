//! The connections of one thread to one instance, kept across the windows of a plan.
//!
//! A connection is closed, connecting or open. Closed ones wait in a queue to be opened again; open
//! ones lend their streams to the [`Slots`], from which requests draw.

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

/// Waits after failed attempts: 1 ms, doubled each time, up to this.
const MOST_BACKOFF_MS: u64 = 128;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits in the queue until the instant.
    Closed(u64),
    /// The handshake is under way since the first instant, and given up at the second.
    Connecting(u64, u64),
    /// Established.
    Open,
}

/// How a connection stands: what it may carry, and what it has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// Whether it takes no new requests; it is opened again once those it carries are done.
    pub closing: bool,
    /// How many requests it takes at the same time.
    pub limit: u32,
    /// Its busy slots.
    pub running: u32,
    /// Its free slots.
    pub free: u32,
    /// Requests since it was opened.
    pub begun: u64,
    /// Responses since it was opened.
    pub served: u64,
    /// Attempts in vain to open it since it was last of use.
    pub failures: u32,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    /// What it is doing.
    pub state: State,
    /// How it stands.
    pub standing: Standing,
    /// What it is made of, unless it is closed.
    pub carrier: Option<Carrier>,
    /// Whether it waits for another turn at reading.
    pub hungry: bool,
    /// Tells the events of this socket from those of its predecessors.
    generation: u32,
    /// Whether it was ever open.
    opened_before: bool,
}

impl Connection {
    fn new() -> Self {
        Self {
            state: State::Closed(0),
            standing: Standing::default(),
            carrier: None,
            hungry: false,
            generation: 0,
            opened_before: false,
        }
    }
}

/// A handshake that came to a good end.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// Whether the connection was open before.
    pub before: bool,
    /// When the handshake was begun.
    pub since: u64,
}

/// The connections to one instance.
#[derive(Debug)]
pub struct Pool {
    /// The requests as this instance is asked them.
    pub requests: Arc<[Prepared]>,
    /// Events of these connections only, so that other instances' don't disturb the window.
    pub epoll: Epoll,
    /// The connections; an index names one.
    pub connections: Vec<Connection>,
    /// Their streams.
    pub slots: Slots,
    /// Streams of each connection.
    pub streams: u32,
    /// The deadlines of the carriers.
    pub alarms: Alarms,
    /// What UDP and the paths of QUIC did since the window began.
    pub path: quic::Path,
    endpoint: Endpoint,
    closed: VecDeque<u32>,
    connecting: usize,
}

impl Pool {
    /// A pool without connections.
    pub fn new(endpoint: Endpoint, requests: Arc<[Prepared]>) -> io::Result<Self> {
        Ok(Self {
            requests,
            epoll: Epoll::new()?,
            connections: Vec::new(),
            slots: Slots::new(0),
            streams: 1,
            alarms: Alarms::default(),
            path: quic::Path::default(),
            endpoint,
            closed: VecDeque::new(),
            connecting: 0,
        })
    }

    /// Prepare exactly `n` connections of so many streams for a window: those that the server closed
    /// meanwhile, and new ones, are put in the queue of the closed. `buffer` takes what came
    /// meanwhile.
    pub fn resize(&mut self, n: usize, streams: u32, buffer: &mut [u8]) {
        self.connections.truncate(n);
        self.connections.resize_with(n, Connection::new);
        self.slots = Slots::new(n * streams as usize);
        self.streams = streams;
        self.alarms = Alarms::new(n);
        self.closed = VecDeque::with_capacity(n + 1);
        self.connecting = 0;
        for i in 0..n as u32 {
            let connection = self.at(i);
            connection.hungry = false;
            connection.standing.failures = 0;
            connection.standing.running = 0;
            connection.standing.free = 0;
            let open = connection.state == State::Open && !connection.standing.closing;
            let carrier = connection.carrier.as_mut();
            let well = |carrier: &mut Carrier| {
                carrier.lend(streams);
                carrier.is_well(buffer)
            };
            if open && carrier.is_some_and(well) {
                self.admit(i);
                self.note_deadline(i);
            } else {
                self.drop_carrier(i, 0);
            }
        }
    }

    #[inline]
    fn at(&mut self, i: u32) -> &mut Connection {
        &mut self.connections[i as usize]
    }

    /// The connection that an event is about, if it still has the socket that the event is of.
    #[inline]
    pub fn of_token(&self, token: u64) -> Option<u32> {
        let (i, generation) = (token as u32, (token >> 32) as u32);
        let connection = self.connections.get(i as usize)?;
        (connection.generation == generation && connection.carrier.is_some()).then_some(i)
    }

    // ------------------------------------------------------------ streams

    /// The slots of a connection.
    pub fn slots_of(&self, i: u32) -> std::ops::Range<u32> {
        i * self.streams..(i + 1) * self.streams
    }

    /// Take a free slot for a request.
    #[inline]
    pub fn take(&mut self, slot: u32) {
        let i = slot / self.streams;
        self.slots.withhold(slot);
        let standing = &mut self.at(i).standing;
        standing.free -= 1;
        standing.running += 1;
        standing.begun += 1;
    }

    /// Any free slot of a connection.
    pub fn free_slot_of(&self, i: u32) -> Option<u32> {
        self.slots_of(i).find(|slot| self.slots.is_free(*slot))
    }

    /// Bring the free slots of an open connection in line with what it takes now.
    pub fn admit(&mut self, i: u32) {
        let connection = &mut self.connections[i as usize];
        let standing = &mut connection.standing;
        let carrier = connection.carrier.as_ref();
        standing.limit = carrier.map_or(0, Carrier::streams).min(self.streams);
        let open = if standing.closing { 0 } else { standing.limit };
        let goal = open.saturating_sub(standing.running);
        for slot in i * self.streams..(i + 1) * self.streams {
            if standing.free == goal {
                return;
            }
            if self.slots.is_free(slot) && standing.free > goal {
                self.slots.withhold(slot);
                standing.free -= 1;
            } else if !self.slots.is_free(slot) && !self.slots.is_busy(slot) && standing.free < goal
            {
                self.slots.release(slot);
                standing.free += 1;
            }
        }
    }

    // ------------------------------------------------------------ closed

    /// Whether a connection waits to be opened or to be established.
    #[inline]
    pub fn mending(&self) -> bool {
        !self.closed.is_empty() || self.connecting > 0
    }

    /// Connections whose handshake is under way.
    pub fn connecting(&self) -> usize {
        self.connecting
    }

    /// Whether every connection that is missing was tried in vain at least `times` times.
    pub fn hopeless(&self, times: u32) -> bool {
        let failures = |i: &u32| self.connections[*i as usize].standing.failures;
        self.connecting == 0 && self.closed.iter().all(|i| failures(i) >= times)
    }

    /// Close a connection that carries nothing and queue it to be opened again: at once if it was of
    /// any use, after a growing wait if not. With `abort`, what is under way is cut off by a reset.
    pub fn close(&mut self, i: u32, now: u64, abort: bool) {
        let connection = self.at(i);
        connection.standing.closing = true;
        if abort && let Some(carrier) = &connection.carrier {
            carrier.abort();
        }
        let standing = &mut connection.standing;
        let at = if standing.served > 0 || abort {
            now
        } else {
            standing.failures = standing.failures.saturating_add(1);
            let doubled = 1 << (standing.failures - 1).min(20);
            now + doubled.min(MOST_BACKOFF_MS) * 1_000_000
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
        connection.standing = Standing {
            failures: connection.standing.failures,
            ..Standing::default()
        };
        connection.state = State::Closed(reopen_at);
        self.closed.push_back(i);
    }

    /// Whether answers may be read some time after they came, as the kernel says when that was.
    pub fn may_read_late(&self) -> bool {
        self.endpoint.stamped && self.endpoint.tls.is_none()
    }

    /// When the connection at the head of the queue may be opened.
    #[inline]
    pub fn next_opening(&self) -> Option<u64> {
        let first = *self.closed.front()?;
        match self.connections[first as usize].state {
            State::Closed(at) => Some(at),
            _ => None,
        }
    }

    /// Put the head of the queue behind the others: it may not be opened yet.
    pub fn rotate_closed(&mut self) {
        if let Some(i) = self.closed.pop_front() {
            self.closed.push_back(i);
        }
    }

    /// The earliest instant at which a closed connection may be opened. Looks at all of them: for
    /// use before a sleep.
    pub fn earliest_opening(&self) -> Option<u64> {
        let closed = self.closed.iter();
        closed
            .filter_map(|i| match self.connections[*i as usize].state {
                State::Closed(at) => Some(at),
                _ => None,
            })
            .min()
    }

    /// Start to open the connection at the head of the queue; it is given up at `deadline`.
    pub fn open(&mut self, now: u64, deadline: u64) -> Result<(), Kind> {
        let Some(i) = self.closed.pop_front() else {
            return Ok(());
        };
        let opened = Carrier::open(&self.endpoint, self.streams).and_then(|carrier| {
            // Readiness is reported by the set even if it is there already.
            let token = u64::from(i) | u64::from(self.at(i).generation) << 32;
            let added = if carrier.heeds_room() {
                self.epoll.add(carrier.socket(), token)
            } else {
                self.epoll.add_reading(carrier.socket(), token)
            };
            added.map_err(|error| Kind::of_connect(&error))?;
            Ok(carrier)
        });
        match opened {
            Ok(carrier) => {
                self.at(i).carrier = Some(carrier);
                self.note_deadline(i);
                self.at(i).state = State::Connecting(now, deadline);
                self.connecting += 1;
                Ok(())
            }
            Err(kind) => {
                self.close(i, now, false);
                Err(kind)
            }
        }
    }

    /// An event came for a connecting connection: it is established now (and its slots are free), or
    /// not yet (`None`), or failed (and closed).
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
                self.note_deadline(i);
                Ok(None)
            }
            Ok(true) => {
                connection.state = State::Open;
                let before = std::mem::replace(&mut connection.opened_before, true);
                self.connecting -= 1;
                self.admit(i);
                self.note_deadline(i);
                Ok(Some(Opened { before, since }))
            }
            Err(kind) => {
                self.close(i, now, false);
                Err(kind)
            }
        }
    }

    /// Give up handshakes that took too long; how many.
    pub fn expire_connecting(&mut self, now: u64) -> usize {
        if self.connecting == 0 {
            return 0;
        }
        let late = |state| matches!(state, State::Connecting(_, deadline) if deadline <= now);
        let mut expired = 0;
        for i in 0..self.connections.len() as u32 {
            if late(self.at(i).state) {
                self.close(i, now, false);
                expired += 1;
            }
        }
        expired
    }

    /// To be read into at once.
    pub fn buffer_bytes(&self) -> usize {
        self.endpoint.buffer_bytes()
    }

    /// What UDP and the paths of QUIC did since the last time that this was asked.
    pub fn take_path(&mut self) -> quic::Path {
        let mut path = std::mem::take(&mut self.path);
        let carriers = self.connections.iter_mut();
        for its in carriers.filter_map(|connection| connection.carrier.as_mut()?.path()) {
            path.add(&its);
        }
        path
    }

    /// A carrier may have another deadline than before.
    #[inline]
    pub fn note_deadline(&mut self, i: u32) {
        let carrier = self.connections[i as usize].carrier.as_ref();
        self.alarms.set(i, carrier.and_then(Carrier::deadline));
    }
}
