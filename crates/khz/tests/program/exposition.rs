//! `/metrics` of the running program on this machine's own kernel, judged by Prometheus's own tool.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::process::Running;

/// node_exporter itself names these so, and compatibility with it goes first.
fn is_node_exporters_own(complaint: &str) -> bool {
    complaint.starts_with("node_memory_")
        && complaint.ends_with("metric names should be written in 'snake_case' not 'camelCase'")
}

fn metrics(running: &Running) -> String {
    let address = running.url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}

#[test]
fn promtool_is_content_with_this_machine() {
    let running = Running::start(&[]);
    let text = metrics(&running);
    assert!(text.contains("\nnode_cpu_seconds_total{") && text.contains("\nkhz_source_gathers_total{"));
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match started {
        Ok(promtool) => promtool,
        Err(error) if std::env::var_os("KHZ_TEST_ALL").is_none() => {
            return eprintln!("SKIPPED: promtool (Debian package prometheus): {error}");
        }
        Err(error) => panic!("promtool: {error}"),
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let complaints: Vec<&str> = said.lines().filter(|line| !is_node_exporters_own(line)).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
}
