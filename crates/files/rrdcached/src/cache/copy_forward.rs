//! Copying forward: samples that cannot be written are logged again, so that their old segments can go. It writes no file.
//!
//! One file that is gone, locked or suspended would otherwise keep the whole log from its oldest update on, until the
//! log is full and nothing is taken for any file.

use super::Cache;
use super::backlog::{FileId, Flags};
use super::state::State;
use crate::disk::HeaderImage;
use crate::log::{self, Log, Record, Segment, Ticket, WITHOUT_END};

/// Bytes of samples in one record.
const RECORD: usize = 1 << 15;
/// Bytes copied at once: nothing is taken while they are put together.
const COPIED_MAX: usize = 16 << 20;
/// Files are copied only if they take less than this part of the log. More would fill the room that the copy must free.
const PART: u64 = 4;

/// A file that cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stuck {
    /// The segment that it pins.
    segment: Segment,
    id: FileId,
}

/// Files whose samples were logged again.
struct Copied {
    files: Vec<Stuck>,
    /// The segment that has them now.
    segment: Segment,
    ticket: Ticket,
}

impl Cache {
    /// Logs again what cannot be written, the oldest first.
    pub(super) fn copy_forward(&self) {
        // Where no segment goes, copies would only fill the log.
        let Some(log) = self.log.as_ref().filter(|log| log.kept().is_none()) else { return };
        let Some(copied) = self.stage_stuck(log) else { return };
        if let Err(error) = log.sync_up_to(copied.ticket) {
            // The old segments still have them, and stay.
            self.messages.error(&format!("what cannot be written could not be logged again: {error}"));
            return;
        }
        let mut state = self.lock();
        for Stuck { segment, id } in copied.files {
            state.backlog.copied(id, segment, copied.segment);
        }
    }

    fn stage_stuck(&self, log: &Log) -> Option<Copied> {
        let state = self.lock();
        let segment = log.current();
        let mut files = state.stuck(segment);
        let bytes: u64 = files.iter().map(|stuck| state.log_bytes(stuck.id)).sum();
        // Where another file pins the oldest segment, it would stay, and copies would only fill the log.
        let pins_oldest = state.backlog.oldest_segment() == files.first().map(|stuck| stuck.segment);
        if files.is_empty() || !pins_oldest || bytes > log.bytes() / PART {
            return None;
        }
        let mut records = vec![];
        let fits = |stuck: &Stuck, records: &mut Vec<u8>| {
            records.len() < COPIED_MAX && state.encode(stuck.id, records).is_some()
        };
        let count = files.iter().position(|stuck| !fits(stuck, &mut records));
        files.truncate(count.unwrap_or(files.len()));
        (!files.is_empty()).then(|| Copied { files, segment, ticket: log.stage_all(&mut records) })
    }
}

impl State {
    /// Files that cannot be written and pin segments before `current`, the oldest first.
    fn stuck(&self, current: Segment) -> Vec<Stuck> {
        let stuck = |id: FileId| {
            let file = self.backlog.file(id);
            let is_stuck = file.is(Flags::FAILED) || file.is(Flags::SUSPENDED);
            let segment = file.segment().filter(|segment| *segment < current)?;
            (is_stuck && !file.is(Flags::CLAIMED)).then_some(Stuck { segment, id })
        };
        let mut files: Vec<Stuck> = self.backlog.ids().filter_map(stuck).collect();
        files.sort_unstable();
        files
    }

    /// About how many bytes of log a file's samples and images take.
    fn log_bytes(&self, id: FileId) -> u64 {
        let images = self.torn.get(self.backlog.name(id)).unwrap_or(&[]);
        self.backlog.log_bytes(id) + images.iter().map(HeaderImage::bytes).sum::<u64>()
    }

    /// Appends what waits for a file to `records`; `None`, and nothing, where a sample does not fit a record.
    pub(super) fn encode(&self, id: FileId, records: &mut Vec<u8>) -> Option<()> {
        let (file, before) = (self.backlog.name(id), records.len());
        // A header still to be put back waits, too.
        for image in self.torn.get(file).unwrap_or(&[]) {
            log::encode(&Record::Image { file, image: image.to_record(WITHOUT_END) }, records).ok()?;
        }
        let samples = self.backlog.samples(id);
        let mut samples = samples.iter().peekable();
        while samples.peek().is_some() {
            let mut text = String::new();
            while let Some(sample) = samples.next_if(|_| text.len() < RECORD) {
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(sample);
            }
            if log::encode(&Record::Update { file, samples: &text }, records).is_err() {
                records.truncate(before);
                return None;
            }
        }
        Some(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::super::rounds::tests::file;
    use super::super::{Limits, Update};
    use super::*;
    use crate::base::Base;
    use crate::log::tests::Small;
    use crate::log::{Left, Settings};
    use crate::messages::Messages;

    /// A daemon's memory over the log in `dir`, and what an earlier run left there.
    pub fn opened(dir: &Path, room: &Arc<AtomicU64>, limits: Limits, messages: Messages) -> (Cache, Left) {
        let (log, left) = Log::open(Settings {
            directory: dir.join("log"),
            window: Duration::ZERO,
            bytes_max: 1 << 20,
            boot: "b".into(),
            storage: Arc::new(Small(room.clone())),
        })
        .unwrap();
        (Cache::new(Base::new(dir, false).unwrap(), limits, Some(log), true, messages), left)
    }

    /// The same with all of it taken in.
    pub fn started(dir: &Path, room: &Arc<AtomicU64>) -> Cache {
        let limits = Limits { timeout: 3600, ..Limits::default() };
        let (cache, left) = opened(dir, room, limits, Messages::none());
        cache.replay(&left).unwrap();
        cache
    }

    pub fn take(cache: &Cache, file: &str, samples: &str) {
        cache.update(&[Update { file, samples }]).remove(0).unwrap();
    }

    /// Two samples that cannot be written, in segments 1 and 2; `waits` has one in segment 2. The current one is 3.
    fn stuck(name: &str) -> (PathBuf, Arc<AtomicU64>, Cache, [String; 2]) {
        let dir = std::env::temp_dir().join(format!("khz-rrd-copy-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let room = Arc::new(AtomicU64::new(1 << 20));
        let cache = started(&dir, &room);
        let [stuck, waits, busy] = [0, 1, 2].map(|index| file(&dir, index));
        take(&cache, &stuck, "1000000300:1");
        for time in 1..100 {
            take(&cache, &busy, &format!("{}:1", 1_000_000_000 + time));
        }
        cache.flush(&busy).unwrap();
        cache.log.as_ref().unwrap().rotate().unwrap();
        take(&cache, &waits, "1000000300:1");
        take(&cache, &stuck, "1000000600:2");
        cache.log.as_ref().unwrap().rotate().unwrap();
        std::fs::rename(&stuck, dir.join("away")).unwrap();
        assert!(cache.flush(&stuck).is_err());
        (dir, room, cache, [stuck, waits])
    }

    #[test]
    fn what_is_copied_forward_lets_old_segments_go_and_is_found_again_in_its_order() {
        let (dir, room, cache, [stuck, waits]) = stuck("order");
        cache.copy_forward();
        cache.checkpoint();
        // `waits` pins the second segment, which has the stuck file's second sample; its first is now in the third.
        assert_eq!(cache.log.as_ref().unwrap().oldest(), Segment::new(2).unwrap());
        drop(cache);
        let cache = started(&dir, &room);
        assert_eq!(cache.pending(&stuck).unwrap(), ["1000000300:1", "1000000600:2"]);
        assert_eq!(cache.pending(&waits).unwrap(), ["1000000300:1"]);
        assert_eq!(cache.stats().waiting, 3);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_forgotten_after_it_was_copied_forward_stays_forgotten() {
        let (dir, room, cache, [stuck, _]) = stuck("forgotten");
        cache.copy_forward();
        cache.forget(&stuck).unwrap();
        drop(cache);
        assert_eq!(started(&dir, &room).pending(&stuck), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn segments_stay_where_their_samples_could_not_be_logged_again() {
        let (dir, room, cache, [stuck, waits]) = stuck("full");
        room.store(0, Ordering::Relaxed);
        cache.copy_forward();
        // A failed update must not take down what was staged before it.
        assert!(cache.update(&[Update { file: &waits, samples: "1000000600:1" }]).remove(0).is_err());
        room.store(1 << 20, Ordering::Relaxed);
        cache.checkpoint();
        drop(cache);
        let cache = started(&dir, &room);
        assert_eq!(cache.pending(&stuck).unwrap(), ["1000000300:1", "1000000600:2"]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
