//! Arguments.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::{Arg, Parser, ValueExt as _};
use tuner_loadgen::plan::{
    Arrival, Expect, Instance, InstantsUnit, Mode, Plan, Protocol, Request, Spin, Ticker, Window,
};

const HELP: &str = "\
Offer load to an HTTP server, and measure latency from the instant at which each request was to be
sent; tell the server's delays from those of this machine.

Usage:
  tuner-loadgen plan FILE|- [--control]
  tuner-loadgen run URL [-c CONNECTIONS] [-d SECONDS] [-R RATE | --closed] [OPTIONS]
  tuner-loadgen stalls --cpus LIST [--duration SECONDS] [--gap US] [--json]

plan: measure the windows of a JSON plan (README.md has the format), one JSON line for each as it
ends, and a last line {\"type\":\"end\",...}. With -, the plan is the first line of standard input.
  --control             after each window wait for a line on standard input: {\"next\":\"go\"},
                        {\"next\":\"go\",\"drop\":[\"INSTANCE\"]} or {\"next\":\"stop\"}; its end means stop

run: measure one window, for people.
  -c, --connections N   connections [32]
  -d, --duration S      the measured part, in seconds [10]
  -w, --warmup S        the unrecorded part before it, in seconds [1]
  -R, --rate N          requests per second, all connections together [1000]
      --closed          each connection sends as soon as its last answer is complete
      --arrival NAME    poisson or constant [poisson]
      --seed N          seed of the schedule [1]
      --timeout S       give up a request after so many seconds [2]
  -H, --header LINE     a header field, 'Name: value'; may be repeated
      --cpu N           the CPU of this program
      --ticker-cpu N    watch this CPU, the server's, for stalls (needs real-time priority); may be
                        repeated; the server must have it to itself
      --spin MODE       full (never sleep), off, or the last so many microseconds before a request
                        [full with --cpu, else off]
      --samples DIR     write each request's times to DIR/run.samples
      --json            the line that plan prints

stalls: watch CPUs for spans in which the host (or anything else) takes them away.
      --cpus LIST       as 0,1 or 0-3
      --duration S      in seconds [2]
      --gap US          what counts, in microseconds [100]
      --json            one JSON line

  -h, --help
  -V, --version

Exit codes: 0 well; 2 a plan or an argument that makes no sense (the message says where and what is
allowed); 130 interrupted; 1 anything else. A server at fault is a result, not a failure: see the
errors in the output.

Examples:
  tuner-loadgen run http://127.0.0.1:8080/ -c 32 -d 10 -R 5000 --cpu 0 --ticker-cpu 1
  tuner-loadgen run http://127.0.0.1:8080/ -c 64 -d 5 --closed --cpu 0
  tuner-loadgen stalls --cpus 0,1 --duration 5
  tuner-loadgen plan plan.json > windows.jsonl
";

/// What to do.
#[derive(Debug)]
pub enum Command {
    /// Measure a plan.
    Plan { source: String, control: bool },
    /// Measure one window.
    Run(Box<RunOptions>),
    /// Watch CPUs.
    Stalls(StallOptions),
    /// Print a text.
    Print(String),
}

/// Options of `stalls`.
#[derive(Debug)]
pub struct StallOptions {
    pub cpus: Vec<usize>,
    pub duration_s: f64,
    pub gap_us: u64,
    pub json: bool,
}

/// Options of `run`.
#[derive(Debug)]
pub struct RunOptions {
    url: String,
    connections: usize,
    duration_s: f64,
    warmup_s: f64,
    rate_per_s: f64,
    closed: bool,
    arrival: Arrival,
    seed: u64,
    timeout_s: f64,
    headers: Vec<(String, String)>,
    cpu: Option<usize>,
    ticker_cpus: Vec<usize>,
    spin: Option<Spin>,
    samples: Option<PathBuf>,
    pub json: bool,
}

/// Read the arguments of this process.
pub fn parse() -> Result<Command, String> {
    let mut parser = Parser::from_env();
    let command = match parser.next().map_err(text)? {
        Some(Arg::Short('h') | Arg::Long("help")) => Command::Print(HELP.into()),
        Some(Arg::Short('V') | Arg::Long("version")) => Command::Print(version()),
        Some(Arg::Value(name)) => match name.to_str() {
            Some("plan") => plan(&mut parser)?,
            Some("run") => run(&mut parser)?,
            Some("stalls") => stalls(&mut parser)?,
            _ => return Err(format!("{name:?} is no command; use plan, run or stalls")),
        },
        Some(other) => return Err(text(other.unexpected())),
        None => return Err("no command; use plan, run or stalls, or --help".into()),
    };
    Ok(command)
}

fn version() -> String {
    format!("tuner-loadgen {}\n", env!("CARGO_PKG_VERSION"))
}

fn text(error: lexopt::Error) -> String {
    error.to_string()
}

/// The value of an option.
fn value<T: FromStr>(parser: &mut Parser, name: &str, allowed: &str) -> Result<T, String> {
    let value = parser.value().map_err(text)?.string().map_err(text)?;
    value
        .parse()
        .map_err(|_| format!("{name}: {value:?} is not allowed; it must be {allowed}"))
}

fn plan(parser: &mut Parser) -> Result<Command, String> {
    let (mut source, mut control) = (None, false);
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Arg::Long("control") => control = true,
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Print(HELP.into())),
            Arg::Value(file) if source.is_none() => source = Some(file.string().map_err(text)?),
            other => return Err(text(other.unexpected())),
        }
    }
    let source = source.ok_or("plan: no file; give one, or - for standard input")?;
    Ok(Command::Plan { source, control })
}

fn stalls(parser: &mut Parser) -> Result<Command, String> {
    let mut options = StallOptions {
        cpus: Vec::new(),
        duration_s: 2.0,
        gap_us: 100,
        json: false,
    };
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Arg::Long("cpus") => {
                let list: String = value(parser, "--cpus", "a list")?;
                options.cpus = cpu_list(&list).ok_or_else(|| {
                    format!("--cpus: {list:?} is not allowed; it must be a list such as 0,1 or 0-3")
                })?;
            }
            Arg::Short('d') | Arg::Long("duration") => {
                options.duration_s = value(parser, "--duration", "seconds")?;
            }
            Arg::Long("gap") => options.gap_us = value(parser, "--gap", "microseconds")?,
            Arg::Long("json") => options.json = true,
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Print(HELP.into())),
            other => return Err(text(other.unexpected())),
        }
    }
    if options.cpus.is_empty() {
        return Err("stalls: --cpus is missing".into());
    }
    if !(options.duration_s > 0.0 && options.duration_s <= 86_400.0) {
        let given = options.duration_s;
        return Err(format!(
            "--duration: {given} is not allowed; it must be above 0 and at most 86400"
        ));
    }
    Ok(Command::Stalls(options))
}

fn cpu_list(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > 65_535 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

fn run(parser: &mut Parser) -> Result<Command, String> {
    let mut options = RunOptions {
        url: String::new(),
        connections: 32,
        duration_s: 10.0,
        warmup_s: 1.0,
        rate_per_s: 1000.0,
        closed: false,
        arrival: Arrival::Poisson,
        seed: 1,
        timeout_s: 2.0,
        headers: Vec::new(),
        cpu: None,
        ticker_cpus: Vec::new(),
        spin: None,
        samples: None,
        json: false,
    };
    while let Some(arg) = parser.next().map_err(text)? {
        let o = &mut options;
        match arg {
            Arg::Short('c') | Arg::Long("connections") => {
                o.connections = value(parser, "--connections", "a number")?;
            }
            Arg::Short('d') | Arg::Long("duration") => {
                o.duration_s = value(parser, "--duration", "seconds")?;
            }
            Arg::Short('w') | Arg::Long("warmup") => {
                o.warmup_s = value(parser, "--warmup", "seconds")?;
            }
            Arg::Short('R') | Arg::Long("rate") => {
                o.rate_per_s = value(parser, "--rate", "requests per second")?;
            }
            Arg::Long("closed") => o.closed = true,
            Arg::Long("arrival") => o.arrival = arrival(parser)?,
            Arg::Long("seed") => o.seed = value(parser, "--seed", "a whole number")?,
            Arg::Long("timeout") => o.timeout_s = value(parser, "--timeout", "seconds")?,
            Arg::Short('H') | Arg::Long("header") => {
                let line: String = value(parser, "--header", "a header field")?;
                let (name, value) = line.split_once(':').ok_or_else(|| {
                    format!("--header: {line:?} is not allowed; it must be 'Name: value'")
                })?;
                o.headers.push((name.into(), value.trim().into()));
            }
            Arg::Long("cpu") => o.cpu = Some(value(parser, "--cpu", "a CPU number")?),
            Arg::Long("ticker-cpu") => {
                o.ticker_cpus
                    .push(value(parser, "--ticker-cpu", "a CPU number")?);
            }
            Arg::Long("spin") => o.spin = Some(spin(parser)?),
            Arg::Long("samples") => o.samples = Some(value(parser, "--samples", "a folder")?),
            Arg::Long("json") => o.json = true,
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Print(HELP.into())),
            Arg::Value(url) if o.url.is_empty() => o.url = url.string().map_err(text)?,
            other => return Err(text(other.unexpected())),
        }
    }
    if options.url.is_empty() {
        return Err("run: no URL; it must be as http://127.0.0.1:8080/".into());
    }
    Ok(Command::Run(Box::new(options)))
}

fn arrival(parser: &mut Parser) -> Result<Arrival, String> {
    let name: String = value(parser, "--arrival", "a name")?;
    match name.as_str() {
        "poisson" => Ok(Arrival::Poisson),
        "constant" => Ok(Arrival::Constant),
        _ => Err(format!(
            "--arrival: {name:?} is not allowed; it must be poisson or constant"
        )),
    }
}

fn spin(parser: &mut Parser) -> Result<Spin, String> {
    let name: String = value(parser, "--spin", "a mode")?;
    match name.as_str() {
        "full" => Ok(Spin::Full),
        "off" => Ok(Spin::Off),
        us => us.parse().map(Spin::LastUs).map_err(|_| {
            format!("--spin: {name:?} is not allowed; it must be full, off or microseconds")
        }),
    }
}

impl RunOptions {
    /// The plan that these options stand for.
    pub fn plan(&self) -> Result<Plan, String> {
        let (host, path) = split_url(&self.url).ok_or_else(|| {
            let url = &self.url;
            format!("{url:?} is not allowed; the URL must be as http://127.0.0.1:8080/path")
        })?;
        let address = resolve(host)?;
        let spin = match (self.spin, self.cpu) {
            (Some(spin), _) => spin,
            (None, Some(_)) => Spin::Full,
            // Without a core of its own, a spinning loop would take one from the server.
            (None, None) => Spin::Off,
        };
        let plan = Plan {
            version: 1,
            cpus: self.cpu.into_iter().collect(),
            spin,
            ticker: (!self.ticker_cpus.is_empty()).then(|| Ticker {
                cpus: self.ticker_cpus.clone(),
                period_us: 500,
                priority: 50,
            }),
            gap_us: 100,
            samples_dir: self.samples.clone(),
            requests: vec![Request {
                weight: 1.0,
                method: "GET".into(),
                path: path.into(),
                headers: self.headers.clone(),
                body_base64: None,
                expect: Some(Expect {
                    status: Some(200),
                    ..Expect::default()
                }),
            }],
            instances: vec![Instance {
                id: "server".into(),
                address,
                host: Some(host.into()),
                pids: Vec::new(),
                protocol: Protocol::Http1,
            }],
            windows: vec![Window {
                id: "run".into(),
                instance: "server".into(),
                mode: if self.closed {
                    Mode::Closed
                } else {
                    Mode::Open
                },
                rate_per_s: (!self.closed).then_some(self.rate_per_s),
                rates: None,
                instants_file: None,
                instants_unit: InstantsUnit::default(),
                arrival: self.arrival,
                seed: self.seed,
                connections: self.connections,
                streams: 1,
                requests_per_connection: None,
                warmup_s: self.warmup_s,
                duration_s: self.duration_s,
                timeout_s: self.timeout_s,
            }],
        };
        plan.check().map_err(|error| error.to_string())?;
        Ok(plan)
    }
}

/// Host (with port, as given) and path of an http URL.
fn split_url(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("http://")?;
    let (host, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    (!host.is_empty() && !host.contains('@')).then_some((host, path))
}

fn resolve(host: &str) -> Result<SocketAddr, String> {
    let after_address = host.rfind(']').unwrap_or(0);
    let with_port = if host[after_address..].contains(':') {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let mut addresses = with_port
        .to_socket_addrs()
        .map_err(|error| format!("{host}: {error}"))?;
    addresses
        .next()
        .ok_or_else(|| format!("{host}: no address"))
}
