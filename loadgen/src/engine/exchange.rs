//! One request in one slot: written, answered, lost or given up.

use sha2::Digest as _;

use super::event_loop::Engine;
use super::ledger::Ledger;
use crate::carrier::Carrier;
use crate::errors::Kind;
use crate::machine::{Received, Sink};
use crate::pool::{Connection, Pool, Standing, State};
use crate::record::Outcome;
use crate::request::Prepared;
use crate::slots::{Exchange, Slots};
use crate::stalls::Watch;

/// Reads per event, before others get their turn.
const READS: usize = 4;
/// Answers below this fit any receive window, so that reading them late holds nothing back.
const SMALL: usize = 16 * 1024;
/// Bytes are hashed in pieces, with a look at the clock after each: hashing is no stall.
const HASH_PIECE: usize = 8 * 1024;
/// Unless all are, the first responses are hashed, and one of so many after them.
const HASH_FIRST: u32 = 8;
const HASH_EVERY: u32 = 64;

/// What comes out of one connection, on its way to slots and ledger.
struct Answers<'e, 'a> {
    /// The connection's first slot.
    first: u32,
    slots: &'e mut Slots,
    standing: &'e mut Standing,
    requests: &'e [Prepared],
    ledger: &'e mut Ledger<'a>,
    watch: &'e mut Watch,
    /// The instant at which the poll returned that told of these bytes.
    stamp: u64,
}

impl Answers<'_, '_> {
    /// The request of a busy stream, taken off it.
    fn vacate(&mut self, stream: u32) -> Option<Exchange> {
        let slot = self.first + stream;
        if !self.slots.is_busy(slot) {
            return None;
        }
        let exchange = self.slots.vacate(slot);
        let standing = &mut *self.standing;
        standing.running -= 1;
        if !standing.closing && standing.running + standing.free < standing.limit {
            self.slots.release(slot);
            standing.free += 1;
        }
        Some(exchange)
    }
}

impl Sink for Answers<'_, '_> {
    #[inline]
    fn arrived(&mut self, age_ns: u64) {
        self.stamp = self.watch.tick().saturating_sub(age_ns);
    }

    #[inline]
    fn started(&mut self, stream: u32) {
        self.slots.at(self.first + stream).exchange.answered = true;
    }

    #[inline]
    fn body(&mut self, stream: u32, bytes: &[u8]) {
        let slot = self.slots.at(self.first + stream);
        if slot.exchange.hashed {
            for piece in bytes.chunks(HASH_PIECE) {
                slot.hasher.update(piece);
                self.watch.tick();
            }
        }
    }

    #[inline]
    fn complete(&mut self, stream: u32, status: u16, length: u64) {
        let Some(exchange) = self.vacate(stream) else {
            return;
        };
        let request = &self.requests[usize::from(exchange.request)];
        let wrong = if request.status.is_some_and(|expected| expected != status) {
            Some(Kind::Status(status))
        } else if request.length.is_some_and(|n| n != length) && !request.head {
            Some(Kind::WrongLength)
        } else if exchange.hashed && !request.head {
            let hash = self.slots.at(self.first + stream).hasher.finalize_reset();
            let good = request.sha256.is_none_or(|expected| hash[..] == expected);
            (!good).then_some(Kind::WrongSha256)
        } else {
            None
        };
        if exchange.written >= self.stamp {
            // The event is older than the request: it was about the response before.
            self.stamp = self.watch.tick();
        }
        self.ledger.complete(exchange.index, wrong, self.stamp);
        self.standing.served += 1;
        self.standing.failures = 0;
    }

    #[cold]
    fn failed(&mut self, stream: u32, kind: Kind, again: bool) {
        if let Some(exchange) = self.vacate(stream) {
            // Connections that end gently may do so again and again, and each is opened anew.
            // HTTP/3 says it twice: that the connection ends, and of each stream that it came late
            // (RFC 9114, 5.2).
            let late = kind == Kind::H3Reset(crate::http3::code::REQUEST_REJECTED);
            let gentle = kind == Kind::GoAway(0) || (late && self.standing.closing);
            if again && (!exchange.retried || gentle) {
                self.ledger.refuse(exchange.index);
            } else {
                self.ledger.fail(exchange.index, kind, self.stamp);
            }
        }
    }

    #[cold]
    fn closing(&mut self) {
        self.standing.closing = true;
    }

    fn now(&mut self) -> u64 {
        self.watch.tick()
    }

    #[inline]
    fn working(&mut self) {
        self.watch.tick();
    }

    #[inline]
    fn sent(&mut self, bytes: usize) {
        self.ledger.sent(bytes);
    }

    #[cold]
    fn written(&mut self, stream: u32, at: u64) {
        let slot = self.first + stream;
        if self.slots.is_busy(slot) {
            let exchange = &mut self.slots.at(slot).exchange;
            exchange.written = at;
            self.ledger.unblock(exchange);
        }
    }
}

/// The parts of an engine that one connection's carrier is used with.
macro_rules! with_answers {
    ($engine:ident, $i:ident, $stamp:expr, |$connection:ident, $answers:ident| $body:expr) => {{
        let pool: &mut Pool = $engine.pool;
        let Connection {
            carrier, standing, ..
        } = &mut pool.connections[$i as usize];
        match carrier {
            None => None,
            Some($connection) => {
                let mut $answers = Answers {
                    first: $i * pool.streams,
                    slots: &mut pool.slots,
                    standing,
                    requests: &pool.requests,
                    ledger: &mut $engine.ledger,
                    watch: &mut $engine.watch,
                    stamp: $stamp,
                };
                Some($body)
            }
        }
    }};
}

impl Engine<'_> {
    /// Put a request on a free slot.
    #[inline]
    pub(super) fn send(&mut self, slot: u32, index: u32, retried: bool, now: u64) {
        let kind = self.ledger.agenda.request(index);
        let asked = &self.pool.requests[usize::from(kind)];
        let drawn = asked.check_all || index < HASH_FIRST || index.is_multiple_of(HASH_EVERY);
        let hashed = asked.sha256.is_some() && drawn;
        let exchange = Exchange {
            index,
            request: kind,
            retried,
            answered: false,
            hashed,
            dispatched: now,
            written: now,
        };
        self.ledger.write(index, now);
        self.pool.take(slot);
        self.pool.slots.occupy(slot, exchange);
        let i = slot / self.pool.streams;
        let stream = slot - i * self.pool.streams;
        let sent = with_answers!(self, i, now, |carrier, answers| {
            let request = &answers.requests[usize::from(kind)];
            carrier.request(stream, request, &mut answers)
        });
        match sent {
            Some(Ok(written)) => {
                if !written {
                    self.ledger.unwrite(index);
                }
                let begun = self.pool.connections[i as usize].standing.begun;
                if Some(begun) == self.requests_per_connection {
                    self.pool.connections[i as usize].standing.closing = true;
                    self.pool.admit(i);
                }
                self.pool.note_deadline(i);
            }
            // An answer may have come before the reset (413 and the like): then it was read by now.
            Some(Err(kind)) => self.lose(i, kind, now),
            None => {}
        }
    }

    /// The peer takes bytes again: write on what is left.
    pub(super) fn write_rest(&mut self, i: u32, now: u64) {
        let flushed = with_answers!(self, i, now, |carrier, answers| {
            carrier.flush(&mut answers)
        });
        if let Some(Err(kind)) = flushed {
            self.lose(i, kind, now);
        }
    }

    /// Read what came for an open connection.
    #[inline]
    pub(super) fn receive(&mut self, i: u32, mut stamp: u64, closing: bool) {
        for _ in 0..READS {
            if self.pool.connections[i as usize].state != State::Open {
                return;
            }
            let buffer = &mut self.buffer;
            let received = with_answers!(self, i, stamp, |carrier, answers| {
                carrier.receive(buffer, &mut answers)
            });
            let more = match received {
                Some(Ok(Received::Bytes { count, more })) => {
                    self.ledger.received(count);
                    let running = self.pool.connections[i as usize].standing.running;
                    self.small_answers &= running == 0 && count < SMALL;
                    more || closing
                }
                Some(Ok(Received::Nothing)) => false,
                Some(Ok(Received::End)) => return self.lose(i, Kind::Closed, stamp),
                Some(Err(kind)) => return self.lose(i, kind, stamp),
                None => return,
            };
            self.settle(i, stamp);
            if !more {
                return;
            }
            stamp = self.watch.tick();
        }
        let connection = &mut self.pool.connections[i as usize];
        if !std::mem::replace(&mut connection.hungry, true) {
            self.hungry.push_back(i);
        }
    }

    /// After a connection had its say: its slots are as many as it takes now, and it is closed if it
    /// takes no more and carries nothing.
    #[inline]
    fn settle(&mut self, i: u32, now: u64) {
        let connection = &self.pool.connections[i as usize];
        let standing = &connection.standing;
        let carrier = connection.carrier.as_ref();
        let limit = carrier.map_or(0, Carrier::streams);
        if standing.closing {
            if standing.running == 0 {
                // Reset, if it is we who close: a port in TIME_WAIT could not be used again.
                let ours = Some(standing.begun) == self.requests_per_connection;
                return self.pool.close(i, now, ours);
            }
            if standing.free > 0 {
                self.pool.admit(i);
            }
        } else if limit.min(self.pool.streams) != standing.limit {
            self.pool.admit(i);
        }
        self.pool.note_deadline(i);
    }

    /// Timers of protocols.
    #[cold]
    pub(super) fn alarms(&mut self, now: u64) {
        // Each once: what comes of it is for the next turn.
        for _ in 0..self.pool.connections.len() {
            let Some(i) = self.pool.alarms.ring(now) else {
                return;
            };
            let connection = &self.pool.connections[i as usize];
            let deadline = connection.carrier.as_ref().and_then(Carrier::deadline);
            if deadline.is_none_or(|deadline| deadline > now) {
                self.pool.note_deadline(i);
                continue;
            }
            if let State::Connecting(..) = connection.state {
                self.establish(i, now);
                continue;
            }
            let rung = with_answers!(self, i, now, |carrier, answers| {
                carrier.alarm(now, &mut answers)
            });
            match rung {
                Some(Ok(())) => self.settle(i, now),
                Some(Err(kind)) => self.lose(i, kind, now),
                None => {}
            }
        }
    }

    /// A connection is of no more use, and what it carries is lost.
    ///
    /// A server may close an idle connection just as a request is written to it; then no byte of a
    /// response comes, and the request is written once more, to a new connection (RFC 9112, 9.3.1
    /// and 9.6), keeping its intended instant.
    #[cold]
    pub(super) fn lose(&mut self, i: u32, kind: Kind, now: u64) {
        self.lose_all(i, kind, now);
        self.pool.close(i, now, false);
    }

    /// What a connection carries is lost.
    fn lose_all(&mut self, i: u32, kind: Kind, now: u64) {
        let served = self.pool.connections[i as usize].standing.served;
        for slot in self.pool.slots_of(i) {
            if !self.pool.slots.is_busy(slot) {
                continue;
            }
            let exchange = self.pool.slots.vacate(slot);
            self.pool.connections[i as usize].standing.running -= 1;
            let kind = match kind {
                // Nothing was cut off.
                Kind::TlsTruncated if !exchange.answered => Kind::Closed,
                kind => kind,
            };
            let raced = matches!(kind, Kind::Reset | Kind::Closed)
                && !exchange.answered
                && !exchange.retried
                && served > 0;
            if raced {
                self.ledger.retry(exchange.index);
            } else {
                self.ledger.fail(exchange.index, kind, now);
            }
        }
    }

    /// The request of a busy slot is not waited for any longer.
    #[cold]
    pub(super) fn give_up(&mut self, slot: u32, now: u64, outcome: Outcome) {
        let i = slot / self.pool.streams;
        let stream = slot - i * self.pool.streams;
        let taken_back = with_answers!(self, i, now, |carrier, answers| {
            let exchange = answers.vacate(stream);
            if let Some(exchange) = exchange {
                answers.ledger.give_up(exchange.index, now, outcome);
            }
            carrier.cancel(stream) && carrier.flush(&mut answers).is_ok()
        });
        if taken_back == Some(true) {
            self.settle(i, now);
        } else {
            self.lose_all(i, Kind::Closed, now);
            self.pool.close(i, now, true);
        }
    }
}
