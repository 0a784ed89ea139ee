//! The configuration: default < file < environment < flag, each value with its origin.
//!
//! - `settings.rs` lists the settings. Everything else about a setting follows from its line there.
//! - `file.rs`, `flags.rs` and `layers.rs` read and merge the values as text.
//! - `plan.rs` checks them, with `actions.rs`, `addresses.rs`, `groups.rs`, `health.rs`, `jobs.rs`, `nodes.rs`, `notify.rs`, `remote.rs`, `rrd.rs`, `sinks.rs`, `sources.rs`, `trust.rs` and `values.rs`.
//! - `boards.rs` reads the files of boards.
//! - `places.rs` has the directories that khz uses without a setting.

use std::fmt;

mod actions;
pub mod addresses;
pub mod boards;
pub mod file;
pub mod flags;
pub mod foreign;
mod groups;
pub mod health;
pub mod jobs;
pub mod layers;
mod nodes;
pub mod notify;
pub mod places;
pub mod plan;
pub mod remote;
pub mod rrd;
pub mod secrets;
pub mod settings;
pub mod sinks;
pub mod sources;
pub mod trust;
mod values;

pub use flags::{AgentFlags, HubFlags, NodeFlags, ReaderFlags, StoreFlags};
pub use layers::Layers;
pub use plan::Plan;

/// The file that is read when no other is named; it may be missing.
pub const FILE: &str = "/etc/khz/khz.toml";

/// A setting's text and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// As written.
    pub text: String,
    /// Where it was written.
    pub origin: Origin,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// A line of the file, from 1.
    File {
        /// The file, as it was named.
        path: String,
        /// The line, from 1.
        line: usize,
    },
    /// The environment variable of that name.
    Variable(String),
    /// The flag of that name, without dashes.
    Flag(String),
}

/// The values of `[sources.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceValues {
    /// The source.
    pub name: String,
    /// Its own rate.
    pub rate: Option<Value>,
    /// Whether it is gathered at all.
    pub enabled: Option<Value>,
    /// Its share of one core.
    pub budget: Option<Value>,
    /// Where it is.
    pub path: Option<Value>,
    /// How many it shows.
    pub places: Option<Value>,
    /// What a source of the user's own is: what else its table has.
    pub own: Vec<(&'static str, Value)>,
}

/// The values of `[sinks.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkValues {
    /// The sink.
    pub name: String,
    /// Where the table begins.
    pub at: Origin,
    /// Its keys.
    pub keys: Vec<(String, Value)>,
}

/// The values of a table that names a server of somebody else: `[[remote_write]]` and `[engine]`, which has no labels and rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignValues {
    /// Where the table begins.
    pub at: Origin,
    /// Its keys with one value.
    pub keys: Vec<(String, Value)>,
    /// `labels`.
    pub labels: Vec<(String, Value)>,
    /// `headers`.
    pub headers: Vec<(String, Value)>,
    /// The keys of each rule of `relabel`.
    pub rules: Vec<Vec<(String, Value)>>,
}

impl Default for ForeignValues {
    fn default() -> Self {
        let none = Vec::new;
        ForeignValues {
            at: Origin::Default,
            keys: none(),
            labels: none(),
            headers: none(),
            rules: Vec::new(),
        }
    }
}

/// The tables below `[notify]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotifyValues {
    /// `[notify.labels]`.
    pub labels: Vec<(String, Value)>,
    /// `[[notify.alertmanager]]`.
    pub alertmanagers: Vec<ForeignValues>,
    /// `[notify.email]`.
    pub email: Option<ForeignValues>,
    /// `[[notify.webhook]]`.
    pub webhooks: Vec<ForeignValues>,
    /// `[[notify.exec]]`, each with its command.
    pub execs: Vec<(ForeignValues, Vec<String>)>,
}

/// An `[actions.NAME]` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionValues {
    /// Its name.
    pub name: String,
    /// What all actions have.
    pub values: ForeignValues,
    /// `exec`, `diagnose`, `checkpoint`, each with its command.
    pub programs: Vec<(String, Vec<String>)>,
    /// `drain`, `requeue`, `boost`, each with its keys.
    pub tables: Vec<(String, ForeignValues)>,
}

/// Why the configuration cannot be used. Each of these ends the program with exit code 2 before it starts anything.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's reason.
        reason: String,
    },
    /// Not TOML.
    #[error("{at}: not TOML: {problem}")]
    Syntax {
        /// File and line.
        at: Origin,
        /// The parser's reason.
        problem: String,
    },
    /// A key that no setting has.
    #[error("{at}: no setting is called '{key}'{hint}")]
    UnknownKey {
        /// File and line.
        at: Origin,
        /// The key.
        key: String,
        /// ` (did you mean ...?)`, or nothing.
        hint: String,
    },
    /// A value of the wrong type.
    #[error("{at}: {key} takes {expected}")]
    WrongType {
        /// File and line.
        at: Origin,
        /// The key.
        key: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A variable whose bytes are not UTF-8.
    #[error("{at}: the value is not UTF-8 text")]
    NotText {
        /// The variable.
        at: Origin,
    },
    /// The value cannot be used.
    #[error("{key} (from {at}): {problem}")]
    BadValue {
        /// Where the value was written.
        at: Origin,
        /// The setting's key.
        key: String,
        /// What is wrong, in one sentence.
        problem: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{path}:{line}"),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(name) => write!(f, "--{name}"),
        }
    }
}
