//! The tickers of one core and of sixty-four. Those of more cores than there are run on the same
//! cores in turn, so each core bears several.
//!
//! The cost is measured on the other side: by the rounds of a loop on the core that a ticker
//! interrupts. So it includes the timer's interrupt and the changes of thread, which no clock of the
//! ticker's own counts.

use std::io;
use std::os::fd::AsRawFd as _;

use serde_json::{Value, json};
use tuner_loadgen::plan;
use tuner_loadgen::stalls::Ticker;
use tuner_loadgen::{sys, ticker};

const MANY: usize = 64;
const PERIOD_US: u64 = 500;
const GAP_NS: u64 = 100_000;
/// Length of a piece with tickers or without; several of them in turn, since the core's speed
/// changes.
const PIECE_NS: u64 = 50_000_000;
const PIECES: usize = 20;
const WATCHED_NS: u64 = 2_000_000_000;

/// Return the figures of each round.
pub fn measure(cpus: &[usize], rounds: usize) -> Value {
    let round = |_| {
        json!({
            "share_of_one": share(cpus, 1),
            "share_of_many": share(cpus, MANY),
            "tickers_on_core": MANY.div_ceil(cpus.len()),
            "start_one_ms": start_ms(cpus, 1),
            "start_many_ms": start_ms(cpus, MANY),
            "reader_of_one_share": reader(cpus, 1),
            "reader_of_many_share": reader(cpus, MANY),
        })
    };
    (0..rounds).map(round).collect()
}

fn config(cpus: &[usize], count: usize) -> plan::Ticker {
    plan::Ticker {
        cpus: cpus.iter().rev().cycle().take(count).copied().collect(),
        period_us: PERIOD_US,
        priority: 50,
    }
}

/// Return the share of the last core that tickers take; negative values are noise.
fn share(cpus: &[usize], count: usize) -> Option<f64> {
    let core = cpus.last().copied()?;
    sys::pin(&[core]).ok()?;
    let mut shares = Vec::with_capacity(PIECES);
    for _ in 0..PIECES {
        let free = rounds();
        let ticker = Ticker::start(&config(cpus, count), GAP_NS);
        if !ticker.realtime {
            return None;
        }
        let watched = rounds();
        ticker.finish();
        shares.push(1.0 - watched / free);
    }
    sys::pin(cpus).ok()?;
    shares.sort_by(f64::total_cmp);
    Some((shares[PIECES / 2 - 1] + shares[PIECES / 2]) / 2.0)
}

/// Return the readings of the clock in a piece of time.
fn rounds() -> f64 {
    let begun = sys::now_ns();
    let mut count = 0u64;
    while sys::now_ns() - begun < PIECE_NS {
        count += 1;
    }
    count as f64
}

/// Return how long the start of tickers and their end take: a part of the gap between windows.
fn start_ms(cpus: &[usize], count: usize) -> f64 {
    let begun = sys::now_ns();
    Ticker::start(&config(cpus, count), GAP_NS).finish();
    (sys::now_ns() - begun) as f64 / 1e6
}

/// Return the CPU time of the one reader that the command `ticker` has for all threads, as a share of
/// a core.
fn reader(cpus: &[usize], count: usize) -> Option<f64> {
    let options = ticker::Options {
        cpus: config(cpus, count).cpus,
        for_ns: Some(WATCHED_NS),
        gap_ns: GAP_NS,
        period_ns: PERIOD_US * 1000,
    };
    // Its end that is held here keeps the input open.
    let (input, _held) = io::pipe().ok()?;
    let (begun, before) = (sys::now_ns(), sys::thread_cpu_ns());
    ticker::run(&options, input.as_raw_fd(), &mut io::sink()).ok()?;
    // The calling thread is the reader. Where tickers fill the cores, it ends late.
    let (took, used) = (sys::now_ns() - begun, sys::thread_cpu_ns() - before);
    sys::pin(cpus).ok()?;
    Some(used as f64 / took as f64)
}
