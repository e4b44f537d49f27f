//! The line on a terminal while a window runs.
//!
//! It is written by a thread that the measurement does not feel: on none of the generator's CPUs if
//! there are others, and of idle priority, so that a server that shares its CPU takes it back at once.
//! It reads the gauges twice a second, and says what it saw in one write.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use tuner_loadgen::live::{Live, Seen};
use tuner_loadgen::sys;

use crate::cli::units::{count, time_s, time_us};

const PERIOD: Duration = Duration::from_millis(500);
/// Back to the start of the line, and nothing on it.
const CLEAR: &str = "\r\x1b[K";

/// The thread that shows it; it is gone, and its line with it, once this is dropped.
pub struct Progress {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Show what there is to see, from a CPU that is not one of these.
    pub fn start(live: Arc<Live>, generator: Vec<usize>) -> Self {
        let (done, until) = mpsc::channel();
        let show = move || {
            let others = sys::usable_cpus(0..libc::CPU_SETSIZE as usize);
            let others: Vec<usize> = others
                .into_iter()
                .filter(|cpu| !generator.contains(cpu))
                .collect();
            if !others.is_empty() {
                // Refused, it runs where it may.
                let _ = sys::pin(&others);
            }
            sys::set_idle_priority();
            let mut before = None;
            while until.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let now = sys::now_ns();
                let seen = live.see();
                say(&format!("{CLEAR}{}", line(&seen, before, now)));
                before = Some((now, seen.good));
            }
            say(CLEAR);
        };
        // Without a thread there is no progress to see, and nothing else is missing.
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

fn say(text: &str) {
    // A terminal that is gone is no reason to stop measuring.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// What to say of what was seen; `before`: when it was looked at last, and the good answers then.
fn line(seen: &Seen, before: Option<(u64, u64)>, now: u64) -> String {
    let Some((start, end)) = seen.window else {
        return "  connecting".into();
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    if now < start {
        return format!("  warming up, {} left", time_s(seconds(start - now).ceil()));
    }
    let whole = time_s(seconds(end - start));
    let (at, good) = before.unwrap_or((start, 0));
    let rate = (seen.good - good.min(seen.good)) as f64 / seconds(now - at.max(start)).max(1e-3);
    let latency = match (seen.p50_ns, seen.p99_ns) {
        (Some(p50), Some(p99)) => format!(
            "p50 {}  p99 {}",
            time_us(p50 as f64 / 1e3),
            time_us(p99 as f64 / 1e3)
        ),
        _ => "no answer yet".into(),
    };
    let bad = match seen.bad {
        0 => "no errors".into(),
        n => format!("{n} ERRORS"),
    };
    let left = if sys::stop_requested() {
        "interrupted: waiting for open answers (again: don't)".into()
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

    /// Each stage of a window says what it is, and how long it takes.
    #[test]
    fn stages_are_told_apart() {
        let mut seen = Seen::default();
        assert_eq!(line(&seen, None, SECOND), "  connecting");
        seen.window = Some((2 * SECOND, 32 * SECOND));
        assert_eq!(line(&seen, None, SECOND), "  warming up, 1s left");
        assert!(line(&seen, None, 2 * SECOND).contains("no answer yet"));
        seen.good = 5000;
        (seen.p50_ns, seen.p99_ns) = (Some(105_000), Some(1_310_000));
        let text = line(&seen, Some((6 * SECOND, 4000)), 7 * SECOND);
        assert_eq!(
            text,
            "  5 s of 30s  1.00k/s  p50 105.00us  p99 1.31ms  no errors  25s left"
        );
        seen.bad = 3;
        assert!(line(&seen, None, 33 * SECOND).contains("3 ERRORS  waiting for open answers"));
    }
}
