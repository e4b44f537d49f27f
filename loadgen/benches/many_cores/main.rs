//! What the generator costs on machines with many cores, as far as a few can show it: the claim of a
//! request by many threads, the tickers of many cores, and the memory and the gap of a window at a
//! high rate. Each part prints one JSON line of raw figures, round by round;
//! `benchmarks/many_cores.py` makes ratios of them.
//!
//! Usage: many_cores claim|ticker|gap [ROUNDS]

mod claim;
mod gap;
mod ticker;

use serde_json::Value;
use tuner_loadgen::sys;

fn main() {
    // Cargo adds --bench.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let part = words.next().unwrap_or_default();
    let rounds = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
    let cpus = sys::usable_cpus(0..libc::CPU_SETSIZE as usize);
    let found: Value = match part.as_str() {
        "claim" => claim::measure(&cpus, rounds),
        "ticker" => ticker::measure(&cpus, rounds),
        "gap" => gap::measure(rounds),
        _ => panic!("{part:?}: use claim, ticker or gap"),
    };
    println!("{found}");
}
