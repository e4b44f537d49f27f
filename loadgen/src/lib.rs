//! A load generator that measures latency from the instant at which each request was to be sent,
//! and knows when it, or its host, was at fault.
//!
//! ```text
//! cli → session → engine → pool → slots
//!          │         │       └→ carrier → http1, http2, tls, sys
//!          │         └→ schedule, record, stalls
//!          └→ output → histogram, record
//! ```
//! `plan` is what goes in, `output` what comes out. A `pool` holds one thread's connections to an
//! instance, and their `slots`: one for each stream, each with a request at a time. A connection is
//! made of a `carrier`: a protocol's state machine, which knows bytes only (`http1`, `http2`), over a
//! transport, which may be `tls`. `carrier` says where others plug in. `sys` alone is unsafe.

pub mod alarms;
pub mod carrier;
pub mod control;
pub mod engine;
pub mod errors;
pub mod fields;
pub mod hgrm;
pub mod histogram;
pub mod http1;
pub mod http2;
pub mod http3;
pub mod huffman;
pub mod instants;
pub mod live;
pub mod output;
pub mod plan;
pub mod pool;
pub mod profile;
pub mod quic;
pub mod record;
pub mod request;
pub mod resources;
pub mod responder;
pub mod rng;
pub mod schedule;
pub mod selftest;
pub mod series;
pub mod session;
pub mod slots;
pub mod stalls;
pub mod sys;
pub mod ticker;
pub mod tls;
pub mod validity;
