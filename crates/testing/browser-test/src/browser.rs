//! A headless Chromium with its own profile, driven over WebDriver. It reaches nothing beyond loopback: everything in it
//! that calls home is switched off.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::Stdio;

use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::PATIENCE;
use crate::left_over::end_browsers;
use crate::time_zone::{NOON, where_it_is};

/// Flags of every run. There is no sandbox: Chromium's does not work for root, nor in a container.
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

/// The kernel's clock ticks a second in `/proc/PID/stat`. The kernel's interface fixes this number.
pub(crate) const TICKS_PER_SECOND: f64 = 100.0;

/// The theme that the system prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// `prefers-color-scheme: light`
    Light,
    /// `prefers-color-scheme: dark`
    Dark,
}

impl Theme {
    /// "light" or "dark".
    pub const fn as_str(self) -> &'static str {
        match self {
            Theme::Light => "light",
            Theme::Dark => "dark",
        }
    }
}

/// A running browser; [`Browser::close`] ends it and removes its profile.
pub struct Browser {
    /// The WebDriver session.
    pub client: Client,
    driver: Child,
    profile: PathBuf,
}

impl Browser {
    /// Starts chromedriver (`CHROMEDRIVER`, or the one in the path), which starts Chromium. It is noon there.
    pub async fn start() -> Self {
        Browser::start_at(NOON).await
    }

    /// The same, where it is this hour.
    pub async fn start_at(hour: u64) -> Self {
        let (driver, port) = start_driver(&where_it_is(hour)).await;
        let profile = std::env::temp_dir().join(format!("khz-browser-{}-{port}", std::process::id()));
        let mut flags: Vec<String> = FLAGS.iter().map(|flag| flag.to_string()).collect();
        flags.push(format!("--user-data-dir={}", profile.display()));
        let mut capabilities = Capabilities::new();
        capabilities.insert("goog:chromeOptions".into(), json!({ "args": flags }));
        capabilities.insert("goog:loggingPrefs".into(), json!({ "browser": "ALL" }));
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .unwrap_or_else(|error| panic!("chromedriver cannot start Chromium: {error}"));
        Browser { client, driver, profile }
    }

    /// Sets the size of the page in CSS pixels, and the theme that the system prefers.
    pub async fn look(&self, width: u32, height: u32, theme: Theme) {
        let phone = width < 600;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone });
        self.cdp("Emulation.setDeviceMetricsOverride", size).await;
        self.cdp("Emulation.setTouchEmulationEnabled", json!({ "enabled": phone })).await;
        let features = json!([{ "name": "prefers-color-scheme", "value": theme.as_str() }]);
        self.cdp("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// Slows the network down from now on: bytes a second each way, and milliseconds of a round trip.
    pub async fn slow_line(&self, (bytes_a_second, latency): (u32, u32)) {
        self.cdp("Network.enable", json!({})).await;
        let line = json!({
            "offline": false, "latency": latency, "downloadThroughput": bytes_a_second,
            "uploadThroughput": bytes_a_second,
        });
        self.cdp("Network.emulateNetworkConditions", line).await;
    }

    /// One command of Chromium's own protocol.
    pub async fn cdp(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.issue("goog/cdp/execute", body).await
    }

    /// The errors and warnings on the console since the last call.
    pub async fn console_errors(&self) -> Vec<String> {
        let entries = self.issue("se/log", json!({ "type": "browser" })).await;
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries
            .iter()
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING")
            .map(|entry| format!("{}: {}", entry["level"], entry["message"]))
            .collect()
    }

    /// CPU seconds of all processes of this browser, without chromedriver.
    pub fn cpu_seconds(&self) -> f64 {
        let driver = self.driver.id().expect("chromedriver runs");
        processes_below(driver).values().sum::<u64>() as f64 / TICKS_PER_SECOND
    }

    /// Ends the session and the browser, and removes the profile.
    pub async fn close(mut self) {
        let closed = self.client.close().await;
        let ended = self.driver.kill().await;
        // Chromium's last child may still write there. Then some files stay in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.profile);
        closed.expect("the browser closes");
        ended.expect("chromedriver ends");
    }

    async fn issue(&self, path: &'static str, body: Value) -> Value {
        let command = Extension { path, body };
        self.client.issue_cmd(command).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

/// A command that chromedriver has and WebDriver has not.
#[derive(Debug)]
struct Extension {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extension {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}

/// Starts chromedriver in this time zone; it chooses a port. It takes a free port of IPv4 and needs the same port of IPv6. If another
/// test has just taken that one, chromedriver ends; so there are several attempts.
async fn start_driver(time_zone: &str) -> (Child, u16) {
    const ATTEMPTS: u32 = 5;
    end_browsers();
    let program = std::env::var("CHROMEDRIVER").unwrap_or_else(|_| "chromedriver".into());
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        let mut driver = Command::new(&program)
            .arg("--port=0")
            .env("TZ", time_zone)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{program}: {error}; Debian has it in the packages chromium and chromium-driver")
            });
        match port_of(&mut driver).await {
            Ok(port) => return (driver, port),
            Err(output) => said = output,
        }
    }
    panic!("{program} did not start in {ATTEMPTS} attempts; the last output was:\n{said}");
}

/// The port that chromedriver prints: "ChromeDriver was started successfully on port 41523". Without that line: its whole
/// output.
async fn port_of(driver: &mut Child) -> Result<u16, String> {
    let stdout = driver.stdout.take().expect("BUG: stdout was asked to be piped");
    let mut lines = BufReader::new(stdout).lines();
    let mut said = String::new();
    let port = async {
        while let Ok(Some(line)) = lines.next_line().await {
            let port = line.split_once(" successfully on port ").map(|(_, rest)| rest.trim_end_matches('.'));
            if let Some(port) = port.and_then(|digits| digits.parse().ok()) {
                return Some(port);
            }
            said += &line;
            said.push('\n');
        }
        None
    };
    let port = tokio::time::timeout(PATIENCE, port).await.ok().flatten();
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    port.ok_or(said)
}

/// Every process below `ancestor`, with its ticks of user and system time, and those of its ended children.
fn processes_below(ancestor: u32) -> HashMap<u32, u64> {
    let mut all = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(found) = parent_and_ticks(&stat) {
            all.insert(pid, found);
        }
    }
    let mut family = HashSet::from([ancestor]);
    loop {
        let kin = |(pid, (parent, _)): (&u32, &(u32, u64))| {
            (family.contains(parent) && !family.contains(pid)).then_some(*pid)
        };
        let found: Vec<u32> = all.iter().filter_map(kin).collect();
        if found.is_empty() {
            break;
        }
        family.extend(found);
    }
    family.remove(&ancestor);
    family.iter().filter_map(|pid| all.get(pid).map(|(_, ticks)| (*pid, *ticks))).collect()
}

/// Fields 4 and 14 to 17 of `/proc/PID/stat`. The name in parentheses may contain parentheses and spaces.
fn parent_and_ticks(stat: &str) -> Option<(u32, u64)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some((fields.get(1)?.parse().ok()?, ticks))
}

/// The ticks of a process or thread, from its `stat`.
pub(crate) fn ticks(stat: &str) -> Option<u64> {
    parent_and_ticks(stat).map(|(_, ticks)| ticks)
}

#[cfg(test)]
mod tests {
    use super::parent_and_ticks;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b (c)) S 3 7 7 0 -1 4194304 1 2 3 4 50 6 7 1 20 0 1 0 99 0";
        assert_eq!(parent_and_ticks(stat), Some((3, 64)));
        assert_eq!(parent_and_ticks("7 (cut"), None);
    }
}
