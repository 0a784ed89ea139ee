//! A headless Firefox with its own profile, driven over Marionette: Firefox's own protocol of commands in JSON, which geckodriver
//! speaks too, and Debian has no geckodriver. It reaches nothing beyond loopback. It knows nothing of the page.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::PATIENCE;
use crate::browser::Theme;
use crate::time_zone::{NOON, where_it_is};

/// Pause between two checks.
const CHECK_AGAIN: Duration = Duration::from_millis(50);
/// The longest answer: a screenshot of a large window.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Digits of the length before an answer.
const LENGTH_DIGITS_MAX: usize = 8;

/// What pages write on the console, in the folder of the profile.
const SAID: &str = "said.txt";

/// What Firefox says of itself, since its server for experiments cannot be reached.
const OWN: &str = "RSLoader:";

/// Marionette chooses a port; nothing calls home; the page may measure time and is no tab of many. Firefox ends the process of a page
/// that is left and not kept for the way back. If a script of the page runs just then, Firefox aborts it, and says that it was
/// "terminated by timeout", as of a script that hangs. So no script is aborted here: what is still said of a timeout is then true.
const PREFERENCES: &str = r#"
user_pref("marionette.port", 0);
user_pref("app.update.enabled", false);
user_pref("app.normandy.enabled", false);
user_pref("browser.safebrowsing.malware.enabled", false);
user_pref("browser.safebrowsing.phishing.enabled", false);
user_pref("browser.safebrowsing.downloads.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.page", 0);
user_pref("browser.startup.homepage_override.mstone", "ignore");
user_pref("browser.topsites.contile.enabled", false);
user_pref("browser.newtabpage.enabled", false);
user_pref("browser.region.update.enabled", false);
user_pref("browser.search.update", false);
user_pref("captivedetect.canonicalURL", "");
user_pref("datareporting.healthreport.uploadEnabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("devtools.console.stdout.chrome", false);
user_pref("devtools.console.stdout.content", true);
user_pref("dom.abort_script_on_child_shutdown", false);
user_pref("dom.push.connection.enabled", false);
user_pref("extensions.getAddons.cache.enabled", false);
user_pref("extensions.systemAddon.update.enabled", false);
user_pref("extensions.update.enabled", false);
user_pref("geo.provider.testing", true);
user_pref("media.gmp-manager.updateEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.dns.disablePrefetch", true);
user_pref("network.prefetch-next", false);
user_pref("network.proxy.type", 0);
user_pref("services.settings.server", "data:,");
user_pref("toolkit.telemetry.enabled", false);
user_pref("toolkit.telemetry.server", "data:,");
user_pref("security.remote_settings.crlite_filters.enabled", false);
user_pref("signon.autofillForms", false);
"#;

/// The program: `FIREFOX`, or the first of these in the path.
const PROGRAMS: [&str; 2] = ["firefox-esr", "firefox"];

/// The program, if this machine has it.
pub fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FIREFOX") {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    PROGRAMS
        .iter()
        .find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()))
}

/// A running Firefox; [`Firefox::close`] ends it and removes its profile.
pub struct Firefox {
    child: Child,
    profile: PathBuf,
    stream: TcpStream,
    number: u64,
    /// Bytes of the file of what pages said that were read.
    heard: usize,
}

impl Firefox {
    /// Starts the program, and a session.
    pub async fn start(program: &Path) -> Self {
        let profile = std::env::temp_dir().join(format!("khz-firefox-{}-{}", std::process::id(), nanos()));
        std::fs::create_dir_all(&profile).expect("a folder for the profile");
        std::fs::write(profile.join("user.js"), PREFERENCES).expect("the preferences");
        let child = Command::new(program)
            .args([
                "--headless",
                "--marionette",
                "--remote-allow-system-access",
                "--no-remote",
                "--new-instance",
                "--profile",
            ])
            .arg(&profile)
            .env("TZ", where_it_is(NOON))
            .env("MOZ_HEADLESS", "1")
            .env("MOZ_CRASHREPORTER_DISABLE", "1")
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(profile.join(SAID)).expect("a file for what is said"))
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let stream = connected(&profile).await;
        let mut firefox = Firefox { child, profile, stream, number: 0, heard: 0 };
        let greeting = firefox.read().await;
        assert_eq!(greeting["marionetteProtocol"], 3, "{greeting}");
        firefox.command("WebDriver:NewSession", json!({})).await;
        firefox
    }

    /// Sets the size of the page, and the theme that the system prefers.
    pub async fn look(&mut self, width: u32, height: u32, theme: Theme) {
        // 0 is dark, 1 is light.
        let wanted = if theme == Theme::Dark { 0 } else { 1 };
        let script = format!(
            "Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', {wanted}); return true;"
        );
        self.chrome(&script).await;
        self.command("WebDriver:SetWindowRect", json!({ "width": width, "height": height })).await;
    }

    /// Opens an address, even if only its fragment differs.
    pub async fn open(&mut self, url: &str) {
        for url in ["about:blank", url] {
            self.command("WebDriver:Navigate", json!({ "url": url })).await;
        }
    }

    /// The value of an expression on the page.
    pub async fn eval(&mut self, expression: &str) -> Value {
        let script = json!({ "script": format!("return ({expression});"), "args": [], "sandbox": null });
        self.command("WebDriver:ExecuteScript", script).await["value"].take()
    }

    /// Waits until `condition` holds.
    pub async fn wait(&mut self, what: &str, condition: &str) {
        let start = Instant::now();
        while self.eval(&format!("!!({condition})")).await != Value::Bool(true) {
            let waited = start.elapsed();
            assert!(waited < PATIENCE, "waited in vain until {what} ({condition})");
            tokio::time::sleep(CHECK_AGAIN).await;
        }
    }

    /// The errors and warnings of the page since the last call: of scripts, and what was written on the console.
    pub async fn console_errors(&mut self) -> Vec<String> {
        let said = std::fs::read(self.profile.join(SAID)).unwrap_or_default();
        let new = String::from_utf8_lossy(&said[self.heard.min(said.len())..]).into_owned();
        self.heard = said.len();
        let is_wrong = |line: &&str| {
            ["console.error:", "console.warn:", "console.assert:"].iter().any(|level| line.starts_with(level))
                && !line.contains(OWN)
        };
        let mut errors: Vec<String> = new.lines().filter(is_wrong).map(str::to_owned).collect();
        let script = "
            const thrown = Services.console.getMessageArray()
                .filter((message) => message instanceof Ci.nsIScriptError && /^http/.test(message.sourceName) && !(message.flags & Ci.nsIScriptError.infoFlag))
                .map((error) => `${error.sourceName}:${error.lineNumber}: ${error.errorMessage}`);
            Services.console.reset();
            return thrown;";
        let thrown: Vec<String> =
            serde_json::from_value(self.chrome(script).await).expect("a list of errors");
        errors.extend(thrown);
        errors
    }

    /// Saves what is seen as a PNG file.
    pub async fn screenshot(&mut self, path: &Path) {
        let taken = self.command("WebDriver:TakeScreenshot", json!({ "full": false })).await;
        let png = crate::base64::decoded(taken["value"].as_str().unwrap_or_default());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        }
        std::fs::write(path, png).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Ends the browser, and removes the profile.
    pub async fn close(mut self) {
        self.send("Marionette:Quit", json!({ "flags": ["eForceQuit"] })).await;
        if tokio::time::timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.child.kill().await.expect("Firefox ends");
        }
        // Its last process may still write there. Then some files stay in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.profile);
    }

    /// Runs a script with the rights of the browser.
    async fn chrome(&mut self, script: &str) -> Value {
        self.command("Marionette:SetContext", json!({ "value": "chrome" })).await;
        let mut answer =
            self.command("WebDriver:ExecuteScript", json!({ "script": script, "args": [] })).await;
        self.command("Marionette:SetContext", json!({ "value": "content" })).await;
        answer["value"].take()
    }

    async fn command(&mut self, name: &str, parameters: Value) -> Value {
        let number = self.send(name, parameters).await;
        let mut answer = self.read().await;
        // [1, number, error, result]
        assert_eq!(answer[1], number, "{name}: the answer is to another command: {answer}");
        assert!(answer[2].is_null(), "{name}: {}", answer[2]);
        answer[3].take()
    }

    async fn send(&mut self, name: &str, parameters: Value) -> u64 {
        self.number += 1;
        let text = json!([0, self.number, name, parameters]).to_string();
        let message = format!("{}:{text}", text.len());
        self.stream.write_all(message.as_bytes()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        self.number
    }

    /// One message: its length in decimal digits, a colon, and JSON.
    async fn read(&mut self) -> Value {
        let reading = async {
            let mut digits = String::new();
            loop {
                let byte = self.stream.read_u8().await.expect("Firefox answers");
                if byte == b':' {
                    break;
                }
                digits.push(char::from(byte));
                assert!(digits.len() <= LENGTH_DIGITS_MAX, "no length: {digits}");
            }
            let length: usize = digits.parse().unwrap_or_else(|error| panic!("{digits}: {error}"));
            assert!(length <= ANSWER_BYTES_MAX, "an answer of {length} bytes");
            let mut text = vec![0; length];
            self.stream.read_exact(&mut text).await.expect("Firefox answers");
            serde_json::from_slice(&text).expect("Firefox answers in JSON")
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("Firefox answers in time")
    }
}

/// Connects when Firefox has written down its port.
async fn connected(profile: &Path) -> TcpStream {
    let start = Instant::now();
    loop {
        let port = std::fs::read_to_string(profile.join("MarionetteActivePort")).ok();
        let port = port.and_then(|text| text.trim().parse::<u16>().ok());
        if let Some(port) = port
            && let Ok(stream) = TcpStream::connect(("127.0.0.1", port)).await
        {
            return stream;
        }
        assert!(start.elapsed() < PATIENCE * 2, "Firefox has opened no port of Marionette");
        tokio::time::sleep(CHECK_AGAIN).await;
    }
}

/// Two browsers of one test have profiles of their own.
fn nanos() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos())
}
