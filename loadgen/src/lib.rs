//! A load generator that measures latency from the instant at which each request was to be sent,
//! and knows when it, or its host, was at fault.
//!
//! ```text
//! cli → session → engine → pool → http1, sys
//!          │         └→ schedule, record, stalls
//!          └→ output → histogram, record
//! ```
//! `plan` is what goes in, `output` what comes out. `http1` knows bytes only, `sys` alone is unsafe.

pub mod control;
pub mod engine;
pub mod errors;
pub mod histogram;
pub mod http1;
pub mod instants;
pub mod output;
pub mod plan;
pub mod pool;
pub mod profile;
pub mod record;
pub mod resources;
pub mod rng;
pub mod schedule;
pub mod series;
pub mod session;
pub mod stalls;
pub mod sys;
