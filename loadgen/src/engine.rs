//! The loop that measures: one epoll set, one window, and one such loop on each CPU.
//!
//! Everything it touches is allocated before the window starts; in between it takes no lock, no file,
//! and memory only for what a well-behaved server never sends. Each turn reads the clock, writes what
//! is due, mends connections, and polls. Requests that are due are also written between the events of
//! one poll, so that a burst of answers delays no request.

mod connect;
mod counts;
mod crew;
mod event_loop;
mod exchange;
mod ledger;

pub use crew::{Interrupted, Manner, Raw, run};
