//! HdrHistogram's percentile text, as read by its plotter and by users of wrk2.
//!
//! The levels get denser towards the maximum: with t ticks per half distance, t levels from 0 to 50
//! %, t from there to 75 %, and so on (`outputPercentileDistribution` of HdrHistogram's Java and C
//! versions).

use std::fmt::Write as _;

use hdrhistogram::Histogram;

const TICKS_PER_HALF_DISTANCE: f64 = 5.0;
const NS_PER_MS: f64 = 1e6;

/// One line of the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The largest value that the histogram does not distinguish from the one at this level, in ns.
    pub value_ns: u64,
    /// The level, 0 to 1.
    pub level: f64,
    /// Number of values up to and including this one.
    pub count: u64,
}

/// Return the percentile spectrum; empty without values.
pub fn rows(histogram: &Histogram<u64>) -> Vec<Row> {
    let total = histogram.len();
    let (mut rows, mut count, mut level) = (Vec::new(), 0, 0.0);
    for bucket in histogram.iter_recorded() {
        count += bucket.count_at_value();
        let value_ns = histogram.highest_equivalent(bucket.value_iterated_to());
        while level <= count as f64 / total as f64 {
            rows.push(Row {
                value_ns,
                level,
                count,
            });
            if count == total {
                break;
            }
            level += step(level);
        }
        if count == total {
            rows.push(Row {
                value_ns,
                level: 1.0,
                count,
            });
        }
    }
    rows
}

/// Return the distance from one level to the next.
fn step(level: f64) -> f64 {
    let halvings = (1.0 / (1.0 - level)).log2().floor() + 1.0;
    1.0 / (TICKS_PER_HALF_DISTANCE * halvings.exp2())
}

/// Return the text, with values in milliseconds. wrk2 prints three decimals; six are the
/// nanoseconds of the histogram.
pub fn text(histogram: &Histogram<u64>, decimals: usize) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{:>12} {:>12} {:>12} {:>12}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let ms = |ns: f64| ns / NS_PER_MS;
    for row in rows(histogram) {
        let value = ms(row.value_ns as f64);
        let _ = writeln!(
            out,
            "{value:>12.decimals$} {:>12.6} {:>12} {:>12.2}",
            row.level,
            row.count,
            1.0 / (1.0 - row.level)
        );
    }
    let _ = writeln!(
        out,
        "#[Mean    = {:>12.decimals$}, StdDeviation   = {:>12.decimals$}]",
        ms(histogram.mean()),
        ms(histogram.stdev())
    );
    let _ = writeln!(
        out,
        "#[Max     = {:>12.decimals$}, Total count    = {:>12}]",
        ms(histogram.max() as f64),
        histogram.len()
    );
    let _ = writeln!(
        out,
        "#[Buckets = {:>12}, SubBuckets     = {:>12}]",
        histogram.buckets(),
        2048
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(n: u64) -> Histogram<u64> {
        let mut histogram = crate::histogram::new();
        for i in 1..=n {
            histogram.saturating_record(i * 1_000_000);
        }
        histogram
    }

    /// The levels are those of HdrHistogram, as in wrk2's README.
    #[test]
    fn levels_are_those_of_hdrhistogram() {
        let rows = rows(&ramp(100_000));
        let levels: Vec<f64> = rows.iter().map(|row| row.level).take(16).collect();
        let known = [
            0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.775, 0.8, 0.825, 0.85,
            0.875,
        ];
        for (level, known) in levels.iter().zip(known) {
            assert!((level - known).abs() < 1e-9, "{levels:?}");
        }
    }

    /// Values and counts rise, the last row holds everything, and each value is at its level.
    #[test]
    fn rows_are_a_distribution() {
        let histogram = ramp(10_000);
        let rows = rows(&histogram);
        assert!(rows.windows(2).all(|w| w[0].value_ns <= w[1].value_ns));
        assert!(rows.windows(2).all(|w| w[0].count <= w[1].count));
        let last = rows.last().unwrap();
        assert_eq!((last.level, last.count), (1.0, 10_000));
        for row in &rows {
            assert!(row.count as f64 >= row.level * 10_000.0 - 1e-6, "{row:?}");
        }
        let median = rows.iter().find(|row| row.level >= 0.5 - 1e-9).unwrap();
        assert!(
            (median.value_ns as f64 / 5e9 - 1.0).abs() < 2e-3,
            "{median:?}"
        );
    }

    /// The columns and the last lines are those that the plotter and readers of wrk2's output
    /// expect.
    #[test]
    fn text_has_the_standard_columns() {
        let text = text(&ramp(10), 3);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "       Value   Percentile   TotalCount 1/(1-Percentile)"
        );
        assert_eq!(lines[1], "");
        assert_eq!(
            lines[2],
            "       1.000     0.000000            1         1.00"
        );
        assert!(
            text.contains("     1.000000           10          inf\n#[Mean "),
            "{text}"
        );
        assert_eq!(
            lines[lines.len() - 3..]
                .iter()
                .filter(|l| l.starts_with("#["))
                .count(),
            3
        );
    }

    /// Without values there are no rows, and no NaN.
    #[test]
    fn nothing_recorded() {
        let empty = crate::histogram::new();
        assert!(rows(&empty).is_empty());
        assert!(!text(&empty, 3).contains("NaN"));
    }
}
