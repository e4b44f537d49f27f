//! Commands of a plan's controller, one per line on standard input.

use std::io;
use std::os::fd::RawFd;

use serde::Deserialize;

use crate::sys;

/// A command of the controller after a window.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// True to continue.
    pub next: Next,
    /// Instances whose remaining windows are skipped.
    #[serde(default)]
    pub drop: Vec<String>,
}

/// The controller's answer to a window that waits to start.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The instant at which its warm-up begins, on this host's monotonic clock.
    pub start_monotonic_ns: u64,
}

/// True to continue.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// The next window.
    Go,
    /// No more windows.
    Stop,
}

/// The longest line, in bytes: a plan of some 100,000 windows.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// Lines of a descriptor. A signal can interrupt a read.
#[derive(Debug)]
pub struct Lines {
    fd: RawFd,
    buffer: Vec<u8>,
}

impl Lines {
    /// Create a reader of a descriptor that stays open.
    pub fn new(fd: RawFd) -> Self {
        Self {
            fd,
            buffer: Vec::new(),
        }
    }

    /// Return the next line without its line end; `None` at the end of the stream or when a stop is
    /// requested. A last line without a line end counts.
    pub fn read(&mut self) -> io::Result<Option<String>> {
        let mut searched = 0;
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[searched..]) {
                let rest = self.buffer.split_off(searched + found + 1);
                let line = std::mem::replace(&mut self.buffer, rest);
                return text(line).map(Some);
            }
            searched = self.buffer.len();
            if searched > MAX_LINE {
                return Err(io::Error::other("a line on standard input is too long"));
            }
            if !sys::wait_readable(self.fd) {
                return Ok(None);
            }
            let mut piece = [0; 16 * 1024];
            let n = sys::read(self.fd, &mut piece)?;
            if n == 0 {
                let line = std::mem::take(&mut self.buffer);
                return if line.is_empty() {
                    Ok(None)
                } else {
                    text(line).map(Some)
                };
            }
            self.buffer.extend_from_slice(&piece[..n]);
        }
    }
}

fn text(mut line: Vec<u8>) -> io::Result<String> {
    while line.last().is_some_and(u8::is_ascii_whitespace) {
        line.pop();
    }
    String::from_utf8(line).map_err(|_| io::Error::other("standard input is not UTF-8"))
}
