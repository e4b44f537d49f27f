//! Plans: valid ones, and the errors of invalid ones.

use serde_json::{Value, json};
use tuner_loadgen::plan::{Arrival, Mode, Plan, Spin};

fn good() -> Value {
    json!({
        "version": 1,
        "cpus": [0],
        "spin": {"last_us": 200},
        "ticker": {"cpus": [1], "period_us": 500, "priority": 50},
        "gap_us": 100,
        "samples_dir": null,
        "requests": [{"weight": 1, "method": "GET", "path": "/", "headers": [["Accept", "*/*"]],
            "body_base64": null, "expect": {"status": 200, "length": 1024, "sha256": null}}],
        "instances": [{"id": "a", "address": "127.0.0.1:80", "host": "localhost", "pids": [1]}],
        "windows": [{"id": "w", "instance": "a", "mode": "open", "rate_per_s": 10,
            "arrival": "constant", "seed": 7, "connections": 1, "warmup_s": 0.1, "duration_s": 1.0,
            "timeout_s": 2.0}],
    })
}

/// Every field is read.
#[test]
fn a_full_plan_is_read() {
    let plan = Plan::parse(&good().to_string()).unwrap();
    assert_eq!(plan.spin, Spin::LastUs(200));
    assert_eq!(plan.windows[0].mode, Mode::Open);
    assert_eq!(plan.windows[0].arrival, Arrival::Constant);
    assert_eq!(plan.windows[0].duration_ns(), 1_000_000_000);
}

/// Requests are sent together only if the plan requires it.
#[test]
fn sending_together_is_explicit() {
    let mut plan = good();
    plan["spin"] = json!({"every_us": 1000});
    let plan = Plan::parse(&plan.to_string()).unwrap();
    assert_eq!(plan.spin, Spin::EveryUs(1000));
    assert_eq!(plan.spin.every_ns(), Some(1_000_000));
    for other in [Spin::default(), Spin::Full, Spin::Off, Spin::LastUs(200)] {
        assert_eq!(other.every_ns(), None);
    }
}

/// Optional fields have defaults.
#[test]
fn a_short_plan_is_read() {
    let plan = json!({
        "version": 1,
        "requests": [{"path": "/"}],
        "instances": [{"id": "a", "address": "[::1]:80"}],
        "windows": [{"id": "w", "instance": "a", "mode": "closed", "connections": 1,
            "duration_s": 1}],
    });
    let plan = Plan::parse(&plan.to_string()).unwrap();
    assert_eq!((plan.spin, plan.gap_us), (Spin::Full, 100));
    assert_eq!(plan.windows[0].timeout_s, 2.0);
}

/// A window of the valid plan with another load than one rate.
fn offering(fields: Value) -> Value {
    let mut plan = good();
    let window = plan["windows"][0].as_object_mut().unwrap();
    window.remove("rate_per_s");
    window.extend(fields.as_object().unwrap().clone());
    plan
}

/// A ladder of rates, or recorded instants, take the place of the rate.
#[test]
fn ladders_and_recordings_are_read() {
    let rates = json!([{"for_s": 0.4, "rate_per_s": 5},
        {"for_s": 0.6, "rate_per_s": 5, "to_rate_per_s": 50}]);
    let plan = Plan::parse(&offering(json!({"rates": rates})).to_string()).unwrap();
    assert_eq!(plan.windows[0].pieces()[1].to_rate_per_s, Some(50.0));
    let recorded = json!({"instants_file": "day.txt", "instants_unit": "ns"});
    let plan = Plan::parse(&offering(recorded).to_string()).unwrap();
    assert!(plan.windows[0].pieces().is_empty());
}

/// The load is given once, and fits the window.
#[test]
fn offers_that_contradict_themselves_are_refused() {
    let piece = |for_s: f64, rate: f64| json!({"for_s": for_s, "rate_per_s": rate});
    for (fields, place, words) in [
        (json!({}), "windows[0].rate_per_s", "rates"),
        (
            json!({"rates": [piece(1.0, 5.0)], "rate_per_s": 5}),
            "windows[0].rate_per_s",
            "only one",
        ),
        (
            json!({"rates": [piece(1.0, 5.0)], "instants_file": "x"}),
            "windows[0].rate_per_s",
            "only one",
        ),
        (json!({"rates": []}), "windows[0].rates", "1 to 10000"),
        (
            json!({"rates": [piece(0.4, 5.0)]}),
            "windows[0].duration_s",
            "0.4",
        ),
        (
            json!({"rates": [piece(1.0, 0.0)]}),
            "windows[0].rates",
            "above 0",
        ),
        (
            json!({"rates": [piece(0.5, 1.0), piece(0.5, -1.0)]}),
            "windows[0].rates[1].rate_per_s",
            "-1",
        ),
        (
            json!({"rates": [piece(0.0, 1.0), piece(1.0, 1.0)]}),
            "windows[0].rates[0].for_s",
            "above 0",
        ),
        (
            json!({"rates": [{"for_s": 1, "rate_per_s": 1, "rate": 2}]}),
            "windows[0].rates[0]",
            "unknown field",
        ),
        (
            json!({"mode": "closed", "rates": [piece(1.0, 5.0)]}),
            "windows[0].mode",
            "open",
        ),
        (
            json!({"instants_file": "x", "instants_unit": "ms"}),
            "windows[0].instants_unit",
            "`ms`",
        ),
    ] {
        let error = Plan::parse(&offering(fields.clone()).to_string()).unwrap_err();
        assert!(error.path.starts_with(place), "{fields}: {error}");
        assert!(error.message.contains(words), "{fields}: {error}");
    }
}

/// An error names the path, the value, and what is allowed.
#[test]
fn refusals_name_place_value_and_remedy() {
    for (pointer, value, place, words) in [
        ("/version", json!(2), "version", "2"),
        ("/spin", json!("fast"), "spin", "`fast`"),
        (
            "/spin",
            json!({"every_us": 0}),
            "spin.every_us",
            "1 to 100000",
        ),
        (
            "/spin",
            json!({"every_us": 100_001}),
            "spin.every_us",
            "100001",
        ),
        ("/gap_us", json!(0), "gap_us", "1 to 1000000"),
        ("/ticker/priority", json!(0), "ticker.priority", "1 to 99"),
        ("/requests", json!([]), "requests", "0"),
        (
            "/requests/0/path",
            json!("index"),
            "requests[0].path",
            "\"index\"",
        ),
        (
            "/requests/0/method",
            json!("GE T"),
            "requests[0].method",
            "\"GE T\"",
        ),
        ("/requests/0/weight", json!(-1), "requests[0].weight", "-1"),
        (
            "/requests/0/headers/0/1",
            json!("a\r\nb"),
            "requests[0].headers[0][1]",
            "line breaks",
        ),
        (
            "/requests/0/expect/sha256",
            json!("ab"),
            "requests[0].expect.sha256",
            "64",
        ),
        (
            "/requests/0/expect/bytes",
            json!(1),
            "requests[0].expect.bytes",
            "unknown field",
        ),
        (
            "/requests/0/body_base64",
            json!("%"),
            "requests[0].body_base64",
            "base64",
        ),
        (
            "/instances/0/address",
            json!("nowhere"),
            "instances[0].address",
            "address",
        ),
        (
            "/windows/0/instance",
            json!("b"),
            "windows[0].instance",
            "\"b\"",
        ),
        ("/windows/0/id", json!("../w"), "windows[0].id", "\"../w\""),
        (
            "/windows/0/mode",
            json!("half"),
            "windows[0].mode",
            "`open` or `closed`",
        ),
        (
            "/windows/0/rate_per_s",
            json!(null),
            "windows[0].rate_per_s",
            "above 0",
        ),
        (
            "/windows/0/rate_per_s",
            json!(-5),
            "windows[0].rate_per_s",
            "-5",
        ),
        (
            "/windows/0/rate_per_s",
            json!("5"),
            "windows[0].rate_per_s",
            "string \"5\"",
        ),
        (
            "/windows/0/rate_per_s",
            json!(1e7),
            "windows[0].duration_s",
            "",
        ),
        (
            "/windows/0/connections",
            json!(0),
            "windows[0].connections",
            "1 to 100000",
        ),
        (
            "/windows/0/duration_s",
            json!(0),
            "windows[0].duration_s",
            "above 0",
        ),
        (
            "/windows/0/timeout_s",
            json!(0),
            "windows[0].timeout_s",
            "0.001",
        ),
    ] {
        let mut plan = good();
        if place == "windows[0].duration_s" && words.is_empty() {
            plan["windows"][0]["duration_s"] = json!(1000);
        }
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = plan.pointer_mut(parent).unwrap();
        match name.parse::<usize>() {
            Ok(index) => parent[index] = value,
            Err(_) => parent[name] = value,
        }
        let error = Plan::parse(&plan.to_string()).unwrap_err();
        assert_eq!(error.path, place, "{error}");
        assert!(error.message.contains(words), "{error}");
        assert!(!error.to_string().contains('\n'));
    }
}

/// Ids are unique, and the text is JSON from end to end.
#[test]
fn doubles_and_trailing_text_are_refused() {
    let mut plan = good();
    let window = plan["windows"][0].clone();
    plan["windows"].as_array_mut().unwrap().push(window);
    let error = Plan::parse(&plan.to_string()).unwrap_err();
    assert_eq!(error.path, "windows[1].id");
    assert!(Plan::parse(&(good().to_string() + "x")).is_err());
    assert!(Plan::parse("").is_err());
}

/// A request may name files for its URLs and its body; their contents replace the names.
#[test]
fn files_take_the_place_of_their_names() {
    let dir = std::env::temp_dir().join(format!("tuner-loadgen-plan-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (urls, body) = (dir.join("urls"), dir.join("body"));
    std::fs::write(&urls, "/a 3\nhttp://b.example/b\n").unwrap();
    std::fs::write(&body, "hello").unwrap();
    let mut plan = good();
    plan["requests"] = json!([
        {"path": "/", "weight": 1},
        {"urls_file": urls, "weight": 8, "method": "PUT", "body_file": body},
    ]);
    let read = Plan::parse(&plan.to_string()).unwrap();
    std::fs::write(&urls, "/a many\n").unwrap();
    let bad_line = Plan::parse(&plan.to_string()).unwrap_err();
    std::fs::remove_dir_all(&dir).unwrap();
    let missing = Plan::parse(&plan.to_string()).unwrap_err();
    let seen: Vec<_> = read
        .requests
        .iter()
        .map(|r| (&*r.method, &*r.path, r.weight, r.body().map(|b| b.len())))
        .collect();
    assert_eq!(
        seen,
        [
            ("GET", "/", 1.0, None),
            ("PUT", "/a", 6.0, Some(5)),
            ("PUT", "/b", 2.0, Some(5)),
        ]
    );
    assert_eq!(
        read.requests[2].headers,
        [("Host".into(), "b.example".into())]
    );
    assert_eq!(bad_line.path, "requests[1].urls_file");
    assert!(
        bad_line.message.contains("urls:1: weight \"many\""),
        "{bad_line}"
    );
    assert_eq!(missing.path, "requests[1].body_file");

    plan["requests"] = json!([{"path": "/", "urls_file": "x"}]);
    assert_eq!(
        Plan::parse(&plan.to_string()).unwrap_err().path,
        "requests[0].path"
    );
}
