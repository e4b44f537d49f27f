//! The tests that judge times and counts, as one program: they run one after another.

// `function.rs` uses all of it.
#[allow(dead_code)]
mod support;

mod freeze;
mod instrument;
mod latency;
mod slices;
mod stalls;
mod together;
mod validity;
