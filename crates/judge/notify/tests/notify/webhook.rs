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
    until("it is kept", || std::fs::read_to_string(&file).ok().filter(|text| !text.contains("n1")));
    drop(notifier);
    std::fs::write(
        &file,
        "{\"way\":\"hook\",\"labels\":{\"alertname\":\"Old\"},\"starts_at\":1,\"told_at\":1}\nrubbish\n",
    )
    .unwrap();
    // What the whole lines say holds at each later start, too.
    drop(open());
    assert!(folder.0.join("notify.jsonl.damaged").exists());
    let notifier = open();
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
fn the_messages_of_an_hour_are_counted_over_restarts() {
    let folder = Folder::new();
    let (url, bodies) = start(Vec::new());
    let pace = Pace { per_hour: 1, ..at_once() };
    let settings = hook(url, pace);
    for number in 0..2 {
        let notifier = until("the lock is free", || Notifier::new(&settings, Some(&folder.0)).ok());
        notifier.tell(&[alert(&format!("A{number}"), "n1")]);
        assert_eq!(body(&bodies.recv_timeout(WAIT).unwrap())["status"], "firing");
        until("it is taken", || (count(&notifier, |counts| &counts.requests) == 1).then_some(()));
    }
    let file = || std::fs::read_to_string(folder.0.join("notify.jsonl")).unwrap_or_default();
    until("the first one and a summary are counted", || file().contains("\"messages\":2").then_some(()));
}

#[test]
fn a_receiver_that_reads_an_alert_and_never_answers_is_told_its_end() {
    let (url, bodies) = start(vec![Manner::Swallow]);
    let notifier = Notifier::new(&hook(url, at_once()), None).unwrap();
    let down = alert("Down", "n1");
    notifier.tell(std::slice::from_ref(&down));
    assert_eq!(body(&bodies.recv_timeout(WAIT).unwrap())["status"], "firing");
    // It waits for the answer, which will not come.
    notifier.tell(&[resolved(&down)]);
    until("its end is told", || {
        (body(&bodies.recv_timeout(WAIT).unwrap())["status"] == "resolved").then_some(())
    });
    until("all is told", || (count(&notifier, |counts| &counts.waiting) == 0).then_some(()));
}

#[test]
fn what_was_on_its_way_when_the_sender_was_killed_is_told_to_be_over() {
    let (url, bodies) = start(vec![Manner::Swallow]);
    let (folder, later) = (Folder::new(), Folder::new());
    let mut settings = hook(url, at_once());
    settings.webhooks[0].server.timeout = WAIT;
    let killed = Notifier::new(&settings, Some(&folder.0)).unwrap();
    let down = alert("Down", "n1");
    killed.tell(std::slice::from_ref(&down));
    assert_eq!(body(&bodies.recv_timeout(WAIT).unwrap())["status"], "firing");
    // As a process leaves it that is killed now.
    std::fs::copy(folder.0.join("notify.jsonl"), later.0.join("notify.jsonl")).unwrap();
    let notifier = Notifier::new(&settings, Some(&later.0)).unwrap();
    notifier.tell(&[resolved(&down)]);
    let next = body(&bodies.recv_timeout(WAIT).unwrap());
    assert_eq!((&next["status"], &next["alerts"][0]["labels"]["node"]), (&"resolved".into(), &"n1".into()));
    let kept = || std::fs::read_to_string(later.0.join("notify.jsonl")).ok();
    until("nothing is left to be told", || kept().filter(|text| !text.contains("n1")));
}

#[test]
fn the_status_suffices_though_the_text_has_no_end() {
    let (url, bodies) = start(vec![Manner::DripText; 2]);
    let mut settings = hook(url, at_once());
    // The status has time on a busy machine; the text goes on for longer than any time.
    settings.webhooks[0].server.timeout = Duration::from_secs(5);
    let notifier = Notifier::new(&settings, None).unwrap();
    let down = alert("Down", "n1");
    notifier.tell(std::slice::from_ref(&down));
    until("it is taken", || (count(&notifier, |counts| &counts.requests) == 1).then_some(()));
    notifier.tell(&[resolved(&down)]);
    until("its end is taken", || (count(&notifier, |counts| &counts.requests) == 2).then_some(()));
    let told = bodies.try_iter().map(|request| body(&request)["status"].clone()).collect::<Vec<_>>();
    assert_eq!(
        (told, count(&notifier, |counts| &counts.failed)),
        (vec!["firing".into(), "resolved".into()], 0)
    );
}

#[test]
fn a_server_that_quotes_what_it_was_shown_brings_no_secret_into_the_log() {
    let folder = Folder::new();
    let secret = "SECRET/pass+w0rd";
    let file = folder.file("password", secret, 0o600);
    let (url, _bodies) = start(vec![Manner::Quote(403); 2]);
    let mut settings = hook(format!("{url}/hook?token=SECRETQUERY"), at_once());
    settings.webhooks[0].server.login = Login::Basic("amuser".into(), file);
    settings.webhooks[0].server.headers = vec![("X-API-Key".into(), "k3y-of-an-api".into())];
    let check = |said: &str| {
        assert!(said.contains("status 403: POST /hook?(a secret)"), "{said}");
        // base64 of `amuser:` and the password begins with YW11c2Vy.
        for part in ["SECRET", "w0rd", "of-an-api", "YW11c2Vy"] {
            assert!(!said.contains(part), "{part}: {said}");
        }
    };
    check(khz_notify::try_out(&settings, None, &alert("Down", "n1")).unwrap()[0].1.text());
    let notifier = Notifier::new(&settings, None).unwrap();
    notifier.tell(&[alert("Down", "n1")]);
    until("it is refused", || (count(&notifier, |counts| &counts.refused) == 1).then_some(()));
    check(notifier.ways()[0].standing.problem.as_ref().unwrap());
}

#[test]
fn an_alert_that_is_too_large_is_cut_and_told_and_one_whose_labels_are_is_counted_once() {
    let (url, bodies) = start(Vec::new());
    let notifier = Notifier::new(&hook(url, at_once()), None).unwrap();
    let (mut large, mut labels) = (alert("Large", "n1"), alert("Labels", "n1"));
    large.annotations.insert("text".into(), "x".repeat(1 << 20));
    labels.labels.insert("text".into(), "x".repeat(1 << 20));
    notifier.tell(&[large.clone(), labels.clone()]);
    let sent = body(&bodies.recv_timeout(WAIT).unwrap());
    assert_eq!(sent["alerts"][0]["annotations"]["summary"], large.annotations["summary"].as_str());
    let text = sent["alerts"][0]["annotations"]["text"].as_str().unwrap();
    assert!(text.ends_with(" bytes)") && text.contains("xx (cut: "), "{}", text.len());
    assert_eq!(count(&notifier, |counts| &counts.dropped), 1);
    notifier.tell(&[large.clone(), labels.clone()]);
    notifier.tell(&[resolved(&large), labels]);
    let sent = body(&bodies.recv_timeout(WAIT).unwrap());
    assert_eq!((&sent["status"], &sent["groupLabels"]["alertname"]), (&"resolved".into(), &"Large".into()));
    assert_eq!(count(&notifier, |counts| &counts.dropped), 1, "it is counted once, not in each pass");
}

#[test]
fn a_secret_in_place_of_its_files_name_is_not_shown() {
    for secret in ["SECRET", "/SECRET", "SEC/RET", "/SEC/RET"] {
        let mut settings = hook("http://127.0.0.1:1".into(), at_once());
        settings.webhooks[0].server.login = Login::Basic("amuser".into(), secret.into());
        let problem = Notifier::new(&settings, None).err().unwrap().to_string();
        assert!(problem.starts_with("notify 'hook': password names no file"), "{problem}");
        assert!(!problem.contains("SEC") && !problem.contains("RET"), "{problem}");
    }
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
