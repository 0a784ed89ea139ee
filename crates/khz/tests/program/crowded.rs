//! A hub without free descriptors: it closes connections of strangers, and no agent waits for ever.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::process::{Running, err, first_line, khz};

#[test]
fn strangers_that_take_all_descriptors_give_way_to_who_comes() {
    let hub = Running::start(&["hub", "--link-listen", "127.0.0.1:0"]);
    let link = hub.link();
    let few = Some(64);
    let pid = Pid::from_raw(i32::try_from(hub.child.id()).unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current: few, maximum: few }).unwrap();
    let strangers: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&link).unwrap()).collect();
    let mut late = TcpStream::connect(&link).unwrap();
    late.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut greeting = [0; 9];
    late.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[5..], b"khzL");
    drop(strangers);
    // Of the connections that took every descriptor the oldest are closed, before their time for Hello was over.
    let mut door =
        TcpStream::connect(hub.url.strip_prefix("http://").unwrap().trim_end_matches('/')).unwrap();
    door.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    door.read_to_string(&mut text).unwrap();
    let dropped = text.lines().find_map(|line| line.strip_prefix("khz_hub_handshakes_dropped_total "));
    assert!(dropped.unwrap().parse::<u32>().unwrap() > 0, "{text}");
}

/// One answer on a connection that stays open.
fn ask(door: &mut TcpStream, path: &str) -> String {
    write!(door, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        door.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    door.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
fn a_door_that_cannot_accept_counts_it_and_says_so_once_a_minute() {
    let hub = Running::start_hub(&[]);
    let address = hub.url.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    let mut door = TcpStream::connect(&address).unwrap();
    ask(&mut door, "/metrics");
    // Fewer than it has open: the next one cannot be accepted.
    let few = Some(10);
    let pid = Pid::from_raw(i32::try_from(hub.child.id()).unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current: few, maximum: few }).unwrap();
    let begun = Instant::now();
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let failed = |door: &mut TcpStream| -> u64 {
        let text = ask(door, "/metrics");
        let count = text.lines().find_map(|line| line.strip_prefix("khz_http_accepts_failed_total "));
        count.unwrap().parse().unwrap()
    };
    while failed(&mut door) < 5 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never failed");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(crowd);
    let minutes = begun.elapsed().as_secs() / 60;
    let (_, message) = hub.end("TERM");
    let lines: Vec<&str> = message.lines().filter(|line| line.contains("cannot accept")).collect();
    assert!((1..=1 + minutes).contains(&(lines.len() as u64)), "{message}");
    let expected = "khz: warn: the HTTP door cannot accept connections: Too many open files (os error 24); allow this process";
    assert!(lines[0].starts_with(expected), "{message}");
}

#[test]
fn idle_connections_leave_the_last_descriptors_to_gathering() {
    let khz = Running::start(&[]);
    let address = khz.url.strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
    let pid = Pid::from_raw(i32::try_from(khz.child.id()).unwrap());
    let raised = prlimit(pid, Resource::Nofile, Rlimit { current: Some(256), maximum: Some(256) }).unwrap();
    assert_eq!(raised.current, raised.maximum, "khz has raised its own limit as far as it may");
    // Each asks once, so that it was accepted, and stays.
    let crowd: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut door = TcpStream::connect(&address).unwrap();
            let _ = write!(door, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let _ = door.read(&mut [0; 1_024]);
            door
        })
        .collect();
    // Files of processes that it had open before the limit was lowered are closed when it looks at them again.
    let folder = format!("/proc/{}/fd", khz.child.id());
    let begun = Instant::now();
    let open = || std::fs::read_dir(&folder).unwrap().count();
    while open() > 256 - 64 + 16 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} of 256 descriptors are taken", open());
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut door = TcpStream::connect(&address).unwrap();
    door.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    door.read_to_string(&mut text).unwrap();
    let number = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap().parse().unwrap()
    };
    assert!(number("khz_http_connections_evicted_total") > 0);
    assert_eq!(number("khz_http_accepts_failed_total"), 0);
    drop(crowd);
    let (_, message) = khz.end("TERM");
    let lines = message.lines().filter(|line| line.contains("few file descriptors are left"));
    assert!(lines.count() >= 1, "{message}");
    assert!(!message.contains("Too many open files"), "{message}");
}

#[test]
fn too_low_a_limit_of_open_files_is_an_error_and_no_panic() {
    // What is short of a file or two depends on the machine's sources, so each limit is tried.
    for limit in 60..=120 {
        let script = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script]);
        let run = khz(&["--listen", "127.0.0.1:0", "--node", "n1"]);
        command.arg(run.get_program()).args(run.get_args());
        for (name, value) in run.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if !first_line(child.stdout.as_mut().unwrap()).is_empty() {
            // With this limit it starts.
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        assert!(!err(&output).contains("panicked"), "{limit}: {}", err(&output));
        assert!(output.status.code().is_none_or(|code| code == 1 || code == 2), "{limit}: {output:?}");
    }
}
