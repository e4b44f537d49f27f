//! The options of `run`: those of wrk2 with the same meaning, and further ones.

pub mod compare;
mod documents;
mod plan;

use std::path::{Path, PathBuf};

use lexopt::{Arg, Parser, ValueExt as _};
use tuner_loadgen::plan::{Arrival, Check, Expect, Piece, Protocol, Spin};

use super::units;
use super::values::{Parsed, cpu_list, text, value, version};
use crate::format::Format;

pub const HELP: &str = "\
Measure one server, and report whether the figures are valid.

Usage: tuner-loadgen run URL [OPTIONS]

As in wrk2:
  -t, --threads N       Use N threads, each on a CPU of its own [default: 1]
  -c, --connections N   Open N connections in total [default: 32]
  -d, --duration T      Measure for T, such as 30s, 2m, 1h or 500ms [default: 10s]
  -R, --rate N          Send N requests per second in total, such as 500 or 20k [default: 1000]
  -H, --header LINE     Send a header field, 'Name: value', or those of @FILE, one per line; may be
                        repeated
  -L, --latency         Print the latency distribution and its detailed percentile spectrum
  -U, --u_latency       Print the same for the service time too (wrk2's uncorrected latency)
  -T, --timeout T       Give up a request after T [default: 2s]

Load:
  -w, --warmup T        Warm up for T before the measured part [default: 1s]
      --rates LIST      Offer rates and ramps one after another, such as 10s:1k,30s:1k-5k; replaces
                        -R and -d
      --instants FILE   Offer recorded instants: seconds from the start, one per line; replaces -R
      --requests-per-connection N   Close and reopen each connection after N requests
      --closed          Closed loop: send on each connection as soon as its last answer is complete
      --arrival NAME    Arrival process: poisson or constant [default: poisson]
      --seed N          Seed of the schedule [default: 1]
      --urls FILE       Request URLs or paths, one per line, as '[METHOD] TARGET [WEIGHT]'; with
                        URLs in the file, the argument URL may be omitted
      --method NAME     HTTP method [default: GET, or POST with a body]
      --body-file FILE  Send this body with every request

Protocol (HTTP/1.1, over TLS if the URL has https):
      --http2           Use HTTP/2; for an http URL with prior knowledge
      --http3           Use HTTP/3; needs an https URL
      --streams N       Send up to N concurrent requests per connection, not with HTTP/1.1
                        [default: 1]
      --ca-file FILE    Trust these certificates, in PEM [default: the system's]
  -k, --insecure        Do not verify the server's certificate
      --no-resume       Make every handshake a full one

Expected answers (any other answer is an error, and counts in no percentile):
      --expect-status N     Status, or any [default: 200]
      --expect-length N     Bytes of the body
      --expect-sha256 HEX   SHA-256 of the body
      --check WHICH         Check the hash on a sample (the first answers and every 64th) or on all
                            answers: sample or all [default: sample]

Instrument:
      --cpu LIST        CPU of each thread, such as 0 or 0,1 or 0-3
      --ticker-cpu N    Watch this CPU of the server for stalls (needs real-time priority); only the
                        server may run on it; may be repeated
      --spin MODE       Wait for the next request: full never sleeps, off sleeps, N spins for the
                        last N microseconds; every:N sends together what is due, every N
                        microseconds, as wrk2 does every 1000: cheaper, but late by up to N (in send
                        lag and latency)
                        [default: full with --cpu, else off]

Output:
      --json            Print one JSON document (see `tuner-loadgen schema window`)
      --out FILE        Write the results to FILE too, by its ending: .csv has a row for each second,
                        .hgrm the latency spectrum in ms for HdrHistogram's plotter, .hlog a latency
                        histogram of each second for its log readers, .json the document of --json
      --format NAME     Format of FILE, whatever its ending; without --out, print this document
                        instead of the report: csv, hgrm, hlog or json
      --hgrm FILE       Write the latency spectrum, like --out with --format hgrm
      --samples DIR     Write each request's times to DIR/run.samples
  -q, --quiet           Show no progress (none is shown either if standard error is not a terminal)
      --strict          Exit with 3 if the figures are not valid

Differences from wrk2: The warm-up is not part of -d. Unexpected answers count in no percentile, and
unanswered requests count with their age. There is no -s (Lua) and no -B (pipelining).

Ctrl-C ends the measured part early and prints the results so far. A second Ctrl-C does not wait for
open answers.

Exit codes: 0 success; 2 invalid argument; 3 not valid, with --strict; 130 interrupted (the results
so far are printed); 1 any other failure. Errors of the server are results, not failures.

Examples:
  tuner-loadgen run http://127.0.0.1:8080/ -t1 -c32 -d30s -R5000 --latency --cpu 0 --ticker-cpu 1
  tuner-loadgen run http://127.0.0.1:8080/ -c 64 -d 5 --closed --cpu 0
  tuner-loadgen run http://127.0.0.1:8080/ --urls paths.txt -R 2k --out seconds.csv
  tuner-loadgen run https://localhost:8443/ --http2 -c4 --streams 8 -R5k --ca-file ca.pem
  tuner-loadgen run http://127.0.0.1:8080/form --body-file form.bin --expect-status 204
";

/// Settings of a comparison.
#[derive(Clone, Debug)]
struct Compared {
    /// URLs of the servers after the first.
    others: Vec<String>,
    /// Length of a slice, in milliseconds.
    slice_ms: f64,
    /// Length of a round, in seconds.
    round_s: f64,
    /// Number of outstanding requests above which a busy cycle begins.
    level: Option<usize>,
    /// True if the servers that are not at turn are stopped.
    freeze: bool,
}

/// Options of `run`.
#[derive(Debug)]
pub struct RunOptions {
    pub url: String,
    threads: usize,
    connections: usize,
    streams: u32,
    protocol: Protocol,
    ca_file: Option<PathBuf>,
    insecure: bool,
    no_resume: bool,
    duration_s: f64,
    warmup_s: f64,
    rate_per_s: f64,
    rates: Option<Vec<Piece>>,
    instants: Option<PathBuf>,
    closed: bool,
    requests_per_connection: Option<u64>,
    arrival: Arrival,
    /// By default 1, and drawn for a comparison.
    seed: Option<u64>,
    timeout_s: f64,
    urls: Option<PathBuf>,
    method: Option<String>,
    headers: Vec<(String, String)>,
    body_file: Option<PathBuf>,
    expect: Expect,
    cpus: Vec<usize>,
    ticker_cpus: Vec<usize>,
    spin: Option<Spin>,
    samples: Option<PathBuf>,
    /// Print the distribution and the spectrum of the latency.
    pub latency: bool,
    /// Print the same of the service time.
    pub uncorrected: bool,
    /// Where to write the spectrum.
    hgrm: Option<PathBuf>,
    /// Where to write the results.
    out: Option<PathBuf>,
    /// The format of that file, or of what is printed.
    format: Option<Format>,
    pub json: bool,
    pub quiet: bool,
    pub strict: bool,
    /// Settings of a comparison of several servers; `None` for one.
    compared: Option<Compared>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            url: String::new(),
            threads: 0,
            connections: 32,
            streams: 1,
            protocol: Protocol::Http1,
            ca_file: None,
            insecure: false,
            no_resume: false,
            duration_s: 10.0,
            warmup_s: 1.0,
            rate_per_s: 1000.0,
            rates: None,
            instants: None,
            closed: false,
            requests_per_connection: None,
            arrival: Arrival::Poisson,
            seed: None,
            timeout_s: 2.0,
            urls: None,
            method: None,
            headers: Vec::new(),
            body_file: None,
            expect: Expect {
                status: Some(200),
                ..Expect::default()
            },
            cpus: Vec::new(),
            ticker_cpus: Vec::new(),
            spin: None,
            samples: None,
            latency: false,
            uncorrected: false,
            hgrm: None,
            out: None,
            format: None,
            json: false,
            quiet: false,
            strict: false,
            compared: None,
        }
    }
}

/// Parse the options of `run`.
pub fn parse(parser: &mut Parser) -> Result<Parsed<RunOptions>, String> {
    read(parser, RunOptions::default(), HELP)
}

/// Parse options, over these defaults.
fn read(
    parser: &mut Parser,
    mut options: RunOptions,
    help: &str,
) -> Result<Parsed<RunOptions>, String> {
    while let Some(arg) = parser.next().map_err(text)? {
        let o = &mut options;
        match arg {
            Arg::Short('t') | Arg::Long("threads") => {
                o.threads = whole(parser, "--threads")?;
                if o.threads == 0 {
                    return Err("--threads: 0 is not allowed; it must be 1 or more".into());
                }
            }
            Arg::Short('c') | Arg::Long("connections") => {
                o.connections = whole(parser, "--connections")?;
            }
            Arg::Short('d') | Arg::Long("duration") => {
                o.duration_s = seconds(parser, "--duration")?;
            }
            Arg::Short('w') | Arg::Long("warmup") => o.warmup_s = seconds(parser, "--warmup")?,
            Arg::Short('R') | Arg::Long("rate") => {
                let allowed = "requests per second, such as 500 or 20k";
                o.rate_per_s = with_unit(parser, "--rate", units::metric, allowed)?;
            }
            Arg::Long("rates") => {
                let pieces = pieces(parser)?;
                o.duration_s = pieces.iter().map(|piece| piece.for_s).sum();
                o.rates = Some(pieces);
            }
            Arg::Long("instants") => o.instants = Some(value(parser, "--instants", "a file")?),
            Arg::Long("requests-per-connection") => {
                let n = value(parser, "--requests-per-connection", "a whole number")?;
                o.requests_per_connection = Some(n);
            }
            Arg::Long("closed") => o.closed = true,
            Arg::Long("arrival") => o.arrival = arrival(parser)?,
            Arg::Long("seed") => o.seed = Some(value(parser, "--seed", "a whole number")?),
            Arg::Short('T') | Arg::Long("timeout") => {
                o.timeout_s = seconds(parser, "--timeout")?;
            }
            Arg::Short('H') | Arg::Long("header") => {
                let line: String = value(parser, "--header", "a header field")?;
                headers(&line, &mut o.headers)?;
            }
            Arg::Long("http2") => o.protocol = Protocol::Http2,
            Arg::Long("http3") => o.protocol = Protocol::Http3,
            Arg::Long("streams") => o.streams = value(parser, "--streams", "a whole number")?,
            Arg::Long("ca-file") => o.ca_file = Some(value(parser, "--ca-file", "a file")?),
            Arg::Short('k') | Arg::Long("insecure") => o.insecure = true,
            Arg::Long("no-resume") => o.no_resume = true,
            Arg::Long("urls") => o.urls = Some(value(parser, "--urls", "a file")?),
            Arg::Long("method") => o.method = Some(value(parser, "--method", "a method")?),
            Arg::Long("body-file") => {
                o.body_file = Some(value(parser, "--body-file", "a file")?);
            }
            Arg::Long("expect-status") => {
                let status: String = value(parser, "--expect-status", "a status")?;
                o.expect.status = match status.as_str() {
                    "any" => None,
                    number => Some(number.parse().map_err(|_| {
                        format!("--expect-status: {number:?} is not allowed; it must be 200 to 599, or any")
                    })?),
                };
            }
            Arg::Long("expect-length") => {
                o.expect.length = Some(value(parser, "--expect-length", "a number of bytes")?);
            }
            Arg::Long("expect-sha256") => {
                o.expect.sha256 = Some(value(parser, "--expect-sha256", "hexadecimal digits")?);
            }
            Arg::Long("check") => o.expect.check = check(parser)?,
            Arg::Long("cpu" | "cpus") => o.cpus = cpu_list(parser, "--cpu")?,
            Arg::Long("ticker-cpu") => {
                o.ticker_cpus
                    .push(value(parser, "--ticker-cpu", "a CPU number")?);
            }
            Arg::Long("spin") => o.spin = Some(spin(parser)?),
            Arg::Long("samples") => o.samples = Some(value(parser, "--samples", "a folder")?),
            Arg::Short('L') | Arg::Long("latency") => o.latency = true,
            Arg::Short('U') | Arg::Long("u_latency") => {
                (o.latency, o.uncorrected) = (true, true);
            }
            Arg::Long("out") => o.out = Some(value(parser, "--out", "a file")?),
            Arg::Long("format") => o.format = Some(format(parser)?),
            Arg::Long("hgrm") => o.hgrm = Some(value(parser, "--hgrm", "a file")?),
            Arg::Long("json") => o.json = true,
            Arg::Short('q') | Arg::Long("quiet") => o.quiet = true,
            Arg::Long("strict") => o.strict = true,
            Arg::Short('s') | Arg::Long("script") => {
                return Err(
                    "-s: there is no Lua, because a script would run between the timed \
                            requests; use --urls, --method and --body-file"
                        .into(),
                );
            }
            Arg::Short('B') | Arg::Long("batch_latency") => {
                return Err("-B: there is no pipelining, so there are no batches".into());
            }
            Arg::Short('h') | Arg::Long("help") => return Ok(Parsed::Print(help.into())),
            Arg::Short('v') => return Ok(Parsed::Print(version())),
            Arg::Value(url) if o.url.is_empty() => o.url = url.string().map_err(text)?,
            Arg::Value(url) if o.compared.is_some() => {
                let url = url.string().map_err(text)?;
                o.compared
                    .iter_mut()
                    .for_each(|c| c.others.push(url.clone()));
            }
            Arg::Long("slice") if o.compared.is_some() => {
                let slice_s = seconds(parser, "--slice")?;
                o.compared
                    .iter_mut()
                    .for_each(|c| c.slice_ms = slice_s * 1e3);
            }
            Arg::Long("round") if o.compared.is_some() => {
                let round_s = seconds(parser, "--round")?;
                o.compared.iter_mut().for_each(|c| c.round_s = round_s);
            }
            Arg::Long("level") if o.compared.is_some() => {
                let level = value(parser, "--level", "a whole number")?;
                o.compared.iter_mut().for_each(|c| c.level = Some(level));
            }
            Arg::Long("freeze") if o.compared.is_some() => {
                o.compared.iter_mut().for_each(|c| c.freeze = true);
            }
            other => return Err(text(other.unexpected())),
        }
    }
    Ok(Parsed::Options(options))
}

fn whole(parser: &mut Parser, name: &str) -> Result<usize, String> {
    let read =
        |text: &str| units::metric(text).filter(|n| n.fract() == 0.0 && (0.0..1e9).contains(n));
    Ok(with_unit(parser, name, read, "a whole number, such as 100 or 1k")? as usize)
}

fn seconds(parser: &mut Parser, name: &str) -> Result<f64, String> {
    with_unit(
        parser,
        name,
        units::seconds,
        "a time such as 30s, 2m, 1h or 500ms",
    )
}

fn with_unit(
    parser: &mut Parser,
    name: &str,
    read: impl Fn(&str) -> Option<f64>,
    allowed: &str,
) -> Result<f64, String> {
    let given: String = value(parser, name, allowed)?;
    read(&given).ok_or_else(|| format!("{name}: {given:?} is not allowed; it must be {allowed}"))
}

/// Parse consecutive rates.
fn pieces(parser: &mut Parser) -> Result<Vec<Piece>, String> {
    let list: String = value(parser, "--rates", "a list")?;
    let piece = |text: &str| {
        let (for_s, rates) = text.split_once(':')?;
        let (first, last) = match rates.split_once('-') {
            Some((first, last)) => (first, Some(units::metric(last)?)),
            None => (rates, None),
        };
        Some(Piece {
            for_s: units::seconds(for_s)?,
            rate_per_s: units::metric(first)?,
            to_rate_per_s: last,
        })
    };
    let pieces = list.split(',').map(|text| {
        piece(text).ok_or_else(|| {
            format!("--rates: {text:?} is not allowed; it must have the form 10s:1k or 10s:1k-5k")
        })
    });
    pieces.collect()
}

/// Parse a header field, or a file of them.
fn headers(line: &str, into: &mut Vec<(String, String)>) -> Result<(), String> {
    let Some(file) = line.strip_prefix('@') else {
        into.push(header(line).ok_or_else(|| {
            format!("--header: {line:?} is not allowed; it must be 'Name: value', or @FILE")
        })?);
        return Ok(());
    };
    let text =
        std::fs::read_to_string(Path::new(file)).map_err(|e| format!("--header: {file}: {e}"))?;
    for (number, line) in (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
    {
        into.push(header(line).ok_or_else(|| {
            format!("{file}:{number}: {line:?} is not allowed; it must be 'Name: value'")
        })?);
    }
    Ok(())
}

fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim().into(), value.trim().into()))
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

fn check(parser: &mut Parser) -> Result<Check, String> {
    let name: String = value(parser, "--check", "a name")?;
    match name.as_str() {
        "sample" => Ok(Check::Sample),
        "all" => Ok(Check::All),
        _ => Err(format!(
            "--check: {name:?} is not allowed; it must be sample or all"
        )),
    }
}

fn format(parser: &mut Parser) -> Result<Format, String> {
    let name: String = value(parser, "--format", "a format")?;
    Format::named(&name).ok_or_else(|| {
        format!("--format: {name:?} is not allowed; it must be csv, hgrm, hlog or json")
    })
}

fn spin(parser: &mut Parser) -> Result<Spin, String> {
    let mode: String = value(parser, "--spin", "a mode")?;
    match mode.as_str() {
        "full" => Ok(Spin::Full),
        "off" => Ok(Spin::Off),
        us => {
            let spin = match us.strip_prefix("every:") {
                Some(us) => us.parse().map(Spin::EveryUs),
                None => us.parse().map(Spin::LastUs),
            };
            spin.map_err(|_| {
                format!(
                    "--spin: {mode:?} is not allowed; it must be full, off, microseconds, or \
                     every: and microseconds"
                )
            })
        }
    }
}
