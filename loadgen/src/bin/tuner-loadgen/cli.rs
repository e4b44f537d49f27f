//! Arguments.

mod backend;
mod instrument;
mod run;
pub mod units;
mod values;

use lexopt::{Arg, Parser, ValueExt as _};

pub use backend::BackendOptions;
pub use instrument::SelfTestOptions;
pub use run::RunOptions;
use values::{Parsed, cpu_list, text, value, version};

const COMMANDS: &str = "run, compare, plan, stalls, ticker, self-test, backend or schema";

const HELP: &str = "\
Offer load to an HTTP server, measure latency from the instant at which each request was intended,
and tell delays of the server from those of this machine.

Usage:
  tuner-loadgen run URL [-t THREADS] [-c CONNECTIONS] [-d TIME] [-R RATE] [--latency] [OPTIONS]
  tuner-loadgen compare URL URL... [OPTIONS]
  tuner-loadgen plan FILE|- [--control]
  tuner-loadgen stalls --cpus LIST [--duration SECONDS] [--gap US] [--json]
  tuner-loadgen ticker --cpus LIST [--for SECONDS]
  tuner-loadgen self-test [--cpus LIST] [--server-cpus LIST] [--for SECONDS] [--json]
  tuner-loadgen backend FILE [--listen ADDRESS]
  tuner-loadgen schema plan|window|compare|self-test|ticker

run: Measure one server and print a report. The options of wrk2 have the same meaning. See
`run --help`.

compare: Compare servers under the same load, in slices of milliseconds. See `compare --help`.

plan: Measure the windows of a JSON plan (format: README.md). Print one JSON line for each window
when it ends, and a last line {\"type\":\"end\",...}. With -, read the plan from the first line of
standard input.
  --control             Wait for a line on standard input after each window: {\"next\":\"go\"},
                        {\"next\":\"go\",\"drop\":[\"INSTANCE\"]} or {\"next\":\"stop\"}. The end of standard
                        input means stop.

stalls: Watch CPUs for spans in which the host or another process takes them away.
      --cpus LIST       CPUs to watch, such as 0,1 or 0-3
      --duration S      Watch for S seconds [default: 2]
      --gap US          Report gaps longer than US microseconds [default: 100]
      --json            Print one JSON line

ticker: Report stalls line by line, for a reader on another host. See `ticker --help`.

self-test: Measure the accuracy of this generator on this host: latency floor, pacing, percentiles,
highest rate, and the smallest difference of p99 that it can detect. See `self-test --help`.

backend: Answer FastCGI, uwsgi, SCGI and gRPC behind a proxy. See `backend --help`.

schema: Print the JSON schema of a plan, of a window's line, of the documents of compare or self-test,
or of the ticker's lines.

  -h, --help            Print help
  -V, --version         Print the version

Exit codes: 0 success; 2 invalid plan or argument (the message says where, and what is allowed); 130
interrupted; 1 any other failure. Errors of the server are results, not failures: see the errors in
the output.

Examples:
  tuner-loadgen run http://127.0.0.1:8080/ -c 32 -d 10s -R 5k --latency --cpu 0 --ticker-cpu 1
  tuner-loadgen stalls --cpus 0,1 --duration 5
  tuner-loadgen plan plan.json > windows.jsonl
  tuner-loadgen self-test
";

const SCHEMAS: [(&str, &str); 5] = [
    ("plan", include_str!("../../../schema/plan.schema.json")),
    ("window", include_str!("../../../schema/window.schema.json")),
    (
        "compare",
        include_str!("../../../schema/compare.schema.json"),
    ),
    (
        "self-test",
        include_str!("../../../schema/self-test.schema.json"),
    ),
    ("ticker", include_str!("../../../schema/ticker.schema.json")),
];
const SCHEMA_NAMES: &str = "plan, window, compare, self-test or ticker";

/// The command to run.
#[derive(Debug)]
pub enum Command {
    /// Measure a plan.
    Plan { source: String, control: bool },
    /// Measure one window.
    Run(Box<RunOptions>),
    /// Compare servers.
    Compare(Box<RunOptions>),
    /// Watch CPUs.
    Stalls(StallOptions),
    /// Watch CPUs for a reader on another host.
    Ticker(tuner_loadgen::ticker::Options),
    /// Test the instrument.
    SelfTest(SelfTestOptions),
    /// Answer behind a proxy.
    Backend(BackendOptions),
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

/// Parse the arguments of this process.
pub fn parse() -> Result<Command, String> {
    let mut parser = Parser::from_env();
    let command = match parser.next().map_err(text)? {
        Some(Arg::Short('h') | Arg::Long("help")) => Command::Print(HELP.into()),
        Some(Arg::Short('V') | Arg::Long("version")) => Command::Print(version()),
        Some(Arg::Value(name)) => match name.to_str() {
            Some("plan") => plan(&mut parser)?,
            Some("run") => command(run::parse(&mut parser)?, |o| Command::Run(Box::new(o))),
            Some("compare") => command(run::compare::parse(&mut parser)?, |o| {
                Command::Compare(Box::new(o))
            }),
            Some("stalls") => stalls(&mut parser)?,
            Some("ticker") => command(instrument::ticker(&mut parser)?, Command::Ticker),
            Some("self-test") => command(instrument::self_test(&mut parser)?, Command::SelfTest),
            Some("backend") => command(backend::parse(&mut parser)?, Command::Backend),
            Some("schema") => schema(&mut parser)?,
            _ => return Err(format!("{name:?} is not a command; use {COMMANDS}")),
        },
        Some(other) => return Err(text(other.unexpected())),
        None => return Err(format!("no command; use {COMMANDS}, or --help")),
    };
    Ok(command)
}

fn command<T>(parsed: Parsed<T>, of: impl FnOnce(T) -> Command) -> Command {
    match parsed {
        Parsed::Options(options) => of(options),
        Parsed::Print(text) => Command::Print(text),
    }
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
                options.cpus = cpu_list(parser, "--cpus")?;
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

fn schema(parser: &mut Parser) -> Result<Command, String> {
    let name = match parser.next().map_err(text)? {
        Some(Arg::Value(name)) => name.string().map_err(text)?,
        Some(Arg::Short('h') | Arg::Long("help")) => return Ok(Command::Print(HELP.into())),
        Some(other) => return Err(text(other.unexpected())),
        None => return Err(format!("schema: no name; it must be {SCHEMA_NAMES}")),
    };
    match SCHEMAS.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => Ok(Command::Print((*text).into())),
        None => Err(format!(
            "schema: {name:?} is not allowed; it must be {SCHEMA_NAMES}"
        )),
    }
}
