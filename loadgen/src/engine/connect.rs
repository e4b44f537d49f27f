//! Connections: opened before the window, and reopened during it without delaying requests.

use std::io;

use super::counts::Book;
use super::event_loop::{Engine, Phase, REOPENING_NS};
use crate::carrier::Carrier;
use crate::errors::Kind;
use crate::pool::Opened;
use crate::sys::{self, Wait};

/// Concurrent handshakes before the warm-up: below the smallest usual backlog.
const CONNECTING: usize = 64;
/// Failed attempts per connection after which the warm-up no longer waits for connections.
const MAX_ATTEMPTS: u32 = 4;
/// The longest wait for one more connection before the warm-up, and for all of them: ten thousand
/// TLS handshakes take one core some ten seconds.
const CONNECT_NS: u64 = 5_000_000_000;
const CONNECT_ALL_NS: u64 = 60_000_000_000;
/// Opening a connection takes some 40 µs, which would delay a request that is due sooner.
const OPENING_NS: u64 = 50_000;
/// A connection is opened after this time at the latest, even if requests are due.
const OPENING_PATIENCE_NS: u64 = 2_000_000;

impl Engine<'_> {
    /// Open the missing connections, as far as the server accepts them.
    pub(super) fn connect(
        &mut self,
        connections: usize,
        events: &mut [libc::epoll_event],
    ) -> io::Result<()> {
        for (i, connection) in (0..).zip(&self.pool.connections) {
            let kept = connection.carrier.as_ref();
            if let Some(agreed) = kept.and_then(Carrier::agreed) {
                self.ledger.books[self.pool.arm_of(i)]
                    .tls
                    .add(&agreed, false);
            }
        }
        // Those that were kept are writable, which the new epoll set reports.
        while self.handle_ready(events, Wait::Poll)? == events.len() {}
        let begun = sys::now_ns();
        let patience = self.timeout_ns.min(CONNECT_NS);
        let mut give_up = begun + patience;
        let mut opened = 0;
        loop {
            let now = sys::now_ns();
            let counts = self.ledger.books.iter().map(|book| book.counts);
            let so_far = counts.map(|counts| counts.connects + counts.reopened).sum();
            if so_far > opened {
                opened = so_far;
                give_up = (now + patience).min(begun + CONNECT_ALL_NS);
            }
            if !self.pool.reconnecting()
                || now >= give_up
                || self.pool.all_failed(MAX_ATTEMPTS)
                || sys::stop_requested()
            {
                return Ok(());
            }
            for _ in 0..connections {
                match self.pool.next_opening() {
                    Some((at, _)) if at <= now && self.pool.connecting() < CONNECTING => {
                        self.open(sys::now_ns());
                    }
                    Some(_) => self.pool.rotate_closed(),
                    None => break,
                }
            }
            self.handle_ready(events, Wait::Ns(1_000_000))?;
            let now = sys::now_ns();
            if now >= self.pool.alarms.next() {
                self.alarms(now);
            }
            self.expire_connecting(now);
        }
    }

    /// Wait for events and handle them; return their number.
    fn handle_ready(&mut self, events: &mut [libc::epoll_event], wait: Wait) -> io::Result<usize> {
        let n = self.pool.epoll.wait(events, wait)?;
        let now = sys::now_ns();
        for event in &events[..n] {
            self.handle(*event, now);
        }
        Ok(n)
    }

    /// Handle an event of a connection that is being established.
    #[cold]
    pub(super) fn establish(&mut self, i: u32, now: u64) {
        match self.pool.establish(i, now, &mut self.buffer) {
            Ok(Some(opened)) => self.opened(i, opened, now),
            Ok(None) => {}
            Err(kind) => self.ledger.books[self.pool.arm_of(i)].errors.add(kind),
        }
    }

    /// Handle an established connection. Lost requests go first.
    fn opened(&mut self, i: u32, opened: Opened, now: u64) {
        let during = matches!(self.phase, Phase::Measure | Phase::Drain);
        let arm = self.pool.arm_of(i);
        let book = &mut self.ledger.books[arm];
        let counts = &mut book.counts;
        match (during, opened.before) {
            (true, _) => counts.reconnects += 1,
            (false, true) => counts.reopened += 1,
            (false, false) => counts.connects += 1,
        }
        book.handshakes[usize::from(during)].saturating_record(now.saturating_sub(opened.since));
        let carrier = self.pool.connections[i as usize].carrier.as_ref();
        if let Some(agreed) = carrier.and_then(Carrier::agreed) {
            book.tls.add(&agreed, true);
        }
        while !self.ledger.books[arm].retries.is_empty()
            && let Some(slot) = self.pool.free_slot_of(i)
            && let Some(index) = self.ledger.books[arm].retries.pop_front()
        {
            let now = self.watch.tick();
            self.send(slot, index, true, now);
        }
    }

    /// Open one of the closed connections when no request is due soon; return whether it did.
    #[cold]
    pub(super) fn reopen(&mut self, now: u64) -> bool {
        if now >= self.next_reopening {
            self.expire_connecting(now);
            self.next_reopening = now + REOPENING_NS;
        }
        let Some((at, arm)) = self.pool.next_opening() else {
            return false;
        };
        if at > now || !self.may_open(arm, now) {
            self.pool.rotate_closed();
            return false;
        }
        let quiet = self.due().saturating_sub(now) > OPENING_NS;
        let retries = |book: &Book| !book.retries.is_empty();
        let needed = !self.pool.slots.has_free_of(arm) || self.ledger.books.iter().any(retries);
        if quiet || needed || now - at > OPENING_PATIENCE_NS {
            self.open(now);
            self.watch.tick();
            return true;
        }
        false
    }

    pub(super) fn open(&mut self, now: u64) {
        if let Err((arm, kind)) = self.pool.open(now, now + self.timeout_ns) {
            self.ledger.books[arm].errors.add(kind);
        }
    }

    pub(super) fn expire_connecting(&mut self, now: u64) {
        let books = &mut self.ledger.books;
        self.pool.expire_connecting(now, |arm| {
            books[arm].errors.add(Kind::ConnectTimeout);
        });
    }
}
