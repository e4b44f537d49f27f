//! Thin wrappers over the Linux calls that the instrument stands on.
//!
//! The modules in here hold all `unsafe` code of the crate. Nothing in them decides anything: each
//! function is one system call or two, with its error as `io::Error`.

mod clock;
mod epoll;
mod memory;
mod process;
mod socket;
mod udp;

use std::io;

use libc::{c_int, c_long};

pub use clock::{
    clock_ns, now_ns, process_cpu_ns, set_precise_timers, sleep_until, thread_cpu_ns, unix_ns,
};
pub use epoll::{Epoll, Wait};
pub use memory::{Column, page_bytes};
pub use process::{
    Readable, die_with_parent, install_signals, pin, prefer, raise_file_limit, read,
    set_idle_priority, set_realtime, stop_requested, stops_requested, usable_cpus, wait_readable,
    wait_readable_for,
};
pub use socket::{
    connect, receive, receive_stamped, reset_on_close, send, socket_error, stamp_receives,
};
pub use udp::{Datagrams, connect_udp, receive_datagrams, send_datagrams};

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as c_long,
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
