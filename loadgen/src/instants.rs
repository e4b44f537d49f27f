//! Recorded instants: a text with one on each line.

use std::fmt;
use std::path::Path;

use crate::plan::InstantsUnit;

/// The error of a line that is not an instant, or not a valid successor of the previous one.
#[derive(Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub line: usize,
    /// The invalid value and what is allowed.
    pub message: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

/// Parse instants: ascending, in nanoseconds from the start of the measured part. Empty lines and
/// those that start with `#` are skipped.
///
/// # Errors
/// The first invalid line. No line is dropped or sorted, because the measured schedule would then
/// differ from the recorded one.
pub fn parse(text: &str, unit: InstantsUnit, duration_ns: u64) -> Result<Vec<u64>, BadLine> {
    let mut instants: Vec<u64> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |must: String| BadLine {
            line: number + 1,
            message: format!("{line:?} is not allowed; it must be {must}"),
        };
        let Some(ns) = instant(line, unit) else {
            return Err(bad(match unit {
                InstantsUnit::S => "seconds from the start of the window, such as 0.25".into(),
                InstantsUnit::Ns => "whole nanoseconds from the start of the window".into(),
            }));
        };
        let last = instants.last().copied().unwrap_or(0);
        if ns < last {
            return Err(bad(format!(
                "no earlier than the one before it ({last} ns)"
            )));
        }
        if ns >= duration_ns {
            return Err(bad(format!(
                "within the window's duration_s ({duration_ns} ns)"
            )));
        }
        instants.push(ns);
    }
    if instants.is_empty() {
        return Err(BadLine {
            line: text.lines().count().max(1),
            message: "the file contains no instant; it must contain one per line".into(),
        });
    }
    Ok(instants)
}

fn instant(text: &str, unit: InstantsUnit) -> Option<u64> {
    match unit {
        InstantsUnit::Ns => text.parse().ok(),
        InstantsUnit::S => {
            let seconds: f64 = text.parse().ok()?;
            (0.0..1e9)
                .contains(&seconds)
                .then(|| (seconds * 1e9).round() as u64)
        }
    }
}

/// Read a file of instants.
///
/// # Errors
/// `FILE: reason` or `FILE:LINE: value and what is allowed`.
pub fn read(path: &Path, unit: InstantsUnit, duration_ns: u64) -> Result<Vec<u64>, String> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    parse(&text, unit, duration_ns).map_err(|bad| format!("{name}:{bad}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Units are seconds or nanoseconds; comments and empty lines are skipped; equal instants are
    /// two requests.
    #[test]
    fn instants_are_lines() {
        let text = "# recorded on Monday\n0\n\n0.25\r\n0.25\n 9e-1 \n";
        let ns = parse(text, InstantsUnit::S, SECOND);
        assert_eq!(ns, Ok(vec![0, 250_000_000, 250_000_000, 900_000_000]));
        let ns = parse("7\n999999999\n", InstantsUnit::Ns, SECOND);
        assert_eq!(ns, Ok(vec![7, 999_999_999]));
    }

    /// Errors name the line.
    #[test]
    fn errors_name_the_line() {
        for (text, unit, line, words) in [
            ("0.1\nsoon\n", InstantsUnit::S, 2, "\"soon\""),
            ("0.1\nNaN\n", InstantsUnit::S, 2, "seconds"),
            ("-0.1\n", InstantsUnit::S, 1, "seconds"),
            ("0.1\n#\n0.5\n0.2", InstantsUnit::S, 4, "no earlier"),
            ("0.1\n1.0\n", InstantsUnit::S, 2, "duration_s"),
            ("0.1\n", InstantsUnit::Ns, 1, "whole nanoseconds"),
            ("# nothing\n\n", InstantsUnit::S, 2, "no instant"),
            ("", InstantsUnit::S, 1, "no instant"),
        ] {
            let bad = parse(text, unit, SECOND).unwrap_err();
            assert_eq!(bad.line, line, "{text:?}");
            assert!(bad.message.contains(words), "{bad}");
        }
    }
}
