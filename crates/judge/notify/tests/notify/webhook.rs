//! A webhook behind a receiver that is slow, hangs, redirects, refuses, or closes early.

use std::time::Duration;

use khz_ask::Login;
use khz_notify::{Notifier, Settings, WebhookSettings};

use super::server::{Manner, start};
use super::*;

const WAIT: Duration = Duration::from_secs(120);

fn hook(url: String, pace: Pace) -> Settings {
    let webhooks = vec![WebhookSettings { name: "hook".into(), server: plain(url), pace }];
    let labels = [("cluster".to_owned(), "a".to_owned())].into();
    Settings { webhooks, labels, ..Settings::default() }
}

fn body(request: &str) -> serde_json::Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn a_receiver_that_fails_in_every_way_gets_the_alert_in_the_end_and_its_resolution() {
    let manners = vec![Manner::Status(500), Manner::Hang, Manner::Close, Manner::Drip, Manner::Status(429)];
    let (url, bodies) = start(manners);
    let folder = Folder::new();
    let mut settings = hook(url, at_once());
    settings.webhooks[0].server.login = Login::Bearer(folder.file("token", "t0k", 0o600));
    let notifier = Notifier::new(&settings, None).unwrap();
    let down = alert("Down", "n1");
    notifier.tell(std::slice::from_ref(&down));
    let request = bodies.recv_timeout(WAIT).unwrap();
    assert!(request.contains("Bearer t0k"), "{request}");
    let sent = body(&request);
    assert_eq!((&sent["version"], &sent["status"]), (&"4".into(), &"firing".into()));
    assert_eq!(sent["commonLabels"]["cluster"], "a");
    assert_eq!(sent["alerts"][0]["annotations"]["summary"], down.annotations["summary"].as_str());
    assert_eq!(count(&notifier, |counts| &counts.failed), 5);
    until("the answer is counted", || (count(&notifier, |counts| &counts.requests) == 1).then_some(()));
    notifier.tell(&[resolved(&down)]);
    assert_eq!(body(&bodies.recv_timeout(WAIT).unwrap())["alerts"][0]["status"], "resolved");
    until("all is told", || (count(&notifier, |counts| &counts.waiting) == 0).then_some(()));
}

#[test]
fn what_a_receiver_refuses_is_counted_and_not_sent_again_and_a_redirection_is_not_followed() {
    for (manner, said) in [(Manner::Status(400), "status 400: why"), (Manner::Redirect, "it redirects")] {
        let (url, bodies) = start(vec![manner]);
        let notifier = Notifier::new(&hook(url, at_once()), None).unwrap();
        notifier.tell(&[alert("Down", "n1")]);
        until("it is refused", || (count(&notifier, |counts| &counts.refused) == 1).then_some(()));
        notifier.tell(&[alert("Up", "n1")]);
        let next = body(&bodies.recv_timeout(WAIT).unwrap());
        assert_eq!(next["groupLabels"]["alertname"], "Up", "the refused one does not come again");
        let standing = &notifier.ways()[0].standing;
        assert!(count(&notifier, |counts| &counts.failed) == 0, "{standing:?} {said}");
    }
}

#[test]
fn what_people_were_told_survives_a_restart_and_a_damaged_file_is_put_aside() {
    let folder = Folder::new();
    let (url, bodies) = start(Vec::new());
    let settings = hook(url, at_once());
    let down = alert("Down", "n1");
    let notifier = Notifier::new(&settings, Some(&folder.0)).unwrap();
    notifier.tell(std::slice::from_ref(&down));
    assert_eq!(body(&bodies.recv_timeout(WAIT).unwrap())["status"], "firing");
    let file = folder.0.join("notify.jsonl");
    until("it is kept", || std::fs::read_to_string(&file).ok().filter(|text| text.contains("n1")));
    drop(notifier);
    let open = || until("the lock is free", || Notifier::new(&settings, Some(&folder.0)).ok());
    let notifier = open();
    notifier.tell(std::slice::from_ref(&down));
    notifier.tell(&[resolved(&down)]);
    let next = body(&bodies.recv_timeout(WAIT).unwrap());
    assert_eq!((&next["status"], &next["alerts"][0]["labels"]["node"]), (&"resolved".into(), &"n1".into()));
    until("it is kept", || std::fs::read_to_string(&file).ok().filter(String::is_empty));
    drop(notifier);
    std::fs::write(
        &file,
        "{\"way\":\"hook\",\"labels\":{\"alertname\":\"Old\"},\"starts_at\":1,\"told_at\":1}\nrubbish\n",
    )
    .unwrap();
    let notifier = open();
    assert!(folder.0.join("notify.jsonl.damaged").exists());
    let old = khz_notify::Alert {
        labels: [("alertname".to_owned(), "Old".to_owned())].into(),
        ends_at: Some(now()),
        ..alert("Old", "n1")
    };
    notifier.tell(&[old]);
    // People were reminded of it, since that was long ago, or told its end.
    until("its end is told", || {
        (body(&bodies.recv_timeout(WAIT).unwrap())["status"] == "resolved").then_some(())
    });
}

#[test]
fn an_alert_that_is_too_large_is_dropped_and_counted_and_the_others_go() {
    let (url, bodies) = start(Vec::new());
    let notifier = Notifier::new(&hook(url, at_once()), None).unwrap();
    let mut large = alert("Large", "n1");
    large.annotations.insert("text".into(), "x".repeat(1 << 20));
    notifier.tell(&[large, alert("Down", "n1")]);
    assert_eq!(body(&bodies.recv_timeout(WAIT).unwrap())["groupLabels"]["alertname"], "Down");
    assert_eq!(count(&notifier, |counts| &counts.dropped), 1);
}

#[test]
fn a_secret_that_others_may_read_is_refused_and_so_are_two_ways_of_one_name() {
    let folder = Folder::new();
    let mut settings = hook("http://127.0.0.1:1".into(), at_once());
    settings.webhooks[0].server.login = Login::Bearer(folder.file("token", "t0k", 0o644));
    let problem = Notifier::new(&settings, None).err().unwrap().to_string();
    assert!(problem.starts_with("notify 'hook': ") && problem.contains("token"), "{problem}");
    settings.webhooks[0].server.login = Login::Nothing;
    settings.webhooks.push(settings.webhooks[0].clone());
    let problem = Notifier::new(&settings, None).err().unwrap().to_string();
    assert_eq!(problem, "two ways are called 'hook': give one of them another name");
}
