//! Slices: the load goes to several arms in turn, some milliseconds to each.
//!
//! The speed of a server's core wanders within a third of a second. Windows that follow one another
//! meet different speeds; slices of one set meet the same. Randomised multiple interleaved trials
//! alternate whole runs for the same reason (Abedi and Brecht, ICPE 2017).

use crate::rng::Rng;

/// Tells the order's random numbers from those of the schedule.
const STREAM: u64 = 0x736c_6963_6573;

/// The order of the arms: one slice for each arm makes a set, and each set has its own order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    length_ns: u64,
    /// Time of the first set that lies before the start of the schedule, in nanoseconds.
    lead_ns: u64,
    /// The arm of each slice.
    order: Vec<u8>,
    /// Number of arms.
    arms: usize,
    /// Number of slices before the measured part.
    before: usize,
}

impl Turns {
    /// Draw the order of `arms` arms over a warm-up and whole sets of slices after it. A set begins
    /// with the measured part, so the first set of the warm-up may be incomplete.
    ///
    /// The schedule of a window is drawn from the same seed, by another stream.
    pub fn new(arms: usize, length_ns: u64, warmup_ns: u64, duration_ns: u64, seed: u64) -> Self {
        let set_ns = length_ns * arms as u64;
        let before = warmup_ns.div_ceil(set_ns);
        let sets = before + duration_ns.div_ceil(set_ns);
        let mut rng = Rng::new(seed ^ STREAM);
        let mut order = Vec::with_capacity(sets as usize * arms);
        for _ in 0..sets {
            let first = order.len();
            order.extend(0..arms as u8);
            // Fisher and Yates.
            for last in (1..arms).rev() {
                let other = (rng.unit() * (last + 1) as f64) as usize;
                order.swap(first + last, first + other);
            }
        }
        Self {
            length_ns,
            lead_ns: before * set_ns - warmup_ns,
            before: order.len() - (sets - before) as usize * arms,
            order,
            arms,
        }
    }

    /// One arm throughout.
    pub fn single() -> Self {
        Self {
            length_ns: u64::MAX,
            lead_ns: 0,
            order: vec![0],
            arms: 1,
            before: 0,
        }
    }

    /// Return the length of a slice in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Return the number of sets, with an incomplete first one.
    pub fn sets(&self) -> usize {
        self.order.len() / self.arms
    }

    /// Return the starts of a set's slices, in nanoseconds from the start of the schedule; those of
    /// an incomplete first set may lie before it.
    pub fn slices_of(&self, set: usize) -> impl Iterator<Item = i64> {
        let first = set * self.arms;
        let start = |slice: usize| (slice as u64 * self.length_ns) as i64 - self.lead_ns as i64;
        (first..first + self.arms).map(start)
    }

    /// Return the arm of each slice from the start of the measured part on.
    pub fn measured(&self) -> &[u8] {
        &self.order[self.before..]
    }

    /// Return the arm whose slice holds an instant, in nanoseconds from the start of the schedule.
    /// After the last slice, its arm.
    #[inline]
    pub fn arm_at(&self, ns: u64) -> usize {
        if self.order.len() == 1 {
            return 0;
        }
        let slice = (ns.saturating_add(self.lead_ns) / self.length_ns) as usize;
        let arm = self.order.get(slice).or(self.order.last());
        arm.copied().map_or(0, usize::from)
    }

    /// Return the start of the slice that holds an instant; 0 in the first one.
    pub fn start_of(&self, ns: u64) -> u64 {
        let slice = ns.saturating_add(self.lead_ns) / self.length_ns;
        (slice * self.length_ns).saturating_sub(self.lead_ns)
    }

    /// Return the end of the slice that holds an instant; `u64::MAX` in the last one.
    #[inline]
    pub fn end_of(&self, ns: u64) -> u64 {
        let slice = ns.saturating_add(self.lead_ns) / self.length_ns;
        if slice as usize + 1 >= self.order.len() {
            return u64::MAX;
        }
        (slice + 1) * self.length_ns - self.lead_ns
    }

    /// Return the instants at which the turn passes from one arm to another.
    pub fn borders(&self) -> Vec<u64> {
        let ends = (1u64..).zip(self.order.windows(2));
        ends.filter(|(_, pair)| pair[0] != pair[1])
            .filter_map(|(slice, _)| (slice * self.length_ns).checked_sub(self.lead_ns))
            .filter(|at| *at > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Each set holds each arm once, and a set begins with the measured part.
    #[test]
    fn each_set_holds_each_arm_once() {
        let turns = Turns::new(3, 20 * MS, 100 * MS, 600 * MS, 7);
        for set in 0..10 {
            let mut arms: Vec<usize> = (0..3)
                .map(|slice| turns.arm_at(100 * MS + (3 * set + slice) * 20 * MS + 1))
                .collect();
            arms.sort_unstable();
            assert_eq!(arms, [0, 1, 2]);
        }
    }

    /// The order of the measured part begins with its first set, whatever the warm-up.
    #[test]
    fn the_measured_part_has_an_order_of_its_own() {
        let turns = Turns::new(3, 20 * MS, 100 * MS, 600 * MS, 7);
        let order = turns.measured();
        assert_eq!(order.len(), 30);
        for (slice, arm) in (0..).zip(order) {
            let at = 100 * MS + slice * 20 * MS;
            assert_eq!(turns.arm_at(at), usize::from(*arm));
        }
    }

    /// An instant belongs to the slice that begins with it.
    #[test]
    fn a_border_belongs_to_the_later_slice() {
        let turns = Turns::new(2, 20 * MS, 10 * MS, 80 * MS, 1);
        for border in turns.borders() {
            assert_ne!(turns.arm_at(border - 1), turns.arm_at(border));
            assert_eq!(turns.end_of(border - 1), border);
            assert_eq!(turns.start_of(border), border);
            assert_ne!(turns.start_of(border - 1), border);
        }
        assert_eq!(turns.end_of(90 * MS), u64::MAX);
    }

    /// Over many sets, each arm is as often first as the others: within 5 standard deviations.
    #[test]
    fn no_arm_is_first_more_often() {
        let sets = 10_000;
        let turns = Turns::new(2, MS, 0, sets * 2 * MS, 3);
        let first = (0..sets).filter(|set| turns.arm_at(set * 2 * MS) == 0);
        let off = first.count() as f64 - sets as f64 / 2.0;
        assert!(off.abs() < 5.0 * (sets as f64 / 4.0).sqrt(), "{off}");
    }

    /// The same seed gives the same order, and one arm needs no order.
    #[test]
    fn is_seeded() {
        let draw = |seed| Turns::new(4, 20 * MS, 0, 4000 * MS, seed);
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
        assert_eq!(Turns::single().arm_at(u64::MAX / 2), 0);
        assert!(Turns::single().borders().is_empty());
    }
}
