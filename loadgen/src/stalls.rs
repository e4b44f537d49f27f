//! Stalls: spans in which a core did not run the thread that it was meant to run.
//!
//! Neither watcher uses latencies. The loop on the generator's core detects a stall as a gap
//! between two clock readings. On a server's core, a real-time thread wakes late: the server's own
//! work cannot delay it, only the host (or the kernel) can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::plan;
use crate::sys;

/// Spans stored per watcher and window; further ones are only counted.
const MAX_SPANS: usize = 65_536;

/// Stalls in nanoseconds of the monotonic clock. Memory is allocated at the start.
#[derive(Clone, Debug)]
pub struct Spans {
    /// Start and end of each, in order.
    pub list: Vec<(u64, u64)>,
    /// Number of spans that did not fit.
    pub lost: u64,
}

impl Spans {
    fn new() -> Self {
        Self {
            list: Vec::with_capacity(MAX_SPANS),
            lost: 0,
        }
    }

    #[cold]
    fn push(&mut self, start: u64, end: u64) {
        if self.list.len() < MAX_SPANS {
            self.list.push((start, end));
        } else {
            self.lost += 1;
        }
    }
}

/// The clock of a loop, which detects when the loop was not running.
#[derive(Debug)]
pub struct Watch {
    last: u64,
    gap_ns: u64,
    /// The detected stalls.
    pub spans: Spans,
}

impl Watch {
    /// Create a watch that detects gaps longer than `gap_ns` from now on.
    pub fn new(gap_ns: u64) -> Self {
        Self {
            last: sys::now_ns(),
            gap_ns,
            spans: Spans::new(),
        }
    }

    /// Read the clock. Call it often enough that the loop's own work never looks like a gap.
    #[inline]
    pub fn tick(&mut self) -> u64 {
        let now = sys::now_ns();
        if now - self.last > self.gap_ns {
            self.spans.push(self.last, now);
        }
        self.last = now;
        now
    }

    /// Read the clock after a sleep that was to end at `due` or before.
    #[inline]
    pub fn woke(&mut self, due: u64) -> u64 {
        self.last = self.last.max(due.min(sys::now_ns()));
        self.tick()
    }
}

/// Running ticker threads.
#[derive(Debug)]
pub struct Ticker {
    stop: Arc<AtomicBool>,
    threads: Vec<(usize, JoinHandle<Spans>)>,
    /// True if every thread has real-time priority on its CPU. Otherwise there are no threads,
    /// because the server's own work would make them wake late.
    pub realtime: bool,
}

impl Ticker {
    /// Start a thread on each CPU, and wait until each has tried to get real-time priority.
    pub fn start(config: &plan::Ticker, gap_ns: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut ticker = Self {
            stop: Arc::clone(&stop),
            threads: Vec::new(),
            realtime: true,
        };
        for cpu in config.cpus.iter().copied() {
            let (stop, period_ns) = (Arc::clone(&stop), config.period_us * 1000);
            let priority = config.priority;
            let (ready_sender, is_ready) = mpsc::channel();
            let thread = std::thread::Builder::new()
                .name(format!("ticker-{cpu}"))
                .spawn(move || {
                    let ready = sys::pin(&[cpu]).is_ok() && sys::set_realtime(priority);
                    let mut spans = Spans::new();
                    // The receiver waits for this one message.
                    let _ = ready_sender.send(ready);
                    if ready {
                        tick(period_ns, gap_ns, &stop, &mut spans);
                    }
                    spans
                });
            ticker.realtime &= thread.is_ok() && is_ready.recv().unwrap_or(false);
            ticker.threads.extend(thread.ok().map(|t| (cpu, t)));
        }
        if !ticker.realtime {
            ticker.join();
        }
        ticker
    }

    /// Stop the threads; return the stalls of each CPU.
    pub fn finish(mut self) -> Vec<(usize, Spans)> {
        let seen = self.join();
        if self.realtime { seen } else { Vec::new() }
    }

    fn join(&mut self) -> Vec<(usize, Spans)> {
        self.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.drain(..);
        threads
            .filter_map(|(cpu, thread)| Some((cpu, thread.join().ok()?)))
            .collect()
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.join();
    }
}

fn tick(period_ns: u64, gap_ns: u64, stop: &AtomicBool, spans: &mut Spans) {
    let mut due = sys::now_ns() + period_ns;
    while !stop.load(Ordering::Relaxed) {
        sys::sleep_until(due);
        let woke = sys::now_ns();
        if woke > due + gap_ns {
            spans.push(due, woke);
        }
        // Ticks that were missed in a stall are not repeated.
        while due <= woke {
            due += period_ns;
        }
    }
}

/// The stalls of a watched core.
#[derive(Debug)]
pub struct Watched {
    /// The core.
    pub cpu: usize,
    /// Gaps of a thread that only reads the clock.
    pub gaps: Spans,
    /// Late wake-ups of the ticker; `None` without real-time priority.
    pub late: Option<Spans>,
    /// Watched time, in nanoseconds.
    pub watched_ns: u64,
}

/// Watch cores for a while, all at the same time, with a spinning thread on each and the ticker.
pub fn watch(cpus: &[usize], duration_ns: u64, gap_ns: u64) -> Vec<Watched> {
    let ticker = Ticker::start(
        &plan::Ticker {
            cpus: cpus.to_vec(),
            period_us: 500,
            priority: 50,
        },
        gap_ns,
    );
    let realtime = ticker.realtime;
    let spinners: Vec<_> = cpus
        .iter()
        .map(|&cpu| {
            std::thread::spawn(move || {
                // A core that may not be used has a watched time of 0.
                if sys::pin(&[cpu]).is_err() {
                    return (cpu, Spans::new(), 0);
                }
                let mut watch = Watch::new(gap_ns);
                let start = sys::now_ns();
                let mut now = start;
                while now - start < duration_ns && !sys::stop_requested() {
                    now = watch.tick();
                }
                (cpu, watch.spans, now - start)
            })
        })
        .collect();
    let gaps: Vec<_> = spinners.into_iter().filter_map(|t| t.join().ok()).collect();
    let mut late = ticker.finish().into_iter();
    gaps.into_iter()
        .map(|(cpu, gaps, watched_ns)| Watched {
            cpu,
            gaps,
            late: late.next().map(|(_, spans)| spans).filter(|_| realtime),
            watched_ns,
        })
        .collect()
}
