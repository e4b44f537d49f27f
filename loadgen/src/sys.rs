//! Thin wrappers of Linux system calls.
//!
//! These modules contain all `unsafe` code of the crate, and no decisions: each function is one or
//! two system calls, with their error as `io::Error`.

#![allow(unsafe_code)]

mod call;
mod clock;
mod epoll;
mod memory;
mod process;
mod socket;
mod stopping;
mod udp;

pub use clock::{
    clock_ns, now_ns, process_cpu_ns, set_precise_timers, sleep_until, thread_cpu_ns, unix_ns,
};
pub use epoll::{Epoll, Wait};
pub use memory::{Column, page_bytes};
pub use process::{
    Readable, cpus_of, die_with_parent, install_signals, pin, raise_file_limit, raise_priority,
    read, set_idle_priority, set_realtime, stop_requested, stops_requested, usable_cpus,
    wait_readable, wait_readable_for,
};
pub use socket::{
    connect, receive, receive_stamped, reset_on_close, send, set_backlog, socket_error,
    stamp_receives,
};
pub use stopping::{Guardian, Process};
pub use udp::{Datagrams, connect_udp, receive_datagrams, send_datagrams};
