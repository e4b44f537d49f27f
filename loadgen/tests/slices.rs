//! Several servers in one window, in slices: each request goes to the server at turn, and each server
//! has figures of its own.

use crate::support::{HELLO, Responder, assert_accounted, measure, merge, plan};
use serde_json::{Value, json};
use tuner_loadgen::output::WindowLine;
use tuner_loadgen::plan::Plan;

/// A plan of one window over these servers, called a, b, c.
fn sliced(servers: &[&Responder], window: Value) -> Value {
    let ids = ["a", "b", "c"];
    let instances: Vec<Value> = ids
        .iter()
        .zip(servers)
        .map(|(id, server)| json!({"id": id, "address": server.address.to_string()}))
        .collect();
    let mut first = json!({
        "instance": "", "slices": {"instances": &ids[..servers.len()]},
        "rate_per_s": 2000, "connections": 4, "warmup_s": 0.1, "duration_s": 1.2,
    });
    merge(&mut first, window);
    plan(servers[0].address, first, json!({"instances": instances}))
}

fn total(lines: &[WindowLine], of: impl Fn(&WindowLine) -> u64) -> u64 {
    lines.iter().map(of).sum()
}

/// Each server gets its share of one schedule, in turn, and each request is accounted for once.
#[test]
fn the_load_is_shared() {
    let servers = [Responder::good(), Responder::good(), Responder::good()];
    let lines = measure(&sliced(&servers.each_ref(), json!({})));
    let instances: Vec<&str> = lines.iter().map(|line| &*line.instance).collect();
    assert_eq!(instances, ["a", "b", "c"]);
    for line in &lines {
        assert_accounted(line);
        assert_eq!((line.completed, line.errors.len()), (line.offered, 0));
        assert_eq!((line.connects, line.reconnects), (4, 0));
        // A third of 2,400 requests, within 6 standard deviations.
        assert!((630..970).contains(&line.offered), "{}", line.offered);
        assert!((line.duration_s - 0.4).abs() < 1e-6);
        let slices = line.slices.as_ref().unwrap();
        assert_eq!((slices.instances, slices.length_ms), (3, 20.0));
    }
    let offered = total(&lines, |line| line.offered);
    assert!((2_100..2_700).contains(&offered), "{offered}");
}

/// A connection is kept for all windows of its server: they name the servers in different orders,
/// some leave one out, and some have one alone.
#[test]
fn connections_are_kept_from_window_to_window() {
    let servers = [Responder::good(), Responder::good(), Responder::good()];
    let mut plan = sliced(&servers.each_ref(), json!({"duration_s": 0.3}));
    let first = plan["windows"][0].clone();
    let windows = plan["windows"].as_array_mut().unwrap();
    for (id, arms) in [("turned", &["c", "a", "b"][..]), ("fewer", &["c", "b"])] {
        let mut next = first.clone();
        merge(&mut next, json!({"id": id, "slices": {"instances": arms}}));
        windows.push(next);
    }
    let mut alone = first.clone();
    merge(
        &mut alone,
        json!({"id": "alone", "instance": "b", "slices": null}),
    );
    windows.push(alone);
    let lines = measure(&plan);
    assert_eq!(lines.len(), 3 + 3 + 2 + 1);
    for (place, line) in lines.iter().enumerate() {
        assert_accounted(line);
        assert_eq!((line.completed, line.errors.len()), (line.offered, 0));
        let opened = (line.connects, line.reopened, line.reconnects);
        assert_eq!(opened, (if place < 3 { 4 } else { 0 }, 0, 0), "{line:?}");
    }
}

/// Errors belong to the server that makes them, and a lost request is sent to the same one again.
#[test]
fn errors_stay_with_their_server() {
    let good = Responder::good();
    let broken = Responder::start(|mut client, _| {
        let answer = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
        while client.request().is_some() && client.answer(answer).is_ok() {}
    });
    let closing = Responder::start(|mut client, number| {
        let mut left = 20 + number % 7;
        while client.request().is_some() && client.answer(HELLO).is_ok() {
            left -= 1;
            if left == 0 {
                return;
            }
        }
    });
    let lines = measure(&sliced(&[&good, &broken, &closing], json!({})));
    let [good, broken, closing] = &lines[..] else {
        panic!("three lines");
    };
    assert_eq!((good.errors.len(), good.retries), (0, 0));
    assert_eq!(good.completed, good.offered);
    assert_eq!(broken.errors["status_503"], broken.offered);
    assert!(closing.reconnects > 0 && good.reconnects == 0);
    assert_eq!(closing.completed, closing.offered, "{closing:?}");
}

/// A server that is slower by a known delay has latencies that are longer by it.
#[test]
fn each_server_has_its_own_latency() {
    let fast = Responder::good();
    let slow = Responder::start(|mut client, _| {
        while client.request().is_some() {
            std::thread::sleep(std::time::Duration::from_millis(3));
            if client.answer(HELLO).is_err() {
                return;
            }
        }
    });
    let lines = measure(&sliced(&[&fast, &slow], json!({"rate_per_s": 300})));
    let p50 = |line: &WindowLine| line.latency.corrected.p50_us.unwrap();
    assert!(p50(&lines[1]) > 3000.0, "{}", p50(&lines[1]));
    assert!(p50(&lines[1]) > p50(&lines[0]) + 1500.0);
}

/// A server that cannot keep up is given up, so that the others are measured as without it: their
/// requests do not wait for its connections, and what follows is undisturbed.
#[test]
fn a_server_that_cannot_keep_up_does_not_hold_up_the_others() {
    let good = [Responder::good(), Responder::good()];
    // 4 connections and 20 ms: 200 of 667 requests per second.
    let overloaded = Responder::start(|mut client, _| {
        while client.request().is_some() {
            std::thread::sleep(std::time::Duration::from_millis(20));
            if client.answer(HELLO).is_err() {
                return;
            }
        }
    });
    let window = json!({"duration_s": 1.8});
    let lines = measure(&sliced(&[&good[0], &good[1], &overloaded], window));
    for line in &lines {
        assert_accounted(line);
    }
    let given_up = &lines[2];
    let (from, to) = given_up.slices.as_ref().unwrap().behind.unwrap();
    assert!(from < to && to < 1_000_000_000, "{from} {to}");
    assert!(given_up.unsent > given_up.offered / 4, "{given_up:?}");
    for line in &lines[..2] {
        assert_eq!((line.completed, line.errors.len()), (line.offered, 0));
        let slices = line.slices.as_ref().unwrap();
        assert_eq!(slices.behind, None);
        // A part of what was asked after that moment, however noisy the machine is.
        let after = 1.0 - to.max(0) as f64 / 1.8e9;
        let share = 1.0 - slices.undisturbed.excluded_share;
        assert!(share > 0.3 * after, "{share} of {after}");
    }
}

/// A closed loop asks the server at turn alone, as fast as it answers.
#[test]
fn a_closed_loop_takes_turns() {
    let servers = [Responder::good(), Responder::good()];
    let window = json!({"mode": "closed", "rate_per_s": null, "duration_s": 0.4});
    let lines = measure(&sliced(&servers.each_ref(), window));
    for line in &lines {
        assert_accounted(line);
        assert!(line.completed > 100, "{}", line.completed);
        assert_eq!(line.slices.as_ref().unwrap().level, 4);
    }
}

/// Connections stay open from window to window; a dropped server takes its windows along.
#[test]
fn connections_are_kept() {
    let servers = [Responder::good(), Responder::good()];
    let mut plan = sliced(&servers.each_ref(), json!({"duration_s": 0.2}));
    let mut second = plan["windows"][0].clone();
    second["id"] = json!("w1");
    plan["windows"].as_array_mut().unwrap().push(second);
    let lines = measure(&plan);
    let opened: Vec<u64> = lines.iter().map(|l| l.connects + l.reopened).collect();
    assert_eq!(opened, [4, 4, 0, 0]);
}

/// A plan that makes no sense is refused, with the place.
#[test]
fn wrong_slices_are_refused() {
    let server = Responder::good();
    let two = [&server, &server];
    for (window, at) in [
        (json!({"instance": "a"}), "windows[0].instance"),
        (
            json!({"slices": {"instances": ["a"]}}),
            "windows[0].slices.instances",
        ),
        (
            json!({"slices": {"instances": ["a", "x"]}}),
            "windows[0].slices.instances[1]",
        ),
        (
            json!({"slices": {"instances": ["a", "a"]}}),
            "windows[0].slices.instances[1]",
        ),
        (
            json!({"slices": {"instances": ["a", "b"], "length_ms": 0.5}}),
            "windows[0].slices.length_ms",
        ),
        (json!({"duration_s": 0.03}), "windows[0].duration_s"),
    ] {
        let plan = sliced(&two, window);
        let error = Plan::read(&plan.to_string()).unwrap_err();
        assert_eq!(error.path, at, "{error}");
    }
}
