//! The actions of the configuration. The program checks the texts; here they are typed.

use std::path::PathBuf;
use std::time::Duration;

/// All actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// In the order of the configuration. Their names differ.
    pub actions: Vec<Action>,
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Its name, by which alerts ask for it.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// It only writes down what it would do.
    pub dry_run: bool,
    /// The label of an alert that names the node.
    pub node_label: String,
    /// How long one of its commands may run.
    pub timeout: Duration,
    /// How often it is tried again when it fails.
    pub retries: u32,
    /// The time before it is tried again.
    pub retry_after: Duration,
    /// The shortest time between two runs on one node.
    pub cooldown: Duration,
    /// The most runs within an hour, on all nodes together.
    pub per_hour: u32,
}

/// What an action does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Runs a program.
    Exec(Vec<String>),
    /// Runs a program, and keeps its output.
    Diagnose(Vec<String>),
    /// Runs a program that saves the work of a node.
    Checkpoint(Vec<String>),
    /// Tells Slurm to give a node no more work.
    Drain(Slurm),
    /// Tells Slurm to put the jobs of a node back into their queue.
    Requeue(Slurm),
    /// Makes the node sample faster for a while.
    Boost(Boost),
    /// Makes nodes keep the rows around now.
    Freeze(Freeze),
}

/// How khz talks to Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slurm {
    /// Its program of this name.
    pub scontrol: String,
    /// The same.
    pub squeue: String,
    /// Its configuration file, if it is not in the default place.
    pub conf: Option<PathBuf>,
    /// Slurm knows nodes without their domain.
    pub strips_domain: bool,
    /// The reason that Slurm gets; `None`: the alert's name and summary.
    pub reason: Option<String>,
}

/// What is sampled faster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boost {
    /// Series, without nodes.
    pub series: Vec<String>,
    /// How often they are sampled.
    pub rate: khz_model::Rate,
    /// For how long.
    pub lasts: Duration,
}

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// The nodes, as a hostlist with globs; `None`: the node of the alert.
    pub nodes: Option<String>,
    /// How long before now the rows begin.
    pub before: Duration,
    /// How long after now the rows end.
    pub after: Duration,
}

impl Kind {
    /// The configuration's word for it.
    pub const fn word(&self) -> &'static str {
        match self {
            Kind::Exec(_) => "exec",
            Kind::Diagnose(_) => "diagnose",
            Kind::Checkpoint(_) => "checkpoint",
            Kind::Drain(_) => "drain",
            Kind::Requeue(_) => "requeue",
            Kind::Boost(_) => "boost",
            Kind::Freeze(_) => "freeze",
        }
    }
}

impl Settings {
    /// The number of the action with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.actions.iter().position(|action| action.name == name)
    }

    /// The names, with commas; `none` if there are none.
    pub fn known(&self) -> String {
        if self.actions.is_empty() {
            return "none".to_owned();
        }
        self.actions.iter().map(|action| action.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}
