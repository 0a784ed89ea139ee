//! What somebody tells of a job: that it has started, or has ended. Checked here, before the list takes it.

use khz_model::NodeName;
use khz_model::fold::fold;
use khz_model::hostlist::Hostlist;
use serde::{Deserialize, Serialize};

use crate::error::JobError;
use crate::id::{check_id, name};
use crate::limits::{NODES_BYTES_MAX, NODES_MAX};

/// A job has started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The job. A request has it in its path.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Another id, by which its users know it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub alias: String,
    /// What its user calls it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The number of that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Its nodes, as a hostlist.
    pub nodes: String,
    /// These are nodes of it, and others may follow: the prolog of each node tells of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub add: bool,
    /// When it began (ms since 1970); `None`: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_ms: Option<i64>,
}

/// A job has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The job. A request has it in its path.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// When it ended (ms since 1970); `None`: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<i64>,
}

impl Start {
    /// Reads a start as a request has it.
    ///
    /// # Errors
    /// Says what is wrong, and where.
    pub fn from_json(text: &[u8]) -> Result<Self, JobError> {
        read(text)
    }

    /// The start as a request has it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("BUG: texts cannot be written as JSON")
    }

    /// The change with its nodes as they are kept.
    pub(crate) fn checked(self) -> Result<Self, JobError> {
        check_id(&self.id)?;
        if !self.alias.is_empty() {
            check_id(&self.alias)?;
        }
        time(self.begin_ms)?;
        let nodes = nodes(&self.id, &self.nodes)?;
        Ok(Start { name: name(&self.name), user: name(&self.user), nodes, ..self })
    }
}

impl End {
    /// Reads an end as a request has it; no text says only that it has ended.
    ///
    /// # Errors
    /// Says what is wrong, and where.
    pub fn from_json(text: &[u8]) -> Result<Self, JobError> {
        if text.is_empty() { Ok(End::default()) } else { read(text) }
    }

    /// The end as a request has it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("BUG: texts cannot be written as JSON")
    }

    /// The change as it is kept.
    pub(crate) fn checked(self) -> Result<Self, JobError> {
        check_id(&self.id)?;
        time(self.end_ms)?;
        let outcome = self.outcome.as_deref().map(name).filter(|outcome| !outcome.is_empty());
        Ok(End { outcome, ..self })
    }
}

fn time(ms: Option<i64>) -> Result<(), JobError> {
    ms.filter(|ms| *ms < 0).map_or(Ok(()), |ms| Err(JobError::Time(ms)))
}

fn read<T: for<'a> Deserialize<'a>>(text: &[u8]) -> Result<T, JobError> {
    serde_json::from_slice(text).map_err(|error| JobError::Unreadable(format!("the body is no job: {error}")))
}

/// A hostlist as it is kept.
pub(crate) fn nodes(id: &str, text: &str) -> Result<String, JobError> {
    let wrong = |problem: String| JobError::Nodes { id: id.to_owned(), problem };
    if text.len() > NODES_BYTES_MAX {
        return Err(wrong(format!("the hostlist has {} bytes, and at most {NODES_BYTES_MAX}", text.len())));
    }
    if text.is_empty() {
        return Err(wrong("there are none: name them, as node[1-8]".to_owned()));
    }
    let read = Hostlist::new(text)
        .map_err(|error| wrong(format!("{} (character {})", error.problem, error.at + 1)))?;
    if read.names().is_some_and(|names| names > NODES_MAX as u64) {
        return Err(wrong(format!("there are more than {NODES_MAX}")));
    }
    let names = read.expand().ok_or_else(|| wrong("write their names, without * and ?".to_owned()))?;
    for name in &names {
        NodeName::new(name).map_err(|error| wrong(error.problem.to_string()))?;
    }
    folded(id, &names)
}

/// Names as a hostlist that is not too long.
pub(crate) fn folded<S: AsRef<str>>(id: &str, names: &[S]) -> Result<String, JobError> {
    let wrong = |problem: String| JobError::Nodes { id: id.to_owned(), problem };
    let text = fold(names.iter().map(AsRef::as_ref));
    match (names.len() <= NODES_MAX, text.len() <= NODES_BYTES_MAX) {
        (true, true) => Ok(text),
        (false, _) => Err(wrong(format!("there are more than {NODES_MAX}"))),
        (_, false) => Err(wrong(format!("their hostlist has more than {NODES_BYTES_MAX} bytes"))),
    }
}
