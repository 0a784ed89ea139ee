//! Clients that send a request and do not read, and every route with a node whose answer is longer than the kernel's buffers.

#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use khz_http::{
    Actions, BlackBox, Door, FreezeRefusal, FreezeWish, PanelKind, SavedBoard, SavedBoards, SavedPanel, Shows,
};
use khz_model::{ByteSize, Kind, Reading, Sample, Series, Unit};
use khz_promql::LabelSet;
use khz_remote::message::{LabelMatcher, ReadRequest};
use khz_rules::{Alert, AlertState, Board, GroupStanding, RuleSet, RuleStanding, ScoreSheet, Standing, Word};
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt::set_socket_recv_buffer_size};

use crate::fake::{self, FakeNode, PATIENCE, Server, metric};

pub const MIB: u64 = 1 << 20;

/// How many clients do not read: more than any budget here has room for.
pub const DEAF: usize = 40;

/// The kernel's buffer for such a client; by default it would take megabytes.
pub const CLIENT_ROOM: usize = 4_096;

/// This many metrics, each in its own column.
pub fn columns(count: usize) -> Arc<Vec<Series>> {
    let leaked = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let series = |n: usize| {
        let exposed = leaked(format!("a_metric_with_a_long_name_number_{n}"));
        let metric = metric(leaked(format!("metric.number_{n}")), Kind::Gauge, Unit::Count, exposed);
        Series { metric: Arc::new(metric), instance: None }
    };
    Arc::new((0..count).map(series).collect())
}

pub fn cluster(nodes: usize, metrics: usize) -> FakeNode {
    FakeNode { columns: columns(metrics), ..FakeNode::many(nodes) }
}

/// A client that sends a request and does not read.
pub fn deaf(server: &Server, path: &str) -> TcpStream {
    let raw = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_recv_buffer_size(&raw, CLIENT_ROOM).unwrap();
    connect(&raw, &server.addr).unwrap();
    let mut socket = TcpStream::from(raw);
    if path == READ {
        let body = everything();
        let head = format!("Host: {}\r\nContent-Length: {}", server.addr, body.len());
        write!(socket, "POST {path} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
        socket.write_all(&body).unwrap();
        return socket;
    }
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.addr).unwrap();
    socket
}

/// Remote read: its requests have a body.
pub const READ: &str = "/api/v1/read";

/// A request to read everything remotely.
pub fn everything() -> Vec<u8> {
    let fits = LabelMatcher { kind: 2, name: "__name__".into(), value: "a_metric.*".into() };
    let query = khz_remote::message::Query {
        start_timestamp_ms: 1_763_690_000_000,
        end_timestamp_ms: 1_763_690_100_000,
        matchers: vec![fits],
        hints: None,
    };
    ReadRequest { queries: vec![query], ..ReadRequest::default() }.pack().unwrap()
}

/// A route, the node that answers, and the budget.
pub type Case = (&'static str, FakeNode, u64);

/// Every route whose answer is longer than the kernel buffers.
pub fn large() -> Vec<Case> {
    let own = |n: usize| {
        let reading = Reading::Present(n as u64);
        let sample = |series: &Series| Sample { series: series.clone(), reading, stamp: fake::stamp(0) };
        columns(n).iter().map(sample).collect()
    };
    vec![
        ("/metrics", cluster(60, 100), 2 * MIB),
        ("/metrics", FakeNode { own: Some(own(4_000)), ..cluster(1, 1) }, 2 * MIB),
        ("/metrics?node=n1", cluster(1, 4_000), 2 * MIB),
        ("/khz/v1/query", cluster(60, 600), 8 * MIB),
        ("/khz/v1/stream?rate=1000Hz", cluster(20, 200), 4 * MIB),
        ("/khz/v1/stream?rate=1000Hz&changes=1", cluster(20, 200), 4 * MIB),
        ("/khz/v1/channels/c0/stream", cluster(20, 200), 4 * MIB),
        ("/khz/v1/channels", cluster(1, 1), 4 * MIB),
        ("/khz/v1/history?span=600s", cluster(4, 100), 4 * MIB),
        ("/khz/v1/range", cluster(4, 100), 4 * MIB),
        ("/khz/v1/range?recording=1", cluster(4, 100), 8 * MIB),
        ("/khz/v1/catalog", cluster(1, 2_000), MIB),
        ("/khz/v1/nodes", cluster(1_500, 1), 4 * MIB),
        ("/khz/v1/nodes?brief=1", cluster(50_000, 1), 8 * MIB),
        ("/khz/v1/tiles?match=metric.number_0&rate=10Hz", cluster(4_000, 1), 8 * MIB),
        ("/khz/v1/targets", cluster(4_000, 1), MIB),
        ("/api/v1/query?query=%7B__name__=~%22a_metric.*%22%7D&time=1763690000", cluster(20, 100), 4 * MIB),
        (
            "/api/v1/query_range?query=%7B__name__=~%22a_metric.*%22%7D&start=1763690000&end=1763690100&step=1",
            cluster(10, 20),
            4 * MIB,
        ),
        (
            "/api/v1/series?match[]=%7Bjob=%22node%22%7D&start=1763690000&end=1763690001",
            cluster(20, 100),
            4 * MIB,
        ),
        (READ, cluster(40, 400), MIB),
        ("/api/v1/label/__name__/values", cluster(1, 4_000), 2 * MIB),
        ("/api/v1/metadata", cluster(1, 2_000), 2 * MIB),
        ("/api/v1/rules", cluster(1, 1), 4 * MIB),
        ("/api/v1/alerts", cluster(1, 1), 4 * MIB),
        ("/khz/v1/rules/state", cluster(1, 1), 4 * MIB),
        ("/khz/v1/rules/score", cluster(1, 1), 4 * MIB),
        ("/khz/v1/actions", cluster(1, 1), 4 * MIB),
        ("/khz/v1/actions/1/output", cluster(1, 1), 4 * MIB),
        ("/khz/v1/jobs?last=10000", cluster(1, 1), 8 * MIB),
        ("/khz/v1/boards", cluster(1, 1), 4 * MIB),
        ("/khz/v1/blackbox", cluster(1, 1), 4 * MIB),
        ("/khz/v1/blackbox/9/recording", cluster(1, 1), 4 * MIB),
    ]
}

/// The path of a request, as the description writes it.
pub fn described(path: &str) -> String {
    path.split('?')
        .next()
        .unwrap()
        .replace("__name__", "{name}")
        .replace("/c0/", "/{name}/")
        .replace("/1/", "/{run}/")
        .replace("/9/", "/{id}/")
}

/// Channels with long definitions; the first one has every series.
pub fn define_channels(door: &Door) {
    for n in 0..200 {
        let series = match n {
            0 => vec!["*".to_owned()],
            _ => (0..60).map(|k| format!("a_metric.with_a_long_name_number_{k}")).collect(),
        };
        let (name, rate) = (format!("c{n}"), Some("1kHz".to_owned()));
        let definition = khz_channel::Definition { name, series, rate, ..khz_channel::Definition::default() };
        door.channels.create(definition, khz_trust::Role::Operator).unwrap();
    }
}

/// Rules with many alerts, their scores, and their state for another hub.
fn board() -> Arc<Board> {
    let board = Arc::new(Board::default());
    board.put(standing(1_000));
    board.put_scores(ScoreSheet {
        rules: vec!["{\"alert\":\"x\"}".repeat(20); 1_000],
        ..ScoreSheet::default()
    });
    let state = format!("\"{}\"", "x".repeat(256 << 10)).into();
    board.say(Word { hub: "h".into(), tag: "t".into(), state, told: "[]".into(), ..Word::default() });
    // The word counts as long as it is confirmed.
    let confirmed = Arc::downgrade(&board);
    std::thread::spawn(move || {
        while let Some(board) = confirmed.upgrade() {
            board.confirm();
            drop(board);
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    board
}

/// A rule with this number of alerts, each some hundred bytes.
pub fn standing(alerts: usize) -> Standing {
    let text = "groups: [{name: g, rules: [{alert: A, expr: node_load1 > 1}]}]";
    let set = RuleSet::parse(Path::new("a.yml"), text.as_bytes()).unwrap();
    let alert = |number: usize| {
        let host = format!("node{number}");
        Arc::new(Alert {
            state: AlertState::Firing,
            labels: LabelSet::new([("alertname", "A"), ("instance", &host)]),
            annotations: vec![(Arc::from("summary"), "It is loaded. ".repeat(20))].into(),
            value: 2.0,
            active_at: 1_763_690_000_000,
            fired_at: Some(1_763_690_000_000),
            fired_here_at: None,
            resolved_at: None,
            ended_before: None,
            keep_firing_since: None,
            went_on: false,
        })
    };
    let rule = RuleStanding { alerts: (0..alerts).map(alert).collect(), ..RuleStanding::default() };
    let group = set.groups().next().unwrap().clone();
    let standing = GroupStanding {
        group,
        interval: 15_000,
        last: None,
        at: None,
        duration: Duration::ZERO,
        rules: vec![rule],
    };
    Standing { groups: vec![Arc::new(standing)], refused: String::new() }
}

/// Actions that have done much.
struct ManyRuns;

impl Actions for ManyRuns {
    fn actions(&self, _: bool) -> Vec<String> {
        vec![format!("\"{}\"", "a".repeat(1_000)); 32]
    }

    fn runs(&self, after: u64, most: usize, _: bool) -> Vec<(u64, String)> {
        (after + 1..=1_024).take(most).map(|run| (run, format!("\"{}\"", "r".repeat(1_000)))).collect()
    }

    fn output(&self, _: u64) -> Option<String> {
        Some("line\n".repeat((256 << 10) / 5))
    }
}

/// A black box with many freezes, and a long recording.
struct ManyFreezes;

impl BlackBox for ManyFreezes {
    fn ids(&self) -> Vec<u64> {
        (1..=1_024).collect()
    }

    fn show(&self, id: u64) -> Option<String> {
        (1..=1_024).contains(&id).then(|| format!("\"{}\"", "f".repeat(1_000)))
    }

    fn freeze(&self, _: &FreezeWish) -> Result<String, FreezeRefusal> {
        Err(FreezeRefusal::Unable("a test".to_owned()))
    }

    fn remove(&self, _: u64) -> bool {
        false
    }

    fn recording(&self, _: u64) -> Option<std::fs::File> {
        // 64 MiB of nothing, which take no disk.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("khz-deaf-{}-{number}", std::process::id()));
        std::fs::File::create(&path).ok()?.set_len(64 * MIB).ok()?;
        let file = std::fs::File::open(&path).ok();
        std::fs::remove_file(&path).ok()?;
        file
    }
}

/// As many boards as files may describe, with long queries.
fn many_boards() -> SavedBoards {
    let query = "up + ".repeat(200) + "up";
    let (shows, kind) = (Shows::Query(query), PanelKind::Line);
    let panel = SavedPanel { shows, title: String::new(), kind, is_wide: false };
    let board =
        |n: usize| SavedBoard { name: format!("b{n}"), title: "B".into(), panels: vec![panel.clone(); 24] };
    SavedBoards { boards: (0..64).map(board).collect(), ..SavedBoards::default() }
}

/// Jobs, each some hundred bytes.
fn many_jobs() -> khz_http::JobDesk {
    let jobs = Arc::new(khz_job::Jobs::in_memory());
    for id in 0..10_000 {
        let (id, nodes, name) = (id.to_string(), "n[1-64]".to_owned(), "x".repeat(100));
        jobs.start(khz_job::Start { id, nodes, name, ..khz_job::Start::default() }, 1).unwrap();
    }
    khz_http::JobDesk { jobs, own_only: false, freezes_failed: false }
}

/// A server for a path; most need no channels, which take a while.
pub fn server_for(path: &str, node: FakeNode, budget: u64) -> Server {
    Server::start_with(Arc::new(node), |door| {
        if path.contains("/channels") {
            define_channels(door);
        }
        if path.contains("/rules") || path.contains("/alerts") {
            door.rules = board();
        }
        if path.contains("/actions") {
            door.actions = Some(Arc::new(ManyRuns));
        }
        if path.contains("/jobs") {
            door.jobs = Some(many_jobs());
        }
        if path.contains("/blackbox") {
            door.black_box = Some(Arc::new(ManyFreezes));
        }
        if path.contains("/boards") {
            door.boards = Arc::new(many_boards());
        }
        door.limits.answers = ByteSize(budget);
        // No client is dropped before the test has checked.
        door.limits.stall_timeout = 2 * PATIENCE;
    })
}

/// The first line of the answer.
pub fn beginning(client: &mut TcpStream) -> String {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut room = [0; 1_024];
    let read = client.read(&mut room).unwrap();
    String::from_utf8_lossy(&room[..read]).into_owned()
}
