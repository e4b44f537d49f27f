//! A window in parts: per second, and per piece of a ladder of rates.
//!
//! A request belongs to the part in which it was intended, whenever it was answered: a part is
//! responsible for all delays that its load causes.

use serde::Serialize;

use crate::plan::Piece;
use crate::record::{Outcome, Sample};

/// The outcomes of the requests that were intended in a part of the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Start, in seconds from the start of the measured part.
    pub from_s: f64,
    /// Length in seconds.
    pub for_s: f64,
    /// Requests intended in it.
    pub offered: u64,
    /// Requests answered as expected, at any time.
    pub completed: u64,
    /// Requests with an unexpected answer, or lost with their connection.
    pub errors: u64,
    /// Requests timed out, never sent, or in flight at the end; they count with their age.
    pub unanswered: u64,
    /// Median of the corrected latency in microseconds, exact like the others; `None` (null)
    /// without values.
    pub p50_us: Option<f64>,
    /// 99 %.
    pub p99_us: Option<f64>,
    /// The largest.
    pub max_us: Option<f64>,
    /// Median of the time to the first byte, from the intended instant.
    pub first_byte_p50_us: Option<f64>,
    /// 99 %.
    pub first_byte_p99_us: Option<f64>,
}

/// A piece of a ladder: the requested rate, the offered rate, and the outcomes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PiecePart {
    /// The requested rate at the start.
    pub rate_per_s: f64,
    /// The requested rate at the end of a ramp.
    pub to_rate_per_s: Option<f64>,
    /// Intended requests per second.
    pub offered_per_s: f64,
    /// The outcomes.
    #[serde(flatten)]
    pub part: Part,
}

/// Samples of a part of a window; its start and end are in nanoseconds from the window's start.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Start.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// The requests intended in it.
    pub samples: &'a [Sample],
}

/// Split a window's samples by seconds; the last part may be shorter.
pub fn seconds(samples: &[Sample], start: u64, duration_ns: u64) -> Vec<Span<'_>> {
    let seconds = duration_ns.div_ceil(1_000_000_000);
    let edges = (1..=seconds).map(|i| (i * 1_000_000_000).min(duration_ns));
    split(samples, start, edges)
}

/// Return the outcomes of each second of a window.
pub fn per_second(samples: &[Sample], start: u64, duration_ns: u64) -> Vec<Part> {
    parts(&seconds(samples, start, duration_ns))
}

/// Split a window by the pieces of its ladder.
pub fn per_piece(samples: &[Sample], start: u64, pieces: &[Piece]) -> Vec<PiecePart> {
    let edges = pieces.iter().scan(0.0, |end, piece| {
        *end += piece.for_s;
        Some((*end * 1e9) as u64)
    });
    let parts = parts(&split(samples, start, edges));
    let pieces = pieces.iter().zip(parts);
    pieces
        .map(|(piece, part)| PiecePart {
            rate_per_s: piece.rate_per_s,
            to_rate_per_s: piece.to_rate_per_s,
            offered_per_s: part.offered as f64 / part.for_s,
            part,
        })
        .collect()
}

/// Split samples, which are in order of their intended instants; edges are the ends of the parts,
/// in nanoseconds from `start`. Samples beyond the last edge, due to rounding, belong to the last
/// part.
fn split(samples: &[Sample], start: u64, edges: impl Iterator<Item = u64>) -> Vec<Span<'_>> {
    let (mut from_ns, mut rest) = (0, samples);
    let mut edges = edges.peekable();
    let mut spans = Vec::new();
    while let Some(to_ns) = edges.next() {
        let inside = match edges.peek() {
            Some(_) => rest.partition_point(|s| s.intended.saturating_sub(start) < to_ns),
            None => rest.len(),
        };
        let (samples, others) = rest.split_at(inside);
        spans.push(Span {
            from_ns,
            to_ns,
            samples,
        });
        (from_ns, rest) = (to_ns, others);
    }
    spans
}

fn parts(spans: &[Span<'_>]) -> Vec<Part> {
    let (mut ages, mut firsts) = (Vec::new(), Vec::new());
    let part = |span| part(span, &mut ages, &mut firsts);
    spans.iter().map(part).collect()
}

fn part(span: &Span<'_>, ages: &mut Vec<u64>, firsts: &mut Vec<u64>) -> Part {
    ages.clear();
    firsts.clear();
    let (mut completed, mut errors) = (0, 0);
    for sample in span.samples {
        match sample.outcome {
            Outcome::Ok => completed += 1,
            Outcome::Error => {
                errors += 1;
                continue;
            }
            Outcome::Timeout | Outcome::InFlight | Outcome::Unsent => {}
        }
        ages.push(sample.completed.saturating_sub(sample.intended));
        firsts.push(sample.first_byte_ns());
    }
    let offered = span.samples.len() as u64;
    Part {
        from_s: span.from_ns as f64 / 1e9,
        for_s: (span.to_ns - span.from_ns) as f64 / 1e9,
        offered,
        completed,
        errors,
        unanswered: offered - completed - errors,
        p50_us: quantile_ns(ages, 0.5).map(us),
        p99_us: quantile_ns(ages, 0.99).map(us),
        max_us: ages.iter().copied().max().map(us),
        first_byte_p50_us: quantile_ns(firsts, 0.5).map(us),
        first_byte_p99_us: quantile_ns(firsts, 0.99).map(us),
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// Return the smallest value that at least q·n of the n values do not exceed (Hyndman and Fan 1996,
/// type 1); `None` without values. It reorders the values.
pub fn quantile_ns(values: &mut [u64], q: f64) -> Option<u64> {
    let rank = (q * values.len() as f64).ceil().max(1.0) as usize - 1;
    let last = values.len().checked_sub(1)?;
    Some(*values.select_nth_unstable(rank.min(last)).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 77 * SECOND;

    fn sample(ms: u64, age_us: u64, outcome: Outcome) -> Sample {
        let intended = START + ms * 1_000_000;
        Sample {
            intended,
            written: intended,
            first: intended + age_us * 500,
            completed: intended + age_us * 1000,
            outcome,
        }
    }

    /// A request counts in the second in which it was intended, even if it was answered later. A
    /// request without an answer counts with its age, an error in no percentile.
    #[test]
    fn requests_count_where_they_were_intended() {
        let samples = [
            sample(0, 100, Outcome::Ok),
            sample(999, 5_000_000, Outcome::Timeout),
            sample(1000, 200, Outcome::Ok),
            sample(1400, 900_000, Outcome::Error),
        ];
        let parts = per_second(&samples, START, SECOND * 5 / 2);
        assert_eq!(parts.len(), 3);
        assert_eq!(
            (parts[0].offered, parts[0].completed, parts[0].unanswered),
            (2, 1, 1)
        );
        assert_eq!((parts[0].p50_us, parts[0].max_us), (Some(100.0), Some(5e6)));
        assert_eq!(parts[0].first_byte_p50_us, Some(50.0));
        assert_eq!(
            (parts[1].offered, parts[1].errors, parts[1].max_us),
            (2, 1, Some(200.0))
        );
        assert_eq!((parts[2].offered, parts[2].p99_us), (0, None));
        assert_eq!((parts[2].from_s, parts[2].for_s), (2.0, 0.5));
    }

    /// Pieces of a ladder partition the window, and have a requested and an offered rate.
    #[test]
    fn pieces_partition_the_window() {
        let piece = |for_s, rate_per_s| Piece {
            for_s,
            rate_per_s,
            to_rate_per_s: None,
        };
        let samples: Vec<_> = (0..300)
            .map(|i| sample(i * 10, i + 1, Outcome::Ok))
            .collect();
        let parts = per_piece(&samples, START, &[piece(1.0, 90.0), piece(2.0, 110.0)]);
        let offered: Vec<_> = parts
            .iter()
            .map(|p| (p.offered_per_s, p.part.offered))
            .collect();
        assert_eq!(offered, [(100.0, 100), (100.0, 200)]);
        assert_eq!(parts[0].part.p50_us, Some(50.0));
        assert_eq!(parts[1].part.p99_us, Some(298.0));
    }

    /// Quantiles are order statistics.
    #[test]
    fn quantiles_are_order_statistics() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(quantile_ns(&mut values, 0.5), Some(50));
        assert_eq!(quantile_ns(&mut values, 0.99), Some(99));
        assert_eq!(quantile_ns(&mut values, 0.999), Some(100));
        assert_eq!(quantile_ns(&mut [], 0.5), None);
    }
}
