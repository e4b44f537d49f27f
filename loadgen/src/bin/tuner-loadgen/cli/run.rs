//! The options of `run`: those of wrk2 with the same meaning, and what ours adds.

mod plan;

use std::path::{Path, PathBuf};

use lexopt::{Arg, Parser, ValueExt as _};
use tuner_loadgen::plan::{Arrival, Check, Expect, Piece, Protocol, Spin};

use super::units;
use super::values::{Parsed, cpu_list, text, value, version};

pub const HELP: &str = "\
Measure one server for a while, and say whether the figures may be believed.

Usage: tuner-loadgen run URL [OPTIONS]

As with wrk2:
  -t, --threads N       threads, each with a CPU of its own [1]
  -c, --connections N   connections, all threads together [32]
  -d, --duration T      the measured part, as 30s, 2m, 1h or 500ms [10s]
  -R, --rate N          requests per second, all together, as 500 or 20k [1000]
  -H, --header LINE     a header field, 'Name: value', or @FILE with one a line; may be repeated
  -L, --latency         the distribution of the latency, and its detailed percentile spectrum
  -U, --u_latency       the same of the service time too (wrk2's uncorrected latency)
  -T, --timeout T       give up a request after that [2s]

The load:
  -w, --warmup T        the unrecorded part before the measured one [1s]
      --rates LIST      a ladder of rates and ramps in place of -R and -d, as 10s:1k,30s:1k-5k
      --instants FILE   recorded instants in place of -R: seconds from the start, one a line
      --requests-per-connection N   close each connection after so many, and open it again
      --closed          no rate: each connection sends as soon as its last answer is complete
      --arrival NAME    poisson or constant [poisson]
      --seed N          seed of the schedule [1]
      --urls FILE       URLs or paths to ask for, one a line, as '[METHOD] TARGET [WEIGHT]';
                        with whole URLs, the one argument URL may be left out
      --method NAME     [GET, or POST with a body]
      --body-file FILE  the body of every request

The protocol (HTTP/1.1, encrypted if the URL says https):
      --http2           HTTP/2; for an http URL with prior knowledge
      --http3           HTTP/3, for an https URL
      --streams N       requests that each connection may carry at a time, not for HTTP/1.1 [1]
      --ca-file FILE    the certificates that are trusted, in PEM [the system's]
  -k, --insecure        don't check the server's certificate
      --no-resume       every handshake is a full one

The answers, of which each other one is an error, and in no percentile:
      --expect-status N     or any [200]
      --expect-length N     bytes of the body
      --expect-sha256 HEX   of the body; on the first answers and every 64th, unless
      --check all           on every one (sample or all)

The instrument:
      --cpu LIST        the CPU of each thread, as 0 or 0,1 or 0-3
      --ticker-cpu N    watch this CPU, the server's, for stalls (needs real-time priority); may be
                        repeated; the server must have it to itself
      --spin MODE       full (never sleep), off, or the last so many microseconds before a request;
                        every:N sends together what is due, each N microseconds, as wrk2 does each
                        1000: cheaper, and up to so much late (in send lag and latency)
                        [full with --cpu, else off]

The output:
      --json            one JSON document (`tuner-loadgen schema window` describes it)
      --hgrm FILE       the spectrum of the latency as a file for HdrHistogram's plotter, in ms
      --samples DIR     each request's times, to DIR/run.samples
  -q, --quiet           no progress (there is none either if standard error is no terminal)
      --strict          exit code 3 if the figures are not valid

Not as with wrk2: the warm-up is not part of -d; what is not answered as expected enters no
percentile, and what is never answered enters with its age; there is no -s (Lua) and no -B
(pipelining).

Ctrl-C ends the measured part, and what was measured so far is printed; a second one does not wait
for answers that are still open.

Exit codes: 0 well; 2 an argument that makes no sense; 3 not valid, with --strict; 130 interrupted
(results so far are printed); 1 anything else. A server at fault is a result, not a failure.

Examples:
  tuner-loadgen run http://127.0.0.1:8080/ -t1 -c32 -d30s -R5000 --latency --cpu 0 --ticker-cpu 1
  tuner-loadgen run http://127.0.0.1:8080/ -c 64 -d 5 --closed --cpu 0
  tuner-loadgen run http://127.0.0.1:8080/ --urls paths.txt -R 2k --hgrm latency.hgrm
  tuner-loadgen run https://localhost:8443/ --http2 -c4 --streams 8 -R5k --ca-file ca.pem
  tuner-loadgen run http://127.0.0.1:8080/form --body-file form.bin --expect-status 204
";

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
    seed: u64,
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
    /// The same of the service time.
    pub uncorrected: bool,
    /// Where to write the spectrum.
    pub hgrm: Option<PathBuf>,
    pub json: bool,
    pub quiet: bool,
    pub strict: bool,
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
            seed: 1,
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
            json: false,
            quiet: false,
            strict: false,
        }
    }
}

/// Read the options of `run`.
pub fn parse(parser: &mut Parser) -> Result<Parsed<RunOptions>, String> {
    let mut options = RunOptions::default();
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
                let allowed = "requests per second, as 500 or 20k";
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
            Arg::Long("seed") => o.seed = value(parser, "--seed", "a whole number")?,
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
            Arg::Long("hgrm") => o.hgrm = Some(value(parser, "--hgrm", "a file")?),
            Arg::Long("json") => o.json = true,
            Arg::Short('q') | Arg::Long("quiet") => o.quiet = true,
            Arg::Long("strict") => o.strict = true,
            Arg::Short('s') | Arg::Long("script") => {
                return Err(
                    "-s: there is no Lua here, since a script would run between the \
                            requests that are timed; see --urls, --method and --body-file"
                        .into(),
                );
            }
            Arg::Short('B') | Arg::Long("batch_latency") => {
                return Err("-B: there is no pipelining here, so there are no batches".into());
            }
            Arg::Short('h') | Arg::Long("help") => return Ok(Parsed::Print(HELP.into())),
            Arg::Short('v') => return Ok(Parsed::Print(version())),
            Arg::Value(url) if o.url.is_empty() => o.url = url.string().map_err(text)?,
            other => return Err(text(other.unexpected())),
        }
    }
    Ok(Parsed::Options(options))
}

fn whole(parser: &mut Parser, name: &str) -> Result<usize, String> {
    let read =
        |text: &str| units::metric(text).filter(|n| n.fract() == 0.0 && (0.0..1e9).contains(n));
    Ok(with_unit(parser, name, read, "a whole number, as 100 or 1k")? as usize)
}

fn seconds(parser: &mut Parser, name: &str) -> Result<f64, String> {
    with_unit(
        parser,
        name,
        units::seconds,
        "a time as 30s, 2m, 1h or 500ms",
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

/// Rates one after another.
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
            format!("--rates: {text:?} is not allowed; it must be as 10s:1k, or 10s:1k-5k")
        })
    });
    pieces.collect()
}

/// One header field, or a file of them.
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
