//! A hub that has no descriptors left: strangers make room, and nobody waits for ever.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::process::Running;

#[test]
fn strangers_that_take_all_descriptors_give_way_to_who_comes() {
    let hub = Running::start(&["hub", "--link-listen", "127.0.0.1:0"]);
    let (_, after) = hub.line.split_once("report to ").unwrap();
    let link = after.split([' ', ',']).next().unwrap();
    let few = Some(64);
    let pid = Pid::from_raw(i32::try_from(hub.child.id()).unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current: few, maximum: few }).unwrap();
    let strangers: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(link).unwrap()).collect();
    let mut late = TcpStream::connect(link).unwrap();
    late.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut greeting = [0; 9];
    late.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[5..], b"khzL");
    drop(strangers);
    // Of those who took every descriptor the oldest have gone: their time to say Hello was not over.
    let mut door =
        TcpStream::connect(hub.url.strip_prefix("http://").unwrap().trim_end_matches('/')).unwrap();
    door.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    door.read_to_string(&mut text).unwrap();
    let dropped = text.lines().find_map(|line| line.strip_prefix("khz_hub_handshakes_dropped_total "));
    assert!(dropped.unwrap().parse::<u32>().unwrap() > 0, "{text}");
}
