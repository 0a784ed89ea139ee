//! Prometheus' own interface at a real door: answers and errors byte for byte, forms, listings, and what a client without the
//! right role gets.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fake::{Answer, FakeNode, Server};
use serde_json::json;

/// The time of every row of the made-up past (s).
const THEN: &str = "1763690000";

fn server() -> Server {
    Server::start(Arc::new(FakeNode::many(2)))
}

/// A form in the body of a POST request.
fn post(server: &Server, path: &str, form: &str) -> Answer {
    let request = format!(
        "POST {path} HTTP/1.1\r\nConnection: close\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{form}",
        server.addr,
        form.len()
    );
    Answer::parse(&server.raw(request.as_bytes()))
}

#[test]
fn a_query_is_answered_in_prometheus_form_to_the_byte() {
    let server = server();
    let expected = concat!(
        r#"{"status":"success","data":{"resultType":"vector","result":["#,
        r#"{"metric":{"__name__":"node_load1","instance":"n2","job":"node"},"value":[1763690000.500,"5.99"]}]}}"#
    );
    let query = "query=node_load1%7Binstance%3D%22n2%22%7D&time=1763690000.5";
    let answer = server.get(&format!("/api/v1/query?{query}"));
    assert_eq!((answer.status, answer.body.as_str()), (200, expected));
    assert_eq!(answer.content_type(), "application/json");
    assert_eq!(post(&server, "/api/v1/query", query).body, expected);
    assert_eq!(post(&server, "/api/v1/query?time=5", query).body, expected, "what the body says comes first");
    let answer = server.get(&format!(
        "/api/v1/query_range?query=node_load1%7Binstance%3D%22n1%22%7D&start={THEN}&end=1763690030&step=15s"
    ));
    let expected = concat!(
        r#"{"status":"success","data":{"resultType":"matrix","result":["#,
        r#"{"metric":{"__name__":"node_load1","instance":"n1","job":"node"},"#,
        r#""values":[[1763690000,"5.99"],[1763690015,"5.99"],[1763690030,"5.99"]]}]}}"#
    );
    assert_eq!(answer.body, expected);
}

#[test]
fn errors_have_prometheus_form_and_status() {
    let server = server();
    for (target, status, kind, text) in [
        ("query?query=sum(", 400, "bad_data", "invalid parameter \"query\": "),
        (
            "query?query=up&time=then",
            400,
            "bad_data",
            "invalid parameter \"time\": cannot parse \"then\" to a valid timestamp",
        ),
        (
            "query?query=up&timeout=x",
            400,
            "bad_data",
            "invalid parameter \"timeout\": cannot parse \"x\" to a valid duration",
        ),
        ("query?query=%4", 400, "bad_data", "a '%' in the URL"),
        (
            "query_range?query=up&start=5&end=4&step=1",
            400,
            "bad_data",
            "invalid parameter \"end\": end timestamp must not be before start time",
        ),
        (
            "query_range?query=up&start=&end=4&step=1",
            400,
            "bad_data",
            "invalid parameter \"start\": cannot parse \"\"",
        ),
        (
            "query_range?query=up&start=1&end=4&step=0",
            400,
            "bad_data",
            "zero or negative query resolution step widths are not accepted",
        ),
        (
            "query_range?query=up&start=1&end=40000&step=1",
            400,
            "bad_data",
            "exceeded maximum resolution of 11,000 points",
        ),
        ("series", 400, "bad_data", "no match[] parameter provided"),
        ("label/U__x_/values", 400, "bad_data", "invalid label name"),
        ("label/%ff/values", 400, "bad_data", "invalid label name: it is no UTF-8"),
        ("query?query=up+@+1e20", 400, "bad_data", "timestamp out of bounds for @ modifier"),
        ("query?query=up+@+-1e16", 400, "bad_data", "timestamp out of bounds for @ modifier"),
        ("query?query=up&timeout=0.000000001", 503, "timeout", "query timed out"),
        ("query?query=up&timeout=0", 400, "bad_data", "timeout must be positive"),
        ("query?query=up&timeout=-1", 400, "bad_data", "timeout must be positive"),
    ] {
        let answer = server.get(&format!("/api/v1/{target}"));
        let body = answer.json();
        assert_eq!(
            (answer.status, body["status"].as_str(), body["errorType"].as_str()),
            (status, Some("error"), Some(kind)),
            "{target}: {body}"
        );
        assert!(body["error"].as_str().unwrap().contains(text), "{target}: {body}");
    }
    let forgetful = FakeNode::default();
    forgetful.forgetful.store(true, Ordering::SeqCst);
    let answer = Server::start(Arc::new(forgetful)).get("/api/v1/query?query=node_load1");
    assert_eq!((answer.status, answer.json()["errorType"].as_str()), (422, Some("execution")));
}

#[test]
fn a_form_is_not_too_large_and_comes_only_where_one_is_read() {
    let server = server();
    let long = format!("query={}", "x".repeat(300_000));
    assert_eq!(post(&server, "/api/v1/query", &long).status, 413);
    assert_eq!(post(&server, "/api/v1/metadata", "metric=x").status, 405);
    assert_eq!(post(&server, "/khz/v1/query", "match=x").status, 405);
    let foreign = "POST /api/v1/query HTTP/1.1\r\nConnection: close\r\nHost: HERE\r\nOrigin: http://evil.example\r\n\
                   Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 8\r\n\r\nquery=up";
    let foreign = foreign.replace("HERE", &server.addr.to_string());
    assert_eq!(Answer::parse(&server.raw(foreign.as_bytes())).status, 403, "a page of another origin");
    // A query that is too long for a URL.
    let metric = format!("node_load1{{device!~\"{}\"}}", "x".repeat(20_000));
    let form = format!(
        "time={THEN}&query={}",
        metric.replace('{', "%7B").replace('}', "%7D").replace('"', "%22").replace('=', "%3D")
    );
    let answer = post(&server, "/api/v1/query", &form);
    assert_eq!((answer.status, answer.json()["data"]["result"].as_array().unwrap().len()), (200, 2));
}

#[test]
fn whatever_is_refused_below_the_interface_is_refused_in_prometheus_form() {
    let server = server();
    let foreign = [("Origin", "http://evil.example")];
    for (answer, status, allowed) in [
        (server.get("/api/v1/nothing"), 404, None),
        (server.ask("GET", "/api/v1/query?query=up", &foreign), 403, None),
        (server.ask("PUT", "/api/v1/query", &[]), 405, Some("GET, HEAD, POST")),
        (server.ask("POST", "/api/v1/quer", &[]), 404, None),
        (post(&server, "/api/v1/query", &"x".repeat(300_000)), 413, None),
    ] {
        assert_eq!(answer.status, status, "{}", answer.body);
        assert_eq!(answer.json()["status"], "error", "{}", answer.body);
        assert!(answer.json()["errorType"].is_string(), "{}", answer.body);
        assert_eq!(answer.headers.get("allow").map(String::as_str), allowed, "{}", answer.body);
    }
    assert!(server.get("/nothing").json().get("errorType").is_none(), "elsewhere the form is ours");
    for head in [
        "Content-Type: application/json",
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Encoding: gzip",
    ] {
        let request = format!(
            "POST /api/v1/query HTTP/1.1\r\nConnection: close\r\nHost: {}\r\n{head}\r\nContent-Length: 8\r\n\r\nquery=up",
            server.addr
        );
        let answer = Answer::parse(&server.raw(request.as_bytes()));
        assert_eq!(answer.status, 415, "{}", answer.body);
        assert!(answer.body.contains("application/x-www-form-urlencoded"), "{}", answer.body);
    }
    let small = server.get("/api/v1/query_range?query=up&start=0&end=1&step=0.0001");
    assert!(small.status == 400 && small.body.contains("below 1 ms"), "{}", small.body);
}

#[test]
fn a_query_ends_with_its_time_and_with_its_client() {
    let node = Arc::new(FakeNode::default());
    node.endless.store(true, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&node));
    let late = server.get("/api/v1/query?query=node_load1&timeout=100ms");
    assert_eq!((late.status, late.json()["errorType"].as_str()), (503, Some("timeout")), "{}", late.body);
    let late = server.get("/api/v1/query?query=node_cpu_seconds_total&timeout=100ms");
    assert_eq!(late.status, 503, "{}", late.body);
    // More clients than there are turns, and none of them waits for its answer.
    for number in 0..2 * khz_http::limits::QUERIES_MAX as u64 {
        let mut client = std::net::TcpStream::connect(server.addr).unwrap();
        let query = "GET /api/v1/query?query=node_load1 HTTP/1.1";
        write!(client, "{query}\r\nHost: {}\r\n\r\n", server.addr).unwrap();
        server.wait("it has asked", |counters| counters.requests.load(Ordering::SeqCst) > 2 + number);
    }
    node.endless.store(false, Ordering::SeqCst);
    let answer = server.get(&format!("/api/v1/query?query=node_load1&time={THEN}"));
    assert_eq!(answer.status, 200, "they hold their turns: {}", answer.body);
}

#[test]
fn a_short_query_is_answered_while_long_ones_take_every_other_place() {
    let node = Arc::new(FakeNode::default());
    node.endless.store(true, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&node));
    let clients: Vec<_> = (0..3 * khz_http::limits::QUERIES_MAX as u64)
        .map(|number| {
            let mut client = server.connect();
            let query = "GET /api/v1/query?query=node_load1 HTTP/1.1";
            write!(client, "{query}\r\nHost: {}\r\n\r\n", server.addr).unwrap();
            server.wait("it has asked", |counters| counters.requests.load(Ordering::SeqCst) > number);
            client
        })
        .collect();
    let answer = server.get(&format!("/api/v1/query?query=node_memory_MemTotal_bytes&time={THEN}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["data"]["result"].as_array().unwrap().len(), 1, "{}", answer.body);
    drop(clients);
}

#[test]
fn a_listing_ends_with_its_time_and_reads_its_selectors_off_the_thread_of_the_door() {
    let node = Arc::new(FakeNode::default());
    node.endless.store(true, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&node));
    for listing in ["series", "labels", "label/cpu/values"] {
        let late = server.get(&format!("/api/v1/{listing}?match[]=node_load1&timeout=100ms"));
        assert_eq!((late.status, &late.json()["errorType"]), (503, &json!("timeout")), "{}", late.body);
    }
    // A wrong selector is seen only when it is its query's turn: nothing is parsed before.
    let late = server.get("/api/v1/labels?match[]=%7B&timeout=0.000000001");
    assert_eq!((late.status, &late.json()["errorType"]), (503, &json!("timeout")), "{}", late.body);
    node.endless.store(false, Ordering::SeqCst);
    let of = |number: usize| {
        let one = |k| format!("match[]=%7Ba%3D~%22x%22,b%3D~%22y{k}%22%7D");
        (0..number).map(one).collect::<Vec<_>>().join("&")
    };
    assert_eq!(post(&server, "/api/v1/labels", &of(32)).status, 200);
    let many = post(&server, "/api/v1/labels", &of(33));
    assert_eq!(many.status, 400);
    assert!(many.body.contains("64 regular expressions"), "{}", many.body);
    assert_eq!(post(&server, "/api/v1/labels", &of(65)).status, 400);
}

#[test]
fn series_and_labels_are_listed() {
    let server = server();
    let data = |target: &str| {
        let answer = server.get(&format!("/api/v1/{target}"));
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        answer.json()["data"].clone()
    };
    let span = "start=1763689000&end=1763691000";
    assert_eq!(
        data(&format!("series?match[]=node_network_receive_bytes_total%7Bdevice%3D%22eth0%22%7D&{span}")),
        json!([
            {"__name__": "node_network_receive_bytes_total", "device": "eth0", "instance": "n1", "job": "node"},
            {"__name__": "node_network_receive_bytes_total", "device": "eth0", "instance": "n2", "job": "node"},
        ])
    );
    assert_eq!(
        data(&format!("labels?match[]=node_cpu_seconds_total&{span}")),
        json!(["__name__", "cpu", "instance", "job", "mode"])
    );
    assert_eq!(data(&format!("label/mode/values?{span}")), json!(["idle", "user"]));
    assert_eq!(data("label/instance/values"), json!(["n1", "n2"]));
    assert_eq!(data("label/job/values"), json!(["node"]));
    assert_eq!(data("label/U__device/values?match[]=nothing"), json!([]));
    let names = data("label/__name__/values");
    for name in ["node_load1", "node_time_seconds", "up"] {
        assert!(names.as_array().unwrap().contains(&json!(name)), "{names}");
    }
    assert!(!names.to_string().contains("load.1m"), "a listing shows one name");
    let cut = server.get(&format!("/api/v1/series?match[]=node_cpu_seconds_total&limit=3&{span}")).json();
    assert_eq!(cut["data"].as_array().unwrap().len(), 3);
    assert_eq!(cut["warnings"], json!(["results truncated due to limit"]));
    let cut = server.get(&format!("/api/v1/query?query=node_cpu_seconds_total&limit=3&time={THEN}")).json();
    assert_eq!(
        (cut["data"]["result"].as_array().unwrap().len(), &cut["warnings"][0]),
        (3, &json!("results truncated due to limit"))
    );
}

#[test]
fn damage_is_a_warning() {
    let server = server();
    // The made-up store says so while it reads this metric.
    let answer =
        server.get(&format!("/api/v1/query?query=%7B__name__%3D~%22node_broken.*%22%7D&time={THEN}")).json();
    assert_eq!(answer["warnings"], json!(["a.col, byte 7: 9 bytes are damaged"]), "{answer}");
}

#[test]
fn what_data_sources_ask_beside_queries_is_answered() {
    let server = server();
    let body = |path: &str| server.get(&format!("/api/v1/{path}")).body;
    assert_eq!(body("rules"), r#"{"status":"success","data":{"groups":[]}}"#);
    assert_eq!(body("alerts"), r#"{"status":"success","data":{"alerts":[]}}"#);
    assert_eq!(body("query_exemplars?query=up"), r#"{"status":"success","data":[]}"#);
    for (wrong, problem) in [
        ("query_exemplars?query=sum(", "parse error"),
        ("query_exemplars", "parse error"),
        ("query_exemplars?query=up&start=noon", "start"),
        ("query_exemplars?query=up&start=2&end=1", "end timestamp must not be before start time"),
    ] {
        let answer = body(wrong);
        assert!(answer.contains("bad_data") && answer.contains(problem), "{wrong}: {answer}");
    }
    assert_eq!(
        body("metadata?metric=node_load1"),
        r#"{"status":"success","data":{"node_load1":[{"type":"gauge","help":"What the kernel says of load.1m.","unit":""}]}}"#
    );
    assert!(body("status/buildinfo").starts_with(r#"{"status":"success","data":{"version":"3."#));
    assert_eq!(
        post(&server, "/api/v1/format_query", "query=sum+by(a)(rate(x%5B5m%5D))").body,
        r#"{"status":"success","data":"sum by (a) (rate(x[5m]))"}"#
    );
}

#[test]
fn a_value_is_the_one_that_metrics_prints() {
    let server = server();
    let metrics = server.get("/metrics?nodes=n1").body;
    let answer = server.get("/api/v1/query?query=%7Binstance%3D%22n1%22%7D&time=1763690000").json();
    // The past has another row than the latest: the names and labels must be the same.
    let mut shown: Vec<String> = Vec::new();
    for sample in answer["data"]["result"].as_array().unwrap() {
        let labels = sample["metric"].as_object().unwrap();
        let others = labels.iter().filter(|(name, _)| *name != "__name__");
        let others: Vec<String> = others.map(|(name, value)| format!("{name}={value}")).collect();
        shown.push(format!("{}{{{}}}", labels["__name__"].as_str().unwrap(), others.join(",")));
    }
    let exposed = metrics.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap();
        let mut labels: Vec<&str> =
            labels.trim_end_matches('}').split("\",").map(|label| label.trim_end_matches('"')).collect();
        labels.sort_unstable();
        let labels: Vec<String> = labels.iter().map(|label| format!("{label}\"")).collect();
        format!("{name}{{{}}}", labels.join(","))
    });
    let mut exposed: Vec<String> = exposed.collect();
    exposed.sort_unstable();
    shown.sort_unstable();
    assert_eq!(shown, exposed);
}
