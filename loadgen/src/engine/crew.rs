//! The threads of a window: one engine per CPU, one schedule and one result for all of them.

use std::io;
use std::sync::{Arc, Barrier};
use std::thread;

use hdrhistogram::Histogram;

use super::counts::Counts;
use super::event_loop::{EVENTS, Engine};
use super::ledger::Agenda;
use crate::errors::Errors;
use crate::histogram;
use crate::live::Live;
use crate::plan::{Spin, Window};
use crate::pool::Pool;
use crate::quic;
use crate::record::{Outcome, Sample};
use crate::schedule::Schedule;
use crate::stalls::Spans;
use crate::sys;
use crate::tls::Tally;

/// Time from the end of the preparations to the warm-up; threads take a while to wake up.
const LEAD_NS: u64 = 50_000;
const LEAD_OF_THREADS_NS: u64 = 2_000_000;

/// SIGTERM, SIGINT or the death of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// The measurements of one window.
#[derive(Debug)]
pub struct Raw {
    /// Requests intended in the measured part, in the order of their intended instants.
    pub samples: Vec<Sample>,
    /// Counts.
    pub counts: Counts,
    /// Errors by kind.
    pub errors: Errors,
    /// Start of the measured part on the monotonic clock.
    pub start: u64,
    /// End of the measured part on the monotonic clock.
    pub end: u64,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// Start of the measured part, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Stalls of each of the generator's threads.
    pub stalls: Vec<Spans>,
    /// CPU time of the generator's threads in the measured part.
    pub generator_cpu_ns: u64,
    /// CPU time of the server's processes in the measured part.
    pub server_cpu_s: Option<f64>,
    /// Share of the measured part in which the busiest loop had work.
    pub busy_share: f64,
    /// Time from dispatch to write, of the requests that a shared connection could not write at
    /// once.
    pub blocked: Histogram<u64>,
    /// Successful handshakes: before the measured part, and since its start.
    pub handshakes: [Histogram<u64>; 2],
    /// Negotiated encryption.
    pub tls: Tally,
    /// Counts of UDP and of QUIC's paths, from the preparations to the drain.
    pub path: quic::Path,
}

/// The measurements of one thread.
struct Part {
    counts: Counts,
    errors: Errors,
    stalls: Spans,
    cpu_ns: u64,
    server_cpu_s: Option<f64>,
    busy_share: f64,
    blocked: Histogram<u64>,
    handshakes: [Histogram<u64>; 2],
    tls: Tally,
    path: quic::Path,
    /// When it gave up its open requests.
    ended: u64,
}

/// Settings of a measurement other than the load.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    /// How the threads wait for the next request.
    pub spin: Spin,
    /// A longer gap between clock readings is a stall.
    pub gap_ns: u64,
    /// Process ids of the server.
    pub pids: &'a [i32],
    /// The CPU of each thread; empty if they are not pinned.
    pub cpus: &'a [usize],
    /// Figures for a progress line. With them, an interrupted window is kept up to the
    /// interruption.
    pub live: Option<Arc<Live>>,
}

/// Measure one window with one thread for each pool, pinned to the CPU with the same index if there
/// is one. The calling thread serves a single pool.
///
/// # Errors
/// The inner error is [`Interrupted`]; the outer one is an error of the system before the window
/// began.
pub fn run(
    window: &Window,
    schedule: Schedule,
    settings: &Settings<'_>,
    pools: &mut [Pool],
) -> io::Result<Result<Raw, Interrupted>> {
    let Settings {
        spin,
        gap_ns,
        pids,
        cpus,
        ..
    } = *settings;
    let agenda = Agenda::new(window, schedule, spin.every_ns(), settings.live.clone())?;
    let threads = pools.len();
    let ready = Barrier::new(threads);
    let part = |place: usize, pool: &mut Pool| {
        let connections = share(window.connections, threads, place);
        // One thread is enough to read the CPU time of the server.
        let pids = if place == 0 { pids } else { &[] };
        let engine = Engine::new(window, &agenda, connections, spin, gap_ns, pids, pool);
        work(engine, window, connections, &ready)
    };
    let parts: Vec<io::Result<Option<Part>>> = if let [pool] = pools {
        vec![part(0, pool)]
    } else {
        thread::scope(|scope| {
            let mut handles = Vec::with_capacity(threads);
            for (place, pool) in pools.iter_mut().enumerate() {
                let (part, cpu) = (&part, cpus.get(place).copied());
                handles.push(scope.spawn(move || {
                    // The session has checked the CPUs.
                    let _ = cpu.map(|cpu| sys::pin(&[cpu]));
                    sys::set_precise_timers();
                    part(place, pool)
                }));
            }
            let ended = handles.into_iter().map(thread::ScopedJoinHandle::join);
            ended
                .map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    };
    let mut whole = Vec::with_capacity(threads);
    for part in parts {
        match part? {
            Some(part) => whole.push(part),
            None => return Ok(Err(Interrupted)),
        }
    }
    Ok(Ok(merge(&agenda, whole)))
}

/// Return the share of one thread, of `n` things for all.
pub fn share(n: usize, threads: usize, place: usize) -> usize {
    n / threads + usize::from(place < n % threads)
}

/// Run one thread's part of a window; return `None` if it was interrupted.
fn work(
    mut engine: Engine<'_>,
    window: &Window,
    connections: usize,
    ready: &Barrier,
) -> io::Result<Option<Part>> {
    let agenda = engine.ledger.agenda;
    engine.pool.take_path();
    // The events are separate from the engine, because handling one borrows the engine.
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    let connected = engine.connect(connections, &mut events);
    let threads = ready.wait();
    if threads.is_leader() {
        let lead = if connections == window.connections {
            LEAD_NS
        } else {
            LEAD_OF_THREADS_NS
        };
        agenda.begin(sys::now_ns() + lead, window);
    }
    ready.wait();
    connected?;
    engine.begin();
    while engine.turn(&mut events)? {
        if sys::stop_requested() && !engine.stop() {
            return Ok(None);
        }
    }
    let ended = engine.watch.tick();
    while let Some((slot, _)) = engine.pool.slots.oldest() {
        engine.give_up(slot, ended, Outcome::InFlight);
    }
    engine.ledger.close(ended);
    Ok(Some(Part {
        counts: engine.ledger.counts,
        errors: engine.ledger.errors,
        stalls: engine.watch.spans,
        cpu_ns: engine.thread_cpu,
        server_cpu_s: engine.cpu.seconds(),
        busy_share: engine.busy_share.max(0.0),
        blocked: engine.ledger.blocked,
        handshakes: engine.ledger.handshakes,
        tls: engine.ledger.tls,
        path: engine.pool.take_path(),
        ended,
    }))
}

fn merge(agenda: &Agenda, parts: Vec<Part>) -> Raw {
    let ended = parts.iter().map(|part| part.ended).max().unwrap_or(0);
    let start = agenda.start();
    let mut raw = Raw {
        samples: agenda.samples(ended),
        counts: Counts::default(),
        errors: Errors::new(),
        start,
        end: agenda.end(),
        interrupted: agenda.was_cut_short(),
        started_unix_ns: sys::unix_ns() - (sys::now_ns() - start),
        stalls: Vec::with_capacity(parts.len()),
        generator_cpu_ns: 0,
        server_cpu_s: None,
        busy_share: 0.0,
        blocked: histogram::new(),
        handshakes: [histogram::new(), histogram::new()],
        tls: Tally::new(),
        path: quic::Path::default(),
    };
    for part in parts {
        raw.counts += part.counts;
        raw.errors.merge(&part.errors);
        raw.stalls.push(part.stalls);
        raw.generator_cpu_ns += part.cpu_ns;
        raw.server_cpu_s = raw.server_cpu_s.or(part.server_cpu_s);
        raw.busy_share = raw.busy_share.max(part.busy_share);
        // All histograms have the same bounds, so this cannot fail.
        let _ = raw.blocked.add(part.blocked);
        for (all, its) in raw.handshakes.iter_mut().zip(part.handshakes) {
            let _ = all.add(its);
        }
        raw.tls.merge(&part.tls);
        raw.path.add(&part.path);
    }
    raw
}
