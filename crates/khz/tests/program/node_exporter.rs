//! A real node_exporter, for tests that compare.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::process::until;

/// Debian's node_exporter with these flags; killed when the test is over.
pub struct NodeExporter(Child, String);

impl NodeExporter {
    pub fn start(flags: &[&str]) -> std::io::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let mut command = Command::new("prometheus-node-exporter");
        command.arg(format!("--web.listen-address={address}")).args(flags);
        Ok(NodeExporter(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?, address))
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.1
    }

    pub fn metrics(&self) -> String {
        let url = format!("http://{}/metrics", self.1);
        let mut text = String::new();
        until(Duration::from_secs(60), "node_exporter answers", || {
            let answer = ureq::get(&url).call().ok();
            text = answer.and_then(|mut answer| answer.body_mut().read_to_string().ok()).unwrap_or_default();
            !text.is_empty()
        });
        text
    }
}

impl Drop for NodeExporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
