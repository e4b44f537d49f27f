//! The command line: arguments → plan → session → lines.

mod cli;
mod comparison;
mod document;
mod format;
mod out_file;
mod progress;
mod run_report;
mod stall_report;

use std::io::{self, IsTerminal as _, Write as _};
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;

use cli::{BackendOptions, Command, RunOptions, SelfTestOptions, StallOptions};
use progress::Progress;
use tuner_loadgen::backend::{Answers, Backend};
use tuner_loadgen::control::Lines;
use tuner_loadgen::histogram::Histograms;
use tuner_loadgen::live::Live;
use tuner_loadgen::plan::{Plan, Spin};
use tuner_loadgen::session::{self, Failure, Session};
use tuner_loadgen::validity::Validity;
use tuner_loadgen::{selftest, stalls, sys, ticker};

/// The reason why the program fails. The exit codes are part of its interface.
enum Exit {
    /// 2: an invalid argument, plan or command.
    Bad(String),
    /// 3: the figures are not valid.
    NotValid,
    /// 130: interrupted.
    Interrupted,
    /// 1: the self-test found the instrument not fit, and has printed the reasons.
    Unfit,
    /// 1: any other failure.
    Failed(String),
}

impl From<Failure> for Exit {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Interrupted => Self::Interrupted,
            Failure::Command(text) => Self::Bad(format!("standard input: {text}")),
            Failure::Io(error) => error.into(),
        }
    }
}

impl From<io::Error> for Exit {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

fn main() -> ExitCode {
    sys::install_signals();
    let done = cli::parse()
        .map_err(Exit::Bad)
        .and_then(|command| match command {
            Command::Plan { source, control } => run_plan(&source, control),
            Command::Stalls(options) => watch_stalls(&options),
            Command::Ticker(options) => {
                session::check_cpus(options.cpus.iter().map(|cpu| ("--cpus", cpu)))
                    .map_err(Exit::Bad)?;
                Ok(ticker::run(&options, 0, &mut io::stdout().lock())?)
            }
            Command::SelfTest(options) => self_test(&options),
            Command::Backend(options) => answer(&options),
            Command::Run(options) => run_once(*options),
            Command::Compare(options) => compare(*options),
            Command::Print(text) => Ok(io::stdout().write_all(text.as_bytes())?),
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Exit::NotValid) => ExitCode::from(3),
        Err(Exit::Unfit) => ExitCode::from(1),
        Err(Exit::Interrupted) => ExitCode::from(130),
        Err(Exit::Bad(text)) => complain(&text, 2),
        Err(Exit::Failed(text)) => complain(&text, 1),
    }
}

fn complain(text: &str, code: u8) -> ExitCode {
    eprintln!("tuner-loadgen: {text}");
    ExitCode::from(code)
}

fn run_plan(source: &str, control: bool) -> Result<(), Exit> {
    sys::die_with_parent();
    let mut lines = Lines::new(0);
    let text = if source == "-" {
        let line = lines.read()?;
        if sys::stop_requested() {
            return Err(Exit::Interrupted);
        }
        line.ok_or_else(|| Exit::Bad("standard input: no plan".into()))?
    } else {
        std::fs::read_to_string(source).map_err(|error| Exit::Bad(format!("{source}: {error}")))?
    };
    let plan = Plan::parse(&text).map_err(|error| Exit::Bad(error.to_string()))?;
    let mut session = Session::new(&plan).map_err(|text| Exit::Bad(format!("plan: {text}")))?;
    if plan.wait_to_start && !control {
        let text = "plan: wait_to_start: true is not allowed; it requires --control";
        return Err(Exit::Bad(text.into()));
    }
    session.run(&mut io::stdout(), control.then_some(&mut lines))?;
    Ok(())
}

fn answer(options: &BackendOptions) -> Result<(), Exit> {
    let BackendOptions { file, listen, .. } = options;
    let bad = |error: String| Exit::Bad(format!("{file}: {error}"));
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    let answers = Answers::parse(&text).map_err(bad)?;
    if options.check {
        return Ok(());
    }
    sys::raise_file_limit();
    let failed = |error: io::Error| Exit::Failed(format!("{listen}: {error}"));
    let listener = TcpListener::bind(listen).map_err(failed)?;
    let backend = Backend::start(listener, answers, options.threads)?;
    if let Some(path) = &options.pid_file {
        std::fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| Exit::Failed(format!("{path}: {error}")))?;
    }
    println!("listening on {}", backend.address);
    Ok(backend.wait()?)
}

fn run_once(mut options: RunOptions) -> Result<(), Exit> {
    let plan = options.plan().map_err(Exit::Bad)?;
    let documents = options.documents().map_err(Exit::Bad)?;
    let mut session = Session::new(&plan).map_err(Exit::Bad)?;
    let live = Arc::new(Live::new(options.threads()));
    session.show(Arc::clone(&live));
    let mut output = io::stdout().lock();
    let [window] = &plan.windows[..] else {
        return Err(Exit::Failed("one run is one window".into()));
    };
    if documents.printed.is_none() {
        let opening = run_report::opening(&options, window.duration_s, window.connections);
        output.write_all(opening.as_bytes())?;
        output.flush()?;
    }
    let shown = !options.quiet && io::stderr().is_terminal();
    let progress = shown.then(|| Progress::start(live, plan.cpus.clone()));
    let measured = session.measure_whole(window);
    drop(progress);
    let (mut lines, raw) = measured?;
    let Some(line) = lines.pop() else {
        return Err(Exit::Failed("one run has one server".into()));
    };
    let own_core = !plan.cpus.is_empty() && plan.spin == Spin::Full;
    let validity = Validity::of(&line, &raw.arms[0].samples, raw.start, own_core);
    let histograms = Histograms::of(&raw.arms[0].samples);
    let measured = run_report::Measured {
        options: &options,
        line: &line,
        raw: &raw,
        histograms: &histograms,
        validity: &validity,
    };
    let files = documents.files.into_iter();
    let unwritten: Vec<String> = files
        .filter_map(|(format, file)| file.write(&document::render(format, &measured)).err())
        .collect();
    match documents.printed {
        Some(format) => output.write_all(document::render(format, &measured).as_bytes())?,
        None => write!(output, "{measured}")?,
    }
    if !unwritten.is_empty() {
        return Err(Exit::Failed(unwritten.join("; ")));
    }
    if line.interrupted {
        return Err(Exit::Interrupted);
    }
    if options.strict && !validity.valid {
        return Err(Exit::NotValid);
    }
    Ok(())
}

fn compare(mut options: RunOptions) -> Result<(), Exit> {
    let plan = options.comparison().map_err(Exit::Bad)?;
    let mut session = Session::new(&plan).map_err(Exit::Bad)?;
    let terminal = io::stderr().is_terminal();
    let mut rounds = Vec::with_capacity(plan.windows.len());
    let mut interrupted = false;
    for (number, window) in plan.windows.iter().enumerate() {
        if terminal && !options.quiet {
            let left_s =
                (plan.windows.len() - number) as f64 * (window.warmup_s + window.duration_s);
            eprint!(
                "\r\x1b[K  round {} of {}, {left_s:.0} s left",
                number + 1,
                plan.windows.len()
            );
        }
        match session.measure(window) {
            Ok(lines) => rounds.push(lines),
            Err(Failure::Interrupted) => {
                interrupted = true;
                break;
            }
            Err(failure) => return Err(failure.into()),
        }
    }
    if terminal && !options.quiet {
        eprint!("\r\x1b[K");
    }
    let found = comparison::Comparison::new(&plan, &options.compared_urls(), &rounds);
    let text = if options.json {
        serde_json::to_string(&found).map_err(io::Error::from)? + "\n"
    } else {
        found.to_string()
    };
    io::stdout().write_all(text.as_bytes())?;
    if interrupted {
        return Err(Exit::Interrupted);
    }
    Ok(())
}

fn watch_stalls(options: &StallOptions) -> Result<(), Exit> {
    session::check_cpus(options.cpus.iter().map(|cpu| ("--cpus", cpu))).map_err(Exit::Bad)?;
    let steal = stall_report::Steal::before(&options.cpus);
    let duration_ns = (options.duration_s * 1e9) as u64;
    let watched = stalls::watch(&options.cpus, duration_ns, options.gap_us * 1000);
    if sys::stop_requested() {
        return Err(Exit::Interrupted);
    }
    let report = stall_report::StallReport::new(&watched, options.gap_us, &steal);
    let text = if options.json {
        serde_json::to_string(&report).map_err(io::Error::from)? + "\n"
    } else {
        report.to_string()
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn self_test(options: &SelfTestOptions) -> Result<(), Exit> {
    let terminal = io::stderr().is_terminal();
    let mut last = String::new();
    let mut progress = |stage: &str, left_s: f64| {
        let left = left_s.max(0.0);
        if terminal {
            eprint!("\r\x1b[Kself-test: {stage}, {left:.0} s left");
        } else if last != stage {
            eprintln!("self-test: {stage}, {left:.0} s left");
        }
        stage.clone_into(&mut last);
    };
    let report = selftest::run(&options.test, &mut progress);
    if terminal {
        eprint!("\r\x1b[K");
    }
    let report = report.map_err(Exit::Bad)??;
    let text = if options.json {
        serde_json::to_string(&report).map_err(io::Error::from)? + "\n"
    } else {
        report.to_string()
    };
    io::stdout().write_all(text.as_bytes())?;
    match &report.verdict {
        Some(verdict) if verdict.fit => Ok(()),
        _ => Err(Exit::Unfit),
    }
}
