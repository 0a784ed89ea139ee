//! One run of a job, and who may see it.

use khz_model::hostlist::Hostlist;
use serde::{Deserialize, Serialize};

/// A run of a job: its nodes, from its begin to its end. A job that was requeued has several, of the same id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The number of this run in the list; later ones have higher numbers.
    pub run: u64,
    /// What the batch system calls it.
    pub id: String,
    /// Another id, by which its users know it: that of a task of an array; empty: there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub alias: String,
    /// What its user calls it; empty: nobody has said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Whose it is; empty: nobody has said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The number of that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Its nodes, as a hostlist without wildcards.
    pub nodes: String,
    /// When it began (ms since 1970).
    pub begin: i64,
    /// When it ended (ms since 1970); `None`: it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<i64>,
    /// What came of it: `exit 0`, `exit 3`, `signal 9`, or `lost` if nobody has said that it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// How the list knows of it.
    #[serde(default)]
    pub source: Source,
}

/// How the list knows of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Somebody has started it.
    #[default]
    Told,
    /// Control groups of nodes have its id.
    Seen,
}

impl Source {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Source::Told => "told",
            Source::Seen => "seen",
        }
    }
}

impl Job {
    /// It has not ended.
    pub fn is_running(&self) -> bool {
        self.end.is_none()
    }

    /// True if it ran at some time after the one and up to the other (ms).
    pub fn ran_within(&self, after: i64, to: i64) -> bool {
        self.begin <= to && self.end.is_none_or(|end| end > after)
    }

    /// True if this is one of its nodes.
    pub fn has_node(&self, node: &str) -> bool {
        Hostlist::new(&self.nodes).is_ok_and(|nodes| nodes.matches(node))
    }

    /// The names of its nodes.
    pub fn node_names(&self) -> Vec<String> {
        Hostlist::new(&self.nodes).ok().and_then(|nodes| nodes.expand()).unwrap_or_default()
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.text_bytes()) as u64
    }

    /// Bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        let outcome = self.outcome.as_ref().map_or(0, String::len);
        2 * (self.id.len() + self.alias.len())
            + self.name.len()
            + self.user.len()
            + self.nodes.len()
            + outcome
    }
}

/// Whose jobs somebody may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Viewer {
    /// Those of all users.
    #[default]
    All,
    /// Those of one user, who has shown a name or a number.
    User {
        /// The name.
        name: Option<String>,
        /// The number.
        uid: Option<u32>,
    },
}

impl Viewer {
    /// Whether this one may see a job.
    pub fn sees(&self, job: &Job) -> bool {
        match self {
            Viewer::All => true,
            Viewer::User { name, uid } => {
                (uid.is_some() && *uid == job.uid)
                    || name.as_ref().is_some_and(|name| !name.is_empty() && *name == job.user)
            }
        }
    }
}
