//! A hub, an agent and a mount as processes of their own, in directories of their own.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A hub, an agent and a mount in directories of their own.
pub struct Lab {
    pub folder: PathBuf,
    /// More words for the agent's command line.
    agent_words: Vec<String>,
    hub: Option<Child>,
    agent: Option<Child>,
    mount: Option<Child>,
}

/// Who can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Hub,
    Agent,
    Mount,
}

impl Lab {
    pub fn new(name: &str) -> Self {
        Lab::with_agent(name, &[])
    }

    /// A lab whose agent gets these words too.
    pub fn with_agent(name: &str, words: &[&str]) -> Self {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        for part in ["run", "rings", "cluster"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        let agent_words = words.iter().map(|word| (*word).to_owned()).collect();
        let mut lab = Lab { folder, agent_words, hub: None, agent: None, mount: None };
        for who in [Who::Hub, Who::Agent, Who::Mount] {
            lab.start(who);
        }
        lab
    }

    pub fn khz(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_khz"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KHZ_")) {
            command.env_remove(name);
        }
        command
            .args(words)
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .env("KHZ_STATE_DIR", "none")
            .env("KHZ_RUN_DIR", self.folder.join("run"));
        command.env("KHZ_RING_DIR", self.folder.join("rings")).stdin(Stdio::null());
        command
    }

    /// Starts one of them, and waits until it is ready.
    pub fn start(&mut self, who: Who) {
        let port = self.port();
        let cluster = self.cluster().to_str().unwrap().to_owned();
        let words: &[&str] = match who {
            Who::Hub => &[
                "hub",
                "--listen",
                "127.0.0.1:0",
                "--link-listen",
                &port,
                "--node",
                "hub",
                "--history",
                "0MiB",
            ],
            Who::Agent => &["agent", "--hub", &port, "--node", "n1", "--base-rate", "10Hz", "--ring", "4MiB"],
            Who::Mount => &["mount", &cluster, "--foreground", "-o", "wait=500ms"],
        };
        let message = self.folder.join(format!("{who:?}.log"));
        let log = File::create(&message).unwrap();
        let more = self.agent_words.iter().filter(|_| who == Who::Agent);
        let mut child = self.khz(words).args(more).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let why = || std::fs::read_to_string(&message).unwrap_or_default();
        assert!(line.starts_with("Kilohertz"), "{who:?} did not start: {line}{} {:?}", why(), child.wait());
        *self.place(who) = Some(child);
    }

    /// A port of this lab's own, the same after a restart.
    pub fn port(&self) -> String {
        let path = self.folder.join("port");
        if let Ok(port) = std::fs::read_to_string(&path) {
            return port;
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        std::fs::write(&path, &free).unwrap();
        free
    }

    fn place(&mut self, who: Who) -> &mut Option<Child> {
        match who {
            Who::Hub => &mut self.hub,
            Who::Agent => &mut self.agent,
            Who::Mount => &mut self.mount,
        }
    }

    pub fn kill(&mut self, who: Who) {
        if let Some(mut child) = self.place(who).take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The agent's process.
    pub fn agent_id(&self) -> u32 {
        self.agent.as_ref().map_or(0, Child::id)
    }

    pub fn cluster(&self) -> PathBuf {
        self.folder.join("cluster")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let cluster = self.cluster().to_str().unwrap().to_owned();
        let _ = self.khz(&["umount", &cluster]).stderr(Stdio::null()).status();
        for who in [Who::Mount, Who::Agent, Who::Hub] {
            self.kill(who);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(40);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
