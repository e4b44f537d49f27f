//! A session measures the windows of a plan one after another, with pools, tickers, and the
//! controller's commands.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::carrier::Endpoint;
use crate::control::{Command, Lines, Next, Start};
use crate::engine::{self, AskStart, Interrupted, Raw, Settings};
use crate::instants;
use crate::live::Live;
use crate::output::{self, Context, EndLine, ReadyLine, Reason, WindowLine};
use crate::plan::{Instance, Plan, Protocol, Spin, Window};
use crate::pool::{Bundle, Pool, Target};
use crate::prepare;
use crate::processes::Processes;
use crate::quic;
use crate::resources;
use crate::schedule::{Mix, Schedule};
use crate::stalls::Ticker;
use crate::sys;
use crate::tls;

/// The reason why a plan did not finish.
#[derive(Debug)]
pub enum Failure {
    /// SIGTERM, SIGINT or the death of the parent.
    Interrupted,
    /// The controller sent an invalid command.
    Command(String),
    /// An error of the system.
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Interrupted> for Failure {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// A running plan.
#[derive(Debug)]
pub struct Session<'a> {
    plan: &'a Plan,
    mix: Mix,
    /// The recorded instants, by window.
    recorded: HashMap<&'a str, Vec<u64>>,
    /// The TLS clients, by instance.
    tls: HashMap<&'a str, tls::Client>,
    /// The connections of each thread to each instance, between windows. Windows have several
    /// instances, in different orders, and some without those that were dropped.
    bundles: HashMap<&'a str, Vec<Bundle>>,
    /// The processes of instances that are stopped when it is not their turn.
    processes: Option<Processes<'a>>,
    live: Option<Arc<Live>>,
}

impl<'a> Session<'a> {
    /// Pin the calling thread to the plan's CPUs, and read the files that its windows name.
    ///
    /// # Errors
    /// A CPU that this process may not use, with those that it may; a file of instants that cannot
    /// be read, with the invalid line.
    pub fn new(plan: &'a Plan) -> Result<Self, String> {
        let ticker_cpus = plan.ticker.iter().flat_map(|ticker| &ticker.cpus);
        let named = plan.cpus.iter().map(|cpu| ("cpus", cpu));
        check_cpus(named.chain(ticker_cpus.map(|cpu| ("ticker.cpus", cpu))))?;
        let mut recorded = HashMap::new();
        for window in &plan.windows {
            if let Some(path) = &window.instants_file {
                let read = instants::read(path, window.instants_unit, window.duration_ns());
                recorded.insert(window.id.as_str(), read?);
            }
        }
        let mut tls = HashMap::new();
        for instance in &plan.instances {
            if let Some(how) = &instance.tls {
                let address = instance.address.to_string();
                let host = instance.host.as_deref().unwrap_or(&address);
                let client = tls::Client::new(how, host, instance.protocol)
                    .map_err(|error| format!("instance {:?}: {error}", instance.id))?;
                tls.insert(instance.id.as_str(), client);
            }
        }
        if !plan.cpus.is_empty() {
            sys::pin(&plan.cpus).map_err(|error| format!("cpus: {error}"))?;
        }
        sys::set_precise_timers();
        sys::raise_file_limit();
        Ok(Self {
            plan,
            mix: Mix::new(plan.requests.iter().map(|request| request.weight)),
            recorded,
            tls,
            bundles: HashMap::new(),
            processes: Processes::open(plan),
            live: None,
        })
    }

    /// Provide figures for a progress line. An interrupted window then ends early and is kept;
    /// otherwise it is discarded.
    pub fn show(&mut self, live: Arc<Live>) {
        self.live = Some(live);
    }

    /// Measure one window; return a line for each instance.
    pub fn measure(&mut self, window: &'a Window) -> Result<Vec<WindowLine>, Failure> {
        Ok(self.measure_whole(window)?.0)
    }

    /// Measure one window, and return its raw measurements too.
    pub fn measure_whole(&mut self, window: &'a Window) -> Result<(Vec<WindowLine>, Raw), Failure> {
        self.measure_from(window, None)
    }

    /// Return the pool of each thread for a window, with the connections that exist already.
    fn pools(
        &mut self,
        window: &Window,
        instances: &[&'a Instance],
        threads: usize,
    ) -> io::Result<Vec<Pool>> {
        let mut parts = (0..threads).map(|_| Vec::new()).collect::<Vec<_>>();
        for instance in instances {
            let id = instance.id.as_str();
            let mut bundles = self.bundles.remove(id).unwrap_or_default();
            if bundles.len() != threads {
                let target = || target(self.plan, instance, self.tls.get(id));
                let bundle = |_| Ok(Bundle::new(target()?));
                bundles = (0..threads).map(bundle).collect::<io::Result<_>>()?;
            }
            for (part, bundle) in parts.iter_mut().zip(bundles) {
                part.push(bundle);
            }
        }
        let each = |place| share(window.connections, threads, place);
        let parts = (0..).zip(parts);
        parts
            .map(|(place, bundles)| Pool::new(bundles, each(place)))
            .collect()
    }

    fn measure_from(
        &mut self,
        window: &'a Window,
        start: Option<AskStart<'_>>,
    ) -> Result<(Vec<WindowLine>, Raw), Failure> {
        let plan = self.plan;
        let gap_ns = plan.gap_us * 1000;
        let find = |id: &str| plan.instances.iter().find(|instance| instance.id == id);
        let instances: Option<Vec<&Instance>> = window.arms().into_iter().map(find).collect();
        let instances = instances.ok_or_else(|| io::Error::other("unknown instance"))?;
        let threads = plan.cpus.len().clamp(1, window.connections);
        let mut pools = self.pools(window, &instances, threads)?;
        let ticker_cpus = plan.ticker.iter().flat_map(|ticker| &ticker.cpus);
        let cpus: BTreeSet<usize> = plan.cpus.iter().chain(ticker_cpus).copied().collect();
        let cpus: Vec<usize> = cpus.into_iter().collect();

        let recorded = self.recorded.get(window.id.as_str());
        let schedule = Schedule::of(window, recorded.map(Vec::as_slice), &self.mix);
        let steal_before = resources::steal_s(&cpus);
        // A server may have started more since the last window.
        let families = instances.iter().map(|i| resources::with_children(&i.pids));
        let families: Vec<Vec<i32>> = families.collect();
        let pids: Vec<&[i32]> = families.iter().map(Vec::as_slice).collect();
        let waited_before: Vec<_> = pids.iter().map(|pids| resources::waited_ns(pids)).collect();
        if let Some(processes) = &mut self.processes {
            processes.follow();
        }
        let processes = self.processes.as_ref();
        let slices = window.slices.as_ref().filter(|slices| slices.freeze);
        let frozen = processes.zip(slices);
        let frozen = frozen.map(|(p, slices)| p.of(&window.arms(), slices.length_ms));
        let (frozen, mut not_frozen) = match frozen {
            Some(Ok(frozen)) => (Some(frozen), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let ticker = plan.ticker.as_ref().map(|t| Ticker::start(t, gap_ns));
        let settings = Settings {
            spin: plan.spin,
            gap_ns,
            pids: &pids,
            frozen: frozen.as_ref(),
            cpus: &plan.cpus,
            live: self.live.clone(),
            start,
        };
        let raw = engine::run(window, schedule, &settings, &mut pools)?;
        for pool in pools {
            for (instance, bundle) in instances.iter().zip(pool.into_bundles()) {
                let id = instance.id.as_str();
                self.bundles.entry(id).or_default().push(bundle);
            }
        }
        let realtime = ticker.as_ref().is_some_and(|ticker| ticker.realtime);
        let server = ticker.map(Ticker::finish).unwrap_or_default();
        let raw = raw?;
        let mut steal_s = resources::steal_s(&cpus);
        for (cpu, after) in &mut steal_s {
            *after -= steal_before.get(cpu).copied().unwrap_or(*after);
        }
        if let Some(arm) = raw.unfrozen {
            let id = &instances[arm].id;
            not_frozen = Some(format!(
                "instance {id:?}: a process ended during the window"
            ));
        }
        let is_frozen = frozen.is_some() && not_frozen.is_none();
        let cycles = output::cycles(window, &raw, &server, is_frozen);
        let lines = instances.iter().enumerate().map(|(place, instance)| {
            let mut warnings = Vec::new();
            if plan.ticker.is_some() && !realtime {
                let text = "real-time priority is not permitted, so stalls of the server's CPUs were not watched";
                warnings.push(text.to_owned());
            }
            if instance.tls.as_ref().is_some_and(|tls| !tls.verify) {
                let text = "certificates were not verified (tls.verify is false)";
                warnings.push(text.to_owned());
            }
            let waited = resources::waited_ns(pids[place]);
            let context = Context {
                sent_every_us: plan.spin.every_ns().map(|ns| ns / 1000),
                gap_us: plan.gap_us,
                realtime,
                server: server.clone(),
                steal_s: steal_s.clone(),
                server_wait_s: resources::waited_s(&waited_before[place], &waited),
                server_rss_bytes: resources::rss_bytes(pids[place]),
                samples_dir: plan.samples_dir.clone(),
                frozen: is_frozen,
                not_frozen: not_frozen.clone(),
                warnings,
            };
            WindowLine::new(window, instance, &plan.cpus, &raw, place, cycles.as_ref(), context)
        });
        Ok((lines.collect(), raw))
    }

    /// Measure one window from the instant that the controller names.
    fn measure_when_asked(
        &mut self,
        window: &'a Window,
        output: &mut (impl Write + Send),
        lines: &mut Lines,
    ) -> Result<Vec<WindowLine>, Failure> {
        let parties = Mutex::new((output, lines, None));
        let ask = || {
            let mut parties = parties.lock().unwrap_or_else(PoisonError::into_inner);
            let (output, lines, failure) = &mut *parties;
            agree(window, output, lines).unwrap_or_else(|why| {
                *failure = Some(why);
                None
            })
        };
        let measured = self.measure_from(window, Some(AskStart(&ask)));
        let (_, _, failure) = parties.into_inner().unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some(why) => Err(why),
            None => Ok(measured?.0),
        }
    }

    /// Measure all windows, write one line for each instance of a window, and wait for the controller's command after
    /// each, if there is a controller.
    pub fn run(
        &mut self,
        output: &mut (impl Write + Send),
        mut control: Option<&mut Lines>,
    ) -> Result<(), Failure> {
        let mut end = EndLine {
            reason: Reason::Done,
            windows: 0,
            skipped: 0,
        };
        let mut dropped = HashSet::new();
        for window in &self.plan.windows {
            let arms = window.arms();
            if end.reason != Reason::Done || arms.iter().any(|id| dropped.contains(*id)) {
                end.skipped += 1;
                continue;
            }
            let measured = match control.as_deref_mut().filter(|_| self.plan.wait_to_start) {
                Some(lines) => self.measure_when_asked(window, output, lines)?,
                None => self.measure(window)?,
            };
            for measured in measured {
                line(output, &measured)?;
            }
            end.windows += 1;
            let Some(lines) = control.as_deref_mut() else {
                continue;
            };
            let read = lines.read()?;
            if sys::stop_requested() {
                return Err(Failure::Interrupted);
            }
            let Some(read) = read else {
                end.reason = Reason::Eof;
                continue;
            };
            let command: Command = serde_json::from_str(&read)
                .map_err(|error| Failure::Command(format!("{read:?}: {error}")))?;
            let known = |id: &String| self.plan.instances.iter().any(|i| i.id == *id);
            if let Some(id) = command.drop.iter().find(|id| !known(id)) {
                let text = format!("drop: {id:?} is not the id of an instance");
                return Err(Failure::Command(text));
            }
            for id in command.drop {
                self.bundles.remove(id.as_str());
                dropped.insert(id);
            }
            if command.next == Next::Stop {
                end.reason = Reason::Stopped;
            }
        }
        line(output, &end)?;
        Ok(())
    }
}

/// The furthest start that a controller may name: a later one is of another clock.
const MAX_WAIT_NS: u64 = 60_000_000_000;

/// Report that a window is ready, and return the instant at which it begins; `None` if the
/// controller is gone or a stop is requested.
fn agree(
    window: &Window,
    output: &mut impl Write,
    lines: &mut Lines,
) -> Result<Option<u64>, Failure> {
    line(output, &ReadyLine { id: &window.id })?;
    let Some(read) = lines.read()? else {
        return Ok(None);
    };
    let start: Start = serde_json::from_str(&read)
        .map_err(|error| Failure::Command(format!("{read:?}: {error}")))?;
    let (at, now) = (start.start_monotonic_ns, sys::now_ns());
    if at > now + MAX_WAIT_NS {
        let text = format!(
            "start_monotonic_ns: {at} is more than a minute ahead of this host's monotonic clock, {now}"
        );
        return Err(Failure::Command(text));
    }
    Ok(Some(at))
}

/// Return how a pool reaches an instance, and what it asks it for.
/// Return the share of one thread, of `n` things for all.
fn share(n: usize, threads: usize, place: usize) -> usize {
    n / threads + usize::from(place < n % threads)
}

fn target(plan: &Plan, instance: &Instance, tls: Option<&tls::Client>) -> io::Result<Target> {
    let address = instance.address.to_string();
    let host = instance.host.as_deref().unwrap_or(&address);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let quic = tls.filter(|_| instance.protocol == Protocol::Http3);
    let quic = quic.map(quic::Config::new).transpose();
    Ok(Target {
        endpoint: Endpoint {
            address: instance.address,
            protocol: instance.protocol,
            tls: tls.cloned(),
            quic: quic.map_err(io::Error::other)?,
            stamped: plan.spin != Spin::Full,
        },
        requests: prepare::all(&plan.requests, host, scheme),
    })
}

fn line(output: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    output.write_all(&text)?;
    output.flush()
}

/// Return an error if this process may not use one of the CPUs.
pub fn check_cpus<'b>(named: impl IntoIterator<Item = (&'b str, &'b usize)>) -> Result<(), String> {
    for (name, cpu) in named {
        if sys::usable_cpus([*cpu]).is_empty() {
            let usable = sys::usable_cpus(0..libc::CPU_SETSIZE as usize);
            return Err(format!(
                "{name}: {cpu} is not allowed; this process may use the CPUs {usable:?}"
            ));
        }
    }
    Ok(())
}
