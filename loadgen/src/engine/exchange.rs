//! One request on one connection: written, answered, lost or given up.

use std::io;

use sha2::Digest as _;

use super::{Engine, Phase};
use crate::errors::Kind;
use crate::pool::{Exchange, State};
use crate::record::Outcome;

/// Reads per event, before others get their turn.
const READS: usize = 4;
/// Bytes are hashed in pieces, with a look at the clock after each: hashing is no stall.
const HASH_PIECE: usize = 8 * 1024;
/// The first responses are hashed, and one of so many after them.
const HASH_FIRST: u32 = 8;
const HASH_EVERY: u32 = 64;

impl Engine<'_> {
    #[inline]
    pub(super) fn send(&mut self, i: u32, index: u32, retried: bool, now: u64) {
        let request = self.schedule.request(index as usize);
        let has_hash = self.pool.requests[usize::from(request)].sha256.is_some();
        let exchange = Exchange {
            index,
            request,
            retried,
            answered: false,
            hashed: has_hash && (index < HASH_FIRST || index.is_multiple_of(HASH_EVERY)),
            sent: 0,
            written: now,
        };
        self.record.write(index as usize, now);
        self.pool.occupy(i, exchange);
        if exchange.hashed {
            self.pool.start_hash(i);
        }
        self.write(i, now);
    }

    /// Write on, if the connection still has a request that is not all written.
    pub(super) fn write_rest(&mut self, i: u32, now: u64) {
        let connection = &self.pool.connections[i as usize];
        let request = &self.pool.requests[usize::from(connection.exchange.request)];
        if connection.state == State::Busy && connection.exchange.sent < request.bytes.len() {
            self.write(i, now);
        }
    }

    #[inline]
    fn write(&mut self, i: u32, now: u64) {
        let connection = &mut self.pool.connections[i as usize];
        let request = &self.pool.requests[usize::from(connection.exchange.request)];
        let rest = &request.bytes[connection.exchange.sent..];
        match connection.send(rest) {
            Ok(n) => {
                connection.exchange.sent += n;
                if self.phase == Phase::Measure {
                    self.counts.bytes_out += n as u64;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // An answer may have come before the reset (413 and the like): then it was read by now.
            Err(error) => self.lose(i, Kind::of_transfer(&error), now),
        }
    }

    /// Read what came for a busy connection.
    pub(super) fn receive(&mut self, i: u32, mut stamp: u64, closing: bool) {
        for _ in 0..READS {
            let connection = &mut self.pool.connections[i as usize];
            if connection.state != State::Busy {
                return;
            }
            if connection.exchange.written >= stamp {
                // The event is older than the request: it was about the response before.
                stamp = self.watch.tick();
            }
            let n = match connection.receive(&mut self.buffer) {
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.lose(i, Kind::of_transfer(&error), stamp),
            };
            if n == 0 {
                return match connection.parser.end() {
                    Ok(()) => self.complete(i, stamp, true),
                    Err(_) if !connection.exchange.answered => self.lose(i, Kind::Closed, stamp),
                    Err(fault) => self.lose(i, fault.into(), stamp),
                };
            }
            if self.phase == Phase::Measure {
                self.counts.bytes_in += n as u64;
            }
            connection.exchange.answered = true;
            let (hashed, hasher) = (connection.exchange.hashed, &mut connection.hasher);
            let watch = &mut self.watch;
            let fed = connection.parser.feed(&self.buffer[..n], |body| {
                if hashed {
                    for piece in body.chunks(HASH_PIECE) {
                        hasher.update(piece);
                        watch.tick();
                    }
                }
            });
            match fed {
                Ok(Some(used)) if used < n => return self.lose(i, Kind::ExcessBytes, stamp),
                Ok(Some(_)) => return self.complete(i, stamp, closing),
                Ok(None) => {}
                Err(fault) => return self.lose(i, fault.into(), stamp),
            }
            // A short read has emptied the socket; what comes later brings an event of its own.
            if n < self.buffer.len() && !closing {
                return;
            }
            stamp = self.watch.tick();
        }
        let connection = &mut self.pool.connections[i as usize];
        if !std::mem::replace(&mut connection.hungry, true) {
            self.hungry.push_back(i);
        }
    }

    /// A response is complete.
    #[inline]
    pub(super) fn complete(&mut self, i: u32, stamp: u64, closing: bool) {
        let connection = &mut self.pool.connections[i as usize];
        let exchange = connection.exchange;
        let request = &self.pool.requests[usize::from(exchange.request)];
        let parser = &connection.parser;
        let wrong = if request.status.is_some_and(|status| status != parser.status) {
            Some(Kind::Status(parser.status))
        } else if request.length.is_some_and(|n| n != parser.length) && !request.head {
            Some(Kind::WrongLength)
        } else if exchange.hashed && !request.head {
            let hash = connection.hasher.finalize_reset();
            let good = request.sha256.is_none_or(|expected| hash[..] == expected);
            (!good).then_some(Kind::WrongSha256)
        } else {
            None
        };
        let reusable = parser.keep_alive && !closing && exchange.sent == request.bytes.len();
        let index = exchange.index as usize;
        match wrong {
            None => {
                self.record.finish(index, stamp, Outcome::Ok);
                if self.phase == Phase::Measure && stamp < self.end {
                    self.counts.in_time += 1;
                }
            }
            Some(kind) => self.fail(index, kind, stamp),
        }
        self.pool.served(i);
        self.pool.vacate(i);
        if reusable {
            self.pool.release(i);
        } else {
            self.pool.close(i, stamp, false);
        }
    }

    #[cold]
    fn fail(&mut self, index: usize, kind: Kind, now: u64) {
        self.record.finish(index, now, Outcome::Error);
        if index >= self.first {
            self.errors.add(kind);
        }
    }

    /// A busy connection is of no more use before its response is complete.
    ///
    /// A server may close an idle connection just as a request is written to it; then no byte of a
    /// response comes, and the request is written once more, to a new connection (RFC 9112, 9.3.1
    /// and 9.6), keeping its intended instant.
    #[cold]
    pub(super) fn lose(&mut self, i: u32, kind: Kind, now: u64) {
        let connection = &self.pool.connections[i as usize];
        let exchange = connection.exchange;
        let raced = matches!(kind, Kind::Reset | Kind::Closed)
            && !exchange.answered
            && !exchange.retried
            && connection.served > 0;
        if raced {
            self.retries.push_back(exchange.index);
            if exchange.index as usize >= self.first {
                self.counts.retries += 1;
            }
        } else {
            self.fail(exchange.index as usize, kind, now);
        }
        self.pool.vacate(i);
        self.pool.close(i, now, false);
    }

    /// The request of a busy connection is not waited for any longer.
    #[cold]
    pub(super) fn give_up(&mut self, i: u32, now: u64, outcome: Outcome) {
        let index = self.pool.connections[i as usize].exchange.index;
        self.record.finish(index as usize, now, outcome);
        self.pool.vacate(i);
        self.pool.close(i, now, true);
    }
}
