//! The flags of `khz certs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use khz_model::NodeName;
use khz_trust::Role;

/// Examples for `khz certs --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz certs init                        a CA and a cluster key in /etc/khz/tls
  khz certs hub hub1 hub1.example 10.0.0.1
                                        the hub's certificate, for these names
  khz certs node n1                     a node's certificate
  khz certs token node n1               or, in its place, a token (one word)
  khz certs token operator alice > alice.token
  khz certs show                        the owner of each certificate, and how
                                        long it is valid

A certificate is valid for two years (--days changes this), the CA for ten
years. Only --force overwrites files.";

/// How long a certificate is valid by default: two years.
const DAYS: u32 = 730;
/// The CA is not valid for longer.
const DAYS_MAX: i64 = 3_650;

/// `khz certs`.
#[derive(Debug, Args)]
pub struct CertsFlags {
    /// What to make or show.
    #[command(subcommand)]
    pub command: CertsCommand,
}

/// The commands below `khz certs`.
#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// Make a CA (ca.pem, ca.key) and a cluster key (cluster.key).
    ///
    /// The CA is valid for ten years. ca.key and cluster.key stay here; ca.pem goes to every machine.
    Init {
        /// Where, and whether to overwrite.
        #[command(flatten)]
        place: Place,
    },
    /// Make a hub's certificate, for the names and addresses by which nodes and readers reach it.
    Hub {
        /// Name of the hub.
        #[arg(value_parser = name)]
        name: NodeName,
        /// DNS names and IP addresses [default: the hub's name].
        #[arg(value_name = "HOST")]
        hosts: Vec<String>,
        /// How long it is valid.
        #[command(flatten)]
        term: Term,
        /// Where, and whether to overwrite.
        #[command(flatten)]
        place: Place,
    },
    /// Make a node's certificate: it may send the rows of the node of that name.
    Node(Leaf),
    /// Make a reader's certificate: it may read, at most 100 times a second.
    Reader(Leaf),
    /// Make an operator's certificate: it may read at any rate.
    Operator(Leaf),
    /// Print the token of a role and name: as good as a certificate inside TLS, and one word.
    Token {
        /// node, reader, operator or hub.
        role: Role,
        /// Whose it is.
        #[arg(value_parser = name)]
        name: NodeName,
        /// Where the cluster key is.
        #[command(flatten)]
        folder: Folder,
    },
    /// List the certificates: whose they are, and how long they are valid.
    Show {
        /// Certificates (PEM); none means all in the folder.
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
        /// Where they are.
        #[command(flatten)]
        folder: Folder,
    },
}

/// A certificate for a client.
#[derive(Debug, Args)]
pub struct Leaf {
    /// Whose it is.
    #[arg(value_parser = name)]
    pub name: NodeName,
    /// How long it is valid.
    #[command(flatten)]
    pub term: Term,
    /// Where, and whether to overwrite.
    #[command(flatten)]
    pub place: Place,
}

/// How long a certificate is valid.
#[derive(Debug, Args)]
pub struct Term {
    /// Valid for this many days, at most as long as the CA.
    #[arg(long, value_name = "N", default_value_t = DAYS, value_parser = clap::value_parser!(u32).range(1..=DAYS_MAX))]
    pub days: u32,
}

/// Where files are written.
#[derive(Debug, Args)]
pub struct Place {
    /// The folder.
    #[command(flatten)]
    pub folder: Folder,
    /// Overwrite what is there.
    #[arg(long)]
    pub force: bool,
}

/// Where files are.
#[derive(Debug, Args)]
pub struct Folder {
    /// The folder [default: /etc/khz/tls; without privileges khz/tls below ~/.config or XDG_CONFIG_HOME].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

fn name(text: &str) -> Result<NodeName, String> {
    NodeName::new(text).map_err(|error| error.problem)
}
