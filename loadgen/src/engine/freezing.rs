//! The stopped instances of a window, and what each loop knows of them.

use std::sync::atomic::AtomicU64;

use crate::freeze::{Action, Freezer};
use crate::processes::Frozen;
use crate::sys;

/// Interval at which the loop shows the guardian that it lives.
const ALIVE_NS: u64 = 250_000_000;

/// The instances that one loop still has requests of, for the loop that stops them. Aligned so that
/// no two loops write to one pair of cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub struct Outstanding {
    /// End of the slice that it knows of.
    pub turn: AtomicU64,
    /// A bit for each instance.
    pub arms: AtomicU64,
}

impl Outstanding {
    pub fn new() -> Self {
        Self {
            turn: AtomicU64::new(0),
            arms: AtomicU64::new(u64::MAX),
        }
    }
}

/// The freezing of a window's instances, from its warm-up to its drain. On drop all of them run.
#[derive(Debug)]
pub struct Freezing<'a> {
    freezer: Freezer,
    frozen: &'a Frozen<'a>,
    /// True if instances may be stopped now.
    on: bool,
    /// The instance that could not be stopped.
    failed: Option<usize>,
}

impl<'a> Freezing<'a> {
    pub fn new(frozen: &'a Frozen<'a>) -> Self {
        Self {
            freezer: Freezer::new(frozen.arms.iter().map(Vec::len)),
            frozen,
            on: true,
            failed: None,
        }
    }

    /// Return for how long each instance was stopped, in nanoseconds, or the one that could not be.
    pub fn result(&self) -> Result<Vec<u64>, usize> {
        match self.failed {
            None => Ok(self.freezer.frozen_ns().collect()),
            Some(arm) => Err(arm),
        }
    }

    /// Pass the turn to an instance; at `ends` it passes to `next`.
    pub fn pass(&mut self, at_turn: usize, next: Option<usize>, ends: u64) {
        self.freezer.pass(at_turn, next, ends);
    }

    /// Send one signal, if there is one to send at this moment (see [`Freezer::order`]).
    pub fn step(&mut self, now: u64, idle: bool, outstanding: Option<u64>) {
        let next = || self.freezer.order(now, idle, outstanding);
        let Some(order) = self.on.then(next).flatten() else {
            return;
        };
        let process = self.frozen.arms[order.arm][order.process];
        let sent = match order.action {
            Action::Stop => process.stop(),
            Action::Resume => process.resume(),
        };
        if sent.is_err() {
            // All are frozen or none: the work of one that runs on would disturb the others only.
            self.failed = Some(order.arm);
            self.end(now);
        }
    }

    /// Return when to take the next step, and when a loop that sleeps has to wake up for it;
    /// `u64::MAX` if all instances run from now on.
    pub fn due(&self, now: u64, several_threads: bool) -> (u64, u64) {
        if !self.on {
            return (u64::MAX, u64::MAX);
        }
        self.frozen.guardian.put_off(now);
        let wake = self.freezer.wake(now, several_threads).min(now + ALIVE_NS);
        (if self.freezer.waits() { 0 } else { wake }, wake)
    }

    /// Continue all instances.
    pub fn end(&mut self, now: u64) {
        if std::mem::replace(&mut self.on, false) {
            self.freezer.end(now);
            for process in self.frozen.arms.iter().flatten() {
                // One that has ended needs nothing.
                let _ = process.resume();
            }
            self.frozen.guardian.relax();
        }
    }
}

impl Drop for Freezing<'_> {
    fn drop(&mut self) {
        self.end(sys::now_ns());
    }
}
