//! The daemon's durable log: checked records in numbered segments; knows no `.rrd` file.
//!
//! A record is written to its segment before its update is acknowledged, so that it outlives the process; a
//! thread of its own syncs segments within the commit window, so that it outlives the machine. There is no
//! record of files written: replay offers everything that is left, and an `.rrd` file passes over what it
//! has. A segment goes when all its updates are written **and** their files synced.
//!
//! ```text
//! record: length u32 | checksum u32 | kind u8 | name length u16 | name | text      (little endian)
//! ```

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::error::{Error, Result, refused};

/// Bytes after which a new segment begins: small enough that space comes back, large enough that a busy
/// daemon opens few.
const SEGMENT_MAX: u64 = 64 << 20;
/// Bytes one record may have; a protocol line is shorter.
const RECORD_MAX: u32 = 1 << 16;
/// Bytes of segments that may wait to be written; beyond it updates are refused.
pub const BACKLOG_MAX: u64 = 8 << 30;

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A sample for a file.
    Update {
        /// The file.
        file: String,
        /// `time:value:...`.
        sample: String,
    },
    /// Everything before for this file is to be forgotten.
    Forget {
        /// The file.
        file: String,
    },
}

struct Segment {
    path: PathBuf,
    bytes: u64,
    /// Updates in it that no `.rrd` file has yet.
    waiting: u64,
}

struct State {
    segments: BTreeMap<u64, Segment>,
    current: u64,
    file: Arc<File>,
    /// Bytes in the current segment not synced yet.
    unsynced: bool,
    /// Why no record can be promised any more.
    poisoned: Option<String>,
    stopping: bool,
    appended_bytes: u64,
    rotations: u64,
}

struct Shared {
    directory: PathBuf,
    window: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

/// The log.
pub struct Log {
    shared: Arc<Shared>,
    syncer: Option<std::thread::JoinHandle<()>>,
}

/// CRC-32C, bit by bit over a table of 16: fast enough beside a system call.
fn checksum(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    const fn row(value: u32) -> u32 {
        let (mut crc, mut bit) = (value, 0);
        while bit < 4 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        crc
    }
    const TABLE: [u32; 16] = {
        let (mut table, mut index) = ([0; 16], 0);
        while index < 16 {
            table[index] = row(index as u32);
            index += 1;
        }
        table
    };
    let step = |crc: u32| (crc >> 4) ^ TABLE[(crc & 15) as usize];
    !bytes.iter().fold(!0, |crc, byte| step(step(crc ^ u32::from(*byte))))
}

fn encode(entry: &Entry, out: &mut Vec<u8>) -> Result<()> {
    let (kind, file, text) = match entry {
        Entry::Update { file, sample } => (0u8, file, sample.as_str()),
        Entry::Forget { file } => (1, file, ""),
    };
    let length = 3 + file.len() + text.len();
    if length > RECORD_MAX as usize || file.len() > usize::from(u16::MAX) {
        return refused(format!("a record of {length} bytes; at most {RECORD_MAX} are logged"));
    }
    let mut body = Vec::with_capacity(length);
    body.push(kind);
    body.extend((file.len() as u16).to_le_bytes());
    body.extend(file.as_bytes());
    body.extend(text.as_bytes());
    out.extend((length as u32).to_le_bytes());
    out.extend(checksum(&body).to_le_bytes());
    out.extend(body);
    Ok(())
}

/// The entries of a segment's bytes, up to its end or the first record that is not whole: that one was never
/// acknowledged. Returns how many bytes were good.
pub fn decode(bytes: &[u8]) -> (Vec<Entry>, usize) {
    let (mut entries, mut at) = (vec![], 0);
    while let Some((entry, length)) = record(&bytes[at..]) {
        entries.push(entry);
        at += length;
    }
    (entries, at)
}

fn record(bytes: &[u8]) -> Option<(Entry, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (length, sum) = (word(0)?, word(4)?);
    if length > RECORD_MAX {
        return None;
    }
    let body = bytes.get(8..8 + length as usize)?;
    if checksum(body) != sum {
        return None;
    }
    let name = usize::from(u16::from_le_bytes(body.get(1..3)?.try_into().ok()?));
    let file = String::from_utf8(body.get(3..3 + name)?.to_vec()).ok()?;
    let sample = String::from_utf8(body.get(3 + name..)?.to_vec()).ok()?;
    let entry = match body[0] {
        0 => Entry::Update { file, sample },
        1 => Entry::Forget { file },
        _ => return None,
    };
    Some((entry, 8 + length as usize))
}

impl Log {
    /// Opens the log in `directory`, giving each entry left in it, oldest first and with its segment's number,
    /// to `replay`. With a `window` of zero every append is synced before it returns.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(directory: &Path, window: Duration, mut replay: impl FnMut(u64, Entry)) -> Result<Self> {
        let failed = |action| move |error| Error::io(action, directory, error);
        std::fs::create_dir_all(directory).map_err(failed("creating"))?;
        let mut segments = BTreeMap::new();
        for entry in std::fs::read_dir(directory).map_err(failed("reading"))? {
            let path = entry.map_err(failed("reading"))?.path();
            let number =
                path.file_name().and_then(|name| name.to_str()?.strip_prefix("khz.log.")?.parse().ok());
            if let Some(number) = number {
                segments.insert(number, Segment { path, bytes: 0, waiting: 0 });
            }
        }
        for (number, segment) in &mut segments {
            let mut bytes = vec![];
            let read = File::open(&segment.path).and_then(|mut file| file.read_to_end(&mut bytes));
            read.map_err(|error| Error::io("reading", &segment.path, error))?;
            let (entries, good) = decode(&bytes);
            segment.bytes = good as u64;
            if good == 0 {
                // Never used, or torn at its first record: nothing in it was acknowledged.
                let _ = std::fs::remove_file(&segment.path);
            }
            for entry in entries {
                segment.waiting += u64::from(matches!(entry, Entry::Update { .. }));
                replay(*number, entry);
            }
        }
        let next = segments.keys().next_back().map_or(1, |number| number + 1);
        segments.retain(|_, segment| segment.bytes > 0);
        // Never appended to an old segment: behind a torn record nothing would be found again.
        let current = next;
        let (file, segment) = new_segment(directory, current)?;
        segments.insert(current, segment);
        let state = State {
            segments,
            current,
            file: Arc::new(file),
            unsynced: false,
            poisoned: None,
            stopping: false,
            appended_bytes: 0,
            rotations: 0,
        };
        let shared = Arc::new(Shared {
            directory: directory.into(),
            window,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let syncing = shared.clone();
        let syncer =
            std::thread::Builder::new().name("khz-rrd-sync".into()).spawn(move || syncing.sync_loop());
        let syncer = syncer.map_err(failed("starting a thread for"))?;
        Ok(Self { shared, syncer: Some(syncer) })
    }

    /// Appends `entries`; once this returns they survive the process. Returns their segment's number.
    ///
    /// # Errors
    /// The backlog is full, or the disk failed, after which nothing is accepted any more.
    pub fn append(&self, entries: &[Entry]) -> Result<u64> {
        let mut bytes = vec![];
        for entry in entries {
            encode(entry, &mut bytes)?;
        }
        let mut state = self.shared.lock();
        if let Some(why) = &state.poisoned {
            return refused(format!("the log has failed and takes nothing more: {why}"));
        }
        let backlog: u64 = state.segments.values().map(|segment| segment.bytes).sum();
        if backlog + bytes.len() as u64 > BACKLOG_MAX {
            return refused(format!(
                "the log holds {backlog} bytes not yet in their files; at most {BACKLOG_MAX}"
            ));
        }
        if state.segments.get(&state.current).is_some_and(|segment| segment.bytes >= SEGMENT_MAX) {
            self.shared.rotate(&mut state)?;
        }
        let updates = entries.iter().filter(|entry| matches!(entry, Entry::Update { .. })).count() as u64;
        if let Err(error) = (&*state.file).write_all(&bytes) {
            // Part of a record may be there; what follows it would never be found.
            state.poisoned = Some(error.to_string());
            return Err(Error::io("writing the log in", &self.shared.directory, error));
        }
        let current = state.current;
        state.appended_bytes += bytes.len() as u64;
        if let Some(segment) = state.segments.get_mut(&current) {
            segment.bytes += bytes.len() as u64;
            segment.waiting += updates;
        }
        if self.shared.window.is_zero() {
            self.shared.sync(&mut state)?;
        } else if !state.unsynced {
            state.unsynced = true;
            self.shared.changed.notify_all();
        }
        Ok(current)
    }

    /// Counts `updates` of segment `number` as written and synced (or forgotten); removes segments that hold
    /// nothing else.
    pub fn settle(&self, number: u64, updates: u64) {
        let mut state = self.shared.lock();
        if let Some(segment) = state.segments.get_mut(&number) {
            segment.waiting = segment.waiting.saturating_sub(updates);
        }
        // In order only: a later FORGET must not go before what it forgets.
        while let Some((&first, segment)) = state.segments.iter().next() {
            if first == state.current || segment.waiting > 0 {
                break;
            }
            // A segment that stays is replayed once more, to no effect.
            let _ = std::fs::remove_file(&segment.path);
            state.segments.remove(&first);
        }
    }

    /// Begins a new segment, so that the old ones can go once they are settled.
    ///
    /// # Errors
    /// What the system says.
    pub fn rotate(&self) -> Result<()> {
        let mut state = self.shared.lock();
        self.shared.rotate(&mut state)
    }

    /// Bytes appended since the start, and segments begun.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.shared.lock();
        (state.appended_bytes, state.rotations)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_all();
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.join();
        }
    }
}

fn new_segment(directory: &Path, number: u64) -> Result<(File, Segment)> {
    let path = directory.join(format!("khz.log.{number:016}"));
    let failed = |error| Error::io("creating", &path, error);
    let file = OpenOptions::new().create_new(true).append(true).open(&path).map_err(failed)?;
    // The name must survive as well as the content.
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    Ok((file, Segment { path, bytes: 0, waiting: 0 }))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that died holding it left whole values: every change is one assignment.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn rotate(&self, state: &mut State) -> Result<()> {
        self.sync(state)?;
        let (file, segment) = new_segment(&self.directory, state.current + 1)?;
        state.current += 1;
        state.rotations += 1;
        state.file = Arc::new(file);
        state.segments.insert(state.current, segment);
        Ok(())
    }

    fn sync(&self, state: &mut State) -> Result<()> {
        state.unsynced = false;
        state.file.sync_data().map_err(|error| {
            // After a failed sync the kernel may have dropped the pages: trying again would lie.
            state.poisoned = Some(error.to_string());
            Error::io("syncing the log in", &self.directory, error)
        })
    }

    /// Syncs within the window after the first unsynced record.
    fn sync_loop(&self) {
        let mut state = self.lock();
        while !state.stopping {
            if !state.unsynced {
                state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
                continue;
            }
            let waited = self.changed.wait_timeout(state, self.window);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            state.unsynced = false;
            let file = state.file.clone();
            drop(state);
            let synced = file.sync_data();
            state = self.lock();
            if let Err(error) = synced {
                state.poisoned = Some(error.to_string());
            }
        }
        let _ = state.file.sync_data();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(file: &str, sample: &str) -> Entry {
        Entry::Update { file: file.into(), sample: sample.into() }
    }

    fn directory(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("khz-rrd-log-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        dir
    }

    fn reopened(dir: &Path) -> (Log, Vec<Entry>) {
        let mut found = vec![];
        let log = Log::open(dir, Duration::ZERO, |_, entry| found.push(entry)).unwrap();
        (log, found)
    }

    #[test]
    fn the_checksum_is_crc32c() {
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn what_was_appended_is_found_again_and_a_torn_record_is_not() {
        let dir = directory("torn");
        let entries = [update("a", "1:2"), Entry::Forget { file: "a".into() }, update("b", "3:4")];
        reopened(&dir).0.append(&entries).unwrap();
        let first = dir.join(format!("khz.log.{:016}", 1));
        let bytes = std::fs::read(&first).unwrap();
        for cut in 0..bytes.len() {
            std::fs::write(&first, &bytes[..cut]).unwrap();
            let (found, good) = decode(&bytes[..cut]);
            assert!(good <= cut && found.len() < 3);
            assert_eq!(found, entries[..found.len()]);
        }
        std::fs::write(&first, &bytes).unwrap();
        assert_eq!(reopened(&dir).1, entries);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_settled_segment_goes_and_its_successors_stay() {
        let dir = directory("settled");
        let (log, _) = reopened(&dir);
        let first = log.append(&[update("a", "1:2"), update("b", "1:2")]).unwrap();
        log.rotate().unwrap();
        log.append(&[update("c", "1:2")]).unwrap();
        log.settle(first, 1);
        drop(log);
        assert_eq!(reopened(&dir).1.len(), 3);
        let (log, _) = reopened(&dir);
        log.settle(first, 2);
        drop(log);
        assert_eq!(reopened(&dir).1, [update("c", "1:2")]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
