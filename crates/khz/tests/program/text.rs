//! `khz` spoken to by hand: the text door of the real program.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::process::{Running, code, first_line, khz, run};

/// The address of the text door, from the second line that khz prints.
pub fn text_door(running: &mut Running) -> String {
    let line = first_line(running.child.stdout.as_mut().unwrap());
    line.trim_end().strip_prefix("Text door: ").unwrap_or_else(|| panic!("{line:?}")).to_owned()
}

pub fn connect(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

/// The answer to this, which a blank line ends.
pub fn ask(socket: &mut TcpStream, text: &str) -> String {
    socket.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n\n") && answer != b"\n" {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    String::from_utf8(answer).unwrap()
}

/// The answer once a node with this item has come.
pub fn described_with(socket: &mut TcpStream, item: &str) -> String {
    let start = Instant::now();
    loop {
        let described = ask(socket, "#");
        if described.contains(&format!(" {item} ")) {
            return described;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no {item} in {described}");
    }
}

/// The mask of an item, as `#` prints it.
pub fn mask<'a>(described: &'a str, item: &str) -> &'a str {
    let words = described.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    words.filter(|words| words.get(1) == Some(&item)).map(|words| words[0]).next().unwrap()
}

#[test]
fn a_node_alone_is_spoken_to_like_the_ancestors_mon() {
    let mut running = Running::start(&["--text-listen", "127.0.0.1:0"]);
    let mut socket = connect(&text_door(&mut running));
    let described = ask(&mut socket, "#");
    assert!(described.starts_with("0 n1 B 0 0\n0 nodes B 0 0\n"), "{described}");
    for item in ["memfree", "load1m", "cpu0user", "lorxbytes"] {
        let mask = mask(&described, item);
        let status = ask(&mut socket, &format!("{mask}S"));
        let words: Vec<&str> = status.split_whitespace().collect();
        assert_eq!(words[..3], ["n", "1", item], "{status}");
        assert!(words[3].parse::<f64>().is_ok() && words.len() == 4, "{status}");
    }
    let everything = ask(&mut socket, "0\nS");
    assert!(
        everything.lines().count() > 100 && everything.contains("n 1 khztextconnections 1\n"),
        "{everything}"
    );
}

#[test]
fn a_hub_and_its_agent_both_answer() {
    let mut hub = Running::start_hub(&["--text-listen", "127.0.0.1:0"]);
    let address = text_door(&mut hub);
    let link = hub.link();
    let words =
        ["agent", "--node", "lbp12", "--hub", &link, "--base-rate", "10Hz", "--text-listen", "127.0.0.1:0"];
    let mut agent = Running::of(hub.beside(&words));
    let mut socket = connect(&address);
    let described = described_with(&mut socket, "memfree");
    assert!(described.starts_with("0 n1 B 0 0\n0 nodes B 0 0\n"), "{described}");
    // A node that is slow to answer the first time is left out of that answer.
    let asks = format!("{}S", mask(&described, "memfree"));
    let end = Instant::now() + Duration::from_secs(30);
    while !ask(&mut socket, &asks).starts_with("lbp 12 memfree ") {
        assert!(Instant::now() < end, "no row of it ever came");
    }
    let mut socket = connect(&text_door(&mut agent));
    assert!(ask(&mut socket, "S").contains("lbp 12 memfree "));
}

/// A port that was free a moment ago.
pub fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// A hub with its link door at this address, which gets nodes from that one as well.
pub fn nested_hub(name: &str, link: &str, source: &str) -> Running {
    let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", link, "--source", source, "--node", name];
    Running::of(khz(&[&words[..], &["--text-listen", "127.0.0.1:0"]].concat()))
}

#[test]
fn a_hub_shows_the_nodes_of_another_one_and_sees_them_go() {
    let mut lower = Running::start_hub(&[]);
    let link = lower.link();
    let agent = Running::of(lower.beside(&["agent", "--node", "lbp12", "--hub", &link]));
    let mut upper = nested_hub("upper", "127.0.0.1:0", &link);
    let mut socket = connect(&text_door(&mut upper));
    let described = described_with(&mut socket, "memfree");
    let status = ask(&mut socket, &format!("{}S", mask(&described, "memfree")));
    assert!(status.starts_with("lbp 12 memfree "), "{status}");
    drop(agent);
    let start = Instant::now();
    while ask(&mut socket, "S") != "\n" {
        assert!(start.elapsed() < Duration::from_secs(60), "the node never went");
    }
    assert!(lower.child.try_wait().unwrap().is_none());
}

#[test]
fn hubs_that_feed_each_other_report_the_loop() {
    let [one, other] = [free_port(), free_port()];
    let itself = nested_hub("itself", &one, &one);
    let start = Instant::now();
    while own(&itself, "khz_hub_accepted_total") < 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "it never came back after its refusal");
    }
    let message = itself.end("TERM").1;
    assert!(message.contains("a loop; leave out one --source"), "{message}");
    // Each alone may follow the other; the second one that tries may not.
    let [one, other] = [nested_hub("one", &one, &other), nested_hub("other", &other, &one)];
    let start = Instant::now();
    while [&one, &other].iter().map(|hub| own(hub, "khz_hub_accepted_total")).sum::<u64>() < 6 {
        assert!(start.elapsed() < Duration::from_secs(60), "neither was refused");
    }
    let message = one.end("TERM").1 + &other.end("TERM").1;
    assert!(message.contains("a loop; leave out one --source"), "{message}");
}

/// One of the hub's own numbers.
pub fn own(hub: &Running, name: &str) -> u64 {
    let address = hub.url.trim_start_matches("http://").trim_end_matches('/');
    let mut socket = connect(address);
    socket
        .write_all(
            format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn a_hub_asks_its_nodes_again_when_its_rows_are_older_than_the_window() {
    let mut hub = Running::start_hub(&["--text-listen", "127.0.0.1:0"]);
    let address = text_door(&mut hub);
    let link = hub.link();
    let _agent = Running::of(hub.beside(&["agent", "--node", "lbp12", "--hub", &link]));
    let mut socket = connect(&address);
    let described = described_with(&mut socket, "uptimeup");
    let mask = mask(&described, "uptimeup");
    let uptime = |socket: &mut TcpStream| -> Option<f64> {
        ask(socket, &format!("{mask}S")).split_whitespace().nth(3)?.parse().ok()
    };
    let mut seen: Vec<f64> = Vec::new();
    let start = Instant::now();
    while seen.len() < 20 {
        assert!(start.elapsed() < Duration::from_secs(60), "{seen:?}");
        let now = uptime(&mut socket);
        seen.extend(now.filter(|now| seen.last() != Some(now)));
    }
    // Pushed once a second, twenty different ones would have taken nineteen seconds.
    let took = seen[19] - seen[0];
    assert!(took < 10.0, "{seen:?}");
    assert!(own(&hub, "khz_hub_now_answers_total") >= 18);
    assert_eq!(own(&hub, "khz_hub_now_crowded_total"), 0);
    ask(&mut socket, ":age any\nS");
    let requests = own(&hub, "khz_hub_now_requests_total");
    ask(&mut socket, "S");
    assert_eq!(own(&hub, "khz_hub_now_requests_total"), requests, "nobody is asked for what was pushed");
    // The same by HTTP.
    let get = ["get", "lbp12:uptime.up", "--server", &hub.url];
    assert_eq!(code(&run(&get)), 0);
    assert_eq!(own(&hub, "khz_hub_now_requests_total"), requests);
    let answers = own(&hub, "khz_hub_now_answers_total");
    assert_eq!(code(&run(&[&get[..], &["--age", "1us"]].concat())), 0);
    assert_eq!(own(&hub, "khz_hub_now_requests_total"), requests + 1);
    assert_eq!(own(&hub, "khz_hub_now_answers_total"), answers + 1);
}

#[test]
fn the_text_door_needs_tls_off_loopback_and_stays_closed_unless_asked_for() {
    let output = run(&["--listen", "127.0.0.1:0", "--text-listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("text_listen (from --text-listen)") && message.contains("--tls-cert"),
        "{message}"
    );
    let mut running = Running::start(&[]);
    let mut rest = String::new();
    let pid = running.child.id().to_string();
    assert!(std::process::Command::new("kill").arg(&pid).status().unwrap().success());
    running.child.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "nothing more is announced");
}

/// A captured host, whose `/proc/net/dev` has these interfaces.
fn with_interfaces(root: &std::path::Path, names: &[&str]) {
    let line = |name: &&str| format!("{name:>6}: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n");
    let head = "Inter-|   Receive                                                |  Transmit\n \
                face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo \
                colls carrier compressed\n";
    let proc = root.join("proc/net");
    std::fs::create_dir_all(&proc).unwrap();
    let text = head.to_owned() + &names.iter().map(line).collect::<String>();
    // Written in place: khz keeps the file open, like the kernel's.
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(proc.join("dev"));
    let mut file = file.unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.set_len(text.len() as u64).unwrap();
}

#[test]
fn an_interface_that_is_gone_is_not_listed_and_comes_back_with_its_bit() {
    let root = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let root = root.join(format!("{}-text-gone", std::process::id()));
    with_interfaces(&root, &["eth0", "veth7", "eth1"]);
    let mut running = Running::start(&["--text-listen", "127.0.0.1:0", "--root", root.to_str().unwrap()]);
    let mut socket = connect(&text_door(&mut running));
    let described = described_with(&mut socket, "veth7rxbytes");
    let bit = mask(&described, "veth7rxbytes").to_owned();
    let later = mask(&described, "eth1rxbytes").to_owned();
    let until = |socket: &mut TcpStream, is_so: &dyn Fn(&str) -> bool| {
        let start = Instant::now();
        loop {
            let described = ask(socket, "#");
            if is_so(&described) {
                return described;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{described}");
        }
    };
    with_interfaces(&root, &["eth0", "eth1"]);
    let described = until(&mut socket, &|described| !described.contains("veth7"));
    assert_eq!(mask(&described, "eth1rxbytes"), later, "others keep their bits");
    // A client that has chosen it gets nothing of it, and of no other.
    assert_eq!(ask(&mut socket, &format!("{bit}S")), "\n");
    assert_eq!(ask(&mut socket, &format!("{later}S")), "n 1 eth1rxbytes 1\n\n");
    with_interfaces(&root, &["eth0", "eth1", "veth7"]);
    let described = until(&mut socket, &|described| described.contains("veth7"));
    assert_eq!(mask(&described, "veth7rxbytes"), bit);
    assert_eq!(ask(&mut socket, &format!("{bit}S")), "n 1 veth7rxbytes 1\n\n");
    let _ = std::fs::remove_dir_all(root);
}
