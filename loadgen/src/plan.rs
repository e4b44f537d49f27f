//! The plan: the load to offer to each instance, and in which order. JSON, version 1.
//!
//! Unknown fields are rejected, because ignoring a misspelt field would measure something else than
//! requested. Every message names the JSON path, the value, and what is allowed.

mod check;
pub mod urls;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};

pub use crate::profile::Piece;
use crate::slices::Turns;

/// The phase of equal gaps that a single generator offers.
pub const WHOLE_PHASE: f64 = 0.5;

/// A list of windows over instances.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The version of this format: 1.
    pub version: u32,
    /// The CPUs of the generator's threads, one thread on each; empty: one thread, not pinned.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// Wait for the next intended instant.
    #[serde(default)]
    pub spin: Spin,
    /// The stall ticker for the server's CPUs.
    #[serde(default)]
    pub ticker: Option<Ticker>,
    /// A gap longer than this is a stall, in microseconds.
    #[serde(default = "default_gap_us")]
    pub gap_us: u64,
    /// True if each window, once its connections are open, waits for the controller to name the
    /// instant at which it begins. Several generators thus begin together.
    #[serde(default)]
    pub wait_to_start: bool,
    /// Folder for the samples of each window.
    #[serde(default)]
    pub samples_dir: Option<PathBuf>,
    /// The mix of requests, drawn by weight.
    pub requests: Vec<Request>,
    /// The servers under test.
    pub instances: Vec<Instance>,
    /// The windows, in order.
    pub windows: Vec<Window>,
}

/// A way to wait for the next intended instant.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Spin {
    /// Never sleep, on a core of its own.
    #[default]
    Full,
    /// Sleep until the next request is due: cheap, and some 25 to 60 µs late.
    Off,
    /// Sleep, and spin for the last microseconds.
    LastUs(u64),
    /// Sleep until the next multiple of this many microseconds, counted from the start of the
    /// schedule, and send all requests that are due by then together: cheaper still, and late by up
    /// to this time, like wrk2 with its clock of milliseconds. A closed loop waits as with `off`.
    EveryUs(u64),
}

impl Spin {
    /// Return the interval at which requests are sent together; `None` if each is sent at its own
    /// instant.
    pub fn every_ns(self) -> Option<u64> {
        match self {
            Self::EveryUs(us) if us > 0 => Some(us * 1000),
            _ => None,
        }
    }
}

/// The real-time ticker that detects stalls of the server's CPUs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticker {
    /// The CPUs to watch, one thread on each.
    pub cpus: Vec<usize>,
    /// Time between wake-ups, in microseconds.
    #[serde(default = "default_period_us")]
    pub period_us: u64,
    /// SCHED_FIFO priority, 1 to 99.
    #[serde(default = "default_priority")]
    pub priority: i32,
}

/// One kind of request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Share of the mix, relative to the other requests.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// The method.
    #[serde(default = "default_method")]
    pub method: String,
    /// The target in origin form; empty until [`Plan::resolve`] if there is a `urls_file`.
    #[serde(default)]
    pub path: String,
    /// Instead of `path`: a file of URLs or paths, one per line, which share the weight.
    #[serde(default)]
    pub urls_file: Option<PathBuf>,
    /// Header fields in order; `Host` and `Content-Length` are added unless given.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(default)]
    pub body_base64: Option<String>,
    /// Instead of `body_base64`: a file that contains the body.
    #[serde(default)]
    pub body_file: Option<PathBuf>,
    /// The expected response.
    #[serde(default)]
    pub expect: Option<Expect>,
}

/// The expected response; absent fields are not checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The status code.
    #[serde(default)]
    pub status: Option<u16>,
    /// Bytes of the body, without chunking.
    #[serde(default)]
    pub length: Option<u64>,
    /// SHA-256 of the body in hexadecimal.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Which responses the hash is checked on.
    #[serde(default)]
    pub check: Check,
}

/// Which responses a hash is checked on. Checking takes some 2 µs of the generator's time per kB.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// The first ones, and every 64th.
    #[default]
    Sample,
    /// Every response.
    All,
}

/// One server under test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// The name that windows refer to.
    pub id: String,
    /// IP address and port.
    pub address: SocketAddr,
    /// The `Host` field; the address if absent.
    #[serde(default)]
    pub host: Option<String>,
    /// Process ids, for CPU time and memory, and for `freeze`.
    #[serde(default)]
    pub pids: Vec<i32>,
    /// The protocol.
    #[serde(default)]
    pub protocol: Protocol,
    /// TLS settings; cleartext if absent.
    #[serde(default)]
    pub tls: Option<Tls>,
}

/// The client's side of TLS.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The name to request, which the certificate must be valid for; the host's if absent.
    #[serde(default)]
    pub server_name: Option<String>,
    /// The trusted certificates, in PEM; the system's if absent.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// True to verify the certificate.
    #[serde(default = "yes")]
    pub verify: bool,
    /// True to resume earlier sessions.
    #[serde(default = "yes")]
    pub resume: bool,
}

/// The protocol of an instance.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP/1.1: one request at a time on each connection.
    #[default]
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

impl Protocol {
    /// Return its name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
            Self::Http3 => "http/3",
        }
    }
}

/// One uninterrupted measurement of one instance, or of several in turn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The name, also of the file of samples.
    pub id: String,
    /// The instance; absent with `slices`.
    #[serde(default)]
    pub instance: String,
    /// Instances that are measured in turn; absent with `instance`.
    #[serde(default)]
    pub slices: Option<Slices>,
    /// Open or closed loop.
    pub mode: Mode,
    /// The offered rate, for an open loop without `rates` and `instants_file`.
    #[serde(default)]
    pub rate_per_s: Option<f64>,
    /// Consecutive rates over the measured part; the warm-up has the first one.
    #[serde(default)]
    pub rates: Option<Vec<Piece>>,
    /// A text of recorded instants, one per line, from the start of the measured part; the warm-up
    /// has their mean rate.
    #[serde(default)]
    pub instants_file: Option<PathBuf>,
    /// The unit of the recorded instants.
    #[serde(default)]
    pub instants_unit: InstantsUnit,
    /// The arrival process of an open loop without recorded instants.
    #[serde(default)]
    pub arrival: Arrival,
    /// The first instant of equal gaps, as a share of a gap: n generators that offer a share each
    /// have (i + 0.5)/n, so that their instants interleave.
    #[serde(default = "default_phase")]
    pub phase: f64,
    /// Seed of the schedule.
    #[serde(default)]
    pub seed: u64,
    /// Number of connections, all opened before the warm-up.
    pub connections: usize,
    /// Concurrent requests per connection.
    #[serde(default = "default_streams")]
    pub streams: u32,
    /// Requests after which a connection is closed and reopened.
    #[serde(default)]
    pub requests_per_connection: Option<u64>,
    /// The part before the measured one, at the same rate and not recorded, in seconds.
    #[serde(default)]
    pub warmup_s: f64,
    /// The measured part, in seconds.
    pub duration_s: f64,
    /// The longest time that a written request may stay unanswered, and the longest drain, in
    /// seconds.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: f64,
}

/// Several instances that share a window: the load goes to them in turn, a slice to each.
///
/// In each set of slices every instance has one, in random order. All connections stay open. The
/// measured part is rounded down to whole sets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slices {
    /// Ids of the instances.
    pub instances: Vec<String>,
    /// Length of a slice, in milliseconds.
    #[serde(default = "default_slice_ms")]
    pub length_ms: f64,
    /// Busy cycles are counted above this number of outstanding requests (see `cycles`); by default
    /// 0, and in a closed loop the number of requests that it keeps outstanding.
    #[serde(default)]
    pub level: Option<usize>,
    /// True if the instances are stopped (SIGSTOP) when it is not their turn: those need `pids`.
    #[serde(default)]
    pub freeze: bool,
    /// True if the slices of a set have the same requests, at the same instants of each.
    #[serde(default)]
    pub same_arrivals: bool,
}

impl Slices {
    /// Return the length of a slice in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        (self.length_ms * 1e6) as u64
    }
}

/// The rule that decides when a request is sent.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The schedule.
    Open,
    /// The response to the previous request.
    Closed,
}

/// The arrival process of an open loop.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// Independent exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Constant,
}

/// The unit of recorded instants.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum InstantsUnit {
    /// Seconds with a decimal point.
    #[default]
    S,
    /// Whole nanoseconds.
    Ns,
}

fn default_gap_us() -> u64 {
    100
}
fn default_period_us() -> u64 {
    500
}
fn default_priority() -> i32 {
    50
}
fn yes() -> bool {
    true
}
fn default_slice_ms() -> f64 {
    20.0
}
fn default_phase() -> f64 {
    WHOLE_PHASE
}
fn default_streams() -> u32 {
    1
}
fn default_weight() -> f64 {
    1.0
}
fn default_method() -> String {
    "GET".into()
}
fn default_timeout_s() -> f64 {
    2.0
}

/// Escape control characters: text quoted from a plan must print as one line.
fn on_one_line(text: &str) -> String {
    let escaped = |c: char| c.is_control().then(|| c.escape_default().to_string());
    text.chars()
        .map(|c| escaped(c).unwrap_or_else(|| c.into()))
        .collect()
}

/// The reason why a plan is rejected.
#[derive(Debug, PartialEq, Eq)]
pub struct PlanError {
    /// JSON path, such as `windows[0].rate_per_s`.
    pub path: String,
    /// The invalid value and what is allowed.
    pub message: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() || self.path == "." {
            write!(f, "plan: {}", self.message)
        } else {
            write!(f, "plan: {}: {}", self.path, self.message)
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Read and check a plan, and the files that it names.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        Self::read(text)?.resolve()
    }

    /// Read and check a plan, without the files that it names.
    pub fn read(text: &str) -> Result<Self, PlanError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let plan: Self =
            serde_path_to_error::deserialize(&mut json).map_err(|error| PlanError {
                path: on_one_line(&error.path().to_string()),
                message: on_one_line(&error.into_inner().to_string()),
            })?;
        json.end().map_err(|error| PlanError {
            path: String::new(),
            message: error.to_string(),
        })?;
        plan.check()?;
        Ok(plan)
    }

    /// Replace names of files by their contents: each line of a `urls_file` becomes a request, with
    /// the method, headers, body and expectations of the request that names the file.
    pub fn resolve(mut self) -> Result<Self, PlanError> {
        let mut requests = Vec::with_capacity(self.requests.len());
        for (i, mut request) in self.requests.into_iter().enumerate() {
            let refuse = |field: &str, message: String| PlanError {
                path: format!("requests[{i}].{field}"),
                message,
            };
            if let Some(path) = request.body_file.take() {
                let body = std::fs::read(&path)
                    .map_err(|e| refuse("body_file", format!("{}: {e}", path.display())))?;
                request.body_base64 = Some(STANDARD.encode(body));
            }
            let Some(path) = request.urls_file.take() else {
                requests.push(request);
                continue;
            };
            let entries = urls::read(&path).map_err(|message| refuse("urls_file", message))?;
            let total: f64 = entries.iter().map(|entry| entry.weight).sum();
            requests.extend(entries.into_iter().map(|entry| request.at(entry, total)));
        }
        self.requests = requests;
        self.check()?;
        Ok(self)
    }
}

impl Request {
    /// Return this request with the target of a list's entry; `total` is the sum of the list's
    /// weights.
    fn at(&self, entry: urls::Entry, total: f64) -> Self {
        let mut request = self.clone();
        request.path = entry.path;
        request.weight *= entry.weight / total;
        if let Some(method) = entry.method {
            request.method = method;
        }
        let given = |(name, _): &(String, String)| name.eq_ignore_ascii_case("host");
        if let Some(authority) = entry.authority
            && !request.headers.iter().any(given)
        {
            request.headers.insert(0, ("Host".into(), authority));
        }
        request
    }

    /// Return the decoded body.
    pub fn body(&self) -> Option<Vec<u8>> {
        self.body_base64
            .as_ref()
            .and_then(|body| STANDARD.decode(body).ok())
    }
}

impl Window {
    /// Return the offered rates of the measured part; empty for a closed loop and for recorded
    /// instants.
    pub fn pieces(&self) -> Vec<Piece> {
        let whole = |rate_per_s| {
            vec![Piece {
                for_s: self.duration_s,
                rate_per_s,
                to_rate_per_s: None,
            }]
        };
        match (self.mode, &self.rates) {
            (Mode::Closed, _) => Vec::new(),
            (Mode::Open, Some(rates)) => rates.clone(),
            (Mode::Open, None) => self.rate_per_s.map(whole).unwrap_or_default(),
        }
    }

    /// Return the length of the warm-up in nanoseconds.
    pub fn warmup_ns(&self) -> u64 {
        (self.warmup_s * 1e9) as u64
    }

    /// Return the length of the measured part in nanoseconds: whole sets of slices, if it has some.
    pub fn duration_ns(&self) -> u64 {
        let ns = (self.duration_s * 1e9) as u64;
        match &self.slices {
            Some(slices) => ns - ns % (slices.length_ns() * slices.instances.len() as u64).max(1),
            None => ns,
        }
    }

    /// Return the ids of the instances that it measures.
    pub fn arms(&self) -> Vec<&str> {
        match &self.slices {
            Some(slices) => slices.instances.iter().map(String::as_str).collect(),
            None => vec![&self.instance],
        }
    }

    /// Return the order in which it measures them.
    pub fn turns(&self) -> Turns {
        match &self.slices {
            Some(slices) => Turns::new(
                slices.instances.len(),
                slices.length_ns(),
                self.warmup_ns(),
                self.duration_ns(),
                self.seed,
            ),
            None => Turns::single(),
        }
    }

    /// Return the number of outstanding requests above which a busy cycle begins.
    pub fn level(&self) -> usize {
        let closed = match self.mode {
            Mode::Open => 0,
            Mode::Closed => self.connections * self.streams as usize,
        };
        self.slices
            .as_ref()
            .and_then(|slices| slices.level)
            .unwrap_or(closed)
    }

    /// Return the timeout in nanoseconds.
    pub fn timeout_ns(&self) -> u64 {
        (self.timeout_s * 1e9) as u64
    }
}

/// Parse a SHA-256 in hexadecimal.
pub fn decode_hash(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; 32];
    for (i, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(hash)
}

/// Parse a name that certificates can be verified for.
pub fn server_name(name: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(name.to_owned()).ok()
}
