//! Turns: the CPU time that each instance uses in its own slices, the freezing of the others, and the
//! halting of those that cannot keep up.

use std::sync::atomic::{AtomicU64, Ordering};

use super::event_loop::{Engine, Phase};
use super::ledger::Next;
use crate::backlog::Standing;
use crate::freeze::QUIET_NS;

impl Engine<'_> {
    /// Begin the turns of a window that several instances share.
    pub fn begin_turns(&mut self) {
        if self.cpu.len() > 1 {
            self.turns_due = 0;
            self.turn_ends = 0;
        }
    }

    /// Begin to count the instances' CPU time in their turns, at the start of the measured part.
    pub fn measure_turns(&mut self, now: u64) {
        if self.cpu.len() > 1 {
            self.pass_turn(now);
            self.turns_due = 0;
        }
    }

    /// End the turns, at the end of the measured part. No request that is still outstanding counts
    /// as undisturbed, so all instances may run.
    pub fn end_turns(&mut self, now: u64) {
        self.end_turn();
        self.halted = self.given_up;
        (self.turn_ends, self.turns_due, self.turns_wake) = (u64::MAX, u64::MAX, u64::MAX);
        if let Some(freezing) = &mut self.freezing {
            freezing.end(now);
        }
    }

    /// Pass the turn if its slice has ended, and stop and continue instances.
    #[cold]
    pub fn tend_turns(&mut self, mut now: u64) -> u64 {
        if now >= self.turn_ends {
            self.pass_turn(now);
        }
        (self.turns_due, self.turns_wake) = (self.turn_ends, self.turn_ends);
        let agenda = self.ledger.agenda;
        if !agenda.freezes {
            return now;
        }
        let own = self.outstanding(now);
        let several = agenda.outstanding.len() > 1;
        if several {
            let shared = &agenda.outstanding[self.place];
            shared.arms.store(own, Ordering::Relaxed);
            shared.turn.store(self.turn_ends, Ordering::Release);
            if own & !(1u64 << self.turn_of.0) != 0 {
                self.turns_due = 0;
            }
        }
        let next_request = self.due();
        let Some(freezing) = &mut self.freezing else {
            return now;
        };
        let mut others = agenda.outstanding.iter().enumerate();
        let outstanding = others.try_fold(own, |all, (place, other)| {
            // A thread in another slice may send requests to any instance.
            let same = other.turn.load(Ordering::Acquire) == self.turn_ends;
            let arms = other.arms.load(Ordering::Relaxed);
            match place == self.place {
                true => Some(all),
                false => same.then_some(all | arms),
            }
        });
        let idle = self.pool.slots.busy() == 0 && next_request.saturating_sub(now) > QUIET_NS;
        freezing.step(now, idle, outstanding);
        now = self.watch.tick();
        let (due, wake) = freezing.due(now, several);
        self.turns_due = self.turn_ends.min(due);
        self.turns_wake = self.turn_ends.min(wake);
        now
    }

    /// Pass the turn to the instance whose slice this is.
    fn pass_turn(&mut self, now: u64) {
        self.end_turn();
        if self.place == 0 {
            self.judge_backlog(now);
        }
        let agenda = self.ledger.agenda;
        let arm = agenda.arm_at(now);
        let counts = self.phase == Phase::Measure;
        let used = || self.cpu[arm].now_ns();
        self.turn_of = (arm, counts.then(used).flatten());
        self.turn_ends = agenda.turn_ends(now);
        self.halt();
        if let Some(freezing) = &mut self.freezing {
            let next = (self.turn_ends != u64::MAX).then(|| agenda.arm_at(self.turn_ends));
            freezing.pass(arm, next, self.turn_ends);
        }
    }

    /// Judge the backlog of the instance whose slice has ended.
    fn judge_backlog(&mut self, now: u64) {
        let agenda = self.ledger.agenda;
        // The loop may have missed slices in a stall.
        let slice = agenda.slice_before(now);
        let Some(slice) = slice.filter(|slice| slice.span.1 == self.turn_ends) else {
            return;
        };
        let book = &self.ledger.books[slice.arm];
        let own = self.pool.slots.busy_of(slice.arm) + book.waiting.len() + book.retries.len();
        // The other loops have as many of the claimed requests, or nearly.
        let left = own * agenda.outstanding.len() + slice.unclaimed;
        let standing = self
            .backlogs
            .note(slice.arm, slice.span, slice.offered, left);
        let bit = 1 << slice.arm;
        let mark = |bits: &AtomicU64, set: bool| match set {
            true => bits.fetch_or(bit, Ordering::Relaxed),
            false => bits.fetch_and(!bit, Ordering::Relaxed),
        };
        mark(&agenda.held, standing != Standing::KeepsUp);
        mark(&agenda.given_up, standing == Standing::GivenUp);
    }

    /// Halt the instances that were given up, and those that are held and not at turn.
    fn halt(&mut self) {
        let agenda = self.ledger.agenda;
        let given_up = agenda.given_up.load(Ordering::Relaxed);
        for arm in 0..self.ledger.books.len() {
            if (given_up & !self.given_up) & 1 << arm != 0 {
                self.ledger.forget(arm);
            }
        }
        self.given_up = given_up;
        self.halted = given_up | agenda.held.load(Ordering::Relaxed) & !(1 << self.turn_of.0);
    }

    /// Return whether an instance is sent nothing at present.
    #[inline]
    pub fn is_halted(&self, arm: usize) -> bool {
        self.halted & 1 << arm != 0
    }

    /// Return whether a request that cannot be sent holds up those after it: they are for the same
    /// instance, in its slice, or the request is of a closed loop, which waits for a slot.
    #[inline]
    pub fn blocks(&self, arm: usize) -> bool {
        let own = arm == self.turn_of.0 && !self.is_halted(arm);
        own || self.ledger.agenda.closed_loop
    }

    /// Put off a request until its instance can be sent it, so that it does not hold up those of the
    /// next slice. One for an instance that was given up is never sent.
    #[cold]
    pub fn put_off(&mut self, next: Next, now: u64) {
        let given_up = self.given_up & 1 << next.arm != 0;
        if let Some(index) = self.ledger.agenda.claim(next, now)
            && !given_up
        {
            self.ledger.put_off(next.arm, index);
        }
    }

    /// Add the CPU time of the turn that ends.
    fn end_turn(&mut self) {
        let (arm, before) = self.turn_of;
        if let Some(before) = before
            && let Some(after) = self.cpu[arm].now_ns()
        {
            self.in_turn[arm] += after.saturating_sub(before);
        }
    }

    /// Return a bit for each instance that this loop has requests or handshakes of, unless it is
    /// halted.
    fn outstanding(&self, now: u64) -> u64 {
        let books = self.ledger.books.iter().enumerate();
        let waiting = books
            .filter(|(_, book)| book.waits())
            .fold(0, |arms, (arm, _)| arms | 1 << arm);
        let late = self.ledger.agenda.late_arms(now);
        let all = waiting | late | self.pool.slots.busy_arms() | self.pool.connecting_arms();
        all & !self.halted
    }

    /// Return whether connections to an instance may be opened now. Handshakes are work of its own
    /// slices, a stopped instance would not answer, and one that is halted needs none.
    pub fn may_open(&self, arm: usize, now: u64) -> bool {
        let agenda = self.ledger.agenda;
        let turns = matches!(self.phase, Phase::WarmUp | Phase::Measure);
        if turns && self.is_halted(arm) {
            return false;
        }
        if !turns {
            return true;
        }
        let owed = self.ledger.books[arm].waits() || agenda.late_arms(now) & 1 << arm != 0;
        arm == self.turn_of.0 || owed
    }
}
