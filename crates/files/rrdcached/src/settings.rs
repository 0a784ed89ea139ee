//! The daemon's settings, as its command line gives them, and their defaults.

use std::path::PathBuf;
use std::time::Duration;

use crate::cache::Limits;
use crate::connection::listen::Address;
use crate::connection::serve;
use crate::messages::Level;

/// How to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The sockets.
    pub listen: Vec<Address>,
    /// The log's directory; without it updates do not survive the process.
    pub log: Option<PathBuf>,
    /// How long an acknowledged update may be unsynced; zero syncs before each answer.
    pub window: Duration,
    /// Bytes the log may have.
    pub log_max: u64,
    /// When to write, and how much may wait.
    pub limits: Limits,
    /// Threads that write.
    pub writers: u32,
    /// Connections served at once.
    pub connections: usize,
    /// The base directory, for relative names.
    pub base: PathBuf,
    /// Whether every file must lie in it.
    pub confine: bool,
    /// Whether everything is written at the end, even with a log.
    pub always_write: bool,
    /// Whether the process stays in the foreground.
    pub foreground: bool,
    /// The file for the process's number.
    pub pid_file: Option<PathBuf>,
    /// The user it becomes, and that user's group.
    pub user: Option<(u32, u32)>,
    /// The group it becomes.
    pub group: Option<u32>,
    /// The file for messages.
    pub messages: Option<PathBuf>,
    /// The least grave level of messages that are written.
    pub level: Level,
    /// Warnings about the command line.
    pub warnings: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![],
            log: None,
            window: Duration::from_millis(10),
            log_max: 8 << 30,
            limits: Limits { open_max: 0, ..Limits::default() },
            writers: 4,
            connections: serve::CONNECTIONS,
            base: "/tmp".into(),
            confine: false,
            always_write: false,
            foreground: false,
            pid_file: None,
            user: None,
            group: None,
            messages: None,
            level: Level::ERROR,
            warnings: vec![],
        }
    }
}
