//! Values of options.

use std::str::FromStr;

use lexopt::{Parser, ValueExt as _};

/// The options of a command, or the text of `--help` or `--version`.
pub enum Parsed<T> {
    Options(T),
    Print(String),
}

/// Return the text of `--version`.
pub fn version() -> String {
    format!("tuner-loadgen {}\n", env!("CARGO_PKG_VERSION"))
}

/// Return the message of an error in the arguments.
pub fn text(error: lexopt::Error) -> String {
    error.to_string()
}

/// Parse the value of an option.
pub fn value<T: FromStr>(parser: &mut Parser, name: &str, allowed: &str) -> Result<T, String> {
    let value = parser.value().map_err(text)?.string().map_err(text)?;
    value
        .parse()
        .map_err(|_| format!("{name}: {value:?} is not allowed; it must be {allowed}"))
}

/// Parse the value of an option that is a list of CPUs.
pub fn cpu_list(parser: &mut Parser, name: &str) -> Result<Vec<usize>, String> {
    let list: String = value(parser, name, "a list")?;
    cpus_of(&list).ok_or_else(|| {
        format!("{name}: {list:?} is not allowed; it must be a list such as 0,1 or 0-3")
    })
}

fn cpus_of(list: &str) -> Option<Vec<usize>> {
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
