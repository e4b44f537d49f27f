//! Timers of connections: which protocol is to be called next, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NEVER: u64 = u64::MAX;

/// One alarm per connection.
///
/// Postponing a deadline, which most packets do, costs nothing: the alarm rings at the earlier
/// instant and is then set again.
#[derive(Debug, Default)]
pub struct Alarms {
    /// Instants and connections. Several entries of one connection may be queued; only the one in
    /// `set` counts.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    set: Vec<u64>,
}

impl Alarms {
    /// Create alarms for `n` connections, none of them set.
    pub fn new(n: usize) -> Self {
        Self {
            queue: BinaryHeap::with_capacity(2 * n),
            set: vec![NEVER; n],
        }
    }

    /// Call a connection at this instant, unless an earlier alarm is set.
    #[inline]
    pub fn set(&mut self, i: u32, deadline: Option<u64>) {
        if let Some(deadline) = deadline
            && let Some(set) = self.set.get_mut(i as usize)
            && deadline < *set
        {
            *set = deadline;
            self.queue.push(Reverse((deadline, i)));
        }
    }

    /// Return the instant before which no alarm rings.
    #[inline]
    pub fn next(&self) -> u64 {
        self.queue.peek().map_or(NEVER, |Reverse((at, _))| *at)
    }

    /// Return a connection whose alarm rings by `now`, and clear its alarm.
    pub fn ring(&mut self, now: u64) -> Option<u32> {
        while self.next() <= now {
            let Reverse((at, i)) = self.queue.pop()?;
            let set = &mut self.set[i as usize];
            if *set == at {
                *set = NEVER;
                return Some(i);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Alarms ring in order, once each, at the earliest instant they were set to.
    #[test]
    fn in_order() {
        let mut alarms = Alarms::new(3);
        assert_eq!(alarms.next(), NEVER);
        alarms.set(0, Some(30));
        alarms.set(1, Some(10));
        alarms.set(2, None);
        alarms.set(0, Some(20));
        alarms.set(0, Some(40));
        assert_eq!(alarms.next(), 10);
        assert_eq!(alarms.ring(9), None);
        assert_eq!(alarms.ring(25), Some(1));
        assert_eq!(alarms.ring(25), Some(0));
        assert_eq!(alarms.ring(1000), None);
        assert_eq!(alarms.next(), NEVER);
    }

    /// An alarm that rang can be set again, and earlier settings no longer ring.
    #[test]
    fn again() {
        let mut alarms = Alarms::new(1);
        alarms.set(0, Some(30));
        alarms.set(0, Some(20));
        assert_eq!(alarms.ring(20), Some(0));
        alarms.set(0, Some(50));
        assert_eq!(alarms.ring(40), None);
        assert_eq!(alarms.ring(50), Some(0));
        assert_eq!(alarms.ring(100), None);
    }
}
