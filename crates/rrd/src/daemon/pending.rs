//! Updates that wait in memory: takes them, logs them, writes them to their files, keeps what could not be
//! written; knows no protocol.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::log::{Entry, Log};
use crate::error::{Error, Result, refused};
use crate::file::{self, Access, Rrd};
use crate::number::{self, Reading};
use crate::update::{Failure, Options};

/// Samples in memory over all files; some 100 bytes each.
pub const SAMPLES_MAX: u64 = 50_000_000;
/// How long a file rests after a failed write.
const RETRY: Duration = Duration::from_secs(10);

/// One file's waiting updates.
struct Node {
    /// Segment of the log and sample.
    samples: Vec<(u64, String)>,
    /// Stamp of the newest sample taken, in microseconds.
    last: i64,
    /// Readings a sample must have.
    readings: usize,
    /// When its samples were last taken out.
    flushed: Instant,
    queued: bool,
    writing: bool,
    suspended: bool,
}

#[derive(Default)]
struct State {
    nodes: HashMap<String, Node>,
    queue: VecDeque<String>,
    /// Files whose write failed, with the time to try again.
    failed: VecDeque<(Instant, String)>,
    /// Updates written but not synced, by segment, and a file of each file system written to.
    written: BTreeMap<u64, u64>,
    devices: HashMap<u64, File>,
    stats: Stats,
    stopping: bool,
}

/// What STATS tells.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Files waiting to be written.
    pub queue: u64,
    /// Samples taken.
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
    /// Writes that failed and are tried again.
    pub failures: u64,
    /// Samples a file refused for good.
    pub refused: u64,
}

/// The waiting updates of all files.
pub struct Pending {
    state: Mutex<State>,
    changed: Condvar,
    log: Option<Log>,
    timeout: Duration,
}

impl Pending {
    /// Starts with what `log_directory` holds; `timeout` is how long samples wait before they are written.
    ///
    /// # Errors
    /// The log cannot be read or written.
    pub fn open(log_directory: Option<&Path>, window: Duration, timeout: Duration) -> Result<Self> {
        let mut state = State::default();
        let log = match log_directory {
            Some(directory) => {
                Some(Log::open(directory, window, |segment, entry| state.replay(segment, entry))?)
            }
            None => None,
        };
        let files: Vec<String> = state.nodes.keys().cloned().collect();
        state.queue = files.into();
        Ok(Self { state: Mutex::new(state), changed: Condvar::new(), log, timeout })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves the maps whole, so a thread that died holding the lock spoilt nothing.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes `samples` for `file`. When this returns they survive the process. Returns how many were taken.
    ///
    /// # Errors
    /// No such file, a sample that is not newer or has the wrong number of readings (those before it are taken),
    /// a full backlog, or a failed disk.
    pub fn update(&self, file: &str, samples: &[&str]) -> Result<usize> {
        let mut state = self.know(file)?;
        let waiting = state.stats.waiting;
        let Some(node) = state.nodes.get_mut(file) else { return refused(format!("No such file: {file}")) };
        let (mut entries, mut last, mut wrong) = (vec![], node.last, None);
        for sample in samples {
            match checked(sample, last, node.readings) {
                Ok(stamp) => {
                    last = stamp;
                    entries.push(Entry::Update { file: file.into(), sample: (*sample).into() });
                }
                Err(error) => {
                    wrong = Some(error);
                    break;
                }
            }
        }
        if waiting + entries.len() as u64 > SAMPLES_MAX {
            return refused(format!("{waiting} samples wait to be written; at most {SAMPLES_MAX} are held"));
        }
        let segment = match (&self.log, entries.is_empty()) {
            (Some(log), false) => log.append(&entries)?,
            _ => 0,
        };
        let taken = entries.len();
        node.last = last;
        node.samples.extend(samples[..taken].iter().map(|sample| (segment, (*sample).to_string())));
        let due = taken > 0 && !node.queued && !node.suspended && node.flushed.elapsed() >= self.timeout;
        node.queued |= due;
        state.stats.received += taken as u64;
        state.stats.waiting += taken as u64;
        if due {
            state.queue.push_back(file.into());
            self.changed.notify_all();
        }
        match wrong {
            Some(error) => Err(error),
            None => Ok(taken),
        }
    }

    /// The lock, with a node for `file` in it.
    fn know(&self, file: &str) -> Result<MutexGuard<'_, State>> {
        let known = |state: &State| state.nodes.get(file).is_some_and(|node| node.readings > 0);
        let state = self.lock();
        if known(&state) {
            return Ok(state);
        }
        drop(state);
        let (last, readings) = look(file)?;
        let mut state = self.lock();
        let node = state.nodes.entry(file.into()).or_insert_with(|| Node::new(last));
        node.readings = readings;
        node.last = node.last.max(last);
        Ok(state)
    }

    /// Writes what waits for `file` and returns when it is in the file. `None` where nothing was known of it.
    ///
    /// # Errors
    /// Why the write failed; the samples are kept and tried again. A suspended file is not written.
    pub fn flush(&self, file: &str) -> Result<Option<()>> {
        let mut state = self.lock();
        state.stats.flushes += 1;
        loop {
            match state.nodes.get(file) {
                None => return Ok(None),
                Some(node) if node.writing => {
                    state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
                }
                Some(node) if node.suspended && !node.samples.is_empty() => {
                    return refused(format!("{file} is suspended"));
                }
                Some(_) => break,
            }
        }
        drop(state);
        self.write(file).map(Some)
    }

    /// Queues every file with samples.
    pub fn flush_all(&self) {
        let mut state = self.lock();
        let State { nodes, queue, .. } = &mut *state;
        for (file, node) in nodes.iter_mut() {
            if !node.samples.is_empty() && !node.queued && !node.suspended {
                node.queued = true;
                queue.push_back(file.clone());
            }
        }
        self.changed.notify_all();
    }

    /// The samples that wait for `file`; `None` where nothing is known of it.
    pub fn pending(&self, file: &str) -> Option<Vec<String>> {
        let state = self.lock();
        Some(state.nodes.get(file)?.samples.iter().map(|(_, sample)| sample.clone()).collect())
    }

    /// Drops what waits for `file`; whether anything was known of it.
    ///
    /// # Errors
    /// The log failed; nothing is dropped then.
    pub fn forget(&self, file: &str) -> Result<bool> {
        let mut state = self.lock();
        if !state.nodes.contains_key(file) {
            return Ok(false);
        }
        if let Some(log) = &self.log {
            log.append(&[Entry::Forget { file: file.into() }])?;
        }
        if let Some(node) = state.nodes.remove(file) {
            state.account(&node.samples);
        }
        Ok(true)
    }

    /// Files in the queue with the number of their samples.
    pub fn queue(&self) -> Vec<(usize, String)> {
        let state = self.lock();
        let count = |file: &String| state.nodes.get(file).map_or(0, |node| node.samples.len());
        state.queue.iter().map(|file| (count(file), file.clone())).collect()
    }

    /// Holds back (or lets go) the writing of `file`, or of every known file.
    ///
    /// # Errors
    /// No such file.
    pub fn suspend(&self, file: Option<&str>, suspended: bool) -> Result<usize> {
        let mut state = match file {
            Some(file) => self.know(file)?,
            None => self.lock(),
        };
        let mut changed = 0;
        for (name, node) in &mut state.nodes {
            if file.is_none_or(|file| file == name) && node.suspended != suspended {
                node.suspended = suspended;
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// The stamp of the newest sample for `file`, in seconds.
    ///
    /// # Errors
    /// No such file.
    pub fn last(&self, file: &str) -> Result<i64> {
        let state = self.know(file)?;
        Ok(state.nodes.get(file).map_or(0, |node| node.last.div_euclid(1_000_000)))
    }

    /// The numbers of STATS, and the log's bytes and segments.
    pub fn stats(&self) -> (Stats, (u64, u64)) {
        let state = self.lock();
        let (queue, nodes) = (state.queue.len() as u64, state.nodes.len() as u64);
        let log = self.log.as_ref().map_or((0, 0), Log::counts);
        (Stats { queue, nodes, ..state.stats }, log)
    }

    /// Writes queued files until [`Pending::stop`].
    pub fn work(&self) {
        loop {
            let mut state = self.lock();
            let now = Instant::now();
            while state.failed.front().is_some_and(|(at, _)| *at <= now) {
                if let Some((_, file)) = state.failed.pop_front() {
                    state.queue.push_back(file);
                }
            }
            if let Some(file) = state.queue.pop_front() {
                drop(state);
                // A failure is kept with the file and told on FLUSH and in STATS.
                let _ = self.write(&file);
                continue;
            }
            if state.stopping {
                return;
            }
            let wait = self.changed.wait_timeout(state, Duration::from_secs(1));
            drop(wait);
            self.checkpoint();
        }
    }

    /// Lets the workers end once the queue is empty.
    pub fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Syncs the file systems written to, then lets the log forget what is in their files.
    pub fn checkpoint(&self) {
        let Some(log) = &self.log else { return };
        let mut state = self.lock();
        let (written, devices) = (std::mem::take(&mut state.written), std::mem::take(&mut state.devices));
        drop(state);
        if devices.values().any(|file| rustix::fs::syncfs(file).is_err()) {
            // Not known to be on disk: the log keeps them, and replay finds them applied or applies them.
            return;
        }
        written.into_iter().for_each(|(segment, updates)| log.settle(segment, updates));
    }

    fn write(&self, file: &str) -> Result<()> {
        let mut state = self.lock();
        let Some(node) = state.nodes.get_mut(file) else { return Ok(()) };
        node.queued = false;
        if node.writing || node.suspended || node.samples.is_empty() {
            return Ok(());
        }
        let samples = std::mem::take(&mut node.samples);
        (node.writing, node.flushed) = (true, Instant::now());
        drop(state);
        let texts: Vec<&str> = samples.iter().map(|(_, sample)| sample.as_str()).collect();
        let outcome = apply(file, &texts);
        let mut state = self.lock();
        let outcome = match outcome {
            Ok((device, handle, bad)) => {
                state.stats.refused += bad;
                state.stats.updates_written += 1;
                state.stats.sets_written += samples.len() as u64 - bad;
                state.devices.entry(device).or_insert(handle);
                state.account(&samples);
                if let Some(node) = state.nodes.get_mut(file) {
                    node.writing = false;
                }
                Ok(())
            }
            Err(error) => {
                state.stats.failures += 1;
                eprintln!("rrdcached: {} updates of {file} are kept and tried again: {error}", samples.len());
                if let Some(node) = state.nodes.get_mut(file) {
                    // Back in front of what came meanwhile.
                    let later = std::mem::replace(&mut node.samples, samples);
                    node.samples.extend(later);
                    (node.writing, node.queued) = (false, true);
                    state.failed.push_back((Instant::now() + RETRY, file.into()));
                } else {
                    state.account(&samples);
                }
                Err(error)
            }
        };
        self.changed.notify_all();
        outcome
    }
}

impl Node {
    fn new(last: i64) -> Self {
        Self {
            samples: vec![],
            last,
            readings: 0,
            flushed: Instant::now(),
            queued: false,
            writing: false,
            suspended: false,
        }
    }
}

impl State {
    /// Samples that no longer wait, written or forgotten.
    fn account(&mut self, samples: &[(u64, String)]) {
        self.stats.waiting = self.stats.waiting.saturating_sub(samples.len() as u64);
        for (segment, _) in samples {
            *self.written.entry(*segment).or_default() += 1;
        }
    }

    fn replay(&mut self, segment: u64, entry: Entry) {
        match entry {
            Entry::Update { file, sample } => {
                let stamp = stamp(&sample).unwrap_or(i64::MIN);
                let node = self.nodes.entry(file).or_insert_with(|| Node::new(stamp));
                node.last = node.last.max(stamp);
                node.queued = true;
                node.samples.push((segment, sample));
                self.stats.waiting += 1;
            }
            Entry::Forget { file } => {
                if let Some(node) = self.nodes.remove(&file) {
                    self.account(&node.samples);
                }
            }
        }
    }
}

/// Last stamp in microseconds and number of readings of a file.
fn look(file: &str) -> Result<(i64, usize)> {
    match Rrd::open(Path::new(file), Access::Read) {
        Ok(rrd) => {
            let header = &rrd.header;
            let last =
                header.last_update().saturating_mul(1_000_000).saturating_add(header.last_update_usec());
            Ok((last, header.readings()))
        }
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            refused(format!("No such file: {file}"))
        }
        Err(error) => Err(error),
    }
}

/// A sample's stamp in microseconds.
fn stamp(sample: &str) -> Option<i64> {
    match number::read(sample.split_once(':')?.0) {
        Reading::Whole(seconds) if seconds.is_finite() => Some(number::as_long((seconds * 1e6).round())),
        _ => None,
    }
}

fn checked(sample: &str, last: i64, readings: usize) -> Result<i64> {
    let Some(stamp) = stamp(sample) else {
        let time = sample.split(':').next().unwrap_or("");
        return refused(format!("Cannot find timestamp in '{time}'!"));
    };
    if stamp <= last {
        let seconds = |micros: i64| micros as f64 / 1e6;
        return refused(format!(
            "illegal attempt to update using time {:.6} when last update time is {:.6} (minimum one second step)",
            seconds(stamp),
            seconds(last)
        ));
    }
    let got = sample.matches(':').count();
    if got != readings {
        return refused(format!("expected {readings} data source readings (got {got}) from {sample}"));
    }
    Ok(stamp)
}

/// Writes `samples` to `file`; returns its device, a handle to sync it by, and how many samples the file's
/// arithmetic refused for good.
fn apply(file: &str, samples: &[&str]) -> Result<(u64, File, u64)> {
    let path = PathBuf::from(file);
    let mut rrd = Rrd::open(&path, Access::Write)?;
    let options = Options {
        name: file,
        template: None,
        // Replay offers what is already there.
        skip_past: true,
        now: file::clock(),
        failure: Failure::ChangesNothing,
        record: false,
    };
    let mut bad = 0;
    match rrd.update(samples, &options) {
        Ok(_) => {}
        Err(Error::Refused(_)) => {
            // One of them is no reading; the others must not be lost with it.
            for sample in samples {
                match rrd.update(&[sample], &options) {
                    Ok(_) => {}
                    Err(Error::Refused(_)) => bad += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        Err(error) => return Err(error),
    }
    let handle = File::open(&path).map_err(|error| Error::io("opening", &path, error))?;
    let device = handle.metadata().map_err(|error| Error::io("stating", &path, error))?.dev();
    Ok((device, handle, bad))
}
