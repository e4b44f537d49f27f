//! Options of the commands about the instrument and its host: `self-test` and `ticker`.

use lexopt::{Arg, Parser};
use tuner_loadgen::{selftest, sys, ticker};

use super::values::{Parsed, cpu_list, text, value};

const SELF_TEST_HELP: &str = "\
Measure the accuracy of this generator on this host, against a built-in responder with known delays.

Usage: tuner-loadgen self-test [--cpus LIST] [--server-cpus LIST] [--for SECONDS] [--json]

      --cpus LIST         CPUs of the generator, one thread on each [default: the first usable one]
      --server-cpus LIST  CPUs of the responder [default: the last usable one]
      --for S             Run for about S seconds, 4 to 600 [default: 18]
      --json              Print one JSON line

Measured are the floor (latency of an idle responder), pacing (how late requests are written),
accuracy (percentiles compared with theory, for known delays and for a responder that freezes for
100 ms every second), arrivals (whether requests leave as a Poisson process), the highest rate of
one thread and of all, and the smallest difference of p99 that can be detected. docs/instrument.md
explains each figure. Requests near stalls of the host are left out, as in tuner, unless generator
and responder share a CPU.

Exit codes: 0 fit; 1 not fit (with the reasons) or failed; 2 invalid argument; 130 interrupted.

Examples:
  tuner-loadgen self-test
  tuner-loadgen self-test --cpus 0,1 --server-cpus 2,3 --for 60
  tuner-loadgen self-test --json | jq .verdict
";

const TICKER_HELP: &str = "\
Watch CPUs of this host for stalls, and report them to a reader that may be on another host.

Usage: tuner-loadgen ticker --cpus LIST [--for SECONDS] [--gap US] [--period US]

      --cpus LIST   CPUs to watch (the server's), such as 1,2 or 1-3
      --for S       Stop after S seconds [default: at the end of standard input]
      --gap US      Report stalls longer than US microseconds [default: 100]
      --period US   Wake up every US microseconds [default: 500]

Prints JSON lines: {\"type\":\"ticker\",...} first, {\"type\":\"stall\",...} for each stall,
{\"type\":\"clock\",...} every second and in answer to each line of standard input, and
{\"type\":\"end\",...} last. Instants are given on the monotonic and on the realtime clock, in
nanoseconds. The ticker stops after the given time, at the end of standard input, or on SIGTERM.
Without the right to real-time priority (CAP_SYS_NICE, or ulimit -r), realtime is false: other work
on the CPU then delays the ticker too, and stalls shorter than resolution_us, which is measured
continuously, mean nothing.

Exit codes: 0 success; 2 invalid argument; 1 any other failure.

Examples:
  tuner-loadgen ticker --cpus 1
  ssh target tuner-loadgen ticker --cpus 2,3 > stalls.jsonl
";

/// Options of `self-test`.
#[derive(Debug)]
pub struct SelfTestOptions {
    pub test: selftest::Options,
    pub json: bool,
}

pub(super) fn self_test(parser: &mut Parser) -> Result<Parsed<SelfTestOptions>, String> {
    let (mut own, mut server) = (Vec::new(), Vec::new());
    let (mut for_s, mut json) = (18.0, false);
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Arg::Long("cpus") => own = cpu_list(parser, "--cpus")?,
            Arg::Long("server-cpus") => server = cpu_list(parser, "--server-cpus")?,
            Arg::Long("for") => for_s = value(parser, "--for", "seconds")?,
            Arg::Long("json") => json = true,
            Arg::Short('h') | Arg::Long("help") => {
                return Ok(Parsed::Print(SELF_TEST_HELP.into()));
            }
            other => return Err(text(other.unexpected())),
        }
    }
    if !(4.0..=600.0).contains(&for_s) {
        return Err(format!(
            "--for: {for_s} is not allowed; it must be 4 to 600 seconds"
        ));
    }
    let usable = sys::usable_cpus(0..libc::CPU_SETSIZE as usize);
    let not_in = |other: &[usize]| {
        let free = usable.iter().copied().find(|cpu| !other.contains(cpu));
        free.or(usable.first().copied()).into_iter().collect()
    };
    if server.is_empty() {
        let last = usable.iter().rev().copied().find(|cpu| !own.contains(cpu));
        server = last.or(usable.last().copied()).into_iter().collect();
    }
    if own.is_empty() {
        own = not_in(&server);
    }
    Ok(Parsed::Options(SelfTestOptions {
        test: selftest::Options {
            cpus: own,
            server_cpus: server,
            for_s,
        },
        json,
    }))
}

pub(super) fn ticker(parser: &mut Parser) -> Result<Parsed<ticker::Options>, String> {
    let mut list = Vec::new();
    let (mut for_s, mut gap_us, mut period_us) = (None, 100_u64, 500_u64);
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Arg::Long("cpus") => list = cpu_list(parser, "--cpus")?,
            Arg::Long("for") => for_s = Some(value::<f64>(parser, "--for", "seconds")?),
            Arg::Long("gap") => gap_us = value(parser, "--gap", "microseconds")?,
            Arg::Long("period") => period_us = value(parser, "--period", "microseconds")?,
            Arg::Short('h') | Arg::Long("help") => return Ok(Parsed::Print(TICKER_HELP.into())),
            other => return Err(text(other.unexpected())),
        }
    }
    if list.is_empty() {
        return Err("ticker: --cpus is missing; it must be a list such as 1,2 or 1-3".into());
    }
    for (name, us, allowed) in [("--gap", gap_us, 1), ("--period", period_us, 50)] {
        if !(allowed..=1_000_000).contains(&us) {
            return Err(format!(
                "{name}: {us} is not allowed; it must be {allowed} to 1000000 microseconds"
            ));
        }
    }
    if let Some(for_s) = for_s
        && !(0.001..=31_536_000.0).contains(&for_s)
    {
        return Err(format!(
            "--for: {for_s} is not allowed; it must be 0.001 to 31536000 seconds"
        ));
    }
    Ok(Parsed::Options(ticker::Options {
        cpus: list,
        for_ns: for_s.map(|s| (s * 1e9) as u64),
        gap_ns: gap_us * 1000,
        period_ns: period_us * 1000,
    }))
}
