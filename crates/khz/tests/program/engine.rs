//! Another engine behind a hub's `/api/v1`: VictoriaMetrics and Prometheus, whose answers through the hub are those that they
//! give themselves; and an engine made up here, which answers in every wrong way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use khz_judges::{Judge, Kind};
use serde_json::Value;

use crate::process::{Running, code, err, khz, out};

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(120);

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A hub that asks this engine; `more` are further keys.
    fn hub(&self, url: &str, more: &str) -> Running {
        let config =
            self.file("khz.toml", &format!("answers_max = \"1MiB\"\n[engine]\nurl = \"{url}\"\n{more}\n"));
        let words = ["hub", "--config", &config, "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0"];
        let mut command = khz(&[&words[..], &["--node", "hub", "--store", "none"]].concat());
        command.env("KHZ_RUN_DIR", self.0.join("run"));
        Running::of(command)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
    ureq::Agent::new_with_config(config.timeout_global(Some(PATIENCE)).build())
}

/// Status and JSON at an address.
fn asked(base: &str, path: &str) -> (u16, Value) {
    let mut answer = agent().get(format!("{}{path}", base.trim_end_matches('/'))).call().unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Status, kind and sentence of an error for this query.
fn refused(hub: &Running, query: &str) -> (u16, String, String) {
    let (status, answer) = asked(&hub.url, &format!("/api/v1/query?query={query}"));
    assert_eq!(answer["status"], "error", "{answer}");
    let text = |key: &str| answer[key].as_str().unwrap().to_owned();
    (status, text("errorType"), text("error"))
}

/// What both say to these questions is the same.
fn agree(hub: &Running, engine: &str, paths: &[&str]) {
    for path in paths {
        let ((status, mut through), (direct_status, mut direct)) =
            (asked(&hub.url, path), asked(engine, path));
        // How long it took, and what VictoriaMetrics says of that.
        for answer in [&mut through, &mut direct] {
            answer.as_object_mut().unwrap().remove("stats");
        }
        assert_eq!((status, &through), (direct_status, &direct), "{path}");
    }
}

#[test]
fn a_hub_answers_as_victoria_metrics_answers_itself() {
    let place = Place::new("engine-victoria");
    let judge = match Judge::start(Kind::Victoria, &place.0.join("judge"), "") {
        Ok(judge) => judge,
        Err(lacking) => return khz_skip::skip(lacking.to_string()),
    };
    let engine = format!("http://{}", judge.address());
    let mut samples = String::new();
    for second in 0..600 {
        for node in ["n1", "n2"] {
            // A gap of some minutes.
            if !(200..420).contains(&second) {
                samples.push_str(&format!(
                    "load{{instance=\"{node}\",disk=\"a/b c\"}} {second} {}000\n",
                    1_700_000_000 + second
                ));
            }
        }
    }
    agent().post(format!("{engine}/api/v1/import/prometheus")).send(samples).unwrap();
    judge.get("/internal/force_flush").unwrap();
    let hub = place.hub(&engine, "");
    let range = "start=1700000000&end=1700000600";
    agree(
        &hub,
        &engine,
        &[
            "/api/v1/query?query=load&time=1700000100",
            "/api/v1/query?query=sum%20by%20(instance)(rate(load%5B1m%5D))&time=1700000100",
            &format!("/api/v1/query_range?query=load&step=10&{range}"),
            &format!("/api/v1/series?match%5B%5D=load&{range}"),
            &format!("/api/v1/labels?match%5B%5D=load&{range}"),
            &format!("/api/v1/label/instance/values?{range}"),
            "/api/v1/metadata?limit=3",
            "/api/v1/query_exemplars?query=load&start=1700000000&end=1700000600",
        ],
    );
    let (_, answer) = asked(&hub.url, &format!("/api/v1/query_range?query=load&step=10&{range}"));
    assert_eq!(answer["data"]["result"].as_array().unwrap().len(), 2);
    // A wrong question is wrong with the engine's own sentence, in a kind that clients know.
    let (status, kind, text) = refused(&hub, "sum(&time=1700000000");
    assert_eq!((status, kind.as_str()), (422, "execution"), "{text}");
    assert_eq!(asked(&engine, "/api/v1/query?query=sum(&time=1700000000").1["error"], text.as_str());
    // What is ours stays ours.
    let build = asked(&hub.url, "/api/v1/status/buildinfo").1;
    assert!(build["data"]["revision"].as_str().unwrap().starts_with("khz "), "{build}");
    assert_eq!(asked(&hub.url, "/api/v1/rules").1["data"]["groups"], serde_json::json!([]));
    // `khz query` asks the hub, or the engine by either name of the flag: all say the same.
    let answer = |words: &[&str]| {
        let words = [&["query", "max(load)", "--at", "2023-11-14T22:15:00Z"], words].concat();
        let output = hub.beside(&words).output().unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
        out(&output)
    };
    let through = answer(&["--server", hub.url.trim_end_matches('/')]);
    assert!(through.contains("100"), "{through}");
    assert_eq!(through, answer(&["--from", &engine]));
    assert_eq!(through, answer(&["--url", &engine]));
}

#[test]
fn a_hub_answers_as_prometheus_answers_itself() {
    let place = Place::new("engine-prometheus");
    let judge = match Judge::start(Kind::DebianPrometheus, &place.0.join("judge"), "") {
        Ok(judge) => judge,
        Err(lacking) => return khz_skip::skip(lacking.to_string()),
    };
    let engine = format!("http://{}", judge.address());
    let hub = place.hub(&engine, "");
    agree(
        &hub,
        &engine,
        &[
            "/api/v1/query?query=vector(7)&time=1700000000",
            "/api/v1/query_range?query=time()*2&start=1700000000&end=1700003600&step=15",
            "/api/v1/query_range?query=vector(1)%3E2&start=1700000000&end=1700003600&step=15",
            "/api/v1/labels",
            "/api/v1/query?query=sum(",
            "/api/v1/query_range?query=up&start=1700000000&end=1700003600&step=0",
            "/api/v1/series",
        ],
    );
    let output = hub.beside(&["query", "sum(", "--server", hub.url.trim_end_matches('/')]).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("sum(\n"), "{}", err(&output));
}

/// An engine that answers as its query says. It keeps the heads of requests.
struct Made {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Made {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/select/0", listener.local_addr().unwrap());
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let shared = heads.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Made { url, heads }
    }
}

/// The start of an answer whose length is not said.
const OPEN: &str = "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";

fn serve(stream: TcpStream, heads: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    for line in head.to_ascii_lowercase().lines() {
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    heads.lock().unwrap().push(head);
    let body = String::from_utf8(body).unwrap();
    let says = |status: &str, more: &str, body: &str| {
        format!(
            "HTTP/1.1 {status} X\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let json = "Content-Type: application/json\r\n";
    let out = reader.get_mut();
    let query = body.trim_start_matches("query=").split('&').next().unwrap_or_default();
    let _ = match query {
        "hang" => return drop(reader.read_to_end(&mut Vec::new())),
        "redirect" => out.write_all(says("302", "Location: http://127.0.0.1:1/\r\n", "").as_bytes()),
        "html" => out.write_all(says("200", "Content-Type: text/html\r\n", "<html>login</html>").as_bytes()),
        "garbage" => out.write_all(says("200", json, "\u{0}garbage{").as_bytes()),
        "two" => out.write_all(says("200", json, "{}{}").as_bytes()),
        "empty" => out.write_all(says("200", json, "").as_bytes()),
        "unknown" => out.write_all(says("401", json, "{\"error\":\"who are you?\"}").as_bytes()),
        "broken" => out.write_all(says("500", "", "stack trace").as_bytes()),
        "busy" => out.write_all(says("503", json, "{\"errorType\":\"x\",\"error\":\"later\"}").as_bytes()),
        "early" => out.write_all(
            b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"a\":",
        ),
        "silent" => out.write_all(format!("{OPEN}{{\"status\":\"success\",").as_bytes()),
        "said" => {
            out.write_all(format!("HTTP/1.1 200 X\r\n{json}Content-Length: 999999999\r\n\r\n{{").as_bytes())
        }
        "large" => large(out, 100, ""),
        "cut" => large(out, 1, "cut"),
        "endless" => large(out, usize::MAX, ""),
        _ => out.write_all(
            says("200", json, "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[]}}")
                .as_bytes(),
        ),
    };
}

/// How a large answer begins.
const BEGIN: &str = "{\"status\":\"success\",\"data\":[0";

/// So many MB of data; an answer that is cut does not end.
fn large(out: &mut impl Write, megabytes: usize, cut: &str) -> std::io::Result<()> {
    out.write_all(OPEN.as_bytes())?;
    out.write_all(BEGIN.as_bytes())?;
    let piece = ",\"]}\\\"x\"".repeat(125_000);
    for _ in 0..megabytes {
        out.write_all(piece.as_bytes())?;
    }
    if cut.is_empty() { out.write_all(b"]}") } else { Ok(()) }
}

#[test]
fn an_engine_that_answers_wrongly_is_an_error_that_names_it_and_harms_nobody() {
    let (place, made) = (Place::new("engine-made"), Made::start());
    let hub = place.hub(&made.url, "timeout = \"1s\"");
    for (query, status, kind, text) in [
        ("hang", 503, "timeout", " within 1 s: it stands still, or others keep it busy"),
        (
            "redirect",
            502,
            "unavailable",
            "it redirects (status 302); write the other address into url of [engine]",
        ),
        ("html", 502, "unavailable", "its answer is no JSON but 'text/html'"),
        ("garbage", 502, "unavailable", "what it says is no JSON"),
        ("two", 502, "unavailable", "what it says is no JSON"),
        ("empty", 502, "unavailable", "its answer broke off"),
        ("unknown", 502, "unavailable", "it refuses this khz (status 401)"),
        ("broken", 502, "unavailable", "status 500, without an error in JSON"),
        ("early", 502, "unavailable", "its answer broke off"),
        ("said", 502, "unavailable", "its answer has more than 256 MiB"),
        ("silent", 502, "unavailable", "its answer broke off"),
    ] {
        let (got, got_kind, got_text) = refused(&hub, query);
        assert_eq!((got, got_kind.as_str()), (status, kind), "{query}: {got_text}");
        assert!(got_text.contains(&made.url) && got_text.contains(text), "{query}: {got_text}");
    }
    assert_eq!(refused(&hub, "busy"), (503, "unavailable".into(), "later".into()));
    // Others are answered meanwhile and afterwards.
    assert_eq!(asked(&hub.url, "/api/v1/query?query=fine").1["status"], "success");
    drop(hub);
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let hub = place.hub(&format!("http://{gone}"), "");
    let (status, kind, text) = refused(&hub, "up");
    assert_eq!((status, kind.as_str()), (502, "unavailable"));
    assert!(text.contains(&format!("http://{gone}")) && text.contains("refused"), "{text}");
}

#[test]
fn a_long_answer_is_handed_on_in_pages_and_one_that_is_cut_or_endless_is_cut() {
    let (place, made) = (Place::new("engine-long"), Made::start());
    let hub = place.hub(&made.url, "");
    let body = |query: &str| {
        let mut answer = agent().get(format!("{}api/v1/query?query={query}", hub.url)).call().unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert_eq!(answer.headers()["khz-engine"], made.url.as_str());
        let mut length = 0;
        let mut reader = answer.body_mut().with_config().limit(1 << 30).reader();
        let mut room = vec![0; 1 << 20];
        loop {
            match reader.read(&mut room) {
                Ok(0) => return Ok(length),
                Ok(count) => length += count,
                Err(_) => return Err(length),
            }
        }
    };
    // The door's budget is 1 MiB: it never holds what it hands on.
    assert_eq!(body("large"), Ok(100_000_000 + BEGIN.len() + 2));
    assert!(body("cut").is_err());
    let endless = body("endless").unwrap_err();
    assert!((200 << 20..=256 << 20).contains(&endless), "{endless}");
    assert_eq!(asked(&hub.url, "/api/v1/query?query=fine").1["status"], "success");
}

#[test]
fn an_engine_gets_what_the_file_says_and_nothing_of_the_client() {
    let (place, made) = (Place::new("engine-shown"), Made::start());
    let secret = place.file("token", "s3cret\n");
    let hub =
        place.hub(&made.url, &format!("bearer = \"{secret}\"\nheaders = {{ X-Scope-OrgID = \"hpc\" }}"));
    let answer = agent()
        .get(format!("{}api/v1/label/a%2F..%2Fb/values?evil=1&limit=5&match[]=up", hub.url))
        .header("Authorization", "Bearer mine")
        .header("Cookie", "mine=1")
        .header("X-Scope-OrgID", "mine")
        .call()
        .unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    let heads = made.heads.lock().unwrap();
    let head = heads.last().unwrap();
    assert!(
        head.starts_with(
            "GET /select/0/api/v1/label/a%2F%2E%2E%2Fb/values?limit=5&match%5B%5D=up HTTP/1.1\r\n"
        ),
        "{head}"
    );
    let small = head.to_ascii_lowercase();
    assert!(
        small.contains("authorization: bearer s3cret\r\n") && small.contains("x-scope-orgid: hpc\r\n"),
        "{head}"
    );
    assert!(!small.contains("mine") && !small.contains("cookie"), "{head}");
    drop(heads);
    assert_eq!(asked(&hub.url, "/api/v1/label/%2e%2e/values").0, 400);
    // Neither the answer nor an error has the secret.
    std::fs::write(&secret, "").unwrap();
    let (status, _, text) = refused(&hub, "up");
    assert!(status == 502 && text.contains("has no secret") && !text.contains("s3cret"), "{text}");
}

#[test]
fn an_engine_that_a_person_names_sees_no_token_and_is_asked_nothing_but_the_query() {
    let (place, made) = (Place::new("engine-named"), Made::start());
    let folder = place.0.join("certs");
    let folder = folder.to_str().unwrap();
    let done = khz(&["certs", "init", "--dir", folder]).output().unwrap();
    assert_eq!(code(&done), 0, "{}", err(&done));
    let token = khz(&["certs", "token", "operator", "ann", "--dir", folder]).output().unwrap();
    assert_eq!(code(&token), 0, "{}", err(&token));
    let token = out(&token);
    let token = token.trim();
    for flag in ["--url", "--from"] {
        let mut asked = khz(&["query", "up", flag, &made.url]);
        let output = asked.env("KHZ_TOKEN", token).output().unwrap();
        assert_eq!(code(&output), 0, "{}", err(&output));
        let heads = std::mem::take(&mut *made.heads.lock().unwrap());
        assert_eq!(heads.len(), 1, "{heads:?}");
        assert!(heads[0].starts_with("POST /select/0/api/v1/query HTTP/1.1"), "{heads:?}");
        assert!(!heads[0].to_ascii_lowercase().contains("authorization"), "{heads:?}");
    }
    // What is no engine is called none.
    for query in ["html", "garbage", "empty"] {
        let output = khz(&["query", query, "--url", &made.url]).output().unwrap();
        let said = err(&output);
        assert_eq!((code(&output), out(&output).as_str()), (1, ""), "{said}");
        assert!(said.contains(&made.url) && said.contains("no answer of Prometheus' interface"), "{said}");
        assert!(!said.contains("as khz does") && !said.contains("enum"), "{said}");
    }
    made.heads.lock().unwrap().clear();
    // A khz sees it.
    let hub = made.url.trim_end_matches("/select/0");
    let mut asked = khz(&["query", "up", "--server", hub]);
    let output = asked.env("KHZ_TOKEN", token).output().unwrap();
    assert_eq!(code(&output), 0, "{}", err(&output));
    let heads = made.heads.lock().unwrap();
    assert!(heads[0].contains(&format!("Bearer {token}")), "{heads:?}");
}

#[test]
fn a_hub_that_is_its_own_engine_says_so() {
    let place = Place::new("engine-itself");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let config = place.file("khz.toml", &format!("[engine]\nurl = \"http://{address}\"\n"));
    let words = ["hub", "--config", &config, "--listen", &address, "--link-listen", "127.0.0.1:0"];
    let mut command = khz(&[&words[..], &["--node", "hub", "--store", "none"]].concat());
    command.env("KHZ_RUN_DIR", place.0.join("run"));
    let hub = Running::of(command);
    let (status, kind, text) = refused(&hub, "up");
    assert_eq!((status, kind.as_str()), (502, "unavailable"));
    assert!(text.contains(&address) && text.contains("is this khz itself"), "{text}");
}

#[test]
fn every_file_that_a_hub_would_miss_is_named_before_it_starts() {
    let place = Place::new("engine-files");
    let (none, empty) = (place.0.join("none.pem"), place.file("empty.pem", "no certificate\n"));
    let bearer = place.0.join("none.token");
    let receiver = format!(
        "[[remote_write]]\nname = \"mimir\"\nurl = \"https://mimir/w\"\nca = \"{empty}\"\nbearer = \"{}\"\n",
        bearer.display()
    );
    let engine = format!("[engine]\nurl = \"https://vm\"\nca = \"{}\"\n", none.display());
    for (text, missing) in [
        (engine.clone(), vec![none.to_str().unwrap()]),
        (receiver.clone(), vec![&empty, bearer.to_str().unwrap()]),
        (engine + &receiver, vec![none.to_str().unwrap(), &empty, bearer.to_str().unwrap()]),
    ] {
        let config = place.file("khz.toml", &text);
        let checked = khz(&["config", "--config", &config]).output().unwrap();
        assert_eq!(code(&checked), 2, "{}", err(&checked));
        assert!(missing.iter().all(|file| err(&checked).contains(file)), "{missing:?}: {}", err(&checked));
    }
}
