//! The loop that measures: one thread, one epoll set, one window.
//!
//! Everything it touches is allocated before the window starts; in between it takes no lock, no
//! memory and no file. Each turn reads the clock, writes what is due, mends connections, and polls.
//! Requests that are due are also written between the events of one poll, so that a burst of
//! answers delays no request.

mod connect;
mod exchange;

use std::collections::VecDeque;
use std::io;

use crate::errors::Errors;
use crate::plan::{Mode, Spin, Window};
use crate::pool::{Pool, State};
use crate::record::{Outcome, Record, Sample};
use crate::resources::CpuTime;
use crate::schedule::Schedule;
use crate::stalls::Watch;
use crate::sys::{self, Wait};

/// Events taken per poll: few, so that the instant of a poll is true for all of its events.
const EVENTS: usize = 64;
/// Bytes per read.
const BUFFER: usize = 64 * 1024;
/// In a sleeping loop, handshakes are looked after this often.
const MENDING_NS: u64 = 10_000_000;
/// A closed loop has no instant to be late for. It polls this long after the last event, then sleeps:
/// as much CPU time per answer as sleeping at once, and fewer wake-ups for the server to pay for.
/// With 10 µs it is a third more CPU time for no more answers.
const CLOSED_SPIN_NS: u64 = 2_000;
/// From the end of the preparations to the warm-up.
const LEAD_NS: u64 = 50_000;
/// A closed loop has no schedule to take the number of requests from; more per second than one
/// core can do.
const MOST_CLOSED_PER_S: f64 = 500_000.0;
/// The most requests recorded of a closed loop (1.1 GB); the window ends there.
const MOST_CLOSED: f64 = 64e6;

/// SIGTERM, SIGINT or the death of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// Counts of a window's measured part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Connections opened for the first time, before the measured part.
    pub connects: u64,
    /// Connections opened again before the measured part: the server had closed them.
    pub reopened: u64,
    /// Connections opened from the start of the measured part on.
    pub reconnects: u64,
    /// Requests written again, since the connection closed as they were written.
    pub retries: u64,
    /// Bytes received in the measured part.
    pub bytes_in: u64,
    /// Bytes sent in the measured part.
    pub bytes_out: u64,
    /// Good responses whose last byte came in the measured part, whenever they were intended.
    pub in_time: u64,
}

/// What a window gave, as it was measured.
#[derive(Debug)]
pub struct Raw {
    /// The requests intended in the measured part, in order.
    pub samples: Vec<Sample>,
    /// Counts.
    pub counts: Counts,
    /// Errors by kind.
    pub errors: Errors,
    /// Start of the measured part on the monotonic clock.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// The same start, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// The generator's own stalls.
    pub stalls: crate::stalls::Spans,
    /// CPU time of the generator's thread in the measured part.
    pub generator_cpu_ns: u64,
    /// CPU time of the server's processes in the measured part.
    pub server_cpu_s: Option<f64>,
    /// Share of the measured part in which the loop found something to do.
    pub busy_share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connect,
    WarmUp,
    Measure,
    Drain,
}

struct Engine<'a> {
    pool: &'a mut Pool,
    closed_loop: bool,
    spin: Spin,
    schedule: Schedule,
    record: Record,
    watch: Watch,
    counts: Counts,
    errors: Errors,
    buffer: Box<[u8]>,
    cpu: CpuTime,
    thread_cpu: u64,
    /// Time spent in turns that found nothing to do, and the end of the last turn.
    idle_ns: u64,
    idle_from: u64,
    busy_share: f64,
    timeout_ns: u64,
    phase: Phase,
    /// Start of the schedule (the warm-up), start and end of the measured part, end of the drain.
    origin: u64,
    start: u64,
    end: u64,
    drained: u64,
    /// The first request of the measured part.
    first: usize,
    /// The next request of the schedule, or the number of requests so far in a closed loop.
    next: usize,
    /// When it is due.
    due: u64,
    /// Requests lost to closing connections, to be written again to new ones: a server that closes
    /// one idle connection may be about to close the others.
    retries: VecDeque<u32>,
    /// Connections with more to read than one turn takes.
    hungry: VecDeque<u32>,
    next_mending: u64,
    /// When the last event was handled.
    active: u64,
}

/// Measure one window with its schedule.
///
/// # Errors
/// [`Interrupted`] inside; outside, what the system refused before the window began.
pub fn run(
    window: &Window,
    schedule: Schedule,
    spin: Spin,
    gap_ns: u64,
    pids: &[i32],
    pool: &mut Pool,
) -> io::Result<Result<Raw, Interrupted>> {
    let mut engine = Engine::new(window, schedule, spin, gap_ns, pids, pool)?;
    // The events live outside, so that handling one may borrow the engine.
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    engine.connect(window.connections, &mut events)?;
    engine.begin(window);
    while engine.turn(&mut events)? {
        if sys::stop_requested() {
            return Ok(Err(Interrupted));
        }
    }
    Ok(Ok(engine.finish()))
}

impl<'a> Engine<'a> {
    fn new(
        window: &Window,
        schedule: Schedule,
        spin: Spin,
        gap_ns: u64,
        pids: &[i32],
        pool: &'a mut Pool,
    ) -> io::Result<Self> {
        let closed_loop = window.mode == Mode::Closed;
        let record = if closed_loop {
            let seconds = window.warmup_s + window.duration_s;
            let capacity = (seconds * MOST_CLOSED_PER_S).clamp(1000.0, MOST_CLOSED);
            Record::new(capacity as usize, false)?
        } else {
            Record::new(schedule.intended_ns.len(), true)?
        };
        pool.resize(window.connections);
        Ok(Self {
            closed_loop,
            spin,
            first: schedule.first_measured,
            schedule,
            record,
            watch: Watch::new(gap_ns),
            counts: Counts::default(),
            errors: Errors::new(),
            buffer: vec![0; BUFFER].into(),
            cpu: CpuTime::of(pids),
            thread_cpu: 0,
            idle_ns: 0,
            idle_from: 0,
            busy_share: 0.0,
            timeout_ns: window.timeout_ns(),
            phase: Phase::Connect,
            origin: 0,
            start: 0,
            end: 0,
            drained: u64::MAX,
            next: 0,
            due: u64::MAX,
            retries: VecDeque::with_capacity(window.connections + 1),
            hungry: VecDeque::with_capacity(window.connections + 1),
            next_mending: 0,
            active: 0,
            pool,
        })
    }

    fn begin(&mut self, window: &Window) {
        self.origin = self.watch.tick() + LEAD_NS;
        self.watch.spans.list.clear();
        self.start = self.origin + window.warmup_ns();
        self.end = self.start + window.duration_ns();
        self.phase = Phase::WarmUp;
        self.plan_next();
    }

    /// One turn of the loop; false when the window is over.
    #[inline]
    fn turn(&mut self, events: &mut [libc::epoll_event]) -> io::Result<bool> {
        let mut now = self.watch.tick();
        let edge = match self.phase {
            Phase::Measure => self.end,
            Phase::Drain => self.drained,
            _ => self.start,
        };
        if now >= edge {
            if self.phase == Phase::Drain {
                return Ok(false);
            }
            now = self.cross(now);
        }
        if self.phase == Phase::Drain && self.settled() {
            return Ok(false);
        }
        let before = now;
        now = self.dispatch(now);
        let mut busy = now != before;
        while let Some(oldest) = self.pool.oldest() {
            if self.pool.connections[oldest as usize].exchange.written + self.timeout_ns > now {
                break;
            }
            self.give_up(oldest, now, Outcome::Timeout);
            busy = true;
        }
        if self.pool.mending() {
            busy |= self.mend(now);
        }
        for _ in 0..self.hungry.len() {
            let Some(i) = self.hungry.pop_front() else {
                break;
            };
            self.pool.connections[i as usize].hungry = false;
            now = self.watch.tick();
            self.receive(i, now, false);
            now = self.dispatch(now);
            busy = true;
        }
        self.poll(now, events, busy)?;
        Ok(true)
    }

    /// The measured part starts or ends.
    #[cold]
    fn cross(&mut self, now: u64) -> u64 {
        if self.phase == Phase::Measure {
            self.cpu.end();
            self.thread_cpu = sys::thread_cpu_ns() - self.thread_cpu;
            self.busy_share = 1.0 - self.idle_ns as f64 / (now - self.start) as f64;
            self.phase = Phase::Drain;
            self.drained = self.end.max(now) + self.timeout_ns;
            if self.closed_loop {
                self.due = u64::MAX;
            }
        } else {
            if self.closed_loop {
                self.first = self.next;
            }
            self.idle_ns = 0;
            self.phase = Phase::Measure;
            self.cpu.start();
            self.thread_cpu = sys::thread_cpu_ns();
        }
        self.watch.tick()
    }

    fn settled(&self) -> bool {
        let sent = self.closed_loop || self.next == self.record.capacity();
        sent && self.retries.is_empty() && self.pool.busy() == 0
    }

    /// When the next request of the schedule is due.
    #[inline]
    fn plan_next(&mut self) {
        self.due = if self.closed_loop {
            if self.next < self.record.capacity() {
                self.origin
            } else {
                // Memory for the record is used up: the window ends here.
                self.end = self.end.min(sys::now_ns()).max(self.start + 1);
                u64::MAX
            }
        } else {
            match self.schedule.intended_ns.get(self.next) {
                Some(ns) => self.origin + ns,
                None => u64::MAX,
            }
        };
    }

    /// Write every request that is due, as long as there are free connections.
    #[inline]
    fn dispatch(&mut self, mut now: u64) -> u64 {
        while self.due <= now {
            let pick = self.schedule.pick(self.next);
            let Some(i) = self.pool.take_free(pick) else {
                break;
            };
            let index = self.next as u32;
            self.next += 1;
            self.plan_next();
            self.send(i, index, false, now);
            now = self.watch.tick();
        }
        now
    }

    /// Wait for events and handle them. All answers of one poll are complete at the instant when
    /// the poll returned: what their handling takes is ours, not the server's.
    #[inline]
    fn poll(&mut self, now: u64, events: &mut [libc::epoll_event], busy: bool) -> io::Result<()> {
        let (wait, until) = self.wait(now, busy);
        let n = self.pool.epoll.wait(events, wait)?;
        let stamp = match wait {
            Wait::Poll => self.watch.tick(),
            Wait::Ns(_) => self.watch.woke(until),
        };
        if n == 0 && !busy {
            self.idle_ns += stamp - self.idle_from;
        } else if wait != Wait::Poll {
            self.idle_ns += stamp - now;
        }
        self.idle_from = stamp;
        if n > 0 {
            self.active = stamp;
        }
        for event in &events[..n] {
            self.handle(*event, stamp);
            let now = self.watch.tick();
            self.idle_from = now;
            if now >= self.due {
                self.idle_from = self.dispatch(now);
            }
        }
        Ok(())
    }

    /// How long to sleep, and until when.
    #[inline]
    fn wait(&self, now: u64, busy: bool) -> (Wait, u64) {
        let margin = match self.spin {
            Spin::Full if self.closed_loop => CLOSED_SPIN_NS,
            Spin::Full => return (Wait::Poll, now),
            Spin::Off => 0,
            Spin::LastUs(us) => us * 1000,
        };
        if self.closed_loop && now < self.active + margin {
            return (Wait::Poll, now);
        }
        if busy || !self.hungry.is_empty() {
            return (Wait::Poll, now);
        }
        let mut until = match self.phase {
            Phase::Measure => self.end,
            Phase::Drain => self.drained,
            _ => self.start,
        };
        if self.pool.has_free() {
            until = until.min(self.due.saturating_sub(margin));
        }
        if let Some(oldest) = self.pool.oldest() {
            let written = self.pool.connections[oldest as usize].exchange.written;
            until = until.min(written + self.timeout_ns);
        }
        if self.pool.mending() {
            until = until.min(now + MENDING_NS);
            until = until.min(self.pool.earliest_opening().unwrap_or(u64::MAX));
        }
        match until.checked_sub(now) {
            None | Some(0) => (Wait::Poll, now),
            Some(ns) => (Wait::Ns(ns), until),
        }
    }

    #[inline]
    fn handle(&mut self, event: libc::epoll_event, stamp: u64) {
        let (mask, token) = (event.events, event.u64);
        let Some(i) = self.pool.of_token(token) else {
            return;
        };
        let closing = mask & (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
        let readable = closing || mask & libc::EPOLLIN as u32 != 0;
        match self.pool.connections[i as usize].state {
            State::Connecting(_) => match self.pool.established(i, stamp) {
                Ok(before) => self.opened(i, before),
                Err(kind) => self.errors.add(kind),
            },
            State::Busy => {
                if readable {
                    self.receive(i, stamp, closing);
                }
                if mask & libc::EPOLLOUT as u32 != 0 {
                    self.write_rest(i, stamp);
                }
            }
            State::Idle if readable => {
                // The end of the stream, or bytes that nobody asked for (a 408, say). An event
                // whose bytes were read with an earlier one says neither.
                let connection = &self.pool.connections[i as usize];
                match connection.receive(&mut self.buffer[..1]) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    _ => self.pool.close(i, stamp, false),
                }
            }
            State::Idle | State::Closed(_) => {}
        }
    }

    fn finish(mut self) -> Raw {
        let now = self.watch.tick();
        while let Some(i) = self.pool.oldest() {
            self.give_up(i, now, Outcome::InFlight);
        }
        while let Some(index) = self.retries.pop_front() {
            if self.closed_loop {
                // Its first write is all that tells when it was intended.
                self.record.finish(index as usize, now, Outcome::InFlight);
            } else {
                self.record.unwrite(index as usize);
            }
        }
        let last = if self.closed_loop {
            self.next
        } else {
            self.record.capacity()
        };
        let intended = |index: usize| Some(self.origin + *self.schedule.intended_ns.get(index)?);
        let samples = (self.first..last)
            .map(|index| self.record.sample(index, intended(index), now))
            .collect();
        Raw {
            samples,
            counts: self.counts,
            errors: self.errors,
            start: self.start,
            end: self.end,
            started_unix_ns: sys::unix_ns() - (sys::now_ns() - self.start),
            stalls: self.watch.spans,
            generator_cpu_ns: self.thread_cpu,
            server_cpu_s: self.cpu.seconds(),
            busy_share: self.busy_share.max(0.0),
        }
    }
}
