//! What goes wrong on the wire, counted by kind.

use std::collections::BTreeMap;
use std::io;

use crate::http1::Fault;

/// One kind of error. Those named `Connect…` befall attempts to connect, the others requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nobody listens.
    ConnectRefused,
    /// No answer to the connect within the timeout.
    ConnectTimeout,
    /// The process has no file descriptor left.
    ConnectNoFiles,
    /// No local port is left.
    ConnectNoPorts,
    /// Any other failure to connect.
    ConnectFailed,
    /// The peer reset the connection.
    Reset,
    /// The stream ended before the first byte of the response.
    Closed,
    /// The stream ended within the response.
    Truncated,
    /// Not HTTP/1.x.
    Garbage,
    /// The response's head is too large.
    HeadTooLarge,
    /// Malformed chunked coding.
    BadChunk,
    /// Bytes after the end of the response.
    ExcessBytes,
    /// The body has not the expected length.
    WrongLength,
    /// The body has not the expected hash.
    WrongSha256,
    /// Any other error of the socket.
    Io,
    /// Not the expected status, but this one.
    Status(u16),
}

const NAMES: [&str; 15] = [
    "connect_refused",
    "connect_timeout",
    "connect_no_files",
    "connect_no_ports",
    "connect_failed",
    "reset",
    "closed",
    "truncated",
    "garbage",
    "head_too_large",
    "bad_chunk",
    "excess_bytes",
    "wrong_length",
    "wrong_sha256",
    "io",
];

impl Kind {
    fn index(self) -> usize {
        match self {
            Self::ConnectRefused => 0,
            Self::ConnectTimeout => 1,
            Self::ConnectNoFiles => 2,
            Self::ConnectNoPorts => 3,
            Self::ConnectFailed => 4,
            Self::Reset => 5,
            Self::Closed => 6,
            Self::Truncated => 7,
            Self::Garbage => 8,
            Self::HeadTooLarge => 9,
            Self::BadChunk => 10,
            Self::ExcessBytes => 11,
            Self::WrongLength => 12,
            Self::WrongSha256 => 13,
            Self::Io => 14,
            Self::Status(status) => NAMES.len() + usize::from(status.min(999)),
        }
    }

    /// The kind of a failed connect.
    pub fn of_connect(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => Self::ConnectRefused,
            Some(libc::ETIMEDOUT) => Self::ConnectTimeout,
            Some(libc::EMFILE | libc::ENFILE) => Self::ConnectNoFiles,
            Some(libc::EADDRNOTAVAIL) => Self::ConnectNoPorts,
            _ => Self::ConnectFailed,
        }
    }

    /// The kind of a failed read or write.
    pub fn of_transfer(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNRESET | libc::EPIPE) => Self::Reset,
            _ => Self::Io,
        }
    }
}

impl From<Fault> for Kind {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Garbage => Self::Garbage,
            Fault::HeadTooLarge => Self::HeadTooLarge,
            Fault::BadChunk => Self::BadChunk,
            Fault::Truncated => Self::Truncated,
        }
    }
}

/// Counts by kind. Memory is fixed from the start.
#[derive(Debug)]
pub struct Errors {
    counts: Vec<u64>,
}

impl Errors {
    /// No errors yet.
    pub fn new() -> Self {
        Self {
            counts: vec![0; NAMES.len() + 1000],
        }
    }

    /// Count one.
    pub fn add(&mut self, kind: Kind) {
        self.counts[kind.index()] += 1;
    }

    /// Add another's counts.
    pub fn merge(&mut self, other: &Self) {
        for (all, its) in self.counts.iter_mut().zip(&other.counts) {
            *all += its;
        }
    }

    /// The kinds that occurred.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let counts = self.counts.iter().enumerate();
        counts
            .filter(|(_, count)| **count > 0)
            .map(|(i, count)| match NAMES.get(i) {
                Some(name) => ((*name).to_owned(), *count),
                None => (format!("status_{}", i - NAMES.len()), *count),
            })
            .collect()
    }
}

impl Default for Errors {
    fn default() -> Self {
        Self::new()
    }
}
