//! Stalls of this host's cores, reported line by line to a reader that may be on another host.
//!
//! The cores of a remote target are watched on the target. The lines give every instant on two
//! clocks: the monotonic one, which never jumps, and the realtime one, which another host shares as
//! well as the two are synchronized. A reader that cannot rely on either sends a line, and receives
//! the clocks at that moment. So it knows the difference of the clocks to within the round trip
//! (Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use serde::Serialize;

use crate::resources;
use crate::series::quantile_ns;
use crate::sys::{self, Readable};

/// Interval at which stalls are written; long, because writing disturbs the host under test.
const PASS_ON_NS: u64 = 100_000_000;
/// Interval at which the clocks are written.
const CLOCK_NS: u64 = 1_000_000_000;
/// Time that wake-ups are watched before the first line, to know their usual lateness.
const TRIAL_NS: u64 = 200_000_000;
const PRIORITY: i32 = 50;

/// Options of the ticker.
#[derive(Clone, Debug)]
pub struct Options {
    /// The CPUs to watch.
    pub cpus: Vec<usize>,
    /// Duration, in nanoseconds; `None` until standard input ends.
    pub for_ns: Option<u64>,
    /// The shortest gap that counts as a stall, in nanoseconds.
    pub gap_ns: u64,
    /// Time between wake-ups, in nanoseconds.
    pub period_ns: u64,
}

/// Both clocks at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Clocks {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME: since 1970.
    pub unix_ns: u64,
    /// The largest time between the two readings.
    pub error_ns: u64,
}

impl Clocks {
    /// Read both; use the closest of a few attempts.
    pub fn read() -> Self {
        let attempts = (0..5).map(|_| {
            let before = sys::now_ns();
            let unix_ns = sys::unix_ns();
            let after = sys::now_ns();
            Self {
                monotonic_ns: before + (after - before) / 2,
                unix_ns,
                error_ns: (after - before).div_ceil(2),
            }
        });
        let best = attempts.min_by_key(|clocks| clocks.error_ns);
        // There were five attempts.
        best.unwrap_or(Self {
            monotonic_ns: 0,
            unix_ns: 0,
            error_ns: u64::MAX,
        })
    }

    /// Return the realtime clock at an instant of the monotonic one, if neither was set in between.
    fn unix(&self, monotonic_ns: u64) -> u64 {
        self.unix_ns
            .wrapping_add(monotonic_ns.wrapping_sub(self.monotonic_ns))
    }
}

/// A line of the output.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    /// The first line.
    Ticker {
        version: &'static str,
        cpus: &'a [usize],
        gap_us: f64,
        period_us: f64,
        /// True if all threads have real-time priority. Without it, other work on the CPU delays
        /// them too: stalls are then upper bounds, and those shorter than the resolution mean
        /// nothing.
        realtime: bool,
        /// The 99th percentile of the wake-ups' lateness in the first moments.
        resolution_us: f64,
        #[serde(flatten)]
        clocks: Clocks,
    },
    /// A stall of a CPU: start and end on both clocks.
    Stall {
        cpu: usize,
        monotonic_ns: (u64, u64),
        unix_ns: (u64, u64),
    },
    /// The clocks: every second, and in answer to each line of standard input.
    Clock {
        #[serde(flatten)]
        clocks: Clocks,
        /// The resolution since the last such line; `None` (null) without wake-ups.
        resolution_us: Option<f64>,
        /// Time stolen by the hypervisor since boot, in seconds.
        steal_s: BTreeMap<usize, f64>,
        /// The line that this answers.
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<&'a str>,
    },
    /// The last line.
    End {
        reason: Reason,
        stalls: u64,
        watched_s: f64,
    },
}

/// The reason why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    /// The time was over.
    Done,
    /// Standard input ended.
    Eof,
    /// A signal came.
    Stopped,
}

/// A message of a thread.
enum Message {
    /// A stall, and the clocks just after it.
    Stall(usize, u64, u64, Clocks),
    /// The lateness of some wake-ups.
    Lateness(Vec<u64>),
}

struct Threads {
    stop: Arc<AtomicBool>,
    messages: Receiver<Message>,
    threads: Vec<JoinHandle<()>>,
    realtime: bool,
}

impl Threads {
    fn start(options: &Options) -> io::Result<Self> {
        let (sender, messages) = mpsc::channel();
        let mut threads = Self {
            stop: Arc::new(AtomicBool::new(false)),
            messages,
            threads: Vec::new(),
            realtime: true,
        };
        for cpu in options.cpus.iter().copied() {
            let (stop, sender) = (Arc::clone(&threads.stop), sender.clone());
            let (gap_ns, period_ns) = (options.gap_ns, options.period_ns);
            let (ready, is_ready) = mpsc::channel();
            let thread = std::thread::Builder::new().name(format!("ticker-{cpu}"));
            threads.threads.push(thread.spawn(move || {
                let pinned = sys::pin(&[cpu]);
                let good = pinned.is_ok();
                sys::set_precise_timers();
                // The receiver waits for this one message.
                let _ = ready.send(pinned.map(|()| sys::set_realtime(PRIORITY)));
                if good {
                    tick(cpu, gap_ns, period_ns, &stop, &sender);
                }
            })?);
            threads.realtime &= is_ready.recv().map_err(io::Error::other)??;
        }
        Ok(threads)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread returns nothing.
            let _ = thread.join();
        }
    }
}

fn tick(cpu: usize, gap_ns: u64, period_ns: u64, stop: &AtomicBool, sender: &Sender<Message>) {
    let batch = (PASS_ON_NS / period_ns).max(1) as usize;
    let mut lateness = Vec::with_capacity(batch);
    let mut due = sys::now_ns() + period_ns;
    while !stop.load(Ordering::Relaxed) {
        sys::sleep_until(due);
        let woke = sys::now_ns();
        // The receiver lives as long as this thread.
        if woke > due + gap_ns {
            let _ = sender.send(Message::Stall(cpu, due, woke, Clocks::read()));
        }
        lateness.push(woke.saturating_sub(due));
        if lateness.len() == batch {
            let full = std::mem::replace(&mut lateness, Vec::with_capacity(batch));
            let _ = sender.send(Message::Lateness(full));
        }
        // Ticks that were missed in a stall are not repeated.
        while due <= woke {
            due += period_ns;
        }
    }
}

/// Watch, and write lines until the time is over, standard input ends, or a signal comes.
///
/// # Errors
/// A CPU that may not be used, or a failed write.
pub fn run(options: &Options, input: i32, output: &mut impl Write) -> io::Result<()> {
    // The lines are not written on the watched CPUs.
    let others = sys::usable_cpus(0..libc::CPU_SETSIZE as usize);
    let others: Vec<usize> = others
        .into_iter()
        .filter(|cpu| !options.cpus.contains(cpu))
        .collect();
    let threads = Threads::start(options)?;
    if !others.is_empty() {
        sys::pin(&others)?;
    }
    let mut watcher = Watcher {
        options,
        threads,
        lateness: Vec::new(),
        spans: Vec::new(),
        stalls: 0,
    };
    let began = sys::now_ns();
    sys::sleep_until(began + TRIAL_NS);
    watcher.gather();
    let header = Line::Ticker {
        version: env!("CARGO_PKG_VERSION"),
        cpus: &options.cpus,
        gap_us: options.gap_ns as f64 / 1000.0,
        period_us: options.period_ns as f64 / 1000.0,
        realtime: watcher.threads.realtime,
        resolution_us: watcher.resolution_us().unwrap_or(f64::INFINITY),
        clocks: Clocks::read(),
    };
    write_line(output, &header)?;
    let reason = watcher.follow(began, input, output)?;
    watcher.pass_on(output)?;
    let end = Line::End {
        reason,
        stalls: watcher.stalls,
        watched_s: (sys::now_ns() - began) as f64 / 1e9,
    };
    write_line(output, &end)
}

struct Watcher<'a> {
    options: &'a Options,
    threads: Threads,
    lateness: Vec<u64>,
    spans: Vec<(usize, u64, u64, Clocks)>,
    stalls: u64,
}

impl Watcher<'_> {
    fn follow(&mut self, began: u64, input: i32, output: &mut impl Write) -> io::Result<Reason> {
        let end = self
            .options
            .for_ns
            .map_or(u64::MAX, |ns| began.saturating_add(ns));
        let mut next_clock = began + CLOCK_NS;
        let mut begun = Vec::new();
        loop {
            let now = sys::now_ns();
            if now >= end {
                return Ok(Reason::Done);
            }
            match sys::wait_readable_for(input, PASS_ON_NS.min(end - now)) {
                Readable::Stop => return Ok(Reason::Stopped),
                Readable::No => {}
                Readable::Yes => {
                    let mut piece = [0; 1024];
                    match sys::read(input, &mut piece)? {
                        0 => return Ok(Reason::Eof),
                        n => begun.extend_from_slice(&piece[..n]),
                    }
                    while let Some(at) = memchr::memchr(b'\n', &begun) {
                        let line: Vec<u8> = begun.drain(..=at).collect();
                        let asked = String::from_utf8_lossy(&line);
                        self.clock(Some(asked.trim_end()), output)?;
                    }
                    begun.truncate(1024);
                }
            }
            self.pass_on(output)?;
            if sys::now_ns() >= next_clock {
                self.clock(None, output)?;
                next_clock += CLOCK_NS;
            }
        }
    }

    fn gather(&mut self) {
        for message in self.threads.messages.try_iter() {
            match message {
                Message::Stall(cpu, start, end, clocks) => {
                    self.spans.push((cpu, start, end, clocks))
                }
                Message::Lateness(late) => self.lateness.extend(late),
            }
        }
    }

    fn resolution_us(&mut self) -> Option<f64> {
        let resolution = quantile_ns(&mut self.lateness, 0.99);
        self.lateness.clear();
        resolution.map(|ns| ns as f64 / 1000.0)
    }

    fn pass_on(&mut self, output: &mut impl Write) -> io::Result<()> {
        self.gather();
        self.stalls += self.spans.len() as u64;
        for (cpu, start, end, clocks) in self.spans.drain(..) {
            let stall = Line::Stall {
                cpu,
                monotonic_ns: (start, end),
                unix_ns: (clocks.unix(start), clocks.unix(end)),
            };
            write_line(output, &stall)?;
        }
        Ok(())
    }

    fn clock(&mut self, answer: Option<&str>, output: &mut impl Write) -> io::Result<()> {
        // The clocks first: a quick answer is the most accurate.
        let clocks = Clocks::read();
        let clock = Line::Clock {
            clocks,
            resolution_us: self.resolution_us(),
            steal_s: resources::steal_s(&self.options.cpus),
            answer,
        };
        write_line(output, &clock)
    }
}

fn write_line(output: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *output, line).map_err(io::Error::from)?;
    output.write_all(b"\n")?;
    output.flush()
}
