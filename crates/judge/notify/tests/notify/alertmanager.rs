//! Debian's Alertmanager as the judge: it gets, shows and resolves alerts, also after a restart in the middle.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use khz_notify::{AlertmanagerSettings, Notifier, Settings};

use super::*;

const PROGRAM: &str = "prometheus-alertmanager";

/// An Alertmanager that runs.
struct Running {
    child: Child,
    port: u16,
    prefix: &'static str,
}

impl Running {
    fn start(folder: &Path, port: u16, prefix: &'static str) -> Self {
        let config = folder.join("config.yml");
        std::fs::write(&config, "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n").unwrap();
        let child = Command::new(PROGRAM)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.path={}", folder.join(port.to_string()).display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg(format!("--web.route-prefix={prefix}/"))
            .arg("--cluster.listen-address=")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Running { child, port, prefix }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.prefix)
    }

    /// What it shows as active; `None`: it does not answer yet.
    fn alerts(&self) -> Option<String> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let request = format!("GET {}/api/v2/alerts HTTP/1.0\r\nHost: x\r\n\r\n", self.prefix);
        socket.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        socket.read_to_string(&mut text).ok()?;
        text.starts_with("HTTP/1.0 200").then_some(text)
    }

    fn shows(&self, what: &str, is_shown: bool) {
        until(&format!("{what} shown {is_shown}"), || {
            self.alerts().filter(|text| text.contains(what) == is_shown).map(|_| ())
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn is_missing() -> bool {
    let found = Command::new(PROGRAM).arg("--version").output().is_ok();
    if !found {
        khz_skip::skip("prometheus-alertmanager is not installed");
    }
    !found
}

fn told(all: &[&Running]) -> Settings {
    let way = |(number, running): (usize, &&Running)| AlertmanagerSettings {
        name: format!("am{number}"),
        server: plain(running.url()),
        resend: Duration::from_secs(1),
    };
    let labels = [("cluster".to_owned(), "khz-test".to_owned())].into();
    Settings { alertmanagers: all.iter().enumerate().map(way).collect(), labels, ..Settings::default() }
}

#[test]
fn two_alertmanagers_get_show_and_resolve_alerts_though_one_restarts_in_the_middle() {
    if is_missing() {
        return;
    }
    let folder = Folder::new();
    let one = Running::start(&folder.0, free_port(), "");
    let two = Running::start(&folder.0, free_port(), "/below/this");
    let notifier = Notifier::new(&told(&[&one, &two]), None).unwrap();
    let (first, second) = (alert("Down", "node-one"), alert("Down", "node-two"));
    // They may still be starting: nothing is lost.
    notifier.tell(&[first.clone(), second.clone()]);
    for running in [&one, &two] {
        running.shows("node-one", true);
        running.shows("node-two", true);
        running.shows("khz-test", true);
    }
    let (port, prefix) = (two.port, two.prefix);
    drop(two);
    notifier.tell(&[resolved(&first), second.clone()]);
    one.shows("node-one", false);
    // It has forgotten everything, and hears again of what fires.
    std::fs::remove_dir_all(folder.0.join(port.to_string())).unwrap();
    let two = Running::start(&folder.0, port, prefix);
    two.shows("node-two", true);
    two.shows("node-one", false);
    notifier.tell(&[resolved(&second)]);
    for running in [&one, &two] {
        running.shows("node-two", false);
    }
}

#[test]
fn a_storm_of_4096_alerts_reaches_an_alertmanager() {
    if is_missing() {
        return;
    }
    let folder = Folder::new();
    let one = Running::start(&folder.0, free_port(), "");
    let notifier = Notifier::new(&told(&[&one]), None).unwrap();
    let storm: Vec<Alert> = (0..4_096).map(|number| alert("Down", &format!("n{number:04}"))).collect();
    notifier.tell(&storm);
    until("all are shown", || {
        one.alerts().filter(|text| text.matches("\"fingerprint\"").count() == 4_096).map(|_| ())
    });
    assert_eq!(count(&notifier, |counts| &counts.dropped), 0);
}

#[test]
fn what_an_alertmanager_refuses_is_counted() {
    if is_missing() {
        return;
    }
    let folder = Folder::new();
    let one = Running::start(&folder.0, free_port(), "");
    until("it answers", || one.alerts());
    let notifier = Notifier::new(&told(&[&one]), None).unwrap();
    let mut wrong = alert("Down", "n1");
    wrong.labels.insert("not a name".into(), "x".into());
    notifier.tell(&[wrong]);
    until("it is refused", || (count(&notifier, |counts| &counts.refused) > 0).then_some(()));
    let problem = notifier.ways()[0].standing.problem.clone().unwrap();
    assert!(problem.starts_with("status 400"), "{problem}");
}

#[test]
fn an_alert_that_an_alertmanager_refuses_is_refused_alone() {
    if is_missing() {
        return;
    }
    let folder = Folder::new();
    let one = Running::start(&folder.0, free_port(), "");
    until("it answers", || one.alerts());
    let notifier = Notifier::new(&told(&[&one]), None).unwrap();
    let mut alerts: Vec<Alert> = (0..40).map(|number| alert("Down", &format!("n{number:02}"))).collect();
    alerts[17].labels.insert("not a name".into(), "x".into());
    notifier.tell(&alerts);
    until("the others are taken", || (count(&notifier, |counts| &counts.sent) == 39).then_some(()));
    until("one is refused", || (count(&notifier, |counts| &counts.refused) == 1).then_some(()));
    let shown = one.alerts().unwrap();
    assert_eq!(shown.matches("\"fingerprint\"").count(), 39);
    let problem = notifier.ways()[0].standing.problem.clone();
    assert!(problem.is_some_and(|problem| problem.starts_with("status 400")), "the problem lasts");
}
