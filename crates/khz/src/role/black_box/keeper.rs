//! The thread of a black box. It takes the answers and rows of nodes, writes them, and ends each freeze when nothing more comes. It
//! sleeps while there is no freeze.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use khz_hub::{FrozenNews, Unasked};
use khz_link::freeze::{Frozen, FrozenState};
use khz_model::{Nanos, NodeName};
use khz_record::RecordError;

use super::entry::{self, Entry, NodeState};
use super::running::Running;
use super::shelf::LISTED_MAX;
use super::writing::Writing;
use super::{Shared, since_boot};
use crate::show::outcome::sentence;
use crate::show::quantities::of_bytes;

/// How often the thread checks a running freeze.
const TICK: Duration = Duration::from_secs(1);
/// How long a freeze waits for a node that sends nothing. A node that is down may return within this time, and still have the rows.
const AWAITED: Duration = Duration::from_secs(60);

/// What the thread hears.
pub enum Message {
    /// Of nodes.
    News(FrozenNews),
    /// Somebody has removed this running freeze.
    Removed(u64),
    /// The hub ends.
    End,
}

/// If a turn of the thread takes longer than this, the hub was stopped, or waited for its disk.
const STOOD_STILL: Duration = Duration::from_secs(5);

/// Works until the hub ends. It fetches the missing rows after its next start.
pub fn run(shared: &Shared, queue: &Receiver<Message>) {
    let mut keeper = Keeper::new(shared);
    keeper.count_bytes();
    let mut turned = Instant::now();
    loop {
        keeper.turned(std::mem::replace(&mut turned, Instant::now()).elapsed());
        // Do not hold the lock while waiting.
        let is_idle = shared.state().running.is_empty();
        let message = match is_idle {
            true => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => queue.recv_timeout(TICK),
        };
        match message {
            Ok(Message::News(news)) => keeper.take(news),
            Ok(Message::Removed(number)) => keeper.removed(number),
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if keeper.ticked.elapsed() >= TICK {
            keeper.tick();
        }
    }
    // Half a recording would look like a whole one. Its nodes still keep the rows.
    keeper.writings.into_values().for_each(Writing::discard);
}

struct Keeper<'a> {
    shared: &'a Shared,
    /// By the number of the freeze.
    writings: BTreeMap<u64, Writing>,
    ticked: Instant,
    /// The last warning. A disk that is full for an hour causes one line.
    said: String,
}

impl<'a> Keeper<'a> {
    fn new(shared: &'a Shared) -> Self {
        Keeper { shared, writings: BTreeMap::new(), ticked: Instant::now(), said: String::new() }
    }

    /// Notes how long a turn has taken. A hub that stood still has not waited for its nodes.
    fn turned(&self, took: Duration) {
        if took >= STOOD_STILL {
            let now = Instant::now();
            self.shared.state().running.values_mut().for_each(|running| running.moved = now);
        }
    }

    fn take(&mut self, news: FrozenNews) {
        match news {
            FrozenNews::Asked { number, unasked } => self.asked(number, unasked),
            FrozenNews::Answer { node, frozen, up_longer } => self.answered(&node, &frozen, up_longer),
            FrozenNews::Again { number } => self.comes_again(number),
            FrozenNews::Whole { number, .. } if self.is_wasted(number) => {}
            FrozenNews::Whole { number, node } => self.whole(number, &node),
            FrozenNews::Lane { ref key, .. }
            | FrozenNews::Schema { ref key, .. }
            | FrozenNews::Block { ref key, .. }
            | FrozenNews::Lost { ref key, .. } => {
                let number = key.number;
                if !self.is_wasted(number) {
                    self.write(number, news);
                }
            }
        }
    }

    /// Notes that some nodes could not be asked. Nodes that are down may come back. After a restart, the hub may also not know some
    /// nodes yet.
    fn asked(&mut self, number: u64, unasked: Vec<(NodeName, Unasked)>) {
        let is_resumed = self.shared.state().running.get(&number).is_some_and(|running| running.is_resumed);
        let mut left_out = BTreeSet::new();
        for (node, why) in unasked {
            let state = match why {
                Unasked::Unknown if is_resumed => NodeState::Asked,
                Unasked::Down => NodeState::Asked,
                Unasked::Unknown | Unasked::Below | Unasked::TooOld => NodeState::Missing,
            };
            self.stands(number, &node, state, why.to_string());
            self.is_not_awaited(number, &node);
            if state == NodeState::Missing {
                left_out.insert(node);
            }
        }
        if !left_out.is_empty() {
            self.shared.cluster.leave_out(number, &left_out);
        }
        self.notes_marked(number);
        self.end_if_over(number);
    }

    fn answered(&mut self, node: &NodeName, frozen: &Frozen, up_longer: Option<i64>) {
        let number = frozen.number;
        if let Some(up_longer) = up_longer {
            self.knows_clock(number, node, up_longer);
        }
        let missing = frozen.lanes.iter().map(|lane| lane.missing).max().unwrap_or_default();
        let short = (missing > Nanos(0)).then(|| {
            format!(
                "its ring lacks the first {}",
                crate::show::quantities::of_whole_span(missing.as_secs_f64())
            )
        });
        let text = short.into_iter().chain((!frozen.text.is_empty()).then(|| frozen.text.clone()));
        let text = text.collect::<Vec<_>>().join("; ");
        let state = match frozen.state {
            FrozenState::Refused => NodeState::Missing,
            FrozenState::Kept if frozen.lanes.is_empty() => NodeState::Missing,
            FrozenState::Kept => NodeState::Kept,
            FrozenState::Marked => NodeState::Marked,
            FrozenState::Other(_) => return,
        };
        self.stands(number, node, state, text);
        self.has_answered(number, node);
        self.notes_marked(number);
        self.end_if_over(number);
    }

    /// Our uptime is this much longer than the node's. With this, the node's rows get the times of our wall clock as it was at the
    /// moment.
    fn knows_clock(&mut self, number: u64, node: &NodeName, up_longer: i64) {
        let state = self.shared.state();
        let entry = state.running.get(&number).and_then(|running| state.entries.get(&running.id));
        let Some(ours) = entry.map(Entry::real_offset) else { return };
        drop(state);
        if let Some(writing) = self.writing(number) {
            writing.knows_clock(node, ours.saturating_add(up_longer));
        }
    }

    fn has_answered(&self, number: u64, node: &NodeName) {
        let mut state = self.shared.state();
        let Some(running) = state.running.get_mut(&number) else { return };
        if running.unmarked.remove(node) {
            running.answered = Some(since_boot());
        }
    }

    /// This node was not present: only the other nodes can answer at once.
    fn is_not_awaited(&self, number: u64, node: &NodeName) {
        if let Some(running) = self.shared.state().running.get_mut(&number) {
            running.unmarked.remove(node);
        }
    }

    /// Notes how long after the moment the last node answered that its rings are marked. This goes to the disk, too: after a
    /// restart nobody could measure it.
    fn notes_marked(&self, number: u64) {
        let is_new = self.shared.state().note_marked(number);
        if is_new {
            self.shared.note();
        }
    }

    /// All kept rows of a node have come. They are written, or wait for the disk.
    fn whole(&mut self, number: u64, node: &NodeName) {
        let is_all = {
            let mut state = self.shared.state();
            let Some(running) = state.running.get_mut(&number) else { return };
            running.moved = Instant::now();
            if let Some(known) = running.nodes.get_mut(node) {
                known.is_in_hand = true;
            }
            running.nodes.values().all(|known| known.is_in_hand || known.state.is_over())
        };
        if self.writings.get(&number).is_none_or(|writing| !writing.is_failing()) {
            self.shared.cluster.was_fetched(number, node);
        }
        self.make_room();
        if is_all {
            self.settle(number);
        }
        self.end_if_over(number);
    }

    /// Syncs all received rows to the disk. Only then do their nodes count as fetched.
    fn settle(&mut self, number: u64) {
        let Some(path) = self.path(number) else { return };
        let is_due = self.shared.state().running.get(&number).is_some_and(Running::has_unsettled);
        if !is_due {
            return;
        }
        let synced = self.writings.get_mut(&number).map_or(Ok(()), |writing| writing.sync(&path));
        if let Err(error) = synced {
            return self.fails(number, &error);
        }
        let settled = self.shared.state().running.get_mut(&number).map(Running::settle);
        // While the disk was full, the hub fetched nothing more.
        let settled = settled.into_iter().flatten();
        settled.for_each(|node| self.shared.cluster.was_fetched(number, &node));
    }

    /// The disk has not taken the rows.
    fn fails(&mut self, number: u64, error: &RecordError) {
        match Writing::is_lost(error) {
            true => self.begin_again(number, error),
            false => self.waits(number, reason(error)),
        }
    }

    /// Rows that have come wait for the disk. This is logged once.
    fn waits(&mut self, number: u64, why: String) {
        if let Some(running) = self.shared.state().running.get_mut(&number) {
            running.waits = Some(format!("the disk of the hub does not take the rows, which wait: {why}"));
        }
        if why != self.said {
            tracing::warn!("the black box waits: {why}");
            self.said = why;
        }
    }

    /// The written rows are lost, but the nodes still have them. If they are lost twice, a third attempt would fail, too.
    fn begin_again(&mut self, number: u64, error: &RecordError) {
        let is_first = {
            let mut state = self.shared.state();
            let Some(running) = state.running.get_mut(&number) else { return };
            running.forget_rows();
            running.is_wasted = !running.is_begun_again;
            !std::mem::replace(&mut running.is_begun_again, true)
        };
        if !is_first {
            return self.give_up(number, &sentence(error));
        }
        tracing::warn!("the black box fetches rows again: {}", sentence(error));
        if let Some(writing) = self.writings.remove(&number) {
            self.writings.insert(number, writing.again());
        }
        self.shared.cluster.fetch_again(number);
    }

    fn is_wasted(&self, number: u64) -> bool {
        self.shared.state().running.get(&number).is_some_and(|running| running.is_wasted)
    }

    fn comes_again(&self, number: u64) {
        if let Some(running) = self.shared.state().running.get_mut(&number) {
            running.is_wasted = false;
        }
    }

    fn stands(&self, number: u64, node: &NodeName, now: NodeState, text: String) {
        let mut state = self.shared.state();
        let Some(running) = state.running.get_mut(&number) else { return };
        running.moved = Instant::now();
        // A node that has delivered its rows may report them again over another connection.
        let known = running.nodes.get_mut(node).filter(|known| !known.is_in_hand && !known.state.is_over());
        if let Some(known) = known {
            (known.state, known.text) = (now, text);
        }
    }

    /// The recording of a running freeze.
    fn writing(&mut self, number: u64) -> Option<&mut Writing> {
        if !self.writings.contains_key(&number) {
            let state = self.shared.state();
            let running = state.running.get(&number).filter(|running| !running.is_removed)?;
            let note = state.entries.get(&running.id)?.note();
            drop(state);
            self.writings.insert(number, Writing::new(&note));
        }
        self.writings.get_mut(&number)
    }

    fn write(&mut self, number: u64, news: FrozenNews) {
        let Some(path) = self.path(number) else { return };
        let Some(writing) = self.writing(number) else { return };
        let written = writing.take(&path, news);
        if let Some(running) = self.shared.state().running.get_mut(&number) {
            running.moved = Instant::now();
        }
        if let Err(error) = written {
            self.fails(number, &error);
        }
    }

    fn path(&self, number: u64) -> Option<std::path::PathBuf> {
        let id = self.shared.state().running.get(&number)?.id;
        Some(self.shared.shelf().path(id))
    }

    fn tick(&mut self) {
        self.ticked = Instant::now();
        let numbers: Vec<u64> = self.shared.state().running.keys().copied().collect();
        for number in numbers {
            self.write_waiting(number);
            self.settle(number);
            self.end_if_over(number);
        }
        if self.shared.shelf().is_due_again() {
            self.shared.note();
        }
    }

    /// Writes the rows that waited for the disk.
    fn write_waiting(&mut self, number: u64) {
        let Some(path) = self.path(number) else { return };
        let Some(writing) = self.writings.get_mut(&number) else { return };
        let was_failing = writing.is_failing();
        match writing.tick(&path) {
            Err(error) => self.fails(number, &error),
            Ok(()) if was_failing => self.goes_on(number),
            Ok(()) => {}
        }
    }

    /// The disk has room again.
    fn goes_on(&mut self, number: u64) {
        self.said.clear();
        if let Some(running) = self.shared.state().running.get_mut(&number) {
            running.waits = None;
        }
    }

    /// Ends a freeze if nothing more comes for it.
    fn end_if_over(&mut self, number: u64) {
        if let Some(writing) = self.writings.get(&number).filter(|writing| writing.is_failing()) {
            if writing.is_hopeless() {
                self.give_up(number, "the disk of the hub was full");
            }
            return;
        }
        if self.shared.state().running.get(&number).is_some_and(|running| running.is_over(AWAITED)) {
            self.end(number);
        }
    }

    /// Writes the end of a recording, and lets the nodes go. If the disk refuses it, this is retried.
    fn end(&mut self, number: u64) {
        let Some(path) = self.path(number) else { return };
        let missing = self.writing(number).map(|writing| writing.missing()).unwrap_or_default();
        self.conclude(number, &missing);
        let Some(note) = self.note_of(number) else { return };
        let Some(writing) = self.writing(number) else { return };
        let (ended, is_empty) = (writing.end(&path, &note), writing.is_empty());
        match ended {
            Ok(counts) => self.close(number, counts.rows, None),
            // There are no rows that could wait for the disk.
            Err(error) if is_empty => self.close(number, 0, Some(sentence(&error))),
            Err(error) => self.fails(number, &error),
        }
    }

    fn note_of(&self, number: u64) -> Option<serde_json::Value> {
        let state = self.shared.state();
        let id = state.running.get(&number)?.id;
        state.entries.get(&id).map(Entry::note)
    }

    /// No more rows of a freeze can be stored. The rows in the file stay.
    fn give_up(&mut self, number: u64, why: &str) {
        let Some(path) = self.path(number) else { return };
        let writing = self.writings.remove(&number);
        let rows = writing.map(|writing| writing.give_up(&path)).unwrap_or_default();
        if let Some(running) = self.shared.state().running.get_mut(&number) {
            running.have_only(&rows, why);
        }
        self.close(number, rows.values().sum(), Some(why.to_owned()));
    }

    /// The freeze does not run any more.
    fn close(&mut self, number: u64, rows: u64, problem: Option<String>) {
        // Its file is closed.
        self.writings.remove(&number);
        let Some(id) = self.shared.state().running.get(&number).map(|running| running.id) else { return };
        let (bytes, room) = {
            let shelf = self.shared.shelf();
            (shelf.bytes(id), shelf.room)
        };
        let (rows, bytes, problem) = match bytes > room {
            true => (0, 0, Some(self.drop_recording(number, id, bytes, room))),
            false => (rows, bytes, problem),
        };
        self.conclude(number, &[]);
        let Some(running) = self.shared.state().running.remove(&number) else { return };
        super::add(&self.shared.counts.missing, running.lacking());
        if let Some(text) = &problem {
            tracing::warn!("the recording of freeze {id} is not whole: {text}");
        }
        self.is_over(id, |entry| (entry.rows, entry.bytes, entry.problem) = (rows, bytes, problem));
        // Release the nodes only now: the rows are on the disk.
        self.shared.cluster.thaw(number, &running.nodes.into_keys().collect());
        tracing::info!("freeze {id} is done: {rows} rows, {bytes} bytes");
    }

    /// Removes a recording that is larger than all the room, and notes the reason in the freeze.
    fn drop_recording(&self, number: u64, id: u64, bytes: u64, room: u64) -> String {
        self.shared.shelf().remove(id);
        let (bytes, room) = (of_bytes(bytes as f64, ""), of_bytes(room as f64, ""));
        let why =
            format!("its recording has {bytes}, and all recordings together may have {room} (blackbox)");
        if let Some(running) = self.shared.state().running.get_mut(&number) {
            running.have_only(&BTreeMap::new(), "the recording was larger than the room (blackbox)");
        }
        why
    }

    /// Notes the final states of the nodes. Nodes that have not delivered count as missing.
    fn conclude(&mut self, number: u64, missing: &[(String, u64)]) {
        let mut state = self.shared.state();
        let Some(running) = state.running.get_mut(&number) else { return };
        running.conclude(missing);
        let (id, groups, settled) = (running.id, running.groups(), running.settled);
        if let Some(entry) = state.entries.get_mut(&id) {
            entry.groups = groups;
            let over = entry.since_boot().map(|at| at.saturating_add(entry.after));
            entry.fetched = settled.zip(over).map(|(settled, over)| settled.0.saturating_sub(over));
        }
    }

    /// Notes the result of a freeze.
    fn is_over(&mut self, id: u64, change: impl FnOnce(&mut entry::Entry)) {
        if let Some(entry) = self.shared.state().entries.get_mut(&id) {
            change(entry);
            // Set this last, so that a waiting command sees the whole result.
            entry.is_over = true;
        }
        self.make_room();
        self.shared.note();
    }

    fn removed(&mut self, number: u64) {
        let Some(path) = self.path(number) else { return };
        if let Some(writing) = self.writings.remove(&number) {
            writing.discard();
        }
        let _ = std::fs::remove_file(path);
        let nodes = self.shared.state().running.remove(&number).map(|running| running.nodes);
        let nodes = nodes.into_iter().flat_map(BTreeMap::into_keys).collect();
        self.shared.cluster.thaw(number, &nodes);
        self.count_bytes();
    }

    /// Removes the oldest recordings until the others fit, including those that are being written.
    fn make_room(&mut self) {
        let writing: u64 = self.writings.values().map(Writing::bytes).sum();
        let room = self.shared.shelf().room;
        // A recording that does not fit anyway must not push out others.
        let kept = if writing > room { 0 } else { writing };
        loop {
            let shelf = self.shared.shelf();
            let mut state = self.shared.state();
            let over = || state.entries.values().filter(|entry| entry.is_over);
            let bytes = over().fold(kept, |sum, entry| sum.saturating_add(entry.bytes));
            let is_full = bytes > shelf.room || state.entries.len() > LISTED_MAX;
            let Some(oldest) = over().map(|entry| entry.id).next().filter(|_| is_full) else { break };
            state.entries.remove(&oldest);
            drop(state);
            shelf.remove(oldest);
            tracing::info!("freeze {oldest} made room for newer ones");
        }
        if writing > room {
            self.stop_beyond_room();
        }
        self.count_bytes();
    }

    /// Ends running freezes that are larger than all the room. They keep the rows that have come so far.
    fn stop_beyond_room(&mut self) {
        let numbers: Vec<u64> = self.writings.keys().copied().collect();
        for number in numbers {
            let left_out = match self.shared.state().running.get_mut(&number) {
                Some(running) => running.leave_out("the black box has no room (blackbox)"),
                None => continue,
            };
            self.shared.cluster.leave_out(number, &left_out);
        }
    }

    fn count_bytes(&self) {
        let state = self.shared.state();
        let bytes = state.entries.values().map(|entry| entry.bytes).sum();
        self.shared.counts.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Why the disk refuses the rows. They wait meanwhile.
fn reason(error: &RecordError) -> String {
    match error {
        RecordError::Full { path, source, .. } => format!("{}: {source}", path.display()),
        other => sentence(other),
    }
}

#[cfg(test)]
mod tests;
