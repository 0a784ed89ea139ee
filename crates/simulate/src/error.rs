//! Why a simulation cannot begin. What happens to single connections later is counted, not an error.

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
    /// No recording of this name is part of the program.
    #[error(
        "there is no recording '{asked}': this program has {}; a path names a file (./{asked}.khzt), and --workloads DIR a \
         folder of others",
        crate::packed::workloads().collect::<Vec<_>>().join(", ")
    )]
    Workload {
        /// What was asked for.
        asked: String,
    },
    /// It is no trace.
    #[error("{} is no recording: {source}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: BlockError,
    },
    /// It is a trace that cannot be played.
    #[error("{} cannot be played: {problem}", path.display())]
    Unplayable {
        /// The file.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// More slots than a row can get.
    #[error("a row cannot have {asked} slots: it can be {limit} of these recordings")]
    Slots {
        /// Wanted.
        asked: usize,
        /// At most.
        limit: usize,
    },
    /// Too many nodes, or none.
    #[error("{asked} nodes: it can be 1 to {limit}")]
    Nodes {
        /// Wanted.
        asked: usize,
        /// At most.
        limit: usize,
    },
    /// A name that no node can have.
    #[error("'{prefix}' cannot begin a node's name: {problem}")]
    Prefix {
        /// The beginning.
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
        /// Needed.
        needed: u64,
        /// The hard limit.
        hard: u64,
    },
    /// Connections cannot go out from the local address that was asked for.
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
    /// The kernel refused something that it never refuses.
    #[error("cannot simulate: {0}")]
    Kernel(#[from] std::io::Error),
}
