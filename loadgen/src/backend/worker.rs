//! The loop of one thread: it accepts, reads, waits until answers are due, and sends them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::answers::Answers;
use super::peer::Peer;
use super::speaker::Asked;
use crate::rng::Rng;
use crate::sys::{self, Epoll, Wait};

const EVENTS: usize = 128;
const LISTENER: u64 = u64::MAX;
/// Interval at which a sleeping thread checks whether to stop.
const NAP_NS: u64 = 50_000_000;
const READ: usize = 64 * 1024;
/// Nothing is read from a peer that leaves this many bytes of its answers unread.
const FULL: usize = 1 << 20;
/// The most requests that wait for their answers; a connection with more is closed.
const MAX_DUE: usize = 1 << 20;

struct Connection {
    socket: OwnedFd,
    peer: Peer,
    /// Bytes of the peer's output that were sent.
    sent: usize,
    /// True if reading waits until the peer has read its answers.
    paused: bool,
}

/// A request that waits for its answer, or for the next message of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: u64,
    /// The order of the requests.
    order: u64,
    token: u64,
    stream: u32,
    /// The number of the answer, or `u64::MAX`.
    number: u64,
    /// True if the answer has begun.
    begun: bool,
}

/// The state of one thread.
pub struct Worker {
    epoll: Epoll,
    listener: Arc<TcpListener>,
    answers: Arc<Answers>,
    rng: Rng,
    /// The connections by place, each with its generation: a place is used again.
    connections: Vec<(u32, Option<Connection>)>,
    free: Vec<u32>,
    due: BinaryHeap<Reverse<Due>>,
    order: u64,
    buffer: Vec<u8>,
    asked: Vec<Asked>,
    /// True if connections could not be accepted, for lack of descriptors or memory.
    starved: bool,
}

impl Worker {
    /// Create a thread's state; `seed` makes its times differ from those of others.
    pub fn new(listener: Arc<TcpListener>, answers: Arc<Answers>, seed: u64) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        // The copy may be closed once it is registered: the set polls the open socket, which the
        // listener keeps.
        epoll.add_reading(&OwnedFd::from(listener.try_clone()?), LISTENER)?;
        Ok(Self {
            epoll,
            listener,
            answers,
            rng: Rng::new(seed),
            connections: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::with_capacity(4096),
            order: 0,
            buffer: vec![0; READ],
            asked: Vec::new(),
            starved: false,
        })
    }

    /// Answer until `stop` is set, or a signal came.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        while !stop.load(Ordering::Relaxed) && !sys::stop_requested() {
            let now = sys::now_ns();
            while let Some(Reverse(due)) = self.due.peek().copied()
                && due.at <= now
            {
                self.due.pop();
                self.answer(due);
            }
            let next = self.due.peek().map_or(u64::MAX, |Reverse(due)| due.at);
            let ns = next.saturating_sub(sys::now_ns()).min(NAP_NS);
            let wait = if ns == 0 { Wait::Poll } else { Wait::Ns(ns) };
            let n = self.epoll.wait(&mut events, wait)?;
            for event in &events[..n] {
                let (mask, token) = (event.events, event.u64);
                if token == LISTENER {
                    self.accept();
                    continue;
                }
                if mask & libc::EPOLLOUT as u32 != 0 {
                    self.flush(token);
                }
                let mask = mask & !(libc::EPOLLOUT as u32);
                if mask != 0 {
                    self.read(token, mask != libc::EPOLLIN as u32);
                }
            }
            if self.starved {
                self.accept();
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) => {
                    self.starved = error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream) {
        if stream.set_nodelay(true).is_err() || stream.set_nonblocking(true).is_err() {
            return;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push((0, None));
            self.connections.len() as u32 - 1
        });
        let (generation, connection) = &mut self.connections[place as usize];
        let token = u64::from(place) | u64::from(*generation) << 32;
        let socket = OwnedFd::from(stream);
        if self.epoll.add(&socket, token).is_err() {
            self.free.push(place);
            return;
        }
        *connection = Some(Connection {
            socket,
            peer: Peer::new(),
            sent: 0,
            paused: false,
        });
    }

    /// Return the connection of a token, unless it was closed.
    fn connection(&mut self, token: u64) -> Option<&mut Connection> {
        let (generation, connection) = self.connections.get_mut(token as u32 as usize)?;
        (u64::from(*generation) == token >> 32)
            .then_some(connection.as_mut())
            .flatten()
    }

    fn close(&mut self, token: u64) {
        if self.connection(token).is_some() {
            let (generation, connection) = &mut self.connections[token as u32 as usize];
            // The generation of the listener's token is never used.
            *generation = (*generation + 1) % (u32::MAX - 1);
            *connection = None;
            self.free.push(token as u32);
        }
    }

    /// Read what arrived; `ended` is true if the end of the stream may have arrived with it.
    fn read(&mut self, token: u64, ended: bool) {
        let mut buffer = std::mem::take(&mut self.buffer);
        loop {
            let answers = Arc::clone(&self.answers);
            let mut asked = std::mem::take(&mut self.asked);
            let Some(connection) = self.connection(token) else {
                break;
            };
            if connection.peer.out.len() - connection.sent > FULL {
                connection.paused = true;
                break;
            }
            let read = match sys::receive(&connection.socket, &mut buffer) {
                Ok(0) => None,
                Ok(n) => connection
                    .peer
                    .take(&buffer[..n], &answers, &mut asked)
                    .ok()
                    .map(|()| n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => None,
            };
            let Some(n) = read else {
                self.close(token);
                break;
            };
            for Asked { stream, number } in asked.drain(..) {
                self.schedule(token, stream, number);
            }
            self.asked = asked;
            self.flush(token);
            if n < buffer.len() && !ended {
                // Edge-triggered: what arrives from now on is another event.
                break;
            }
        }
        self.buffer = buffer;
    }

    fn schedule(&mut self, token: u64, stream: u32, number: Option<u64>) {
        let delay_ns = self.answers.of(number).delay_ns(&mut self.rng);
        let due = Due {
            at: sys::now_ns() + delay_ns,
            order: self.order,
            token,
            stream,
            number: number.unwrap_or(u64::MAX),
            begun: false,
        };
        self.order += 1;
        if delay_ns == 0 {
            self.answer(due);
        } else {
            self.wait(due);
        }
    }

    fn wait(&mut self, due: Due) {
        if self.due.len() < MAX_DUE {
            self.due.push(Reverse(due));
        } else {
            self.close(due.token);
        }
    }

    fn answer(&mut self, due: Due) {
        let answers = Arc::clone(&self.answers);
        let Some(connection) = self.connection(due.token) else {
            return;
        };
        let answer = answers.of(Some(due.number));
        let more = if due.begun {
            connection.peer.continue_answer(due.stream, &answers)
        } else {
            connection.peer.answer(due.stream, answer, &answers)
        };
        self.flush(due.token);
        if more {
            // Counted from when this one was due, so that delays do not add up.
            self.wait(Due {
                at: due.at + answer.every_us * 1000,
                begun: true,
                ..due
            });
        }
    }

    /// Send as much as the peer takes; read again if that waited for it.
    fn flush(&mut self, token: u64) {
        let answers = Arc::clone(&self.answers);
        loop {
            let Some(connection) = self.connection(token) else {
                return;
            };
            let waiting = &connection.peer.out[connection.sent..];
            if !waiting.is_empty() {
                match sys::send(&connection.socket, waiting) {
                    Ok(n) => connection.sent += n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    Err(_) => return self.close(token),
                }
                if connection.sent < connection.peer.out.len() {
                    continue;
                }
            }
            connection.peer.out.clear();
            connection.sent = 0;
            if connection.peer.ends() {
                return self.close(token);
            }
            connection.peer.pump(&answers);
            if connection.peer.out.is_empty() {
                break;
            }
        }
        if let Some(connection) = self.connection(token)
            && std::mem::take(&mut connection.paused)
        {
            self.read(token, true);
        }
    }
}
