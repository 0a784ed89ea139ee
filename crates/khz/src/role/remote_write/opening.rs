//! The cursors of a receiver when its thread begins. A damaged file of one receiver must not keep the hub from starting. The other
//! receivers go on, and this one waits until the file is repaired or removed.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use khz_remote::write::{Counts, CursorError, Cursors, Topic, World};

use super::Daemon;
use crate::role::store::now;
use crate::show::outcome::sentence;

/// How often an unreadable file is tried again.
const LOOKED_AGAIN: Duration = Duration::from_secs(10);

/// The cursors of a receiver in this folder, or why there are none yet.
pub struct Opening(Result<Cursors, CursorError>);

impl Opening {
    /// Opens the cursors. It is an error only if another process uses them: two senders would send everything twice.
    pub fn of(folder: &Path, name: &str) -> Result<Self, CursorError> {
        match Cursors::open(folder, name, now()) {
            Err(error @ CursorError::InUse { .. }) => Err(error),
            tried => Ok(Opening(tried)),
        }
    }

    /// Waits until the cursors are readable, and logs why they are not; `None`: the daemon ends.
    pub(super) fn wait(self, folder: &Path, world: &Daemon, counts: &Counts) -> Option<Cursors> {
        let (begin, mut tried) = (now(), self.0);
        loop {
            match tried {
                Ok(cursors) => return Some(cursors),
                Err(error) => {
                    let problem = sentence(&error);
                    world.tell(
                        Topic::Store,
                        &format!("nothing is sent to this receiver: {problem} (khz looks again)"),
                    );
                }
            }
            world.pause(LOOKED_AGAIN);
            if world.is_over.load(Ordering::Acquire) {
                return None;
            }
            counts.waits_since(begin, now());
            tried = Cursors::open(folder, &world.name, now());
        }
    }
}
