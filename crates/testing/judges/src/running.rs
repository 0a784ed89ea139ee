//! A judge that runs: it can be killed, started again on what it had, and asked for every sample.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::place::{Kind, Lacking, find};

/// How long a judge may take to answer after its start. It only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(120);

/// The samples of some series: by the labels, as JSON text with its keys in order, times in ms with values.
pub type Samples = BTreeMap<String, Vec<(i64, f64)>>;

/// A judge in a folder of its own.
pub struct Judge {
    kind: Kind,
    program: PathBuf,
    folder: PathBuf,
    address: String,
    /// Lines that are added to the configuration of Prometheus.
    more: String,
    child: Option<Child>,
}

impl Judge {
    /// Starts a judge in this folder, which is made. `more` is added to the configuration of Prometheus.
    pub fn start(kind: Kind, folder: &Path, more: &str) -> Result<Self, Lacking> {
        let program = find(kind)?;
        fs::create_dir_all(folder).expect("a folder for the judge");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address").to_string();
        drop(listener);
        let (folder, more) = (folder.to_owned(), more.to_owned());
        let mut judge = Judge { kind, program, folder, address, more, child: None };
        judge.again();
        Ok(judge)
    }

    /// Its address: `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where it takes remote write.
    pub fn write_url(&self) -> String {
        format!("http://{}/api/v1/write", self.address)
    }

    /// Starts it, on what it had, and waits until it answers.
    pub fn again(&mut self) {
        let mut command = Command::new(&self.program);
        match self.kind {
            Kind::Victoria => {
                command.arg(format!("-storageDataPath={}", self.folder.display()));
                command.arg(format!("-httpListenAddr={}", self.address));
                command.args([
                    "-retentionPeriod=100y",
                    "-search.latencyOffset=0",
                    "-dedup.minScrapeInterval=1ms",
                ]);
            }
            Kind::DebianPrometheus | Kind::Prometheus => {
                let config = self.folder.join("prometheus.yml");
                let text = format!(
                    "global: {{ scrape_interval: 1h }}\nstorage: {{ tsdb: {{ out_of_order_time_window: 1h }} }}\n{}",
                    self.more
                );
                fs::write(&config, text).expect("a configuration of Prometheus");
                command.arg(format!("--config.file={}", config.display()));
                command.arg(format!("--storage.tsdb.path={}", self.folder.join("data").display()));
                command.arg(format!("--web.listen-address={}", self.address));
                command.arg("--web.enable-remote-write-receiver");
            }
        }
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a file for what the judge says"));
        self.child = Some(command.spawn().expect("the judge starts"));
        let ready = if self.kind == Kind::Victoria { "/health" } else { "/-/ready" };
        let end = Instant::now() + PATIENCE;
        while self.get(ready).is_none() {
            let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "{:?} does not answer: {}", self.kind, log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it. VictoriaMetrics keeps the samples of the last seconds in memory only, although it has said that it has them: it
    /// is asked to end. Prometheus is killed.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if self.kind == Kind::Victoria {
            let pid = child.id().to_string();
            let _ = Command::new("kill").args(["-s", "TERM", &pid]).status();
        } else {
            let _ = child.kill();
        }
        let _ = child.wait();
    }

    /// The text at a path; `None`: it does not answer, or refuses.
    pub fn get(&self, path: &str) -> Option<String> {
        let config = ureq::Agent::config_builder().proxy(None).timeout_global(Some(PATIENCE)).build();
        let agent = ureq::Agent::new_with_config(config);
        let mut answer = agent.get(format!("http://{}{path}", self.address)).call().ok()?;
        answer.body_mut().with_config().limit(1 << 30).read_to_string().ok()
    }

    /// All samples of the series that this selector chooses, from this second to that one, without the markers of ends.
    pub fn samples(&self, selector: &str, (from, to): (u64, u64)) -> Samples {
        let selector = percent(selector);
        match self.kind {
            Kind::Victoria => {
                self.get("/internal/force_flush");
                let path = format!("/api/v1/export?match[]={selector}&start={from}&end={to}");
                let mut all = Samples::new();
                for line in self.get(&path).expect("an export").lines() {
                    let line: Value = serde_json::from_str(line).expect("a line of the export");
                    let times = line["timestamps"].as_array().into_iter().flatten();
                    let values = line["values"].as_array().into_iter().flatten();
                    let samples =
                        times.zip(values).filter_map(|(time, value)| Some((time.as_i64()?, value.as_f64()?)));
                    all.entry(line["metric"].to_string()).or_default().extend(samples);
                }
                all
            }
            Kind::DebianPrometheus | Kind::Prometheus => {
                // A range is open or closed on its left, as the version says: the time before `from` has no samples.
                let path = format!("/api/v1/query?query={selector}%5B{}s%5D&time={to}", to - from);
                let text = self.get(&path).expect("an answer");
                let answer: Value = serde_json::from_str(&text).expect("JSON");
                let series = answer["data"]["result"].as_array().expect("a matrix").iter();
                let samples = |series: &Value| {
                    let values = series["values"].as_array().into_iter().flatten();
                    let sample = |value: &Value| {
                        let time = (value[0].as_f64().expect("a time") * 1_000.0).round() as i64;
                        (time, value[1].as_str().and_then(|text| text.parse().ok()).expect("a value"))
                    };
                    values.map(sample).collect()
                };
                series.map(|series| (series["metric"].to_string(), samples(series))).collect()
            }
        }
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A text as a part of a URL.
fn percent(text: &str) -> String {
    let byte = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
