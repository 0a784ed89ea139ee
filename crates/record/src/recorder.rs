//! A recording under way: lanes, schemas and blocks go into a file as they come, or into one file after the other.
//! It counts what came, what is missing and how far rows were off their time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use khz_block::trace::{LaneHead, Sealed};
use khz_block::{HEADER_BYTES, Header, stamps};
use khz_model::{Nanos, Stamp};

use crate::RecordError;
use crate::file::TraceFile;
use crate::jitter::Jitter;

/// What came is in the file, for others to read, so soon at the latest.
const FLUSH_PERIOD: Nanos = Nanos::SECOND;
/// Generations of a lane's schema that are kept for the next file.
const GENERATIONS_MAX: usize = 4;

/// When one file ends and the next begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// At so many bytes.
    pub bytes: Option<u64>,
    /// After so much time.
    pub span: Option<Nanos>,
    /// Only so many files stay.
    pub keep: Option<usize>,
}

impl Rotation {
    fn is_wanted(&self) -> bool {
        self.bytes.is_some() || self.span.is_some()
    }
}

/// What a recording has come to.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Nodes.
    pub nodes: u64,
    /// Rows.
    pub rows: u64,
    /// Values: slots of every row.
    pub values: u64,
    /// Bytes, in all files.
    pub bytes: u64,
    /// Files.
    pub files: u64,
    /// Rows that there were and that did not come: their numbers say so, or, where a lane goes on under a new epoch,
    /// the time between its last row and the next.
    pub missing: u64,
    /// Places where some were missing.
    pub gaps: u64,
    /// Blocks that were refused because they were damaged.
    pub damaged: u64,
    /// Deviations of the rows from their period.
    pub jitter: Jitter,
}

/// One lane.
#[derive(Debug, Default)]
struct Lane {
    node: String,
    name: String,
    epoch: u64,
    period: u64,
    /// Schemas by generation, for the next file; empty where there will be none.
    schemas: Vec<(u32, Vec<u8>)>,
    /// The row that should come next, and when the one before it was gathered.
    expected: Option<(u64, Nanos)>,
    /// When its last row was gathered, by the node's wall clock; before its first row, when that of the epoch
    /// before was.
    last_real: Option<Nanos>,
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    rotation: Rotation,
    note: String,
    file: TraceFile,
    /// When the present file began, and when it was flushed last.
    began: Nanos,
    flushed: Nanos,
    lanes: HashMap<u32, Lane>,
    /// Files that are complete, oldest first.
    complete: Vec<(PathBuf, u64)>,
    counts: Counts,
}

impl Recorder {
    /// Begins at `path`; with a rotation, at numbered names beside it. `note` is a JSON object about the whole.
    pub fn create(path: &Path, rotation: Rotation, note: String, now: Nanos) -> Result<Self, RecordError> {
        let first = if rotation.is_wanted() { numbered(path, 1) } else { path.to_owned() };
        Ok(Recorder {
            path: path.to_owned(),
            rotation,
            file: TraceFile::create(&first, &note)?,
            note,
            began: now,
            flushed: now,
            lanes: HashMap::new(),
            complete: Vec::new(),
            counts: Counts { files: 1, ..Counts::default() },
        })
    }

    /// A lane that may come from here on.
    pub fn lane(&mut self, head: &LaneHead<'_>) -> Result<(), RecordError> {
        let LaneHead { lane, node, name, epoch, period } = *head;
        if self.lanes.values().all(|known| known.node != node) {
            self.counts.nodes += 1;
        }
        let is_same = |known: &Lane| known.node == node && known.name == name;
        if self.lanes.get(&lane).is_none_or(|known| !is_same(known) || known.epoch != epoch) {
            let before = self.lanes.values().filter(|known| is_same(known));
            let last_real = before.filter_map(|known| known.last_real).max();
            let new = Lane { node: node.into(), name: name.into(), epoch, last_real, ..Lane::default() };
            self.lanes.insert(lane, new);
        }
        let known = self.lanes.entry(lane).or_default();
        known.period = period;
        self.file.put(&Sealed::Lane(head.clone()))
    }

    /// Bytes of a lane's schema; `offset` 0 begins a generation.
    pub fn schema(
        &mut self,
        lane: u32,
        generation: u32,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), RecordError> {
        if self.rotation.is_wanted() {
            self.lanes.entry(lane).or_default().keep_schema(generation, offset, bytes);
        }
        self.file.put(&Sealed::Schema { lane, generation, offset, bytes })
    }

    /// A closed block. Its rows are looked at for their times; it is written as it is.
    pub fn block(&mut self, lane: u32, bytes: &[u8]) -> Result<(), RecordError> {
        let Some(Ok(header)) = bytes.first_chunk::<HEADER_BYTES>().map(|head| Header::from_bytes(head, 0))
        else {
            self.counts.damaged += 1;
            return Ok(());
        };
        let known = self.lanes.entry(lane).or_default();
        self.counts.missing_before(known, &header);
        let (mut count, mut last) = (0u64, known.expected.map(|(row, at)| (row.saturating_sub(1), at)));
        let jitter = &mut self.counts.jitter;
        let read = stamps(bytes, |number, at| {
            if let Some((before, then)) = last.filter(|&(before, _)| before < number) {
                jitter.add(at.since(then).0, number - before, header.period.0);
            }
            last = Some((number, at));
            count += 1;
        });
        if read.is_err() {
            self.counts.damaged += 1;
        }
        known.expected = last.map(|(number, at)| (number.saturating_add(1), at));
        if let Some((_, boot)) = last {
            known.last_real = Some(Stamp { boot, ..header.stamp }.real());
        }
        self.counts.rows += count;
        self.counts.values += count * u64::from(header.slots);
        self.file.put(&Sealed::Block { lane, bytes })
    }

    /// These rows (the last not included) will not come.
    pub fn lost(&mut self, lane: u32, from: u64, to: u64) -> Result<(), RecordError> {
        self.file.put(&Sealed::Lost { lane, from, to })
    }

    /// To be called some times a second: flushes, and begins the next file when it is time.
    pub fn tick(&mut self, now: Nanos) -> Result<(), RecordError> {
        let is_large = self.rotation.bytes.is_some_and(|most| self.file.bytes() >= most);
        let is_old = self.rotation.span.is_some_and(|most| now.since(self.began) >= most);
        if is_large || is_old {
            self.rotate(now)?;
        }
        if now.since(self.flushed) >= FLUSH_PERIOD {
            self.flushed = now;
            self.file.flush()?;
        }
        Ok(())
    }

    fn rotate(&mut self, now: Nanos) -> Result<(), RecordError> {
        self.counts.files += 1;
        let next = numbered(&self.path, self.counts.files);
        let before = std::mem::replace(&mut self.file, TraceFile::create(&next, &self.note)?);
        let path = before.path().to_owned();
        self.complete.push((path, before.close()?));
        self.began = now;
        self.drop_oldest();
        let mut lanes: Vec<_> = self.lanes.iter().collect();
        lanes.sort_by_key(|(number, _)| **number);
        for (&number, lane) in lanes {
            let Lane { node, name, epoch, period, .. } = lane;
            self.file.put(&Sealed::Lane(LaneHead {
                lane: number,
                node,
                name,
                epoch: *epoch,
                period: *period,
            }))?;
            for (generation, bytes) in &lane.schemas {
                self.file.put(&Sealed::Schema { lane: number, generation: *generation, offset: 0, bytes })?;
            }
        }
        Ok(())
    }

    fn drop_oldest(&mut self) {
        let Some(keep) = self.rotation.keep else { return };
        // The present file counts too.
        while self.complete.len() + 1 > keep.max(1) {
            let (path, _) = self.complete.remove(0);
            // One that somebody else took away already is gone as well.
            let _ = std::fs::remove_file(path);
        }
    }

    /// What it has come to so far.
    pub fn counts(&self) -> Counts {
        let complete: u64 = self.complete.iter().map(|(_, bytes)| bytes).sum();
        Counts { bytes: complete + self.file.bytes(), ..self.counts.clone() }
    }

    /// The file that is being written.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The end, with a last note.
    pub fn finish(mut self, note: &str) -> Result<Counts, RecordError> {
        self.file.put(&Sealed::Note(note))?;
        let mut counts = self.counts();
        let complete: u64 = self.complete.iter().map(|(_, bytes)| bytes).sum();
        counts.bytes = complete + self.file.close()?;
        Ok(counts)
    }
}

impl Lane {
    fn keep_schema(&mut self, generation: u32, offset: u64, bytes: &[u8]) {
        let known = self.schemas.iter_mut().find(|(known, _)| *known == generation);
        match known {
            Some((_, schema)) if schema.len() as u64 == offset => schema.extend_from_slice(bytes),
            Some((_, schema)) if offset == 0 => *schema = bytes.to_vec(),
            // A piece that does not continue what is there is refused by every reader.
            Some(_) => {}
            None => {
                if self.schemas.len() == GENERATIONS_MAX {
                    self.schemas.remove(0);
                }
                self.schemas.push((generation, bytes.to_vec()));
            }
        }
    }
}

impl Counts {
    fn missing_before(&mut self, lane: &Lane, header: &Header) {
        let missing = match (lane.expected, lane.last_real) {
            (Some((row, _)), _) => header.first_row.saturating_sub(row),
            // By the wall clock: the node may have been started anew, and its other clock with it.
            (None, Some(last)) => periods(header.stamp.real().since(last), header.period).saturating_sub(1),
            (None, None) => 0,
        };
        self.missing = self.missing.saturating_add(missing);
        self.gaps += u64::from(missing > 0);
    }
}

/// Whole periods, rounded: rows are not on time to the nanosecond.
fn periods(span: Nanos, period: Nanos) -> u64 {
    span.0.saturating_add(period.0 / 2).checked_div(period.0).unwrap_or(0)
}

/// `run.khzt` is `run.0001.khzt`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let extension = path.extension().map_or_else(|| "khzt".into(), |word| word.to_string_lossy());
    path.with_extension(format!("{number:04}.{extension}"))
}
