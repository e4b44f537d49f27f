//! The options of `compare`: several servers in one plan.

use lexopt::Parser;
use tuner_loadgen::plan::{Instance, Mode, Plan, Protocol, Slices, Window};
use tuner_loadgen::{listeners, sys};

use super::plan::split_url;
use super::{Compared, RunOptions, read};
use crate::cli::values::Parsed;

const HELP: &str = "\
Compare servers under the same load, in slices: the requests go to them in turn, a few milliseconds
to each, in random order. What slows down the host then slows down all of them alike. In each turn
all servers get the same requests, at the same instants of their slices.

Usage: tuner-loadgen compare URL URL... [OPTIONS]

The first URL is the baseline; the ratios are to it. All URLs must have the same path. All servers
should share the same CPUs, and only the generator's CPU should be another one.

Each round gives a ratio; the interval is that of their mean (t distribution of the logarithms). A
request counts if its busy cycle contains no stall of the host and no border between slices. A busy
cycle lasts from one moment without an outstanding request to the next.

The comparison:
  -d, --duration T      The measured time of all rounds together [default: 15s]
      --round T         The length of a round; each has the same number of slices [default: 3s]
      --slice T         The length of a slice [default: 20ms]
      --level N         A busy cycle lasts as long as more than N requests are outstanding: for
                        servers with several workers [default: 0]
      --freeze          Stop the servers that are not at turn (SIGSTOP to the processes that listen on
                        their addresses), so that none works in the slices of the others: for
                        servers that collect garbage. All run again at the end, however it ends
      --seed N          Seed of the schedule and of the order [default: drawn]

The load, each as in `run --help`:
  -R, --rate N          Requests per second, to the server at turn [default: 1000]
  -c, --connections N   Connections to each server [default: 16]
  -t, -w, -H, -T, --closed, --arrival, --requests-per-connection, --method, --body-file,
  --http2, --http3, --streams, --ca-file, -k, --no-resume,
  --expect-status, --expect-length, --expect-sha256, --check,
  --cpu, --ticker-cpu, --spin, --samples

The output:
      --json            Print one JSON document (`tuner-loadgen schema compare` describes it)
  -q, --quiet           Show no progress

Ctrl-C ends the comparison after the current round's slices; the completed rounds are printed.

Exit codes: 0 success; 2 invalid argument; 130 interrupted (after the completed rounds are printed);
1 any other failure. Errors of a server are results, not failures.

Examples:
  tuner-loadgen compare http://127.0.0.1:8081/ http://127.0.0.1:8082/ -R 5k --cpu 0 --ticker-cpu 1
  tuner-loadgen compare http://127.0.0.1:8081/ http://127.0.0.1:8082/ -d 1m --slice 50ms --json
";

/// Rounds below which there is no interval.
const MIN_ROUNDS: f64 = 2.0;

/// Parse the options of `compare`: those of `run` that make sense for several servers, and its own.
pub fn parse(parser: &mut Parser) -> Result<Parsed<RunOptions>, String> {
    let parsed = read(parser, RunOptions::comparing(), HELP)?;
    if let Parsed::Options(options) = &parsed {
        options.check_compared()?;
    }
    Ok(parsed)
}

impl RunOptions {
    /// Return the defaults of a comparison.
    fn comparing() -> Self {
        Self {
            connections: 16,
            duration_s: 15.0,
            compared: Some(Compared {
                others: Vec::new(),
                slice_ms: 20.0,
                round_s: 3.0,
                level: None,
                freeze: false,
            }),
            ..Self::default()
        }
    }

    /// Refuse options of `run` that mean nothing for several servers.
    fn check_compared(&self) -> Result<(), String> {
        let given = [
            ("--rates", self.rates.is_some()),
            ("--instants", self.instants.is_some()),
            ("--urls", self.urls.is_some()),
            ("--hgrm", self.hgrm.is_some()),
            ("--out", self.out.is_some()),
            ("--format", self.format.is_some()),
            ("--latency", self.latency),
            ("--strict", self.strict),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(format!("{name} is an option of `run`, not of `compare`")),
            None => Ok(()),
        }
    }

    /// Return the URLs, the baseline first.
    pub fn compared_urls(&self) -> Vec<&str> {
        let others = self.compared.iter().flat_map(|compared| &compared.others);
        std::iter::once(&self.url)
            .chain(others)
            .map(|url| &**url)
            .collect()
    }

    /// Return the plan of the comparison: a window for each round.
    pub fn comparison(&mut self) -> Result<Plan, String> {
        let Some(compared) = self.compared.clone() else {
            return Err("compare: no servers".into());
        };
        if compared.others.is_empty() {
            return Err("compare: give at least two URLs, such as http://127.0.0.1:8081/".into());
        }
        let rounds = (self.duration_s / compared.round_s).floor();
        if !(compared.round_s > 0.0 && rounds >= MIN_ROUNDS) {
            return Err(format!(
                "--duration: {} s is not allowed; it must hold at least {MIN_ROUNDS} rounds of {} s (--round)",
                self.duration_s, compared.round_s
            ));
        }
        let seed = *self
            .seed
            .get_or_insert_with(|| sys::unix_ns() % 1_000_000_000);
        let mut plan = self.plan()?;
        plan.instances = self.servers()?;
        if compared.freeze {
            self.find_processes(&mut plan.instances)?;
        }
        let first = plan.windows.remove(0);
        let slices = Slices {
            instances: plan.instances.iter().map(|i| i.id.clone()).collect(),
            length_ms: compared.slice_ms,
            level: compared.level,
            freeze: compared.freeze,
            same_arrivals: first.mode == Mode::Open,
        };
        plan.windows = (0..rounds as u64)
            .map(|round| Window {
                id: format!("round-{}", round + 1),
                instance: String::new(),
                slices: Some(slices.clone()),
                seed: seed + round,
                duration_s: compared.round_s,
                ..first.clone()
            })
            .collect();
        plan.check().map_err(|error| error.to_string())?;
        Ok(plan)
    }

    /// Find the processes of the servers, which are to be stopped.
    fn find_processes(&self, servers: &mut [Instance]) -> Result<(), String> {
        for (server, url) in servers.iter_mut().zip(self.compared_urls()) {
            let udp = server.protocol == Protocol::Http3;
            server.pids = listeners::on(server.address, udp);
            if server.pids.is_empty() {
                return Err(format!(
                    "--freeze: no process that listens on {} ({url}) is visible; it must run on \
                     this host, and as your user unless you are root",
                    server.address
                ));
            }
        }
        Ok(())
    }

    fn servers(&self) -> Result<Vec<Instance>, String> {
        let (_, _, path) = split_url(&self.url)?;
        let urls = self.compared_urls().into_iter().enumerate();
        urls.map(|(place, url)| {
            let (_, _, other) = split_url(url)?;
            if other != path {
                return Err(format!(
                    "{url:?} is not allowed; its path must be {path:?}, as in the first URL"
                ));
            }
            self.instance(&format!("{}", place + 1), url)
        })
        .collect()
    }
}
