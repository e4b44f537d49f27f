//! The plan: what to offer to which instances, in which order. JSON, version 1.
//!
//! Unknown fields are refused, and every message names the JSON path, the value and what is
//! allowed: a misspelt field that is silently ignored would measure something else than was asked.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// A list of windows over instances.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The version of this format: 1.
    pub version: u32,
    /// The CPUs the generator's thread is confined to; none: not confined.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// How the generator waits for the next intended instant.
    #[serde(default)]
    pub spin: Spin,
    /// The stall ticker for the server's CPUs.
    #[serde(default)]
    pub ticker: Option<Ticker>,
    /// A gap longer than this is a stall, in microseconds.
    #[serde(default = "default_gap_us")]
    pub gap_us: u64,
    /// Where the samples of each window are written.
    #[serde(default)]
    pub samples_dir: Option<PathBuf>,
    /// The mix of requests, drawn from by weight.
    pub requests: Vec<Request>,
    /// The servers under test.
    pub instances: Vec<Instance>,
    /// The windows, in order.
    pub windows: Vec<Window>,
}

/// How the generator waits.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Spin {
    /// Never sleeps: the core is its own.
    #[default]
    Full,
    /// Sleeps to the deadline: cheap, and some 25 to 60 µs late.
    Off,
    /// Sleeps, and spins the last so many microseconds.
    LastUs(u64),
}

/// The real-time ticker that sees stalls of the server's CPUs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticker {
    /// One thread for each of these.
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
    /// Its share of the mix, relative to the others.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// The method.
    #[serde(default = "default_method")]
    pub method: String,
    /// The target in origin form.
    pub path: String,
    /// Header fields in order; `Host` and `Content-Length` are added unless given.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(default)]
    pub body_base64: Option<String>,
    /// What the response must look like.
    #[serde(default)]
    pub expect: Option<Expect>,
}

/// What a response must look like; what is absent is not checked.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The status code.
    #[serde(default)]
    pub status: Option<u16>,
    /// Bytes of the body, chunking removed.
    #[serde(default)]
    pub length: Option<u64>,
    /// SHA-256 of the body in hexadecimal, checked on a sample of the responses.
    #[serde(default)]
    pub sha256: Option<String>,
}

/// One server under test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Its name in windows.
    pub id: String,
    /// IP address and port.
    pub address: SocketAddr,
    /// The `Host` field; the address if absent.
    #[serde(default)]
    pub host: Option<String>,
    /// Its processes, for CPU time and memory.
    #[serde(default)]
    pub pids: Vec<i32>,
}

/// One uninterrupted measurement of one instance.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its name: also the name of its samples file.
    pub id: String,
    /// The instance.
    pub instance: String,
    /// Open or closed loop.
    pub mode: Mode,
    /// Offered rate; open loop only.
    #[serde(default)]
    pub rate_per_s: Option<f64>,
    /// The arrival process; open loop only.
    #[serde(default)]
    pub arrival: Arrival,
    /// Seed of the schedule.
    #[serde(default)]
    pub seed: u64,
    /// Connections, all open before the warm-up.
    pub connections: usize,
    /// The unrecorded part at the same rate, in seconds.
    #[serde(default)]
    pub warmup_s: f64,
    /// The measured part, in seconds.
    pub duration_s: f64,
    /// How long a written request may stay unanswered, and the longest drain, in seconds.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: f64,
}

/// Who decides when a request is sent.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The schedule.
    Open,
    /// The answer to the one before.
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

fn default_gap_us() -> u64 {
    100
}
fn default_period_us() -> u64 {
    500
}
fn default_priority() -> i32 {
    50
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

/// The longest schedule, in requests: its columns then take some 6 GB.
const MOST_REQUESTS: f64 = 2e8;
/// The longest window, in seconds.
const LONGEST_S: f64 = 86_400.0;

/// Why a plan is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Where, as `windows[0].rate_per_s`.
    pub path: String,
    /// The bad value and what is allowed.
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

fn require(
    good: bool,
    path: impl fmt::Display,
    value: impl fmt::Debug,
    allowed: &str,
) -> Result<(), PlanError> {
    if good {
        return Ok(());
    }
    Err(PlanError {
        path: path.to_string(),
        message: format!("{value:?} is not allowed; it must be {allowed}"),
    })
}

impl Plan {
    /// Read and check a plan.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let plan: Self =
            serde_path_to_error::deserialize(&mut json).map_err(|error| PlanError {
                path: error.path().to_string(),
                message: error.into_inner().to_string(),
            })?;
        json.end().map_err(|error| PlanError {
            path: String::new(),
            message: error.to_string(),
        })?;
        plan.check()?;
        Ok(plan)
    }

    /// Check what the types alone don't.
    pub fn check(&self) -> Result<(), PlanError> {
        require(
            self.version == 1,
            "version",
            self.version,
            "1, the only version this program reads",
        )?;
        require(
            (1..=1_000_000).contains(&self.gap_us),
            "gap_us",
            self.gap_us,
            "1 to 1000000",
        )?;
        if let Some(ticker) = &self.ticker {
            ticker.check()?;
        }
        require(
            (1..=65_536).contains(&self.requests.len()),
            "requests",
            self.requests.len(),
            "a list of 1 to 65536 requests",
        )?;
        for (i, request) in self.requests.iter().enumerate() {
            request.check(&format!("requests[{i}]"))?;
        }
        let mut instances = HashSet::new();
        for (i, instance) in self.instances.iter().enumerate() {
            let path = format!("instances[{i}]");
            require(
                instances.insert(instance.id.as_str()),
                format_args!("{path}.id"),
                &instance.id,
                "different from the ids before it",
            )?;
            let host = instance.host.as_deref().unwrap_or("a");
            require(
                is_field_value(host) && !host.is_empty(),
                format_args!("{path}.host"),
                host,
                "a host name",
            )?;
        }
        let mut windows = HashSet::new();
        for (i, window) in self.windows.iter().enumerate() {
            let path = format!("windows[{i}]");
            require(
                windows.insert(window.id.as_str()),
                format_args!("{path}.id"),
                &window.id,
                "different from the ids before it",
            )?;
            require(
                instances.contains(window.instance.as_str()),
                format_args!("{path}.instance"),
                &window.instance,
                "the id of one of the instances",
            )?;
            window.check(&path)?;
        }
        Ok(())
    }
}

impl Ticker {
    fn check(&self) -> Result<(), PlanError> {
        require(
            (50..=1_000_000).contains(&self.period_us),
            "ticker.period_us",
            self.period_us,
            "50 to 1000000",
        )?;
        require(
            (1..=99).contains(&self.priority),
            "ticker.priority",
            self.priority,
            "1 to 99",
        )
    }
}

impl Request {
    fn check(&self, path: &str) -> Result<(), PlanError> {
        require(
            self.weight.is_finite() && self.weight > 0.0,
            format_args!("{path}.weight"),
            self.weight,
            "a number above 0",
        )?;
        require(
            is_token(&self.method),
            format_args!("{path}.method"),
            &self.method,
            "an HTTP method such as GET",
        )?;
        let target = self.path.bytes().all(|byte| byte.is_ascii_graphic());
        require(
            target && (self.path.starts_with('/') || self.path == "*"),
            format_args!("{path}.path"),
            &self.path,
            "a path that starts with / and holds no blanks",
        )?;
        for (i, (name, value)) in self.headers.iter().enumerate() {
            require(
                is_token(name),
                format_args!("{path}.headers[{i}][0]"),
                name,
                "a header name",
            )?;
            require(
                is_field_value(value),
                format_args!("{path}.headers[{i}][1]"),
                value,
                "a header value without line breaks",
            )?;
        }
        if let Some(body) = &self.body_base64 {
            require(
                STANDARD.decode(body).is_ok(),
                format_args!("{path}.body_base64"),
                body,
                "standard base64 with padding",
            )?;
        }
        let Some(expect) = &self.expect else {
            return Ok(());
        };
        if let Some(status) = expect.status {
            require(
                (200..=599).contains(&status),
                format_args!("{path}.expect.status"),
                status,
                "200 to 599",
            )?;
        }
        if let Some(sha256) = &expect.sha256 {
            require(
                decode_hash(sha256).is_some(),
                format_args!("{path}.expect.sha256"),
                sha256,
                "64 hexadecimal digits",
            )?;
        }
        Ok(())
    }

    /// The decoded body.
    pub fn body(&self) -> Option<Vec<u8>> {
        self.body_base64
            .as_ref()
            .and_then(|body| STANDARD.decode(body).ok())
    }
}

impl Window {
    fn check(&self, path: &str) -> Result<(), PlanError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        require(
            !self.id.is_empty() && self.id.bytes().all(plain) && !self.id.starts_with('.'),
            format_args!("{path}.id"),
            &self.id,
            "made of letters, digits, '.', '_' and '-' (it names a file)",
        )?;
        require(
            (1..=100_000).contains(&self.connections),
            format_args!("{path}.connections"),
            self.connections,
            "1 to 100000",
        )?;
        require(
            self.duration_s > 0.0 && self.duration_s <= LONGEST_S,
            format_args!("{path}.duration_s"),
            self.duration_s,
            "above 0 and at most 86400",
        )?;
        require(
            self.warmup_s >= 0.0 && self.warmup_s <= LONGEST_S,
            format_args!("{path}.warmup_s"),
            self.warmup_s,
            "0 to 86400",
        )?;
        require(
            self.timeout_s >= 0.001 && self.timeout_s <= 3600.0,
            format_args!("{path}.timeout_s"),
            self.timeout_s,
            "0.001 to 3600",
        )?;
        if self.mode == Mode::Open {
            let allowed = "above 0 and at most 10000000 in mode open";
            let rate = self.rate_per_s.unwrap_or(f64::NAN);
            require(
                rate > 0.0 && rate <= 1e7,
                format_args!("{path}.rate_per_s"),
                self.rate_per_s,
                allowed,
            )?;
            let requests = rate * (self.warmup_s + self.duration_s);
            require(
                requests <= MOST_REQUESTS,
                format_args!("{path}.duration_s"),
                self.duration_s,
                "short enough for 200 million requests in one window",
            )?;
        }
        Ok(())
    }

    /// The warm-up in nanoseconds.
    pub fn warmup_ns(&self) -> u64 {
        (self.warmup_s * 1e9) as u64
    }

    /// The measured part in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        (self.duration_s * 1e9) as u64
    }

    /// The timeout in nanoseconds.
    pub fn timeout_ns(&self) -> u64 {
        (self.timeout_s * 1e9) as u64
    }
}

/// A SHA-256 from hexadecimal.
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

/// A token of RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(good)
}

fn is_field_value(text: &str) -> bool {
    !text.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}
