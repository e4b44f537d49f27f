//! The connections to one instance, kept across the windows of a plan.
//!
//! A connection is closed, connecting, idle or busy with one request. The pool keeps three orders
//! of them, all of fixed memory and constant cost: the idle ones to draw from, the busy ones by the
//! age of their request, and the closed ones that wait to be opened again.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use sha2::{Digest as _, Sha256};

use crate::errors::Kind;
use crate::http1::{Parser, Request};
use crate::sys::{self, Epoll};

const NONE: u32 = u32::MAX;
/// Waits after failed attempts: 1 ms, doubled each time, up to this.
const MOST_BACKOFF_MS: u64 = 128;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No socket; waits in the queue until the instant.
    Closed(u64),
    /// The handshake is under way, and given up at the instant.
    Connecting(u64),
    /// Free for a request.
    Idle,
    /// A request is being written or answered.
    Busy,
}

/// The request that a busy connection carries.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// Index into the record.
    pub index: u32,
    /// Index into the plan's requests.
    pub request: u16,
    /// Whether it was lost to a closing connection once already.
    pub retried: bool,
    /// Whether a byte of the response came.
    pub answered: bool,
    /// Whether the body is hashed.
    pub hashed: bool,
    /// Bytes of the request written so far.
    pub sent: usize,
    /// When it was written.
    pub written: u64,
}

/// One connection and what it carries.
#[derive(Debug)]
pub struct Connection {
    /// What it is doing.
    pub state: State,
    /// The request it carries when busy.
    pub exchange: Exchange,
    /// The response it waits for when busy.
    pub parser: Parser,
    /// The hash of that response's body.
    pub hasher: Sha256,
    /// Whether it waits for another turn at reading.
    pub hungry: bool,
    /// Responses since it was opened.
    pub served: u64,
    socket: Option<OwnedFd>,
    /// Tells the events of this socket from those of its predecessors.
    generation: u32,
    /// Whether it was ever open.
    opened_before: bool,
    failures: u32,
    /// Its place among the idle ones.
    free_at: u32,
    /// Its neighbours among the busy ones.
    older: u32,
    newer: u32,
}

impl Connection {
    fn new() -> Self {
        Self {
            state: State::Closed(0),
            exchange: Exchange {
                index: 0,
                request: 0,
                retried: false,
                answered: false,
                hashed: false,
                sent: 0,
                written: 0,
            },
            parser: Parser::new(),
            hasher: Sha256::new(),
            hungry: false,
            served: 0,
            socket: None,
            generation: 0,
            opened_before: false,
            failures: 0,
            free_at: NONE,
            older: NONE,
            newer: NONE,
        }
    }

    /// Send what the socket takes.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        sys::send(socket, bytes)
    }

    /// Receive what is there.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        sys::receive(socket, buffer)
    }
}

/// The connections to one instance.
#[derive(Debug)]
pub struct Pool {
    /// The requests as this instance is asked them.
    pub requests: Vec<Request>,
    /// Events of these connections only, so that other instances' don't disturb the window.
    pub epoll: Epoll,
    /// The connections; an index names one.
    pub connections: Vec<Connection>,
    address: SocketAddr,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    busy: usize,
    closed: VecDeque<u32>,
    connecting: usize,
}

impl Pool {
    /// A pool without connections.
    pub fn new(address: SocketAddr, requests: Vec<Request>) -> io::Result<Self> {
        Ok(Self {
            requests,
            epoll: Epoll::new()?,
            connections: Vec::new(),
            address,
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            busy: 0,
            closed: VecDeque::new(),
            connecting: 0,
        })
    }

    /// Prepare exactly `n` connections for a window: those that the server closed meanwhile, and
    /// new ones, are put in the queue of the closed. Takes all the memory that a window needs.
    pub fn resize(&mut self, n: usize) {
        self.connections.truncate(n);
        self.connections.resize_with(n, Connection::new);
        self.free = Vec::with_capacity(n);
        self.closed = VecDeque::with_capacity(n + 1);
        (self.oldest, self.newest, self.busy, self.connecting) = (NONE, NONE, 0, 0);
        let mut byte = [0];
        for i in 0..n as u32 {
            let connection = self.at(i);
            connection.free_at = NONE;
            connection.hungry = false;
            connection.failures = 0;
            let quiet = matches!(connection.receive(&mut byte),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            if connection.state == State::Idle && quiet {
                self.release(i);
            } else {
                self.drop_socket(i, 0);
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
        (connection.generation == generation && connection.socket.is_some()).then_some(i)
    }

    // ------------------------------------------------------------ idle

    /// Whether a request could be sent now.
    #[inline]
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Take a free connection: one of all free ones with equal chance, by `pick`.
    ///
    /// Drawn and not rotated. Rotation makes arrivals on each connection more regular than Poisson,
    /// and brings all connections to the server's keepalive_requests at the same moment.
    #[inline]
    pub fn take_free(&mut self, pick: u32) -> Option<u32> {
        if self.free.is_empty() {
            return None;
        }
        let place = ((u64::from(pick) * self.free.len() as u64) >> 32) as usize;
        let i = self.free[place];
        self.unfree(i);
        Some(i)
    }

    /// Take a certain free connection.
    pub fn take(&mut self, i: u32) {
        self.unfree(i);
    }

    /// Make a connection free for a request.
    #[inline]
    pub fn release(&mut self, i: u32) {
        let place = self.free.len() as u32;
        let connection = self.at(i);
        connection.state = State::Idle;
        connection.free_at = place;
        self.free.push(i);
    }

    #[inline]
    fn unfree(&mut self, i: u32) {
        let place = std::mem::replace(&mut self.at(i).free_at, NONE);
        if place != NONE {
            self.free.swap_remove(place as usize);
            if let Some(&moved) = self.free.get(place as usize) {
                self.at(moved).free_at = place;
            }
        }
    }

    // ------------------------------------------------------------ busy

    /// Busy connections.
    #[inline]
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// The busy connection whose request was written first.
    #[inline]
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// A connection that was taken starts to carry a request.
    #[inline]
    pub fn occupy(&mut self, i: u32, exchange: Exchange) {
        let newest = self.newest;
        let head = self.requests[usize::from(exchange.request)].head;
        let connection = self.at(i);
        connection.state = State::Busy;
        connection.exchange = exchange;
        connection.parser.expect(head);
        connection.older = newest;
        connection.newer = NONE;
        if newest == NONE {
            self.oldest = i;
        } else {
            self.at(newest).newer = i;
        }
        self.newest = i;
        self.busy += 1;
    }

    /// The request of a busy connection came to its end; the connection is left to be released or
    /// closed.
    #[inline]
    pub fn vacate(&mut self, i: u32) {
        let (older, newer) = (self.at(i).older, self.at(i).newer);
        match older {
            NONE => self.oldest = newer,
            older => self.at(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.at(newer).older = older,
        }
        self.busy -= 1;
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
        self.connecting == 0
            && self
                .closed
                .iter()
                .all(|i| self.connections[*i as usize].failures >= times)
    }

    /// Close a connection and queue it to be opened again: at once if it was of any use, after a
    /// growing wait if not. With `abort`, unread answers are cut off by a reset.
    pub fn close(&mut self, i: u32, now: u64, abort: bool) {
        self.unfree(i);
        let connection = self.at(i);
        if abort && let Some(socket) = &connection.socket {
            sys::reset_on_close(socket);
        }
        let at = if connection.served > 0 || abort {
            now
        } else {
            connection.failures = connection.failures.saturating_add(1);
            let doubled = 1 << (connection.failures - 1).min(20);
            now + doubled.min(MOST_BACKOFF_MS) * 1_000_000
        };
        self.drop_socket(i, at);
    }

    fn drop_socket(&mut self, i: u32, reopen_at: u64) {
        let connection = self.at(i);
        if matches!(connection.state, State::Connecting(_)) {
            self.connecting = self.connecting.saturating_sub(1);
        }
        let connection = self.at(i);
        connection.socket = None;
        connection.generation = connection.generation.wrapping_add(1);
        connection.served = 0;
        connection.state = State::Closed(reopen_at);
        self.closed.push_back(i);
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
        let address = self.address;
        let opened = sys::connect(&address).and_then(|(socket, _)| {
            // Readiness is reported by the set even if it is there already.
            let token = u64::from(i) | u64::from(self.at(i).generation) << 32;
            self.epoll.add(&socket, token)?;
            Ok(socket)
        });
        match opened {
            Ok(socket) => {
                self.at(i).socket = Some(socket);
                self.at(i).state = State::Connecting(deadline);
                self.connecting += 1;
                Ok(())
            }
            Err(error) => {
                self.close(i, now, false);
                Err(Kind::of_connect(&error))
            }
        }
    }

    /// An event came for a connecting connection: it is established (and idle), or failed (and
    /// closed). `Ok(true)`: it was open before.
    pub fn established(&mut self, i: u32, now: u64) -> Result<bool, Kind> {
        let connection = self.at(i);
        let error = connection.socket.as_ref().and_then(sys::socket_error);
        if let Some(error) = error {
            self.close(i, now, false);
            return Err(Kind::of_connect(&error));
        }
        self.connecting -= 1;
        self.release(i);
        Ok(std::mem::replace(&mut self.at(i).opened_before, true))
    }

    /// Give up handshakes that took too long; how many.
    pub fn expire_connecting(&mut self, now: u64) -> usize {
        if self.connecting == 0 {
            return 0;
        }
        let late = |state| matches!(state, State::Connecting(deadline) if deadline <= now);
        let mut expired = 0;
        for i in 0..self.connections.len() as u32 {
            if late(self.at(i).state) {
                self.close(i, now, false);
                expired += 1;
            }
        }
        expired
    }

    /// A response came: the server is of use.
    #[inline]
    pub fn served(&mut self, i: u32) {
        let connection = self.at(i);
        connection.served += 1;
        connection.failures = 0;
    }

    /// Prepare to hash a body.
    pub fn start_hash(&mut self, i: u32) {
        self.at(i).hasher = Sha256::new();
    }
}
