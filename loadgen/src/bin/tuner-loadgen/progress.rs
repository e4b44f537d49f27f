//! The progress line on a terminal while a window runs.
//!
//! A thread writes it that does not disturb the measurement: on none of the generator's CPUs if
//! there are others, and with idle priority, so that a server on the same CPU preempts it at once.
//! It reads the gauges twice a second, and writes the line in one call.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use tuner_loadgen::live::{Live, Snapshot};
use tuner_loadgen::sys;

use crate::cli::units::{count, time_s, time_us};

const PERIOD: Duration = Duration::from_millis(500);
/// Return to the start of the line and clear it.
const CLEAR: &str = "\r\x1b[K";

/// The progress line and its thread; dropping it clears the line and ends the thread.
pub struct Progress {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Show the figures, from a CPU that is not one of the generator's.
    pub fn start(live: Arc<Live>, generator: Vec<usize>) -> Self {
        let (done, until) = mpsc::channel();
        let show = move || {
            let others = sys::usable_cpus(0..libc::CPU_SETSIZE as usize);
            let others: Vec<usize> = others
                .into_iter()
                .filter(|cpu| !generator.contains(cpu))
                .collect();
            if !others.is_empty() {
                // After a failure, it runs on any CPU.
                let _ = sys::pin(&others);
            }
            sys::set_idle_priority();
            let mut before = None;
            while until.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let now = sys::now_ns();
                let snapshot = live.snapshot();
                print(&format!("{CLEAR}{}", line(&snapshot, before, now)));
                before = Some((now, snapshot.good));
            }
            print(CLEAR);
        };
        // Without a thread there is only no progress line.
        let thread = std::thread::Builder::new()
            .name("progress".into())
            .spawn(show)
            .ok();
        Self {
            done: Some(done),
            thread,
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn print(text: &str) {
    // A closed terminal is no reason to stop measuring.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Return the line for these figures. `before`: the time and the number of good answers of the
/// previous line.
fn line(snapshot: &Snapshot, before: Option<(u64, u64)>, now: u64) -> String {
    let Some((start, end)) = snapshot.window else {
        return "  connecting".into();
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    if now < start {
        return format!("  warming up, {} left", time_s(seconds(start - now).ceil()));
    }
    let whole = time_s(seconds(end - start));
    let (at, good) = before.unwrap_or((start, 0));
    let rate =
        (snapshot.good - good.min(snapshot.good)) as f64 / seconds(now - at.max(start)).max(1e-3);
    let latency = match (snapshot.p50_ns, snapshot.p99_ns) {
        (Some(p50), Some(p99)) => format!(
            "p50 {}  p99 {}",
            time_us(p50 as f64 / 1e3),
            time_us(p99 as f64 / 1e3)
        ),
        _ => "no answer yet".into(),
    };
    let bad = match snapshot.bad {
        0 => "no errors".into(),
        n => format!("{n} ERRORS"),
    };
    let left = if sys::stop_requested() {
        "interrupted: waiting for open answers (Ctrl-C again: stop)".into()
    } else if now >= end {
        "waiting for open answers".into()
    } else {
        format!("{} left", time_s(seconds(end - now).ceil()))
    };
    format!(
        "  {:.0} s of {whole}  {}/s  {latency}  {bad}  {left}",
        seconds(now.min(end) - start),
        count(rate)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Each stage of a window has its own line, with the remaining time.
    #[test]
    fn each_stage_has_its_line() {
        let mut snapshot = Snapshot::default();
        assert_eq!(line(&snapshot, None, SECOND), "  connecting");
        snapshot.window = Some((2 * SECOND, 32 * SECOND));
        assert_eq!(line(&snapshot, None, SECOND), "  warming up, 1s left");
        assert!(line(&snapshot, None, 2 * SECOND).contains("no answer yet"));
        snapshot.good = 5000;
        (snapshot.p50_ns, snapshot.p99_ns) = (Some(105_000), Some(1_310_000));
        let text = line(&snapshot, Some((6 * SECOND, 4000)), 7 * SECOND);
        assert_eq!(
            text,
            "  5 s of 30s  1.00k/s  p50 105.00us  p99 1.31ms  no errors  25s left"
        );
        snapshot.bad = 3;
        assert!(line(&snapshot, None, 33 * SECOND).contains("3 ERRORS  waiting for open answers"));
    }
}
