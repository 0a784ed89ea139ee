//! Carrying: what cannot be written is logged again, so that the old segments it lies in can go; writes no file.
//!
//! One file that is gone, locked or suspended would otherwise keep the whole log from its oldest update on, until the
//! log is full and nothing is taken for any file.

use crate::image::Kept;
use crate::log::{Log, Ticket};
use crate::nodes::{Flags, Id};
use crate::packed::unpack;
use crate::pending::Pending;
use crate::record::{self, Entry, WITHOUT_END};
use crate::state::State;

/// Bytes of samples in one record.
const RECORD: usize = 1 << 15;
/// Bytes carried at one look: they are put together while nothing is taken.
const CARRIED_MAX: usize = 16 << 20;
/// What cannot be written must be less than this part of the log: copies of more would fill what they are to free.
const PART: u64 = 4;

/// Files whose samples were logged again.
struct Carried {
    /// Each with the segment it held before.
    files: Vec<(u32, Id)>,
    /// The segment that has them now.
    segment: u32,
    ticket: Ticket,
}

impl Pending {
    /// Logs again what cannot be written, the oldest first.
    pub(super) fn carry(&self) {
        // Where nothing goes, copies would only fill the log.
        let Some(log) = self.log.as_ref().filter(|log| log.kept().is_none()) else { return };
        let Some(carried) = self.stage_stuck(log) else { return };
        if let Err(error) = log.harden(carried.ticket) {
            // The old segments have them still, and stay.
            self.messages.error(&format!("what cannot be written could not be logged again: {error}"));
            return;
        }
        let mut state = self.lock();
        for (oldest, id) in carried.files {
            // Written, or forgotten, or more of it came back meanwhile: its hold is what it should be.
            if state.nodes[id].oldest != oldest {
                continue;
            }
            state.nodes[id].oldest = carried.segment;
            *state.holds.entry(carried.segment).or_default() += 1;
            // The old hold goes with the next checkpoint, as that of a file written.
            *state.queue.unsynced.entry(oldest).or_default() += 1;
        }
    }

    fn stage_stuck(&self, log: &Log) -> Option<Carried> {
        let state = self.lock();
        let segment = log.current();
        let mut files = state.stuck(segment);
        let bytes: u64 = files.iter().map(|(_, id)| state.logged_bytes(*id)).sum();
        files.sort_unstable();
        // Where others hold the oldest segment nothing would go, and copies would only fill the log.
        let first = state.holds.keys().next() == files.first().map(|(oldest, _)| oldest);
        if files.is_empty() || !first || bytes > log.bytes() / PART {
            return None;
        }
        let mut records = vec![];
        let whole = files.iter().position(|(_, id)| {
            let fits = records.len() < CARRIED_MAX;
            !fits || state.encode(*id, &mut records).is_none()
        });
        files.truncate(whole.unwrap_or(files.len()));
        (!files.is_empty()).then(|| Carried { files, segment, ticket: log.stage_all(&mut records) })
    }
}

impl State {
    /// Files that cannot be written and hold segments before `current`.
    fn stuck(&self, current: u32) -> Vec<(u32, Id)> {
        let stuck = |id: Id| {
            let node = &self.nodes[id];
            let stuck = node.is(Flags::FAILED) || node.is(Flags::SUSPENDED);
            let holds = !node.is(Flags::CLAIMED) && node.oldest != 0 && node.oldest < current;
            (stuck && holds).then_some((node.oldest, id))
        };
        self.nodes.ids().filter_map(stuck).collect()
    }

    /// About how many bytes of log a file's samples take: two a byte in memory.
    fn logged_bytes(&self, id: Id) -> u64 {
        let name = self.nodes.name(id);
        let images = self.torn.get(name).unwrap_or(&[]).iter().map(Kept::bytes).sum::<u64>();
        2 * u64::from(self.nodes[id].chain.length()) + name.len() as u64 + images
    }

    /// Appends the samples of a file to `records`; `None`, and nothing, where one does not fit a record.
    pub(super) fn encode(&self, id: Id, records: &mut Vec<u8>) -> Option<()> {
        let (file, before) = (self.nodes.name(id), records.len());
        // A header still to be put back is as good as samples.
        for image in self.torn.get(file).unwrap_or(&[]) {
            record::encode(&Entry::Image { file, image: image.image(WITHOUT_END) }, records).ok()?;
        }
        let mut bytes = vec![];
        self.cells.read(self.nodes[id].chain, &mut bytes);
        let mut samples = unpack(&bytes).peekable();
        while samples.peek().is_some() {
            let mut text = String::new();
            while let Some(sample) = samples.next_if(|_| text.len() < RECORD) {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(&sample);
            }
            if record::encode(&Entry::Update { file, samples: &text }, records).is_err() {
                records.truncate(before);
                return None;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::base::Base;
    use crate::log::tests::Small;
    use crate::log::{Log, Settings};
    use crate::messages::Messages;
    use crate::pending::{Limits, Update};
    use crate::queue::tests::file;

    /// A daemon's memory over the log in `dir`, with all of it taken in.
    fn started(dir: &Path, room: &Arc<AtomicU64>) -> Pending {
        let (log, left) = Log::open(Settings {
            directory: dir.join("log"),
            window: Duration::ZERO,
            bytes_max: 1 << 20,
            boot: "b".into(),
            storage: Arc::new(Small(room.clone())),
        })
        .unwrap();
        let limits = Limits { timeout: 3600, ..Limits::default() };
        let base = Base::new(dir, false).unwrap();
        let pending = Pending::new(base, limits, Some(log), true, Messages::none());
        pending.replay(&left).unwrap();
        pending
    }

    fn take(pending: &Pending, file: &str, samples: &str) {
        pending.update(&[Update { file, samples }]).remove(0).unwrap();
    }

    /// Two samples that cannot be written, in segments 1 and 2; `waits` has one in segment 2. The current one is 3.
    fn stuck(name: &str) -> (PathBuf, Arc<AtomicU64>, Pending, [String; 2]) {
        let dir = std::env::temp_dir().join(format!("khz-rrd-carry-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let room = Arc::new(AtomicU64::new(1 << 20));
        let pending = started(&dir, &room);
        let [stuck, waits, busy] = [0, 1, 2].map(|index| file(&dir, index));
        take(&pending, &stuck, "1000000300:1");
        for time in 1..100 {
            take(&pending, &busy, &format!("{}:1", 1_000_000_000 + time));
        }
        pending.flush(&busy).unwrap();
        pending.log.as_ref().unwrap().rotate().unwrap();
        take(&pending, &waits, "1000000300:1");
        take(&pending, &stuck, "1000000600:2");
        pending.log.as_ref().unwrap().rotate().unwrap();
        std::fs::rename(&stuck, dir.join("away")).unwrap();
        assert!(pending.flush(&stuck).is_err());
        (dir, room, pending, [stuck, waits])
    }

    #[test]
    fn what_is_carried_lets_old_segments_go_and_is_found_again_in_its_order() {
        let (dir, room, pending, [stuck, waits]) = stuck("order");
        pending.carry();
        pending.checkpoint();
        // `waits` holds the second, in which the stuck file's second sample lies in front of its first in the third.
        assert_eq!(pending.log.as_ref().unwrap().oldest(), 2);
        drop(pending);
        let pending = started(&dir, &room);
        assert_eq!(pending.pending(&stuck).unwrap(), ["1000000300:1", "1000000600:2"]);
        assert_eq!(pending.pending(&waits).unwrap(), ["1000000300:1"]);
        assert_eq!(pending.stats().0.waiting, 3);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_forgotten_after_it_was_carried_stays_forgotten() {
        let (dir, room, pending, [stuck, _]) = stuck("forgotten");
        pending.carry();
        pending.forget(&stuck).unwrap();
        drop(pending);
        assert_eq!(started(&dir, &room).pending(&stuck), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn segments_stay_where_their_samples_could_not_be_logged_again() {
        let (dir, room, pending, [stuck, waits]) = stuck("full");
        room.store(0, Ordering::Relaxed);
        pending.carry();
        // Whoever comes next must not take what was staged down with him.
        assert!(pending.update(&[Update { file: &waits, samples: "1000000600:1" }]).remove(0).is_err());
        room.store(1 << 20, Ordering::Relaxed);
        pending.checkpoint();
        drop(pending);
        let pending = started(&dir, &room);
        assert_eq!(pending.pending(&stuck).unwrap(), ["1000000300:1", "1000000600:2"]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
