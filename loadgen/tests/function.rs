//! All tests that judge no time, as one program; they run next to each other.
//!
//! A program per file would link every crate once per file, and would run the files one after
//! another: most tests wait for a server that is at fault.

mod support;

mod backend;
mod cli;
mod compare;
mod connections;
mod faults;
mod hpack;
mod http1;
mod http2;
mod http2_faults;
mod http3;
mod network;
mod plan;
mod quic;
mod run;
mod schema;
mod tls;
