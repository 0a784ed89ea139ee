//! Many nodes for real: hubs and agents as processes in network namespaces, killed, frozen and cut off. The long
//! versions run with `cargo xtask test --slow`.

#![allow(clippy::unwrap_used)]

mod daemon;
mod growing;
mod lab;

use std::time::Duration;

use daemon::{Daemon, folder, until};
use lab::Lab;

/// A node counts as down, and a hub as gone, within this time.
const SOON: Duration = Duration::from_secs(3);
/// Asking the hub takes time too, above all on a machine that runs other tests.
const ASKING: Duration = Duration::from_millis(1_500);

fn shm(name: &str) -> String {
    folder(&format!("shm-{name}")).to_str().unwrap().to_owned()
}

#[test]
fn a_node_in_a_cluster_can_be_read_and_is_down_soon_after_a_kill() {
    let Some(lab) = Lab::new(&["hub", "n1", "n2"]) else { return };
    let hub = Daemon::hub(&lab, "hub", &[]);
    let first = Daemon::agent(&lab, "n1", &["hub"], &["--ring-dir", &shm("kill1")]);
    let _second = Daemon::agent(&lab, "n2", &["hub"], &["--ring-dir", &shm("kill2")]);
    until("both are up", || hub.is_up(&lab, "n1") && hub.is_up(&lab, "n2"));
    let has_rows = |node| hub.base(&lab, node).is_some_and(|base| base.rows > 5);
    until("rows come", || has_rows("n1") && has_rows("n2"));
    let (code, out, _) = hub.run(&lab, &["get", "n[1-2]:mem.total", "--json"]);
    assert_eq!((code, out.lines().count()), (Some(0), 2), "{out}");
    first.kill();
    let took = until("n1 is down", || !hub.is_up(&lab, "n1"));
    assert!(took < SOON + ASKING, "{took:?}");
    let (code, out, err) = hub.run(&lab, &["get", "n[1-2]:mem.total", "--json"]);
    assert_eq!((code, out.lines().count()), (Some(3), 1), "{out}{err}");
    assert!(err.contains("n1"), "the missing node is named: {err}");
}

#[test]
fn an_agent_that_was_killed_goes_on_in_its_ring_and_no_row_is_lost() {
    let Some(lab) = Lab::new(&["hub", "n1"]) else { return };
    let shm = shm("restart");
    let hub = Daemon::hub(&lab, "hub", &[]);
    let agent = Daemon::agent(&lab, "n1", &["hub"], &["--ring-dir", &shm]);
    until("rows come", || hub.base(&lab, "n1").is_some_and(|base| base.rows > 15));
    agent.kill();
    until("it is down", || !hub.is_up(&lab, "n1"));
    let before = hub.base(&lab, "n1").unwrap();
    let _agent = Daemon::agent(&lab, "n1", &["hub"], &["--ring-dir", &shm]);
    until("more rows come", || hub.base(&lab, "n1").is_some_and(|base| base.rows > before.rows + 15));
    until("nothing is missing", || hub.base(&lab, "n1").unwrap().awaited == 0);
    assert_eq!(hub.base(&lab, "n1").unwrap().lost, 0);
}

#[test]
fn a_hub_that_was_killed_gets_the_past_back_out_of_the_rings() {
    let Some(lab) = Lab::new(&["hub", "n1"]) else { return };
    let hub = Daemon::hub(&lab, "hub", &[]);
    let _agent = Daemon::agent(&lab, "n1", &["hub"], &["--ring-dir", &shm("hub")]);
    until("rows come", || hub.base(&lab, "n1").is_some_and(|base| base.rows > 40));
    let before = hub.base(&lab, "n1").unwrap();
    hub.kill();
    let hub = Daemon::hub(&lab, "hub", &[]);
    until("it is back, with all that was", || {
        hub.base(&lab, "n1").is_some_and(|base| base.rows > before.rows && base.awaited == 0)
    });
    assert_eq!(hub.base(&lab, "n1").unwrap().lost, 0);
}

/// The cable is cut for some seconds: both sides notice, and everything is there in the end.
fn cut(seconds: u64) {
    let Some(lab) = Lab::new(&["hub", "n1"]) else { return };
    let hub = Daemon::hub(&lab, "hub", &[]);
    let _agent = Daemon::agent(&lab, "n1", &["hub"], &["--ring-dir", &shm(&format!("cut{seconds}"))]);
    until("rows come", || hub.base(&lab, "n1").is_some_and(|base| base.rows > 15));
    lab.cut("n1");
    if seconds >= 4 {
        let took = until("it is down", || !hub.is_up(&lab, "n1"));
        assert!(took < SOON + ASKING, "{took:?}");
    }
    let before = hub.base(&lab, "n1").unwrap();
    std::thread::sleep(Duration::from_secs(seconds));
    lab.mend("n1");
    until("it is up again, and the gap is filled", || {
        hub.is_up(&lab, "n1")
            && hub
                .base(&lab, "n1")
                .is_some_and(|base| base.awaited == 0 && base.rows >= before.rows + 10 * seconds)
    });
    assert_eq!(hub.base(&lab, "n1").unwrap().lost, 0);
}

#[test]
fn a_cable_cut_for_one_second_loses_nothing() {
    cut(1);
}

#[test]
fn a_cable_cut_for_five_seconds_is_noticed_and_the_gap_filled() {
    cut(5);
}

#[test]
#[ignore = "slow: a minute and more of cut cables"]
fn a_cable_cut_for_ten_and_sixty_seconds_is_noticed_and_the_gap_filled() {
    cut(10);
    cut(60);
}

#[test]
fn when_the_first_hub_freezes_the_second_takes_over_and_fills_the_gap() {
    let Some(lab) = Lab::new(&["h1", "h2", "n1"]) else { return };
    let first = Daemon::hub(&lab, "h1", &[]);
    let second = Daemon::hub(&lab, "h2", &[]);
    let _agent = Daemon::agent(&lab, "n1", &["h1", "h2"], &["--ring-dir", &shm("frozen")]);
    until("rows come", || first.base(&lab, "n1").is_some_and(|base| base.rows > 20));
    assert!(!second.is_up(&lab, "n1"), "one hub at a time");
    let before = first.base(&lab, "n1").unwrap();
    first.signal("STOP");
    let took = until("the second takes over", || second.is_up(&lab, "n1"));
    assert!(took < SOON + ASKING, "{took:?}");
    until("the second has what the first had", || {
        second.base(&lab, "n1").is_some_and(|base| base.rows > before.rows && base.awaited == 0)
    });
    first.signal("CONT");
    until("the first sees that it has lost the node", || !first.is_up(&lab, "n1"));
}

#[test]
fn when_the_first_hub_is_back_the_agent_returns_and_no_row_is_lost() {
    let Some(lab) = Lab::new(&["h1", "h2", "n1"]) else { return };
    let second = Daemon::hub(&lab, "h2", &[]);
    let first = Daemon::hub(&lab, "h1", &[]);
    let more = ["--ring-dir", &shm("failback"), "--failback-after", "2s"];
    let _agent = Daemon::agent(&lab, "n1", &["h1", "h2"], &more);
    until("rows come", || first.base(&lab, "n1").is_some_and(|base| base.rows > 20));
    first.kill();
    until("the second takes over", || second.is_up(&lab, "n1"));
    until("it says where the node would rather be, and why it is not", || {
        let away = second.node(&lab, "n1").map(|node| node["away"].clone()).unwrap_or_default();
        away["first"].as_str().is_some_and(|first| first.ends_with(":7071"))
            && away["problem"].as_str().is_some_and(|problem| problem.contains("refused"))
            && away["since"].is_string()
            && away["back"].is_string()
    });
    let (_, table, _) = second.run(&lab, &["nodes"]);
    assert!(table.contains("n1: on h2; ") && table.contains("back at the earliest in "), "{table}");
    let first = Daemon::hub(&lab, "h1", &[]);
    until("it is back at the first", || first.is_up(&lab, "n1"));
    until("the second has seen it leave, and says where it went", || {
        second.node(&lab, "n1").is_some_and(|node| {
            node["up"] == false
                && node["problem"].as_str().is_some_and(|problem| problem.starts_with("goes back to "))
        })
    });
    let there = second.base(&lab, "n1").unwrap();
    until("the first has all, with what the second has taken", || {
        first.base(&lab, "n1").is_some_and(|base| base.awaited == 0 && base.rows >= there.rows)
    });
    assert_eq!(first.base(&lab, "n1").unwrap().lost, 0);
    assert!(first.node(&lab, "n1").unwrap()["away"].is_null());
}

#[test]
fn an_agent_that_died_while_its_cable_was_cut_is_superseded_by_its_next_start() {
    let Some(lab) = Lab::new(&["hub", "n1"]) else { return };
    let shm = shm("half-open");
    let hub = Daemon::hub(&lab, "hub", &[]);
    let agent = Daemon::agent(&lab, "n1", &["hub"], &["--ring-dir", &shm]);
    until("rows come", || hub.base(&lab, "n1").is_some_and(|base| base.rows > 5));
    lab.cut("n1");
    agent.kill();
    lab.mend("n1");
    let connects = hub.node(&lab, "n1").unwrap()["connects"].as_u64().unwrap();
    let _agent = Daemon::agent(&lab, "n1", &["hub"], &["--ring-dir", &shm]);
    until("the new start is connected", || {
        hub.node(&lab, "n1")
            .is_some_and(|node| node["up"] == true && node["connects"].as_u64().unwrap() > connects)
    });
}

#[test]
fn a_wrong_token_is_refused_and_both_sides_say_so() {
    let Some(lab) = Lab::new(&["hub", "n1"]) else { return };
    let keys = folder("keys");
    let key = |name: &str, digit: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = keys.join(name);
        std::fs::write(&path, format!("{}\n", digit.repeat(64))).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let right = key("right", "1");
    let name = khz_model::NodeName::new("n1").unwrap();
    let token =
        |key: &std::path::Path| khz_trust::ClusterKey::read(key).unwrap().token(khz_trust::Role::Node, &name);
    let file = |file: &str, text: String| {
        use std::os::unix::fs::PermissionsExt;
        let path = keys.join(file);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let wrong = file("wrong.token", token(&key("wrong", "2")).to_string());
    let good = file("right.token", token(&right).to_string());
    // --insecure does without TLS, not without the proof.
    let link = format!("{}:7071", lab.address("hub"));
    let words = [
        "hub",
        "--node",
        "hub",
        "--link-listen",
        &link,
        "--insecure",
        "--cluster-key",
        right.to_str().unwrap(),
    ];
    let hub = Daemon::start(&lab, "hub", &words);
    let agent = Daemon::agent(&lab, "n1", &["hub"], &["--ring-dir", &shm("token1"), "--token", &wrong]);
    // It tries again and again, and is never let in.
    std::thread::sleep(Duration::from_secs(2));
    assert!(!hub.is_up(&lab, "n1"));
    let message = agent.kill();
    assert!(message.contains("token"), "the agent says why: {message}");
    let _agent = Daemon::agent(&lab, "n1", &["hub"], &["--ring-dir", &shm("token2"), "--token", &good]);
    until("the right token opens", || hub.is_up(&lab, "n1"));
}

#[test]
fn the_base_lane_is_recorded_into_files_that_rrdtool_reads() {
    let Some(lab) = Lab::new(&["hub", "n1"]) else { return };
    let files = folder("rrd");
    let rrd = [
        "--rrd",
        files.to_str().unwrap(),
        "--rrd-match",
        "load.1m,net.rx_bytes",
        "--rrd-layout",
        "1,AVERAGE:0.5:1:60",
    ];
    let _hub = Daemon::hub(&lab, "hub", &rrd);
    let _agent = Daemon::agent(&lab, "n1", &["hub"], &["--ring-dir", &shm("rrd")]);
    let fetch = || {
        let file = files.join("n1/load.1m.rrd");
        let output = std::process::Command::new("rrdtool")
            .args(["fetch", file.to_str().unwrap(), "AVERAGE", "--start", "-30s"])
            .output();
        let Ok(output) = output else {
            khz_skip::skip("rrdtool is not installed");
            return None;
        };
        let text = String::from_utf8(output.stdout).unwrap();
        let values = text.lines().filter_map(|line| line.split_once(": ")?.1.parse::<f64>().ok());
        Some(values.filter(|value| value.is_finite()).count())
    };
    until("rrdtool reads several values", || fetch().is_none_or(|values| values >= 3));
    assert!(
        files.join("n1/net.rx_bytes%5Beth0%5D.rrd").exists(),
        "an instance has a file of its own, safely named"
    );
}
