//! Why a simulation cannot begin. Later failures of single connections are counted; they are no errors.

use std::net::SocketAddr;
use std::path::PathBuf;

use khz_block::BlockError;

/// Why a simulation cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The program contains no recording with this name.
    #[error(
        "there is no recording '{asked}': this program has {}; a path names a file (./{asked}.khzt), and --workloads DIR a \
         folder of others",
        crate::packed::workloads().collect::<Vec<_>>().join(", ")
    )]
    Workload {
        /// The name that was asked for.
        asked: String,
    },
    /// The file is no trace.
    #[error("{} is no recording: {source}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: BlockError,
    },
    /// The trace cannot be played.
    #[error("{} cannot be played: {problem}", path.display())]
    Unplayable {
        /// The file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// The file of faults is wrong.
    #[error("{}:{line}:{column}: {problem}", path.display())]
    Faults {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong, and what to write.
        problem: String,
    },
    /// A fault that no node has, or that no number would show.
    #[error("{place}a fault of kind {kind} at {nodes} would not show: {problem}")]
    NoSymptom {
        /// Where it is defined, with a colon and a space after it; empty: in no file.
        place: String,
        /// Its kind.
        kind: &'static str,
        /// Its nodes.
        nodes: String,
        /// Why not.
        problem: String,
    },
    /// More slots than a row can get.
    #[error("a row cannot have {asked} slots: with these recordings it can have {limit}")]
    Slots {
        /// How many were asked for.
        asked: usize,
        /// How many are possible.
        limit: usize,
    },
    /// Too many nodes, or none.
    #[error("{asked} nodes: there can be 1 to {limit}")]
    Nodes {
        /// How many were asked for.
        asked: usize,
        /// How many are possible.
        limit: usize,
    },
    /// The prefix makes no valid node name.
    #[error("'{prefix}' cannot begin a node's name: {problem}")]
    Prefix {
        /// The prefix.
        prefix: String,
        /// What is wrong.
        problem: String,
    },
    /// One connection for each node needs as many open files.
    #[error(
        "{needed} nodes need as many open files, and this process may have {hard}: raise the limit \
         (ulimit -Hn {needed}, LimitNOFILE= in a unit) or simulate fewer"
    )]
    Files {
        /// How many files are needed.
        needed: u64,
        /// The hard limit.
        hard: u64,
    },
    /// Connections cannot use the local address that was asked for.
    #[error("cannot connect to {hub}: {source}")]
    Bind {
        /// The hub.
        hub: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A hub beyond loopback, without TLS.
    #[error("{address}: {problem}")]
    Exposed {
        /// The hub.
        address: SocketAddr,
        /// Why not.
        problem: String,
    },
    /// The kernel refused a call that it usually never refuses.
    #[error("cannot simulate: {0}")]
    Kernel(#[from] std::io::Error),
}
