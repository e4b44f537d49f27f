//! Latency histograms: HdrHistogram, 3 significant digits, nanoseconds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::Serialize;

use crate::record::{NEVER, Outcome, Sample};

/// The largest value that is distinguished from larger ones: one hour.
const HIGHEST_NS: u64 = 3_600_000_000_000;

/// The percentiles of one kind of latency, and the histogram they come from.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Number of values.
    pub count: u64,
    /// 50 %, in microseconds like the others; `None` (null) without values.
    pub p50_us: Option<f64>,
    /// 90 %.
    pub p90_us: Option<f64>,
    /// 99 %.
    pub p99_us: Option<f64>,
    /// 99.9 %.
    pub p999_us: Option<f64>,
    /// The largest value.
    pub max_us: Option<f64>,
    /// The arithmetic mean.
    pub mean_us: Option<f64>,
    /// HdrHistogram V2, compressed, base64 (`HISTFAAA…`), values in nanoseconds.
    pub hdr: String,
}

/// Create a histogram with the bounds that all latencies share.
pub fn new() -> Histogram<u64> {
    // The bounds are constants that the library accepts.
    Histogram::new_with_bounds(1, HIGHEST_NS, 3).expect("valid constant bounds")
}

impl Summary {
    /// Summarize a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let some = !histogram.is_empty();
        let us = |ns: f64| some.then_some(ns / 1000.0);
        let quantile = |q: f64| us(histogram.value_at_quantile(q) as f64);
        Self {
            count: histogram.len(),
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: us(histogram.max() as f64),
            mean_us: us(histogram.mean()),
            hdr: encode(histogram),
        }
    }
}

/// Return the V2 compressed form in base64, which every HdrHistogram library reads.
pub fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("serialisation to memory");
    STANDARD.encode(bytes)
}

/// The latencies of a window.
#[derive(Debug, Serialize)]
pub struct Latency {
    /// Completed − intended.
    pub corrected: Summary,
    /// First byte of the response − intended.
    pub first_byte: Summary,
    /// Completed − written.
    pub service: Summary,
    /// Written − intended.
    pub send_lag: Summary,
}

/// The histograms of the latencies.
#[derive(Debug)]
pub struct Histograms {
    /// Completed − intended.
    pub corrected: Histogram<u64>,
    /// First byte of the response − intended.
    pub first_byte: Histogram<u64>,
    /// Completed − written.
    pub service: Histogram<u64>,
    /// Written − intended.
    pub send_lag: Histogram<u64>,
}

impl Histograms {
    /// Return the histograms of samples.
    ///
    /// Nothing is censored: a request without an answer counts with its age when it was given up,
    /// in `corrected` from the intended instant, in `first_byte` likewise if no byte came, in
    /// `service` from the write if there was one, in `send_lag` if it was never written. Errors
    /// count in none of them.
    pub fn of(samples: &[Sample]) -> Self {
        let [mut corrected, mut first_byte, mut service, mut send_lag] = [(); 4].map(|()| new());
        for sample in samples {
            if sample.outcome == Outcome::Error {
                continue;
            }
            corrected.saturating_record(sample.completed.saturating_sub(sample.intended));
            first_byte.saturating_record(sample.first_byte_ns());
            if sample.written == NEVER {
                send_lag.saturating_record(sample.completed.saturating_sub(sample.intended));
            } else {
                service.saturating_record(sample.completed.saturating_sub(sample.written));
                send_lag.saturating_record(sample.written.saturating_sub(sample.intended));
            }
        }
        Self {
            corrected,
            first_byte,
            service,
            send_lag,
        }
    }
}

impl Latency {
    /// Summarize samples, as [`Histograms::of`] counts them.
    pub fn of(samples: &[Sample]) -> Self {
        let histograms = Histograms::of(samples);
        Self {
            corrected: Summary::of(&histograms.corrected),
            first_byte: Summary::of(&histograms.first_byte),
            service: Summary::of(&histograms.service),
            send_lag: Summary::of(&histograms.send_lag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    /// The exported text decodes to the same histogram, and has the prefix that tools expect.
    #[test]
    fn round_trip() {
        let mut histogram = new();
        for i in 0..10_000u64 {
            histogram.saturating_record(i * i + 1);
        }
        let text = encode(&histogram);
        assert!(text.starts_with("HISTFAAA"), "{}", &text[..12]);
        let bytes = STANDARD.decode(text).unwrap();
        let decoded: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!(decoded, histogram);
    }

    /// Percentiles are within the histogram's 3 significant digits of the exact ones.
    #[test]
    fn percentiles_are_precise() {
        let mut histogram = new();
        for i in 1..=100_000u64 {
            histogram.saturating_record(i * 100);
        }
        let summary = Summary::of(&histogram);
        for (value, exact) in [
            (summary.p50_us, 5000.0),
            (summary.p99_us, 9900.0),
            (summary.p999_us, 9990.0),
            (summary.max_us, 10_000.0),
        ] {
            assert!((value.unwrap() / exact - 1.0).abs() < 1e-3, "{value:?}");
        }
    }

    /// Without values there are no percentiles: null, not zero.
    #[test]
    fn empty_has_no_percentiles() {
        let summary = Summary::of(&new());
        assert_eq!((summary.count, summary.p99_us), (0, None));
    }

    /// A request without an answer counts with its age; errors do not count.
    #[test]
    fn nothing_is_censored() {
        let sample = |written, first, completed, outcome| Sample {
            intended: 1000,
            written,
            first,
            completed,
            outcome,
        };
        let latency = Latency::of(&[
            sample(1500, 2000, 3000, Outcome::Ok),
            sample(2000, 4000, 500_000, Outcome::Timeout),
            sample(2000, NEVER, 600_000, Outcome::InFlight),
            sample(NEVER, NEVER, 901_000, Outcome::Unsent),
            sample(2000, 3000, 99_000_000, Outcome::Error),
        ]);
        assert_eq!(latency.corrected.count, 4);
        assert_eq!(latency.service.count, 3);
        assert_eq!(latency.send_lag.count, 4);
        assert_eq!(latency.first_byte.count, 4);
        // A late answer that began in time counts with the beginning, one that never began with its age.
        let p50 = latency.first_byte.p50_us.unwrap();
        assert!((p50 / 3.0 - 1.0).abs() < 1e-3, "{p50}");
        assert!((latency.first_byte.max_us.unwrap() / 900.0 - 1.0).abs() < 1e-3);
        assert!((latency.corrected.max_us.unwrap() / 900.0 - 1.0).abs() < 1e-3);
        assert!((latency.send_lag.max_us.unwrap() / 900.0 - 1.0).abs() < 1e-3);
    }
}
