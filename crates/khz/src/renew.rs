//! What follows when an agent cannot simply go on. One that is outworn starts itself again, in the same process: rings, link
//! and hub take that for a restart, which they are proved to survive, and it is the way to new slots.

use std::os::unix::process::CommandExt;
use std::process::Command;

use khz_gather::Ending;

use crate::outcome::{Failure, Outcome};

/// Starts this program again in place of itself, or says why it ends. The agent must have been stopped before.
pub fn after(ending: Ending) -> Outcome {
    match ending {
        Ending::Panicked => {
            Err(Failure::work("the gatherer has ended unexpectedly; what it printed above says why"))
        }
        Ending::Outworn => {
            tracing::warn!(
                "most of what was watched here is gone: beginning anew, so that it takes no memory"
            );
            let mut words = std::env::args_os();
            let mut again = Command::new("/proc/self/exe");
            if let Some(name) = words.next() {
                again.arg0(name);
            }
            // It comes back only where that failed.
            let error = again.args(words).exec();
            Err(Failure::work(format!(
                "most of what was watched here is gone, and the program cannot start itself anew without it: {error}"
            )))
        }
    }
}
