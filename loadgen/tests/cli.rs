//! The program as its controller sees it: lines in, lines out, exit codes.

#![allow(unsafe_code)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Responder, plan, unused_address};
use serde_json::{Value, json};
use tuner_loadgen::sys;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tuner-loadgen");

struct Controlled {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Controlled {
    fn start(plan: &Value, arguments: &[&str]) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["plan", "-"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{plan}").unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            input: Some(input),
            output,
        }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    fn code(&mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap()
    }
}

/// Windows over instances a and b in turn.
fn windows(server: &Responder, n: usize) -> Value {
    let mut plan = plan(server.address, json!({}), json!({}));
    let mut b = plan["instances"][0].clone();
    b["id"] = json!("b");
    plan["instances"].as_array_mut().unwrap().push(b);
    let first = plan["windows"][0].clone();
    plan["windows"] = (0..n)
        .map(|i| {
            let mut window = first.clone();
            window["id"] = json!(format!("w{i}"));
            window["instance"] = json!(["a", "b"][i % 2]);
            window["duration_s"] = json!(0.1);
            window
        })
        .collect();
    plan
}

/// Without a controller, one line for each window in order, and the last line.
#[test]
fn a_plan_runs_to_its_end() {
    let server = Responder::good();
    let mut program = Controlled::start(&windows(&server, 3), &[]);
    for i in 0..3 {
        let line = program.line();
        assert_eq!(
            (&line["type"], &line["id"]),
            (&json!("window"), &json!(format!("w{i}")))
        );
        assert_eq!(line["completed"], line["offered"]);
        let hdr = line["latency"]["service"]["hdr"].as_str().unwrap();
        assert!(hdr.starts_with("HISTFAAA"));
    }
    let end = json!({"type": "end", "reason": "done", "windows": 3, "skipped": 0});
    assert_eq!(program.line(), end);
    assert_eq!(program.code(), 0);
}

/// A dropped instance has no more windows; the others go on.
#[test]
fn an_instance_can_be_dropped() {
    let server = Responder::good();
    let mut program = Controlled::start(&windows(&server, 6), &["--control"]);
    let mut seen = Vec::new();
    loop {
        let line = program.line();
        if line["type"] == "end" {
            assert_eq!((&line["windows"], &line["skipped"]), (&json!(4), &json!(2)));
            break;
        }
        seen.push(line["id"].as_str().unwrap().to_owned());
        if seen.len() == 2 {
            program.say(r#"{"next":"go","drop":["b"]}"#);
        } else {
            program.say(r#"{"next":"go"}"#);
        }
    }
    assert_eq!(seen, ["w0", "w1", "w2", "w4"]);
    assert_eq!(program.code(), 0);
}

/// "stop" ends the plan well, and so does the end of standard input.
#[test]
fn a_plan_can_be_stopped() {
    let server = Responder::good();
    let mut program = Controlled::start(&windows(&server, 4), &["--control"]);
    program.line();
    program.say(r#"{"next":"stop"}"#);
    let line = program.line();
    assert_eq!(
        (&line["reason"], &line["skipped"]),
        (&json!("stopped"), &json!(3))
    );
    assert_eq!(program.code(), 0);

    let mut program = Controlled::start(&windows(&server, 4), &["--control"]);
    program.line();
    program.input = None;
    assert_eq!(program.line()["reason"], "eof");
    assert_eq!(program.code(), 0);
}

/// An unknown command is rejected with exit code 2.
#[test]
fn nonsense_from_the_controller_is_refused() {
    let server = Responder::good();
    for nonsense in [r#"{"next":"on"}"#, "go", r#"{"next":"go","drop":["z"]}"#] {
        let mut program = Controlled::start(&windows(&server, 2), &["--control"]);
        program.line();
        program.say(nonsense);
        assert_eq!(program.code(), 2, "{nonsense}");
    }
}

/// A plan in which each window waits for the instant at which it begins.
fn waiting(server: &Responder, n: usize) -> Value {
    let mut plan = windows(server, n);
    plan["wait_to_start"] = json!(true);
    plan
}

/// Each window begins at the instant that the controller names, once its connections are open; one
/// that is in the past already begins at once, and shows its true start.
#[test]
fn windows_begin_when_they_are_asked_to() {
    let server = Responder::good();
    let mut program = Controlled::start(&waiting(&server, 2), &["--control"]);
    let warmup_ns = |line: &Value| (line["warmup_s"].as_f64().unwrap() * 1e9) as u64;
    assert_eq!(program.line(), json!({"type": "ready", "id": "w0"}));
    let at = sys::now_ns() + 50_000_000;
    program.say(&json!({"start_monotonic_ns": at}).to_string());
    let line = program.line();
    let began = line["started_monotonic_ns"].as_u64().unwrap();
    assert_eq!(began, at + warmup_ns(&line));
    assert_eq!(line["completed"], line["offered"]);
    program.say(r#"{"next":"go"}"#);
    assert_eq!(program.line(), json!({"type": "ready", "id": "w1"}));
    program.say(&json!({"start_monotonic_ns": at}).to_string());
    let line = program.line();
    assert!(line["started_monotonic_ns"].as_u64().unwrap() > began);
    program.say(r#"{"next":"go"}"#);
    assert_eq!(program.line()["reason"], "done");
    assert_eq!(program.code(), 0);
}

/// Anything but a start is refused: another line, an instant of another clock, and a plan without a
/// controller. At the end of its input the program ends without a window.
#[test]
fn a_start_that_is_none_is_refused() {
    let server = Responder::good();
    for nonsense in [
        r#"{"next":"go"}"#,
        r#"{"start_monotonic_ns":9000000000000000000}"#,
    ] {
        let mut program = Controlled::start(&waiting(&server, 1), &["--control"]);
        program.line();
        program.say(nonsense);
        assert_eq!(program.line(), Value::Null);
        assert_eq!(program.code(), 2, "{nonsense}");
    }
    let mut program = Controlled::start(&waiting(&server, 1), &["--control"]);
    program.line();
    program.input = None;
    assert_eq!(program.line(), Value::Null);
    assert_ne!(program.code(), 0);
    let mut program = Controlled::start(&waiting(&server, 1), &[]);
    assert_eq!(program.line(), Value::Null);
    assert_eq!(program.code(), 2);
}

/// While it waits for the controller it takes no CPU time.
#[test]
fn waiting_is_idle() {
    let server = Responder::good();
    let mut plan = windows(&server, 2);
    plan["spin"] = json!("full");
    let mut program = Controlled::start(&plan, &["--control"]);
    program.line();
    let pid = program.child.id() as i32;
    std::thread::sleep(Duration::from_millis(50));
    let before = tuner_loadgen::sys::process_cpu_ns(pid).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let after = tuner_loadgen::sys::process_cpu_ns(pid).unwrap();
    assert!(after - before < 30_000_000, "{} ns", after - before);
}

fn refusal(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// Bad arguments, a missing file and a bad plan: one line each, exit code 2.
#[test]
fn refusals() {
    for (arguments, words) in [
        (&["fly"][..], "fly"),
        (&[], "run, compare, plan, stalls"),
        (&["plan"], "no file"),
        (&["plan", "/no/such/file"], "/no/such/file"),
        (&["plan", "/dev/null"], "plan: "),
        (&["stalls"], "--cpus"),
        (&["ticker"], "--cpus"),
        (&["ticker", "--cpus", "9999"], "9999"),
        (&["ticker", "--cpus", "0", "--gap", "0"], "--gap"),
        (&["ticker", "--cpus", "0", "--for", "-1"], "--for"),
        (&["self-test", "--for", "1"], "4 to 600"),
        (&["self-test", "--cpus", "9999"], "9999"),
        (&["stalls", "--cpus", "1-0"], "1-0"),
        (&["stalls", "--cpus", "9999"], "9999"),
        (&["run"], "URL"),
        (&["run", "ftp://localhost/"], "ftp://localhost/"),
        (&["run", "http://127.0.0.1/", "--http3"], "https"),
        (&["run", "http://127.0.0.1/", "-k"], "https"),
        (&["run", "http://127.0.0.1/", "--streams", "4"], "streams"),
        (&["run", "http://127.0.0.1/", "-c", "many"], "many"),
        (&["run", "http://127.0.0.1/", "-R", "0"], "rate_per_s"),
        (&["run", "http://127.0.0.1/", "--spin", "half"], "half"),
        (
            &["run", "http://127.0.0.1/", "--spin", "every:1ms"],
            "every:1ms",
        ),
        (
            &["run", "http://127.0.0.1/", "--spin", "every:0"],
            "spin.every_us",
        ),
        (&["run", "http://127.0.0.1/", "-d", "1d"], "30s, 2m"),
        (&["run", "http://127.0.0.1/", "-t", "0"], "--threads"),
        (
            &["run", "http://127.0.0.1/", "-t", "4", "-c", "2"],
            "--connections",
        ),
        (
            &["run", "http://127.0.0.1/", "-H", "nothing"],
            "Name: value",
        ),
        (&["run", "http://127.0.0.1/", "--rates", "5"], "10s:1k"),
        (
            &["run", "http://127.0.0.1/", "--expect-status", "ok"],
            "any",
        ),
        (
            &["run", "http://127.0.0.1/", "--check", "some"],
            "sample or all",
        ),
        (&["run", "http://127.0.0.1/", "-B"], "pipelining"),
        (
            &["schema", "report"],
            "plan, window, compare, self-test or ticker",
        ),
    ] {
        let text = refusal(arguments);
        assert!(text.contains(words), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

/// Recorded instants are offered as they are; a wrong line in the file is refused with its number
/// before anything is measured.
#[test]
fn recorded_instants() {
    let server = Responder::good();
    let file = std::env::temp_dir().join(format!("tuner-instants-{}", std::process::id()));
    let window = json!({"instants_file": file, "duration_s": 1.5, "warmup_s": 0.0});
    let mut plan = plan(server.address, window, json!({}));
    plan["windows"][0]
        .as_object_mut()
        .unwrap()
        .remove("rate_per_s");
    std::fs::write(&file, "# two bursts\n0.1\n0.1\n0.1\n1.2\n1.3\n").unwrap();
    let mut program = Controlled::start(&plan, &[]);
    let line = program.line();
    assert_eq!(
        (&line["offered"], &line["completed"]),
        (&json!(5), &json!(5))
    );
    assert_eq!(
        (&line["rate_per_s"], &line["arrival"]),
        (&json!(null), &json!(null))
    );
    let offered: Vec<_> = (0..2)
        .map(|i| line["seconds"][i]["offered"].clone())
        .collect();
    assert_eq!(offered, [json!(3), json!(2)]);

    std::fs::write(&file, "0.1\n0.05\n").unwrap();
    let mut child = Command::new(PROGRAM)
        .args(["plan", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{plan}").unwrap();
    let output = child.wait_with_output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        words.contains(&format!("{}:2: \"0.05\"", file.display())),
        "{words}"
    );
}

/// A ladder reports the requested and the offered rate and the answers of each piece.
#[test]
fn a_ladder_is_reported_by_piece() {
    let server = Responder::good();
    let rates = json!([{"for_s": 0.2, "rate_per_s": 100}, {"for_s": 0.2, "rate_per_s": 500}]);
    let window = json!({"rates": rates, "duration_s": 0.4, "arrival": "constant"});
    let mut plan = plan(server.address, window, json!({}));
    plan["windows"][0]
        .as_object_mut()
        .unwrap()
        .remove("rate_per_s");
    let line = Controlled::start(&plan, &[]).line();
    let offered: Vec<_> = (0..2)
        .map(|i| line["pieces"][i]["offered"].clone())
        .collect();
    assert_eq!(offered, [json!(20), json!(100)]);
    assert_eq!(line["pieces"][1]["rate_per_s"], json!(500.0));
    assert_eq!(line["offered_per_s"], json!(300.0));
}

/// Help and version go to standard output.
#[test]
fn help() {
    for (option, words) in [("--help", "Examples:"), ("--version", "tuner-loadgen 0.")] {
        let output = Command::new(PROGRAM).arg(option).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains(words));
    }
}

/// `stalls` reports the stalls of each CPU, and whether it had real-time priority.
#[test]
fn stalls_are_reported() {
    let arguments = ["stalls", "--cpus", "0", "--duration", "0.1", "--json"];
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["realtime"].is_boolean());
    assert_eq!(report["cpus"][0]["cpu"], 0);
    assert!(report["cpus"][0]["spin"]["share"].as_f64().unwrap() < 1.0);
    assert_eq!(
        report["cpus"][0]["ticker"].is_null(),
        report["realtime"] == false
    );
}

fn long_window() -> Value {
    plan(
        unused_address(),
        json!({"duration_s": 60, "rate_per_s": 10}),
        json!({}),
    )
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: it is a child of this process that has not been waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

/// SIGTERM and SIGINT end it promptly with 130, in the middle of a window or of waiting.
#[test]
fn signals_end_it() {
    for number in [libc::SIGTERM, libc::SIGINT] {
        let mut program = Controlled::start(&long_window(), &["--control"]);
        crate::support::await_handler(program.child.id(), libc::SIGTERM);
        std::thread::sleep(Duration::from_millis(200));
        let start = Instant::now();
        signal(&program.child, number);
        assert_eq!(program.code(), 130);
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "long before the window's end"
        );
    }
    let server = Responder::good();
    let mut program = Controlled::start(&windows(&server, 2), &["--control"]);
    program.line();
    signal(&program.child, libc::SIGTERM);
    assert_eq!(program.code(), 130);
}

/// The program ends when its parent process dies, but not when merely the thread that started it ends.
#[test]
fn it_dies_with_its_parent() {
    let server = Responder::good();
    let two = windows(&server, 2);
    let program = std::thread::spawn(move || Controlled::start(&two, &["--control"]));
    let mut program = program.join().unwrap();
    assert_eq!(program.line()["id"], "w0");
    program.say(r#"{"next":"go"}"#);
    assert_eq!(program.line()["id"], "w1");

    let file = std::env::temp_dir().join(format!("tuner-loadgen-{}.json", std::process::id()));
    std::fs::write(&file, long_window().to_string()).unwrap();
    let script = format!(
        "{PROGRAM} plan {} >/dev/null & echo $!; read -r _",
        file.display()
    );
    let mut parent = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(parent.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    crate::support::await_handler(pid, libc::SIGUSR2);
    // Closes its standard input, and so ends it.
    parent.wait().unwrap();
    let alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("tuner-loadgen") && !stat.contains(") Z")
    };
    let start = Instant::now();
    while alive() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::remove_file(file).unwrap();
    assert!(!alive(), "it outlived its parent");
}

/// Runs the program on a plan after a change to the child process.
fn run_limited(plan: &Value, limit: fn()) -> Value {
    let file = std::env::temp_dir().join(format!(
        "tuner-loadgen-{}-{}.json",
        std::process::id(),
        limit as usize
    ));
    std::fs::write(&file, plan.to_string()).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("plan").arg(&file);
    // SAFETY: the changes are system calls only.
    unsafe {
        command.pre_exec(move || {
            limit();
            Ok(())
        });
    }
    let output = command.output().unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().next().unwrap()).unwrap()
}

/// Without enough file descriptors the window continues with the connections that could be opened.
#[test]
fn file_descriptors_run_out() {
    let server = Responder::good();
    let line = run_limited(
        &plan(server.address, json!({"connections": 64}), json!({})),
        || {
            let limit = libc::rlimit {
                rlim_cur: 20,
                rlim_max: 20,
            };
            // SAFETY: `limit` is valid for the read.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        },
    );
    assert!(line["errors"]["connect_no_files"].as_u64().unwrap() > 0);
    assert_eq!(line["completed"], line["offered"]);
}

/// Without the right to real-time priority the server's CPUs are not watched, and the line has a
/// warning.
#[test]
fn without_realtime_no_server_spans() {
    let server = Responder::good();
    let ticker = json!({"ticker": {"cpus": [0]}, "gap_us": 1});
    let line = run_limited(&plan(server.address, json!({}), ticker), || {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        const CAP_SYS_NICE: libc::c_ulong = 23;
        // SAFETY: system calls on valid arguments; not being privileged in the first place is fine.
        unsafe {
            libc::setrlimit(libc::RLIMIT_RTPRIO, &none);
            libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0);
        }
    });
    assert_eq!(line["stalls"]["realtime"], false);
    assert_eq!(line["stalls"]["server"], json!([]));
    assert!(line["warnings"][0].as_str().unwrap().contains("real-time"));
}
