//! Daemons over the text protocol as sources of a hub: ours, one as old as Supermon, and one that answers nonsense.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::process::{self, Running, khz};
use crate::text::{ask, connect, described_with, free_port, mask, nested_hub, own, text_door};

fn until(what: &str, is_so: impl FnMut() -> bool) {
    process::until(Duration::from_secs(60), what, is_so);
}

#[test]
fn a_hub_shows_the_nodes_of_other_text_doors() {
    let mut lower = Running::start_hub(&["--text-listen", "127.0.0.1:0"]);
    let link = lower.link();
    let words = ["agent", "--node", "lbp12", "--hub", &link, "--text-listen", "127.0.0.1:0"];
    let mut agent = Running::of(lower.beside(&words));
    for door in [text_door(&mut lower), text_door(&mut agent)] {
        let mut upper = nested_hub("upper", "127.0.0.1:0", &format!("text://{door}"));
        let mut socket = connect(&text_door(&mut upper));
        let described = described_with(&mut socket, "memfree");
        let status = ask(&mut socket, &format!("{}S", mask(&described, "memfree")));
        assert!(status.starts_with("lbp 12 memfree "), "{status}");
        // Kind, unit and name are those of the node that they come from.
        assert!(ask(&mut socket, ":items\n").contains(" memfree gauge bytes 0 mem.free\n"));
    }
}

#[test]
fn a_loop_over_text_doors_is_refused_and_reported() {
    let [link, door] = [free_port(), free_port()];
    let source = format!("text://{door}");
    let words =
        ["hub", "--listen", "127.0.0.1:0", "--link-listen", &link, "--source", &source, "--node", "itself"];
    let itself = Running::of(khz(&[&words[..], &["--text-listen", &door]].concat()));
    until("it never came back after its refusal", || own(&itself, "khz_text_connections_total") >= 2);
    let message = itself.end("TERM").1;
    assert!(message.contains("a loop; leave out one --source"), "{message}");
}

#[test]
fn garbage_from_a_source_is_reported_and_harms_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!("text://{}", listener.local_addr().unwrap());
    let mut hub = nested_hub("upper", "127.0.0.1:0", &source);
    let door = text_door(&mut hub);
    for garbage in [&[0xff; 40_000][..], b"HTTP/1.1 400 Bad Request\r\n\r\n", b":ok\n:ok\n1 a nothing\n"] {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.write_all(garbage);
        // Until the hub has had enough of it.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    assert_eq!(ask(&mut connect(&door), "S"), "\n");
    let message = hub.end("TERM").1;
    for part in ["is that a text door?", "it says: HTTP/1.1", "describes an item as '1 a nothing'"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

/// A daemon as Supermon's was: `#`, `S` and masks, and nothing at all for anything else.
fn ancestor(mut socket: TcpStream) -> std::io::Result<()> {
    const ITEMS: [(u64, &str, &str); 3] =
        [(1, "memfree U", "7340032"), (2, "load B 0 100", "0.25"), (4, "temp U", "45")];
    let (mut mask, mut digits) = (0, String::new());
    let mut byte = [0];
    while socket.read(&mut byte)? == 1 {
        if byte[0].is_ascii_hexdigit() {
            digits.push(byte[0].into());
            continue;
        }
        if !digits.is_empty() {
            mask = u64::from_str_radix(&digits, 16).unwrap();
            digits.clear();
        }
        let wanted = ITEMS.iter().filter(|(bit, ..)| mask == 0 || mask & bit != 0);
        let lines: String = match byte[0] {
            b'#' => wanted.map(|(bit, item, _)| format!("{bit:x} {item}\n")).collect(),
            b'S' => wanted
                .map(|(_, item, value)| format!("old 1 {} {value}\n", item.split(' ').next().unwrap()))
                .collect(),
            _ => continue,
        };
        let head = if byte[0] == b'#' { "0 mon B 0 0\n0 nodes B 0 0\n" } else { "" };
        socket.write_all(format!("{head}{lines}\n").as_bytes())?;
    }
    Ok(())
}

#[test]
fn a_daemon_that_knows_two_letters_and_masks_is_a_source() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!("text://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || ancestor(listener.accept().unwrap().0));
    let mut upper = nested_hub("upper", "127.0.0.1:0", &source);
    let mut socket = connect(&text_door(&mut upper));
    // The letters of the word that it did not know were a mask without this item.
    described_with(&mut socket, "temp");
    assert_eq!(ask(&mut socket, "S"), "old 1 memfree 7340032\nold 1 load 0.25\nold 1 temp 45.00\n\n");
    let items = ask(&mut socket, ":items\n");
    assert!(
        items.contains(" memfree gauge bytes 0 mem.free\n") && items.contains(" load gauge count 2 load\n"),
        "{items}"
    );
}

#[test]
fn a_source_that_dies_is_asked_again_when_it_is_back() {
    let door = free_port();
    let mut upper = nested_hub("upper", "127.0.0.1:0", &format!("text://{door}"));
    let mut socket = connect(&text_door(&mut upper));
    let node = || Running::start(&["--text-listen", &door]);
    for _ in 0..2 {
        let lower = node();
        until("its node never came", || ask(&mut socket, "S").contains("n 1 memfree "));
        lower.end("KILL");
        until("its node never went", || ask(&mut socket, "S") == "\n");
    }
    let message = upper.end("TERM").1;
    assert!(message.contains(&format!("source text://{door}: ")), "{message}");
}

#[test]
fn two_hubs_that_ask_each_other_report_the_loop() {
    let doors = [free_port(), free_port()];
    let hub = |name, own: &str, other: &str| {
        let source = format!("text://{other}");
        let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--source", &source];
        Running::of(khz(&[&words[..], &["--node", name, "--text-listen", own]].concat()))
    };
    let [one, other] = [hub("one", &doors[0], &doors[1]), hub("other", &doors[1], &doors[0])];
    // Each alone may follow the other; the second one that tries may not, and tries again.
    let comings = || [&one, &other].iter().map(|hub| own(hub, "khz_text_connections_total")).sum::<u64>();
    until("neither was refused", || comings() >= 4);
    let message = one.end("TERM").1 + &other.end("TERM").1;
    assert!(message.contains("a loop; leave out one --source"), "{message}");
}
