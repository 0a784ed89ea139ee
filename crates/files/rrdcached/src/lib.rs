//! The caching daemon for `.rrd` files, with rrdcached's protocol and a durable log, and the recorder on top of its cache.
//!
//! | module | in the order of an update's way |
//! |---|---|
//! | `daemon`, `options`, `settings`, `process` | the process: command line, threads, signals |
//! | `connection` | sockets, sessions, commands, answers |
//! | `cache` | what waits in memory; when it is written |
//! | [`log`] | the durable log |
//! | `disk` | work on `.rrd` files: writing, images of headers, putting them back |
//! | [`recorder`] | series into files, through the same cache |
//!
//! Depends on `khz-rrd` for the files and their arithmetic, and on no other crate of ours.

#![deny(unsafe_code)]

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
    arguments: "-l ADDRESS [-j LOGDIR] [-w SECONDS] [-t THREADS]\n[-b BASE [-B]] ... (-h lists all)",
    run,
};

/// The command `rrdcached` with its arguments; returns when the daemon has ended.
///
/// # Errors
/// An error in the arguments, or the reason why the daemon could not start.
pub fn run(arguments: &[String]) -> khz_rrd::Result<()> {
    if arguments.iter().any(|word| word == "-h" || word == "--help") {
        // Who does not read it does not want it.
        let _ = std::io::Write::write_all(&mut std::io::stdout(), options::USAGE.as_bytes());
        return Ok(());
    }
    daemon::serve(&options::parse(arguments)?)
}
