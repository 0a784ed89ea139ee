//! Several users on one machine: whose agents, recorders and hubs a hub believes, and what it answers to others. Needs root,
//! since the users are real ones; otherwise it is skipped.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::process::{self, Running, code, err, khz, out};
use crate::text::free_port;

const DAEMON: u32 = 65_533;
const NOBODY: u32 = 65_534;

/// A place that every user reaches, with the program, and a run directory for each user.
struct Place(PathBuf);

impl Place {
    #[track_caller]
    fn new(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            khz_skip::skip("only root can be several users");
            return None;
        }
        let path = std::env::temp_dir().join(format!("khz-users-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        // A link takes no room; another file system takes a copy.
        let (program, place) = (env!("CARGO_BIN_EXE_khz"), path.join("khz"));
        std::fs::hard_link(program, &place).or_else(|_| std::fs::copy(program, &place).map(drop)).unwrap();
        for user in [0, DAEMON, NOBODY] {
            let own = path.join(user.to_string());
            std::fs::create_dir(&own).unwrap();
            std::fs::set_permissions(&own, PermissionsExt::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(&own, Some(user), Some(user)).unwrap();
        }
        Some(Place(path))
    }

    /// Where this user's sockets and keys are.
    fn run_dir(&self, user: u32) -> PathBuf {
        if user == 0 { self.0.join("0") } else { self.0.join(user.to_string()).join("khz") }
    }

    /// `khz` of this user. It finds the run directory of the user by itself; root's is given.
    fn khz(&self, user: u32, words: &[&str]) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(self.0.join("khz"));
        command.args(words).uid(user).gid(user).env_clear().current_dir(&self.0).stdin(Stdio::null());
        command
            .env("KHZ_RING_DIR", "none")
            .env("KHZ_TEXT_LISTEN", "none")
            .env("XDG_CONFIG_HOME", "/nonexistent");
        match user {
            0 => command.env("KHZ_RUN_DIR", self.run_dir(0)),
            user => command.env("XDG_RUNTIME_DIR", self.0.join(user.to_string())),
        };
        command
    }

    fn hub(&self, user: u32, link: &str, more: &[&str]) -> Running {
        let words = ["hub", "--node", "hub", "--listen", "127.0.0.1:0", "--link-listen", link];
        Running::of(self.khz(user, &[&words, more].concat()))
    }

    /// An agent that may be refused: it logs that and tries again.
    fn agent(&self, user: u32, node: &str, link: &str) -> Agent {
        let words = ["agent", "--node", node, "--hub", link, "--base-rate", "10Hz", "--ring", "1MiB"];
        let log = self.0.join(format!("{node}.log"));
        let mut command = self.khz(user, &words);
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
        Agent { child: command.spawn().unwrap(), log }
    }

    /// Rows of a node at this rate, as this user.
    fn record(&self, user: u32, link: &str, rate: &str) -> Output {
        let file = self.run_dir(user).join(format!("{rate}.khzt"));
        let _ = std::fs::create_dir(self.run_dir(user));
        let _ = std::os::unix::fs::chown(self.run_dir(user), Some(user), Some(user));
        let words =
            ["record", "n1:mem.free", "--hub", link, "--rate", rate, "--for", "300ms", "--quiet", "-o"];
        self.khz(user, &[&words[..], &[word(&file)]].concat()).output().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Agent {
    child: std::process::Child,
    log: PathBuf,
}

impl Agent {
    fn message(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    process::until(Duration::from_secs(60), what, is_so);
}

/// The hub's status of its nodes.
fn nodes(hub: &Running) -> String {
    out(&khz(&["nodes", "--server", &hub.url]).output().unwrap())
}

fn is_up(hub: &Running, node: &str) -> bool {
    nodes(hub).lines().any(|line| line.starts_with(node) && line.contains(" up"))
}

#[test]
fn agents_recorders_and_hubs_of_the_hubs_user_and_of_root_need_no_set_up() {
    let Some(place) = Place::new("trial") else { return };
    let hub = place.hub(DAEMON, "127.0.0.1:0", &[]);
    let link = hub.link();
    let _first = place.agent(DAEMON, "n1", &link);
    until("the user's own agent is up", || is_up(&hub, "n1"));
    assert!(!nodes(&hub).contains("believed"), "{}", nodes(&hub));
    let played = ["simulate", "--nodes", "3", "--prefix", "played", "--hub", &link, "--for", "1s"];
    let done = place.khz(0, &[&played[..], &["--run-dir"]].concat());
    let done = { done }.arg(place.run_dir(DAEMON)).output().unwrap();
    assert!(nodes(&hub).contains("played1"), "{}{}", nodes(&hub), err(&done));
    let fast = place.record(DAEMON, &link, "1000Hz");
    assert_eq!(code(&fast), 0, "an operator: {}", err(&fast));
    let upper = place.hub(DAEMON, "127.0.0.1:0", &["--source", &link]);
    until("the upper hub shows it too", || is_up(&upper, "n1"));
    // Root uses the run directory that is given.
    let run_dir = place.run_dir(DAEMON);
    let words = ["agent", "--node", "roots", "--hub", &link, "--run-dir", word(&run_dir)];
    let mut root = place.khz(0, &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("root's agent is up", || is_up(&hub, "roots"));
    let _ = root.kill();
    let _ = root.wait();
}

#[test]
fn another_users_agent_is_refused_with_the_ways_out_and_he_reads_as_a_reader() {
    let Some(place) = Place::new("others") else { return };
    let hub = place.hub(DAEMON, "127.0.0.1:0", &[]);
    let link = hub.link();
    let _first = place.agent(DAEMON, "n1", &link);
    until("the user's own agent is up", || is_up(&hub, "n1"));
    let stranger = place.agent(NOBODY, "n2", &link);
    until("the refused agent has logged why", || stranger.message().contains("shows nothing that counts"));
    let message = stranger.message();
    for way in [format!("uid {DAEMON}"), "khz certs token node n2".into(), "--insecure".into()] {
        assert!(message.contains(&way), "{way}: {message}");
    }
    assert!(!nodes(&hub).contains("n2"), "{}", nodes(&hub));
    let slow = place.record(NOBODY, &link, "100Hz");
    assert_eq!(code(&slow), 0, "a reader: {}", err(&slow));
    let fast = place.record(NOBODY, &link, "1000Hz");
    assert_eq!(code(&fast), 1, "{}", err(&fast));
    assert!(err(&fast).contains("operator"), "{}", err(&fast));
}

#[test]
fn an_agent_goes_to_the_hub_that_it_is_sent_to_among_several_of_one_user() {
    let Some(place) = Place::new("several") else { return };
    let first = place.hub(DAEMON, "127.0.0.1:0", &[]);
    let second = place.hub(DAEMON, "127.0.0.1:0", &[]);
    let _agent = place.agent(DAEMON, "n1", &second.link());
    until("it is at the second", || is_up(&second, "n1"));
    assert!(!nodes(&first).contains("n1"));
}

#[test]
fn after_kill_9_the_next_hub_has_another_key_and_its_agents_come_back() {
    let Some(place) = Place::new("killed") else { return };
    let link = free_port();
    let mut hub = place.hub(DAEMON, &link, &[]);
    let _agent = place.agent(DAEMON, "n1", &link);
    until("it is up", || is_up(&hub, "n1"));
    let key = place.run_dir(DAEMON).join(format!("hub-link-{link}.key"));
    let before = std::fs::read_to_string(&key).unwrap();
    hub.child.kill().unwrap();
    hub.child.wait().unwrap();
    assert_eq!(std::fs::read_to_string(&key).unwrap(), before, "it was left behind");
    let hub = place.hub(DAEMON, &link, &[]);
    assert_ne!(std::fs::read_to_string(&key).unwrap(), before);
    until("it is up again", || is_up(&hub, "n1"));
    let (_, message) = hub.end("TERM");
    assert!(!key.exists(), "the key goes with its hub: {message}");
}

#[test]
fn where_insecure_names_are_believed_and_both_the_log_and_khz_nodes_say_so() {
    let Some(place) = Place::new("insecure") else { return };
    let hub = place.hub(DAEMON, "127.0.0.1:0", &["--insecure"]);
    let _agent = place.agent(NOBODY, "n2", &hub.link());
    until("it is up", || is_up(&hub, "n2"));
    let message = nodes(&hub);
    assert!(message.contains("names are believed, not proved (--insecure): n2"), "{message}");
    let fast = place.record(NOBODY, &hub.link(), "1000Hz");
    assert_ne!(code(&fast), 0, "operators are not believed");
    let (_, log) = hub.end("TERM");
    assert!(log.contains("nothing proves the names of nodes"), "{log}");
}
