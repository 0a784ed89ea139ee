//! What follows if the gatherer panicked, or if somebody has removed, truncated or overwritten its rings. For lost rings, the
//! program restarts in the same process. Rings, link and hub treat that as a restart.

use std::os::unix::process::CommandExt;
use std::process::Command;

use khz_gather::Ending;

use crate::show::outcome::{Failure, Outcome};

/// Starts this program again in place of itself, or says why it ends. The agent must have been stopped before.
pub fn after(ending: Ending) -> Outcome {
    match ending {
        Ending::Panicked => {
            Err(Failure::work("the gatherer has ended unexpectedly; what it printed above says why"))
        }
        Ending::RingsLost => again("the rings were removed"),
    }
}

fn again(why: &str) -> Outcome {
    tracing::warn!("{why}: beginning again, with whole rings");
    let mut words = std::env::args_os();
    let mut again = Command::new("/proc/self/exe");
    if let Some(name) = words.next() {
        again.arg0(name);
    }
    // `exec` returns only if it failed.
    let error = again.args(words).exec();
    Err(Failure::work(format!("{why}, and the program cannot start itself again: {error}")))
}
