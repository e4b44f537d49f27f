//! The loop that sends and receives: one epoll set and one window, one such loop on each CPU.
//!
//! All memory is allocated before the window starts. During it, the loop takes no lock, opens no
//! file, and allocates only for what a well-behaved server never sends. Each turn reads the clock,
//! writes the requests that are due, reopens connections, and polls. Due requests are also written
//! between the events of one poll, so a burst of answers delays no request.

use std::collections::VecDeque;
use std::io;

use super::freezing::Freezing;
use super::ledger::{Agenda, Ledger};
use crate::backlog::Backlogs;
use crate::plan::{Spin, Window};
use crate::pool::{Pool, State};
use crate::record::Outcome;
use crate::resources::CpuTime;
use crate::stalls::Watch;
use crate::sys::{self, Wait};

/// Events per poll: few, so that the instant of the poll is accurate for all of them.
pub const EVENTS: usize = 64;
/// Interval at which a sleeping loop checks handshakes.
pub const REOPENING_NS: u64 = 10_000_000;
/// Time that a closed loop polls after the last answer before it sleeps. A closed loop cannot be
/// late, so it may sleep. But each answer that wakes it costs the server's core some 4 µs, a third
/// of what Nginx needs for a small file. So where answers come faster than a wake-up costs, the
/// loop polls this long.
const CLOSED_SPIN_NS: u64 = 20_000;
/// Bounds of a nap. With many requests queued at the server, the loop need not poll either: it
/// sleeps on the clock, so that no answer has to wake it, and then reads several answers at once. A
/// shorter nap costs more than it saves; a longer one lets the server run dry. With 32 connections
/// to Nginx: 1.17 times wrk's requests/s at 0.81 times its CPU time per request
/// (benchmarks/closed_loop.py); polling alone took 1.18 times.
const SHORTEST_NAP_NS: u64 = 15_000;
const LONGEST_NAP_NS: u64 = 50_000;
/// The mean time between answers up to which polling costs no more than sleeping and waking.
const WORTH_NS: u64 = 10_000;
/// Time by which answers arrive sooner if the server does not have to wake the client.
const WAKING_NS: u64 = 4_000;
/// Number of answers that the mean covers.
const PACE_OVER: u64 = 64;
/// Upper limit of one value of the mean, so that a stall does not count as a pace.
const SLOWEST_PACE_NS: u64 = 40_000;

/// The longest time that an answer stays unread in a loop that reads late, unless the interval at
/// which requests are sent together is longer.
const LATEST_NS: u64 = 2_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Connect,
    WarmUp,
    Measure,
    Drain,
}

pub struct Engine<'a> {
    pub pool: &'a mut Pool,
    pub ledger: Ledger<'a>,
    pub watch: Watch,
    pub spin: Spin,
    pub buffer: Box<[u8]>,
    /// CPU time of each instance's processes.
    pub cpu: Vec<CpuTime>,
    /// CPU time that each instance used while it was its turn.
    pub in_turn: Vec<u64>,
    /// The instance at turn, the CPU time of its processes when its turn began, and when it ends.
    pub turn_of: (usize, Option<u64>),
    pub turn_ends: u64,
    /// When the turns have to be tended, and when a loop that sleeps has to wake up for it;
    /// `u64::MAX` with one instance.
    pub turns_due: u64,
    pub turns_wake: u64,
    /// The backlogs of the instances; only the first loop's are used.
    pub backlogs: Backlogs,
    /// A bit for each instance that is sent nothing at present, and for each that was given up.
    pub halted: u64,
    pub given_up: u64,
    /// The instances that are stopped when it is not their turn; in the first loop only.
    pub freezing: Option<Freezing<'a>>,
    /// The place of this loop among those of the window.
    pub place: usize,
    pub thread_cpu: u64,
    /// Time spent in turns without work, and the end of the last turn.
    pub idle_ns: u64,
    pub idle_from: u64,
    pub busy_share: f64,
    pub timeout_ns: u64,
    pub requests_per_connection: Option<u64>,
    pub phase: Phase,
    /// End of the drain.
    pub drained: u64,
    /// Connections with more to read than one turn reads.
    pub pending_reads: VecDeque<u32>,
    pub next_reopening: u64,
    /// True if every answer so far was small and arrived in one piece.
    pub small_answers: bool,
    /// True if the last poll returned the maximum number of events.
    pub more_events: bool,
    /// The longest time that an answer stays unread if the loop reads late.
    pub latest_ns: u64,
    /// When the last event was handled.
    pub active: u64,
    /// Mean time between answers, and whether a closed loop polls because it is short.
    pub pace_ns: u64,
    pub polls: bool,
}

impl<'a> Engine<'a> {
    pub fn new(
        window: &Window,
        agenda: &'a Agenda,
        spin: Spin,
        gap_ns: u64,
        pids: &[&[i32]],
        pool: &'a mut Pool,
    ) -> Self {
        let (arms, connections) = (pool.targets.len(), pool.each());
        let mut buffer = vec![0; pool.buffer_bytes()].into_boxed_slice();
        pool.prepare(window.streams, &mut buffer);
        Self {
            ledger: Ledger::new(agenda, arms, connections * window.streams as usize),
            watch: Watch::new(gap_ns),
            spin,
            buffer,
            cpu: pids.iter().map(|pids| CpuTime::of(pids)).collect(),
            in_turn: vec![0; pids.len()],
            turn_of: (0, None),
            turn_ends: u64::MAX,
            turns_due: u64::MAX,
            turns_wake: u64::MAX,
            backlogs: Backlogs::new(arms),
            halted: 0,
            given_up: 0,
            freezing: None,
            place: 0,
            thread_cpu: 0,
            idle_ns: 0,
            idle_from: 0,
            busy_share: 0.0,
            timeout_ns: window.timeout_ns(),
            requests_per_connection: window.requests_per_connection,
            phase: Phase::Connect,
            drained: u64::MAX,
            pending_reads: VecDeque::with_capacity(connections + 1),
            next_reopening: 0,
            small_answers: true,
            more_events: false,
            latest_ns: spin
                .every_ns()
                .map_or(LATEST_NS, |every| every.max(LATEST_NS)),
            active: 0,
            pace_ns: SLOWEST_PACE_NS,
            polls: false,
            pool,
        }
    }

    pub fn begin(&mut self) {
        self.watch.tick();
        self.watch.spans.list.clear();
        self.phase = Phase::WarmUp;
        self.begin_turns();
    }

    /// Return when the next request is due.
    #[inline]
    pub fn due(&self) -> u64 {
        let agenda = self.ledger.agenda;
        if agenda.closed_loop && self.phase == Phase::Drain {
            return u64::MAX;
        }
        agenda.due()
    }

    /// Return when the phase ends.
    #[inline]
    fn edge(&self) -> u64 {
        match self.phase {
            Phase::Measure => self.ledger.agenda.end(),
            Phase::Drain => self.drained,
            _ => self.ledger.agenda.start(),
        }
    }

    /// Run one turn of the loop; return false when the window is over.
    #[inline]
    pub fn turn(&mut self, events: &mut [libc::epoll_event]) -> io::Result<bool> {
        let mut now = self.watch.tick();
        if now >= self.edge() {
            if self.phase == Phase::Drain {
                return Ok(false);
            }
            now = self.cross(now);
        }
        if now >= self.turns_due {
            now = self.tend_turns(now);
        }
        if self.phase == Phase::Drain && self.settled() {
            return Ok(false);
        }
        let before = now;
        now = self.dispatch(now);
        let mut busy = now != before;
        while let Some((oldest, dispatched)) = self.pool.slots.oldest() {
            if dispatched + self.timeout_ns > now {
                break;
            }
            self.give_up(oldest, now, Outcome::Timeout);
            busy = true;
        }
        if now >= self.pool.alarms.next() {
            self.alarms(now);
        }
        if self.pool.reconnecting() {
            busy |= self.reopen(now);
        }
        for _ in 0..self.pending_reads.len() {
            let Some(i) = self.pending_reads.pop_front() else {
                break;
            };
            self.pool.connections[i as usize].read_pending = false;
            now = self.watch.tick();
            // The event that started this read may also have reported the end of the stream.
            self.receive(i, now, true);
            now = self.dispatch(now);
            busy = true;
        }
        self.poll(now, events, busy)?;
        Ok(true)
    }

    /// Start or end the measured part.
    #[cold]
    fn cross(&mut self, now: u64) -> u64 {
        if self.phase == Phase::Measure {
            self.end_turns(now);
            self.cpu.iter_mut().for_each(CpuTime::end);
            self.thread_cpu = sys::thread_cpu_ns() - self.thread_cpu;
            let agenda = self.ledger.agenda;
            self.busy_share = 1.0 - self.idle_ns as f64 / (now - agenda.start()) as f64;
            self.phase = Phase::Drain;
            self.drained = agenda.end().max(now) + self.timeout_ns;
        } else {
            self.idle_ns = 0;
            self.phase = Phase::Measure;
            self.cpu.iter_mut().for_each(CpuTime::start);
            self.thread_cpu = sys::thread_cpu_ns();
            self.measure_turns(now);
        }
        self.ledger.measuring = self.phase == Phase::Measure;
        self.watch.tick()
    }

    /// Handle a signal to stop; return whether the window continues until the open requests are
    /// answered. A second signal ends that wait.
    #[cold]
    pub fn stop(&mut self) -> bool {
        let goes_on = self.ledger.agenda.cut_short(self.watch.tick());
        if self.phase == Phase::Drain && sys::stops_requested() > 1 {
            self.drained = 0;
        }
        goes_on
    }

    fn settled(&self) -> bool {
        let agenda = self.ledger.agenda;
        let sent = agenda.closed_loop || agenda.exhausted();
        let waiting = self.ledger.waits();
        sent && !waiting && self.pool.slots.busy() == 0
    }

    /// Write every request that is due, as long as there are free slots.
    #[inline]
    pub fn dispatch(&mut self, mut now: u64) -> u64 {
        let agenda = self.ledger.agenda;
        for arm in 0..self.ledger.books.len() {
            if !self.ledger.books[arm].waiting.is_empty() && !self.is_halted(arm) {
                now = self.dispatch_waiting(arm, now);
            }
        }
        while self.due() <= now {
            let next = agenda.next(now);
            let slot = if self.is_halted(next.arm) {
                None
            } else {
                self.pool.slots.choose(next.pick, next.arm)
            };
            match slot {
                // Otherwise another thread has claimed it.
                Some(slot) => {
                    if let Some(index) = agenda.claim(next, now) {
                        self.send(slot, index, false, now);
                        now = self.watch.tick();
                    }
                }
                None if self.blocks(next.arm) => break,
                None => self.put_off(next, now),
            }
        }
        now
    }

    /// Write requests that wait for a slot before those that are newly due.
    #[cold]
    fn dispatch_waiting(&mut self, arm: usize, mut now: u64) -> u64 {
        while !self.ledger.books[arm].waiting.is_empty()
            && let pick = self.ledger.agenda.next(now).pick
            && let Some(slot) = self.pool.slots.choose(pick, arm)
            && let Some(waiting) = self.ledger.books[arm].waiting.pop_front()
        {
            self.send(slot, waiting.index, waiting.refused, now);
            now = self.watch.tick();
        }
        now
    }

    /// Wait for events and handle them. All answers of one poll count as complete at the instant at
    /// which the poll returned: the time to process them is the generator's, not the server's.
    #[inline]
    fn poll(&mut self, now: u64, events: &mut [libc::epoll_event], busy: bool) -> io::Result<()> {
        let (mut wait, until) = self.wait(now);
        let mut now = now;
        if let Wait::Ns(ns) = wait
            && ns <= self.latest_ns
            && self.reads_late()
        {
            sys::sleep_until(until);
            let woke = self.watch.woke(until);
            self.idle_ns += woke - now;
            now = self.dispatch(woke);
            self.idle_from = now;
            wait = Wait::Poll;
        }
        if let Some(ns) = self.nap_ns() {
            sys::sleep_until(now + ns);
            let woke = self.watch.woke(now + ns);
            self.idle_ns += woke - now;
            now = woke;
            self.idle_from = now;
            wait = Wait::Poll;
        }
        let n = self.pool.epoll.wait(events, wait)?;
        self.more_events = n == events.len();
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
            self.keep_pace(n as u64, stamp);
        }
        for event in &events[..n] {
            self.handle(*event, stamp);
            let now = self.watch.tick();
            self.idle_from = now;
            if now >= self.due() {
                self.idle_from = self.dispatch(now);
            }
        }
        Ok(())
    }

    /// Return how long a closed loop may sleep without being woken by answers: a quarter of the
    /// time for which the server has enough requests.
    #[inline]
    fn nap_ns(&self) -> Option<u64> {
        if !self.polls || !self.ledger.agenda.closed_loop || self.spin != Spin::Full {
            return None;
        }
        let queued_ns = self.pool.slots.busy() as u64 * self.pace_ns;
        let ns = (queued_ns / 4).min(LONGEST_NAP_NS);
        (ns >= SHORTEST_NAP_NS && !self.more_events && self.phase != Phase::Drain).then_some(ns)
    }

    /// Update the mean time between answers after `n` events.
    #[inline]
    fn keep_pace(&mut self, n: u64, stamp: u64) {
        let took = ((stamp - self.active) / n).min(SLOWEST_PACE_NS);
        let weight = n.min(PACE_OVER);
        self.pace_ns = (self.pace_ns * (PACE_OVER - weight) + took * weight) / PACE_OVER;
        let worth = WORTH_NS + if self.polls { 0 } else { WAKING_NS };
        self.polls = self.pace_ns <= worth;
        self.active = stamp;
    }

    /// Return whether a short sleep may outlast an answer: the loop then reads it when the next
    /// request is due, and the kernel's timestamp says when it arrived. This halves the wake-ups of
    /// a sleeping loop, and none is charged to the server.
    #[inline]
    fn reads_late(&self) -> bool {
        matches!(self.spin, Spin::Off | Spin::EveryUs(_))
            && self.small_answers
            && !self.more_events
            && matches!(self.phase, Phase::WarmUp | Phase::Measure)
            && !self.ledger.agenda.closed_loop
            && self.pool.may_read_late()
            && self.pool.slots.has_free()
            && !self.pool.reconnecting()
    }

    /// Return how long to sleep, and until when.
    #[inline]
    fn wait(&self, now: u64) -> (Wait, u64) {
        let closed_loop = self.ledger.agenda.closed_loop;
        let margin = match self.spin {
            Spin::Full if closed_loop && self.polls => CLOSED_SPIN_NS,
            Spin::Full if closed_loop => 0,
            Spin::Full => return (Wait::Poll, now),
            Spin::Off | Spin::EveryUs(_) => 0,
            Spin::LastUs(us) => us * 1000,
        };
        if closed_loop && now < self.active + margin {
            return (Wait::Poll, now);
        }
        if !self.pending_reads.is_empty() {
            return (Wait::Poll, now);
        }
        let mut until = self
            .edge()
            .min(self.pool.alarms.next())
            .min(self.turns_wake);
        if self.pool.slots.has_free() {
            until = until.min(self.due().saturating_sub(margin));
        }
        if let Some((_, dispatched)) = self.pool.slots.oldest() {
            until = until.min(dispatched + self.timeout_ns);
        }
        if self.pool.reconnecting() {
            until = until.min(now + REOPENING_NS);
            let opening = self.pool.earliest_opening(|arm| self.may_open(arm, now));
            until = until.min(opening.unwrap_or(u64::MAX));
        }
        match until.checked_sub(now) {
            None | Some(0) => (Wait::Poll, now),
            Some(ns) => (Wait::Ns(ns), until),
        }
    }

    /// Handle one event.
    #[inline]
    pub fn handle(&mut self, event: libc::epoll_event, stamp: u64) {
        let (mask, token) = (event.events, event.u64);
        let Some(i) = self.pool.connection_of(token) else {
            return;
        };
        if let State::Connecting(..) = self.pool.connections[i as usize].state {
            return self.establish(i, stamp);
        }
        let closing = mask & (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0;
        if closing || mask & libc::EPOLLIN as u32 != 0 {
            self.receive(i, stamp, closing);
        }
        if mask & libc::EPOLLOUT as u32 != 0 {
            self.write_rest(i, stamp);
        }
    }
}
