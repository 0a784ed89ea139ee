//! Updates that wait in memory: takes them, logs them, shows them; [`super::queue`] decides when they are written.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::base::Base;
use super::cells::Cells;
use super::log::{Log, Ticket};
use super::messages::Messages;
use super::nodes::{Flags, Id, Nodes};
use super::open_files::OpenFiles;
use super::packed::{pack, unpack};
use super::place::place;
use super::queue::Queue;
use super::record::Entry;
use super::stamp::{self, stamp};
use crate::error::{Error, Result, refused};
use crate::file::Rrd;

/// Different shapes (readings, step, archives) told apart; files of further ones are not spread.
const SHAPES_MAX: usize = 65_535;

/// When to write, and how much may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Seconds that updates wait before they are written.
    pub timeout: u32,
    /// Seconds added at random to the timeout, below this.
    pub delay: u32,
    /// Seconds between looks for files whose updates stopped.
    pub sweep: u32,
    /// Seconds over which files that finish a coarse row are spread; 0 for none.
    pub spread: u32,
    /// Bytes of updates in memory; beyond it nothing is taken.
    pub memory_max: u64,
    /// Files kept open.
    pub open_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: 300, delay: 0, sweep: 3600, spread: 1200, memory_max: 1 << 30, open_max: 10_000 }
    }
}

/// What matters of a file's definition; most files share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Readings a sample must have.
    pub(super) readings: usize,
    /// Seconds a primary point.
    pub(super) step: u64,
    /// Seconds of the shortest row of several points; 0 for none.
    pub(super) coarse: u64,
}

/// What STATS tells.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Files waiting to be written.
    pub queue: u64,
    /// UPDATE commands.
    pub received: u64,
    /// FLUSH commands.
    pub flushes: u64,
    /// Write calls.
    pub updates_written: u64,
    /// Samples written.
    pub sets_written: u64,
    /// Files known.
    pub nodes: u64,
    /// Samples waiting.
    pub waiting: u64,
    /// Seconds the oldest of them has waited.
    pub age: u64,
    /// Bytes of memory they and their files take.
    pub memory: u64,
    /// Writes that failed and were or are tried again.
    pub failures: u64,
    /// Files whose last write failed.
    pub failed_now: u64,
    /// Samples a file refused for good.
    pub refused: u64,
    /// Bytes of log not yet in files.
    pub log: u64,
    /// Whether the log of an earlier run is still being read.
    pub replaying: u64,
}

pub(super) struct State {
    pub(super) nodes: Nodes,
    pub(super) cells: Cells,
    pub(super) shapes: Vec<Shape>,
    /// Device number of each disk.
    pub(super) disks: Vec<u64>,
    pub(super) queue: Queue,
    /// Files, and writes not yet synced, by the log's oldest segment they need.
    pub(super) holds: BTreeMap<u32, u64>,
    pub(super) replaying: bool,
    /// Taken while replay runs: file, samples, segment.
    pub(super) later: Vec<(Id, String, u32)>,
    /// The newest stamps in them.
    pub(super) later_last: HashMap<Id, i64>,
    pub(super) stats: Stats,
    /// How many wait for `changed`.
    waiters: usize,
    scratch: Vec<u8>,
}

/// The waiting updates of all files.
pub struct Pending {
    pub(super) state: Mutex<State>,
    /// A claim ended, or replay did.
    pub(super) changed: Condvar,
    /// There is something to write.
    pub(super) work: Condvar,
    pub(super) log: Option<Log>,
    pub(super) limits: Limits,
    pub(super) base: Base,
    pub(super) open: OpenFiles,
    pub(super) messages: Messages,
    started: Instant,
}

/// One UPDATE: a whole name and samples with blanks between them.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// The file, as [`Base::name`] gives it.
    pub file: &'a str,
    /// The samples.
    pub samples: &'a str,
}

/// The sole right to work on a file.
pub(super) struct Claim<'a> {
    pending: &'a Pending,
    /// None where nothing is known of the file.
    pub(super) id: Option<Id>,
}

/// A file with what waits for it laid over.
pub struct View<'a> {
    /// The file.
    pub rrd: Rrd,
    _claim: Claim<'a>,
}

impl Pending {
    /// Nothing waits yet; with a log, `replaying` says that its older segments are going to be replayed.
    pub fn new(base: Base, limits: Limits, log: Option<Log>, replaying: bool, messages: Messages) -> Self {
        let state = State {
            nodes: Nodes::default(),
            cells: Cells::default(),
            shapes: vec![],
            disks: vec![],
            queue: Queue::default(),
            holds: BTreeMap::new(),
            replaying,
            later: vec![],
            later_last: HashMap::new(),
            stats: Stats::default(),
            waiters: 0,
            scratch: vec![],
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            work: Condvar::new(),
            log,
            open: OpenFiles::new(limits.open_max),
            limits,
            base,
            messages,
            started: Instant::now(),
        }
    }

    /// What names mean here.
    pub fn base(&self) -> &Base {
        &self.base
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves the maps whole, so a thread that died holding the lock spoilt nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changed.
    pub(super) fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiters += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
        state
    }

    pub(super) fn tell(&self, state: &State) {
        if state.waiters > 0 {
            self.changed.notify_all();
        }
    }

    /// The daemon's seconds; never 0, which stands for never.
    pub(super) fn now(&self) -> u32 {
        1 + self.started.elapsed().as_secs() as u32
    }

    /// Takes `updates` in their order. When this returns, what it counts survives the process. For each: how many of
    /// its samples were taken, or why the first one that was not.
    pub fn update(&self, updates: &[Update<'_>]) -> Vec<Result<usize>> {
        let bytes: usize = updates.iter().map(|update| update.file.len() + update.samples.len()).sum();
        let mut ticket = None;
        let mut state = self.lock();
        state.stats.received += updates.len() as u64;
        if let Err(error) = self.admit(&state, bytes as u64) {
            let text = error.to_string();
            return updates.iter().map(|_| refused(text.clone())).collect();
        }
        let mut outcomes = Vec::with_capacity(updates.len());
        for update in updates {
            let outcome;
            (state, outcome) = self.take(state, update, &mut ticket);
            outcomes.push(outcome);
        }
        drop(state);
        if let (Some(log), Some(ticket)) = (&self.log, ticket)
            && let Err(error) = log.commit(ticket)
        {
            // They stay in memory and may reach their files, but nothing is promised.
            let text = error.to_string();
            self.messages.error(&text);
            return updates.iter().map(|_| refused(text.clone())).collect();
        }
        outcomes
    }

    fn admit(&self, state: &State, bytes: u64) -> Result<()> {
        let held = state.memory();
        if held + bytes > self.limits.memory_max {
            let (age, most) = (state.age(self.now()), self.limits.memory_max);
            return refused(format!(
                "{held} bytes of updates wait to be written, the oldest for {age} seconds; at most {most} are held"
            ));
        }
        let Some(log) = &self.log else { return Ok(()) };
        log.admit(bytes).map_err(|error| {
            Error::Refused(format!("{error}; the oldest waits for {} seconds", state.age(self.now())))
        })
    }

    /// Takes one update; gives the lock up while it looks at a new file.
    fn take<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        update: &Update<'_>,
        ticket: &mut Option<Ticket>,
    ) -> (MutexGuard<'a, State>, Result<usize>) {
        let (mut state, id) = match self.know(state, update.file) {
            (state, Ok(id)) => (state, id),
            (state, Err(error)) => return (state, Err(error)),
        };
        let node = &state.nodes[id];
        let readings = state.shapes.get(usize::from(node.shape)).map_or(0, |shape| shape.readings);
        let mut last = node.last;
        if state.replaying {
            last = last.max(state.later_last.get(&id).copied().unwrap_or(i64::MIN));
        }
        // What is taken, up to the first sample that cannot be.
        let (mut taken, mut end, mut wrong) = (0, 0, None);
        let start = update.samples.as_ptr() as usize;
        for sample in update.samples.split(' ').filter(|sample| !sample.is_empty()) {
            match stamp::checked(sample, last, readings) {
                Ok(stamp) => {
                    (last, taken) = (stamp, taken + 1);
                    end = sample.as_ptr() as usize + sample.len() - start;
                }
                Err(error) => {
                    wrong = Some(error);
                    break;
                }
            }
        }
        let samples = &update.samples[..end];
        let mut segment = 0;
        if let Some(log) = self.log.as_ref().filter(|_| taken > 0) {
            segment = log.current();
            match log.stage(&Entry::Update { file: update.file, samples }) {
                Ok(staged) => *ticket = Some(staged),
                Err(error) => return (state, Err(error)),
            }
        }
        if state.replaying && taken > 0 {
            state.later.push((id, samples.into(), segment));
            state.later_last.insert(id, last);
            state.stats.waiting += taken as u64;
        } else if taken > 0 {
            state.append(id, samples, segment, self.now());
            self.queue_if_due(&mut state, id);
        }
        let outcome = match wrong {
            Some(error) => Err(error),
            None if taken == 0 => refused("No values updated."),
            None => Ok(taken),
        };
        (state, outcome)
    }

    /// The number of the file called `name`, looked at if it is new.
    fn know<'a>(&'a self, state: MutexGuard<'a, State>, name: &str) -> (MutexGuard<'a, State>, Result<Id>) {
        match state.nodes.find(name).filter(|id| state.nodes[*id].is(Flags::KNOWN)) {
            Some(id) => return (state, Ok(id)),
            None => drop(state),
        }
        let looked = self.look(name);
        let mut state = self.lock();
        let outcome = looked.and_then(|look| match state.learn(name, &look) {
            Some(id) => Ok(id),
            None => refused("no more files can be held"),
        });
        (state, outcome)
    }

    /// What the disk says of a file.
    fn look(&self, name: &str) -> Result<Look> {
        let missing = |error: &Error| match error {
            Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        };
        let file = match self.base.open(name, false) {
            Err(error) if missing(&error) => return refused(format!("No such file: {name}")),
            opened => opened?,
        };
        let metadata = file.metadata().map_err(|error| Error::io("stating", name, error))?;
        let kind = metadata.file_type();
        if kind.is_dir()
            || kind.is_fifo()
            || kind.is_socket()
            || kind.is_char_device()
            || kind.is_block_device()
        {
            return refused(format!("Not a regular file: {name}"));
        }
        let place = place(&file);
        let rrd = Rrd::over(file, Path::new(name));
        let rrd = rrd.map_err(|error| Error::Refused(format!("RRD Error: {}", told(error))))?;
        let header = &rrd.header;
        let coarse =
            header.archives().iter().filter(|archive| archive.points > 1).map(|archive| archive.points);
        let shape = Shape {
            readings: header.readings(),
            step: header.step(),
            coarse: coarse.min().unwrap_or(0).saturating_mul(header.step()),
        };
        let last = header.last_update().saturating_mul(1_000_000).saturating_add(header.last_update_usec());
        Ok(Look { last, shape, place, device: metadata.dev() })
    }

    /// Claims the file called `name`, once replay is done and nobody else has it.
    pub(super) fn claim(&self, name: &str) -> Claim<'_> {
        let mut state = self.lock();
        loop {
            if !state.replaying {
                let Some(id) = state.nodes.find(name) else { return Claim { pending: self, id: None } };
                if !state.nodes[id].is(Flags::CLAIMED) {
                    state.nodes[id].set(Flags::CLAIMED, true);
                    return Claim { pending: self, id: Some(id) };
                }
            }
            state = self.wait(state);
        }
    }

    /// The file called `name` as it will be when all is written.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn view(&self, name: &str) -> Result<View<'_>> {
        let claim = self.claim(name);
        let samples = claim.id.map_or(vec![], |id| self.samples(&self.lock(), id));
        let mut rrd = Rrd::over(self.base.open(name, false)?, Path::new(name))?;
        let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
        if !samples.is_empty() && rrd.preview(&samples, &super::writer::options(name)).is_err() {
            // One of them is no reading: the others are shown.
            for sample in samples {
                let _ = rrd.preview(&[sample], &super::writer::options(name));
            }
        }
        Ok(View { rrd, _claim: claim })
    }

    /// The samples that wait for a file.
    fn samples(&self, state: &State, id: Id) -> Vec<String> {
        let mut bytes = vec![];
        state.cells.read(state.nodes[id].chain, &mut bytes);
        unpack(&bytes).collect()
    }

    /// The samples that wait for the file called `name`; `None` where nothing is known of it.
    pub fn pending(&self, name: &str) -> Option<Vec<String>> {
        let claim = self.claim(name);
        let id = claim.id?;
        let state = self.lock();
        let node = &state.nodes[id];
        (node.is(Flags::KNOWN) || node.count > 0).then(|| self.samples(&state, id))
    }

    /// Drops what waits for the file called `name`; whether anything was known of it.
    ///
    /// # Errors
    /// The log failed; nothing is dropped then.
    pub fn forget(&self, name: &str) -> Result<bool> {
        let claim = self.claim(name);
        let Some(id) = claim.id else { return Ok(false) };
        self.drop_samples(id)
    }

    /// Drops what waits for a claimed file and all that is known of it.
    fn drop_samples(&self, id: Id) -> Result<bool> {
        let mut state = self.lock();
        let mut ticket = None;
        let first = self.samples(&state, id).first().map(|sample| stamp(sample).unwrap_or(i64::MIN));
        if let (Some(log), Some(from)) = (&self.log, first) {
            ticket = Some(log.stage(&Entry::Forget { file: state.nodes.name(id), from })?);
        }
        let known = state.nodes[id].is(Flags::KNOWN) || first.is_some();
        state.forget(id, self.now());
        drop(state);
        self.open.close(id);
        self.commit(ticket)?;
        Ok(known)
    }

    fn commit(&self, ticket: Option<Ticket>) -> Result<()> {
        match (&self.log, ticket) {
            (Some(log), Some(ticket)) => log.commit(ticket),
            _ => Ok(()),
        }
    }

    /// Has `make` put a new file in the place of the one called `name`; nothing that was meant for the old one
    /// reaches it.
    ///
    /// # Errors
    /// What `make` says, or the log failed.
    pub fn replace(&self, name: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
        let _claim = self.claim(name);
        make()?;
        let mut ticket = None;
        if let Some(log) = &self.log {
            self.sync(name)?;
            let state = self.lock();
            ticket = Some(log.stage(&Entry::Forget { file: name, from: i64::MIN })?);
            drop(state);
        }
        let mut state = self.lock();
        let id = state.nodes.find(name);
        if let Some(id) = id {
            state.forget(id, self.now());
        }
        drop(state);
        id.into_iter().for_each(|id| self.open.close(id));
        self.commit(ticket)
    }

    /// Has `change` work on the file called `name` with all in it that waits, while nobody else does.
    ///
    /// # Errors
    /// What waits could not be written, what `change` says, or the log failed.
    pub fn change(&self, name: &str, change: impl FnOnce() -> Result<()>) -> Result<()> {
        let claim = self.claim(name);
        if let Some(id) = claim.id {
            self.write_claimed(id)?;
            self.open.close(id);
        }
        change()?;
        if let Some(id) = claim.id {
            // Looked at anew: it may have other sources now.
            self.lock().nodes[id].set(Flags::KNOWN, false);
        }
        let Some(log) = &self.log else { return Ok(()) };
        // An older header must not come back.
        self.sync(name)?;
        log.commit(log.stage(&Entry::Forget { file: name, from: i64::MAX })?)
    }

    /// Has the file called `name` and its name on disk.
    fn sync(&self, name: &str) -> Result<()> {
        let failed = |error| Error::io("syncing", name, error);
        self.base.open(name, false)?.sync_all().map_err(failed)?;
        let parent = self.base.parent(name)?;
        let directory = parent.path.parent().unwrap_or(Path::new("/"));
        std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }

    /// Holds back (or lets go) the writing of a file; whether that was new. `None` where nothing is known of it.
    pub fn suspend(&self, name: &str, suspended: bool) -> Option<bool> {
        let claim = self.claim(name);
        let id = claim.id?;
        let mut state = self.lock();
        if !state.nodes[id].is(Flags::KNOWN) {
            return None;
        }
        let new = state.nodes[id].is(Flags::SUSPENDED) != suspended;
        state.nodes[id].set(Flags::SUSPENDED, suspended);
        Some(new)
    }

    /// Holds back (or lets go) the writing of every file known; how many that changed.
    pub fn suspend_all(&self, suspended: bool) -> usize {
        let mut state = self.lock();
        let ids: Vec<Id> = state.nodes.ids().filter(|id| state.nodes[*id].is(Flags::KNOWN)).collect();
        let mut changed = 0;
        for id in ids {
            changed += usize::from(state.nodes[id].is(Flags::SUSPENDED) != suspended);
            state.nodes[id].set(Flags::SUSPENDED, suspended);
        }
        changed
    }

    /// The end of the newest primary point of a file, with what waits for it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn last(&self, name: &str) -> Result<i64> {
        {
            let claim = self.claim(name);
            let state = self.lock();
            let known = claim.id.map(|id| &state.nodes[id]).filter(|node| node.is(Flags::KNOWN));
            let shape = known.and_then(|node| state.shapes.get(usize::from(node.shape)));
            if let (Some(node), Some(shape)) = (known, shape) {
                let seconds = node.last.div_euclid(1_000_000);
                return Ok(seconds - seconds.rem_euclid(shape.step.max(1) as i64));
            }
        }
        let header = self.view(name)?.rrd.header;
        Ok(header.last_update() - header.last_update().rem_euclid(header.step() as i64))
    }

    /// The numbers of STATS, and the log's bytes and segments.
    pub fn stats(&self) -> (Stats, (u64, u64)) {
        let state = self.lock();
        let (queue, nodes) = (state.queue.len() as u64, state.nodes.len() as u64);
        let stats = Stats {
            queue,
            nodes,
            age: u64::from(state.age(self.now())),
            memory: state.memory(),
            failed_now: state.queue.failed() as u64,
            log: self.log.as_ref().map_or(0, Log::bytes),
            replaying: u64::from(state.replaying),
            ..state.stats
        };
        (stats, self.log.as_ref().map_or((0, 0), Log::counts))
    }

    /// Tells the administrator of `error`.
    pub fn report(&self, error: &Error) {
        self.messages.error(&error.to_string());
    }

    /// Ends the log's work: what is in files is synced and forgotten, the rest is synced where it is.
    ///
    /// # Errors
    /// The log failed.
    pub fn close(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        if !self.lock().replaying {
            self.checkpoint();
        }
        log.harden_all()
    }

    /// Why the log takes nothing at present.
    pub fn trouble(&self) -> Option<String> {
        self.log.as_ref().and_then(Log::trouble)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let mut state = self.pending.lock();
            state.nodes[id].set(Flags::CLAIMED, false);
            self.pending.tell(&state);
        }
    }
}

/// What the disk says of a file.
struct Look {
    last: i64,
    shape: Shape,
    place: u32,
    device: u64,
}

/// Samples taken out of a node.
pub(super) struct Taken {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u32,
    pub(super) oldest: u32,
    pub(super) since: u32,
}

impl State {
    /// Bytes of memory for files and samples.
    pub(super) fn memory(&self) -> u64 {
        self.cells.bytes() + self.nodes.bytes() + self.later.len() as u64 * 100
    }

    /// Seconds the oldest sample that waits has waited.
    pub(super) fn age(&self, now: u32) -> u32 {
        let waiting = self.nodes.ids().map(|id| &self.nodes[id]).filter(|node| node.count > 0);
        waiting.map(|node| now.saturating_sub(node.since)).max().unwrap_or(0)
    }

    fn learn(&mut self, name: &str, look: &Look) -> Option<Id> {
        let id = self.nodes.find_or_make(name)?;
        let shape = self.shapes.iter().position(|shape| *shape == look.shape).or_else(|| {
            self.shapes.push(look.shape);
            (self.shapes.len() <= SHAPES_MAX).then(|| self.shapes.len() - 1)
        })?;
        let disk = self.disks.iter().position(|device| *device == look.device).unwrap_or_else(|| {
            self.disks.push(look.device);
            self.disks.len() - 1
        });
        let node = &mut self.nodes[id];
        node.shape = shape as u16;
        node.disk = disk.min(255) as u8;
        node.place = look.place;
        if self.replaying {
            // The log may have older ones, which the file may need again.
            let later = self.later_last.entry(id).or_insert(look.last);
            *later = look.last.max(*later);
        } else if look.last > node.last {
            node.last = look.last;
            // The next is no longer told from the last of the chain.
            node.set(Flags::PACKED, false);
        }
        node.written = u32::try_from(look.last / 1_000_000).unwrap_or(0);
        node.set(Flags::KNOWN, true);
        Some(id)
    }

    /// Appends `samples`, known to be newer than all that wait.
    pub(super) fn append(&mut self, id: Id, samples: &str, segment: u32, now: u32) {
        let node = &mut self.nodes[id];
        if node.count == 0 {
            node.since = now;
            node.set(Flags::PACKED, false);
        }
        if node.oldest == 0 && segment != 0 {
            node.oldest = segment;
            *self.holds.entry(segment).or_default() += 1;
        }
        let mut before = node.is(Flags::PACKED).then(|| node.last.div_euclid(1_000_000));
        self.scratch.clear();
        for sample in samples.split(' ').filter(|sample| !sample.is_empty()) {
            before = pack(sample, before, &mut self.scratch);
            node.last = node.last.max(stamp(sample).unwrap_or(node.last));
            node.count += 1;
            self.stats.waiting += 1;
        }
        node.set(Flags::PACKED, before.is_some());
        self.cells.push(&mut node.chain, &self.scratch);
    }

    /// Takes all samples of a file out; its hold on the log goes with them.
    pub(super) fn take_out(&mut self, id: Id) -> Taken {
        let node = &mut self.nodes[id];
        let mut bytes = Vec::new();
        self.cells.read(node.chain, &mut bytes);
        self.cells.clear(&mut node.chain);
        let taken = Taken { bytes, count: node.count, oldest: node.oldest, since: node.since };
        (node.count, node.oldest) = (0, 0);
        taken
    }

    /// Puts samples back in front of what came meanwhile.
    pub(super) fn put_back(&mut self, id: Id, taken: &Taken) {
        let later = self.take_out(id);
        let node = &mut self.nodes[id];
        self.cells.push(&mut node.chain, &taken.bytes);
        self.cells.push(&mut node.chain, &later.bytes);
        node.count = taken.count + later.count;
        node.since = taken.since;
        node.oldest = if taken.oldest == 0 { later.oldest } else { taken.oldest };
        if later.count == 0 {
            // The last of them may be kept as text: the next begins anew.
            node.set(Flags::PACKED, false);
        }
        if taken.oldest != 0 {
            self.let_go(later.oldest);
        }
    }

    /// Drops what waits for a file and all that is known of it.
    fn forget(&mut self, id: Id, now: u32) {
        let dropped = self.take_out(id);
        self.let_go(dropped.oldest);
        self.stats.waiting = self.stats.waiting.saturating_sub(u64::from(dropped.count));
        let node = &mut self.nodes[id];
        (node.last, node.since, node.imaged) = (i64::MIN, now, 0);
        node.set(Flags::KNOWN, false);
        node.set(Flags::SUSPENDED, false);
    }

    /// One hold less on the log's segment.
    pub(super) fn let_go(&mut self, segment: u32) {
        if let Some(count) = self.holds.get_mut(&segment) {
            *count -= 1;
            if *count == 0 {
                self.holds.remove(&segment);
            }
        }
    }
}

/// An error with the place of the damage, where there is one.
pub(super) fn told(error: Error) -> Error {
    match error.place() {
        Some((path, offset)) => Error::Refused(format!("{error} ('{}' at byte {offset})", path.display())),
        None => error,
    }
}
