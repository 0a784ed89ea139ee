//! Remote write with real hubs and agents: to a receiver made up here, which answers in every wrong way, and to VictoriaMetrics
//! and Prometheus, which are killed in the middle. Afterwards every sample is there, once.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use khz_judges::{Judge, Kind};
use khz_model::{Nanos, Number, RangeContent, RangeRequest, RangeShape, Ranges, Reading};
use khz_promql::is_stale;
use khz_remote::message::WriteRequest;
use khz_store::StoreReader;
use khz_store::range::RangeReader;

use crate::exposition::get_at;
use crate::process::{Running, err, khz, run, until};
use crate::text::free_port;

/// The limit only ends a hanging test.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// How long a receiver is gone: 20 s, or as many as this variable says.
fn outage() -> Duration {
    let seconds = std::env::var("KHZ_REMOTE_OUTAGE").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(20))
}

/// Samples by the name of the metric and the node: time in ms and value, those of all series of that name together, sorted.
type Content = BTreeMap<(String, String), Vec<(i64, String)>>;

/// A folder for a hub, its store and its files; it is removed after the test.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A hub with this configuration, whose link door is at this address.
    pub fn hub(&self, link: &str, config: &str) -> Running {
        let (config, store) = (self.file("khz.toml", config), self.0.join("store"));
        let words =
            ["hub", "--config", &config, "--listen", "127.0.0.1:0", "--link-listen", link, "--node", "hub"];
        let mut command = khz(&[&words[..], &["--store", store.to_str().unwrap()]].concat());
        command.env("KHZ_RUN_DIR", self.0.join("run"));
        Running::of(command)
    }

    pub fn agent(&self, hub: &str, node: &str) -> Running {
        let words = ["agent", "--node", node, "--hub", hub, "--sources", "loadavg,meminfo,uptime"];
        let mut command = khz(&words);
        command.env("KHZ_RUN_DIR", self.0.join("run"));
        Running::of(command)
    }

    /// What the store has, as a receiver is to have it: of each second the row nearest to it.
    fn stored(&self) -> Content {
        let store = StoreReader::open(&self.0.join("store")).unwrap();
        let patterns = vec![khz_model::Pattern::everything()];
        let request = RangeRequest { patterns, from: Nanos(0), to: Nanos(u64::MAX), shape: RangeShape::Rows };
        let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
        let (mut answer, mut content) = (reader.range(request).unwrap(), Content::new());
        while let Some(part) = answer.next().unwrap() {
            let RangeContent::Readings(readings) = part.content else { panic!("rows were asked for") };
            let metric = part.series.metric;
            let mut seconds: BTreeMap<u64, (u64, String)> = BTreeMap::new();
            for (stamp, reading) in readings {
                let second = (stamp.real().0 + 500_000_000) / 1_000_000_000;
                let distance = stamp.real().0.abs_diff(second * 1_000_000_000);
                let Reading::Present(bits) = reading else { continue };
                let number = metric.format().number(bits).unwrap().divided_by(metric.exposition.divisor);
                let value = match number {
                    Number::Exact(decimal) => decimal.to_string().parse::<f64>().unwrap(),
                    Number::Double(double) => double,
                };
                let known = seconds.entry(second).or_insert((distance, value.to_string()));
                if distance < known.0 {
                    *known = (distance, value.to_string());
                }
            }
            let samples =
                content.entry((metric.exposition.name.to_string(), part.node.to_string())).or_default();
            samples.extend(seconds.into_iter().map(|(second, (_, value))| (second as i64 * 1_000, value)));
        }
        content.values_mut().for_each(|samples| samples.sort());
        content
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The time of the newest sample of each node that something has, in seconds.
fn newest(content: &Content, node: &str) -> i64 {
    let of_node = content.iter().filter(|((_, of), _)| of == node);
    of_node.filter_map(|(_, samples)| Some(samples.last()?.0 / 1_000)).max().unwrap_or(0)
}

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// VictoriaMetrics keeps decimal numbers: of the 17 digits of a time it has 15. All other samples are the same to the digit.
fn is_same(name: &str, one: &(i64, String), other: &(i64, String)) -> bool {
    let number = |text: &str| text.parse::<f64>().unwrap();
    let is_near = || (number(&one.1) - number(&other.1)).abs() <= 1e-14 * number(&one.1).abs();
    one.0 == other.0 && (one.1 == other.1 || name == "node_time_seconds" && is_near())
}

/// What was received is what is stored, up to the newest sample of each node that was received.
fn compare(received: &Content, stored: &Content, nodes: &[&str]) {
    let mut samples = 0;
    for (key, stored) in stored {
        let end = newest(received, &key.1) * 1_000;
        let stored: Vec<_> = stored.iter().filter(|(time, _)| *time <= end).collect();
        let received: Vec<_> = received.get(key).into_iter().flatten().collect();
        let has = |samples: &[&(i64, String)], one: &(i64, String)| {
            samples.iter().any(|other| is_same(&key.0, one, other))
        };
        if stored.len() != received.len() || !stored.iter().zip(&received).all(|(a, b)| is_same(&key.0, a, b))
        {
            let missing = stored.iter().find(|sample| !has(&received, sample));
            let further = received.iter().find(|sample| !has(&stored, sample));
            panic!(
                "{key:?}: {} of {}; missing {missing:?}, further {further:?}",
                received.len(),
                stored.len()
            );
        }
        samples += stored.len();
    }
    assert!(samples > 1_000, "{samples}");
    assert!(received.keys().all(|(_, node)| nodes.contains(&node.as_str())), "{:?}", received.keys());
}

/// How a receiver answers a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    /// This status.
    Status(u16),
    /// Nothing, until the sender gives up.
    Nothing,
}

/// A receiver of remote write.
struct Made {
    url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// What it says to the next requests; afterwards it takes everything.
    says: Vec<Says>,
    /// What it has taken: by the labels, times and values.
    samples: BTreeMap<String, BTreeMap<i64, u64>>,
    heads: Vec<String>,
    /// Samples that came after later ones of their series.
    backwards: usize,
    requests: usize,
}

impl Made {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/api/v1/write", listener.local_addr().unwrap());
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Made { url, state }
    }

    fn content(&self) -> Content {
        let mut content = Content::new();
        for (labels, samples) in &self.state.lock().unwrap().samples {
            let value = |name: &str| {
                let label = labels.split(' ').find_map(|label| label.strip_prefix(name)?.strip_prefix('='));
                label.unwrap_or_default().to_owned()
            };
            let samples = samples.iter().filter(|(_, bits)| !is_stale(f64::from_bits(**bits)));
            let samples = samples.map(|(time, bits)| (*time, f64::from_bits(*bits).to_string()));
            content.entry((value("__name__"), value("instance"))).or_default().extend(samples);
        }
        content.values_mut().for_each(|samples| samples.sort());
        content
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let mut state = state.lock().unwrap();
        state.requests += 1;
        state.heads.push(head);
        let says = if state.says.is_empty() { Says::Status(204) } else { state.says.remove(0) };
        if let Says::Status(200..=299) = says {
            state.take(&body);
        }
        drop(state);
        let Says::Status(status) = says else {
            // Until the other side has enough.
            let _ = reader.read_to_end(&mut Vec::new());
            return;
        };
        let more = match status {
            301 => "Location: /elsewhere\r\n",
            429 => "Retry-After: 1\r\n",
            _ => "",
        };
        let answer = format!("HTTP/1.1 {status} X\r\n{more}Content-Length: 4\r\n\r\nwhy\n");
        let answer = if status == 204 { "HTTP/1.1 204 X\r\n\r\n".to_owned() } else { answer };
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

impl State {
    fn take(&mut self, body: &[u8]) {
        for series in WriteRequest::unpack(body).unwrap().timeseries {
            let labels: Vec<String> =
                series.labels.iter().map(|label| format!("{}={}", label.name, label.value)).collect();
            assert!(series.labels.is_sorted_by(|one, next| one.name < next.name), "{labels:?}");
            let known = self.samples.entry(labels.join(" ")).or_default();
            for sample in series.samples {
                let last = known.last_key_value().map(|(time, _)| *time);
                // What it has already may come again.
                let is_new = !known.contains_key(&sample.timestamp);
                self.backwards += usize::from(is_new && last.is_some_and(|last| sample.timestamp < last));
                let bits = sample.value().to_bits();
                assert_eq!(*known.entry(sample.timestamp).or_insert(bits), bits, "{labels:?}: two values");
            }
        }
    }
}

/// A count of a hub at `/metrics`, of its receiver with this name, or of the only one.
pub fn count_of(hub: &Running, receiver: &str, name: &str) -> f64 {
    let text = get_at(hub, "/metrics");
    let labelled = format!("{name}{{receiver=\"{receiver}");
    let value = text.lines().find_map(|line| Some(line.strip_prefix(&labelled)?.split_once("\"} ")?.1));
    value.unwrap_or_else(|| panic!("{name} of '{receiver}' is not in {text}")).parse().unwrap()
}

fn count(hub: &Running, name: &str) -> f64 {
    count_of(hub, "", name)
}

#[test]
fn every_row_reaches_a_receiver_that_answers_in_every_wrong_way_and_is_counted_where_it_is_refused() {
    let (place, link, made) = (Place::new("made"), free_port(), Made::start());
    let token = place.file("token", "secret-token\n");
    let wrong = [500, 503, 301, 429, 401, 403, 404, 413].map(Says::Status);
    made.state.lock().unwrap().says = [&wrong[..], &[Says::Nothing, Says::Status(502)]].concat();
    let config = format!(
        "[[remote_write]]\nurl = \"{}\"\nbatch = \"2s\"\ndelay = \"5s\"\ntimeout = \"1s\"\nbearer = \"{token}\"\n\
         labels = {{ replica = \"a\", cluster = \"c1\" }}\nheaders = {{ X-Scope-OrgID = \"team\" }}\n\
         relabel = [{{ source_labels = [\"__name__\"], regex = \"node_memory_Huge.*\", action = \"drop\" }}]\n",
        made.url
    );
    let hub = place.hub(&link, &config);
    let nodes = ["n1", "n2"];
    let agents = nodes.map(|node| place.agent(&link, node));
    until(PATIENCE, "both nodes are received", || nodes.iter().all(|node| newest(&made.content(), node) > 0));
    {
        let state = made.state.lock().unwrap();
        assert!(state.requests > 10, "each wrong answer was followed by another request");
        for head in &state.heads {
            let lower = head.to_ascii_lowercase();
            assert!(
                head.starts_with("POST /api/v1/write HTTP/1.1\r\n"),
                "a redirect is not followed: {head}"
            );
            for line in [
                "content-encoding: snappy\r\n",
                "content-type: application/x-protobuf\r\n",
                "x-prometheus-remote-write-version: 0.1.0\r\n",
                "authorization: bearer secret-token\r\n",
                "x-scope-orgid: team\r\n",
            ] {
                assert!(lower.contains(line), "{line} in {head}");
            }
        }
        let labelled = |labels: &String| labels.contains(" cluster=c1 ") && labels.contains(" replica=a");
        assert_eq!(state.samples.keys().find(|labels| !labelled(labels)), None);
        assert!(!state.samples.keys().any(|labels| labels.contains("node_memory_Huge")));
    }
    // The hub is killed: what was not acknowledged comes again, and nothing is missing.
    hub.end("KILL");
    let hub = place.hub(&link, &config);
    let now = seconds();
    until(PATIENCE, "rows are received again", || {
        nodes.iter().all(|node| newest(&made.content(), node) > now)
    });
    // What is refused is counted, and the rest goes on.
    made.state.lock().unwrap().says = vec![Says::Status(400)];
    until(PATIENCE, "samples were refused", || count(&hub, "khz_remote_write_refused_total") > 0.0);
    assert!(count(&hub, "khz_remote_write_samples_total") > 0.0);
    let before = made.content();
    until(PATIENCE, "later rows are received", || {
        nodes.iter().all(|node| newest(&made.content(), node) > newest(&before, node))
    });
    assert_eq!(count(&hub, "khz_remote_write_rows_late_total"), 0.0);
    agents.into_iter().for_each(|agent| assert_eq!(agent.end("TERM").0, Some(0)));
    assert_eq!(hub.end("TERM").0, Some(0));
    assert_eq!(made.state.lock().unwrap().backwards, 0, "samples come in the order of time");
    let mut stored = place.stored();
    stored.retain(|(name, _), _| !name.starts_with("node_memory_Huge"));
    // Before the refusal nothing is missing.
    let until_then = |content: &Content| {
        let early = |((name, node), samples): (&(String, String), &Vec<(i64, String)>)| {
            let end = newest(&before, node) * 1_000 - 10_000;
            let samples = samples.iter().filter(|(time, _)| *time <= end).cloned().collect();
            ((name.clone(), node.clone()), samples)
        };
        content.iter().map(early).collect::<Content>()
    };
    compare(&until_then(&made.content()), &until_then(&stored), &nodes);
}

/// A receiver is killed while a hub sends to it, and comes back: it has every sample once.
fn every_sample_is_there_once(kind: Kind, name: &str) {
    let place = Place::new(name);
    let mut judge = match Judge::start(kind, &place.0.join("judge"), "") {
        Ok(judge) => judge,
        Err(lacking) => return khz_skip::skip(lacking),
    };
    let begin = seconds() as u64;
    let link = free_port();
    let url = judge.write_url();
    let config = format!("[[remote_write]]\nurl = \"{url}\"\nbatch = \"2s\"\ndelay = \"5s\"\n");
    let hub = place.hub(&link, &config);
    let nodes = ["n1", "n2"];
    let agents = nodes.map(|node| place.agent(&link, node));
    let received = |judge: &Judge| content(judge, begin - 60);
    until(PATIENCE, "both nodes are received", || {
        let content = received(&judge);
        nodes.iter().all(|node| newest(&content, node) > 0)
    });
    judge.kill();
    // Half of the time later the hub is killed, too: it begins again without its receiver.
    std::thread::sleep(outage() / 2);
    hub.end("KILL");
    let hub = place.hub(&link, &config);
    std::thread::sleep(outage() / 2);
    judge.again();
    let now = seconds();
    until(PATIENCE, "everything is received", || {
        let content = received(&judge);
        nodes.iter().all(|node| newest(&content, node) > now + 5)
    });
    agents.into_iter().for_each(|agent| assert_eq!(agent.end("TERM").0, Some(0)));
    assert_eq!(hub.end("TERM").0, Some(0));
    compare(&received(&judge), &place.stored(), &nodes);
}

fn content(judge: &Judge, from: u64) -> Content {
    let mut content = Content::new();
    for (labels, samples) in judge.samples("{job=\"node\"}", (from, seconds() as u64 + 60)) {
        let labels: serde_json::Value = serde_json::from_str(&labels).unwrap();
        let label = |name: &str| labels[name].as_str().unwrap_or_default().to_owned();
        let all = content.entry((label("__name__"), label("instance"))).or_default();
        all.extend(samples.into_iter().map(|(time, value)| (time, value.to_string())));
    }
    content.values_mut().for_each(|samples| samples.sort());
    content
}

#[test]
fn victoria_metrics_has_every_sample_once_although_it_was_gone() {
    every_sample_is_there_once(Kind::Victoria, "victoria");
}

#[test]
fn debians_prometheus_has_every_sample_once_although_it_was_killed() {
    every_sample_is_there_once(Kind::DebianPrometheus, "debian");
}

#[test]
fn prometheus_3_has_every_sample_once_although_it_was_killed() {
    every_sample_is_there_once(Kind::Prometheus, "prometheus3");
}

#[test]
fn a_cursor_that_is_in_use_and_a_hub_without_a_store_are_refused() {
    let place = Place::new("refused");
    let config = place.file("khz.toml", "[[remote_write]]\nurl = \"http://127.0.0.1:9/w\"\nname = \"vm\"\n");
    let start = |more: &[&str]| {
        let words = ["hub", "--config", &config, "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0"];
        let output = run(&[&words[..], more].concat());
        (output.status.code(), err(&output))
    };
    let (code, message) = start(&["--store", "none"]);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("remote_write sends what the store has"), "{message}");
    let (store, folder) = (place.0.join("store"), place.0.join("store/remote"));
    std::fs::create_dir_all(&folder).unwrap();
    let held = khz_remote::write::Cursors::open(Path::new(&folder), "vm", Nanos(1)).unwrap();
    let (code, message) = start(&["--store", store.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("vm.lock is in use"), "{message}");
    drop(held);
}

#[test]
fn a_damaged_cursor_keeps_only_its_own_receiver_waiting() {
    let place = Place::new("damaged-cursor");
    let config = place.file(
        "khz.toml",
        "[[remote_write]]\nurl = \"http://127.0.0.1:9/w\"\nname = \"bad\"\n[[remote_write]]\nurl = \"http://127.0.0.1:9/w\"\nname = \"good\"\n",
    );
    let folder = place.0.join("store/remote");
    std::fs::create_dir_all(&folder).unwrap();
    let bad = folder.join("bad.cursor");
    std::fs::write(&bad, "something\n").unwrap();
    let mut command = khz(&[
        "hub",
        "--config",
        &config,
        "--listen",
        "127.0.0.1:0",
        "--link-listen",
        "127.0.0.1:0",
        "--node",
        "hub",
    ]);
    command.args(["--store", place.0.join("store").to_str().unwrap()]);
    command.env("KHZ_RUN_DIR", place.0.join("run")).env("KHZ_STATE_DIR", place.0.join("state"));
    let hub = Running::of(command);
    until(Duration::from_secs(60), "the good receiver's cursor", || folder.join("good.cursor").exists());
    assert_eq!(std::fs::read_to_string(&bad).unwrap(), "something\n", "nobody has written it");
    std::fs::remove_file(&bad).unwrap();
    until(Duration::from_secs(60), "the hub looks again", || bad.exists());
    let (code, message) = hub.end("TERM");
    assert_eq!(code, Some(0), "{message}");
    assert!(message.contains("remote_write 'bad': nothing is sent to this receiver: "), "{message}");
}

#[test]
fn a_hub_that_could_send_nothing_is_refused_and_one_that_is_early_waits_for_the_one_before() {
    let place = Place::new("remote-second");
    let config = place.file("khz.toml", "[[remote_write]]\nurl = \"http://127.0.0.1:1/w\"\n");
    let hub = |number: u32| {
        let words = ["hub", "--config", &config, "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0"];
        let mut command = khz(&[&words[..], &["--node", "hub"]].concat());
        command.env("KHZ_RUN_DIR", place.0.join(format!("run{number}")));
        command.env("KHZ_STATE_DIR", place.0.join("state"));
        command
    };
    let first = Running::of(hub(1));
    let in_use = |hub: &Running| format!("is in use by process {}", hub.child.id());
    let second = hub(2).output().unwrap();
    assert_eq!(crate::process::code(&second), 1, "{}", err(&second));
    assert!(
        err(&second).contains(&in_use(&first)) && err(&second).contains("remote_write"),
        "{}",
        err(&second)
    );
    let command = hub(3);
    let waiting = std::thread::spawn(move || Running::of(command));
    assert_eq!(first.end("TERM").0, Some(0));
    let third = waiting.join().unwrap();
    let fourth = hub(4).output().unwrap();
    assert!(err(&fourth).contains(&in_use(&third)), "{}", err(&fourth));
}
