//! The results of a window: one JSON line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cycles::{Cycles, Undisturbed};
use crate::engine::{Arm, Raw};
use crate::freeze::LEAD_NS;
use crate::histogram::{Latency, Summary};
use crate::plan::{Arrival, Instance, Mode, Protocol, Window};
use crate::quic;
use crate::record::Outcome;
use crate::series::{self, Part, PiecePart};
use crate::stalls::Spans;
use crate::tls::Tally;

/// The line of one window.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "window")]
pub struct WindowLine {
    /// The window's id.
    pub id: String,
    /// The instance's id.
    pub instance: String,
    /// The instance's part of a window that several share in slices; `None` otherwise.
    pub slices: Option<SliceFigures>,
    /// Open or closed loop.
    pub mode: Mode,
    /// The requested rate; `None` in a closed loop, with `rates`, and with recorded instants.
    pub rate_per_s: Option<f64>,
    /// The arrival process; `None` in a closed loop and with recorded instants.
    pub arrival: Option<Arrival>,
    /// Seed of the schedule.
    pub seed: u64,
    /// Number of connections.
    pub connections: usize,
    /// Concurrent requests per connection.
    pub streams: u32,
    /// Requests after which each connection is closed and reopened.
    pub requests_per_connection: Option<u64>,
    /// The generator's threads.
    pub threads: usize,
    /// The unrecorded part, in seconds.
    pub warmup_s: f64,
    /// Actual length of the measured part, in seconds.
    pub duration_s: f64,
    /// Start of the measured part, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// The same instant on this host's monotonic clock.
    pub started_monotonic_ns: u64,
    /// True if a signal ended the measured part.
    pub interrupted: bool,
    /// Requests intended in the measured part.
    pub offered: u64,
    /// Offered requests per second: the rate of the schedule as drawn.
    pub offered_per_s: f64,
    /// Offered requests that were answered as expected, including those answered during the drain.
    pub completed: u64,
    /// Good responses completed within the measured part, per second.
    pub achieved_per_s: f64,
    /// Errors by kind, only those that occurred.
    pub errors: BTreeMap<String, u64>,
    /// Requests not answered within the timeout.
    pub timeouts: u64,
    /// Requests never written.
    pub unsent: u64,
    /// Requests written and still open when the drain ended.
    pub in_flight: u64,
    /// Connections opened for the first time before the measured part.
    pub connects: u64,
    /// Connections reopened before the measured part.
    pub reopened: u64,
    /// Connections opened since the start of the measured part.
    pub reconnects: u64,
    /// Requests sent twice, because the connection closed at the same moment.
    pub retries: u64,
    /// Bytes received in the measured part.
    pub bytes_in: u64,
    /// Bytes sent in the measured part.
    pub bytes_out: u64,
    /// The latencies.
    pub latency: Latency,
    /// The measured part second by second.
    pub seconds: Vec<Part>,
    /// The measured part by the pieces of its `rates`; `None` without `rates`.
    pub pieces: Option<Vec<PiecePart>>,
    /// Time from dispatch to write, of the requests that a shared connection could not write at
    /// once: the client's own part of the service time and the send lag.
    pub blocked: Summary,
    /// Handshakes.
    pub handshakes: Handshakes,
    /// Encryption; `None` in cleartext.
    pub tls: Option<TlsCounts>,
    /// Datagrams and paths; `None` unless the protocol is HTTP/3.
    pub quic: Option<QuicCounts>,
    /// The stalls.
    pub stalls: Stalls,
    /// The interval at which requests were sent together, in microseconds; `None` if each was sent
    /// at its own instant.
    pub sent_every_us: Option<u64>,
    /// Time stolen by the hypervisor from each CPU of generator and ticker, in seconds, from the
    /// warm-up to the drain.
    pub steal_s: BTreeMap<usize, f64>,
    /// CPU time of the generator's thread in the measured part.
    pub generator_cpu_s: f64,
    /// CPU time of the server's processes in the measured part; `None` if none could be read.
    pub server_cpu_s: Option<f64>,
    /// Time for which the server's threads were ready to run but waited for a CPU, from the warm-up
    /// to the drain: for one another, or for other processes.
    pub server_wait_s: Option<f64>,
    /// Resident memory of the server's processes after the window; `None` if none could be read.
    pub server_rss_bytes: Option<u64>,
    /// Share of the measured part in which the generator's loop had work.
    pub generator_busy_share: f64,
    /// The protocol.
    pub protocol: &'static str,
    /// The file of samples, if it was written.
    pub samples: Option<PathBuf>,
    /// Warnings about this window.
    pub warnings: Vec<String>,
}

/// Time to open connections: from the first packet until a request could be sent. Failed attempts
/// are counted as errors.
#[derive(Debug, Serialize)]
pub struct Handshakes {
    /// Handshakes before the measured part.
    pub before: Summary,
    /// Handshakes since its start.
    pub during: Summary,
}

/// Negotiated encryption.
#[derive(Debug, Serialize)]
pub struct TlsCounts {
    /// Connections used in this window, by version.
    pub version: BTreeMap<&'static str, u64>,
    /// Connections by cipher suite.
    pub cipher: BTreeMap<&'static str, u64>,
    /// Connections by group of the key exchange.
    pub group: BTreeMap<&'static str, u64>,
    /// Full TLS handshakes of this window, including those of the preparations.
    pub full: u64,
    /// TLS handshakes that resumed a session.
    pub resumed: u64,
    /// Duration of the handshakes, from the established TCP connection on.
    pub handshake: Summary,
}

impl TlsCounts {
    fn of(tally: &Tally) -> Self {
        Self {
            version: tally.versions.clone(),
            cipher: tally.ciphers.clone(),
            group: tally.groups.clone(),
            full: tally.full,
            resumed: tally.resumed,
            handshake: Summary::of(&tally.handshakes),
        }
    }
}

/// Counts of UDP and of the paths, from the preparations to the drain.
#[derive(Debug, Serialize)]
pub struct QuicCounts {
    /// Datagrams received.
    pub datagrams_in: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Sent packets that were declared lost.
    pub lost_packets: u64,
    /// The smallest round-trip time, in microseconds; `None` without a connection.
    pub rtt_min_us: Option<f64>,
    /// The largest smoothed round-trip time of a connection at its last reading. It includes
    /// delayed acknowledgements, except for the delay that the server reports.
    pub rtt_max_us: Option<f64>,
}

impl QuicCounts {
    fn of(path: &quic::Path) -> Self {
        let us = |rtt: Option<u64>| rtt.map(|ns| ns as f64 / 1e3);
        Self {
            datagrams_in: path.datagrams_in,
            datagrams_out: path.datagrams_out,
            lost_packets: path.lost_packets,
            rtt_min_us: us(path.rtt_min_ns),
            rtt_max_us: us(path.rtt_max_ns),
        }
    }
}

/// An instance's part of a window that several share in slices.
#[derive(Debug, Serialize)]
pub struct SliceFigures {
    /// Number of instances.
    pub instances: usize,
    /// Place of this instance among them, from 0.
    pub place: usize,
    /// Length of a slice, in milliseconds.
    pub length_ms: f64,
    /// The place of the instance at turn, by slice from the start of the measured part.
    pub order: Vec<u8>,
    /// CPU time of the server's processes within its own slices; `None` if it could not be read.
    pub turn_cpu_s: Option<f64>,
    /// True if the instances were stopped when it was not their turn: all of them, or none.
    pub frozen: bool,
    /// Why they were not, although the plan asked for it; `None` otherwise.
    pub not_frozen: Option<String>,
    /// Time for which this one was stopped, from the warm-up to the drain, in seconds.
    pub frozen_s: f64,
    /// When this one began to fall behind, and when it was given up since its backlog went on growing,
    /// in nanoseconds from the start of the measured part; `None` if it was not. In that time no
    /// request of the window counts as undisturbed, and from then on it was sent none.
    pub behind: Option<(i64, i64)>,
    /// Time before a border in which the next instance is continued, in microseconds; 0 unless
    /// they are frozen.
    pub lead_us: u64,
    /// Number of outstanding requests above which a busy cycle begins.
    pub level: usize,
    /// Corrected latency of the requests that neither a stall nor a border between slices affected.
    pub undisturbed: Undisturbed,
}

impl SliceFigures {
    fn new(window: &Window, raw: &Raw, place: usize, cycles: &Cycles, context: &Context) -> Self {
        Self {
            instances: raw.arms.len(),
            place,
            length_ms: window
                .slices
                .as_ref()
                .map_or(0.0, |slices| slices.length_ms),
            order: window.turns().measured().to_vec(),
            turn_cpu_s: raw.arms[place].turn_cpu_s,
            frozen: context.frozen,
            not_frozen: context.not_frozen.clone(),
            frozen_s: raw.arms[place].frozen_s,
            behind: raw.arms[place].behind.map(|(from, to)| {
                let since_start = |ns: u64| ns as i64 - raw.start as i64;
                (since_start(from), since_start(to))
            }),
            lead_us: lead_ns(context.frozen) / 1000,
            level: window.level(),
            undisturbed: cycles.summary(&raw.arms[place].samples),
        }
    }
}

/// Return how long before its slice an instance is continued.
fn lead_ns(frozen: bool) -> u64 {
    if frozen { LEAD_NS } else { 0 }
}

/// Return the busy cycles of a window that instances share in slices; `None` for one instance. An
/// instance that wakes up takes the core from the one at turn, so that time is a disturbance.
pub fn cycles(
    window: &Window,
    raw: &Raw,
    server: &[(usize, Spans)],
    frozen: bool,
) -> Option<Cycles> {
    window.slices.as_ref()?;
    let behind = || raw.arms.iter().filter_map(|arm| arm.behind);
    let spans = raw
        .stalls
        .iter()
        .chain(server.iter().map(|(_, spans)| spans))
        .flat_map(|spans| spans.list.iter().copied());
    let borders = raw.borders.iter();
    let waking = borders.map(|at| (at.saturating_sub(lead_ns(frozen)), *at));
    Some(Cycles::new(
        raw.arms.iter().flat_map(load),
        spans.chain(waking).chain(behind()),
        raw.borders.iter().copied(),
        (raw.start, raw.end),
        window.level(),
    ))
}

/// Return the begin and the end of an instance's requests, up to the moment at which it fell behind if
/// it was given up. Later ones did not reach it, or waited for its own slices.
fn load(arm: &Arm) -> impl Iterator<Item = (u64, u64)> {
    let (from, to) = arm.behind.unwrap_or((u64::MAX, u64::MAX));
    let samples = arm.samples.iter();
    let counted = samples.take_while(move |sample| sample.intended < from);
    counted.map(move |sample| (sample.intended, sample.completed.min(to)))
}

/// Stalls, in nanoseconds from the start of the measured part; earlier instants are negative.
#[derive(Debug, Serialize)]
pub struct Stalls {
    /// The shortest gap that counts as a stall, in microseconds.
    pub gap_us: u64,
    /// True if the ticker had real-time priority; without it, there are no stalls of the server.
    pub realtime: bool,
    /// Start and end of stalls of the generator's cores, in order of the start.
    pub generator: Vec<(i64, i64)>,
    /// The CPU of each of these, if there are several threads.
    pub generator_cpus: Option<Vec<usize>>,
    /// CPU, start and end of stalls of the server's cores.
    pub server: Vec<(usize, i64, i64)>,
    /// Stalls that did not fit in the lists.
    pub lost: u64,
}

/// Facts about a window that its loop does not measure.
#[derive(Debug)]
pub struct Context {
    /// The interval at which requests were sent together, in microseconds.
    pub sent_every_us: Option<u64>,
    /// The shortest gap that counts as a stall, in microseconds.
    pub gap_us: u64,
    /// True if there was a real-time ticker.
    pub realtime: bool,
    /// The stalls that the ticker saw, by CPU.
    pub server: Vec<(usize, Spans)>,
    /// Stolen time of each CPU, in seconds.
    pub steal_s: BTreeMap<usize, f64>,
    /// Time for which the server's threads waited for a CPU.
    pub server_wait_s: Option<f64>,
    /// Resident memory of the server.
    pub server_rss_bytes: Option<u64>,
    /// Folder to write the samples to.
    pub samples_dir: Option<PathBuf>,
    /// True if the instances were stopped when it was not their turn.
    pub frozen: bool,
    /// Why they were not, although the plan asked for it.
    pub not_frozen: Option<String>,
    /// Warnings so far.
    pub warnings: Vec<String>,
}

impl WindowLine {
    /// Make the line of the instance at this place among those of the window, and write the samples
    /// if there is a folder for them.
    pub fn new(
        window: &Window,
        instance: &Instance,
        cpus: &[usize],
        raw: &Raw,
        place: usize,
        cycles: Option<&Cycles>,
        context: Context,
    ) -> Self {
        let arm = &raw.arms[place];
        let book = &arm.book;
        let figures = |cycles| SliceFigures::new(window, raw, place, cycles, &context);
        let slices = cycles.map(figures);
        let mut warnings = context.warnings;
        let saved = context
            .samples_dir
            .as_deref()
            .map(|dir| save(dir, window, raw, place));
        let samples = match saved.transpose() {
            Ok(path) => path,
            Err(message) => {
                warnings.push(message);
                None
            }
        };
        let count = |outcome| {
            let samples = arm.samples.iter();
            samples.filter(|s| s.outcome == outcome).count() as u64
        };
        let open = window.mode == Mode::Open;
        // The instances of a window share its time.
        let duration_s = (raw.end - raw.start) as f64 / 1e9 / raw.arms.len() as f64;
        let relative = |(start, end): &(u64, u64)| {
            let from = |ns: u64| ns.wrapping_sub(raw.start) as i64;
            (from(*start), from(*end))
        };
        let threads = raw.stalls.iter().enumerate();
        let mut generator: Vec<_> = threads
            .flat_map(|(thread, spans)| {
                let cpu = cpus.get(thread).copied().unwrap_or(0);
                spans.list.iter().map(move |span| (relative(span), cpu))
            })
            .collect();
        generator.sort_unstable();
        let lost: u64 = raw.stalls.iter().map(|spans| spans.lost).sum();
        let server = context.server.iter();
        let stalls = Stalls {
            gap_us: context.gap_us,
            realtime: context.realtime,
            generator: generator.iter().map(|(span, _)| *span).collect(),
            generator_cpus: (raw.stalls.len() > 1)
                .then(|| generator.iter().map(|(_, cpu)| *cpu).collect()),
            server: server
                .clone()
                .flat_map(|(cpu, spans)| {
                    let spans = spans.list.iter().map(relative);
                    spans.map(|(start, end)| (*cpu, start, end))
                })
                .collect(),
            lost: lost + server.map(|(_, spans)| spans.lost).sum::<u64>(),
        };
        Self {
            id: window.id.clone(),
            instance: instance.id.clone(),
            slices,
            mode: window.mode,
            rate_per_s: window.rate_per_s.filter(|_| open),
            arrival: (open && window.instants_file.is_none()).then_some(window.arrival),
            seed: window.seed,
            connections: window.connections,
            streams: window.streams,
            requests_per_connection: window.requests_per_connection,
            threads: raw.stalls.len(),
            warmup_s: window.warmup_s,
            duration_s,
            started_unix_ns: raw.started_unix_ns,
            started_monotonic_ns: raw.start,
            interrupted: raw.interrupted,
            offered: arm.samples.len() as u64,
            offered_per_s: arm.samples.len() as f64 / duration_s,
            completed: count(Outcome::Ok),
            achieved_per_s: book.counts.in_time as f64 / duration_s,
            errors: book.errors.by_name(),
            timeouts: count(Outcome::Timeout),
            unsent: count(Outcome::Unsent),
            in_flight: count(Outcome::InFlight),
            connects: book.counts.connects,
            reopened: book.counts.reopened,
            reconnects: book.counts.reconnects,
            retries: book.counts.retries,
            bytes_in: book.counts.bytes_in,
            bytes_out: book.counts.bytes_out,
            latency: Latency::of(&arm.samples),
            seconds: series::per_second(&arm.samples, raw.start, raw.end - raw.start),
            pieces: window
                .rates
                .as_ref()
                .filter(|_| open)
                .map(|pieces| series::per_piece(&arm.samples, raw.start, pieces)),
            blocked: Summary::of(&book.blocked),
            handshakes: Handshakes {
                before: Summary::of(&book.handshakes[0]),
                during: Summary::of(&book.handshakes[1]),
            },
            quic: (instance.protocol == Protocol::Http3).then(|| QuicCounts::of(&raw.path)),
            tls: instance.tls.is_some().then(|| TlsCounts::of(&book.tls)),
            stalls,
            sent_every_us: context.sent_every_us.filter(|_| open),
            steal_s: context.steal_s,
            generator_cpu_s: raw.generator_cpu_ns as f64 / 1e9,
            server_cpu_s: arm.server_cpu_s,
            server_wait_s: context.server_wait_s,
            server_rss_bytes: context.server_rss_bytes,
            generator_busy_share: raw.busy_share,
            protocol: instance.protocol.name(),
            samples,
            warnings,
        }
    }
}

fn save(dir: &Path, window: &Window, raw: &Raw, place: usize) -> Result<PathBuf, String> {
    let name = match &window.slices {
        Some(_) => format!("{}.{place}.samples", window.id),
        None => format!("{}.samples", window.id),
    };
    let path = dir.join(name);
    std::fs::create_dir_all(dir)
        .and_then(|()| crate::record::save(&path, &raw.arms[place].samples, raw.start))
        .map_err(|error| format!("samples not written: {}: {error}", path.display()))?;
    Ok(path)
}

/// The line of a window that waits to start, with all connections open.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "ready")]
pub struct ReadyLine<'a> {
    /// The window's id.
    pub id: &'a str,
}

/// The last line of a plan.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "end")]
pub struct EndLine {
    /// The reason why it ended.
    pub reason: Reason,
    /// Windows measured.
    pub windows: usize,
    /// Windows skipped, because their instance was dropped or the plan was stopped.
    pub skipped: usize,
}

/// The reason why a plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// All windows were measured.
    Done,
    /// The controller stopped it.
    Stopped,
    /// Standard input ended.
    Eof,
}
