//! The black box of a hub. It takes causes, has nodes freeze their rings, and writes the frozen rows of each freeze into one
//! recording. It limits how often this may happen, and how much room the recordings take.

mod counts;
mod entry;
mod keeper;
mod meant;
mod running;
mod shelf;
mod writing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use khz_http::{FreezeRefusal, FreezeWish};
use khz_hub::{Cluster, FreezeOrder, HubQuery};
use khz_job::Jobs;
use khz_link::limits::{CAUSE_MAX, FREEZE_AFTER_MAX, FREEZE_BEFORE_MAX};
use khz_model::fold::fold;
use khz_model::printable::printable;
use khz_model::{ByteSize, Metric, Nanos, NodeName, Query};
use khz_state::StateError;

use self::counts::Counts;
use self::entry::{Entry, SinceBoot};
use self::keeper::Message;
use self::running::Running;
use self::shelf::Shelf;
use crate::config::Plan;
use crate::role::state_dir;
use crate::show::outcome::{Failure, sentence};

/// The most freezes that may begin within a minute, for all causes together. In a storm of alerts, each further freeze adds little.
pub const A_MINUTE_MAX: usize = 12;
/// The most freezes that are taken or fetched at a time: as many as a node keeps (`FREEZES_MAX` of the link).
pub const RUNNING_MAX: usize = khz_link::limits::FREEZES_MAX;
/// The most nodes of one freeze: the nodes of the largest cluster that one hub serves.
pub const FREEZE_NODES_MAX: usize = 4_096;
/// A cause joins a freeze that covers its time except for at most this much. The causes of one alert come within this time.
const JOIN_SPARE: Nanos = Nanos::SECOND;
const MINUTE: Duration = Duration::from_secs(60);

/// The black box. Its thread ends with it.
pub struct BlackBox {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
    keeper: Sender<Message>,
    /// Which nodes a job has.
    jobs: Arc<Jobs>,
}

/// What its thread and its callers share.
struct Shared {
    cluster: Arc<Cluster>,
    state: Mutex<State>,
    /// The files. Lock it before `state` when both are needed.
    shelf: Mutex<Shelf>,
    counts: Counts,
}

/// What is known of all freezes.
#[derive(Default)]
struct State {
    /// By id. Freezes that run are also in `running`.
    entries: BTreeMap<u64, Entry>,
    /// The running freezes, by the number that nodes know.
    running: BTreeMap<u64, Running>,
    /// When the last freezes began.
    begun: VecDeque<Instant>,
    /// The highest number that a freeze ever had.
    last_id: u64,
}

/// What a cause asks for.
struct Wanted {
    nodes: BTreeSet<NodeName>,
    /// Now, on both clocks.
    at: i64,
    since_boot: Option<SinceBoot>,
    before: u64,
    after: u64,
    cause: String,
}

/// What a cause changes in the list.
enum Change {
    /// Nothing: the cause of the freeze with this id is only counted.
    None(u64),
    /// The cause joins a freeze, which has this entry then.
    Joins(Entry),
    /// It begins this freeze.
    Begins(Entry),
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the list of freezes. If this fails, it is logged and retried later: the content can be found out again.
    fn note(&self) {
        let mut shelf = self.shelf();
        let (last_id, entries) = {
            let state = self.state();
            (state.last_id, state.entries.clone())
        };
        // It is logged.
        let _ = shelf.write(last_id, entries.values());
    }

    /// Writes the list, with this entry in it.
    fn note_with(&self, shelf: &mut Shelf, entry: &Entry) -> Result<(), StateError> {
        let (last_id, mut entries) = {
            let state = self.state();
            (state.last_id.max(entry.id), state.entries.clone())
        };
        entries.insert(entry.id, entry.clone());
        shelf.write(last_id, entries.values())
    }
}

impl BlackBox {
    /// Opens the black box of a hub; `None`: it has no place for one, or the settings say so. Call it before nodes connect: freezes
    /// of an earlier start go on.
    pub fn open(plan: &Plan, cluster: &Arc<Cluster>, jobs: &Arc<Jobs>) -> Option<Self> {
        if plan.black_box.0 == 0 {
            return None;
        }
        let state = state_dir::find(plan, "nothing can be frozen")?;
        // Another hub of this machine may hold it. This hub then does everything else.
        let opened = BlackBox::open_in(&state, plan.black_box, cluster, jobs);
        opened.inspect_err(|failure| tracing::warn!("nothing can be frozen: {failure}")).ok()
    }

    /// The same in this directory, with this room.
    fn open_in(
        state: &Path,
        room: ByteSize,
        cluster: &Arc<Cluster>,
        jobs: &Arc<Jobs>,
    ) -> Result<Self, Failure> {
        let shelf = Shelf::open(state, room).map_err(|error| Failure::usage(sentence(&error)))?;
        let (last_id, entries) = shelf.entries();
        let entries: BTreeMap<u64, Entry> = entries.into_iter().map(|one| (one.id, one)).collect();
        let (keeper, queue) = mpsc::channel();
        let news = keeper.clone();
        // The receiver ends after the hub's link. Later messages do not matter.
        cluster.tell_of_freezes(move |one| _ = news.send(Message::News(one)));
        let state = Mutex::new(State { entries, last_id, ..State::default() });
        let (shelf, counts) = (Mutex::new(shelf), Counts::default());
        let shared = Arc::new(Shared { cluster: cluster.clone(), state, shelf, counts });
        let kept = shared.clone();
        let thread = std::thread::Builder::new().name("black box".into());
        let thread = thread.spawn(move || keeper::run(&kept, &queue));
        let thread = thread.map_err(|error| Failure::work(format!("cannot start the black box: {error}")))?;
        let black_box = BlackBox { shared, thread: Some(thread), keeper, jobs: jobs.clone() };
        black_box.go_on();
        Ok(black_box)
    }

    /// Goes on with the freezes of an earlier start.
    fn go_on(&self) {
        let entries: Vec<Entry> = self.shared.state().entries.values().cloned().collect();
        for entry in entries {
            if entry.is_over {
                self.shared.cluster.is_thawed(entry.number);
                continue;
            }
            tracing::info!("freeze {}, which an earlier start has begun, goes on", entry.id);
            let nodes = entry.asked_nodes();
            let running = Running::new(&entry, &nodes, true);
            self.shared.state().running.insert(entry.number, running);
            self.begin(&entry, &nodes);
        }
    }

    fn begin(&self, entry: &Entry, nodes: &BTreeSet<NodeName>) {
        let (at, before, after) = (entry.at, Nanos(entry.before), Nanos(entry.after));
        let since_boot = entry.since_boot().map(Nanos);
        let (number, cause) = (entry.number, entry.cause.clone());
        let order = FreezeOrder { number, at, since_boot, before, after, cause };
        self.shared.cluster.freeze(order, nodes);
    }

    /// Takes a cause: nodes freeze at once, unless they froze a moment ago, or too often. Returns the entry, and whether the cause
    /// joined a freeze that is being taken.
    pub fn freeze(&self, wish: &FreezeWish) -> Result<(u64, bool), FreezeRefusal> {
        self.shared.counts.add(&self.shared.counts.asked);
        let taken = self.take(wish);
        if let Err(refusal) = &taken {
            let (cause, nodes) = (printable(&wish.because), printable(&wish.nodes));
            tracing::warn!("nothing is frozen of {nodes} for '{cause}': {}", refusal.text());
        }
        match &taken {
            Err(FreezeRefusal::TooMany(_)) => self.shared.counts.add(&self.shared.counts.refused),
            Ok((_, true)) => self.shared.counts.add(&self.shared.counts.joined),
            _ => {}
        }
        taken
    }

    fn take(&self, wish: &FreezeWish) -> Result<(u64, bool), FreezeRefusal> {
        check(wish)?;
        let nodes = meant::nodes(&wish.nodes, &self.known(), &self.jobs)?;
        let cause = wish.because[..wish.because.floor_char_boundary(CAUSE_MAX)].to_owned();
        let (before, after) = (wish.before.0, wish.after.0);
        let wanted = Wanted { nodes, at: wall(), since_boot: SinceBoot::now(), before, after, cause };
        // In a storm of causes, this does not wait for the disk.
        if let Some(id) = self.shared.state().counts(&wanted) {
            return Ok((id, true));
        }
        let mut shelf = self.shared.shelf();
        let change = self.shared.state().change(&wanted)?;
        match change {
            Change::None(id) => Ok((id, true)),
            Change::Joins(entry) => {
                self.write(&mut shelf, &entry, "the cause is not noted")?;
                self.shared.state().join(entry.id, &wanted.cause);
                Ok((entry.id, true))
            }
            Change::Begins(entry) => {
                // This comes before a node hears of it: a hub that is killed now fetches the freeze after its restart.
                self.write(&mut shelf, &entry, "nothing is frozen")?;
                self.shared.state().begin(&entry, &wanted.nodes);
                drop(shelf);
                self.begin(&entry, &wanted.nodes);
                self.shared.counts.add(&self.shared.counts.begun);
                tracing::info!("freeze {} of {} nodes: {}", entry.id, entry.nodes, printable(&entry.cause));
                Ok((entry.id, false))
            }
        }
    }

    /// Writes the list with an entry. The hub acknowledges nothing that it would forget if it were killed now.
    fn write(&self, shelf: &mut Shelf, entry: &Entry, so: &str) -> Result<(), FreezeRefusal> {
        self.shared.note_with(shelf, entry).map_err(|error| {
            let text = format!("the list of freezes cannot be written, so {so}: {}", sentence(&error));
            FreezeRefusal::Unable(text)
        })
    }

    fn known(&self) -> Vec<NodeName> {
        HubQuery::new(self.shared.cluster.clone()).nodes()
    }

    /// What it counts, as metrics.
    pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        self.shared.counts.metrics()
    }
}

impl Drop for BlackBox {
    fn drop(&mut self) {
        // Rows that are not fetched are still at the nodes, and the freeze is in the list.
        let _ = self.keeper.send(Message::End);
        if let Some(thread) = self.thread.take() {
            // If it panicked, the message was printed then.
            let _ = thread.join();
        }
    }
}

impl State {
    /// The freeze that keeps the wanted rows anyway.
    fn joinable(&self, wanted: &Wanted) -> Option<u64> {
        let now = Instant::now();
        let is_it = |running: &&Running| {
            let entry = self.entries.get(&running.id);
            now < running.over
                && !running.is_removed
                && wanted.nodes.iter().all(|node| running.nodes.contains_key(node))
                && entry.is_some_and(|entry| wanted.is_kept_by(entry))
        };
        self.running.values().find(is_it).map(|running| running.id)
    }

    /// Counts a cause that joins a freeze, if nothing else changes.
    fn counts(&mut self, wanted: &Wanted) -> Option<u64> {
        let id = self.joinable(wanted)?;
        let entry = self.entries.get_mut(&id).filter(|entry| !entry.has_room_for(&wanted.cause))?;
        entry.joined += 1;
        Some(id)
    }

    /// Decides what a cause changes. Only a count changes here.
    fn change(&mut self, wanted: &Wanted) -> Result<Change, FreezeRefusal> {
        if let Some(id) = self.counts(wanted) {
            return Ok(Change::None(id));
        }
        let joined = self.joinable(wanted).and_then(|id| self.entries.get(&id));
        if let Some(entry) = joined {
            let mut entry = entry.clone();
            entry.join(&wanted.cause);
            return Ok(Change::Joins(entry));
        }
        self.may_begin()?;
        let number =
            random().ok_or_else(|| FreezeRefusal::Unable("the kernel gives no random numbers".to_owned()))?;
        Ok(Change::Begins(wanted.entry(self.last_id + 1, number)))
    }

    /// Adds a cause to a freeze in the list.
    fn join(&mut self, id: u64, cause: &str) {
        // Unless it was removed meanwhile.
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.join(cause);
        }
    }

    /// Adds a freeze to the list.
    fn begin(&mut self, entry: &Entry, nodes: &BTreeSet<NodeName>) {
        self.last_id = self.last_id.max(entry.id);
        self.begun.push_back(Instant::now());
        self.entries.insert(entry.id, entry.clone());
        self.running.insert(entry.number, Running::new(entry, nodes, false));
    }

    /// Notes how long after the moment of the freeze the last node answered. Returns true if this was not known.
    fn note_marked(&mut self, number: u64) -> bool {
        let Some(running) = self.running.get(&number) else { return false };
        let is_over = running.unmarked.is_empty() && !running.is_resumed;
        let Some(answered) = running.answered.filter(|_| is_over) else { return false };
        let entry = self.entries.get_mut(&running.id).filter(|entry| entry.marked.is_none());
        let Some((entry, at)) = entry.and_then(|entry| entry.since_boot().map(|at| (entry, at))) else {
            return false;
        };
        entry.marked = Some(answered.0.saturating_sub(at));
        true
    }

    /// Refuses a freeze if the limits are reached.
    fn may_begin(&mut self) -> Result<(), FreezeRefusal> {
        let now = Instant::now();
        while self.begun.front().is_some_and(|begun| now.duration_since(*begun) >= MINUTE) {
            self.begun.pop_front();
        }
        if self.running.values().filter(|running| running.is_awaited()).count() >= RUNNING_MAX {
            let text = format!("{RUNNING_MAX} freezes are being taken or fetched, and no more are at a time");
            return Err(FreezeRefusal::TooMany(text));
        }
        if self.begun.len() >= A_MINUTE_MAX {
            let text = format!("there were {A_MINUTE_MAX} freezes within a minute, and no more are taken");
            return Err(FreezeRefusal::TooMany(text));
        }
        Ok(())
    }
}

impl Wanted {
    /// True if a freeze covers the wanted time.
    fn is_kept_by(&self, entry: &Entry) -> bool {
        let around = |at: i64, before: u64, after: u64| {
            (at.saturating_sub_unsigned(before), at.saturating_add_unsigned(after))
        };
        let (from, to) = around(self.at, self.before, self.after);
        let (kept_from, kept_to) = around(entry.at_now(), entry.before, entry.after);
        kept_from.saturating_sub_unsigned(JOIN_SPARE.0) <= from
            && to <= kept_to.saturating_add_unsigned(JOIN_SPARE.0)
    }

    fn entry(&self, id: u64, number: u64) -> Entry {
        Entry {
            asked: fold(self.nodes.iter().map(NodeName::as_str)),
            nodes: self.nodes.len() as u64,
            since_boot: self.since_boot.clone(),
            ..Entry::new(id, number, self.at, self.before, self.after, self.cause.clone())
        }
    }
}

/// Refuses times that no ring keeps.
fn check(wish: &FreezeWish) -> Result<(), FreezeRefusal> {
    for (name, time, most) in
        [("before", wish.before, FREEZE_BEFORE_MAX), ("after", wish.after, FREEZE_AFTER_MAX)]
    {
        if time > most {
            return Err(FreezeRefusal::Wrong(format!("'{name}' is {time}, and at most {most}")));
        }
    }
    Ok(())
}

impl khz_http::BlackBox for BlackBox {
    fn ids(&self) -> Vec<u64> {
        self.shared.state().entries.keys().copied().collect()
    }

    fn show(&self, id: u64) -> Option<String> {
        let left = self.shared.shelf().bytes(id);
        let state = self.shared.state();
        let entry = state.entries.get(&id)?;
        let running = state.running.get(&entry.number);
        let problem = running.and_then(|running| running.waits.clone()).or_else(|| entry.problem.clone());
        let entry = Entry { problem, ..entry.clone() };
        Some(entry.shown(running.map(Running::groups), left))
    }

    fn freeze(&self, wish: &FreezeWish) -> Result<String, FreezeRefusal> {
        let (id, joined) = BlackBox::freeze(self, wish)?;
        Ok(format!("{{\"id\":{id},\"joined\":{joined}}}\n"))
    }

    fn remove(&self, id: u64) -> bool {
        let mut removed = None;
        {
            let mut state = self.shared.state();
            if let Some(entry) = state.entries.remove(&id) {
                if let Some(running) = state.running.get_mut(&entry.number) {
                    running.is_removed = true;
                }
                removed = Some(entry);
            }
        }
        let Some(entry) = removed else { return false };
        if !entry.is_over {
            // The keeper's thread gives up the file, and tells the nodes.
            let _ = self.keeper.send(Message::Removed(entry.number));
        } else {
            self.shared.shelf().remove(id);
        }
        self.shared.note();
        true
    }

    fn recording(&self, id: u64) -> Option<File> {
        let is_known = self.shared.state().entries.contains_key(&id);
        is_known.then(|| self.shared.shelf().open_recording(id)).flatten()
    }
}

/// What a black box counts, for the page of metrics.
#[cfg(test)]
pub fn metrics() -> Vec<(Metric, Arc<AtomicU64>)> {
    Counts::default().metrics()
}

/// Wall clock, ns since 1970.
fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// The time since boot, by which a recording says how old its parts are.
fn since_boot() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

fn random() -> Option<u64> {
    let mut bytes = [0; 8];
    let read = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    (read == Ok(8)).then(|| u64::from_le_bytes(bytes))
}

/// For counts that several threads add to.
fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
