//! The threads of a window: one engine per CPU, one schedule and one result for all of them.

use std::fmt;
use std::io;
use std::sync::{Arc, Barrier};
use std::thread;

use super::counts::Book;
use super::event_loop::{EVENTS, Engine};
use super::freezing::{Freezing, Outstanding};
use super::ledger::Agenda;
use crate::live::Live;
use crate::plan::{Spin, Window};
use crate::pool::Pool;
use crate::processes::Frozen;
use crate::quic;
use crate::record::{Outcome, Sample};
use crate::resources::CpuTime;
use crate::schedule::Schedule;
use crate::stalls::Spans;
use crate::sys;

/// Time from the end of the preparations to the warm-up; threads take a while to wake up.
const LEAD_NS: u64 = 50_000;
const LEAD_OF_THREADS_NS: u64 = 2_000_000;

/// SIGTERM, SIGINT or the death of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// The measurements of one instance in a window.
#[derive(Debug)]
pub struct Arm {
    /// Requests intended in the measured part, in the order of their intended instants.
    pub samples: Vec<Sample>,
    /// Counts, errors and handshakes.
    pub book: Book,
    /// CPU time of the server's processes in the measured part.
    pub server_cpu_s: Option<f64>,
    /// The part of it within the instance's own slices; `None` without slices.
    pub turn_cpu_s: Option<f64>,
    /// Time for which the instance was stopped, from the warm-up to the drain.
    pub frozen_s: f64,
    /// The time in which it fell behind, until it was given up; `None` if it was not.
    pub behind: Option<(u64, u64)>,
}

/// The measurements of one window.
#[derive(Debug)]
pub struct Raw {
    /// The instance, or those that were measured in turn.
    pub arms: Vec<Arm>,
    /// The instants at which the turn passed from one instance to another.
    pub borders: Vec<u64>,
    /// Start of the measured part on the monotonic clock.
    pub start: u64,
    /// End of the measured part on the monotonic clock.
    pub end: u64,
    /// The instance that ended while the others were to be frozen, so none was.
    pub unfrozen: Option<usize>,
    /// True if a signal ended it.
    pub interrupted: bool,
    /// Start of the measured part, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Stalls of each of the generator's threads.
    pub stalls: Vec<Spans>,
    /// CPU time of the generator's threads in the measured part.
    pub generator_cpu_ns: u64,
    /// Share of the measured part in which the busiest loop had work.
    pub busy_share: f64,
    /// Counts of UDP and of QUIC's paths, from the preparations to the drain.
    pub path: quic::Path,
}

/// The measurements of one thread.
struct Part {
    books: Vec<Book>,
    stalls: Spans,
    cpu_ns: u64,
    /// CPU time of each instance, and in its turns; of the first thread only.
    server_cpu_s: Vec<Option<f64>>,
    in_turn_ns: Vec<u64>,
    /// Time for which each instance was stopped, or the one that could not be.
    frozen_ns: Result<Vec<u64>, usize>,
    /// When each instance fell behind, and was given up; of the first thread only.
    behind: Vec<Option<(u64, u64)>>,
    busy_share: f64,
    path: quic::Path,
    /// When it gave up its open requests.
    ended: u64,
}

/// The question for the instant at which a window begins, asked once all of its connections are
/// open; its answer is `None` if the window is not to begin.
#[derive(Clone, Copy)]
pub struct AskStart<'a>(pub &'a (dyn Fn() -> Option<u64> + Sync));

impl fmt::Debug for AskStart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AskStart")
    }
}

/// Settings of a measurement other than the load.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    /// Wait of the threads for the next request.
    pub spin: Spin,
    /// A longer gap between clock readings is a stall.
    pub gap_ns: u64,
    /// Process ids of each instance.
    pub pids: &'a [&'a [i32]],
    /// The processes that are stopped when it is not their turn.
    pub frozen: Option<&'a Frozen<'a>>,
    /// The CPU of each thread; empty if they are not pinned.
    pub cpus: &'a [usize],
    /// Figures for a progress line. With them, an interrupted window is kept up to the
    /// interruption.
    pub live: Option<Arc<Live>>,
    /// The question for the start of the warm-up; `None` to begin when the connections are open.
    pub start: Option<AskStart<'a>>,
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
        frozen,
        cpus,
        start,
        ..
    } = *settings;
    let mut agenda = Agenda::new(window, schedule, spin.every_ns(), settings.live.clone())?;
    let threads = pools.len();
    agenda.freezes = frozen.is_some();
    agenda.outstanding = (0..threads).map(|_| Outstanding::new()).collect();
    let ready = Barrier::new(threads);
    let part = |place: usize, pool: &mut Pool| {
        let connections = pool.each();
        // One thread is enough to read the CPU time of the server, and to stop it.
        let none = vec![&[] as &[i32]; pids.len()];
        let pids = if place == 0 { pids } else { &none };
        let mut engine = Engine::new(window, &agenda, spin, gap_ns, pids, pool);
        engine.place = place;
        engine.freezing = frozen.filter(|_| place == 0).map(Freezing::new);
        work(engine, window, connections, &ready, start)
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
    Ok(Ok(merge(&agenda, settings.pids.len(), whole)))
}

/// Run one thread's part of a window; return `None` if it was interrupted.
fn work(
    mut engine: Engine<'_>,
    window: &Window,
    connections: usize,
    ready: &Barrier,
    start: Option<AskStart<'_>>,
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
        let asked = start.map_or(Some(0), |AskStart(ask)| ask());
        if let Some(at) = asked {
            // An answer that came too late must not become a burst.
            agenda.begin(at.max(sys::now_ns() + lead), window);
        }
    }
    ready.wait();
    connected?;
    if !agenda.has_begun() {
        return Ok(None);
    }
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
        books: engine.ledger.books,
        stalls: engine.watch.spans,
        cpu_ns: engine.thread_cpu,
        server_cpu_s: engine.cpu.iter().map(CpuTime::seconds).collect(),
        in_turn_ns: engine.in_turn,
        behind: engine.backlogs.spans(),
        frozen_ns: engine.freezing.map_or(Ok(Vec::new()), |f| f.result()),
        busy_share: engine.busy_share.max(0.0),
        path: engine.pool.take_path(),
        ended,
    }))
}

fn merge(agenda: &Agenda, arms: usize, parts: Vec<Part>) -> Raw {
    let ended = parts.iter().map(|part| part.ended).max().unwrap_or(0);
    let (start, end) = (agenda.start(), agenda.end());
    let first = parts.first();
    let samples = agenda.samples(arms, ended).into_iter().enumerate();
    let arms: Vec<Arm> = samples
        .map(|(arm, samples)| {
            let mut book = Book::new(0);
            parts.iter().for_each(|part| book.merge(&part.books[arm]));
            let frozen_ns = first.and_then(|part| part.frozen_ns.as_ref().ok()?.get(arm));
            let server_cpu_s = first.and_then(|part| part.server_cpu_s[arm]);
            let in_turn_s = || first.map(|part| part.in_turn_ns[arm] as f64 / 1e9);
            Arm {
                samples,
                book,
                server_cpu_s,
                turn_cpu_s: server_cpu_s.and_then(|_| in_turn_s()).filter(|_| arms > 1),
                frozen_s: frozen_ns.map_or(0.0, |ns| *ns as f64 / 1e9),
                behind: first.and_then(|part| part.behind[arm]),
            }
        })
        .collect();
    let mut raw = Raw {
        arms,
        borders: agenda.borders(),
        start,
        end,
        unfrozen: first.and_then(|part| part.frozen_ns.as_ref().err().copied()),
        interrupted: agenda.was_cut_short(),
        started_unix_ns: sys::unix_ns() - (sys::now_ns() - start),
        stalls: Vec::with_capacity(parts.len()),
        generator_cpu_ns: 0,
        busy_share: 0.0,
        path: quic::Path::default(),
    };
    for part in parts {
        raw.stalls.push(part.stalls);
        raw.generator_cpu_ns += part.cpu_ns;
        raw.busy_share = raw.busy_share.max(part.busy_share);
        raw.path.add(&part.path);
    }
    raw
}
