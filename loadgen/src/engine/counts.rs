//! Counts of a window.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use crate::errors::Errors;
use crate::histogram;
use crate::tls::Tally;

/// Counts of a window's measured part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Connections opened for the first time, before the measured part.
    pub connects: u64,
    /// Connections reopened before the measured part, because the server had closed them.
    pub reopened: u64,
    /// Connections opened since the start of the measured part.
    pub reconnects: u64,
    /// Requests sent again, because the connection closed while they were written.
    pub retries: u64,
    /// Bytes received in the measured part.
    pub bytes_in: u64,
    /// Bytes sent in the measured part.
    pub bytes_out: u64,
    /// Good responses that were completed in the measured part, whenever they were intended.
    pub in_time: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.connects += other.connects;
        self.reopened += other.reopened;
        self.reconnects += other.reconnects;
        self.retries += other.retries;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.in_time += other.in_time;
    }
}

/// A claimed request that waits for a free slot.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The index in the record.
    pub index: u32,
    /// True if the server has certainly not processed it, so that it is sent again. Otherwise no slot
    /// was free in its slice.
    pub refused: bool,
}

/// Counts of one instance, by one thread or by all of them.
#[derive(Debug)]
pub struct Book {
    /// Counts.
    pub counts: Counts,
    /// Errors by kind.
    pub errors: Errors,
    /// Time from dispatch to write, of the requests that a shared connection could not write at
    /// once.
    pub blocked: Histogram<u64>,
    /// Successful handshakes: before the measured part, and since its start.
    pub handshakes: [Histogram<u64>; 2],
    /// Negotiated encryption.
    pub tls: Tally,
    /// Requests lost with a closing connection, to be sent again on a new one: a server that closes
    /// one idle connection may be about to close the others.
    pub retries: VecDeque<u32>,
    /// Requests to be sent on any free slot before those that are newly due.
    pub waiting: VecDeque<Waiting>,
}

impl Book {
    /// Create an empty book with room for one retry per slot.
    pub fn new(slots: usize) -> Self {
        Self {
            counts: Counts::default(),
            errors: Errors::new(),
            blocked: histogram::new(),
            handshakes: [histogram::new(), histogram::new()],
            tls: Tally::new(),
            retries: VecDeque::with_capacity(slots + 1),
            waiting: VecDeque::new(),
        }
    }

    /// Add the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.counts += other.counts;
        self.errors.merge(&other.errors);
        // All histograms have the same bounds, so this cannot fail.
        let _ = self.blocked.add(&other.blocked);
        for (all, its) in self.handshakes.iter_mut().zip(&other.handshakes) {
            let _ = all.add(its);
        }
        self.tls.merge(&other.tls);
    }

    /// Take out the requests that wait to be sent, other than those that are newly due.
    pub fn take_waiting(&mut self) -> impl Iterator<Item = u32> {
        let waiting = self.waiting.drain(..).map(|waiting| waiting.index);
        waiting.chain(self.retries.drain(..))
    }

    /// Return whether requests wait to be sent, other than those that are newly due.
    #[inline]
    pub fn waits(&self) -> bool {
        !self.retries.is_empty() || !self.waiting.is_empty()
    }
}
