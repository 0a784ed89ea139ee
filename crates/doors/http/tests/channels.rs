//! Channels at the door: defined, listed, followed by name while they change, and removed; and streams with a condition and without
//! a name.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fake::{Answer, FakeNode, Server};
use khz_model::{NodeName, Notice};
use khz_plan::{Handler, Values};
use serde_json::{Value, json};

const PATH: &str = "/khz/v1/channels";

fn description() -> Value {
    serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap()
}

/// Checks an answer against the description.
fn check(path: &str, method: &str, answer: &Answer) {
    let doc = description();
    let promised = &doc["paths"][path][method]["responses"][answer.status.to_string()];
    assert!(!promised.is_null(), "{method} {path} answers {}: {}", answer.status, answer.body);
    let promised = match promised["$ref"].as_str() {
        Some(at) => doc.pointer(at.trim_start_matches('#')).unwrap(),
        None => promised,
    };
    let schema = &promised["content"]["application/json"]["schema"];
    let whole = json!({ "allOf": [schema], "components": doc["components"] });
    let validator = jsonschema::validator_for(&whole).unwrap();
    let errors: Vec<String> = validator.iter_errors(&answer.json()).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?} in {}", answer.body);
}

/// A hub's door, at which local callers are readers.
fn of_readers(node: Arc<FakeNode>) -> Server {
    Server::start_with(node, |door| door.access.door = khz_trust::Door::Http)
}

#[test]
fn a_channel_is_defined_shown_changed_and_removed() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let one = "/khz/v1/channels/{name}";
    let hot = format!("{PATH}/hot");
    for (answer, method, status, expected) in [
        (
            server.put(&hot, r#"{"expr":"node_load1 > 2"}"#),
            "put",
            200,
            r#""definition":{"name":"hot","expr":"node_load1 > 2"}"#,
        ),
        (server.put(&format!("{hot}?new=1"), r#"{"name":"hot","expr":"node_load1 > 2"}"#), "put", 200, "hot"),
        (
            server.put(&format!("{hot}?new=1"), r#"{"expr":"node_load1 > 3"}"#),
            "put",
            409,
            "another channel 'hot'",
        ),
        (server.put(&hot, r#"{"expr":"node_load1 > 3","rate":"1kHz"}"#), "put", 200, r#""maker":"operator""#),
        (
            server.put(&format!("{hot}?known=1"), r#"{"expr":"node_load1 > 4","rate":"1kHz"}"#),
            "put",
            200,
            "> 4",
        ),
        (
            server.put(&format!("{PATH}/hto?known=1"), r#"{"expr":"node_load1 > 4"}"#),
            "put",
            404,
            "no channel 'hto' (did you mean 'hot'?)",
        ),
        (server.put(&format!("{hot}?known=1&new=1"), r#"{"expr":"a"}"#), "put", 400, "contradict each other"),
        (server.get(&hot), "get", 200, r#""readers":0,"rows":0"#),
        (server.get(&format!("{PATH}/hto")), "get", 404, "no channel 'hto' (did you mean 'hot'?)"),
        (
            server.put(&format!("{PATH}/Hot"), r#"{"expr":"a"}"#),
            "put",
            400,
            "name: the name of a channel starts",
        ),
        (server.put(&hot, r#"{"name":"cold","expr":"a"}"#), "put", 400, "the definition is of 'cold'"),
        (server.put(&hot, r#"{"expr":"sum(a"}"#), "put", 400, "expr: "),
        (server.put(&hot, "{\"expr\":"), "put", 400, "cannot be read: EOF while parsing"),
        (server.put(&hot, ""), "put", 400, "it is no JSON object"),
        (server.put(&hot, r#"{"expr":"a","keep":"7d"}"#), "put", 400, "keep: this khz has no store"),
        (server.put(&hot, r#"{"expr":"a","to":["x"]}"#), "put", 400, "to: there is no sink 'x'"),
        (
            server.put(&hot, r#"{"series":["load.1m"],"deadband":"5GHz"}"#),
            "put",
            400,
            "deadband: load.1m: '5GHz' does not fit: the number is a count",
        ),
        (server.put(&hot, &" ".repeat(16_385)), "put", 413, "at most 16384 bytes"),
        (server.ask("DELETE", &format!("{PATH}/cold"), &[]), "delete", 404, "no channel 'cold'"),
        (server.ask("DELETE", &hot, &[]), "delete", 200, r#"{"removed":"hot"}"#),
        (server.get(&hot), "get", 404, "no channel 'hot'"),
    ] {
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(answer.body.contains(expected), "{}", answer.body);
        check(one, method, &answer);
    }
    for (method, path) in [("POST", &*hot), ("PUT", PATH), ("DELETE", PATH), ("PUT", "/khz/v1/nodes")] {
        assert_eq!(server.ask(method, path, &[]).status, 405, "{method} {path}");
    }
    let list = server.get(PATH);
    check(PATH, "get", &list);
    assert_eq!(list.json(), json!({"channels": [], "kept": false, "limit": 256}));
}

#[test]
fn readers_have_their_own_rates_and_leave_what_operators_made() {
    let operators = Arc::new(khz_channel::Registry::in_memory());
    let registry = operators.clone();
    let server = Server::start_with(Arc::new(FakeNode::default()), |door| {
        door.access.door = khz_trust::Door::Http;
        door.channels = registry;
    });
    let definition =
        khz_channel::Definition::from_json(br#"{"name":"fast","expr":"a","rate":"1kHz"}"#).unwrap();
    operators.create(definition, khz_trust::Role::Operator).unwrap();
    for (answer, status, expected) in [
        (server.put(&format!("{PATH}/x"), r#"{"expr":"a","rate":"101Hz"}"#), 403, "101Hz is for operators"),
        (server.put(&format!("{PATH}/fast"), r#"{"expr":"a"}"#), 403, "channel 'fast' is an operator's"),
        (server.ask("DELETE", &format!("{PATH}/fast"), &[]), 403, "channel 'fast' is an operator's"),
        (server.get(&format!("{PATH}/fast/stream")), 403, "1000Hz is for operators"),
        (server.put(&format!("{PATH}/x"), r#"{"expr":"a","rate":"100Hz"}"#), 200, r#""maker":"reader""#),
        (server.ask("DELETE", &format!("{PATH}/x"), &[]), 200, "removed"),
        // A page of another origin.
        (
            server.ask("DELETE", &format!("{PATH}/fast"), &[("Origin", "http://evil.example")]),
            403,
            "another origin",
        ),
    ] {
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(answer.body.contains(expected), "{}", answer.body);
    }
    for n in 0..64 {
        assert_eq!(server.put(&format!("{PATH}/r{n}"), r#"{"expr":"a"}"#).status, 200);
    }
    let full = server.put(&format!("{PATH}/more"), r#"{"expr":"a"}"#);
    assert_eq!(full.status, 429, "{}", full.body);
    check("/khz/v1/channels/{name}", "put", &full);
}

#[test]
fn a_stream_of_a_channel_asks_the_nodes_for_it_and_is_tallied() {
    let node = FakeNode::default();
    let refusal = "channel hot: this node takes no handlers";
    let notices = vec![Notice::of(NodeName::new("n7").unwrap(), refusal)];
    let node = Arc::new(FakeNode { notices, ..node });
    let server = of_readers(node.clone());
    let definition = r#"{"nodes":"n[1-9]","series":["load.1m"],"when":"node_load1 > 2","rate":"100Hz"}"#;
    assert_eq!(server.put(&format!("{PATH}/hot"), definition).status, 200);
    let mut one = server.stream(&format!("{PATH}/hot/stream"));
    let mut other = server.stream(&format!("{PATH}/hot/stream?changes=1"));
    for events in [&mut one, &mut other] {
        let (name, _) = std::iter::from_fn(|| events.next()).find(|(name, _)| name == "rows").unwrap();
        assert_eq!(name, "rows");
    }
    let interests = node.interests.lock().unwrap().clone();
    let [first, second] = &interests[..] else { panic!("{interests:?}") };
    assert_eq!(
        (first.patterns[0].to_string(), first.rate.to_string()),
        ("n[1-9]:load.1m".into(), "100Hz".into())
    );
    let terms = first.channel.clone().unwrap();
    assert_eq!(Some(&terms), second.channel.as_ref(), "readers of one channel share it");
    assert_eq!(terms.name.as_str(), "hot");
    assert!(Handler::take(&terms.handler).unwrap().when.is_some());
    let shown = server.get(&format!("{PATH}/hot"));
    check("/khz/v1/channels/{name}", "get", &shown);
    let shown = shown.json();
    assert_eq!(shown["readers"], 2);
    assert!(shown["rows"].as_u64().unwrap() >= 2 && shown["bytes"].as_u64().unwrap() > 100, "{shown}");
    assert_eq!(shown["notices"], json!([{"nodes": ["n7"], "text": refusal}]));
    drop((one, other));
    server.wait("the streams end", |_| node.subscriptions.load(Ordering::SeqCst) == 0);
    let list = server.get(PATH);
    check(PATH, "get", &list);
    assert_eq!(list.json()["channels"][0]["readers"], 0);
}

#[test]
fn a_stream_goes_on_when_its_channel_is_changed_and_ends_when_it_is_removed() {
    let node = Arc::new(FakeNode::default());
    let server = of_readers(node.clone());
    let hot = format!("{PATH}/hot");
    server.put(&hot, r#"{"series":["load.1m"],"rate":"100Hz"}"#);
    let mut events = server.stream(&format!("{hot}/stream"));
    let doc = description();
    let described = &doc["paths"]["/khz/v1/channels/{name}/stream"]["get"]["responses"]["200"]["content"]["text/event-stream"]
        ["x-events"];
    let changes = std::cell::RefCell::new(Vec::new());
    let mut columns = || loop {
        match events.next().unwrap() {
            (name, data) if name == "channel" => {
                let reference = described[&name]["$ref"].as_str().unwrap();
                let schema = doc.pointer(reference.trim_start_matches('#')).unwrap();
                assert!(jsonschema::validator_for(schema).unwrap().is_valid(&data), "{data}");
                changes.borrow_mut().push(data);
            }
            (name, data) if name == "columns" => {
                break Ok(data["columns"][0]["name"].as_str().unwrap().to_owned());
            }
            (name, data) if name == "dropped" => break Err(data["error"].as_str().unwrap().to_owned()),
            _ => {}
        }
    };
    assert_eq!(columns(), Ok("load.1m".to_owned()));
    // Another channel is no news for it.
    server.put(&format!("{PATH}/cold"), r#"{"series":["load.1m"]}"#);
    server.put(&hot, r#"{"series":["mem.total"],"rate":"50Hz"}"#);
    assert_eq!(columns(), Ok("mem.total".to_owned()));
    assert_eq!(node.interests.lock().unwrap().len(), 2);
    let definition = json!({"name": "hot", "series": ["mem.total"], "rate": "50Hz"});
    assert_eq!(*changes.borrow(), [json!({"name": "hot", "definition": definition})]);
    server.ask("DELETE", &hot, &[]);
    let ended = columns().unwrap_err();
    assert_eq!(ended, "channel 'hot' was changed or removed: there is no channel 'hot'");
    server.wait("the stream ends", |_| node.subscriptions.load(Ordering::SeqCst) == 0);
}

#[test]
fn a_stream_may_have_a_condition_without_a_name() {
    let node = Arc::new(FakeNode::default());
    let server = of_readers(node.clone());
    for (query, pattern, has_values, has_condition) in [
        ("expr=node_load1%3E2&nodes=n[1-3]", "n[1-3]:*", true, false),
        ("expr=node_load1&for=5s&unless=node_load1%3C1", "*", true, true),
        ("match=load.1m&when=node_load1%3E2&once=1&quiet=1min", "load.1m", false, true),
        ("match=n1:load.1m&every=1s&deadband=5%25", "n1:load.1m", false, false),
        ("nodes=n1&match=load.1m&match=mem.*&at_least=2&of=3&when=node_load1", "n1:load.1m", false, true),
    ] {
        let mut events = server.stream(&format!("/khz/v1/stream?{query}"));
        assert!(events.next().is_some());
        let interest = node.interests.lock().unwrap().pop().unwrap();
        assert_eq!(interest.patterns[0].to_string(), pattern, "{query}");
        let terms = interest.channel.unwrap();
        assert_eq!(terms.name.as_str(), "adhoc");
        let handler = Handler::take(&terms.handler).unwrap();
        assert_eq!(
            (handler.values != Values::Readings, handler.when.is_some()),
            (has_values, has_condition),
            "{query}"
        );
    }
    // Without a condition it is a stream of series, and no channel.
    for query in ["match=load.1m", "nodes=n1", "match=load.1m&nodes=n[1-2]&exact=1"] {
        drop(server.stream(&format!("/khz/v1/stream?{query}")));
        assert!(node.interests.lock().unwrap().pop().unwrap().channel.is_none(), "{query}");
    }
    for (query, expected) in [
        ("expr=sum(", "expr: "),
        ("expr=a&match=load.1m", "series: rows have either"),
        ("expr=a&at_least=300&of=5", "at_least is a number"),
        ("expr=a&rate=1kHz", "1000Hz is for operators"),
        ("when=rate(a[10m])", "when: a node keeps 5 minutes at most (1:6)"),
    ] {
        let refused = server.get(&format!("/khz/v1/stream?{query}"));
        assert!(matches!(refused.status, 400 | 403) && refused.body.contains(expected), "{}", refused.body);
    }
}
