//! Stalls: spans of time in which a core did not do what it was there for.
//!
//! Neither watcher ever looks at a latency. The generator's own core is seen by its loop, whose
//! consecutive clock readings lie too far apart. A server's core is seen by a real-time thread that
//! wakes late: nothing of the server's can keep it waiting, so only the host (or the kernel) can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::plan;
use crate::sys;

/// Spans kept per watcher and window; the rest is only counted.
const MOST_SPANS: usize = 65_536;

/// Stalled spans in nanoseconds of the monotonic clock. Memory is fixed from the start.
#[derive(Debug)]
pub struct Spans {
    /// Start and end of each, in order.
    pub list: Vec<(u64, u64)>,
    /// Spans that found no room.
    pub lost: u64,
}

impl Spans {
    fn new() -> Self {
        Self {
            list: Vec::with_capacity(MOST_SPANS),
            lost: 0,
        }
    }

    #[cold]
    fn push(&mut self, start: u64, end: u64) {
        if self.list.len() < MOST_SPANS {
            self.list.push((start, end));
        } else {
            self.lost += 1;
        }
    }
}

/// The clock of a loop that notices when it was not running.
#[derive(Debug)]
pub struct Watch {
    last: u64,
    gap_ns: u64,
    /// What it noticed.
    pub spans: Spans,
}

impl Watch {
    /// Gaps longer than `gap_ns` will be noticed from now on.
    pub fn new(gap_ns: u64) -> Self {
        Self {
            last: sys::now_ns(),
            gap_ns,
            spans: Spans::new(),
        }
    }

    /// Read the clock. To be called so often that the loop's own work never looks like a gap.
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
    /// Whether every thread has real-time priority on its CPU. Without, there are no threads: the
    /// server's own work would make them wake late.
    pub realtime: bool,
}

impl Ticker {
    /// Start a thread on each CPU, and know on return whether all of them are real-time.
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
            let (tell, told) = mpsc::channel();
            let thread = std::thread::Builder::new()
                .name(format!("ticker-{cpu}"))
                .spawn(move || {
                    let ready = sys::pin(&[cpu]).is_ok() && sys::set_realtime(priority);
                    let mut spans = Spans::new();
                    // The receiver waits for this one message.
                    let _ = tell.send(ready);
                    if ready {
                        tick(period_ns, gap_ns, &stop, &mut spans);
                    }
                    spans
                });
            ticker.realtime &= thread.is_ok() && told.recv().unwrap_or(false);
            ticker.threads.extend(thread.ok().map(|t| (cpu, t)));
        }
        if !ticker.realtime {
            ticker.join();
        }
        ticker
    }

    /// Stop the threads; what each CPU's saw.
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
        // Ticks that a stall swallowed are not made up for.
        while due <= woke {
            due += period_ns;
        }
    }
}

/// What a core showed while it was watched.
#[derive(Debug)]
pub struct Watched {
    /// The core.
    pub cpu: usize,
    /// Gaps of a thread that did nothing but read the clock.
    pub gaps: Spans,
    /// Late wake-ups of the ticker; `None` without real-time priority.
    pub late: Option<Spans>,
    /// The time watched, in nanoseconds.
    pub watched_ns: u64,
}

/// Watch cores for a while, all at once: a spinning thread on each, and the ticker.
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
                // A core that cannot be had shows as watched for no time.
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
