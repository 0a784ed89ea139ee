//! What rules have recorded, at the door of a real hub: queries, listings and remote read have it with its own labels, and nothing that
//! shows nodes has it.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fake::{Answer, Server};
use khz_hub::{Cluster, HubQuery, RecordedSeries, Settings};
use khz_model::{ByteSize, Nanos, NodeName, Query, Rate};
use khz_promql::{LabelSet, METRIC_NAME};
use khz_remote::message::{LabelMatcher, Query as Question, ReadRequest, ReadResponse};
use khz_store::range::{OpenRows, RangeReader};
use khz_store::{Keep, Store};
use serde_json::{Value, json};

/// A hub with one expected node, whose rules are evaluated by the test.
struct Hub {
    server: Server,
    writer: RecordedSeries,
    store: Option<(Store, PathBuf)>,
    /// Ten minutes ago (ms).
    begin: i64,
}

impl Hub {
    fn start(has_store: bool) -> Self {
        let rate_max = Rate::from_hz(1_000).unwrap();
        let settings = Settings { name: "hub".into(), history: ByteSize(64 << 20), rate_max };
        let cluster = Cluster::new(settings, [7; 16]);
        cluster.expect(&[NodeName::new("n1").unwrap()]);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
        let store = has_store.then(|| store(now));
        let query = HubQuery::new(cluster.clone());
        let (query, store) = match store {
            None => (query, None),
            Some((store, intake, folder)) => {
                cluster.log_to(intake);
                let open: Arc<dyn OpenRows> = cluster.clone();
                let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), open);
                (query.remembering(Arc::new(reader)), Some((store, folder)))
            }
        };
        let query: Arc<dyn Query> = Arc::new(query);
        let server = Server::of(query, |_| {});
        Hub { server, writer: RecordedSeries::new(cluster), store, begin: now - 600_000 }
    }

    fn record(&self, group: &str, seconds: i64, samples: &[(&[(&str, &str)], f64)]) {
        let samples: Vec<(LabelSet, f64)> =
            samples.iter().map(|(labels, value)| (LabelSet::new(labels.iter().copied()), *value)).collect();
        let appended = self.writer.append(group, self.begin + seconds * 1_000 + 7, &samples).unwrap();
        assert_eq!(appended.refused, 0, "{appended:?}");
        if let Some((store, _)) = &self.store {
            store.commit(Nanos(self.begin as u64 * 1_000_000)).unwrap();
        }
    }

    fn get(&self, target: &str) -> Value {
        let answer = self.server.get(target);
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        answer.json()
    }

    /// The result of a query at this number of seconds after the begin.
    fn at(&self, query: &str, seconds: i64) -> Value {
        let time = (self.begin + seconds * 1_000) as f64 / 1_000.0;
        self.get(&format!("/api/v1/query?query={query}&time={time}"))["data"]["result"].clone()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some((_, folder)) = &self.store {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn store(now: i64) -> (Store, khz_store::log::Intake, PathBuf) {
    let folder = std::env::temp_dir().join(format!("khz-http-recorded-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let long = Nanos::from_secs(4_000 * 86_400);
    let keep = Keep { size: ByteSize(1 << 40), raw: long, minute: long, hour: long };
    let (store, intake, damage) = Store::open(&folder, keep, Nanos(now as u64 * 1_000_000)).unwrap();
    assert!(damage.is_empty());
    (store, intake, folder)
}

const LOAD: &[(&str, &str)] = &[(METRIC_NAME, "job:node_cpu:rate5m"), ("instance", "n1"), ("mode", "user")];
const ALERT: &[(&str, &str)] =
    &[(METRIC_NAME, "ALERTS"), ("alertname", "Hot"), ("alertstate", "firing"), ("node", "n1")];

#[test]
fn a_hub_answers_for_what_rules_have_recorded_and_shows_it_as_no_node() {
    for has_store in [false, true] {
        let hub = Hub::start(has_store);
        assert_eq!(hub.at("ALERTS", 60), json!([]));
        let third = 1.0 / 3.0;
        for second in [0, 15, 30, 45] {
            hub.record("cpu.yml;load", second, &[(LOAD, third + second as f64)]);
        }
        hub.record("cpu.yml;alerts", 10, &[(ALERT, 1.0)]);
        hub.record("cpu.yml;alerts", 25, &[]);
        let labels = json!({ "__name__": "job:node_cpu:rate5m", "instance": "n1", "mode": "user" });
        let found = hub.at("job:node_cpu:rate5m%7Bmode%3D%22user%22%7D", 40);
        assert_eq!(found[0]["metric"], labels, "{has_store}");
        assert_eq!(found[0]["value"][1], json!((third + 30.0).to_string()));
        let raw = hub.at("%7B__name__%3D~%22job:.*%22%7D[30s]", 46);
        let times: Vec<i64> = raw[0]["values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| (pair[0].as_f64().unwrap() * 1_000.0).round() as i64 - hub.begin)
            .collect();
        assert_eq!(times, [30_007, 45_007]);
        // An alert that is over ends at once; a group that is not evaluated any more, after the look-back.
        assert_eq!(hub.at("ALERTS", 24)[0]["value"][1], json!("1"));
        assert_eq!(hub.at("ALERTS", 26), json!([]));
        assert_eq!(hub.at("count(job:node_cpu:rate5m)", 340)[0]["value"][1], json!("1"));
        assert_eq!(hub.at("job:node_cpu:rate5m", 346), json!([]));
        // Lists.
        let series = hub.get("/api/v1/series?match[]=%7Bmode%3D%22user%22%7D");
        assert_eq!(series["data"], json!([labels]));
        let has = |target: &str, word: &str| {
            hub.get(target)["data"].as_array().unwrap().iter().any(|one| one == word)
        };
        assert!(has("/api/v1/labels", "alertname") && has("/api/v1/label/alertname/values", "Hot"));
        assert!(has("/api/v1/label/__name__/values", "ALERTS") && has("/api/v1/label/__name__/values", "up"));
        assert!(has("/api/v1/label/instance/values", "n1"));
        // What shows nodes shows no group. The node that is expected has never had a row.
        assert_eq!((hub.at("up", 40), hub.at("node_time_seconds", 40)), (json!([]), json!([])));
        for target in ["/khz/v1/nodes", "/metrics", "/khz/v1/query?match=*", "/api/v1/label/instance/values"]
        {
            let answer = hub.server.get(target);
            let text = answer.body;
            assert!(!text.contains("khz_rules"), "{target}: {text}");
        }
    }
}

#[test]
fn remote_read_has_what_rules_have_recorded() {
    let hub = Hub::start(false);
    hub.record("cpu.yml;alerts", 10, &[(ALERT, 1.0)]);
    hub.record("cpu.yml;alerts", 25, &[]);
    let matchers = vec![LabelMatcher { kind: 0, name: METRIC_NAME.into(), value: "ALERTS".into() }];
    let question = Question {
        start_timestamp_ms: hub.begin,
        end_timestamp_ms: hub.begin + 60_000,
        matchers,
        hints: None,
    };
    let request = ReadRequest { queries: vec![question], accepted_response_types: Vec::new() };
    let body = request.pack().unwrap();
    let mut head = format!(
        "POST /api/v1/read HTTP/1.1\r\nConnection: close\r\nHost: {}\r\nContent-Type: application/x-protobuf\r\n\
         Content-Encoding: snappy\r\nContent-Length: {}\r\n\r\n",
        hub.server.addr,
        body.len()
    )
    .into_bytes();
    head.extend(body);
    let raw = hub.server.raw(&head);
    let answer = Answer::parse(&raw);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer = ReadResponse::unpack(&answer.bytes).unwrap();
    let series = &answer.results[0].timeseries;
    let labels: Vec<(&str, &str)> =
        series[0].labels.iter().map(|label| (&*label.name, &*label.value)).collect();
    assert_eq!((series.len(), labels.as_slice()), (1, ALERT));
    let samples: Vec<(i64, bool)> = series[0]
        .samples
        .iter()
        .map(|sample| (sample.timestamp - hub.begin, khz_promql::is_stale(sample.value())))
        .collect();
    assert_eq!(samples, [(10_007, false), (25_007, true)]);
}
