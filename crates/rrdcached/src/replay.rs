//! What an earlier run left in its log, taken into memory while clients are already answered; writes no updates.
//!
//! An update that comes meanwhile waits until all older ones are in, because samples of a file only go forward.

use std::collections::BTreeMap;

use crate::left::Left;
use crate::nodes::Flags;
use crate::packed::unpack;
use crate::pending::Pending;
use crate::record::{Entry, Records};
use crate::restore::Images;
use crate::stamp::stamp;
use crate::state::State;
use khz_rrd::error::Result;

/// Records taken in before others get at the state.
const TURN: usize = 2000;

impl Pending {
    /// Takes in what is `left` in the log. Until it is done no file is read or written.
    ///
    /// # Errors
    /// The log cannot be read; what was read before is kept in memory, and in the log.
    pub fn replay(&self, left: &Left) -> Result<()> {
        let mut images = Images::new(self.log.as_ref().map_or("", |log| log.boot()));
        let damage = left.replay(|segment, records| self.take_in(segment, records, &mut images));
        self.lock().take_early(self.now());
        let restored = self.restore(images, damage.as_ref().is_ok_and(Vec::is_empty));
        let mut state = self.lock();
        state.queue.epoch = restored.sequence + 1;
        self.take_later(&mut state);
        state.replaying = false;
        self.enqueue_restored(&mut state, &restored.behind);
        if damage.is_err()
            && let Some(log) = &self.log
        {
            // What could not be read stays, for a better day.
            *state.holds.entry(log.oldest()).or_default() += 1;
        }
        self.tell(&state);
        let waiting = state.stats.waiting;
        drop(state);
        self.work.notify_all();
        if restored.rebooted {
            self.checkpoint();
        }
        for text in damage? {
            self.messages.error(&text);
        }
        self.messages.info(&format!("the log is read: {waiting} updates wait"));
        Ok(())
    }

    fn take_in(&self, segment: u32, records: &mut Records<'_>, images: &mut Images) {
        images.begin();
        let mut end = false;
        while !end {
            let turn: Vec<Entry<'_>> = records.take(TURN).collect();
            end = turn.len() < TURN;
            let now = self.now();
            let mut state = self.lock();
            for entry in turn {
                match entry {
                    Entry::Update { file, samples } => state.take_in(file, samples, segment, now),
                    Entry::Forget { file, from } => {
                        state.forget_from(file, from, now);
                        images.forget(file, from);
                    }
                    Entry::Image { file, image } => images.keep(file, &image),
                    Entry::Checkpoint { sequence } => images.checkpoint(sequence),
                    Entry::Boot { id } => images.boot(id),
                }
            }
        }
    }

    /// Queues files whose headers were put back: until they are written they lack what they had.
    fn enqueue_restored(&self, state: &mut State, files: &[String]) {
        for id in files.iter().filter_map(|name| state.nodes.find(name)).collect::<Vec<_>>() {
            let node = &state.nodes[id];
            if node.count > 0 && !node.is(Flags::QUEUED) {
                self.enqueue(state, id);
            }
        }
    }

    /// What came meanwhile.
    fn take_later(&self, state: &mut State) {
        let now = self.now();
        for (id, samples, segment) in std::mem::take(&mut state.later) {
            let mut last = state.nodes[id].last;
            let (mut newer, mut old) = (vec![], 0);
            for sample in samples.split(' ').filter(|sample| !sample.is_empty()) {
                match stamp(sample) {
                    Some(stamp) if stamp > last => {
                        last = stamp;
                        newer.push(sample);
                    }
                    _ => old += 1,
                }
            }
            state.stats.waiting = state.stats.waiting.saturating_sub((newer.len() + old) as u64);
            if old > 0 {
                state.stats.refused += old as u64;
                let name = state.nodes.name(id);
                self.messages
                    .error(&format!("{name}: {old} updates are older than what the log had and are dropped"));
            }
            if !newer.is_empty() {
                state.append(id, &newer.join(" "), segment, now);
                self.queue_if_due(state, id, now);
            }
        }
        for (id, last) in std::mem::take(&mut state.later_last) {
            let node = &mut state.nodes[id];
            if last > node.last {
                node.last = last;
                node.set(Flags::PACKED, false);
            }
        }
    }
}

impl State {
    fn take_in(&mut self, file: &str, samples: &str, segment: u32, now: u32) {
        let Some(id) = self.nodes.find_or_make(file) else { return };
        let mut last = self.nodes[id].last;
        self.nodes[id].set(Flags::REPLAYED, true);
        for sample in samples.split(' ') {
            match stamp(sample) {
                Some(stamp) if stamp > last => {
                    last = stamp;
                    self.append(id, sample, segment, now);
                }
                // Logged again, because it could not be written; its first place may be gone.
                Some(stamp) => {
                    let early = self.early.entry(id).or_insert((segment, BTreeMap::new()));
                    early.1.insert(stamp, sample.into());
                }
                None => {}
            }
        }
    }

    /// Puts what was logged again where it belongs; what is there already counts once.
    fn take_early(&mut self, now: u32) {
        for (id, (segment, mut samples)) in std::mem::take(&mut self.early) {
            let taken = self.take_out(id);
            self.stats.waiting = self.stats.waiting.saturating_sub(u64::from(taken.count));
            // Whatever is packed next is told from it.
            self.nodes[id].last = i64::MIN;
            samples.extend(unpack(&taken.bytes).filter_map(|sample| Some((stamp(&sample)?, sample))));
            for sample in samples.values() {
                self.append(id, sample, if taken.oldest == 0 { segment } else { taken.oldest }, now);
            }
            self.let_go(taken.oldest);
        }
    }

    /// Drops the samples that wait for a file from a stamp on.
    fn forget_from(&mut self, file: &str, from: i64, now: u32) {
        let Some(id) = self.nodes.find(file) else { return };
        if let Some(early) = self.early.get_mut(&id) {
            early.1.retain(|stamp, _| *stamp < from);
        }
        let taken = self.take_out(id);
        self.stats.waiting = self.stats.waiting.saturating_sub(u64::from(taken.count));
        let kept: Vec<String> =
            unpack(&taken.bytes).filter(|sample| stamp(sample).is_some_and(|stamp| stamp < from)).collect();
        self.nodes[id].last = i64::MIN;
        if !kept.is_empty() {
            self.append(id, &kept.join(" "), taken.oldest, now);
        }
        self.let_go(taken.oldest);
    }
}
