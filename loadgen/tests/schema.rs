//! The published schemas: they know every field that is read and every field that is written.
//!
//! True if real plans and lines are valid against them is tests/generators/test_schema.py's to show.

use std::collections::BTreeSet;

use crate::support::{Responder, assert_described, measure, plan, resolve};
use serde_json::{Value, json};
use tuner_loadgen::plan::Plan;

fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn plan_schema() -> Value {
    schema(include_str!("../schema/plan.schema.json"))
}

fn window_schema() -> Value {
    schema(include_str!("../schema/window.schema.json"))
}

/// Every kind of object of a plan, once.
fn full_plan() -> Value {
    json!({
        "version": 1,
        "spin": "off",
        "ticker": {"cpus": [0]},
        "requests": [{"path": "/", "expect": {"status": 200}}],
        "instances": [{"id": "a", "address": "127.0.0.1:80", "tls": {}}],
        "windows": [{"id": "w", "instance": "a", "mode": "open", "connections": 1,
            "duration_s": 1, "rates": [{"for_s": 1, "rate_per_s": 10}],
            "slices": {"instances": ["a"]}}],
    })
}

/// The field names that an error lists as known.
fn known_fields(pointer: &str) -> BTreeSet<String> {
    let mut plan = full_plan();
    plan.pointer_mut(pointer).unwrap()["no_such_field"] = json!(1);
    let message = Plan::read(&plan.to_string()).unwrap_err().message;
    let (_, names) = message.split_once("expected").expect(&message);
    let names = names.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// The plan's schema and the plan's reader know the same fields, all described.
#[test]
fn every_field_of_a_plan_is_in_the_schema() {
    let schema = plan_schema();
    for (in_plan, in_schema) in [
        ("", ""),
        ("/ticker", "/properties/ticker/oneOf/1"),
        ("/requests/0", "/$defs/request"),
        ("/requests/0/expect", "/$defs/expect"),
        ("/instances/0", "/$defs/instance"),
        ("/instances/0/tls", "/$defs/tls"),
        ("/windows/0", "/$defs/window"),
        ("/windows/0/rates/0", "/$defs/piece"),
        ("/windows/0/slices", "/$defs/slices"),
    ] {
        let object = schema.pointer(in_schema).unwrap();
        assert_eq!(object["additionalProperties"], false, "{in_schema}");
        let properties = object["properties"].as_object().unwrap();
        let described: BTreeSet<String> = properties.keys().cloned().collect();
        assert_eq!(described, known_fields(in_plan), "{in_schema}");
        for (name, property) in properties {
            let target = resolve(&schema, property);
            let words = property.get("description").or(target.get("description"));
            assert!(words.is_some(), "{in_schema}/{name} is not described");
        }
    }
}

/// Every field of a window's line is in the schema, described.
#[test]
fn every_field_of_a_window_is_in_the_schema() {
    let server = Responder::good();
    let schema = window_schema();
    let rates = json!([{"for_s": 0.2, "rate_per_s": 100, "to_rate_per_s": 300}]);
    for window in [
        json!({"duration_s": 0.2}),
        json!({"duration_s": 0.2, "rate_per_s": null, "rates": rates}),
        json!({"duration_s": 0.1, "mode": "closed"}),
        json!({"duration_s": 0.2, "instance": "", "slices": {"instances": ["a", "b"]}}),
    ] {
        let ids = ["a", "b"].map(|id| json!({"id": id, "address": server.address.to_string()}));
        let plan = plan(server.address, window, json!({"instances": ids}));
        let line = measure(&plan).remove(0);
        let line = serde_json::to_value(line).unwrap();
        assert_described(&schema, &schema, &line, "");
        let required: BTreeSet<&str> = schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let written: BTreeSet<&str> = line.as_object().unwrap().keys().map(|k| &**k).collect();
        assert_eq!(required, written, "what is always written is required");
    }
}
