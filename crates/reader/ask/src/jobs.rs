//! Jobs of a batch system, as a running hub knows them: listed, shown, started, ended.

use khz_model::http_names::JOBS_PATH;
use khz_model::{Nanos, moment};
use serde::{Deserialize, Serialize};

use crate::error::AskError;
use crate::server::{Server, percent_encoded};

/// A run of a job. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct JobAnswer {
    /// What the batch system calls it.
    pub id: String,
    /// Another id, by which its users know it; empty: there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub alias: String,
    /// The number of this run in the hub's list.
    pub run: u64,
    /// What its user calls it; empty: nobody has said.
    pub name: String,
    /// Whose it is; empty: nobody has said.
    pub user: String,
    /// The number of that user.
    pub uid: Option<u32>,
    /// Its nodes, as a hostlist.
    pub nodes: String,
    /// When it began.
    pub begin: String,
    /// When it ended; `None`: it runs.
    pub end: Option<String>,
    /// What came of it.
    pub outcome: Option<String>,
    /// How the hub knows of it: `told` or `seen`.
    pub source: String,
}

/// The jobs of a hub, the one that came last first.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct JobsAnswer {
    /// The jobs.
    pub jobs: Vec<JobAnswer>,
    /// They survive the end of the hub.
    pub kept: bool,
}

/// A job that was started or ended.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct JobChanged {
    /// The job.
    pub job: JobAnswer,
    /// Those of its nodes that the hub has never seen, as a hostlist.
    pub unknown: String,
    /// It failed, and its nodes were to be frozen: why they are not.
    #[serde(default)]
    pub unfrozen: Option<String>,
}

impl JobAnswer {
    /// When it began.
    pub fn begin_time(&self) -> Nanos {
        time(&self.begin)
    }

    /// When it ended; `None`: it runs.
    pub fn end_time(&self) -> Option<Nanos> {
        self.end.as_deref().map(time)
    }
}

/// A time that khz itself has written.
fn time(text: &str) -> Nanos {
    moment::read(text, Nanos(0), None).unwrap_or_default()
}

impl Server {
    /// The jobs that these parameters select (docs/http.md).
    ///
    /// # Errors
    /// See [`AskError`]; the same holds for every request.
    pub fn jobs(&self, parameters: &[(&str, String)]) -> Result<JobsAnswer, AskError> {
        self.only_at_hub()?;
        let pairs: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        self.get_json(&format!("{JOBS_PATH}?{}", pairs.join("&")))
    }

    /// The runs of a job, oldest first; at least one.
    pub fn job(&self, id: &str) -> Result<Vec<JobAnswer>, AskError> {
        self.only_at_hub()?;
        #[derive(Deserialize)]
        struct Runs {
            runs: Vec<JobAnswer>,
        }
        self.get_json(&path(id)).map(|runs: Runs| runs.runs)
    }

    /// Starts a job, given as JSON.
    pub fn start_job(&self, id: &str, start: &str) -> Result<JobChanged, AskError> {
        self.only_at_hub()?;
        self.put(&path(id), start)
    }

    /// Ends a job, given as JSON.
    pub fn end_job(&self, id: &str, end: &str) -> Result<JobChanged, AskError> {
        self.only_at_hub()?;
        self.put(&format!("{}?ended=1", path(id)), end)
    }
}

fn path(id: &str) -> String {
    format!("{JOBS_PATH}/{}", percent_encoded(id))
}
