//! The description in docs/openapi.json, compared with a real server: every path, parameter, status and
//! schema.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fake::{Answer, FakeNode, Server};
use khz_block::trace::{Chunk, Chunks, Sealed};
use khz_http::{Engine, EngineAnswer, EngineError, Question};
use serde_json::{Value, json};

/// An engine that gives no usable answer.
struct Broken;

impl Engine for Broken {
    fn url(&self) -> &str {
        "http://engine"
    }

    fn mark(&self) -> &str {
        "broken"
    }

    fn ask(&self, _: &Question) -> Result<Box<dyn EngineAnswer>, EngineError> {
        Err(EngineError::Unusable("no answer from http://engine".to_owned()))
    }
}

fn description() -> Value {
    serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap()
}

/// Follows a `$ref` within the description.
fn resolved<'a>(doc: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(path) => {
            doc.pointer(path.trim_start_matches('#')).unwrap_or_else(|| panic!("{path} leads nowhere"))
        }
        None => value,
    }
}

fn parameters<'a>(doc: &'a Value, path: &str) -> Vec<&'a Value> {
    let listed = doc["paths"][path]["get"]["parameters"].as_array();
    listed.into_iter().flatten().map(|parameter| resolved(doc, parameter)).collect()
}

/// Checks `value` against a schema of the description.
fn check_schema(doc: &Value, schema: &Value, value: &Value) {
    let whole = json!({ "allOf": [schema], "components": doc["components"] });
    let validator = jsonschema::validator_for(&whole).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(value).map(|e| format!("{} at {}", e, e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?} in {value}");
}

/// Checks an answer against what the description promises for this path and status.
fn check(doc: &Value, path: &str, answer: &Answer) {
    check_method(doc, path, "get", answer);
}

fn check_method(doc: &Value, path: &str, method: &str, answer: &Answer) {
    let promised = &doc["paths"][path][method]["responses"][answer.status.to_string()];
    assert!(!promised.is_null(), "{path} answers {} which is not described: {}", answer.status, answer.body);
    let content = &resolved(doc, promised)["content"];
    if content.is_null() {
        return assert_eq!(answer.body, "", "{path} {}", answer.status);
    }
    let kind = &content[answer.content_type()];
    assert!(!kind.is_null(), "{path} answers {} as '{}'", answer.status, answer.content_type());
    if let Some(schema) = kind.get("schema") {
        check_schema(doc, schema, &answer.json());
    }
}

#[test]
fn every_route_and_parameter_is_described_and_nothing_else() {
    let doc = description();
    let described: BTreeSet<&str> = doc["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let documented = khz_http::documented();
    assert_eq!(described, documented.iter().map(|(path, _)| *path).collect());
    for (path, params) in documented {
        let names: BTreeSet<&str> =
            parameters(&doc, path).iter().map(|p| p["name"].as_str().unwrap()).collect();
        assert_eq!(names, params.iter().copied().collect(), "{path}");
    }
}

/// The parameters that a request to this path must have.
fn needed(path: &str) -> &'static str {
    match path {
        "/khz/v1/tiles" => "?match=load.1m",
        "/api/v1/query" | "/api/v1/query_exemplars" | "/api/v1/format_query" | "/khz/v1/rules/picture" => {
            "?query=node_load1"
        }
        "/api/v1/query_range" => "?query=node_load1&start=1763690000&end=1763690030&step=15",
        "/api/v1/series" => "?match[]=node_load1",
        _ => "",
    }
}

/// The path with a name in place of its parameter.
fn filled(path: &str) -> String {
    path.replace("{name}", "device").replace("{run}", "7").replace("{job}", "4711").replace("{id}", "7")
}

/// Paths that take a form in the body of a POST request.
const FORMS: &[&str] = &[
    "/api/v1/query",
    "/api/v1/query_range",
    "/api/v1/query_exemplars",
    "/api/v1/format_query",
    "/api/v1/series",
    "/api/v1/labels",
    "/api/v1/read",
];

/// Method, target, headers, and the expected status.
type Try = (&'static str, String, Vec<(&'static str, &'static str)>, u16);

/// A request for every status that the description promises, for every path.
fn requests(described: &str, long: &str) -> Vec<Try> {
    let path = &*filled(described);
    let get = |query: &str, status| ("GET", format!("{path}{query}"), vec![], status);
    // Health needs no token.
    let stranger = if path == "/healthz" { 200 } else { 401 };
    let posted = if FORMS.contains(&path) { "PUT" } else { "POST" };
    let mut requests = vec![
        (posted, path.to_owned(), vec![], 405),
        ("GET", path.to_owned(), vec![("Host", "evil.example")], 403),
        ("GET", path.to_owned(), vec![("Origin", "http://evil.example")], 403),
        ("GET", path.to_owned(), vec![("Authorization", "Basic YTpi")], stranger),
        ("GET", path.to_owned(), vec![("Content-Length", "3")], 413),
        ("GET", format!("{path}?{long}"), vec![], 414),
    ];
    if path == "/api/v1/read" {
        // What it takes is no URL.
        requests.push(get("", 400));
    } else if path != "/khz/v1/tiles" && !path.ends_with("/stream") {
        requests.push(get(needed(described), 200));
    }
    match path {
        "/" => requests.push(("GET", path.to_owned(), vec![("If-None-Match", "*")], 304)),
        "/metrics" => requests.extend([
            get("?x=1", 400),
            get("?node=n1", 200),
            get("?node=n[1-2]", 400),
            get("?node=n9", 404),
            ("GET", path.to_owned(), vec![("Accept", "application/openmetrics-text")], 200),
        ]),
        "/khz/v1/query" => requests.extend([
            get("?match=cpu.*&match=mem.*&age=1s", 200),
            get("?match=n[1-3]:mem.*", 200),
            get("?match=n1:Mem", 400),
            get("?age=5", 400),
            get("?match=nothing", 404),
        ]),
        "/khz/v1/stream" => requests.extend([
            get("?rate=0", 400),
            get("?rate=1e9", 400),
            get("?rate=5kHz", 400),
            get("?changes=2", 400),
            get("?match=nothing", 404),
            get("?expr=sum(", 400),
            get("?for=5s", 400),
            get("?expr=a&at_least=x&of=3", 400),
            get("?nodes=n[1-", 400),
        ]),
        "/khz/v1/channels"
        | "/khz/v1/rules"
        | "/khz/v1/rules/score"
        | "/khz/v1/actions"
        | "/khz/v1/blackbox"
        | "/khz/v1/tour"
        | "/khz/v1/boards" => requests.push(get("?x=1", 400)),
        "/khz/v1/actions/7/output" => {
            let unknown = |run: &str| ("GET", format!("/khz/v1/actions/{run}/output"), vec![], 404);
            requests.extend([get("?x=1", 400), unknown("8"), unknown("x")]);
        }
        "/khz/v1/jobs" => requests.extend([
            get("?user=ann&node=n1&state=running&last=1", 200),
            get("?at=now", 200),
            get("?x=1", 400),
            get("?state=gone", 400),
            get("?last=0", 400),
            get("?at=soon", 400),
        ]),
        "/khz/v1/blackbox/7" => {
            let unknown = |id: &str| ("GET", format!("/khz/v1/blackbox/{id}"), vec![], 404);
            requests.extend([get("?x=1", 400), unknown("8"), unknown("x")]);
        }
        "/khz/v1/blackbox/7/recording" => {
            let unknown = ("GET", "/khz/v1/blackbox/8/recording".to_owned(), vec![], 404);
            requests.extend([get("?x=1", 400), unknown]);
        }
        "/khz/v1/jobs/4711" => {
            let other = |id: &str, status| ("GET", format!("/khz/v1/jobs/{id}"), vec![], status);
            requests.extend([get("?x=1", 400), other("9", 404), other("a%20b", 400)]);
        }
        "/khz/v1/rules/state" => requests.extend([get("?known=a-1", 200), get("?x=1", 400)]),
        "/khz/v1/rules/picture" => requests.extend([
            get("?query=node_load1%3E5%20and%20up&instance=n1", 200),
            get("", 400),
            get("?query=sum(", 400),
        ]),
        "/api/v1/rules" => requests.extend([
            get("?type=alert&exclude_alerts=true&rule_name[]=A&rule_group[]=g&file[]=f", 200),
            get("?type=both", 400),
            get("?exclude_alerts=perhaps", 400),
            get("?match[]=%7Bseverity%3D%22page%22%7D&group_limit=2", 200),
            get("?match[]=%7Bseverity%3D~%22(%22%7D", 400),
            get("?group_limit=0", 400),
            get("?group_limit=2&group_next_token=0011223344556677", 400),
        ]),
        "/khz/v1/channels/device" => {
            let unknown = ("GET", "/khz/v1/channels/nobody".to_owned(), vec![], 404);
            requests.extend([get("?x=1", 400), unknown]);
        }
        "/khz/v1/channels/device/stream" => {
            let unknown = ("GET", "/khz/v1/channels/nobody/stream".to_owned(), vec![], 404);
            requests.extend([get("?changes=2", 400), unknown]);
        }
        "/khz/v1/history" => requests.extend([
            get("?match=cpu.*&span=5s&rows=3", 200),
            get("?rows=0", 400),
            get("?rows=10001", 400),
            get("?match=nothing", 404),
        ]),
        "/khz/v1/range" => requests.extend([
            get("?match=cpu.*&from=-5s", 200),
            get("?match=nothing", 200),
            get("?from=5&to=2026-11-21T14:03:20%2B01:00&points=9", 200),
            get("?from=now&to=-1h", 400),
            get("?from=2026-11-21+14:03:20", 400),
            get("?points=0", 400),
            get("?points=10001", 400),
            get("?points=9&newest=1", 400),
            get("?match=cpu.*&recording=1", 200),
            get("?points=9&recording=1", 400),
            get("?newest=1&recording=1", 400),
            get("?recording=2", 400),
        ]),
        "/khz/v1/events" => requests.extend([
            get("?node=n1&from=-1h&to=now", 200),
            get("?node=nobody", 404),
            get("?from=now&to=-1h", 400),
        ]),
        "/khz/v1/catalog" => requests.extend([get("?match=cpu.*", 200), get("?match=[", 400)]),
        "/khz/v1/nodes" => requests.extend([
            get("?match=x", 400),
            get("?nodes=n[1-3]", 200),
            get("?nodes=n[1-", 400),
            get("?nodes=nobody&brief=1", 200),
        ]),
        "/khz/v1/targets" => {
            requests.extend([get("?match=x", 400), get("?nodes=n[1-3],x", 200), get("?nodes=,", 400)]);
        }
        "/khz/v1/tiles" => requests.extend([
            get("", 400),
            get("?match=*", 400),
            get("?match=load.1m&rest=1", 400),
            get("?match=load.1m&fold=mean", 400),
            get("?match=load.1m&rate=11Hz", 400),
            get("?match=load.1m&rate=101Hz&steps=1", 400),
            get("?match=load.1m&steps=1&past=soon", 400),
            get("?match=net.rx_bytes&of=load.1m", 400),
            get("?match=nothing", 404),
        ]),
        "/api/v1/query" => requests.extend([
            get("?query=node_load1&time=1763690000&limit=1&timeout=5s&lookback_delta=1m", 200),
            get("?query=sum(", 400),
            get("?query=node_load1&time=yesterday", 400),
            get("?query=node_load1&limit=-1", 400),
            get("?query=node_load1&lookback_delta=0", 400),
            get("?query=node_load1&timeout=0", 400),
            get("?query=node_load1&timeout=0.000000001", 503),
        ]),
        "/api/v1/query_range" => requests.extend([
            get("?query=node_load1&start=9&end=8&step=1", 400),
            get("?query=node_load1&start=1&end=8&step=", 400),
            get("?query=node_load1&start=1&end=8", 400),
        ]),
        "/api/v1/format_query" => requests.push(get("?query=sum(", 400)),
        "/api/v1/query_exemplars" => {
            requests.extend([get("?query=sum(", 400), get("?query=node_load1&start=9&end=8", 400)])
        }
        "/api/v1/series" => requests.extend([
            get("", 400),
            get("?match[]={}", 400),
            get("?match[]=node_load1&start=9&end=8", 400),
        ]),
        "/api/v1/labels" => requests.push(get("?match[]=up[5m]", 400)),
        "/api/v1/label/device/values" => requests.push(get("?limit=x", 400)),
        "/api/v1/metadata" => requests.extend([get("?metric=node_load1", 200), get("?limit=x", 400)]),
        _ => {}
    }
    requests
}

/// An action that has run once; run 7 has an output.
struct Acted;

impl khz_http::Actions for Acted {
    fn actions(&self, reads_outputs: bool) -> Vec<String> {
        let (_, last) = &self.runs(0, 1, reads_outputs)[0];
        vec![format!(
            r#"{{"name":"look","kind":"diagnose","dry_run":false,"per_hour":10,"cooldown":"600","done":1,"failed":0,"nothing":0,"held":0,"dropped":0,"waiting":0,"last":{last}}}"#
        )]
    }

    fn runs(&self, after: u64, _: usize, reads_outputs: bool) -> Vec<(u64, String)> {
        let said = if reads_outputs { ": what it printed" } else { "" };
        let run = (
            7,
            r#"{"run":7,"action":"look","kind":"diagnose","node":"n1","alert":{"alertname":"A"},"starts_at":"1.000","dry_run":false,"began":"2.000","attempts":1,"ended":"3.000","outcome":"done","text":"exit code 0SAID","output":true,"again":null}"#
                .replace("SAID", said),
        );
        Vec::from_iter((after < run.0).then_some(run))
    }

    fn output(&self, run: u64) -> Option<String> {
        (run == 7).then(|| "what it printed\n".to_owned())
    }
}

/// A black box with one freeze, the seventh.
struct Boxed;

impl khz_http::BlackBox for Boxed {
    fn ids(&self) -> Vec<u64> {
        vec![7]
    }

    fn show(&self, id: u64) -> Option<String> {
        let freeze = r#"{"id":7,"state":"done","cause":"A","also":[],"joined":0,"at":"1.000000000","before":"20.000000000","after":"5.000000000","asked":"n1","nodes":1,"groups":[{"state":"fetched","text":"","nodes":"n1","count":1}],"rows":9,"bytes":99,"marked_after":"0.010000000","fetched_after":null,"problem":null}"#;
        (id == 7).then(|| freeze.to_owned())
    }

    fn freeze(&self, wish: &khz_http::FreezeWish) -> Result<String, khz_http::FreezeRefusal> {
        match wish.nodes.as_str() {
            "n1" => Ok("{\"id\":7,\"joined\":false}\n".to_owned()),
            "many" => Err(khz_http::FreezeRefusal::TooMany("too many".to_owned())),
            _ => Err(khz_http::FreezeRefusal::Nobody("no node".to_owned())),
        }
    }

    fn remove(&self, id: u64) -> bool {
        id == 7
    }

    fn recording(&self, id: u64) -> Option<std::fs::File> {
        (id == 7).then(|| {
            std::fs::File::open(file!().rsplit('/').next().map(|name| format!("tests/{name}"))?).ok()
        })?
    }
}

/// The channel `device`, as [`filled`] names it.
fn with_a_channel(door: &mut khz_http::Door) {
    let definition = khz_channel::Definition {
        name: "device".to_owned(),
        expr: Some("node_load1 > 2".to_owned()),
        ..khz_channel::Definition::default()
    };
    door.channels.create(definition, khz_trust::Role::Reader).unwrap();
    door.actions = Some(Arc::new(Acted));
    door.jobs = Some(a_job(false));
    door.black_box = Some(Arc::new(Boxed));
    let text = |text: &str| text.to_owned();
    let stop = khz_http::Stop {
        at: std::time::Duration::from_secs(40),
        title: text("n1 dies"),
        text: text("its tile is crossed out"),
        view: text("find=n1"),
        command: text("nodes"),
    };
    door.tour = Arc::new(khz_http::Tour::new(vec![stop]));
    door.tour.begin();
    door.boards = Arc::new(a_board());
}

/// A list with the job 4711 of ann, on n1 and n2.
fn a_job(own_only: bool) -> khz_http::JobDesk {
    let jobs = Arc::new(khz_job::Jobs::in_memory());
    let start = r#"{"id":"4711","nodes":"n[1-2]","user":"ann","uid":1001,"name":"solve"}"#;
    jobs.start(khz_job::Start::from_json(start.as_bytes()).unwrap(), 1_763_690_000_000).unwrap();
    khz_http::JobDesk { jobs, own_only, freezes_failed: false }
}

/// A board with a panel of each kind, and a file that is wrong.
fn a_board() -> khz_http::SavedBoards {
    use khz_http::{PanelKind, SavedBoard, SavedPanel, Shows};
    let panel = |shows| SavedPanel { shows, title: "busy".into(), kind: PanelKind::Heat, is_wide: true };
    let panels = vec![panel(Shows::Pattern("load.1m".into())), panel(Shows::Query("up".into()))];
    let board = SavedBoard { name: "disks".into(), title: "Disks".into(), panels };
    let problems = vec!["/etc/khz/boards/b.toml:1:9: not TOML".into()];
    khz_http::SavedBoards { folder: Some("/etc/khz/boards".into()), boards: vec![board], problems }
}

#[test]
fn every_described_status_is_answered_as_described() {
    let doc = description();
    let node = Arc::new(FakeNode::default());
    let server = Server::start_with(Arc::clone(&node), with_a_channel);
    let long = "x".repeat(9_000);
    // This one has no room for any answer.
    let crowded = Server::start_with(Arc::new(FakeNode::default()), |door| {
        with_a_channel(door);
        door.limits.answers.0 = 1;
    });
    let engine =
        Server::start_with(Arc::new(FakeNode::default()), |door| door.engine = Some(Arc::new(Broken)));
    for (path, item) in doc["paths"].as_object().unwrap() {
        if path == "/{file}" {
            continue; // Its own test below: the files are what they are.
        }
        let mut seen: BTreeSet<String> =
            (path != "/api/v1/read").then(|| "200".to_owned()).into_iter().collect();
        for (method, target, headers, status) in requests(path, &long) {
            let answer = server.ask(method, &target, &headers);
            assert_eq!(answer.status, status, "{method} {target}: {}", answer.body);
            check(&doc, path, &answer);
            seen.insert(answer.status.to_string());
        }
        let reads_past = ["/khz/v1/range", "/khz/v1/events"].contains(&path.as_str())
            || item["get"]["responses"].get("422").is_some();
        let forgetful = reads_past.then_some(&node.forgetful);
        let unable = path.ends_with("/stream").then_some(&node.unable);
        for flag in [&node.full, &node.stopped].into_iter().chain(forgetful).chain(unable) {
            flag.store(true, Ordering::SeqCst);
            let answer = server.get(&format!("{}{}", filled(path), needed(path)));
            flag.store(false, Ordering::SeqCst);
            check(&doc, path, &answer);
            seen.insert(answer.status.to_string());
        }
        let mut servers = vec![&crowded];
        servers.extend(item["get"]["responses"].get("502").is_some().then_some(&engine));
        for server in servers {
            let answer = server.get(&format!("{}{}", filled(path), needed(path)));
            check(&doc, path, &answer);
            seen.insert(answer.status.to_string());
        }
        let promised: BTreeSet<String> =
            item["get"]["responses"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(seen, promised, "{path}: what was seen and what is promised");
    }
}

#[test]
fn freezing_and_removing_are_answered_as_described_and_only_for_operators() {
    let doc = description();
    let box_path = "/khz/v1/blackbox";
    let operator = Server::start_with(Arc::new(FakeNode::default()), with_a_channel);
    for (query, status) in [
        ("?nodes=n1&before=1m&after=10s&because=a%20test", 200),
        ("", 400),
        ("?nodes=n1&before=soon", 400),
        ("?nodes=x*", 404),
        ("?nodes=many", 429),
    ] {
        let answer = operator.ask("PUT", &format!("{box_path}{query}"), &[]);
        assert_eq!(answer.status, status, "{query}: {}", answer.body);
        check_method(&doc, box_path, "put", &answer);
    }
    for (id, status) in [("7", 200), ("8", 404)] {
        let answer = operator.ask("DELETE", &format!("{box_path}/{id}"), &[]);
        assert_eq!(answer.status, status, "{}", answer.body);
        check_method(&doc, "/khz/v1/blackbox/{id}", "delete", &answer);
    }
    // Without a black box.
    let none = Server::start(Arc::new(FakeNode::default()));
    let answer = none.ask("PUT", "/khz/v1/blackbox?nodes=n1", &[]);
    check_method(&doc, box_path, "put", &answer);
    assert_eq!((answer.status, none.get(box_path).body.as_str()), (503, "{\"freezes\":[]}\n"));
}

/// What may not be in a URL as it is.
fn encoded(text: &str) -> String {
    let may_stand = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~*/:,[]".contains(byte);
    text.bytes()
        .map(|byte| if may_stand(&byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[test]
fn every_described_parameter_takes_its_example() {
    let doc = description();
    let server = Server::start_with(Arc::new(FakeNode::default()), with_a_channel);
    for (path, _) in doc["paths"].as_object().unwrap() {
        for parameter in parameters(&doc, path) {
            let (name, example) =
                (parameter["name"].as_str().unwrap(), parameter["example"].as_str().unwrap());
            // An answer gives it, if there are rules.
            if name == "group_next_token" {
                continue;
            }
            let others = match name {
                "match" => "",
                // Its only parameter that is needed.
                "query" if path == "/khz/v1/rules/picture" => "",
                "slower" | "before" | "after" => "when=node_load1",
                "for" | "unless" | "once" => "expr=node_load1",
                "at_least" => "of=5&expr=node_load1",
                "of" if path == "/khz/v1/stream" => "at_least=3&expr=node_load1",
                "quiet" => "once=1&expr=node_load1",
                "rest" => "match=load.1m&of=load.1m",
                _ => needed(path).trim_start_matches('?'),
            };
            let is_in_path = parameter["in"] == "path";
            let path = if is_in_path {
                path.replace("{name}", example)
                    .replace("{run}", example)
                    .replace("{job}", example)
                    .replace("{id}", example)
            } else {
                filled(path)
            };
            let given = if is_in_path { String::new() } else { format!("{name}={}", encoded(example)) };
            let answer = server.ask("HEAD", &format!("{path}?{given}&{others}"), &[]);
            assert_eq!(answer.status, 200, "{path}?{name}={example}");
        }
    }
}

#[test]
fn the_lines_of_a_range_are_as_described() {
    let doc = description();
    let lines = &doc["paths"]["/khz/v1/range"]["get"]["responses"]["200"]["content"]["application/x-ndjson"]
        ["x-lines"];
    let server = Server::start(Arc::new(FakeNode::many(2)));
    for (query, of_part) in [("", "rows"), ("?points=3", "points"), ("?newest=1", "rows")] {
        let answer = server.get(&format!("/khz/v1/range{query}"));
        let mut seen = Vec::new();
        for line in answer.body.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let kind = ["damage", "error", "end"]
                .into_iter()
                .find(|kind| line.get(kind).is_some())
                .unwrap_or("part");
            check_schema(&doc, &lines[kind], &line);
            let shift = (kind == "part" && query.is_empty()).then_some("-1200.500000000");
            assert_eq!(line.get("shift").and_then(Value::as_str), shift, "{query}: {line}");
            assert!(kind != "part" || line.get(of_part).is_some(), "{query}: {line}");
            seen.push(kind);
        }
        let (end, parts) = seen.split_last().unwrap();
        assert_eq!((*end, parts.iter().filter(|kind| **kind == "part").count()), ("end", 24), "{query}");
        assert!(parts.contains(&"damage"), "{query}");
    }
    let answer = server.get("/khz/v1/range?match=n2:context_switches&points=1").body;
    assert!(answer.contains(r#""name":"context_switches","instance":null"#), "{answer}");
    assert!(answer.contains(r#""sum":"126323303416763009466368""#), "a sum keeps all its digits: {answer}");
    assert!(answer.ends_with("{\"end\":{\"width\":\"60.000000000\"}}\n"), "{answer}");
}

#[test]
fn the_recording_of_a_range_has_every_row_the_damage_and_its_end() {
    let server = Server::start(Arc::new(FakeNode::many(2)));
    let answer = server.get("/khz/v1/range?recording=1");
    assert_eq!((answer.status, answer.content_type()), (200, "application/x-khz-recording"));
    let (mut notes, mut nodes, mut rows) = (Vec::new(), BTreeSet::new(), 0);
    let mut decoder = khz_block::SchemaDecoder::new();
    for chunk in Chunks::of(&answer.bytes).unwrap() {
        match chunk.unwrap() {
            Chunk::Sealed(Sealed::Note(note)) => notes.push(note.to_owned()),
            Chunk::Sealed(Sealed::Lane(head)) => {
                assert!(nodes.insert(head.node.to_owned()), "one lane for each node");
                decoder = khz_block::SchemaDecoder::new();
            }
            Chunk::Sealed(Sealed::Schema { bytes, .. }) => decoder.feed(bytes).unwrap(),
            Chunk::Sealed(Sealed::Block { bytes, .. }) => {
                assert_eq!(decoder.series().len(), 12, "each block follows the schema of its lane");
                khz_block::stamps(bytes, |_, _| rows += 1).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(nodes, BTreeSet::from(["n1".to_owned(), "n2".to_owned()]));
    assert_eq!(rows, 2 * fake::PAST_ROWS);
    assert_eq!(decoder.series(), &fake::columns()[..], "descriptions are whole");
    assert!(notes[1].starts_with("{\"damage\":\"a.col"), "{notes:?}");
    assert_eq!(notes.last().unwrap(), "{\"end\":\"whole\"}");
    // What cannot begin is refused as other answers are.
    let backwards = server.get("/khz/v1/range?recording=1&from=now&to=-1h");
    assert_eq!((backwards.status, backwards.content_type()), (400, "application/json"));
}

#[test]
fn the_events_of_a_stream_are_as_described() {
    let doc = description();
    let events = &doc["paths"]["/khz/v1/stream"]["get"]["responses"]["200"]["content"]["text/event-stream"]["x-events"];
    let server = Server::start(Arc::new(FakeNode { grows_at: 50, ..FakeNode::default() }));
    for query in ["rate=1kHz", "rate=1kHz&changes=1"] {
        let mut stream = server.stream(&format!("/khz/v1/stream?{query}"));
        let mut seen = Vec::new();
        for _ in 0..8 {
            let (name, data) = stream.next().unwrap();
            check_schema(&doc, &events[&name], &data);
            seen.push(name);
        }
        assert_eq!(seen[..2], ["columns", "rows"], "{query}");
        assert_eq!(
            seen.iter().filter(|name| *name == "columns").count(),
            2,
            "{query}: the columns changed once"
        );
    }
    let server = Server::start_with(Arc::new(FakeNode::default()), |door| door.limits.backlog_readings = 10);
    let (name, data) = server.stream("/khz/v1/stream").next().unwrap();
    assert_eq!(name, "dropped");
    check_schema(&doc, &events[&name], &data);
}

#[test]
fn the_events_of_tiles_and_the_notices_are_as_described() {
    let doc = description();
    let notice = |node: &str| {
        let node = khz_model::NodeName::new(node).unwrap();
        khz_model::Notice::of(node, "100Hz is above this node's ceiling")
    };
    let since = khz_model::Nanos::from_secs(1_763_690_000);
    let gone = khz_model::Notice {
        text: "is down since 01:53:20 UTC".to_owned(),
        change: Some((khz_model::Presence::Down, since)),
        ..notice("n2")
    };
    let node = FakeNode { notices: vec![notice("n1"), notice("n2"), gone], ..FakeNode::many(3) };
    node.set_down(&["n2"]);
    let server = Server::start(Arc::new(node));
    for (path, more, expected) in [
        ("/khz/v1/tiles", "", vec!["notice", "nodes", "tiles"]),
        ("/khz/v1/tiles", "&steps=1", vec!["nodes", "away", "notice", "steps"]),
        ("/khz/v1/stream", "", vec!["notice", "notice", "columns", "rows"]),
    ] {
        let described =
            &doc["paths"][path]["get"]["responses"]["200"]["content"]["text/event-stream"]["x-events"];
        let mut stream = server.stream(&format!("{path}?match=load.1m&rate=10Hz{more}"));
        for expected in expected {
            let (name, data) = stream.next().unwrap();
            assert_eq!(name, expected, "{path}");
            check_schema(&doc, &described[&name], &data);
        }
    }
}

#[test]
fn the_page_is_served_with_its_safety_headers_and_not_twice() {
    let doc = description();
    let server = Server::start(Arc::new(FakeNode::default()));
    let page = server.get("/");
    assert_eq!((page.status, page.content_type()), (200, "text/html"));
    assert!(page.headers["content-security-policy"].contains("default-src 'none'"));
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    assert_eq!(page.headers["cache-control"], "no-cache");
    let again = server.ask("GET", "/", &[("If-None-Match", &page.headers["etag"])]);
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../web")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".js") || name.ends_with(".css") || name.ends_with(".svg") {
            let answer = server.get(&format!("/{name}"));
            check(&doc, "/{file}", &answer);
            assert_eq!(answer.status, 200, "{name}");
        }
    }
    for (target, headers, status) in [
        ("/no-such-file", vec![], 404),
        ("/../Cargo.toml", vec![], 404),
        ("/x", vec![("Host", "evil.example")], 403),
        ("/x", vec![("Content-Length", "3")], 413),
    ] {
        let answer = server.ask("GET", target, &headers);
        assert_eq!(answer.status, status, "{target}");
        check(&doc, "/{file}", &answer);
    }
}

#[test]
fn forgetting_nodes_is_described_with_each_of_its_answers() {
    let doc = description();
    let path = "/khz/v1/nodes";
    let hub = || {
        let node = FakeNode { own: Some(Vec::new()), ..FakeNode::many(4) };
        node.set_down(&["n3", "n4"]);
        Arc::new(node)
    };
    let server = Server::start(hub());
    let reader = Server::start_with(hub(), |door| door.access.door = khz_trust::Door::Http);
    let alone = Server::start(Arc::new(FakeNode::default()));
    let forget = |server: &Server, query: &str| server.ask("DELETE", &format!("{path}{query}"), &[]);
    for (answer, status, expected) in [
        (forget(&server, ""), 400, "'nodes' is missing"),
        (forget(&server, "?nodes=n[1-"), 400, "never closed"),
        (forget(&server, "?nodes=n1,n2"), 409, "n[1-2]: it is up"),
        (forget(&server, "?nodes=n1,m3"), 409, "n1: it is up; no node is called m3 (did you mean n3?)"),
        (forget(&server, "?nodes=m3"), 404, "no node is called m3 (did you mean n3?)"),
        (forget(&reader, "?nodes=n3"), 403, "forgetting nodes is for operators, and you are a reader"),
        (forget(&alone, "?nodes=n1"), 404, "only a hub remembers nodes"),
        (forget(&server, "?nodes=n[2-3],n9"), 200, "\"forgotten\":[\"n3\"]"),
        (server.ask("DELETE", "/khz/v1/targets", &[]), 405, "only GET, HEAD"),
    ] {
        assert_eq!(answer.status, status, "{}", answer.body);
        assert!(answer.body.contains(expected), "{}", answer.body);
        if status != 405 {
            check_method(&doc, path, "delete", &answer);
        }
    }
    let left = server.get("/khz/v1/nodes?brief=1").json();
    assert_eq!(left["nodes"], json!(["n1", "n2", "n4"]));
}

#[test]
fn readers_see_what_was_done_about_alerts_and_operators_what_it_printed() {
    let doc = description();
    let output = "/khz/v1/actions/7/output";
    let reader = Server::start_with(Arc::new(FakeNode::default()), |door| {
        door.actions = Some(Arc::new(Acted));
        door.access.door = khz_trust::Door::Http;
    });
    let seen = reader.get("/khz/v1/actions").body;
    assert!(seen.contains(r#""outcome":"done""#) && !seen.contains("what it printed"), "{seen}");
    let refused = reader.get(output);
    assert_eq!(refused.status, 403, "{}", refused.body);
    check(&doc, "/khz/v1/actions/{run}/output", &refused);
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(reader.ask(method, "/khz/v1/actions", &[]).status, 405, "nothing is started over HTTP");
    }
    let none = Server::start(Arc::new(FakeNode::default()));
    assert_eq!(none.get("/khz/v1/actions").body, "{\"actions\":[],\"runs\":[]}\n");
    assert_eq!(none.get(output).status, 404);
    let operator = Server::start_with(Arc::new(FakeNode::default()), |door| {
        door.actions = Some(Arc::new(Acted));
    });
    let seen = operator.get("/khz/v1/actions").body;
    assert_eq!(seen.matches("exit code 0: what it printed").count(), 2, "{seen}");
}

#[test]
fn operators_start_and_end_jobs_and_readers_see_those_that_they_may() {
    let doc = description();
    let (path, list) = ("/khz/v1/jobs/{job}", "/khz/v1/jobs");
    let server = Server::start_with(Arc::new(FakeNode::default()), |door| door.jobs = Some(a_job(false)));
    for (target, body, status, expected) in [
        ("/khz/v1/jobs/8", r#"{"nodes":"n[1-3],n9"}"#, 200, r#""unknown":"n[2-3,9]""#),
        ("/khz/v1/jobs/8", r#"{"nodes":"n[1-3],n9"}"#, 200, r#""run":2"#),
        ("/khz/v1/jobs/8?ended=1", r#"{"outcome":"exit 3"}"#, 200, r#""outcome":"exit 3""#),
        ("/khz/v1/jobs/8?ended=1", "", 200, r#""outcome":"exit 3""#),
        ("/khz/v1/jobs/9?ended=1", "", 404, "khz job start 9 --nodes"),
        ("/khz/v1/jobs/9", r#"{"nodes":"n*"}"#, 400, "without * and ?"),
        ("/khz/v1/jobs/9", r#"{"nodes":""}"#, 400, "there are none"),
        ("/khz/v1/jobs/9", r#"{"nodes":"n1","x":1}"#, 400, "unknown field"),
        ("/khz/v1/jobs/9", r#"{"nodes":"n1","id":"8"}"#, 400, "the path of '9'"),
        ("/khz/v1/jobs/9?ended=2", "", 400, "ended is 0 or 1"),
        ("/khz/v1/jobs/a%3Ab", r#"{"nodes":"n1"}"#, 400, "is no id of a job"),
    ] {
        let answer = server.put(target, body);
        assert_eq!(answer.status, status, "{target} {body}: {}", answer.body);
        assert!(answer.body.contains(expected), "{target} {body}: {}", answer.body);
        check_method(&doc, path, "put", &answer);
    }
    let listed = server.get(list).json();
    let ids: Vec<&str> =
        listed["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["8", "4711"]);
    let stranger = Server::start_with(Arc::new(FakeNode::default()), |door| {
        door.jobs = Some(a_job(true));
        door.access.door = khz_trust::Door::Http;
    });
    let refused = stranger.put("/khz/v1/jobs/8", r#"{"nodes":"n1"}"#);
    assert_eq!(refused.status, 403, "{}", refused.body);
    check_method(&doc, path, "put", &refused);
    assert_eq!(stranger.get("/khz/v1/jobs/4711").status, 404, "it is of another user");
    assert_eq!(stranger.get(list).json()["jobs"], json!([]));
    let none = Server::start(Arc::new(FakeNode::default()));
    assert_eq!(none.get(list).json(), json!({"jobs": [], "kept": false}));
    assert!(none.get("/khz/v1/jobs/1").body.contains("ask a hub"));
}

#[test]
fn unknown_names_and_silent_nodes_are_told_apart() {
    let doc = description();
    let node = FakeNode::many(3);
    node.set_down(&["n2"]);
    let server = Server::start(Arc::new(node));
    let answer = server.get("/khz/v1/query?match=n[1-2],n7:load.1m&match=mem.totla&match=net.rx_bytes[eht0]");
    check(&doc, "/khz/v1/query", &answer);
    let body = answer.json();
    assert_eq!(body["missing"], json!(["n2"]), "it is known, and does not answer");
    assert_eq!(
        body["misses"],
        json!({
            "nodes": [{"asked": "n7", "near": "n[1-3]"}],
            "patterns": [
                {"asked": "mem.totla", "near": "mem.total"},
                {"asked": "net.rx_bytes[eht0]", "near": "net.rx_bytes[eth0]"},
            ],
            "more": 0,
        })
    );
    let mut events = server.stream("/khz/v1/stream?match=load.1m&match=mem.totla");
    let (name, data) = events.next().unwrap();
    assert_eq!((name.as_str(), &data["patterns"][0]["near"]), ("misses", &json!("mem.total")));
    check_schema(&doc, &doc["components"]["schemas"]["Misses"], &data);
    let nothing = server.get("/khz/v1/query?match=mem.totla");
    assert_eq!(nothing.status, 404);
    assert!(nothing.body.contains("nothing matches mem.totla (did you mean mem.total?)"), "{}", nothing.body);
}
