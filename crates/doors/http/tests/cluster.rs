//! Several nodes of one door: their states, the numbers of one node, and the numbers of all.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;

use std::process::Command;
use std::sync::Arc;

use fake::{FakeNode, Server, metric, stamp};
use khz_model::{Kind, NodeName, Notice, Reading, Sample, Series, Unit};
use serde_json::{Value, json};

/// Four nodes, of which n3 is down.
fn four() -> FakeNode {
    let node = FakeNode::many(4);
    node.set_down(&["n3"]);
    node
}

#[test]
fn every_node_shows_its_state() {
    let server = Server::start(Arc::new(four()));
    let answer = server.get("/khz/v1/nodes").json();
    assert_eq!(answer["nodes"], json!(["n1", "n2", "n3", "n4"]));
    let status = answer["status"].as_array().unwrap();
    assert_eq!(status.len(), 4);
    assert_eq!((&status[1]["up"], &status[1]["heard"]), (&json!(true), &json!("0.400000000")));
    assert_eq!((&status[2]["up"], &status[2]["heard"]), (&json!(false), &json!("12.000000000")));
    assert_eq!(status[2]["problem"], "the connection was reset");
    assert_eq!(status[0]["clock_offset"], "-0.000012345");
    assert_eq!(
        status[0]["lanes"],
        json!([{"name": "base", "rate": "1Hz", "asked": "1Hz", "age": "0.400000000", "slots": 12, "rows": 86_400, "awaited": 2, "lost": 7, "late": 1}])
    );
}

#[test]
fn a_hostlist_selects_nodes_and_brief_leaves_the_rest_out() {
    let server = Server::start(Arc::new(four()));
    let answer = server.get("/khz/v1/nodes?nodes=n[3-9]&brief=1").json();
    assert_eq!(answer["nodes"], json!(["n3", "n4"]));
    assert!(answer.get("status").is_none());
    let wrong = server.get("/khz/v1/nodes?nodes=n[9-1]");
    assert_eq!((wrong.status, wrong.json()["column"].as_u64()), (400, Some(3)));
    let shown = server.get("/khz/v1/nodes?nodes=n[4-").body;
    assert!(shown.contains("n[4-") && !shown.contains(":*"), "as it was written: {shown}");
}

#[test]
fn groups_of_the_configuration_are_told_with_the_nodes() {
    let group = |name: &str, nodes: &str| khz_http::NodeGroup { name: name.into(), nodes: nodes.into() };
    let groups = vec![group("rack2", "n[3-4]"), group("rack1", "n[1-2]")];
    let server = Server::start_with(Arc::new(four()), |door| door.groups = groups.into());
    let answer = server.get("/khz/v1/nodes?brief=1").json();
    let expected = json!([{"name": "rack2", "nodes": "n[3-4]"}, {"name": "rack1", "nodes": "n[1-2]"}]);
    assert_eq!(answer["groups"], expected);
    let without = Server::start(Arc::new(four()));
    assert!(without.get("/khz/v1/nodes").json().get("groups").is_none());
}

#[test]
fn one_node_is_scraped_without_a_label_that_names_it_and_several_with_their_identity() {
    let server = Server::start_with(Arc::new(four()), |door| door.job = "machines".into());
    let of = |path: &str| server.get(path).body;
    assert!(of("/metrics?node=n1").contains("\nnode_load1 12.34\n"));
    assert!(of("/metrics?node=n4").contains("\nnode_load1 15.34\n"), "each node has its own values");
    let two = of("/metrics?nodes=n[1,4]");
    for (node, load) in [("n1", "12.34"), ("n4", "15.34")] {
        let line = format!("\nnode_load1{{instance=\"{node}\",job=\"machines\"}} {load}\n");
        assert!(two.contains(&line), "{line} in {two}");
        assert!(two.contains(&format!("\nup{{instance=\"{node}\",job=\"machines\"}} 1\n")));
    }
    assert!(!two.contains("\"n2\"") && !two.contains("{node="), "{two}");
    let collected = of("/metrics?nodes=n1&collect[]=loadavg");
    assert!(collected.contains("node_load1{") && !collected.contains("node_memory"), "{collected}");
    assert_eq!(server.get("/metrics?nodes=n[4-1]").status, 400);
    let both = server.get("/metrics?node=n1&nodes=n4");
    assert_eq!(both.status, 400);
    assert!(both.body.contains("takes only one of them. Write nodes="), "{}", both.body);
}

#[test]
fn a_node_cannot_say_that_it_is_up_and_what_it_names_so_is_counted() {
    let named_up = metric("job.up", Kind::Gauge, Unit::Count, "up");
    let other = metric("job.upper", Kind::Gauge, Unit::Count, "upper");
    let columns = [named_up, other].map(|metric| Series { metric: Arc::new(metric), instance: None });
    let nodes = FakeNode { columns: Arc::new(columns.into()), ..FakeNode::many(2) };
    let server = Server::start(Arc::new(nodes));
    for headers in [&[][..], &[("accept", "application/openmetrics-text")]] {
        let all = server.ask("GET", "/metrics?nodes=n1", headers).body;
        let lines: Vec<&str> = all.lines().filter(|line| line.starts_with("up")).collect();
        assert!(
            matches!(&lines[..], [upper, "up{instance=\"n1\",job=\"node\"} 1"] if upper.starts_with("upper{")),
            "{all}"
        );
        let alone = server.ask("GET", "/metrics?node=n1", headers).body;
        assert!(!alone.contains("\nup ") && !alone.contains(" up "), "the scraper itself says it: {alone}");
        assert!(alone.contains("\nupper "), "{alone}");
    }
    assert_eq!(server.count(|counters| &counters.samples_left_out), 4);
}

#[test]
fn a_node_that_is_down_has_up_0_and_no_old_numbers_beside_those_that_are_up() {
    let nodes = four();
    nodes.down.lock().unwrap().insert(NodeName::new("n2").unwrap());
    let server = Server::start(Arc::new(nodes));
    let all = server.get("/metrics?nodes=*").body;
    for up in ["up{instance=\"n2\",job=\"node\"} 0\n", "up{instance=\"n4\",job=\"node\"} 1\n"] {
        assert!(all.contains(up), "{up} in {all}");
    }
    assert!(
        !all.contains("node_load1{instance=\"n2\"") && all.contains("node_load1{instance=\"n4\""),
        "{all}"
    );
}

#[test]
fn a_scrape_asks_the_node_for_a_new_row_and_does_not_wait_for_ever() {
    let node = Arc::new(four());
    let server = Server::start(Arc::clone(&node));
    let renewed = || std::mem::take(&mut *node.renewed.lock().unwrap());
    let window = khz_model::Nanos::from_micros(100);
    assert_eq!(server.get("/metrics?node=n1").status, 200);
    assert_eq!(renewed(), [("n1:*".to_owned(), window)], "everything of that node, no older than the window");
    assert_eq!(server.get("/metrics?node=n3").status, 503);
    assert_eq!(server.get("/metrics").status, 200);
    assert_eq!(renewed(), [], "neither one that is down nor all of them");
    node.silent.store(true, std::sync::atomic::Ordering::SeqCst);
    let last = server.get("/metrics?node=n1");
    assert!(last.status == 200 && last.body.contains("\nnode_load1 12.34\n"), "its last rows are shown");
    assert_eq!(renewed().len(), 1);
}

#[test]
fn no_sample_says_when_it_was_gathered_so_that_prometheus_sees_series_end() {
    let server = Server::start(Arc::new(four()));
    for path in ["/metrics", "/metrics?node=n1"] {
        let text = server.get(path).body;
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        for sample in samples {
            let (_, value) = sample.rsplit_once("} ").or_else(|| sample.split_once(' ')).unwrap();
            assert!(value.parse::<f64>().is_ok(), "'{sample}' has a time after its value");
        }
    }
}

#[test]
fn a_node_that_is_down_fails_its_scrape_and_an_unknown_one_is_not_found() {
    let server = Server::start(Arc::new(four()));
    for (node, status, error) in [
        ("n3", 503, "node 'n3' is down; it was last heard 12.0 s ago"),
        ("n9", 404, "there is no node 'n9'; /khz/v1/nodes lists them"),
    ] {
        let answer = server.get(&format!("/metrics?node={node}"));
        assert_eq!((answer.status, answer.json()["error"].as_str()), (status, Some(error)));
    }
}

#[test]
fn a_hub_exposes_its_own_numbers() {
    let own = Sample {
        series: Series {
            metric: Arc::new(metric("khz.hub.nodes", Kind::Gauge, Unit::Count, "khz_hub_nodes")),
            instance: None,
        },
        reading: Reading::Present(4),
        stamp: stamp(0),
    };
    let server = Server::start(Arc::new(FakeNode { own: Some(vec![own]), ..four() }));
    assert_eq!(
        server.get("/metrics").body,
        "# HELP khz_hub_nodes What the kernel says of khz.hub.nodes.\n# TYPE khz_hub_nodes gauge\nkhz_hub_nodes 4\n"
    );
    assert!(server.get("/metrics?node=n1").body.contains("node_load1 12.34"));
}

#[test]
fn every_node_is_a_target_up_or_down() {
    let server = Server::start(Arc::new(four()));
    let targets = server.get("/khz/v1/targets").json();
    assert_eq!(targets.as_array().unwrap().len(), 4);
    assert_eq!(
        targets[2],
        json!({
            "targets": [server.addr.to_string()],
            "labels": {"__metrics_path__": "/metrics", "__param_node": "n3", "instance": "n3", "job": "node"},
        })
    );
}

/// The scrape configuration in the README, pointed at this server.
fn scrape_config(server: &Server) -> String {
    let readme = include_str!("../../../../README.md");
    let (_, rest) = readme.split_once("```yaml\n").expect("the README shows a scrape configuration");
    let (config, _) = rest.split_once("```").unwrap();
    assert!(config.contains("hub.example:7070"), "{config}");
    config.replace("hub.example:7070", &server.addr.to_string())
}

#[test]
fn promtool_finds_every_node_with_the_configuration_of_the_readme() {
    let server = Server::start(Arc::new(four()));
    let config = std::env::temp_dir().join(format!("khz-prometheus-{}.yml", server.addr.port()));
    std::fs::write(&config, scrape_config(&server)).unwrap();
    // It always waits for its full timeout.
    let words = ["check", "service-discovery", "--timeout=5s"];
    let output = Command::new("promtool").args(words).arg(&config).arg("node").output();
    std::fs::remove_file(&config).unwrap();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return khz_skip::skip("promtool is not installed (Debian package prometheus)");
        }
        Err(error) => panic!("promtool: {error}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let labels: Vec<&Value> = found.as_array().unwrap().iter().map(|target| &target["labels"]).collect();
    let mut instances: Vec<&str> = labels.iter().map(|labels| labels["instance"].as_str().unwrap()).collect();
    instances.sort();
    assert_eq!(instances, ["n1", "n2", "n3", "n4"]);
    for labels in labels {
        assert_eq!(labels["__address__"], server.addr.to_string());
        assert_eq!(labels["__param_node"], labels["instance"]);
        assert_eq!(labels["job"], "node");
    }
}

#[test]
fn a_stream_of_several_nodes_has_columns_and_rows_for_each() {
    let server = Server::start(Arc::new(four()));
    let mut events = server.stream("/khz/v1/stream?match=n[1-3]:load.1m&rate=1000Hz");
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let (name, data) = events.next().unwrap();
        let first = data["rows"][0]["v"][0].as_str().unwrap_or("").to_owned();
        seen.push((name, data["node"].as_str().unwrap().to_owned(), first));
    }
    let event = |name: &str, node: &str, first: &str| (name.to_owned(), node.to_owned(), first.to_owned());
    assert_eq!(
        seen,
        [
            event("columns", "n1", ""),
            event("rows", "n1", "0.00"),
            event("columns", "n2", ""),
            event("rows", "n2", "1.00")
        ]
    );
}

#[test]
fn a_notice_about_many_nodes_is_one_event() {
    let notice = |node: &str, text: &str| Notice::of(NodeName::new(node).unwrap(), text);
    let slow = "1000Hz is above this node's ceiling of 100Hz";
    let notices = vec![notice("n1", slow), notice("n2", "busy \"now\""), notice("n4", slow)];
    let server = Server::start(Arc::new(FakeNode { notices, ..four() }));
    let mut events = server.stream("/khz/v1/stream?match=load.1m&rate=1000Hz");
    let told: Vec<(String, Value)> = (0..40).map(|_| events.next().unwrap()).collect();
    let told: Vec<&Value> = told.iter().filter(|(name, _)| name == "notice").map(|(_, data)| data).collect();
    assert_eq!(
        told,
        [&json!({"nodes": ["n1", "n4"], "text": slow}), &json!({"nodes": ["n2"], "text": "busy \"now\""})]
    );
}

/// The next event with this name.
fn next(events: &mut fake::Events, wanted: &str) -> Value {
    loop {
        let (name, data) = events.next().expect("the stream goes on");
        if name == wanted {
            return data;
        }
    }
}

#[test]
fn tiles_hold_one_number_a_node_and_tell_down_from_unknown() {
    let node = FakeNode { rows_a_poll: 1, ..four() };
    let server = Server::start(Arc::new(node));
    let mut events = server.stream("/khz/v1/tiles?match=load.1m&rate=10Hz");
    let nodes = next(&mut events, "nodes");
    assert_eq!(nodes["nodes"], json!(["n1", "n2", "n3", "n4"]));
    assert_eq!(nodes["unit"], "count");
    let tiles = next(&mut events, "tiles");
    assert_eq!(tiles["v"], json!([0, 1, null, 3]));
    assert_eq!(tiles["down"], json!([2]));
    let mut events = server.stream("/khz/v1/tiles?match=mem.high_total&rate=10Hz");
    let tiles = next(&mut events, "tiles");
    assert_eq!((&tiles["v"], &tiles["down"]), (&json!([null, null, null, null]), &json!([2])));
}

#[test]
fn tiles_of_counters_are_rates_by_the_stamps_of_their_rows() {
    // Rows are a nanosecond apart, and every tenth row the counter grows by one.
    let server = Server::start(Arc::new(FakeNode { rows_a_poll: 10, ..four() }));
    let mut events = server.stream("/khz/v1/tiles?match=net.rx_bytes[eth0]&rate=10Hz");
    assert_eq!(next(&mut events, "nodes")["unit"], "bytes/s");
    let first = next(&mut events, "tiles");
    assert_eq!(first["v"], json!([null, null, null, null]), "one row makes no rate");
    let second = next(&mut events, "tiles");
    assert_eq!(second["v"], json!([100_000_000, 100_000_000, null, 100_000_000]));
}

#[test]
fn a_changed_list_of_nodes_is_sent_again_and_a_silent_node_goes_down() {
    let node = Arc::new(four());
    let server = Server::start(Arc::clone(&node));
    let mut events = server.stream("/khz/v1/tiles?match=load.1m&rate=10Hz");
    assert_eq!(next(&mut events, "tiles")["down"], json!([2]));
    node.set_down(&["n1", "n3"]);
    loop {
        let tiles = next(&mut events, "tiles");
        if tiles["down"] == json!([0, 2]) {
            assert!(tiles["v"][0].is_null(), "a node that is down has no number: {tiles}");
            break;
        }
    }
}

/// The numbers of the first step that has any, and the step.
fn first_step(server: &Server, path: &str) -> (Value, u64) {
    let mut events = server.stream(path);
    loop {
        let data = next(&mut events, "steps");
        if let Some(step) = data["steps"].get(0) {
            return (step["runs"].clone(), step["step"].as_u64().unwrap());
        }
    }
}

#[test]
fn steps_place_every_row_on_one_grid_of_time_and_leave_out_who_sent_none() {
    let server = Server::start(Arc::new(FakeNode { rows_a_poll: 1, ..four() }));
    let mut events = server.stream("/khz/v1/tiles?match=load.1m&rate=100Hz&steps=1");
    assert_eq!(next(&mut events, "nodes")["period_ns"], 10_000_000);
    assert_eq!(next(&mut events, "away"), json!({"down": [2], "left": [], "missing": []}));
    // Rows are a nanosecond apart, so all are in one step.
    let path = "/khz/v1/tiles?match=load.1m&rate=100Hz&steps=1";
    assert_eq!(first_step(&server, path), (json!([[0, 0, 1], [3, 3]]), 176_369_000_000));
    let counter = "/khz/v1/tiles?match=mem.high_total&rate=1Hz&steps=1";
    assert_eq!(first_step(&server, counter), (json!([[0, null, null], [3, null]]), 1_763_690_000));
}

#[test]
fn steps_begin_with_the_past_that_is_asked_for() {
    let server = Server::start(Arc::new(FakeNode { rows_a_poll: 1, ..four() }));
    // n3 is down: no row comes, but there is a past. Its rows are a nanosecond apart, and the last one counts.
    let path = "/khz/v1/tiles?match=n3:load.1m&rate=1Hz&steps=1";
    assert_eq!(first_step(&server, &format!("{path}&past=60s")), (json!([[0, 0.59]]), 1_763_690_000));
    let mut without = server.stream(path);
    assert_eq!(next(&mut without, "steps")["steps"], json!([]));
}

#[test]
fn steps_have_only_the_nodes_that_the_patterns_select() {
    let server = Server::start(Arc::new(FakeNode { rows_a_poll: 1, ..four() }));
    let mut events = server.stream("/khz/v1/tiles?match=n[2-3]:load.1m&rate=10Hz&steps=1");
    assert_eq!(next(&mut events, "nodes")["nodes"], json!(["n2", "n3"]));
    assert_eq!(next(&mut events, "away")["down"], json!([1]));
}

#[test]
fn more_steps_than_a_page_can_draw_are_refused_with_a_sentence() {
    let server = Server::start(Arc::new(FakeNode::many(656)));
    let refused = server.get("/khz/v1/tiles?match=load.1m&rate=100Hz&steps=1");
    assert_eq!(refused.status, 400);
    let error = refused.json()["error"].as_str().unwrap().to_owned();
    assert!(
        error.starts_with("656 nodes at 100Hz are 65600 numbers a second, the limit is 65536"),
        "{error}"
    );
    let mut fewer = server.stream("/khz/v1/tiles?match=n[1-600]:load.1m&rate=100Hz&steps=1");
    assert_eq!(next(&mut fewer, "nodes")["nodes"].as_array().unwrap().len(), 600);
}

#[test]
fn four_thousand_tiles_are_one_small_event() {
    let server = Server::start(Arc::new(FakeNode { rows_a_poll: 3, ..FakeNode::many(4_096) }));
    let mut events = server.stream("/khz/v1/tiles?match=load.1m&rate=1Hz");
    loop {
        let text = events.next_text().unwrap();
        if let Some(data) = text.strip_prefix("event: tiles\ndata: ") {
            let tiles: Value = serde_json::from_str(data).unwrap();
            assert_eq!(tiles["v"].as_array().unwrap().len(), 4_096);
            assert!(data.len() < 32_000, "{} bytes", data.len());
            break;
        }
    }
}
