//! Frozen slices: servers in processes of their own, which are stopped when it is not their turn and
//! run again however the window ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::support::{Responder, assert_accounted, measure, merge, output_of, plan};
use serde_json::{Value, json};
use tuner_loadgen::engine::{Arm, Book, Raw};
use tuner_loadgen::output::{self, SliceFigures, WindowLine};
use tuner_loadgen::plan::Plan;
use tuner_loadgen::quic::Path;
use tuner_loadgen::record::{Outcome, Sample};
use tuner_loadgen::session::Session;
use tuner_loadgen::sys;

/// Names the kind of server that this test binary is to be.
const KIND: &str = "LOADGEN_TEST_SERVER";

/// A server in a process of its own.
struct Server {
    child: Child,
    address: SocketAddr,
    answers: Mutex<BufReader<ChildStdout>>,
}

impl Server {
    fn start(kind: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "freeze::serve", "--ignored", "--nocapture"])
            .env(KIND, kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        let lines = answers.by_ref().lines();
        let mut found = lines.map_while(Result::ok).filter_map(|line| {
            let (_, address) = line.split_once("address ")?;
            address.parse().ok()
        });
        let address = found.next().expect("it listens");
        drop(found);
        Self {
            child,
            address,
            answers: Mutex::new(answers),
        }
    }

    fn good() -> Self {
        Self::start("good")
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Pass a word to a "parent"; return the id of its child.
    fn say(&self, word: &str) -> u32 {
        writeln!(self.child.stdin.as_ref().unwrap(), "{word}").unwrap();
        let mut line = String::new();
        let mut answers = self.answers.lock().unwrap();
        answers.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Be a server until standard input ends: the process that the tests start.
#[test]
#[ignore = "the other tests start it"]
fn serve() {
    let server = match std::env::var(KIND).as_deref() {
        Ok("good" | "parent") => Responder::good(),
        Ok("crowded") => {
            for _ in 0..64 * cpus() {
                std::thread::spawn(std::thread::park);
            }
            Responder::good()
        }
        Ok("silent") => Responder::start(|mut client, _| while client.request().is_some() {}),
        _ => return,
    };
    println!("\naddress {}", server.address);
    let mut children = Vec::new();
    for word in std::io::stdin().lines().map_while(Result::ok) {
        if word == "start" {
            children.push(Command::new("sleep").arg("60").spawn().unwrap());
        }
        let child: &mut Child = children.last_mut().unwrap();
        if word == "end" {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        println!("{}", child.id());
    }
}

/// The CPUs on which this process may run, and those that it starts.
fn cpus() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// A plan of one window over these servers, called a, b, c; their pids may be changed.
fn frozen(servers: &[&Server], window: Value) -> Value {
    let ids = ["a", "b", "c"];
    let instances = ids.iter().zip(servers).map(|(id, server)| {
        let address = server.address.to_string();
        json!({"id": id, "address": address, "pids": [server.pid()]})
    });
    let instances: Vec<Value> = instances.collect();
    let mut first = json!({
        "instance": "", "slices": {"instances": &ids[..servers.len()], "freeze": true},
        "rate_per_s": 500, "connections": 8, "warmup_s": 0.1, "duration_s": 1.2,
    });
    merge(&mut first, window);
    plan(servers[0].address, first, json!({"instances": instances}))
}

fn slices(line: &WindowLine) -> &SliceFigures {
    line.slices.as_ref().unwrap()
}

/// The state of a process: R, S, T (stopped) and others.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn is_stopped(server: &Server) -> bool {
    state(server.pid()) == Some('T')
}

/// Wait for an event; the time is for a test that fails only.
fn await_that(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_micros(300));
    }
}

/// Each request was answered as expected.
fn assert_answered(line: &WindowLine) {
    assert_accounted(line);
    let lost = (line.timeouts, line.unsent, line.in_flight);
    assert_eq!((lost, line.errors.len()), ((0, 0, 0), 0));
}

/// Servers that are stopped in the slices of the others answer every request of their own, on the
/// connections that they have, in an open loop and in a closed one; after the window they run.
#[test]
fn frozen_servers_answer_everything() {
    let servers = [Server::good(), Server::good(), Server::good()];
    for (spin, mode, rate) in [
        ("off", "open", json!(500)),
        ("full", "open", json!(500)),
        ("off", "closed", Value::Null),
    ] {
        let window = json!({"mode": mode, "rate_per_s": rate});
        let mut plan = frozen(&servers.each_ref(), window);
        plan["spin"] = json!(spin);
        let lines = measure(&plan);
        for (line, server) in lines.iter().zip(&servers) {
            assert_answered(line);
            assert_eq!((line.connects, line.reconnects, line.retries), (8, 0, 0));
            assert!(line.offered > 100, "{}", line.offered);
            let slices = slices(line);
            assert_eq!((slices.frozen, &slices.not_frozen), (true, &None));
            assert!(slices.frozen_s > 0.0);
            assert_eq!(slices.lead_us, 300);
            assert!(!is_stopped(server));
        }
    }
}

/// `compare` finds the processes of its servers; two servers of one process cannot be frozen.
#[test]
fn compare_finds_the_processes() {
    let servers = [Server::good(), Server::good()];
    let urls = servers.each_ref().map(|s| format!("http://{}/", s.address));
    let short = "-d800ms --round 400ms --slice 10ms -R1k -c4 -w0.1 --freeze";
    let arguments = |a, b| {
        let arguments = ["compare", a, b].into_iter();
        arguments.chain(short.split(' ')).collect::<Vec<&str>>()
    };
    let (text, errors, code) = output_of(&arguments(&urls[0], &urls[1]));
    assert_eq!((errors.as_str(), code), ("", Some(0)), "{text}");
    let first = "2 rounds of 0.4 s in slices of 10 ms (frozen), 1000 requests/s";
    assert!(text.starts_with(first), "{text}");
    assert!(!servers.iter().any(is_stopped));
    let (_, errors, code) = output_of(&arguments(&urls[0], &urls[0]));
    let words = format!("\"1\" and \"2\" share process {}", servers[0].pid());
    assert_eq!((errors.contains(&words), code), (true, Some(2)), "{errors}");
}

/// A request that meets the waking of the next server, up to 0.3 ms before its slice, is not
/// undisturbed.
#[test]
fn waking_up_disturbs() {
    const US: u64 = 1000;
    let sample = |at| Sample {
        intended: at,
        written: at,
        first: at + 50 * US,
        completed: at + 50 * US,
        outcome: Outcome::Ok,
    };
    let samples = [10_000, 19_640, 19_710, 20_010].map(|at| sample(at * US));
    let raw = Raw {
        arms: vec![Arm {
            samples: samples.to_vec(),
            book: Book::new(0),
            server_cpu_s: None,
            turn_cpu_s: None,
            frozen_s: 0.0,
            behind: None,
        }],
        borders: vec![20_000 * US],
        start: 0,
        end: 40_000 * US,
        unfrozen: None,
        interrupted: false,
        started_unix_ns: 0,
        stalls: Vec::new(),
        generator_cpu_ns: 0,
        busy_share: 0.0,
        path: Path::default(),
    };
    let servers = [Server::good(), Server::good()];
    let plan = frozen(&servers.each_ref(), json!({}));
    let plan = Plan::parse(&plan.to_string()).unwrap();
    let count = |frozen| {
        let cycles = output::cycles(&plan.windows[0], &raw, &[], frozen).unwrap();
        cycles.summary(&samples).count
    };
    assert_eq!((count(false), count(true)), (4, 3));
}

/// Two threads with connections of their own stop no server that the other still waits for.
#[test]
fn threads_wait_for_each_other() {
    let cpus: Vec<usize> = sys::usable_cpus(0..64).into_iter().take(2).collect();
    let servers = [Server::good(), Server::good()];
    let mut plan = frozen(&servers.each_ref(), json!({"duration_s": 1.6}));
    plan["cpus"] = json!(cpus);
    // Both threads must run in the same slice, on a machine that may be busy.
    plan["windows"][0]["slices"]["length_ms"] = json!(200);
    for line in measure(&plan) {
        assert_eq!(line.threads, cpus.len());
        assert_answered(&line);
        assert_eq!(line.reconnects, 0);
        assert!(slices(&line).frozen_s > 0.0, "{:?}", slices(&line));
    }
}

/// Connections that are closed after some requests are reopened while their server runs.
#[test]
fn connections_are_reopened() {
    let servers = [Server::good(), Server::good()];
    let window = json!({"requests_per_connection": 10});
    for line in measure(&frozen(&servers.each_ref(), window)) {
        assert_answered(&line);
        assert!(line.reconnects > 10, "{}", line.reconnects);
        assert!(slices(&line).frozen);
    }
}

/// A server that owes a few answers is not stopped, and the window ends as it would without freezing.
#[test]
fn a_server_that_owes_an_answer_runs_on() {
    let servers = [Server::good(), Server::start("silent")];
    let window = json!({"rate_per_s": 30, "duration_s": 0.8, "connections": 100, "timeout_s": 10});
    let lines = measure(&frozen(&servers.each_ref(), window));
    lines.iter().for_each(assert_accounted);
    assert_answered(&lines[0]);
    assert_eq!(lines[1].completed, 0);
    assert_eq!(slices(&lines[1]).behind, None);
    assert_eq!(lines[1].timeouts + lines[1].unsent, lines[1].offered);
    let frozen: Vec<bool> = lines.iter().map(|l| slices(l).frozen_s > 0.0).collect();
    // The first slices of the silent one may come after some of the other's.
    assert!(frozen[0], "{frozen:?}");
    assert!(slices(&lines[1]).frozen_s < 0.3, "{:?}", slices(&lines[1]));
}

/// Without a signal to one server all are measured unfrozen, and the lines say why.
#[test]
fn what_cannot_be_frozen_is_measured_all_the_same() {
    let servers = [Server::good(), Server::good()];
    let own = std::process::id();
    for (pid, words) in [
        (4_194_304, "process 4194304 does not exist".to_owned()),
        (own, format!("process {own} is the generator")),
    ] {
        let mut plan = frozen(&servers.each_ref(), json!({"duration_s": 0.2}));
        plan["instances"][1]["pids"] = json!([servers[1].pid(), pid]);
        for line in measure(&plan) {
            assert_answered(&line);
            let slices = slices(&line);
            assert_eq!((slices.frozen, slices.frozen_s), (false, 0.0));
            let reason = slices.not_frozen.as_ref().unwrap();
            assert_eq!(*reason, format!("instance \"b\": {words}"));
        }
    }
}

/// Each thread takes its time to stop and to continue, so one server of many threads is measured
/// unfrozen, and the others with it.
#[test]
fn a_server_of_many_threads_is_not_frozen() {
    let servers = [Server::good(), Server::start("crowded")];
    for line in measure(&frozen(&servers.each_ref(), json!({"duration_s": 0.2}))) {
        assert_answered(&line);
        assert!(!slices(&line).frozen);
        let reason = slices(&line).not_frozen.as_ref().unwrap();
        // The responder has a thread for each connection, so their number changes.
        let words = reason.strip_prefix("instance \"b\": it has ").unwrap();
        let (threads, rest) = words.split_once(" threads on ").unwrap();
        assert!(threads.parse::<usize>().unwrap() > 64 * cpus(), "{reason}");
        assert!(rest.starts_with(&format!("{} CPU", cpus())), "{reason}");
        assert!(rest.ends_with("in slices of 20 ms"), "{reason}");
    }
    // Longer slices leave time for as many more threads.
    let longer = json!({"instances": ["a", "b"], "freeze": true, "length_ms": 50});
    for line in measure(&frozen(
        &servers.each_ref(),
        json!({"slices": longer, "duration_s": 0.5}),
    )) {
        assert_answered(&line);
        assert!(slices(&line).frozen);
    }
}

/// A process that a server starts after the first window is stopped with it in the next one; in the
/// one after its end, nothing is amiss.
#[test]
fn a_process_that_a_server_adds_is_stopped_too() {
    let servers = [Server::good(), Server::start("parent")];
    let mut plan = frozen(&servers.each_ref(), json!({"duration_s": 0.6}));
    let window = plan["windows"][0].clone();
    for id in ["second", "third"] {
        let mut next = window.clone();
        next["id"] = json!(id);
        plan["windows"].as_array_mut().unwrap().push(next);
    }
    let plan = Plan::parse(&plan.to_string()).unwrap();
    let mut session = Session::new(&plan).unwrap();
    let mut measure = |place: usize| {
        for line in session.measure(&plan.windows[place]).unwrap() {
            assert_answered(&line);
            assert!(slices(&line).frozen, "{:?}", slices(&line).not_frozen);
        }
    };
    measure(0);
    let child = servers[1].say("start");
    let watch = std::thread::spawn(move || {
        await_that("it is stopped", || state(child) == Some('T'));
    });
    measure(1);
    watch.join().unwrap();
    assert_ne!(state(child), Some('T'));
    servers[1].say("end");
    measure(2);
}

/// When a process ends in the window, all others run from then on.
#[test]
fn a_process_that_ends_ends_the_freezing() {
    let servers = [Server::good(), Server::good()];
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = other.id();
    let mut plan = frozen(&servers.each_ref(), json!({}));
    plan["instances"][1]["pids"] = json!([servers[1].pid(), pid]);
    let killer = std::thread::spawn(move || {
        await_that("it is stopped", || state(pid) == Some('T'));
        other.kill().unwrap();
        other.wait().unwrap();
    });
    let lines = measure(&plan);
    killer.join().unwrap();
    for (line, server) in lines.iter().zip(&servers) {
        assert_answered(line);
        assert!(!slices(line).frozen);
        let reason = slices(line).not_frozen.as_ref().unwrap();
        assert_eq!(*reason, "instance \"b\": a process ended during the window");
        assert!(!is_stopped(server));
    }
}

/// A generator in a process of its own, in a window that lasts longer than the test.
struct Generator(Child);

impl Generator {
    fn start(servers: &[&Server]) -> Self {
        let plan = frozen(servers, json!({"duration_s": 600}));
        let mut child = Command::new(env!("CARGO_BIN_EXE_tuner-loadgen"))
            .args(["plan", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{plan}").unwrap();
        Self(child)
    }

    fn send(&self, signal: &str) {
        let mut kill = Command::new("kill");
        let done = kill.args([signal, &self.0.id().to_string()]).status();
        assert!(done.unwrap().success());
    }

    /// Stop it at a moment at which one of the servers is stopped.
    fn hold(&self, servers: &[Server]) {
        loop {
            await_that("a server is stopped", || servers.iter().any(is_stopped));
            self.send("-STOP");
            await_that("it stops", || state(self.0.id()) == Some('T'));
            if servers.iter().any(is_stopped) {
                return;
            }
            self.send("-CONT");
        }
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A generator that is killed leaves no server stopped, and nothing keeps its output open.
#[test]
fn a_killed_generator_leaves_no_server_stopped() {
    let servers = [Server::good(), Server::good()];
    let mut generator = Generator::start(&servers.each_ref());
    generator.hold(&servers);
    generator.kill();
    await_that("all servers run", || !servers.iter().any(is_stopped));
    let mut rest = String::new();
    let output = generator.0.stdout.as_mut().unwrap();
    assert_eq!(output.read_to_string(&mut rest).unwrap(), 0);
}

/// While a generator does nothing, its servers run; they are frozen again when it goes on.
#[test]
fn a_generator_that_hangs_leaves_no_server_stopped() {
    let servers = [Server::good(), Server::good()];
    let mut generator = Generator::start(&servers.each_ref());
    generator.hold(&servers);
    await_that("all servers run", || !servers.iter().any(is_stopped));
    generator.send("-CONT");
    for server in &servers {
        await_that("it is frozen again", || is_stopped(server));
    }
    generator.kill();
    await_that("all servers run", || !servers.iter().any(is_stopped));
}

/// An interrupted generator has continued its servers before it ends.
#[test]
fn an_interrupted_generator_continues_its_servers() {
    let servers = [Server::good(), Server::good()];
    for signal in ["-TERM", "-INT"] {
        let mut generator = Generator::start(&servers.each_ref());
        await_that("a server is stopped", || servers.iter().any(is_stopped));
        generator.send(signal);
        assert_eq!(generator.0.wait().unwrap().code(), Some(130));
        assert!(!servers.iter().any(is_stopped));
    }
}

/// Instances that cannot be told apart by their processes cannot be frozen.
#[test]
fn instances_need_processes_of_their_own() {
    let servers = [Server::good(), Server::good()];
    let pid = servers[0].pid();
    for (pids, words) in [
        (json!([]), "instance \"b\" has no pids".to_owned()),
        (json!([pid]), format!("\"a\" and \"b\" share process {pid}")),
    ] {
        let mut plan = frozen(&servers.each_ref(), json!({}));
        plan["instances"][1]["pids"] = pids;
        let error = Plan::read(&plan.to_string()).unwrap_err();
        assert_eq!(error.path, "windows[0].slices.freeze");
        let message = format!("true is not allowed; it must be false, because {words}");
        assert_eq!(error.message, message);
        plan["windows"][0]["slices"]["freeze"] = json!(false);
        Plan::read(&plan.to_string()).unwrap();
    }
}
