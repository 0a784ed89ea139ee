//! node_exporter reads a node's /proc through the mount, and shows the same series as beside it.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::lab::{Lab, until};

/// Debian's node_exporter; killed when the test is over.
struct Exporter(Child, String);

impl Exporter {
    fn start(flags: &[String]) -> std::io::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let mut command = Command::new("prometheus-node-exporter");
        command.arg(format!("--web.listen-address={address}")).args(flags);
        Ok(Exporter(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?, address))
    }

    /// The names and labels of all series about the node.
    fn series(&self) -> BTreeSet<String> {
        let text = ureq::get(&format!("http://{}/metrics", self.1)).call();
        let text =
            text.ok().and_then(|mut answer| answer.body_mut().read_to_string().ok()).unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with("node_"));
        lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn node_exporter_shows_the_same_series_through_the_mount() {
    let lab = Lab::new("node-exporter");
    let proc = lab.cluster().join("n1/proc");
    until("the node is there", || std::fs::read_dir(&proc).is_ok());
    let flags = [format!("--path.procfs={}", proc.display())];
    let (through, beside) = match (Exporter::start(&flags), Exporter::start(&[])) {
        (Ok(through), Ok(beside)) => (through, beside),
        (Err(error), _) | (_, Err(error)) => {
            let what = "node_exporter (Debian package prometheus-node-exporter)";
            return khz_skip::skip(format!("{what}: {error}"));
        }
    };
    let (mut lacking, mut expected) = (BTreeSet::new(), 0);
    // The first scrapes come while both start; interfaces and mounts of other tests come and go.
    for _ in 0..60 {
        let (found, wanted) = (through.series(), beside.series());
        expected = wanted.len();
        lacking = wanted.difference(&found).cloned().collect();
        if expected > 300 && lacking.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    println!("{expected} series");
    assert!(expected > 300 && lacking.is_empty(), "of {expected} series: {lacking:?}");
}
