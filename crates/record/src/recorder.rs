//! A recording under way: lanes, schemas and blocks go into a file as they come, or into one file after the other.
//! It counts what came, what is missing and how far rows were off their time.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use khz_block::trace::{LaneHead, Sealed};
use khz_block::{HEADER_BYTES, Header, stamps};
use khz_model::{Nanos, Stamp};

use crate::RecordError;
use crate::file::TraceFile;
use crate::held::{Held, Missing, between_epochs};
use crate::jitter::Jitter;

/// What came is in the file, for others to read, so soon at the latest.
const FLUSH_PERIOD: Nanos = Nanos::SECOND;
/// Ranges of lost rows of a lane that are remembered, so as not to be waited for; all are counted.
const LOST_MAX: usize = 4_096;
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
    /// What is missing, of all lanes together. Between two epochs of a lane the time tells.
    pub missing: Missing,
    /// Rows that came twice; each is in the file once.
    pub repeated: u64,
    /// Blocks that were refused because they were damaged.
    pub damaged: u64,
    /// Deviations of the rows from their period.
    pub jitter: Jitter,
    /// The shortest and the longest time between two rows of a lane, as their blocks say; `None`: there were none.
    pub periods: Option<(Nanos, Nanos)>,
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
    /// The row that came last, and when it was gathered.
    last: Option<(u64, Nanos)>,
    /// The rows that came.
    held: Held,
    /// Rows that were told as lost.
    lost: Vec<(u64, u64)>,
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
    /// Lanes whose number another one has now.
    former: Vec<Lane>,
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
            former: Vec::new(),
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
            let new = Lane { node: node.into(), name: name.into(), epoch, ..Lane::default() };
            self.former.extend(self.lanes.insert(lane, new));
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
        let (mut count, mut last) = (0u64, known.last);
        let (jitter, held) = (&mut self.counts.jitter, &mut known.held);
        let mut repeated = 0;
        let read = stamps(bytes, |number, at| {
            if let Some((before, then)) = last.filter(|&(before, _)| before < number) {
                jitter.add(at.since(then).0, number - before, header.period.0);
            }
            repeated += u64::from(!held.row(number, Stamp { boot: at, ..header.stamp }, header.period));
            last = Some((number, at));
            count += 1;
        });
        if read.is_err() {
            self.counts.damaged += 1;
        }
        // Rows that came late are no measure of how punctual the next one is.
        known.last = known.last.max(last);
        self.counts.repeated += repeated;
        if count > 0 && header.period > Nanos(0) {
            let (shortest, longest) = self.counts.periods.unwrap_or((header.period, header.period));
            self.counts.periods = Some((shortest.min(header.period), longest.max(header.period)));
        }
        self.counts.rows += count;
        self.counts.values += count * u64::from(header.slots);
        self.file.put(&Sealed::Block { lane, bytes })
    }

    /// These rows (the last not included) will not come.
    pub fn lost(&mut self, lane: u32, from: u64, to: u64) -> Result<(), RecordError> {
        self.lanes.entry(lane).or_default().lose(from, to);
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
        Counts { bytes: complete + self.file.bytes(), missing: self.missing(), ..self.counts.clone() }
    }

    fn all_lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.values().chain(&self.former)
    }

    /// What is missing, of all lanes together.
    pub fn missing(&self) -> Missing {
        self.missing_by_node().into_iter().fold(Missing::default(), |mut sum, (_, missing)| {
            sum += missing;
            sum
        })
    }

    /// What is missing of each node of which something is, by name.
    pub fn missing_by_node(&self) -> Vec<(String, Missing)> {
        let mut nodes: BTreeMap<&str, Missing> = BTreeMap::new();
        let mut spans: BTreeMap<(&str, &str), Vec<_>> = BTreeMap::new();
        for lane in self.all_lanes() {
            *nodes.entry(&lane.node).or_default() += lane.held.missing();
            spans.entry((&lane.node, &lane.name)).or_default().extend(lane.held.span());
        }
        for ((node, _), spans) in spans {
            *nodes.entry(node).or_default() += between_epochs(spans);
        }
        let lacking = nodes.into_iter().filter(|(_, missing)| *missing != Missing::default());
        lacking.map(|(node, missing)| (node.to_owned(), missing)).collect()
    }

    /// Rows that are missing and were not told as lost, of each node that has such: they may still come. `began` has the
    /// first row of blocks that are under way, by the number of their lane.
    pub fn awaited(&self, began: &HashMap<u32, u64>) -> BTreeMap<&str, u64> {
        let mut awaited: BTreeMap<&str, u64> = BTreeMap::new();
        for (number, lane) in &self.lanes {
            let under_way = lane.held.end().zip(began.get(number)).map(|(end, &row)| (end, row));
            let holes = lane.held.holes().chain(under_way.filter(|(end, row)| end < row));
            let rows = holes.filter(|&(from, to)| !lane.is_lost(from, to)).map(|(from, to)| to - from);
            let rows = rows.fold(0, u64::saturating_add);
            if rows > 0 {
                let sum = awaited.entry(&*lane.node).or_default();
                *sum = sum.saturating_add(rows);
            }
        }
        awaited
    }

    /// The file that is being written.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What is missing at the end is told as lost.
    fn tell_of_holes(&mut self) -> Result<(), RecordError> {
        let holes = |(&number, lane): (&u32, &Lane)| {
            let untold = lane.held.holes().filter(|&(from, to)| !lane.is_lost(from, to));
            untold.map(|(from, to)| (number, from, to)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.lanes.iter().flat_map(holes).collect();
        all.sort_unstable();
        all.into_iter().try_for_each(|(lane, from, to)| self.file.put(&Sealed::Lost { lane, from, to }))
    }

    /// The end, with a last note.
    pub fn finish(mut self, note: &str) -> Result<Counts, RecordError> {
        self.tell_of_holes()?;
        self.file.put(&Sealed::Note(note))?;
        let mut counts = self.counts();
        let complete: u64 = self.complete.iter().map(|(_, bytes)| bytes).sum();
        counts.bytes = complete + self.file.close()?;
        Ok(counts)
    }
}

impl Lane {
    /// Whether all of these rows were told as lost.
    fn is_lost(&self, from: u64, to: u64) -> bool {
        self.lost.iter().any(|&(first, end)| first <= from && to <= end)
    }

    /// These rows are lost; what touches what is known becomes one with it.
    fn lose(&mut self, mut from: u64, mut to: u64) {
        self.held.lost(from, to);
        self.lost.retain(|&(first, end)| {
            let touches = first <= to && from <= end;
            if touches {
                (from, to) = (from.min(first), to.max(end));
            }
            !touches
        });
        if self.lost.len() < LOST_MAX {
            self.lost.push((from, to));
        }
    }

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

/// `run.khzt` is `run.0001.khzt`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let extension = path.extension().map_or_else(|| "khzt".into(), |word| word.to_string_lossy());
    path.with_extension(format!("{number:04}.{extension}"))
}
