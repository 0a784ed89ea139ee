//! A hub whose nodes come from a text door: a played one, which says what a test tells it to.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "other tests need more of it")]
mod fake;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use fake::until;
use khz_hub::{Cluster, HubQuery, Settings, TextAddress, TextSource};
use khz_model::{ByteSize, Nanos, Pattern, Query, Rate};

/// What it answers to what it is asked; to anything else it says nothing.
type Answers = Arc<Mutex<Vec<(&'static str, String)>>>;

/// A text door that serves one connection after the other; gives its port, and what it was asked.
fn door(answers: Answers) -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, asked) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(String::new())));
    let heard = asked.clone();
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let _ = serve(socket, &answers, &heard);
        }
    });
    (port, asked)
}

fn serve(mut socket: TcpStream, answers: &Answers, heard: &Mutex<String>) -> std::io::Result<()> {
    let (mut room, mut text) = ([0; 1_024], String::new());
    loop {
        match socket.read(&mut room)? {
            0 => return Ok(()),
            read => text.push_str(&String::from_utf8_lossy(&room[..read])),
        }
        // The questions in the order in which they stand there; what means nothing here is passed over.
        loop {
            let answers = answers.lock().unwrap();
            let found = answers.iter().filter_map(|one| Some((text.find(one.0)?, one)));
            let Some((at, (question, answer))) = found.min_by_key(|(at, _)| *at) else { break };
            heard.lock().unwrap().push_str(question);
            text.drain(..at + question.len());
            socket.write_all(answer.as_bytes())?;
        }
    }
}

fn answers(all: &[(&'static str, &str)]) -> Answers {
    Arc::new(Mutex::new(all.iter().map(|&(question, answer)| (question, answer.to_owned())).collect()))
}

fn set(answers: &Answers, question: &str, answer: &str) {
    let mut answers = answers.lock().unwrap();
    answers.iter_mut().find(|(known, _)| *known == question).unwrap().1 = answer.to_owned();
}

/// A hub that asks the door at this port.
fn hub(port: u16) -> (HubQuery, TextSource) {
    let settings = Settings {
        name: "above".into(),
        history: ByteSize(1 << 20),
        rate_max: Rate::from_hz(1_000).unwrap(),
    };
    let cluster = Cluster::new(settings, [7; 16]);
    let address = TextAddress { host: "127.0.0.1".into(), port, tls: None, from: None };
    let catalogue = khz_parse::files().iter().flat_map(|file| file.metrics()).collect();
    let source = TextSource::start(cluster.clone(), address, 0, catalogue).unwrap();
    (HubQuery::new(cluster), source)
}

/// `NODE SERIES READING` of everything that is there.
fn shown(query: &HubQuery) -> Vec<String> {
    let everything = [Pattern::everything()];
    let mut future = query.latest(&everything, Nanos(0));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Ok(snapshot)) = future.as_mut().poll(&mut context) else { return Vec::new() };
    let samples =
        snapshot.nodes.iter().flat_map(|(node, samples)| samples.iter().map(move |sample| (node, sample)));
    samples.map(|(node, sample)| format!("{node} {} {:?}", sample.series, sample.reading)).collect()
}

fn until_shown(query: &HubQuery, expected: &[&str]) {
    until(&format!("{expected:?}"), || shown(query) == expected);
}

const IDENTITY: &str = ":ok 000102030405060708090a0b0c0d0e0f\n";
const ITEMS: &str = "1 memfree gauge bytes 0 unsigned mem.free\n2 load1m gauge count 2 unsigned load.1m\n4 eth0rxbytes counter bytes 0 unsigned net.rx_bytes[eth0]\n\n";

fn good_answers() -> Answers {
    let status = "lbp 12 memfree 4096\nlbp 12 load1m 0.52\nweb -1 eth0rxbytes 7\n\n";
    answers(&[(":hub\n", IDENTITY), (":age 1s\n", ":ok\n"), (":items types\n", ITEMS), ("S", status)])
}

#[test]
fn the_nodes_of_a_text_door_are_shown_with_what_it_says_of_them_status_by_status() {
    let answers = good_answers();
    let (port, asked) = door(answers.clone());
    let (query, source) = hub(port);
    until_shown(
        &query,
        &["lbp12 mem.free Present(4096)", "lbp12 load.1m Present(52)", "web net.rx_bytes[eth0] Present(7)"],
    );
    assert!(asked.lock().unwrap().starts_with(":hub\n:age 1s\n:items types\nS"));
    // What is no number has failed, what is not said is gone, an item that is new is asked about, and a node that is not
    // in the statuses any more is down.
    set(&answers, ":items types\n", &format!("8 mem2 gauge bytes 0 unsigned mem.total\n{ITEMS}"));
    set(&answers, "S", "lbp 12 memfree much\nlbp 12 mem2 9\n\n");
    until_shown(
        &query,
        &[
            "lbp12 mem.free Failed(Malformed)",
            "lbp12 load.1m Absent(InstanceGone)",
            "lbp12 mem.total Present(9)",
        ],
    );
    let is_up = |name: &str| query.status().iter().any(|status| status.node.as_str() == name && status.up);
    assert!(is_up("lbp12") && !is_up("web"));
    drop(source);
    until("nobody follows it any more", || !is_up("lbp12"));
}

#[test]
fn a_daemon_that_knows_no_words_is_asked_as_the_ancestors_were() {
    let items = "0 cluster B 0 0\n1 memfree U\n2 oddname B 0 100\n\n";
    let (port, _) = door(answers(&[("0\n#", items), ("S", "old 1 memfree 5\nold 1 oddname 1.5\n\n")]));
    let (query, _source) = hub(port);
    until_shown(&query, &["old1 mem.free Present(5)", "old1 oddname Present(150)"]);
}

#[test]
fn a_loop_and_what_is_no_text_door_are_refused_and_tried_again() {
    let ours = format!(":ok {}\n", "07".repeat(16));
    for wrong in [&ours, "HTTP/1.1 400 Bad Request\n", &"x".repeat(5_000), "\u{ff}\n"] {
        let answers = good_answers();
        set(&answers, ":hub\n", wrong);
        let (port, asked) = door(answers.clone());
        let (query, _source) = hub(port);
        until("it was asked again", || asked.lock().unwrap().matches(":hub").count() >= 2);
        assert_eq!(asked.lock().unwrap().replace(":hub\n", ""), "", "nothing else is asked");
        assert_eq!(shown(&query), [""; 0]);
        set(&answers, ":hub\n", IDENTITY);
        until("its nodes are there", || shown(&query).len() == 3);
    }
}

#[test]
fn values_of_every_type_come_over_a_text_door_as_they_are_and_an_older_door_is_asked_in_its_own_words() {
    let items = "1 least gauge count 0 signed job.least\n2 tiny gauge seconds 6 signed job.tiny\n\
                 4 third gauge count 0 float job.third\n8 nan gauge count 0 float job.nan\n\
                 10 uname gauge count 0 labels host.uname\n20 later gauge count 0 matrix job.later\n\
                 40 q gauge count 0 signed job.q[worker%203,rank=1]\n\n";
    let status = "n -1 least -9223372036854775808\nn -1 tiny -0.000001\nn -1 third -1.7976931348623157e308\n\
                  n -1 nan NaN\nn -1 uname machine=x86_64,release=6%2C1\nn -1 later 7\nn -1 q -17\n\n";
    let answers =
        answers(&[(":hub\n", IDENTITY), (":age 1s\n", ":ok\n"), (":items types\n", items), ("S", status)]);
    let (port, _) = door(answers);
    let (query, _source) = hub(port);
    let uname = khz_model::Labels::new([("machine", "x86_64"), ("release", "6,1")]).unwrap();
    until_shown(
        &query,
        &[
            &format!("n job.least Present({})", 1u64 << 63),
            &format!("n job.tiny Present({})", u64::MAX),
            &format!("n job.third Present({})", f64::MIN.to_bits()),
            &format!("n job.nan Present({})", f64::NAN.to_bits()),
            &format!("n host.uname Labels({})", uname.number()),
            "n job.later Absent(NoField)",
            &format!("n job.q[worker%203,rank=1] Present({})", (-17i64).cast_unsigned()),
        ],
    );
    let old = "1 memfree gauge bytes 0 mem.free\n\n";
    let old = self::answers(&[
        (":hub\n", IDENTITY),
        (":age 1s\n", ":ok\n"),
        (":items types\n", ":error items takes no argument\n"),
        (":items\n", old),
        ("S", "n -1 memfree 5\n\n"),
    ]);
    let (port, _) = door(old);
    let (query, _source) = hub(port);
    until_shown(&query, &["n mem.free Present(5)"]);
}
