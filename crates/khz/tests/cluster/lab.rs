//! A laboratory of network namespaces: hubs and nodes as real processes, each in its own namespace, on one
//! bridge, with cables that can be cut. Dropping it removes everything.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Several namespaces on one bridge.
pub struct Lab {
    prefix: String,
    places: Vec<String>,
}

/// One more for each lab of this process.
static LABS: AtomicU32 = AtomicU32::new(0);

impl Lab {
    /// A namespace for each name; `None` where this machine lets us make none.
    pub fn new(places: &[&str]) -> Option<Self> {
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("k{}x{number}", std::process::id() % 10_000);
        let lab = Lab { prefix, places: places.iter().map(|place| (*place).to_owned()).collect() };
        let made = lab.make();
        if made.is_none() {
            khz_skip::skip("no network namespaces can be made here; run as root with iproute2 installed");
        }
        made.map(|()| lab)
    }

    fn make(&self) -> Option<()> {
        let bridge = self.namespace("br");
        ip(&["netns", "add", &bridge])?;
        self.within("br", &["ip", "link", "add", "br0", "type", "bridge"])?;
        self.within("br", &["ip", "link", "set", "br0", "up"])?;
        for (number, place) in self.places.iter().enumerate() {
            let (namespace, cable) = (self.namespace(place), format!("c{number}"));
            ip(&["netns", "add", &namespace])?;
            ip(&[
                "link", "add", &cable, "netns", &bridge, "type", "veth", "peer", "name", "eth0", "netns",
                &namespace,
            ])?;
            self.within("br", &["ip", "link", "set", &cable, "master", "br0", "up"])?;
            self.within(place, &["ip", "link", "set", "lo", "up"])?;
            let address = format!("{}/24", self.address(place));
            self.within(place, &["ip", "address", "add", &address, "dev", "eth0"])?;
            self.within(place, &["ip", "link", "set", "eth0", "up"])?;
        }
        Some(())
    }

    fn namespace(&self, place: &str) -> String {
        format!("{}{place}", self.prefix)
    }

    /// The address of a place.
    pub fn address(&self, place: &str) -> String {
        let number = self.places.iter().position(|known| known == place).expect("a place of this lab");
        format!("10.77.0.{}", number + 1)
    }

    /// A command in a place.
    pub fn command(&self, place: &str, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(place)]).args(words).stdin(Stdio::null());
        command
    }

    fn within(&self, place: &str, words: &[&str]) -> Option<()> {
        let output = self.command(place, words).output().ok()?;
        succeeded(&output)
    }

    /// Cuts the cable of a place, in both directions: packets are lost, and neither end notices.
    pub fn cut(&self, place: &str) {
        self.loss(place, "100%");
    }

    /// Mends it.
    pub fn mend(&self, place: &str) {
        self.loss(place, "0%");
    }

    /// Both ends of the cable lose this share of packets.
    pub fn loss(&self, place: &str, share: &str) {
        let number = self.places.iter().position(|known| known == place).expect("a place of this lab");
        let state = if share == "100%" { "down" } else { "up" };
        // The bridge's port goes down. The node's own end stays up, so that the node does not notice.
        self.within("br", &["ip", "link", "set", &format!("c{number}"), state]).expect("the cable is there");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for place in self.places.iter().map(String::as_str).chain(["br"]) {
            // What was not made is not there.
            let _ = Command::new("ip")
                .args(["netns", "del", &self.namespace(place)])
                .stderr(Stdio::null())
                .status();
        }
    }
}

fn ip(words: &[&str]) -> Option<()> {
    succeeded(&Command::new("ip").args(words).output().ok()?)
}

fn succeeded(output: &Output) -> Option<()> {
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success().then_some(())
}
