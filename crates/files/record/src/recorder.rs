//! Writes a recording: lanes, schemas and blocks go into a file as they come, or into a series of files. It counts what came
//! and what is missing, and measures the jitter.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use khz_block::trace::{LaneHead, Sealed};
use khz_block::{HEADER_BYTES, Header, stamps};
use khz_model::{Nanos, Stamp};

use crate::RecordError;
use crate::block::since;
use crate::coverage::{Coverage, Missing, between_epochs, ticks_to_end};
use crate::file::TraceFile;
use crate::jitter::Jitter;

/// Bytes stay in the buffer for this long before others can read them in the file.
const FLUSH_PERIOD: Nanos = Nanos::SECOND;
/// Ranges of lost rows of a lane that are remembered, so that nobody waits for them; all rows are counted.
const LOST_MAX: usize = 4_096;
/// Generations of a lane's schema that are kept for the next file.
const GENERATIONS_MAX: usize = 8;

/// When one file ends and the next begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// When the file has this many bytes.
    pub bytes: Option<u64>,
    /// After this time.
    pub span: Option<Nanos>,
    /// How many files stay; older ones are deleted.
    pub keep: Option<usize>,
}

impl Rotation {
    fn is_wanted(&self) -> bool {
        self.bytes.is_some() || self.span.is_some()
    }
}

/// What a recording has so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Nodes of which a row has come.
    pub nodes: u64,
    /// Rows.
    pub rows: u64,
    /// Values: slots of every row.
    pub values: u64,
    /// Bytes, in all files.
    pub bytes: u64,
    /// Files.
    pub files: u64,
    /// The missing rows and ticks of all lanes together; between two epochs of a lane, they are
    /// computed by the clock.
    pub missing: Missing,
    /// Rows that came twice; each is in the file once.
    pub repeated: u64,
    /// Blocks that were refused because they were damaged.
    pub damaged: u64,
    /// How far rows were from their period.
    pub jitter: Jitter,
    /// The shortest and the longest period of the blocks that came; `None`: none came.
    pub periods: Option<(Nanos, Nanos)>,
}

/// A lane of the recording.
#[derive(Debug, Default)]
struct Lane {
    node: String,
    /// A row of it has come.
    is_counted: bool,
    name: String,
    epoch: u64,
    period: u64,
    /// Schemas by generation, for the next file; empty without rotation.
    schemas: Vec<(u32, Vec<u8>)>,
    /// The row that came last, and when it was gathered.
    last: Option<(u64, Nanos)>,
    /// The rows that came.
    coverage: Coverage,
    /// Ranges of rows that were reported lost.
    lost: Vec<(u64, u64)>,
    /// Our clock minus the node's, both since boot, in ns: at most this. `None`: no row came while it was made.
    ahead: Option<i128>,
    /// The newest row that was heard of: when it was gathered, by the node's clock, and the period.
    heard: Option<(Nanos, Nanos)>,
}

/// Rows that were on their way when a recording began belong to it: nodes and hubs pass rows on at least once a second.
const ON_THE_WAY: Nanos = Nanos::from_secs(2);

/// Writes a recording, into one file or several.
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
    /// Lanes whose number another lane has now.
    former: Vec<Lane>,
    /// Rows for which the disk had no room, by lane, that the file does not report as lost yet.
    unreported: Vec<(u32, u64, u64)>,
    /// Files that are complete, oldest first.
    complete: Vec<(PathBuf, u64)>,
    counts: Counts,
    /// When the recording began and ended, by our clock since boot.
    begin: Option<Nanos>,
    end: Option<Nanos>,
    /// It has its last note.
    is_ended: bool,
}

impl Recorder {
    /// Begins a recording at `path`; with a rotation, at numbered names beside it. `note` is a JSON object about the whole
    /// recording.
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
            unreported: Vec::new(),
            complete: Vec::new(),
            counts: Counts { files: 1, ..Counts::default() },
            begin: None,
            end: None,
            is_ended: false,
        })
    }

    /// Removes the written files: there is nothing to record.
    pub fn discard(self) {
        for (path, _) in &self.complete {
            let _ = std::fs::remove_file(path);
        }
        self.file.discard();
    }

    /// A lane whose schemas and blocks may come from here on. With a period of 0 its rows come at any time, as in a channel: then
    /// ticks are not checked, and silence means nothing.
    pub fn lane(&mut self, head: &LaneHead<'_>) -> Result<(), RecordError> {
        let LaneHead { lane, node, name, epoch, period } = *head;
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

    /// A closed block. It is written as it is; only the times of its rows are read.
    pub fn block(&mut self, lane: u32, bytes: &[u8]) -> Result<(), RecordError> {
        let Some(Ok(header)) = bytes.first_chunk::<HEADER_BYTES>().map(|head| Header::from_bytes(head, 0))
        else {
            self.counts.damaged += 1;
            return Ok(());
        };
        if !self.file.has_room() {
            self.no_room(lane, &header);
            return Ok(());
        }
        let known = self.lanes.entry(lane).or_default();
        known.needs_schema(header.generation);
        let period = known.period_of(header.period);
        let mut rest = None;
        if let Some(begin) = known.begin(self.begin, period).filter(|begin| header.stamp.boot < *begin) {
            match since(bytes, begin) {
                Ok(Some(rows)) => rest = Some(rows),
                Ok(None) => return Ok(()),
                // Damage is counted below.
                Err(_) => {}
            }
        }
        let bytes = rest.as_deref().unwrap_or(bytes);
        let (mut count, mut last) = (0u64, known.last);
        let (jitter, coverage) = (&mut self.counts.jitter, &mut known.coverage);
        let mut repeated = 0;
        let read = stamps(bytes, |number, at| {
            if let Some((before, then)) = last.filter(|&(before, _)| before < number && period > Nanos(0)) {
                jitter.add(at.since(then).0, number - before, period.0);
            }
            repeated += u64::from(!coverage.row(number, Stamp { boot: at, ..header.stamp }, period));
            last = Some((number, at));
            count += 1;
        });
        if read.is_err() {
            self.counts.damaged += 1;
        }
        known.coverage.begins(known.first_since(self.begin));
        // The next row is measured against the newest row, not against a late one.
        known.last = known.last.max(last);
        self.counts.repeated += repeated;
        if count > 0 {
            self.count_node(lane);
        }
        if count > 0 && period > Nanos(0) {
            let (shortest, longest) = self.counts.periods.unwrap_or((period, period));
            self.counts.periods = Some((shortest.min(period), longest.max(period)));
        }
        self.counts.rows += count;
        self.counts.values += count * u64::from(header.slots);
        self.file.put(&Sealed::Block { lane, bytes })
    }

    /// A block that cannot be written: its rows are lost.
    fn no_room(&mut self, lane: u32, header: &Header) {
        let (from, rows) = (header.first_row, header.closed.map_or(0, |(rows, ..)| rows));
        let to = from.saturating_add(u64::from(rows));
        self.lanes.entry(lane).or_default().lose(from, to);
        match self.unreported.iter().position(|&(of, _, end)| of == lane && end == from) {
            Some(at) => self.unreported[at].2 = to,
            None if self.unreported.len() < LOST_MAX => self.unreported.push((lane, from, to)),
            None => {}
        }
    }

    /// Says in the file which rows had no room.
    fn report_unwritten(&mut self) -> Result<(), RecordError> {
        let mut rows = std::mem::take(&mut self.unreported).into_iter();
        rows.try_for_each(|(lane, from, to)| self.file.put(&Sealed::Lost { lane, from, to }))
    }

    /// A row of this lane has come: its node counts, once.
    fn count_node(&mut self, lane: u32) {
        let Some(known) = self.lanes.get_mut(&lane).filter(|known| !known.is_counted) else { return };
        known.is_counted = true;
        let node = &self.lanes[&lane].node;
        let others = self.lanes.iter().filter(|(number, _)| **number != lane).map(|(_, other)| other);
        let mut of_node = others.chain(&self.former).filter(|other| other.node == *node);
        if !of_node.any(|other| other.is_counted) {
            self.counts.nodes += 1;
        }
    }

    /// These rows (`to` not included) will not come.
    pub fn lost(&mut self, lane: u32, from: u64, to: u64) -> Result<(), RecordError> {
        let known = self.lanes.entry(lane).or_default();
        let from = from.max(known.first_since(self.begin));
        if from >= to {
            return Ok(());
        }
        known.lose(from, to);
        self.file.put(&Sealed::Lost { lane, from, to })
    }

    /// A row of a lane is here or on its way into a block, `now`. The soonest arrival tells how far the clocks are apart.
    pub fn heard(&mut self, lane: u32, stamp: Stamp, period: Nanos, now: Nanos) {
        self.count_node(lane);
        let Some(lane) = self.lanes.get_mut(&lane) else { return };
        let period = lane.period_of(period);
        let ahead = i128::from(now.0) - i128::from(stamp.boot.0);
        lane.ahead = Some(lane.ahead.map_or(ahead, |known| known.min(ahead)));
        if lane.heard.is_none_or(|(boot, _)| boot < stamp.boot) {
            lane.heard = Some((stamp.boot, period));
        }
    }

    /// The recording began at this moment: rows of a node that were gathered long before do not belong to it. They come if the node
    /// was elsewhere then.
    pub fn begin_at(&mut self, begin: Nanos) {
        self.begin = Some(begin);
    }

    /// The recording ends at this moment: nodes without a row between their last row and this moment are silent.
    pub fn end_at(&mut self, end: Nanos) {
        self.end = Some(end);
    }

    /// The nodes that were silent at the end, by the rows that were heard: how long each node was
    /// silent by then.
    pub fn unheard(&self) -> BTreeMap<&str, Nanos> {
        let silences = self.silences_at_end(|lane| lane.heard).into_iter();
        silences.map(|(node, tail)| (node, tail.passed)).collect()
    }

    /// The nodes that were silent at the end, by the rows in the recording: how long each node was
    /// silent by then.
    pub fn silent_at_end(&self) -> BTreeMap<&str, Nanos> {
        let silences = self.silences_at_end(Lane::last_row).into_iter();
        silences.map(|(node, tail)| (node, tail.passed)).collect()
    }

    /// The silence of each node up to the end. `last_row` gives the newest row of a lane and its period. Nodes without a
    /// row that came when it was gathered are left out: nobody knows their clocks.
    fn silences_at_end(&self, last_row: impl Fn(&Lane) -> Option<(Nanos, Nanos)>) -> BTreeMap<&str, Tail> {
        let Some(end) = self.end else { return BTreeMap::new() };
        let mut newest: BTreeMap<&str, (i128, Nanos, u64)> = BTreeMap::new();
        for lane in self.all_lanes() {
            let Some((ahead, (boot, period))) = lane.ahead.zip(last_row(lane)) else { continue };
            // Rows that are lost after the last one are missing rows, and no ticks without a row.
            let lost = lane.coverage.span().map_or(0, |span| span.lost_after());
            let at = (i128::from(boot.0) + ahead, period, lost);
            newest.entry(&lane.node).and_modify(|known| *known = at.max(*known)).or_insert(at);
        }
        let tail = |(node, (at, period, lost))| {
            let passed = Nanos(u64::try_from(i128::from(end.0) - at).ok()?);
            Some((node, Tail { passed, ticks: ticks_to_end(passed, period)?.saturating_sub(lost) }))
        };
        newest.into_iter().filter_map(tail).collect()
    }

    /// Flushes, and begins the next file when it is time. Call it a few times a second.
    pub fn tick(&mut self, now: Nanos) -> Result<(), RecordError> {
        let is_large = self.rotation.bytes.is_some_and(|most| self.file.bytes() >= most);
        let is_old = self.rotation.span.is_some_and(|most| now.since(self.began) >= most);
        if is_large || is_old {
            self.rotate(now)?;
        }
        if now.since(self.flushed) >= FLUSH_PERIOD {
            self.flushed = now;
            self.flush(now)?;
        }
        Ok(())
    }

    /// Writes the buffer. If somebody has removed the present file of a series, writing continues in
    /// the next file.
    fn flush(&mut self, now: Nanos) -> Result<(), RecordError> {
        match self.file.flush() {
            Ok(()) => self.report_unwritten(),
            Err(error @ RecordError::Removed { .. }) if self.rotation.is_wanted() => {
                self.begin_next(now)?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends the file and begins the next one. If the disk is full, the present file continues.
    fn rotate(&mut self, now: Nanos) -> Result<(), RecordError> {
        self.file.flush()?;
        let before = self.begin_next(now)?;
        let path = before.path().to_owned();
        self.complete.push((path, before.close()?));
        self.drop_oldest();
        Ok(())
    }

    /// Begins the next file, with all lanes and schemas. Returns the one before.
    fn begin_next(&mut self, now: Nanos) -> Result<TraceFile, RecordError> {
        let next = numbered(&self.path, self.counts.files + 1);
        let before = std::mem::replace(&mut self.file, TraceFile::create(&next, &self.note)?);
        self.counts.files += 1;
        self.began = now;
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
        Ok(before)
    }

    fn drop_oldest(&mut self) {
        let Some(keep) = self.rotation.keep else { return };
        // The file that is being written counts too.
        while self.complete.len() + 1 > keep.max(1) {
            let (path, _) = self.complete.remove(0);
            // It does not matter if somebody else has deleted it.
            let _ = std::fs::remove_file(path);
        }
    }

    /// What the recording has so far.
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

    /// The missing rows and ticks of each node, by name; nodes that lack nothing are left out.
    pub fn missing_by_node(&self) -> Vec<(String, Missing)> {
        let mut nodes: BTreeMap<&str, Missing> = BTreeMap::new();
        let mut spans: BTreeMap<(&str, &str), Vec<_>> = BTreeMap::new();
        for lane in self.all_lanes() {
            *nodes.entry(&lane.node).or_default() += lane.coverage.missing();
            let span = lane.coverage.span().map(|span| ((), span));
            spans.entry((&lane.node, &lane.name)).or_default().extend(span);
        }
        for ((node, _), spans) in spans {
            let gaps = between_epochs(spans).into_iter();
            gaps.for_each(|(_, gap)| *nodes.entry(node).or_default() += gap.as_missing());
        }
        for (node, Tail { ticks, .. }) in self.silences_at_end(Lane::last_row) {
            *nodes.entry(node).or_default() += Missing { ticks, silences: 1, ..Missing::default() };
        }
        let lacking = nodes.into_iter().filter(|(_, missing)| *missing != Missing::default());
        lacking.map(|(node, missing)| (node.to_owned(), missing)).collect()
    }

    /// How many missing rows of each node may still come, because they were not reported lost. `began` has the first row of
    /// each block that is under way, by the number of its lane.
    pub fn awaited(&self, began: &HashMap<u32, u64>) -> BTreeMap<&str, u64> {
        let mut awaited: BTreeMap<&str, u64> = BTreeMap::new();
        for (number, lane) in &self.lanes {
            let under_way = lane.coverage.end().zip(began.get(number)).map(|(end, &row)| (end, row));
            let holes = lane.coverage.holes().chain(under_way.filter(|(end, row)| end < row));
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

    /// Reports the rows that are missing at the end as lost.
    fn report_holes(&mut self) -> Result<(), RecordError> {
        let holes = |(&number, lane): (&u32, &Lane)| {
            let unreported = lane.coverage.holes().filter(|&(from, to)| !lane.is_lost(from, to));
            unreported.map(|(from, to)| (number, from, to)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.lanes.iter().flat_map(holes).collect();
        all.sort_unstable();
        let mut reported = Ok(());
        for (lane, from, to) in all {
            reported = self.file.put(&Sealed::Lost { lane, from, to }).and(reported);
        }
        reported
    }

    /// Writes the buffer, and waits until it is on the disk. After [`RecordError::Full`], call it again later: bytes without room wait.
    /// After another error, the content of the file is unknown.
    pub fn sync(&mut self) -> Result<(), RecordError> {
        self.file.sync()
    }

    /// Ends the recording with a last note. After [`RecordError::Full`] it can be tried again: the first note counts.
    pub fn end(&mut self, note: &str) -> Result<Counts, RecordError> {
        if !std::mem::replace(&mut self.is_ended, true) {
            // A chunk that has no room waits, so the others must follow it.
            let holes = self.report_holes();
            let noted = self.file.put(&Sealed::Note(note));
            holes.and(noted)?;
        }
        self.file.sync()?;
        Ok(self.counts())
    }

    /// The same, once.
    pub fn finish(mut self, note: &str) -> Result<Counts, RecordError> {
        self.end(note)
    }
}

/// A silence up to the end of the recording.
struct Tail {
    passed: Nanos,
    ticks: u64,
}

impl Lane {
    /// The time between two rows of a block that says this; 0 where rows come at any time.
    fn period_of(&self, said: Nanos) -> Nanos {
        if self.period == 0 { Nanos(0) } else { said }
    }

    /// When the recording began, by the node's clock: older rows do not belong to it. `None`: nobody knows.
    fn begin(&self, begin: Option<Nanos>, period: Nanos) -> Option<Nanos> {
        let at = i128::from(begin?.0) - self.ahead?;
        let at = at - i128::from(period.0) - i128::from(ON_THE_WAY.0);
        (period > Nanos(0)).then(|| Nanos(u64::try_from(at).unwrap_or(0)))
    }

    /// The first row that may belong to the recording, as far as its rows tell.
    fn first_since(&self, begin: Option<Nanos>) -> u64 {
        let Some((row, first, period)) = self.coverage.span().map(|span| span.begin()) else { return 0 };
        let Some(begin) = self.begin(begin, period) else { return 0 };
        let rows = first.boot.since(begin).0.checked_div(period.0).unwrap_or(u64::MAX);
        row.saturating_sub(rows)
    }

    /// When the newest row in the recording was gathered, by the node's clock, and the period.
    fn last_row(&self) -> Option<(Nanos, Nanos)> {
        let (last, period) = self.coverage.span()?.end();
        Some((last.boot, period))
    }

    /// Whether all of these rows were reported lost.
    fn is_lost(&self, from: u64, to: u64) -> bool {
        self.lost.iter().any(|&(first, end)| first <= from && to <= end)
    }

    /// These rows are lost. Ranges that touch are joined.
    fn lose(&mut self, mut from: u64, mut to: u64) {
        self.coverage.lost(from, to);
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

    /// The schema of this generation was needed just now: it is the last one to be dropped.
    fn needs_schema(&mut self, generation: u32) {
        if let Some(at) = self.schemas.iter().position(|(known, _)| *known == generation) {
            self.schemas[at..].rotate_left(1);
        }
    }

    fn keep_schema(&mut self, generation: u32, offset: u64, bytes: &[u8]) {
        let known = self.schemas.iter_mut().find(|(known, _)| *known == generation);
        match known {
            Some((_, schema)) if schema.len() as u64 == offset => schema.extend_from_slice(bytes),
            Some((_, schema)) if offset == 0 => *schema = bytes.to_vec(),
            // Every reader refuses a piece that does not continue the schema.
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

/// The name of a file of a rotation: `run.khzt` becomes `run.0001.khzt`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let extension = path.extension().map_or_else(|| "khzt".into(), |word| word.to_string_lossy());
    path.with_extension(format!("{number:04}.{extension}"))
}
