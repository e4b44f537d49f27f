//! The command line: arguments → plan → session → lines.

mod cli;
mod human;

use std::io::{self, Write as _};
use std::process::ExitCode;

use cli::{Command, RunOptions, StallOptions};
use tuner_loadgen::control::Lines;
use tuner_loadgen::plan::Plan;
use tuner_loadgen::session::{self, Failure, Session};
use tuner_loadgen::{stalls, sys};

/// Why the program ends otherwise than well. The exit codes are part of its interface.
enum Exit {
    /// 2: arguments, plan or command that make no sense.
    Bad(String),
    /// 130: interrupted.
    Interrupted,
    /// 1: anything else.
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
            Command::Run(options) => run_once(&options),
            Command::Print(text) => Ok(io::stdout().write_all(text.as_bytes())?),
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
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
    session.run(&mut io::stdout().lock(), control.then_some(&mut lines))?;
    Ok(())
}

fn run_once(options: &RunOptions) -> Result<(), Exit> {
    let plan = options.plan().map_err(Exit::Bad)?;
    let mut session = Session::new(&plan).map_err(Exit::Bad)?;
    let mut output = io::stdout().lock();
    for window in &plan.windows {
        let line = session.measure(window)?;
        if options.json {
            serde_json::to_writer(&mut output, &line).map_err(io::Error::from)?;
            writeln!(output)?;
        } else {
            output.write_all(human::window(&line).as_bytes())?;
        }
    }
    Ok(())
}

fn watch_stalls(options: &StallOptions) -> Result<(), Exit> {
    session::check_cpus(options.cpus.iter().map(|cpu| ("--cpus", cpu))).map_err(Exit::Bad)?;
    let steal = human::Steal::before(&options.cpus);
    let duration_ns = (options.duration_s * 1e9) as u64;
    let watched = stalls::watch(&options.cpus, duration_ns, options.gap_us * 1000);
    if sys::stop_requested() {
        return Err(Exit::Interrupted);
    }
    let report = human::StallReport::new(&watched, options.gap_us, &steal);
    let text = if options.json {
        serde_json::to_string(&report).map_err(io::Error::from)? + "\n"
    } else {
        report.to_string()
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}
