//! One request in one slot: sent, answered, lost or given up.

use sha2::Digest as _;

use super::event_loop::Engine;
use super::ledger::Ledger;
use crate::carrier::Carrier;
use crate::errors::Kind;
use crate::machine::{Received, Sink};
use crate::pool::{Connection, Pool, State, Usage};
use crate::record::Outcome;
use crate::request::Prepared;
use crate::slots::{Exchange, Slots};
use crate::stalls::Watch;

/// Reads per event before other connections get their turn.
const READS: usize = 4;
/// Answers below this size fit every receive window, so that reading them late delays nothing.
const SMALL: usize = 16 * 1024;
/// Bytes are hashed in pieces of this size, with a clock reading after each, so that hashing does
/// not look like a stall.
const HASH_PIECE: usize = 8 * 1024;
/// Unless all responses are hashed: the first ones, and then every 64th.
const HASH_FIRST: u32 = 8;
const HASH_EVERY: u32 = 64;

/// A sink that passes one connection's events to its slots and the ledger.
struct Answers<'e, 'a> {
    /// The connection's instance.
    arm: usize,
    /// The connection's first slot.
    first: u32,
    slots: &'e mut Slots,
    usage: &'e mut Usage,
    requests: &'e [Prepared],
    ledger: &'e mut Ledger<'a>,
    watch: &'e mut Watch,
    /// The instant at which the poll returned that reported these bytes.
    stamp: u64,
}

impl Answers<'_, '_> {
    /// Remove the request from a busy stream and return it.
    fn vacate(&mut self, stream: u32) -> Option<Exchange> {
        let slot = self.first + stream;
        if !self.slots.is_busy(slot) {
            return None;
        }
        let exchange = self.slots.vacate(slot);
        let usage = &mut *self.usage;
        usage.running -= 1;
        if !usage.closing && usage.running + usage.free < usage.limit {
            self.slots.release(slot);
            usage.free += 1;
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
        let exchange = &mut self.slots.at(self.first + stream).exchange;
        if exchange.answered() {
            return;
        }
        if exchange.written >= self.stamp {
            // The event is older than the request: it belongs to the response before.
            self.stamp = self.watch.tick();
        }
        exchange.first = self.stamp;
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
            // The response began before its whole request was written.
            self.stamp = self.watch.tick();
        }
        self.ledger.complete(self.arm, &exchange, wrong, self.stamp);
        self.usage.served += 1;
        self.usage.failures = 0;
    }

    #[cold]
    fn failed(&mut self, stream: u32, kind: Kind, again: bool) {
        if let Some(exchange) = self.vacate(stream) {
            // A graceful close (GOAWAY without error) may happen repeatedly, so it does not count
            // as the one retry. HTTP/3 reports it twice: for the connection, and for each stream
            // that came too late (RFC 9114, 5.2).
            let late = kind == Kind::H3Reset(crate::http3::code::REQUEST_REJECTED);
            let gentle = kind == Kind::GoAway(0) || (late && self.usage.closing);
            if again && (!exchange.retried || gentle) {
                self.ledger.refuse(self.arm, exchange.index);
            } else {
                self.ledger.fail(self.arm, exchange.index, kind, self.stamp);
            }
        }
    }

    #[cold]
    fn closing(&mut self) {
        self.usage.closing = true;
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
        self.ledger.sent(self.arm, bytes);
    }

    #[cold]
    fn written(&mut self, stream: u32, at: u64) {
        let slot = self.first + stream;
        if self.slots.is_busy(slot) {
            let exchange = &mut self.slots.at(slot).exchange;
            exchange.written = at;
            self.ledger.unblock(self.arm, exchange);
        }
    }
}

/// Borrow the parts of an engine that one connection's carrier needs.
macro_rules! with_answers {
    ($engine:ident, $i:ident, $stamp:expr, |$connection:ident, $answers:ident| $body:expr) => {{
        let pool: &mut Pool = $engine.pool;
        let arm = pool.arm_of($i);
        let Connection { carrier, usage, .. } = &mut pool.connections[$i as usize];
        match carrier {
            None => None,
            Some($connection) => {
                let mut $answers = Answers {
                    arm,
                    first: $i * pool.streams,
                    slots: &mut pool.slots,
                    usage,
                    requests: &pool.targets[arm].requests,
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
    /// Send a request on a free slot.
    #[inline]
    pub(super) fn send(&mut self, slot: u32, index: u32, retried: bool, now: u64) {
        let kind = self.ledger.agenda.request(index);
        let i = slot / self.pool.streams;
        let target = &self.pool.targets[self.pool.arm_of(i)];
        let asked = &target.requests[usize::from(kind)];
        let drawn = asked.check_all || index < HASH_FIRST || index.is_multiple_of(HASH_EVERY);
        let hashed = asked.sha256.is_some() && drawn;
        let exchange = Exchange {
            index,
            request: kind,
            retried,
            hashed,
            dispatched: now,
            written: now,
            first: 0,
        };
        self.ledger.write(index, now);
        self.pool.take(slot);
        self.pool.slots.occupy(slot, exchange);
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
                let begun = self.pool.connections[i as usize].usage.begun;
                if Some(begun) == self.requests_per_connection {
                    self.pool.connections[i as usize].usage.closing = true;
                    self.pool.admit(i);
                }
                self.pool.update_alarm(i);
            }
            // An answer may have come before the reset (413 and the like); it has been read by now.
            Some(Err(kind)) => self.lose(i, kind, now),
            None => {}
        }
    }

    /// Send the pending bytes, now that the socket is writable.
    pub(super) fn write_rest(&mut self, i: u32, now: u64) {
        let flushed = with_answers!(self, i, now, |carrier, answers| {
            carrier.flush(&mut answers)
        });
        if let Some(Err(kind)) = flushed {
            self.lose(i, kind, now);
        }
    }

    /// Read from an open connection.
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
                    self.ledger.received(self.pool.arm_of(i), count);
                    let running = self.pool.connections[i as usize].usage.running;
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
        if !std::mem::replace(&mut connection.read_pending, true) {
            self.pending_reads.push_back(i);
        }
    }

    /// Update a connection after its events: adjust its free slots to what it now accepts, and
    /// close it if it accepts no more requests and has none in progress.
    #[inline]
    fn settle(&mut self, i: u32, now: u64) {
        let connection = &self.pool.connections[i as usize];
        let usage = &connection.usage;
        let carrier = connection.carrier.as_ref();
        let limit = carrier.map_or(0, Carrier::streams);
        if usage.closing {
            if usage.running == 0 {
                // Reset it if the client closes: a port in TIME_WAIT could not be used again.
                let ours = Some(usage.begun) == self.requests_per_connection;
                return self.pool.close(i, now, ours);
            }
            if usage.free > 0 {
                self.pool.admit(i);
            }
        } else if limit.min(self.pool.streams) != usage.limit {
            self.pool.admit(i);
        }
        self.pool.update_alarm(i);
    }

    /// Run the protocols' timers that are due.
    #[cold]
    pub(super) fn alarms(&mut self, now: u64) {
        // Each once; timers that this sets are for the next turn.
        for _ in 0..self.pool.connections.len() {
            let Some(i) = self.pool.alarms.ring(now) else {
                return;
            };
            let connection = &self.pool.connections[i as usize];
            let deadline = connection.carrier.as_ref().and_then(Carrier::deadline);
            if deadline.is_none_or(|deadline| deadline > now) {
                self.pool.update_alarm(i);
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

    /// Close a failed connection, and fail or retry its requests.
    ///
    /// A server may close an idle connection just as a request is written to it. Then no byte of a
    /// response comes, and the request is sent again on a new connection (RFC 9112, 9.3.1 and 9.6),
    /// with the same intended instant.
    #[cold]
    pub(super) fn lose(&mut self, i: u32, kind: Kind, now: u64) {
        self.lose_all(i, kind, now);
        self.pool.close(i, now, false);
    }

    /// Fail or retry all requests of a connection.
    fn lose_all(&mut self, i: u32, kind: Kind, now: u64) {
        let served = self.pool.connections[i as usize].usage.served;
        let arm = self.pool.arm_of(i);
        for slot in self.pool.slots_of(i) {
            if !self.pool.slots.is_busy(slot) {
                continue;
            }
            let exchange = self.pool.slots.vacate(slot);
            self.pool.connections[i as usize].usage.running -= 1;
            let kind = match kind {
                // No response was truncated.
                Kind::TlsTruncated if !exchange.answered() => Kind::Closed,
                kind => kind,
            };
            let raced = matches!(kind, Kind::Reset | Kind::Closed)
                && !exchange.answered()
                && !exchange.retried
                && served > 0;
            if raced {
                self.ledger.retry(arm, exchange.index);
            } else {
                self.ledger.fail(arm, exchange.index, kind, now);
            }
        }
    }

    /// Give up the request of a busy slot.
    #[cold]
    pub(super) fn give_up(&mut self, slot: u32, now: u64, outcome: Outcome) {
        let i = slot / self.pool.streams;
        let stream = slot - i * self.pool.streams;
        let taken_back = with_answers!(self, i, now, |carrier, answers| {
            let exchange = answers.vacate(stream);
            if let Some(exchange) = exchange {
                answers.ledger.give_up(&exchange, now, outcome);
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
