//! Keeps the roster: reads its file when the hub starts, before the thread exists. The thread writes the file when
//! nodes have come or gone, and now and then while one is up. A failure is only a warning; the next write tries again.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::entry::{State, head};
use super::file::{RosterError, RosterFile};
use crate::clock;
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::limits::{ROSTER_BYTES_A_SECOND, ROSTER_REFRESH_BYTES_A_SECOND};

/// Changes within this time are written together: agents come in hundreds.
const GATHERED: Duration = Duration::from_millis(200);
/// Time between two writes, at least; more if the file is large.
const APART: Duration = Duration::from_secs(2);
/// Time after a failure before the next try: a full disk stays full for a while.
const RETRY: Duration = Duration::from_secs(30);

/// The roster of a hub. Dropping it writes it once more, and ends.
#[derive(Debug)]
pub struct RosterKeeper {
    cluster: Arc<Cluster>,
    thread: Option<JoinHandle<()>>,
}

impl RosterKeeper {
    /// Takes in the nodes of earlier starts, and remembers nodes from now on. Damage of the file is logged, and the
    /// file put aside. While a node is up, the file is written again after the time `refresh`.
    ///
    /// # Errors
    /// The directory cannot be used; the hub goes on without.
    pub fn start(cluster: Arc<Cluster>, directory: &Path, refresh: Duration) -> Result<Self, RosterError> {
        let file = RosterFile::open(directory)?;
        let found = file.read()?;
        if let Some(damage) = &found.damage {
            let (kept, aside) = (found.entries.len(), file.aside());
            let more = match found.damages {
                0 | 1 => String::new(),
                all => format!(" (the first of {all} places)"),
            };
            tracing::error!(
                "{damage}{more}; the file is put aside as {}, and {kept} nodes that can be read are remembered",
                aside.display()
            );
        }
        let is_damaged = found.damage.is_some();
        cluster.remember(found.entries);
        let changes = cluster.changes.clone();
        let known = changes.seen().count;
        if is_damaged {
            changes.ring();
        }
        changes.kept();
        let writer = Writer { cluster: cluster.clone(), file, known, refresh, bytes: 0, has_failed: false };
        let thread = std::thread::Builder::new().name("roster".into()).spawn(move || writer.run());
        Ok(RosterKeeper { cluster, thread: Some(thread.map_err(RosterError::Thread)?) })
    }
}

impl Drop for RosterKeeper {
    fn drop(&mut self) {
        self.cluster.changes.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

struct Writer {
    cluster: Arc<Cluster>,
    file: RosterFile,
    /// The changes that are written.
    known: u64,
    /// The time between two writes without changes, if the file is not large.
    refresh: Duration,
    /// Bytes of the last write.
    bytes: u64,
    /// The last write failed, and the log says so.
    has_failed: bool,
}

impl Writer {
    fn run(mut self) {
        let changes = self.cluster.changes.clone();
        loop {
            let long = Duration::from_secs(self.bytes / ROSTER_REFRESH_BYTES_A_SECOND);
            let seen = changes.wait(self.known, self.refresh.max(long));
            if seen.stop {
                self.write();
                return;
            }
            if seen.count == self.known && !self.is_stale() {
                continue;
            }
            changes.pause(GATHERED);
            let pause = self.write();
            changes.pause(pause);
        }
    }

    /// Without changes: the last write failed, or a node was heard since then.
    fn is_stale(&self) -> bool {
        self.has_failed || self.cluster.entries().iter().any(|entry| entry.state == State::Up)
    }

    /// Writes the file. Returns how long the next write has to wait.
    fn write(&mut self) -> Duration {
        // Later changes are written the next time.
        self.known = self.cluster.changes.seen().count;
        let entries = self.cluster.entries();
        let mut text = head(&self.cluster.settings.name, clock::wall(), entries.len());
        entries.iter().for_each(|entry| text.push_str(&entry.line()));
        let written = self.file.write(&text);
        self.cluster.changes.tried(self.known, written.is_err());
        match written {
            Ok(()) => {
                if std::mem::take(&mut self.has_failed) {
                    tracing::info!("{}: nodes are remembered again", self.file.path().display());
                }
                self.bytes = text.len() as u64;
                APART.max(Duration::from_secs(self.bytes / ROSTER_BYTES_A_SECOND))
            }
            Err(error) => {
                Counts::add(&self.cluster.counts.roster_failures, 1);
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::warn!("nodes will not be remembered after the next start: {error}");
                }
                RETRY
            }
        }
    }
}
