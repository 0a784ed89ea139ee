//! `/metrics` of the running program on this machine's own kernel, judged by Prometheus's own tool.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::Running;
use crate::text::own;

/// These are node_exporter's own names; compatibility with it is more important.
fn is_node_exporters_own(complaint: &str) -> bool {
    let has_kernels_name =
        ["node_memory_", "node_netstat_", "node_sockstat_"].iter().any(|begin| complaint.starts_with(begin));
    has_kernels_name && complaint.ends_with("metric names should be written in 'snake_case' not 'camelCase'")
        || complaint.starts_with("node_entropy_")
            && complaint.ends_with("use base unit \"bytes\" instead of \"bits\"")
}

fn metrics(running: &Running) -> String {
    get_at(running, "/metrics")
}

/// The answer of its door to this path.
pub fn get_at(running: &Running, path: &str) -> String {
    let (head, body) = answer_at(running, path);
    assert!(head.split(' ').nth(1) == Some("200"), "{head}");
    body
}

/// The same; `None` while the door knows none of what is asked for.
pub fn found_at(running: &Running, path: &str) -> Option<String> {
    let (head, body) = answer_at(running, path);
    match head.split(' ').nth(1) {
        Some("200") => Some(body),
        Some("404") => None,
        _ => panic!("{head}"),
    }
}

pub fn answer_at(running: &Running, path: &str) -> (String, String) {
    let address = running.url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Seconds since boot, from the kernel, now.
fn uptime() -> f64 {
    std::fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap()
}

/// The uptime that a scrape shows, and what it was when the scrape began.
fn scraped_uptime(running: &Running, path: &str) -> (f64, f64) {
    let began = uptime();
    let text = get_at(running, path);
    let line =
        text.lines().find(|line| line.starts_with("khz_uptime_seconds ")).unwrap_or_else(|| panic!("{text}"));
    (line.rsplit(' ').next().unwrap().parse().unwrap(), began)
}

#[test]
fn a_scrape_through_a_hub_shows_a_row_that_was_gathered_after_it_began() {
    let hub = Running::start_hub(&[]);
    let link = hub.link();
    let agent =
        Running::of(hub.beside(&["agent", "--node", "lbp12", "--hub", &link, "--listen", "127.0.0.1:0"]));
    let start = Instant::now();
    let patient = |what: &str| assert!(start.elapsed() < Duration::from_secs(60), "{what}");
    let rows = "khz_node_rows_total{node=\"lbp12\"} ";
    while metrics(&hub).lines().all(|line| line.strip_prefix(rows).is_none_or(|count| count == "0")) {
        patient("the node never came");
    }
    // A row that was pushed is from before, however young. On a machine that is very busy a node may miss a deadline.
    let mut fresh = 0;
    while fresh < 5 {
        let (shown, began) = scraped_uptime(&hub, "/metrics?node=lbp12");
        fresh += u32::from(shown >= began);
        patient("scrapes show what was pushed");
    }
    assert!(own(&hub, "khz_hub_now_answers_total") >= 5);
    assert_eq!(own(&hub, "khz_hub_now_crowded_total"), 0, "merged within the window");
    // The same where the machine speaks for itself.
    let (shown, began) = scraped_uptime(&agent, "/metrics");
    assert!(shown >= began, "{shown} at {began}");
    let alone = Running::start(&[]);
    let (shown, began) = scraped_uptime(&alone, "/metrics");
    assert!(shown >= began, "{shown} at {began}");
}

#[test]
fn promtool_is_content_with_this_machine() {
    let running = Running::start(&[]);
    let text = metrics(&running);
    assert!(text.contains("\nnode_cpu_seconds_total{") && text.contains("\nkhz_source_gathers_total{"));
    promtool_is_content_with(&text);
}

/// Checks this with `promtool check metrics`; skips where it is not installed.
pub fn promtool_is_content_with(text: &str) {
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match started {
        Ok(promtool) => promtool,
        Err(error) => return khz_skip::skip(format!("promtool (Debian package prometheus): {error}")),
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let complaints: Vec<&str> = message.lines().filter(|line| !is_node_exporters_own(line)).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{message}");
}
