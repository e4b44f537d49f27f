//! The results of a run as documents for other programs.

use std::fmt::Write as _;

use serde::Serialize;
use tuner_loadgen::histogram::{self, Histograms};
use tuner_loadgen::output::WindowLine;
use tuner_loadgen::validity::Validity;
use tuner_loadgen::{hgrm, series};

use crate::format::Format;
use crate::run_report::Measured;

/// Return a document of a measured window.
pub fn render(format: Format, measured: &Measured<'_>) -> String {
    match format {
        Format::Csv => csv(measured.line),
        Format::Hgrm => hgrm::text(&measured.histograms.corrected, 6),
        Format::Hlog => hlog(measured),
        Format::Json => json(measured),
    }
}

/// The line of a window with its validity.
#[derive(Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    line: &'a WindowLine,
    validity: &'a Validity,
}

fn json(measured: &Measured<'_>) -> String {
    let document = Judged {
        line: measured.line,
        validity: measured.validity,
    };
    // Its keys are strings, and its numbers have a form in JSON.
    let text = serde_json::to_string(&document).expect("a serialisable document");
    text + "\n"
}

/// Return the seconds as CSV (RFC 4180). The columns that `tuner report --format csv` has too have
/// its names; a cell without a value is empty.
fn csv(line: &WindowLine) -> String {
    let mut out = String::from(
        "started_unix_s,duration_s,from_s,offered,completed,errors,unanswered,\
         p50_us,p99_us,max_us,first_byte_p50_us,first_byte_p99_us\n",
    );
    let started_s = line.started_unix_ns as f64 / 1e9;
    for part in &line.seconds {
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "{:.3},{},{},{},{},{},{}",
            started_s + part.from_s,
            part.for_s,
            part.from_s,
            part.offered,
            part.completed,
            part.errors,
            part.unanswered
        );
        for us in [
            part.p50_us,
            part.p99_us,
            part.max_us,
            part.first_byte_p50_us,
            part.first_byte_p99_us,
        ] {
            let _ = write!(out, ",{}", us.map_or(String::new(), |us| us.to_string()));
        }
        out.push('\n');
    }
    out
}

/// Return the interval log of the latency: instants in seconds, the largest value in milliseconds,
/// histograms in nanoseconds, as in `tuner report --format hlog`.
fn hlog(measured: &Measured<'_>) -> String {
    let Measured { line, raw, .. } = measured;
    let started_s = line.started_unix_ns as f64 / 1e9;
    let mut out = format!(
        "#[Histogram log format version 1.3]\n\
         #[StartTime: {started_s:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
         \"Interval_Compressed_Histogram\"\n"
    );
    for second in series::seconds(&raw.arms[0].samples, raw.start, raw.end - raw.start) {
        let latency = Histograms::of(second.samples).corrected;
        let _ = writeln!(
            out,
            "{:.3},{:.3},{:.6},{}",
            started_s + second.from_ns as f64 / 1e9,
            (second.to_ns - second.from_ns) as f64 / 1e9,
            latency.max() as f64 / 1e6,
            histogram::encode(&latency)
        );
    }
    out
}
