//! Backlogs: in a window of slices, an instance that cannot keep up with the load is given up.
//!
//! Its requests pile up, and it serves them in the slices of the others. These then fall behind as
//! well, and a comparison of many instances ends without a figure because of one. So an instance that
//! leaves more at the end of its slices than the others is first held: it works in its own slices
//! only. All then have their slices to themselves, and the others work off what they were set back
//! by. If its backlog grows even so, it gets no more requests in this window.
//!
//! The host may stop all instances at once. Their backlogs then grow together, and the instance that
//! had the last slice has the largest one. So an instance is late only if both of its last two slices
//! left more requests than a slice of another instance between them. Their numbers of arrivals differ
//! by chance, so such a difference does not count either.

/// The excess over the others that is a backlog, as a share of a slice's requests.
const BACKLOG: f64 = 0.25;
/// The excess that is chance, in standard deviations of the difference of two Poisson counts, each of
/// which has the backlog of the others as its mean. That difference is a random walk: in long stalls
/// it passed 3 in 11 of 2,000, and 0 in nearly all.
const CHANCE: f64 = 4.0;
/// Slices in a row with a backlog after which an instance is held. A stall of the host at the end of a
/// slice leaves a backlog too, but rarely in several slices of one instance in a row.
const HELD_AFTER: u32 = 3;
/// Growth of the backlog of a held instance at which it is given up. At 70 % of its capacity, a server
/// works off 0.43 in each slice of its own.
const GIVEN_UP_AT: f64 = 0.5;
/// Slices after which an instance is released if its backlog neither grows nor is worked off: its
/// answers take long, and it keeps up.
const RELEASED_AFTER: u32 = 8;
/// Fewer requests are a queue: at 80 % of the capacity, a queue is longer in 3 % of all
/// moments (M/M/1).
const LEAST: usize = 16;

/// A decision about an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The instance keeps up with the load.
    KeepsUp,
    /// The instance works in its own slices only.
    Held,
    /// The instance gets no more requests.
    GivenUp,
}

/// The state of one instance.
#[derive(Clone, Copy, Debug, Default)]
struct Arm {
    /// The requests that its last slice left; `None` before its first slice.
    left: Option<usize>,
    /// The number of its last slice among all slices of the window, from 1; 0 before its first one.
    last: u64,
    /// Slices in a row with a backlog, and the start of the first of them.
    slices: u32,
    since: u64,
    /// Its backlog when it was held; `None` while it runs freely.
    held: Option<usize>,
    /// True if it was held and kept up: its answers take long.
    exempt: bool,
    /// When it was given up.
    until: Option<u64>,
}

impl Arm {
    /// Return how it stood after its last slice.
    fn standing(&self) -> Standing {
        if self.held.is_some() {
            Standing::Held
        } else {
            Standing::KeepsUp
        }
    }
}

/// The backlogs of all instances.
#[derive(Debug)]
pub struct Backlogs {
    arms: Vec<Arm>,
    /// The slices that have ended.
    ended: u64,
}

impl Backlogs {
    /// Create it for this number of instances, which keep up.
    pub fn new(arms: usize) -> Self {
        Self {
            arms: vec![Arm::default(); arms],
            ended: 0,
        }
    }

    /// Note the end of an instance's slice: `offered` of its requests were due in it, and `left` of
    /// its requests are not answered. Return how it stands from now on.
    pub fn note(
        &mut self,
        arm: usize,
        (begun, ended): (u64, u64),
        offered: usize,
        left: usize,
    ) -> Standing {
        self.ended += 1;
        let last = std::mem::replace(&mut self.arms[arm].last, self.ended);
        let before = self.arms[arm].left.replace(left);
        let others = self.least_of_others(arm, last);
        let arm = &mut self.arms[arm];
        if arm.until.is_some() {
            return Standing::GivenUp;
        }
        let (Some(before), Some(others)) = (before, others) else {
            return arm.standing();
        };
        let due = |share: f64| share * offered as f64;
        let chance = CHANCE * ((2 * others) as f64).sqrt();
        let late = before.min(left) as f64 >= others as f64 + due(BACKLOG) + chance;
        if !late || left < LEAST || arm.exempt {
            (arm.slices, arm.held) = (0, None);
            return Standing::KeepsUp;
        }
        if arm.slices == 0 {
            arm.since = begun;
        }
        arm.slices += 1;
        match arm.held {
            None if arm.slices < HELD_AFTER => Standing::KeepsUp,
            None => {
                arm.held = Some(left);
                Standing::Held
            }
            Some(at) if left as f64 >= at as f64 + due(GIVEN_UP_AT) => {
                arm.until = Some(ended);
                Standing::GivenUp
            }
            Some(at) => {
                let released = arm.slices >= HELD_AFTER + RELEASED_AFTER;
                arm.exempt = released && left as f64 > at as f64 - due(BACKLOG);
                if arm.exempt {
                    Standing::KeepsUp
                } else {
                    Standing::Held
                }
            }
        }
    }

    /// Return the least that another instance left in a slice after this one; `None` if none of them
    /// has had one. An instance that was given up leaves nothing, and does not count.
    fn least_of_others(&self, arm: usize, after: u64) -> Option<usize> {
        let others = self.arms.iter().enumerate();
        others
            .filter(|(place, other)| *place != arm && other.until.is_none() && other.last > after)
            .filter_map(|(_, other)| other.left)
            .min()
    }

    /// Return the time in which each instance fell behind until it was given up; `None` of those that
    /// were not.
    pub fn spans(&self) -> Vec<Option<(u64, u64)>> {
        let span = |arm: &Arm| Some((arm.since, arm.until?));
        self.arms.iter().map(span).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Standing::*;
    use super::*;
    use crate::rng::Rng;

    /// Note slices of 20 ms with 100 requests each in turn, where the other instance leaves `other`.
    fn standings(other: usize, left: &[usize]) -> (Vec<Standing>, Option<(u64, u64)>) {
        let mut backlogs = Backlogs::new(2);
        let slices = (0..).step_by(40).zip(left);
        let standings = slices
            .map(|(begun, left)| {
                let slice = (begun, begun + 20);
                assert_eq!(backlogs.note(0, slice, 100, other), KeepsUp);
                backlogs.note(1, slice, 100, *left)
            })
            .collect();
        let spans = backlogs.spans();
        assert_eq!(spans[0], None);
        (standings, spans[1])
    }

    /// An instance above its capacity is held and then given up, and stays so.
    #[test]
    fn a_backlog_that_grows_is_given_up() {
        let (standings, span) = standings(5, &[10, 50, 50, 50, 55, 80, 110, 0]);
        let expected = [
            KeepsUp, KeepsUp, KeepsUp, KeepsUp, Held, Held, GivenUp, GivenUp,
        ];
        assert_eq!(standings, expected);
        assert_eq!(span, Some((80, 260)));
    }

    /// After a long stall, a server works off its backlog in its own slices.
    #[test]
    fn a_backlog_that_shrinks_is_worked_off() {
        let (standings, span) = standings(0, &[0, 60, 60, 300, 260, 200, 150, 90, 40, 20, 70]);
        assert_eq!(standings[..4], [KeepsUp; 4]);
        assert_eq!(standings[4..9], [Held; 5]);
        assert_eq!(standings[9..], [KeepsUp; 2]);
        assert_eq!(span, None);
    }

    /// While the host stops all instances, their backlogs grow together.
    #[test]
    fn a_stall_of_all_is_nobodys_backlog() {
        for arms in 2..6 {
            let mut backlogs = Backlogs::new(arms);
            let mut order: Vec<usize> = (0..arms).collect();
            for set in 0..40 {
                order.rotate_left(set % 3);
                let left = 100 * (set + 1);
                for arm in &order {
                    assert_eq!(backlogs.note(*arm, (0, 1), 100, left), KeepsUp);
                }
            }
        }
    }

    /// In the same stall, instances have different numbers of arrivals by chance.
    #[test]
    fn chance_in_a_stall_is_nobodys_backlog() {
        let mut rng = Rng::new(23);
        let mut given_up = 0;
        for _ in 0..2_000 {
            let mut backlogs = Backlogs::new(2);
            let mut left = [0; 2];
            for _ in 0..75 {
                for (arm, left) in left.iter_mut().enumerate() {
                    let offered = poisson(&mut rng, 20.0);
                    *left += offered;
                    backlogs.note(arm, (0, 1), offered, *left);
                }
            }
            given_up += backlogs.spans().iter().flatten().count();
        }
        assert_eq!(given_up, 0);
    }

    fn poisson(rng: &mut Rng, mean: f64) -> usize {
        let mut due = 0.0;
        let arrivals = std::iter::from_fn(|| {
            due += rng.exponential();
            (due < mean).then_some(())
        });
        arrivals.count()
    }

    /// Where answers take longer than a slice, all instances leave many requests.
    #[test]
    fn a_slow_backend_is_no_backlog() {
        let (standings, _) = standings(300, &[310, 300, 322, 295, 320, 305]);
        assert!(standings.iter().all(|standing| *standing == KeepsUp));
    }

    /// The others are not measured by one that was given up.
    #[test]
    fn an_instance_that_was_given_up_does_not_count() {
        let mut backlogs = Backlogs::new(3);
        for (slice, number) in (0..20).zip(0..) {
            let growing = if slice < 10 { 60 * slice } else { 0 };
            backlogs.note(0, (number, number), 100, growing);
            assert_eq!(backlogs.note(1, (number, number), 100, 80), KeepsUp);
            assert_eq!(backlogs.note(2, (number, number), 100, 70), KeepsUp);
        }
        assert!(backlogs.spans()[0].is_some());
    }

    /// An instance that takes longer for its answers than the others is released for good.
    #[test]
    fn a_backlog_that_stays_is_none() {
        let (standings, span) = standings(0, &[60; 20]);
        assert_eq!(standings[..3], [KeepsUp; 3]);
        assert_eq!(standings[3..11], [Held; 8]);
        assert_eq!(standings[11..], [KeepsUp; 9]);
        assert_eq!(span, None);
    }

    /// In a slice of few requests, a short queue does not count.
    #[test]
    fn a_queue_is_no_backlog() {
        let mut backlogs = Backlogs::new(2);
        for _ in 0..10 {
            backlogs.note(0, (0, 1), 4, 0);
            assert_eq!(backlogs.note(1, (1, 2), 4, LEAST - 1), KeepsUp);
        }
    }
}
