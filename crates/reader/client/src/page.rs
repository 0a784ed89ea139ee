//! A snapshot in shared memory: the latest values of this machine's node without a system call.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_model::Pattern;
use khz_ring::{Latest, RingError, SNAPSHOT_FILE, SlotName, Snapshot, Unsettled};

use crate::place;

/// A mapped snapshot and the names of its slots.
///
/// ```no_run
/// let mut page = khz_client::Page::local()?;
/// let free = page.find("mem.free").expect("this kernel has it");
/// loop {
///     println!("{:?}", page.read(free)?);
///     # break;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Page {
    snapshot: Snapshot,
    names: Vec<SlotName>,
    node: Arc<str>,
    path: PathBuf,
}

impl Page {
    /// The snapshot of this machine's agent.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn local() -> Result<Self, RingError> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut found = place::snapshots();
        // If agents with several names have run here, prefers the one with the host's name.
        found.sort_by_key(|path| !path.parent().is_some_and(|folder| folder.ends_with(&host)));
        let usual = || place::snapshot_dirs()[0].join(host.as_str()).join(SNAPSHOT_FILE);
        Page::open(&found.into_iter().next().unwrap_or_else(usual))
    }

    /// The snapshot in this file.
    ///
    /// # Errors
    /// It cannot be read, or is no snapshot.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        let snapshot = Snapshot::open(path)?;
        let node = snapshot.label().node.as_str().into();
        Ok(Page { names: snapshot.names(), snapshot, node, path: path.into() })
    }

    /// The node's name.
    pub fn node(&self) -> &Arc<str> {
        &self.node
    }

    /// The names of the slots, in order, including slots that have appeared since.
    pub fn names(&mut self) -> &[SlotName] {
        if self.snapshot.slots() as usize > self.names.len() {
            self.names = self.snapshot.names();
        }
        &self.names
    }

    /// The slot with this name, such as `net.rx_bytes[eth0]`. Call it once for each name: a slot keeps its
    /// meaning.
    pub fn find(&mut self, name: &str) -> Option<u32> {
        self.names().iter().position(|known| known.name == name).map(|slot| slot as u32)
    }

    /// The slots that any of the patterns selects.
    pub fn select(&mut self, patterns: &[Pattern]) -> Vec<u32> {
        let names = self.names().iter().enumerate();
        let is_selected = |name: &SlotName| {
            let parsed = khz_model::SeriesName::parse(&name.name);
            parsed.is_ok_and(|series| {
                let instance = series.instance.as_ref();
                patterns.iter().any(|pattern| pattern.matches_series(&series.metric, instance))
            })
        };
        names.filter(|(_, name)| is_selected(name)).map(|(slot, _)| slot as u32).collect()
    }

    /// The latest value of a slot; `Ok(None)`: there is no such slot.
    ///
    /// # Errors
    /// No complete row could be read: the writer died while it wrote (open the file again), or never pauses.
    #[inline]
    pub fn read(&self, slot: u32) -> Result<Option<Latest>, Unsettled> {
        self.snapshot.read(slot)
    }

    /// True when its writer has ended; a new writer makes a new file.
    pub fn has_ended(&self) -> bool {
        self.snapshot.has_ended()
    }

    /// Why this is no longer the file at its path: its owner has cut the file short, or it was removed.
    /// Reading a part that was cut off ends this process with SIGBUS, unless it has called
    /// [`crate::survive_truncation`]. Makes a system call.
    pub fn problem(&self) -> Option<&'static str> {
        self.snapshot.problem()
    }

    /// Opens the same path again, for the file of the present writer; slots may have other numbers there.
    ///
    /// # Errors
    /// There is no such file at present.
    pub fn reopen(&mut self) -> Result<(), RingError> {
        *self = Page::open(&self.path)?;
        Ok(())
    }
}
