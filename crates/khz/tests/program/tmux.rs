//! A terminal for tests: a program in a pane of tmux, with a server of its own. It types keys and reads what stands on the screen.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Awaited things have happened by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server of tmux with one pane; it ends with the test.
pub struct Tmux {
    socket: String,
}

impl Tmux {
    /// A pane of this size in which these words run. `None`, and the test is skipped: there is no tmux.
    #[track_caller]
    pub fn start(size: (u16, u16), variables: &[&str], words: &[&str]) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if Command::new("tmux").arg("-V").output().is_err() {
            khz_skip::skip("tmux is not installed");
            return None;
        }
        let socket = format!("khz-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let tmux = Tmux { socket };
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let settings = ["set-option", "-g", "status", "off", ";"];
        // A shell says how the program has ended: a pane that is dead loses its first line, and sometimes its exit code.
        let shell = ["sh", "-c", "\"$@\"; echo \"ended with $?\"; exec sleep 1000", "sh"];
        let begin = ["new-session", "-d", "-x", &width, "-y", &height, "env"];
        // UTF-8 and colours as most people have them, where the test does not want something else.
        let usual =
            ["LC_ALL=C.UTF-8", "TERM=screen-256color", "KHZ_RING_DIR=none", "XDG_CONFIG_HOME=/nonexistent"];
        let name = |text: &str| text.split_once('=').map_or(text, |(name, _)| name).to_owned();
        let is_wanted = |usual: &&str| !variables.iter().any(|variable| name(variable) == name(usual));
        let usual: Vec<&str> = usual.into_iter().filter(is_wanted).collect();
        // Options of env stand before the variables.
        let started = tmux.tmux(&[&settings[..], &begin, variables, &usual, &shell, words].concat());
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        Some(tmux)
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-L", &self.socket, "-f", "/dev/null"])
            .env_remove("TMUX")
            .args(words)
            .output()
            .unwrap()
    }

    /// Types these keys, by their names in tmux.
    pub fn keys(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).status.success());
    }

    /// What stands on the screen.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until all of these stand on the screen. Returns it.
    #[track_caller]
    pub fn shows(&self, parts: &[&str]) -> String {
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if parts.iter().all(|part| screen.contains(part)) {
                return screen;
            }
            assert!(std::time::Instant::now() < end, "{parts:?} never came to be shown:\n{screen}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Gives the pane another size.
    pub fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        assert!(self.tmux(&["resize-window", "-x", &width, "-y", &height]).status.success());
    }

    fn asked(&self, format: &str) -> String {
        let answer = self.tmux(&["display-message", "-p", format]);
        String::from_utf8_lossy(&answer.stdout).trim().to_owned()
    }

    /// The program that the shell of the pane runs.
    fn pid(&self) -> String {
        let shell = self.asked("#{pane_pid}");
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        children.trim().to_owned()
    }

    /// True while a program fills the pane.
    pub fn is_filled(&self) -> bool {
        self.asked("#{alternate_on}") == "1"
    }

    /// Sends a signal to the program.
    pub fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.pid()]).status().unwrap().success());
    }

    /// Waits until the program has ended. Returns its exit code.
    #[track_caller]
    pub fn ended(&self) -> String {
        let screen = self.shows(&["ended with "]);
        screen.rsplit_once("ended with ").unwrap().1.trim().to_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}
