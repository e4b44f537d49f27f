//! The outcome and times of each request, in columns that are filled during the window and read
//! after it.
//!
//! Per request, the loop only stores four numbers. Histograms, percentiles and files are computed
//! from them once the window is over. The threads of a window share the columns: a request is
//! written by the thread that claimed it, and read once all threads have ended, so the stores need
//! no order.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use crate::sys::Column;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Answered as expected.
    Ok = 0,
    /// Not answered within the timeout after it was written.
    Timeout = 1,
    /// Written, but neither answered nor timed out when the drain ended.
    InFlight = 2,
    /// Never written before the drain ended.
    Unsent = 3,
    /// An unexpected answer, or a failed connection.
    Error = 4,
}

const OUTCOMES: [Outcome; 5] = [
    Outcome::Ok,
    Outcome::Timeout,
    Outcome::InFlight,
    Outcome::Unsent,
    Outcome::Error,
];

/// The value for "never" in a column of times.
pub const NEVER: u64 = u64::MAX;

/// The columns. Times are nanoseconds of the monotonic clock; 0 means that nothing is stored yet.
#[derive(Debug)]
pub struct Record {
    written: Column<AtomicU64>,
    first: Column<AtomicU64>,
    completed: Column<AtomicU64>,
    /// Outcome plus one; 0 while the request is open.
    outcome: Column<AtomicU8>,
}

/// One request of the record. Times are nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The intended instant.
    pub intended: u64,
    /// When it was written, or [`NEVER`].
    pub written: u64,
    /// When the first byte of the response arrived, or [`NEVER`].
    pub first: u64,
    /// When the response was complete, or when it was given up.
    pub completed: u64,
    /// The outcome.
    pub outcome: Outcome,
}

impl Sample {
    /// Return the time from the intended instant to the first byte of the response; without one, the
    /// age at which the request was given up.
    pub fn first_byte_ns(&self) -> u64 {
        // Only some reads have a timestamp of the kernel's, so the end may seem to come first.
        self.first.min(self.completed).saturating_sub(self.intended)
    }
}

impl Record {
    /// Allocate columns for `capacity` requests; `populate` as in [`Column::new`].
    pub fn new(capacity: usize, populate: bool) -> io::Result<Self> {
        Ok(Self {
            written: Column::new(capacity, populate)?,
            first: Column::new(capacity, populate)?,
            completed: Column::new(capacity, populate)?,
            outcome: Column::new(capacity, populate)?,
        })
    }

    /// Return the number of requests that fit.
    pub fn capacity(&self) -> usize {
        self.written.len()
    }

    /// Store when a request is written. A second call (a retry) replaces the instant.
    #[inline]
    pub fn write(&self, index: usize, now: u64) {
        self.written[index].store(now, Relaxed);
    }

    /// Return the instant of the last write; 0 if there was none.
    #[inline]
    pub fn written(&self, index: usize) -> u64 {
        self.written[index].load(Relaxed)
    }

    /// Store the outcome of a request, and when the first byte of its response arrived; 0 if none
    /// did.
    #[inline]
    pub fn finish(&self, index: usize, first: u64, now: u64, outcome: Outcome) {
        self.first[index].store(first, Relaxed);
        self.completed[index].store(now, Relaxed);
        self.outcome[index].store(outcome as u8 + 1, Relaxed);
    }

    /// Forget the write of a request that waits to be sent again.
    pub fn unwrite(&self, index: usize) {
        self.written[index].store(0, Relaxed);
    }

    /// Return one request; an open one is unsent at `end`.
    pub fn sample(&self, index: usize, intended: Option<u64>, end: u64) -> Sample {
        let written = match self.written(index) {
            0 => NEVER,
            ns => ns,
        };
        let (completed, outcome) = match self.outcome[index].load(Relaxed) {
            0 => (end, Outcome::Unsent),
            code => (
                self.completed[index].load(Relaxed),
                OUTCOMES[usize::from(code - 1)],
            ),
        };
        let first = match self.first[index].load(Relaxed) {
            0 => NEVER,
            ns => ns,
        };
        Sample {
            intended: intended.unwrap_or(written),
            written,
            first,
            completed,
            outcome,
        }
    }
}

/// Write samples as columns (magic `TNRS0002`, count, then intended, written, first byte, completed,
/// outcome, all little-endian), times in nanoseconds from `start`.
///
/// The file appears whole or not at all.
pub fn save(path: &Path, samples: &[Sample], start: u64) -> io::Result<()> {
    let part = path.with_extension("samples.part");
    let result = write_columns(&part, samples, start).and_then(|()| std::fs::rename(&part, path));
    if result.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&part);
    }
    result
}

fn write_columns(path: &Path, samples: &[Sample], start: u64) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 16, File::create(path)?);
    file.write_all(b"TNRS0002")?;
    file.write_all(&(samples.len() as u64).to_le_bytes())?;
    for column in [
        |sample: &Sample| sample.intended,
        |sample: &Sample| sample.written,
        |sample: &Sample| sample.first,
        |sample: &Sample| sample.completed,
    ] {
        for sample in samples {
            let ns = match column(sample) {
                NEVER => NEVER,
                ns => ns.saturating_sub(start),
            };
            file.write_all(&ns.to_le_bytes())?;
        }
    }
    for sample in samples {
        file.write_all(&[sample.outcome as u8])?;
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(())
}
