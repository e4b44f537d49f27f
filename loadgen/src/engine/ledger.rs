//! The books of a window: requests are claimed here, and their outcomes recorded.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::counts::{Book, Waiting};
use super::freezing::Outstanding;
use crate::errors::Kind;
use crate::live::{Gauge, Live};
use crate::plan::{Mode, Window};
use crate::record::{Outcome, Record, Sample};
use crate::schedule::Schedule;
use crate::slices::Turns;
use crate::slots::Exchange;
use crate::sys::Column;

/// Requests per second for which a closed loop allocates its record: more than one core can send.
/// It has no schedule to take the number from.
const MAX_CLOSED_PER_S: f64 = 500_000.0;
/// The most requests recorded in a closed loop (1.6 GB); the window ends there.
const MAX_CLOSED: f64 = 64e6;

/// Requests after which a loop no longer looks which instances they are for.
const MANY: usize = 64;

/// A number that all threads write to, in a pair of cache lines of its own: its neighbours would
/// leave a core's cache with each write by another core. A pair, because processors fetch two lines
/// at once (Intel 64 and IA-32 Architectures Optimization Reference Manual, spatial prefetcher).
#[derive(Debug)]
#[repr(align(128))]
struct Apart(AtomicUsize);

/// State that the threads of a window share: one schedule, one record, and the index of the next
/// request.
#[derive(Debug)]
pub struct Agenda {
    /// True if answers, not a schedule, decide when requests are sent.
    pub closed_loop: bool,
    /// True if instances are stopped when it is not their turn.
    pub freezes: bool,
    /// The instances that each thread has requests of.
    pub outstanding: Vec<Outstanding>,
    /// A bit for each instance that is held.
    pub held: AtomicU64,
    /// A bit for each instance that was given up.
    pub given_up: AtomicU64,
    schedule: Schedule,
    record: Record,
    /// The instances in turn.
    turns: Turns,
    /// The instance of each request of a closed loop over several.
    arms: Option<Column<AtomicU8>>,
    /// Requests are sent at multiples of this after `origin`, all those that are due by then
    /// together.
    every_ns: Option<u64>,
    /// The next unclaimed request. May exceed the record's capacity in a closed loop.
    next: Apart,
    /// Start of the schedule (the warm-up), start and end of the measured part on the monotonic
    /// clock. `u64::MAX` until the window begins.
    origin: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    /// Requests intended from here on are neither sent nor counted: `u64::MAX` unless the window
    /// was cut short.
    limit: AtomicU64,
    /// Figures for a progress line.
    live: Option<Arc<Live>>,
}

/// A slice that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The instance that was at turn.
    pub arm: usize,
    /// The start and the end on the monotonic clock.
    pub span: (u64, u64),
    /// Number of requests that were due in it.
    pub offered: usize,
    /// Number of these that no thread has claimed yet.
    pub unclaimed: usize,
}

/// A request that may be claimed.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// Its index in the record.
    pub index: usize,
    /// The random number that chooses its slot.
    pub pick: u32,
    /// The instance that it is for.
    pub arm: usize,
}

impl Agenda {
    /// Prepare all requests of a window, and allocate their record.
    pub fn new(
        window: &Window,
        schedule: Schedule,
        every_ns: Option<u64>,
        live: Option<Arc<Live>>,
    ) -> io::Result<Self> {
        let closed_loop = window.mode == Mode::Closed;
        let record = if closed_loop {
            let seconds = window.warmup_s + window.duration_s;
            let capacity = (seconds * MAX_CLOSED_PER_S).clamp(1000.0, MAX_CLOSED);
            Record::new(capacity as usize, false)?
        } else {
            Record::new(schedule.intended_ns.len(), true)?
        };
        let turns = window.turns();
        let arms = if closed_loop && window.arms().len() > 1 {
            Some(Column::new(record.capacity(), false)?)
        } else {
            None
        };
        Ok(Self {
            closed_loop,
            freezes: false,
            outstanding: Vec::new(),
            held: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            schedule,
            record,
            turns,
            arms,
            every_ns,
            next: Apart(AtomicUsize::new(0)),
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

    /// Return whether the window's instants are set.
    pub fn has_begun(&self) -> bool {
        self.start() != u64::MAX
    }

    /// End the measured part now, if it is running and a partial window is wanted; return whether
    /// the window continues with its drain.
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

    /// Return whether the window was cut short.
    pub fn was_cut_short(&self) -> bool {
        self.limit.load(Relaxed) != u64::MAX
    }

    /// Return the start of the measured part.
    #[inline]
    pub fn start(&self) -> u64 {
        self.start.load(Relaxed)
    }

    /// Return the end of the measured part.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// Return when the next request is due; in a closed loop, any time.
    #[inline]
    pub fn due(&self) -> u64 {
        let next = self.next.0.load(Relaxed);
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

    /// Return the instance at turn at an instant of the monotonic clock.
    pub fn arm_at(&self, now: u64) -> usize {
        let origin = self.origin.load(Relaxed);
        self.turns.arm_at(now.saturating_sub(origin))
    }

    /// Return the instants at which the turn passes from one instance to another.
    pub fn borders(&self) -> Vec<u64> {
        let origin = self.origin.load(Relaxed);
        let borders = self.turns.borders().into_iter();
        borders.map(|at| origin + at).collect()
    }

    /// Return the slice before an instant: its start and end, how many requests were due in it, and how
    /// many of these are not claimed; `None` in a closed loop, and at the very start.
    pub fn slice_before(&self, now: u64) -> Option<Slice> {
        let origin = self.origin.load(Relaxed);
        let end = self.turns.start_of(now.saturating_sub(origin));
        let start = self.turns.start_of(end.checked_sub(1)?);
        let place = |at: u64| self.schedule.intended_ns.partition_point(|ns| *ns < at);
        let (first, after) = (place(start), place(end));
        let next = self.next.0.load(Relaxed);
        (!self.closed_loop).then_some(Slice {
            arm: self.turns.arm_at(start),
            span: (origin + start, origin + end),
            offered: after - first,
            unclaimed: after.saturating_sub(next.max(first)),
        })
    }

    /// Return a bit for each instance whose requests of earlier slices still wait to be sent, after a
    /// stall of the generator, for example. Of many requests, all bits.
    pub fn late_arms(&self, now: u64) -> u64 {
        let origin = self.origin.load(Relaxed);
        let start = self.turns.start_of(now.saturating_sub(origin));
        let next = self
            .next
            .0
            .load(Relaxed)
            .min(self.schedule.intended_ns.len());
        let waiting = self.schedule.intended_ns[next..].iter();
        let mut arms = 0;
        for (count, ns) in waiting.take_while(|ns| **ns < start).enumerate() {
            if count == MANY {
                return u64::MAX;
            }
            arms |= 1 << self.turns.arm_at(*ns);
        }
        arms
    }

    /// Return when the turn of that instance ends.
    pub fn turn_ends(&self, now: u64) -> u64 {
        let origin = self.origin.load(Relaxed);
        origin.saturating_add(self.turns.end_of(now.saturating_sub(origin)))
    }

    /// Return the next request, for which a slot is to be chosen before it is claimed.
    #[inline]
    pub fn next(&self, now: u64) -> Next {
        let index = self.next.0.load(Relaxed);
        let since_origin = match self.schedule.intended_ns.get(index) {
            Some(ns) => *ns,
            None => now.saturating_sub(self.origin.load(Relaxed)),
        };
        Next {
            index,
            pick: self.schedule.pick(index),
            arm: self.turns.arm_at(since_origin),
        }
    }

    /// Claim a request, unless it is not due, or another thread has claimed it.
    #[inline]
    pub fn claim(&self, next: Next, now: u64) -> Option<u32> {
        let index = next.index;
        if self.due() > now || index >= self.record.capacity() {
            return None;
        }
        let claimed = self
            .next
            .0
            .compare_exchange(index, index + 1, Relaxed, Relaxed);
        claimed.ok()?;
        if let Some(arms) = &self.arms {
            arms[index].store(next.arm as u8, Relaxed);
        }
        if self.closed_loop && index + 1 == self.record.capacity() {
            // The record is full: the window ends here.
            self.end.fetch_min(now.max(self.start() + 1), Relaxed);
        }
        Some(index as u32)
    }

    /// Return the instance of a claimed request.
    fn arm(&self, index: usize) -> usize {
        match (&self.arms, self.schedule.intended_ns.get(index)) {
            (Some(arms), _) => usize::from(arms[index].load(Relaxed)),
            (None, Some(ns)) => self.turns.arm_at(*ns),
            (None, None) => 0,
        }
    }

    /// Return the index of a request in the plan.
    #[inline]
    pub fn request(&self, index: u32) -> u16 {
        self.schedule.request(index as usize)
    }

    /// Return whether every request is claimed.
    #[inline]
    pub fn exhausted(&self) -> bool {
        self.next.0.load(Relaxed) >= self.record.capacity() || self.due() == u64::MAX
    }

    /// Return a request's intended instant; in a closed loop, when it was written.
    #[inline]
    fn intended(&self, index: u32) -> u64 {
        match self.schedule.intended_ns.get(index as usize) {
            Some(ns) => self.origin.load(Relaxed) + ns,
            None => self.record.written(index as usize),
        }
    }

    /// Return each instance's requests intended in the measured part, in the order of their
    /// intended instants; those never written were given up at `now`.
    pub fn samples(&self, arms: usize, now: u64) -> Vec<Vec<Sample>> {
        let origin = self.origin.load(Relaxed);
        let sample = |index: usize| {
            let intended = self.schedule.intended_ns.get(index);
            self.record
                .sample(index, intended.map(|ns| origin + ns), now)
        };
        let mut samples = vec![Vec::new(); arms];
        if !self.closed_loop {
            let limit = self.limit.load(Relaxed);
            for index in self.schedule.first_measured..self.record.capacity() {
                let sample = sample(index);
                if sample.intended >= limit {
                    break;
                }
                samples[self.arm(index)].push(sample);
            }
            return samples;
        }
        let measured = self.start()..self.end();
        for index in 0..self.next.0.load(Relaxed) {
            let sample = sample(index);
            if measured.contains(&sample.intended) {
                samples[self.arm(index)].push(sample);
            }
        }
        for samples in &mut samples {
            samples.sort_by_key(|sample| sample.intended);
        }
        samples
    }
}

/// One thread's part of the books.
#[derive(Debug)]
pub struct Ledger<'a> {
    /// State that all threads share.
    pub agenda: &'a Agenda,
    /// A book for each instance.
    pub books: Vec<Book>,
    /// True if the measured part is running.
    pub measuring: bool,
    gauge: Option<&'a Gauge>,
}

impl<'a> Ledger<'a> {
    /// Create an empty ledger with room for one retry per slot of each instance.
    pub fn new(agenda: &'a Agenda, arms: usize, slots: usize) -> Self {
        Self {
            agenda,
            books: (0..arms).map(|_| Book::new(slots)).collect(),
            measuring: false,
            gauge: agenda.live.as_ref().and_then(|live| live.gauge()),
        }
    }

    /// Return whether a request belongs to the measured part; in a closed loop, known once it is
    /// written.
    #[inline]
    fn measured(&self, index: u32) -> bool {
        if self.agenda.closed_loop {
            let written = self.agenda.record.written(index as usize);
            (self.agenda.start()..self.agenda.end()).contains(&written)
        } else {
            index as usize >= self.agenda.schedule.first_measured
        }
    }

    /// Record that a request is about to be written.
    #[inline]
    pub fn write(&self, index: u32, now: u64) {
        self.agenda.record.write(index as usize, now);
    }

    /// Record that no byte of a request could be written.
    #[cold]
    pub fn unwrite(&self, index: u32) {
        self.agenda.record.unwrite(index as usize);
    }

    /// Record that a request is written that had to wait for others on its connection.
    #[cold]
    pub fn unblock(&mut self, arm: usize, exchange: &Exchange) {
        self.write(exchange.index, exchange.written);
        if self.measured(exchange.index) {
            let waited = exchange.written - exchange.dispatched;
            self.books[arm].blocked.saturating_record(waited);
        }
    }

    /// Record an answer, with what is wrong with it, if anything.
    #[inline]
    pub fn complete(&mut self, arm: usize, exchange: &Exchange, wrong: Option<Kind>, stamp: u64) {
        let index = exchange.index;
        match wrong {
            None => {
                let record = &self.agenda.record;
                record.finish(index as usize, exchange.first, stamp, Outcome::Ok);
                if self.measuring && stamp < self.agenda.end() {
                    self.books[arm].counts.in_time += 1;
                }
                if let Some(gauge) = self.gauge
                    && self.measured(index)
                {
                    gauge.good(stamp.saturating_sub(self.agenda.intended(index)));
                }
            }
            Some(kind) => self.fail(arm, index, kind, stamp),
        }
    }

    /// Record that a request failed.
    #[cold]
    pub fn fail(&mut self, arm: usize, index: u32, kind: Kind, now: u64) {
        let record = &self.agenda.record;
        record.finish(index as usize, 0, now, Outcome::Error);
        if self.measured(index) {
            self.books[arm].errors.add(kind);
            self.show_bad();
        }
    }

    #[cold]
    fn show_bad(&self) {
        if let Some(gauge) = self.gauge {
            gauge.bad();
        }
    }

    /// Record that a request was given up.
    #[cold]
    pub fn give_up(&mut self, exchange: &Exchange, now: u64, outcome: Outcome) {
        let record = &self.agenda.record;
        record.finish(exchange.index as usize, exchange.first, now, outcome);
        if self.measured(exchange.index) {
            self.show_bad();
        }
    }

    /// Queue a request that was lost with its connection to be sent again.
    #[cold]
    pub fn retry(&mut self, arm: usize, index: u32) {
        self.books[arm].retries.push_back(index);
        self.count_retry(arm, index);
    }

    /// Queue a request that the server refused to be sent again.
    #[cold]
    pub fn refuse(&mut self, arm: usize, index: u32) {
        let refused = true;
        self.books[arm]
            .waiting
            .push_back(Waiting { index, refused });
        self.count_retry(arm, index);
    }

    /// Queue a request for which no slot was free in its slice.
    #[cold]
    pub fn put_off(&mut self, arm: usize, index: u32) {
        let refused = false;
        self.books[arm]
            .waiting
            .push_back(Waiting { index, refused });
    }

    /// Forget the requests of an instance that wait to be sent: they count as never sent.
    #[cold]
    pub fn forget(&mut self, arm: usize) {
        for index in self.books[arm].take_waiting() {
            self.agenda.record.unwrite(index as usize);
        }
    }

    fn count_retry(&mut self, arm: usize, index: u32) {
        if self.measured(index) {
            self.books[arm].counts.retries += 1;
        }
    }

    /// Return whether requests wait to be sent, other than those that are newly due.
    #[inline]
    pub fn waits(&self) -> bool {
        self.books.iter().any(Book::waits)
    }

    /// End the window: requests that wait to be sent count as never sent.
    pub fn close(&mut self, now: u64) {
        for arm in 0..self.books.len() {
            if !self.agenda.closed_loop {
                self.forget(arm);
                continue;
            }
            let waiting: Vec<u32> = self.books[arm].take_waiting().collect();
            for index in waiting {
                // Its first write is the only record of when it was intended.
                let unanswered = Exchange {
                    index,
                    ..Exchange::default()
                };
                self.give_up(&unanswered, now, Outcome::InFlight);
            }
        }
    }

    /// Count received bytes.
    #[inline]
    pub fn received(&mut self, arm: usize, bytes: usize) {
        if self.measuring {
            self.books[arm].counts.bytes_in += bytes as u64;
        }
    }

    /// Count sent bytes.
    #[inline]
    pub fn sent(&mut self, arm: usize, bytes: usize) {
        if self.measuring {
            self.books[arm].counts.bytes_out += bytes as u64;
        }
    }
}
