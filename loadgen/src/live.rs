//! Figures of a running window, for a progress line.
//!
//! Each thread of the generator has a gauge that only it writes to: an answer costs it a few
//! nanoseconds and no lock. A reader reads a few kilobytes, with latencies to within a sixteenth.
//! The figures of the window come from its record, never from here.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Steps per octave of the latency.
const STEPS: u64 = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const BUCKETS: usize = ((64 - STEP_BITS + 1) as usize) * STEPS as usize;

/// The gauges of a window.
#[derive(Debug)]
pub struct Live {
    gauges: Vec<Gauge>,
    taken: AtomicUsize,
    start: AtomicU64,
    end: AtomicU64,
}

/// The figures of one thread. Aligned so that no two threads write to one pair of cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub struct Gauge {
    good: AtomicU64,
    bad: AtomicU64,
    latency: Box<[AtomicU32]>,
}

/// The figures of all threads at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Start and end of the measured part on the monotonic clock; `None` before the warm-up.
    pub window: Option<(u64, u64)>,
    /// Requests of the measured part that were answered as expected.
    pub good: u64,
    /// Requests of the measured part that failed or were given up.
    pub bad: u64,
    /// Median of the corrected latency so far, in nanoseconds, to within a sixteenth; `None`
    /// without values.
    pub p50_ns: Option<u64>,
    /// 99 %.
    pub p99_ns: Option<u64>,
}

impl Live {
    /// Create gauges for this number of threads.
    pub fn new(threads: usize) -> Self {
        Self {
            gauges: (0..threads).map(|_| Gauge::new()).collect(),
            taken: AtomicUsize::new(0),
            start: AtomicU64::new(u64::MAX),
            end: AtomicU64::new(u64::MAX),
        }
    }

    /// Return a gauge that has no other writer; `None` if there is none left.
    pub fn gauge(&self) -> Option<&Gauge> {
        self.gauges.get(self.taken.fetch_add(1, Relaxed))
    }

    /// Set the start and the end of the measured part.
    pub fn set(&self, start: u64, end: u64) {
        self.end.store(end, Relaxed);
        self.start.store(start, Relaxed);
    }

    /// Read the figures of all threads.
    pub fn snapshot(&self) -> Snapshot {
        let start = self.start.load(Relaxed);
        let window = (start != u64::MAX).then(|| (start, self.end.load(Relaxed)));
        let sum = |of: fn(&Gauge) -> &AtomicU64| {
            let gauges = self.gauges.iter();
            gauges.map(|gauge| of(gauge).load(Relaxed)).sum()
        };
        let mut counts = vec![0u64; BUCKETS];
        for gauge in &self.gauges {
            for (count, bucket) in counts.iter_mut().zip(&gauge.latency) {
                *count += u64::from(bucket.load(Relaxed));
            }
        }
        Snapshot {
            window,
            good: sum(|gauge| &gauge.good),
            bad: sum(|gauge| &gauge.bad),
            p50_ns: quantile(&counts, 0.5),
            p99_ns: quantile(&counts, 0.99),
        }
    }
}

impl Gauge {
    fn new() -> Self {
        Self {
            good: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            latency: (0..BUCKETS).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Count a request that was answered as expected, this long after its intended instant.
    #[inline]
    pub fn good(&self, latency_ns: u64) {
        // With one writer, a load and a store lose nothing and need no locked instruction.
        self.good.store(self.good.load(Relaxed) + 1, Relaxed);
        if let Some(bucket) = self.latency.get(bucket_of(latency_ns)) {
            bucket.store(bucket.load(Relaxed).saturating_add(1), Relaxed);
        }
    }

    /// Count a request that failed or was given up.
    #[cold]
    pub fn bad(&self) {
        self.bad.store(self.bad.load(Relaxed) + 1, Relaxed);
    }
}

#[inline]
fn bucket_of(value: u64) -> usize {
    let octave = (value | 1).ilog2();
    if octave < STEP_BITS {
        return value as usize;
    }
    let shift = octave - STEP_BITS;
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

/// Return the middle of a bucket.
fn value_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    ((bucket % STEPS + STEPS) << shift) + (1 << shift) / 2
}

fn quantile(counts: &[u64], level: f64) -> Option<u64> {
    let total: u64 = counts.iter().sum();
    let rank = ((total as f64 * level).ceil() as u64).max(1);
    let mut seen = 0;
    let reached = counts.iter().position(|count| {
        seen += count;
        seen >= rank
    });
    reached.map(value_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value falls into a bucket whose middle is within a sixteenth of it.
    #[test]
    fn buckets_are_close() {
        for shift in 0..64 {
            for low in [0u64, 1, 7] {
                let value = (1u64 << shift).saturating_add(low << (shift / 2));
                let middle = value_of(bucket_of(value));
                let off = value.abs_diff(middle) as f64 / value as f64;
                assert!(off <= 1.0 / STEPS as f64, "{value} {middle}");
            }
        }
        assert!(bucket_of(u64::MAX) < BUCKETS);
        assert!((0..BUCKETS - 1).all(|i| value_of(i) <= value_of(i + 1)));
    }

    /// The figures of several threads are added up.
    #[test]
    fn gauges_are_merged() {
        let live = Live::new(2);
        assert_eq!(live.snapshot(), Snapshot::default());
        let (one, two) = (live.gauge().unwrap(), live.gauge().unwrap());
        assert!(live.gauge().is_none());
        (0..98).for_each(|_| one.good(100_000));
        (0..2).for_each(|_| two.good(9_000_000));
        two.bad();
        live.set(1, 2);
        let snapshot = live.snapshot();
        assert_eq!(
            (snapshot.good, snapshot.bad, snapshot.window),
            (100, 1, Some((1, 2)))
        );
        let near = |ns: Option<u64>, value: f64| (ns.unwrap() as f64 / value - 1.0).abs() < 0.07;
        assert!(
            near(snapshot.p50_ns, 1e5) && near(snapshot.p99_ns, 9e6),
            "{snapshot:?}"
        );
    }
}
