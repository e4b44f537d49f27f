//! Thin wrappers over the Linux calls that the instrument stands on.
//!
//! The modules in here hold all `unsafe` code of the crate. Nothing in them decides anything: each
//! function is one system call or two, with its error as `io::Error`.

mod call;
mod clock;
mod epoll;
mod memory;
mod process;
mod socket;
mod udp;

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
