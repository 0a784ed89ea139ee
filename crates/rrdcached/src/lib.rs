//! The caching daemon for `.rrd` files, with rrdcached's protocol and a durable log, and the recorder on top of its cache.
//!
//! In the order of an update's way: a socket ([`connection`]) hands lines to a [`Session`], the [`Cache`] takes what they
//! say into memory and into the [`log`], and rounds bring it to the files ([`disk`]). [`daemon`] puts the parts together.
//!
//! Depends on `khz-rrd` for the files and their arithmetic, and on no other crate of ours.

mod base;
mod cache;
mod connection;
mod daemon;
mod disk;
pub mod log;
mod messages;
mod options;
mod process;
pub mod recorder;
mod settings;

pub use base::Base;
pub use cache::{Cache, End, Limits, Stats, Update, View};
pub use connection::{Next, Permissions, Rules, Session};
pub use messages::{Level, Messages, Sink};

/// The command, for [`khz_rrd::cli::run`].
pub const COMMAND: khz_rrd::cli::Command = khz_rrd::cli::Command {
    name: "rrdcached",
    arguments: "-l ADDRESS [-j LOGDIR] [-w SECONDS] [-t THREADS]\n[-b BASE [-B]] ... (-h tells all)",
    run,
};

/// The command `rrdcached` with its arguments; returns when the daemon has ended.
///
/// # Errors
/// What is wrong with the arguments, or why the daemon could not start.
pub fn run(arguments: &[String]) -> khz_rrd::Result<()> {
    if arguments.iter().any(|word| word == "-h" || word == "--help") {
        print!("{}", options::USAGE);
        return Ok(());
    }
    daemon::serve(&options::parse(arguments)?)
}
