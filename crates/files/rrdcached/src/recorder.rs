//! Records series into `.rrd` files of one layout (MRTG's, if no setting says otherwise), a file for each series, through
//! the cache and its log; serves no socket.
//!
//! A file is made when its first reading comes. Its path is `DIRECTORY/NODE/SERIES.rrd`. Characters that a file name should
//! not have become `%` and two hexadecimal digits, so that different series have different files and no name leads out
//! of the directory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::base::Base;
use crate::cache::{Cache, End, Limits, Update};
use crate::log::{self, Disk, Log};
use crate::messages::{Level, Messages, Sink};
use crate::process;
use khz_rrd::create::{self, Plan};
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file;
use khz_rrd::header::Definition;
use khz_rrd::text;

/// Series of one recorder: names come from outside.
const SERIES_MAX: usize = 4_000_000;
/// Bytes of a part of a path before it is cut. File systems take 255, and the ending needs some.
const PART_MAX: usize = 200;
/// Threads that write.
const WRITERS: usize = 2;
/// Time between two calls of [`Cache::tick`].
const TICK: Duration = Duration::from_secs(1);
/// In microseconds.
const SECOND: i64 = 1_000_000;
/// The one data source of each file.
const SOURCE: &str = "value";
/// The log's directory. No node has this name, because a leading dot is encoded.
const LOG: &str = ".khz-log";

/// The layout of every file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Seconds of a primary point.
    pub step: u64,
    /// Seconds without a reading after which it is unknown.
    pub heartbeat: u64,
    /// The archives, in rrdtool's words: `AVERAGE:0.5:1:600`.
    pub archives: Vec<String>,
}

impl Default for Layout {
    /// MRTG's: 5 minutes for two days, half hours for two weeks, two hours for two months, days for two years.
    fn default() -> Self {
        let rows = [(1, 600), (6, 700), (24, 775), (288, 797)];
        let archives = ["AVERAGE", "MAX"]
            .iter()
            .flat_map(|function| rows.map(|(points, rows)| format!("{function}:0.5:{points}:{rows}")));
        Self { step: 300, heartbeat: 600, archives: archives.collect() }
    }
}

impl Layout {
    /// A reading as samples of an update, after a reading at the time `last`. After a gap, a further sample marks the time before
    /// as unknown. But rrdtool counts unknown time in whole seconds: if only a millisecond of a step is known, it may record a
    /// thousandth of the value.
    fn samples(&self, reading: &Reading<'_>, last: Option<i64>) -> String {
        let (step, heartbeat) = (self.step as i64 * SECOND, self.heartbeat as i64 * SECOND);
        let Some(last) = last.filter(|last| reading.time - last > heartbeat && step > 0) else {
            return sample(reading.time, reading.value);
        };
        let unknown = Value::Unknown(reading.value.kind());
        let known = last.rem_euclid(step);
        let end = last - known + step;
        let mut samples = String::new();
        if known > 0 && end < reading.time {
            // The step of the last reading ends here. Less than a second of known time is dropped, if whole seconds of unknown time
            // can express that.
            if known < SECOND && (end - 1 - last) / SECOND * SECOND > step / 2 {
                samples += &format!("{} ", sample(end - 1, unknown));
            }
            samples += &format!("{} ", sample(end, unknown));
        }
        // A gauge's value holds for the second that has begun, but not for the gap. A counter tells nothing before its next
        // reading.
        let begun = (reading.time - 1).div_euclid(SECOND) * SECOND;
        if reading.value.kind() == Kind::Gauge && begun > last && (known == 0 || begun > end) {
            samples += &format!("{} ", sample(begun, unknown));
        }
        samples + &sample(reading.time, reading.value)
    }

    /// The definition of a file.
    ///
    /// # Errors
    /// rrdtool would refuse an archive.
    fn definition(&self, kind: Kind) -> Result<Definition> {
        let mut plan = Plan::default();
        // A falling counter was reset by a reboot, so its value is unknown, and not a wrap.
        let limits = match kind {
            Kind::Gauge => ("GAUGE", "U"),
            Kind::Counter => ("DERIVE", "0"),
        };
        plan.source(&format!("{SOURCE}:{}:{}:{}:U", limits.0, self.heartbeat, limits.1))?;
        for archive in &self.archives {
            plan.archive(archive.strip_prefix("RRA:").unwrap_or(archive), self.step, 0)?;
        }
        plan.definition(self.step)
    }
}

/// The kind of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its values are recorded as they are.
    Gauge,
    /// It only grows; its rate is recorded.
    Counter,
}

/// A reading's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Of a gauge.
    Gauge(f64),
    /// Of a counter.
    Counter(u64),
    /// Not known, of either.
    Unknown(Kind),
}

impl Value {
    fn kind(self) -> Kind {
        match self {
            Self::Gauge(_) => Kind::Gauge,
            Self::Counter(_) => Kind::Counter,
            Self::Unknown(kind) => kind,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Gauge(value) if value.is_finite() => value.to_string(),
            Self::Counter(value) => value.to_string(),
            Self::Gauge(_) | Self::Unknown(_) => "U".into(),
        }
    }
}

/// A reading of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading<'a> {
    /// The node it comes from.
    pub node: &'a str,
    /// The series' flat name, as `cpu.user[3]`.
    pub series: &'a str,
    /// When, in microseconds since 1970.
    pub time: i64,
    /// What.
    pub value: Value,
}

/// How to record.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory of the files; made if it does not exist.
    pub directory: PathBuf,
    /// Their layout.
    pub layout: Layout,
    /// How long an accepted reading may be unsynced.
    pub window: Duration,
    /// Bytes the log may have.
    pub log_max: u64,
    /// When to write, and how much may wait.
    pub limits: Limits,
}

impl Settings {
    /// The defaults for `directory`.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.into(),
            layout: Layout::default(),
            window: Duration::from_millis(10),
            log_max: 8 << 30,
            limits: Limits::default(),
        }
    }
}

/// The recorder. When it is dropped, readings that are not in files yet stay in the log.
pub struct Recorder {
    cache: Arc<Cache>,
    directory: PathBuf,
    layout: Layout,
    /// Files that exist, each with the time of its newest reading; `None`: not known.
    known: Arc<Mutex<HashMap<String, Option<i64>>>>,
    threads: Vec<JoinHandle<()>>,
    /// Dropped to end the ticking.
    ticking: Option<Sender<()>>,
}

impl Recorder {
    /// Starts to record. The log of an earlier run is read while new readings are already taken.
    ///
    /// # Errors
    /// The directory or the log cannot be opened, or rrdtool would refuse the layout.
    pub fn open(settings: &Settings) -> Result<Self> {
        // Now, not with the first reading.
        settings.layout.definition(Kind::Gauge)?;
        let directory = &settings.directory;
        std::fs::create_dir_all(directory).map_err(|error| Error::io("creating", directory, error))?;
        let directory = directory.canonicalize().map_err(|error| Error::io("opening", directory, error))?;
        let (log, left) = Log::open(log::Settings {
            directory: directory.join(LOG),
            window: settings.window,
            bytes_max: settings.log_max,
            boot: process::boot(),
            storage: Arc::new(Disk),
        })?;
        let base = Base::new(&directory, true)?;
        let messages = Messages::new(Sink::Terminal, Level::ERROR);
        let cache = Arc::new(Cache::new(base, settings.limits, Some(log), true, messages));
        let mut recorder = Self {
            cache,
            directory,
            layout: settings.layout.clone(),
            known: Arc::default(),
            threads: vec![],
            ticking: None,
        };
        let replaying = recorder.cache.clone();
        recorder.spawn("khz-rrd-replay", move || {
            if let Err(error) = replaying.replay(&left) {
                replaying.report(&error);
            }
        })?;
        for _ in 0..WRITERS {
            let cache = recorder.cache.clone();
            recorder.spawn("khz-rrd-write", move || cache.work())?;
        }
        let (ticking, end) = channel::<()>();
        let (cache, known) = (recorder.cache.clone(), recorder.known.clone());
        recorder.spawn("khz-rrd-tick", move || {
            while end.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                cache.tick();
                // Somebody deleted it: the next reading makes it again.
                for name in cache.missing() {
                    known.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
                }
            }
        })?;
        recorder.ticking = Some(ticking);
        Ok(recorder)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(work);
        self.threads.push(thread.map_err(|error| Error::io("starting the thread", name, error))?);
        Ok(())
    }

    /// Takes `readings`, and returns for each whether it was accepted. Accepted readings survive this process.
    pub fn record(&self, readings: &[Reading<'_>]) -> Vec<Result<()>> {
        let files: Vec<Result<(String, Option<i64>)>> =
            readings.iter().map(|reading| self.file(reading)).collect();
        let last = |file: &Result<(String, Option<i64>)>| file.as_ref().ok().and_then(|(_, last)| *last);
        let samples: Vec<String> = readings
            .iter()
            .zip(&files)
            .map(|(reading, file)| self.layout.samples(reading, last(file)))
            .collect();
        let known = files
            .iter()
            .zip(&samples)
            .filter_map(|(file, samples)| Some(Update { file: &file.as_ref().ok()?.0, samples }));
        let mut outcomes = self.cache.update(&known.collect::<Vec<_>>()).into_iter();
        let outcome = |file: Result<(String, Option<i64>)>| {
            file.and_then(|_| outcomes.next().unwrap_or_else(|| refused("BUG: not asked")).map(|_| ()))
        };
        files.into_iter().map(outcome).collect()
    }

    /// The file of a reading's series, made if it does not exist, and the time of its newest reading before this one.
    fn file(&self, reading: &Reading<'_>) -> Result<(String, Option<i64>)> {
        let path = path(&self.directory, reading.node, reading.series);
        let name = text::name(&path);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = known.get_mut(&name) {
            let before = *last;
            *last = before.max(Some(reading.time));
            return Ok((name, before));
        }
        let mut last = None;
        if known.len() >= SERIES_MAX {
            return refused(format!("{SERIES_MAX} series are recorded and no more are taken"));
        }
        if !path.exists() {
            let parent = path.parent().unwrap_or(&self.directory);
            std::fs::create_dir_all(parent).map_err(|error| Error::io("creating", parent, error))?;
            let definition = self.layout.definition(reading.value.kind())?;
            // Every reading must be newer than the start; some may wait for a file that was deleted.
            let first = self.cache.oldest(&name).map_or(reading.time, |oldest| oldest.min(reading.time));
            let start = first.div_euclid(1_000_000) - 1;
            let header = create::header(definition, start, spread(&name))?;
            file::create(&path, &header, std::iter::empty(), false)?;
            sync(&path)?;
        } else {
            last = self.cache.newest(&name);
        }
        known.insert(name.clone(), last.max(Some(reading.time)));
        Ok((name, last))
    }

    /// Writes what waits for a series and returns when it is in its file.
    ///
    /// # Errors
    /// The write failed; the readings are kept and tried again.
    pub fn flush(&self, node: &str, series: &str) -> Result<()> {
        let path = path(&self.directory, node, series);
        self.cache.flush(&text::name(&path)).map(|_| ())
    }

    /// The cache underneath: its numbers, and views of files with what waits for them.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.ticking = None;
        self.cache.end(End::Now);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        if let Err(error) = self.cache.close() {
            self.cache.report(&error);
        }
    }
}

/// Syncs a new file and its name, so that acknowledged readings have a file after a loss of power.
fn sync(path: &Path) -> Result<()> {
    let failed = |error| Error::io("syncing", path, error);
    let open = |path: &Path| std::fs::File::open(path).and_then(|file| file.sync_all());
    open(path).map_err(failed)?;
    path.ancestors().skip(1).take(2).try_for_each(open).map_err(failed)
}

fn sample(time: i64, value: Value) -> String {
    let (seconds, micros) = (time.div_euclid(SECOND), time.rem_euclid(SECOND));
    let value = value.text();
    match micros {
        0 => format!("{seconds}:{value}"),
        _ => format!("{seconds}.{micros:06}:{value}"),
    }
}

/// The first row of each archive of a new file: a different one for each file and archive, so that they do not all reach
/// the end of a page at once.
fn spread(name: &str) -> impl FnMut(usize, u64) -> u64 {
    let seed = hash(name);
    move |rra, rows| hash(&format!("{seed}/{rra}")) % rows.max(1)
}

/// FNV-1a with a final mixing step. Names of files depend on it, so it must not change.
fn hash(text: &str) -> u64 {
    let sum = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (sum ^ (sum >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ sum >> 29
}

/// The file of a series.
pub fn path(directory: &Path, node: &str, series: &str) -> PathBuf {
    directory.join(part(node)).join(format!("{}.rrd", part(series)))
}

/// A name as a part of a path.
fn part(name: &str) -> String {
    let mut safe = String::with_capacity(name.len());
    for (index, byte) in name.bytes().enumerate() {
        let plain =
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || (byte == b'.' && index > 0);
        match plain {
            true => safe.push(char::from(byte)),
            false => safe.push_str(&format!("%{byte:02X}")),
        }
    }
    if safe.is_empty() {
        return "%".into();
    }
    if safe.len() > PART_MAX {
        // The hash of the whole name keeps cut names different; no short name has `%=`.
        safe = format!("{}%={:016x}", &safe[..PART_MAX - 18], hash(name));
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_safe_and_different() {
        assert_eq!(part("cpu.user[3]"), "cpu.user%5B3%5D");
        assert_eq!(part("net.rx_bytes"), "net.rx_bytes");
        let names = ["", ".", "..", "../x", "a/b", "a%2Fb", "a\0b", "-", "ä", " "];
        let parts: HashSet<String> = names.iter().map(|name| part(name)).collect();
        assert_eq!(parts.len(), names.len());
        assert!(parts.iter().all(|part| !part.contains(['/', '\0']) && !part.starts_with('.')));
        let long = ["x".repeat(5000), "x".repeat(5001), "/".repeat(300)];
        let parts: HashSet<String> = long.iter().map(|name| part(name)).collect();
        assert!(parts.len() == 3 && parts.iter().all(|part| part.len() <= PART_MAX));
    }
}
