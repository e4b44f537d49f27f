//! What becomes of requests: where every one of them is claimed, and where its end is written down.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use hdrhistogram::Histogram;

use super::counts::Counts;
use crate::errors::{Errors, Kind};
use crate::histogram;
use crate::live::{Gauge, Live};
use crate::plan::{Mode, Window};
use crate::record::{Outcome, Record, Sample};
use crate::schedule::Schedule;
use crate::slots::Exchange;
use crate::tls::Tally;

/// A closed loop has no schedule to take the number of requests from; more per second than one
/// core can do.
const MOST_CLOSED_PER_S: f64 = 500_000.0;
/// The most requests recorded of a closed loop (1.1 GB); the window ends there.
const MOST_CLOSED: f64 = 64e6;

/// What the threads of a window have in common: one schedule, one record, and which request is the
/// next.
#[derive(Debug)]
pub struct Agenda {
    /// Whether the answers decide when requests are sent.
    pub closed_loop: bool,
    schedule: Schedule,
    record: Record,
    /// Requests are sent at multiples of this from `origin`, those due by then together.
    every_ns: Option<u64>,
    /// The next request that nobody has claimed. May run past the record in a closed loop.
    next: AtomicUsize,
    /// Start of the schedule (the warm-up), start and end of the measured part on the monotonic
    /// clock. Far away until the window begins.
    origin: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    /// What is intended from here on is neither sent nor counted: far away unless the window was
    /// cut short.
    limit: AtomicU64,
    /// Who looks on from outside.
    live: Option<Arc<Live>>,
}

impl Agenda {
    /// All requests of a window, and room for what becomes of them.
    pub fn new(
        window: &Window,
        schedule: Schedule,
        every_ns: Option<u64>,
        live: Option<Arc<Live>>,
    ) -> io::Result<Self> {
        let closed_loop = window.mode == Mode::Closed;
        let record = if closed_loop {
            let seconds = window.warmup_s + window.duration_s;
            let capacity = (seconds * MOST_CLOSED_PER_S).clamp(1000.0, MOST_CLOSED);
            Record::new(capacity as usize, false)?
        } else {
            Record::new(schedule.intended_ns.len(), true)?
        };
        Ok(Self {
            closed_loop,
            schedule,
            record,
            every_ns,
            next: AtomicUsize::new(0),
            origin: AtomicU64::new(u64::MAX),
            start: AtomicU64::new(u64::MAX),
            end: AtomicU64::new(u64::MAX),
            limit: AtomicU64::new(u64::MAX),
            live,
        })
    }

    /// Set the window's instants.
    pub fn begin(&self, origin: u64, window: &Window) {
        let start = origin + window.warmup_ns();
        self.origin.store(origin, Relaxed);
        self.start.store(start, Relaxed);
        self.end.store(start + window.duration_ns(), Relaxed);
        if let Some(live) = &self.live {
            live.set(start, start + window.duration_ns());
        }
    }

    /// End the measured part now, if it is under way and somebody wants what there is of it;
    /// whether the window goes on, to its drain.
    pub fn cut_short(&self, now: u64) -> bool {
        if self.live.is_none() || now <= self.start() {
            return false;
        }
        if now < self.end() {
            self.limit.fetch_min(now, Relaxed);
            self.end.fetch_min(now, Relaxed);
        }
        true
    }

    /// Whether it was.
    pub fn was_cut_short(&self) -> bool {
        self.limit.load(Relaxed) != u64::MAX
    }

    /// Start of the measured part.
    #[inline]
    pub fn start(&self) -> u64 {
        self.start.load(Relaxed)
    }

    /// End of the measured part.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// When the next request is to be sent; in a closed loop, always.
    #[inline]
    pub fn due(&self) -> u64 {
        let next = self.next.load(Relaxed);
        match self.schedule.intended_ns.get(next) {
            Some(ns) => {
                let due = self.origin.load(Relaxed).saturating_add(*ns);
                if due >= self.limit.load(Relaxed) {
                    return u64::MAX;
                }
                match self.every_ns {
                    None => due,
                    Some(every) => due.saturating_add(ns.next_multiple_of(every) - ns),
                }
            }
            None if self.closed_loop && next < self.record.capacity() => self.origin.load(Relaxed),
            None => u64::MAX,
        }
    }

    /// Claim the next request, if it is due.
    #[inline]
    pub fn claim(&self, now: u64) -> Option<u32> {
        loop {
            let next = self.next.load(Relaxed);
            if self.due() > now {
                return None;
            }
            if next >= self.record.capacity() {
                return None;
            }
            let claimed = self
                .next
                .compare_exchange_weak(next, next + 1, Relaxed, Relaxed);
            if claimed.is_ok() {
                if self.closed_loop && next + 1 == self.record.capacity() {
                    // Memory for the record is used up: the window ends here.
                    self.end.fetch_min(now.max(self.start() + 1), Relaxed);
                }
                return Some(next as u32);
            }
        }
    }

    /// The number to choose the next request's slot with.
    #[inline]
    pub fn pick(&self) -> u32 {
        self.schedule.pick(self.next.load(Relaxed))
    }

    /// Which of the plan's requests one is.
    #[inline]
    pub fn request(&self, index: u32) -> u16 {
        self.schedule.request(index as usize)
    }

    /// Whether every request was claimed.
    #[inline]
    pub fn exhausted(&self) -> bool {
        self.next.load(Relaxed) >= self.record.capacity() || self.due() == u64::MAX
    }

    /// When a request was to be sent; in a closed loop, when it was.
    #[inline]
    fn intended(&self, index: u32) -> u64 {
        match self.schedule.intended_ns.get(index as usize) {
            Some(ns) => self.origin.load(Relaxed) + ns,
            None => self.record.written(index as usize),
        }
    }

    /// The requests intended in the measured part in the order in which they were; those never
    /// written were given up at `now`.
    pub fn samples(&self, now: u64) -> Vec<Sample> {
        let origin = self.origin.load(Relaxed);
        let sample = |index: usize| {
            let intended = self.schedule.intended_ns.get(index);
            self.record
                .sample(index, intended.map(|ns| origin + ns), now)
        };
        if !self.closed_loop {
            let measured = self.schedule.first_measured..self.record.capacity();
            let limit = self.limit.load(Relaxed);
            let samples = measured.map(sample);
            return samples.take_while(|s| s.intended < limit).collect();
        }
        let measured = self.start()..self.end();
        let mut samples: Vec<Sample> = (0..self.next.load(Relaxed))
            .map(sample)
            .filter(|sample| measured.contains(&sample.intended))
            .collect();
        samples.sort_by_key(|sample| sample.intended);
        samples
    }
}

/// One thread's part in what becomes of the requests.
#[derive(Debug)]
pub struct Ledger<'a> {
    /// What all threads have in common.
    pub agenda: &'a Agenda,
    /// Counts.
    pub counts: Counts,
    /// Errors by kind.
    pub errors: Errors,
    /// Requests lost to closing connections, to be written again to new ones: a server that closes
    /// one idle connection may be about to close the others.
    pub retries: VecDeque<u32>,
    /// Requests that a server has certainly not processed, to be written again wherever there is
    /// room.
    pub refused: VecDeque<u32>,
    /// From dispatch to write, of the requests that a shared connection could not write at once.
    pub blocked: Histogram<u64>,
    /// Handshakes that came to a good end before the measured part, and from its start on.
    pub handshakes: [Histogram<u64>; 2],
    /// What was agreed about encryption.
    pub tls: Tally,
    /// Whether the measured part is under way.
    pub measuring: bool,
    gauge: Option<&'a Gauge>,
}

impl<'a> Ledger<'a> {
    /// Nothing yet; room for as many retries as there are slots.
    pub fn new(agenda: &'a Agenda, slots: usize) -> Self {
        Self {
            agenda,
            counts: Counts::default(),
            errors: Errors::new(),
            retries: VecDeque::with_capacity(slots + 1),
            refused: VecDeque::new(),
            blocked: histogram::new(),
            handshakes: [histogram::new(), histogram::new()],
            tls: Tally::new(),
            measuring: false,
            gauge: agenda.live.as_ref().and_then(|live| live.gauge()),
        }
    }

    /// Whether a request belongs to the measured part: in a closed loop, once it is written.
    #[inline]
    fn measured(&self, index: u32) -> bool {
        if self.agenda.closed_loop {
            let written = self.agenda.record.written(index as usize);
            (self.agenda.start()..self.agenda.end()).contains(&written)
        } else {
            index as usize >= self.agenda.schedule.first_measured
        }
    }

    /// A request is about to be written.
    #[inline]
    pub fn write(&self, index: u32, now: u64) {
        self.agenda.record.write(index as usize, now);
    }

    /// Nothing of a request could be written.
    #[cold]
    pub fn unwrite(&self, index: u32) {
        self.agenda.record.unwrite(index as usize);
    }

    /// A request that had to wait for others on its connection is written.
    #[cold]
    pub fn unblock(&mut self, exchange: &Exchange) {
        self.write(exchange.index, exchange.written);
        if self.measured(exchange.index) {
            let waited = exchange.written - exchange.dispatched;
            self.blocked.saturating_record(waited);
        }
    }

    /// A request was answered, well or with this error.
    #[inline]
    pub fn complete(&mut self, index: u32, wrong: Option<Kind>, stamp: u64) {
        match wrong {
            None => {
                let record = &self.agenda.record;
                record.finish(index as usize, stamp, Outcome::Ok);
                if self.measuring && stamp < self.agenda.end() {
                    self.counts.in_time += 1;
                }
                if let Some(gauge) = self.gauge
                    && self.measured(index)
                {
                    gauge.good(stamp.saturating_sub(self.agenda.intended(index)));
                }
            }
            Some(kind) => self.fail(index, kind, stamp),
        }
    }

    /// A request came to a bad end.
    #[cold]
    pub fn fail(&mut self, index: u32, kind: Kind, now: u64) {
        let record = &self.agenda.record;
        record.finish(index as usize, now, Outcome::Error);
        if self.measured(index) {
            self.errors.add(kind);
            self.show_bad();
        }
    }

    #[cold]
    fn show_bad(&self) {
        if let Some(gauge) = self.gauge {
            gauge.bad();
        }
    }

    /// A request is not waited for any longer.
    #[cold]
    pub fn give_up(&mut self, index: u32, now: u64, outcome: Outcome) {
        self.agenda.record.finish(index as usize, now, outcome);
        if self.measured(index) {
            self.show_bad();
        }
    }

    /// A request was lost through no fault of its own and will be written once more.
    #[cold]
    pub fn retry(&mut self, index: u32) {
        self.retries.push_back(index);
        self.count_retry(index);
    }

    /// A request was not taken by the server and will be written once more.
    #[cold]
    pub fn refuse(&mut self, index: u32) {
        self.refused.push_back(index);
        self.count_retry(index);
    }

    fn count_retry(&mut self, index: u32) {
        if self.measured(index) {
            self.counts.retries += 1;
        }
    }

    /// The window is over: what waits to be written again never was.
    pub fn close(&mut self, now: u64) {
        self.retries.append(&mut self.refused);
        while let Some(index) = self.retries.pop_front() {
            if self.agenda.closed_loop {
                // Its first write is all that tells when it was intended.
                self.give_up(index, now, Outcome::InFlight);
            } else {
                self.unwrite(index);
            }
        }
    }

    /// Bytes were received.
    #[inline]
    pub fn received(&mut self, bytes: usize) {
        if self.measuring {
            self.counts.bytes_in += bytes as u64;
        }
    }

    /// Bytes were sent.
    #[inline]
    pub fn sent(&mut self, bytes: usize) {
        if self.measuring {
            self.counts.bytes_out += bytes as u64;
        }
    }
}
