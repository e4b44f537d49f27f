//! Freezing: in a window of slices, the instances that are not at turn are stopped.
//!
//! A server may work when it is not its turn: collect garbage, flush logs, tend caches. The instance
//! at turn then has less of the core, and the ticker does not see it. A stopped process does its
//! work in its own slices, so each instance pays for its own.
//!
//! [`Freezer`] decides which process is to be stopped or continued next; the loop that sends the
//! requests carries it out. It is the only place that knows when the last answer has come, and no
//! other thread could do it without taking a core from the loop or from the server. A signal takes
//! some 5 to 40 µs, by the number of the process's threads. So the loop sends one at a time, at
//! moments at which it has nothing else to do, and waits for such a moment only briefly.

/// Time from the first signal that continues an instance to its slice. It covers the wait for an idle
/// moment, a turn of the loop (some 200 µs at most: 64 answers of 3 µs), and some 50 µs until the
/// server's threads run and have handled their expired timers.
pub const LEAD_NS: u64 = 300_000;
/// The longest wait for an idle moment, once the signal can be sent.
const PATIENCE_NS: u64 = 100_000;
/// A time without due requests in which a signal delays none.
pub const QUIET_NS: u64 = 50_000;
/// Interval at which a sleeping loop checks whether the other threads have their last answers.
const LOOK_NS: u64 = 200_000;

/// A change of a process's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stop it.
    Stop,
    /// Continue it.
    Resume,
}

/// One signal to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The instance's place among those of the window.
    pub arm: usize,
    /// The place of the process among the instance's own.
    pub process: usize,
    /// The change.
    pub action: Action,
}

/// One instance.
#[derive(Clone, Copy, Debug)]
struct Arm {
    processes: usize,
    /// The first so many of them are stopped.
    stopped: usize,
    /// True if it is at turn, or about to be.
    at_turn: bool,
    /// True if it has requests that are not answered.
    owes: bool,
    /// Since when the next signal could be sent; `None` while there is none to send.
    ready: Option<u64>,
    /// When all of its processes were stopped, and for how long in total before that.
    since: u64,
    frozen_ns: u64,
}

/// The order in which processes are stopped and continued.
#[derive(Debug)]
pub struct Freezer {
    arms: Vec<Arm>,
    /// The instance of the next slice, and when it is to be continued.
    next: Option<(usize, u64)>,
}

impl Freezer {
    /// Create it for instances with these numbers of processes. All of them run.
    pub fn new(processes: impl IntoIterator<Item = usize>) -> Self {
        let arm = |processes| Arm {
            processes,
            stopped: 0,
            at_turn: true,
            owes: false,
            ready: None,
            since: 0,
            frozen_ns: 0,
        };
        Self {
            arms: processes.into_iter().map(arm).collect(),
            next: None,
        }
    }

    /// Pass the turn to an instance; at `ends` it passes to `next`.
    pub fn pass(&mut self, at_turn: usize, next: Option<usize>, ends: u64) {
        for (place, arm) in self.arms.iter_mut().enumerate() {
            arm.at_turn = place == at_turn;
            if arm.at_turn {
                // If it is not continued yet, there is no time to wait for a good moment.
                arm.ready = Some(0);
            }
        }
        let next = next.filter(|next| *next != at_turn);
        self.next = next.map(|next| (next, ends.saturating_sub(LEAD_NS)));
    }

    /// Return the next signal to send, if there is one and this is a good moment.
    ///
    /// `outstanding` has a bit for each instance that has requests; `None`: that is not known, and
    /// none may be stopped. `idle` says whether a signal would delay no request.
    pub fn order(&mut self, now: u64, idle: bool, outstanding: Option<u64>) -> Option<Order> {
        if let Some((next, at)) = self.next
            && now >= at
        {
            self.arms[next].at_turn = true;
            self.next = None;
        }
        for (place, arm) in self.arms.iter_mut().enumerate() {
            arm.owes = outstanding.map_or(arm.owes, |bits| bits & 1 << place != 0);
            let known = outstanding.is_some() || arm.runs_on();
            if !arm.waits() || !known {
                arm.ready = None;
            } else {
                arm.ready.get_or_insert(now);
            }
        }
        let good = |arm: &Arm| {
            let ready = arm.ready.filter(|_| arm.waits());
            ready.is_some_and(|ready| idle || now >= ready + PATIENCE_NS)
        };
        // Instances to be continued come first: their slice is near.
        let arms = || (0..self.arms.len()).filter(|place| good(&self.arms[*place]));
        let first = arms().find(|place| self.arms[*place].runs_on());
        let place = first.or_else(|| arms().next())?;
        let arm = &mut self.arms[place];
        let all = arm.processes;
        let (process, action) = if arm.runs_on() {
            if arm.stopped == all {
                arm.frozen_ns += now.saturating_sub(arm.since);
            }
            arm.stopped -= 1;
            (arm.stopped, Action::Resume)
        } else {
            arm.stopped += 1;
            arm.since = now;
            (arm.stopped - 1, Action::Stop)
        };
        Some(Order {
            arm: place,
            process,
            action,
        })
    }

    /// Return whether signals wait for the last answers or for an idle moment.
    pub fn waits(&self) -> bool {
        self.arms.iter().any(|arm| arm.waits() || arm.owes_late())
    }

    /// Return when a loop that sleeps has to look again, if no answer comes before.
    pub fn wake(&self, now: u64, several_threads: bool) -> u64 {
        let look = if several_threads {
            now + LOOK_NS
        } else {
            u64::MAX
        };
        let waiting = self
            .arms
            .iter()
            .filter(|arm| arm.waits() || arm.owes_late());
        let arms = waiting.map(|arm| arm.ready.map_or(look, |ready| ready + PATIENCE_NS));
        let next = self.next.map(|(_, at)| at);
        arms.chain(next).min().unwrap_or(u64::MAX)
    }

    /// Note that all instances have been continued.
    pub fn end(&mut self, now: u64) {
        self.next = None;
        for arm in &mut self.arms {
            if arm.stopped == arm.processes {
                arm.frozen_ns += now.saturating_sub(arm.since);
            }
            arm.stopped = 0;
            arm.at_turn = true;
        }
    }

    /// Return the time for which each instance was stopped, in nanoseconds.
    pub fn frozen_ns(&self) -> impl Iterator<Item = u64> {
        self.arms.iter().map(|arm| arm.frozen_ns)
    }
}

impl Arm {
    /// Return whether it has to run: it is at turn, or owes an answer.
    fn runs_on(&self) -> bool {
        self.at_turn || self.owes
    }

    /// Return whether it owes an answer after its slice.
    fn owes_late(&self) -> bool {
        self.owes && !self.at_turn
    }

    /// Return whether there is a signal to send.
    fn waits(&self) -> bool {
        if self.runs_on() {
            self.stopped > 0
        } else {
            self.stopped < self.processes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn signals(freezer: &mut Freezer, now: u64, idle: bool, outstanding: u64) -> Vec<Order> {
        std::iter::from_fn(|| freezer.order(now, idle, Some(outstanding))).collect()
    }

    fn order(arm: usize, process: usize, action: Action) -> Order {
        Order {
            arm,
            process,
            action,
        }
    }

    /// An instance is stopped after its slice once its last answer has come, the first process first,
    /// and continued in the reverse order before its next slice.
    #[test]
    fn an_instance_runs_in_its_own_slices() {
        let mut freezer = Freezer::new([2, 1]);
        freezer.pass(0, Some(1), 20 * MS);
        assert_eq!(
            signals(&mut freezer, 0, true, 0),
            [order(1, 0, Action::Stop)]
        );
        assert!(!freezer.waits());
        assert_eq!(freezer.wake(0, false), 20 * MS - LEAD_NS);
        let early = 20 * MS - LEAD_NS - 1;
        assert_eq!(signals(&mut freezer, early, true, 0b01), []);
        let resumed = [order(1, 0, Action::Resume)];
        assert_eq!(signals(&mut freezer, early + 1, true, 0b01), resumed);
        freezer.pass(1, Some(0), 40 * MS);
        assert_eq!(signals(&mut freezer, 20 * MS, true, 0b01), []);
        let stopped = [order(0, 0, Action::Stop), order(0, 1, Action::Stop)];
        assert_eq!(signals(&mut freezer, 21 * MS, true, 0b10), stopped);
        let resumed = [order(0, 1, Action::Resume), order(0, 0, Action::Resume)];
        assert_eq!(
            signals(&mut freezer, 40 * MS - LEAD_NS, true, 0b10),
            resumed
        );
        freezer.pass(0, None, u64::MAX);
        assert_eq!(signals(&mut freezer, 41 * MS, true, 0).len(), 1);
        freezer.end(50 * MS);
        let frozen: Vec<u64> = freezer.frozen_ns().collect();
        assert_eq!(frozen, [19 * MS - LEAD_NS, 29 * MS - LEAD_NS]);
    }

    /// An instance with an unanswered request runs on through the slices of the others.
    #[test]
    fn an_unanswered_request_keeps_its_instance_running() {
        let mut freezer = Freezer::new([1, 1, 1]);
        freezer.pass(0, Some(1), 20 * MS);
        assert_eq!(
            signals(&mut freezer, 0, true, 0b100),
            [order(1, 0, Action::Stop)]
        );
        assert!(freezer.waits());
        assert_eq!(freezer.wake(0, false), 20 * MS - LEAD_NS);
        assert_eq!(freezer.wake(0, true), LOOK_NS);
        assert_eq!(signals(&mut freezer, 10 * MS, true, 0b100), []);
        let stopped = [order(2, 0, Action::Stop)];
        assert_eq!(signals(&mut freezer, 11 * MS, true, 0), stopped);
    }

    /// Without an idle moment, a signal is sent after a short wait; one that is overdue, at once.
    #[test]
    fn a_busy_loop_waits_briefly() {
        let mut freezer = Freezer::new([1, 1]);
        freezer.pass(0, Some(1), 20 * MS);
        assert_eq!(signals(&mut freezer, MS, false, 0), []);
        assert_eq!(freezer.wake(MS, false), MS + PATIENCE_NS);
        assert_eq!(signals(&mut freezer, MS + PATIENCE_NS, false, 0).len(), 1);
        let resume = 20 * MS - LEAD_NS;
        assert_eq!(signals(&mut freezer, resume, false, 0), []);
        freezer.pass(1, None, u64::MAX);
        assert_eq!(signals(&mut freezer, 20 * MS, false, 0).len(), 1);
    }

    /// A request that is late for its slice, after a stall of the generator, continues its instance.
    #[test]
    fn a_late_request_continues_its_instance() {
        let mut freezer = Freezer::new([1, 1, 1]);
        freezer.pass(0, Some(1), 20 * MS);
        assert_eq!(signals(&mut freezer, 0, true, 0).len(), 2);
        freezer.pass(2, Some(1), 60 * MS);
        let late = signals(&mut freezer, 45 * MS, true, 0b011);
        assert_eq!(
            late,
            [order(1, 0, Action::Resume), order(2, 0, Action::Resume)]
        );
        let answered = signals(&mut freezer, 46 * MS, true, 0);
        assert_eq!(
            answered,
            [order(0, 0, Action::Stop), order(1, 0, Action::Stop)]
        );
    }

    /// None is stopped while it is not known which instances have requests.
    #[test]
    fn what_is_not_known_stops_nobody() {
        let mut freezer = Freezer::new([1, 1]);
        freezer.pass(0, Some(1), 20 * MS);
        assert_eq!(freezer.order(MS, true, None), None);
        assert!(freezer.waits());
        assert_eq!(freezer.wake(MS, true), MS + LOOK_NS);
        assert_eq!(
            freezer.order(2 * MS, true, Some(0)),
            Some(order(1, 0, Action::Stop))
        );
        let resumed = Some(order(1, 0, Action::Resume));
        assert_eq!(freezer.order(20 * MS - LEAD_NS, true, None), resumed);
    }

    /// An instance with two slices in a row is not stopped between them.
    #[test]
    fn two_slices_in_a_row_are_one() {
        let mut freezer = Freezer::new([1, 1]);
        freezer.pass(0, Some(0), 20 * MS);
        assert_eq!(signals(&mut freezer, 0, true, 0).len(), 1);
        assert_eq!(signals(&mut freezer, 20 * MS, true, 0), []);
        freezer.pass(0, Some(1), 40 * MS);
        assert_eq!(signals(&mut freezer, 20 * MS, true, 0), []);
        assert_eq!(freezer.wake(20 * MS, false), 40 * MS - LEAD_NS);
    }
}
