//! The ways to people from outside: a real Alertmanager, servers that misbehave, programs that do.

#![allow(clippy::unwrap_used)]

mod alertmanager;
mod email;
mod exec;
mod server;
mod webhook;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use khz_ask::{ForeignServer, Login};
use khz_notify::{Alert, Notifier, Pace};

/// A folder of a test, which is removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("khz-notify-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn alert(name: &str, node: &str) -> Alert {
    let labels = [("alertname", name), ("node", node)];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let annotations = [("summary".to_owned(), format!("{node} has a problem: \u{20ac}\n.\nQUIT"))].into();
    Alert { labels, annotations, starts_at: now(), ..Alert::default() }
}

fn resolved(alert: &Alert) -> Alert {
    Alert { ends_at: Some(now()), ..alert.clone() }
}

fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64
}

fn plain(url: String) -> ForeignServer {
    let timeout = Duration::from_secs(1);
    ForeignServer { url, timeout, login: Login::Nothing, headers: Vec::new(), files: None }
}

/// Messages without waiting for others.
fn at_once() -> Pace {
    Pace { wait: 0, ..Pace::default() }
}

/// Waits until something is so.
fn until<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = is_so() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "{what} has not happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A count of the first way.
fn count(
    notifier: &Notifier,
    of: impl Fn(&khz_notify::Counts) -> &std::sync::Arc<std::sync::atomic::AtomicU64>,
) -> u64 {
    of(&notifier.ways()[0].counts).load(Ordering::Relaxed)
}
