//! Recovery: takes the log of an earlier run into memory and puts headers back, while clients are already answered. Writes to a
//! file only samples that the file had before.

use khz_rrd::error::Result;

use super::Cache;
use super::backlog::Flags;
use super::effects::{Effects, Wake};
use super::images::Images;
use super::sample::{self, stamp};
use super::state::State;
use crate::disk::{HeaderImage, Restored};
use crate::log::{Left, Record, Records, Segment, WITHOUT_END};

/// Records taken in before other threads get the lock.
const TURN: usize = 2000;

/// Headers that could not be put back.
#[derive(Default)]
struct Failures {
    count: u64,
    /// The first one, in words.
    first: Option<String>,
}

impl Cache {
    /// Takes in what is `left` in the log. Until this is done no file is read or written.
    ///
    /// # Errors
    /// The log cannot be read; what was read before is kept in memory, and in the log.
    pub fn replay(&self, left: &Left) -> Result<()> {
        let mut images = Images::new(self.log.as_ref().map_or("", |log| log.boot()));
        let damage = left.replay(|segment, records| self.take_in(segment, records, &mut images));
        self.lock().merge_out_of_order(self.now());
        let (is_rebooted, sequence) = (images.is_any_unconditional(), images.sequence());
        let behind = self.restore(images, damage.as_ref().is_ok_and(Vec::is_empty));
        let waiting = self.end_replay(sequence, &behind, damage.is_err());
        if is_rebooted {
            self.checkpoint();
        }
        for text in damage? {
            self.messages.error(&text);
        }
        self.messages.info(&format!("the log is read: {waiting} updates wait"));
        Ok(())
    }

    fn take_in(&self, segment: Segment, records: &mut Records<'_>, images: &mut Images) {
        images.begin_segment();
        let mut is_end = false;
        while !is_end {
            let turn: Vec<Record<'_>> = records.take(TURN).collect();
            is_end = turn.len() < TURN;
            let now = self.now();
            let mut state = self.lock();
            for record in turn {
                match record {
                    Record::Update { file, samples } => state.take_in(file, samples, segment, now),
                    Record::Forget { file, from } => {
                        state.drop_from(file, from, now);
                        images.forget(file, from);
                    }
                    Record::Image { file, image } => images.keep(file, &image),
                    Record::Checkpoint { sequence } => images.checkpoint(sequence),
                    Record::Boot { id } => images.boot(id),
                }
            }
        }
    }

    /// Puts back the headers of all files that have images; returns the files that lack samples which they had.
    fn restore(&self, images: Images, is_log_whole: bool) -> Vec<String> {
        let (mut behind, mut failures) = (vec![], Failures::default());
        for (name, kept) in images.into_kept() {
            match self.files.restore(&name, &kept, is_log_whole, || self.samples_of(&name)) {
                Ok(Restored::Whole) => {}
                Ok(Restored::Behind) => behind.push(name),
                Ok(Restored::Left(why)) => {
                    self.messages.warning(&format!("{name} {why} and is left as it is"));
                }
                Err(error) => {
                    failures.count += 1;
                    failures.first.get_or_insert_with(|| format!("{name}: {error}"));
                    self.keep_torn(&name, kept);
                }
            }
        }
        if let Failures { count, first: Some(first) } = failures {
            self.messages.error(&format!(
                "{count} headers could not be put back and are tried again before their files are written: {first}"
            ));
        }
        behind
    }

    /// Remembers that the header of the file called `name` is to be put back, here and in the log.
    fn keep_torn(&self, name: &str, images: Vec<HeaderImage>) {
        let is_logged = images.iter().any(|image| image.sequence() == WITHOUT_END);
        if let Some(log) = self.log.as_ref().filter(|_| !is_logged) {
            let record =
                |image| Record::Image { file: name, image: HeaderImage::to_record(image, WITHOUT_END) };
            let staged = images.iter().try_for_each(|image| log.stage(&record(image)).map(|_| ()));
            if let Err(error) = staged {
                self.messages.error(&format!("{name}: its header could not be logged again: {error}"));
            }
        }
        self.lock().torn.insert(name, images);
    }

    /// Ends replay, so that clients can use the files. Queues the files that are `behind`; returns how many updates wait.
    fn end_replay(&self, sequence: u64, behind: &[String], is_log_unread: bool) -> u64 {
        let now = self.now();
        let mut effects = Effects { wake: Wake::All, ..Effects::changed() };
        let mut state = self.lock();
        state.writes.continue_after(sequence);
        effects.errors = self.take_deferred(&mut state, now);
        for id in behind.iter().filter_map(|name| state.backlog.find(name)).collect::<Vec<_>>() {
            let file = state.backlog.file(id);
            if file.count() > 0 && !file.is(Flags::QUEUED) {
                effects.wake(state.enqueue(id));
            }
        }
        if let (true, Some(log)) = (is_log_unread, &self.log) {
            // The unreadable part stays for another attempt.
            state.backlog.pin(log.oldest());
        }
        let waiting = state.waiting();
        drop(state);
        self.carry_out(effects);
        waiting
    }

    /// Ends replay, and takes the updates that clients sent meanwhile. Returns the messages for the administrator.
    fn take_deferred(&self, state: &mut State, now: u32) -> Vec<String> {
        let mut errors = vec![];
        let (deferred, newest) = state.replay.finish();
        for update in deferred {
            let mut last = state.backlog.file(update.id).newest();
            let (mut newer, mut old) = (vec![], 0u64);
            for sample in sample::each(&update.samples) {
                match stamp(sample) {
                    Some(stamp) if stamp > last => {
                        last = stamp;
                        newer.push(sample);
                    }
                    _ => old += 1,
                }
            }
            if old > 0 {
                state.counters.refused += old;
                let name = state.backlog.name(update.id);
                errors.push(format!("{name}: {old} updates are older than what the log had and are dropped"));
            }
            if !newer.is_empty() {
                state.backlog.append(update.id, &newer.join(" "), update.segment, now);
                let _ = state.enqueue_if_due(&self.limits, update.id, now);
            }
        }
        for (id, newest) in newest {
            state.backlog.raise_newest(id, newest);
        }
        errors
    }
}

impl State {
    /// Takes in an update from the log.
    fn take_in(&mut self, file: &str, samples: &str, segment: Segment, now: u32) {
        let Some(id) = self.backlog.find_or_add(file) else { return };
        self.backlog.set(id, Flags::REPLAYED, true);
        for sample in sample::each(samples) {
            match stamp(sample) {
                Some(stamp) if stamp > self.backlog.file(id).newest() => {
                    self.backlog.append(id, sample, Some(segment), now);
                }
                Some(stamp) => self.replay.out_of_order(id, segment, stamp, sample),
                None => {}
            }
        }
    }

    /// Puts what was found out of order where it belongs.
    fn merge_out_of_order(&mut self, now: u32) {
        for (id, found) in self.replay.take_out_of_order() {
            self.backlog.merge(id, found, now);
        }
    }

    /// Drops the samples of a file from the stamp `from` on.
    fn drop_from(&mut self, file: &str, from: i64, now: u32) {
        let Some(id) = self.backlog.find(file) else { return };
        self.replay.drop_from(id, from);
        self.backlog.drop_from(id, from, now);
    }
}
