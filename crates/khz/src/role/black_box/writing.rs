//! The recording of one freeze, while it is written. If the disk is full, received rows wait here and none is lost: the hub fetches
//! no more until they are written.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_block::Header;
use khz_block::trace::LaneHead;
use khz_hub::{FrozenKey, FrozenNews};
use khz_model::NodeName;
use khz_record::{Counts, RecordError, Recorder, Recording, Rotation, Survey};
use serde_json::Value;

use super::since_boot;

/// Smaller differences between clocks are below what can be measured.
const CLOCK_OFF_MIN: u64 = 1_000_000;
/// A disk that is full for this long stays full.
pub const GIVEN_UP: Duration = Duration::from_secs(3_600);

/// The recording.
pub struct Writing {
    recorder: Option<Recorder>,
    note: String,
    /// The number of each lane in the file.
    lanes: HashMap<Arc<FrozenKey>, (u32, u64)>,
    made: u32,
    /// The offset that turns a node's time since boot into the time since boot of our wall clock, ns.
    offsets: BTreeMap<NodeName, i64>,
    /// Rows for which the disk has no room.
    waiting: VecDeque<FrozenNews>,
    failing: Option<Instant>,
    /// It has its last note.
    is_ended: bool,
}

impl Writing {
    /// Writes nothing until rows come.
    pub fn new(note: &Value) -> Self {
        Writing::of(note.to_string())
    }

    fn of(note: String) -> Self {
        Writing {
            recorder: None,
            note,
            lanes: HashMap::new(),
            made: 0,
            offsets: BTreeMap::new(),
            waiting: VecDeque::new(),
            failing: None,
            is_ended: false,
        }
    }

    /// `offset` turns a node's time since boot into the time of our clock, whatever the node's own wall clock showed.
    pub fn knows_clock(&mut self, node: &NodeName, offset: i64) {
        self.offsets.insert(node.clone(), offset);
    }

    /// Takes received rows. `Err`: the disk refuses them, and they wait.
    pub fn take(&mut self, path: &Path, news: FrozenNews) -> Result<(), RecordError> {
        if self.is_ended {
            return Ok(());
        }
        if self.failing.is_some() {
            self.waiting.push_back(news);
            return Ok(());
        }
        if let Err(error) = self.open(path) {
            self.waiting.push_back(news);
            return Err(self.fails(error));
        }
        // Rows that the recorder has taken wait there.
        self.write(&news).map_err(|error| self.fails(error))
    }

    /// Writes the waiting rows, once a second. `Err`: the disk still refuses them.
    pub fn tick(&mut self, path: &Path) -> Result<(), RecordError> {
        if self.failing.is_some() {
            return self.sync(path);
        }
        match &mut self.recorder {
            Some(recorder) => recorder.tick(since_boot()).map_err(|error| self.fails(error)),
            None => Ok(()),
        }
    }

    /// Writes all received rows, and syncs them to the disk. `Err`: this failed, and they wait.
    pub fn sync(&mut self, path: &Path) -> Result<(), RecordError> {
        self.write_all(path).map_err(|error| self.fails(error))?;
        self.failing = None;
        Ok(())
    }

    fn write_all(&mut self, path: &Path) -> Result<(), RecordError> {
        if self.is_empty() {
            return Ok(());
        }
        self.open(path)?;
        if self.failing.is_some() {
            // The recorder's rows are older than those that wait here.
            self.sync_recorder()?;
        }
        while let Some(news) = self.waiting.pop_front() {
            self.write(&news)?;
        }
        self.sync_recorder()
    }

    fn sync_recorder(&mut self) -> Result<(), RecordError> {
        self.recorder.as_mut().map_or(Ok(()), Recorder::sync)
    }

    fn fails(&mut self, error: RecordError) -> RecordError {
        self.failing.get_or_insert_with(Instant::now);
        error
    }

    /// True if nothing has come yet.
    pub fn is_empty(&self) -> bool {
        self.recorder.is_none() && self.waiting.is_empty()
    }

    /// For tests: the disk has been full for the longest allowed time.
    #[cfg(test)]
    pub fn age(&mut self) {
        self.failing = self.failing.and_then(|since| since.checked_sub(GIVEN_UP));
    }

    /// True while the disk is full.
    pub fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// True if the disk has been full for too long.
    pub fn is_hopeless(&self) -> bool {
        self.failing.is_some_and(|since| since.elapsed() >= GIVEN_UP)
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.recorder.as_ref().map_or(0, |recorder| recorder.counts().bytes)
    }

    /// The number of missing rows of each node.
    pub fn missing(&self) -> Vec<(String, u64)> {
        let missing = self.recorder.as_ref().map(Recorder::missing_by_node).unwrap_or_default();
        missing
            .into_iter()
            .map(|(node, missing)| (node, missing.rows))
            .filter(|(_, rows)| *rows > 0)
            .collect()
    }

    /// Ends the file, and syncs it to the disk. A freeze without any row has a file, too, which says why. `Err`: this failed, and
    /// can be retried. The first note counts.
    pub fn end(&mut self, path: &Path, note: &Value) -> Result<Counts, RecordError> {
        let ended = self.try_to_end(path, note);
        ended.map_err(|error| self.fails(error))
    }

    fn try_to_end(&mut self, path: &Path, note: &Value) -> Result<Counts, RecordError> {
        self.write_all(path)?;
        self.open(path)?;
        let Some(recorder) = &mut self.recorder else { return Ok(Counts::default()) };
        self.is_ended = true;
        recorder.end(&note.to_string())
    }

    /// True if the file's content is lost, or may be: somebody has removed the file, or the disk did not keep the data.
    pub fn is_lost(error: &RecordError) -> bool {
        matches!(error, RecordError::Removed { .. } | RecordError::File { what: "sync", .. })
    }

    /// Begins again, without the received rows.
    pub fn again(self) -> Self {
        if let Some(recorder) = self.recorder {
            recorder.discard();
        }
        Writing { offsets: self.offsets, ..Writing::of(self.note) }
    }

    /// Gives up. The file keeps its content. Returns the rows of each node.
    pub fn give_up(self, path: &Path) -> BTreeMap<String, u64> {
        let Some(recorder) = self.recorder else { return BTreeMap::new() };
        let survey = Survey::of(&Recording::of(&[path.to_owned()]));
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        for one in survey.map(|survey| survey.lanes).unwrap_or_default() {
            *rows.entry(one.lane.node.to_string()).or_default() += one.rows;
        }
        rows.retain(|_, rows| *rows > 0);
        if rows.is_empty() {
            recorder.discard();
        }
        rows
    }

    /// Removes the file.
    pub fn discard(self) {
        if let Some(recorder) = self.recorder {
            recorder.discard();
        }
    }

    fn open(&mut self, path: &Path) -> Result<(), RecordError> {
        if self.recorder.is_none() {
            self.recorder =
                Some(Recorder::create(path, Rotation::default(), self.note.clone(), since_boot())?);
        }
        Ok(())
    }

    fn write(&mut self, news: &FrozenNews) -> Result<(), RecordError> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        match news {
            FrozenNews::Lane { key, epoch, period } => {
                let number = match self.lanes.get(key) {
                    // The node sends the same lane over another connection.
                    Some(&(_, known)) if known == *epoch => return Ok(()),
                    _ => self.made + 1,
                };
                self.made = number;
                self.lanes.insert(key.clone(), (number, *epoch));
                let (node, name, epoch, period) = (key.node.as_str(), key.lane.as_str(), *epoch, period.0);
                recorder.lane(&LaneHead { lane: number, node, name, epoch, period })
            }
            FrozenNews::Schema { key, generation, offset, bytes } => match self.lanes.get(key) {
                Some(&(lane, _)) => recorder.schema(lane, *generation, *offset, bytes),
                None => Ok(()),
            },
            FrozenNews::Block { key, bytes } => match self.lanes.get(key) {
                Some(&(lane, _)) => match self.offsets.get(&key.node) {
                    None => recorder.block(lane, bytes),
                    Some(&offset) => recorder.block(lane, &by_our_clock(bytes, offset)),
                },
                None => Ok(()),
            },
            FrozenNews::Lost { key, from, to } => match self.lanes.get(key) {
                Some(&(lane, _)) => recorder.lost(lane, *from, *to),
                None => Ok(()),
            },
            FrozenNews::Asked { .. }
            | FrozenNews::Answer { .. }
            | FrozenNews::Whole { .. }
            | FrozenNews::Again { .. } => Ok(()),
        }
    }
}

/// Converts the times of a block to our clock. Differences too small to measure are kept. The checksum covers only its rows.
fn by_our_clock(block: &[u8], offset: i64) -> Cow<'_, [u8]> {
    let header = block.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok());
    match header.filter(|header| header.stamp.real_offset.abs_diff(offset) >= CLOCK_OFF_MIN) {
        None => block.into(),
        Some(mut header) => {
            header.stamp.real_offset = offset;
            khz_record::with_header(block, &header).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use khz_block::{Encoder, HEADER_BYTES};
    use khz_model::{Nanos, Stamp};

    use super::*;

    #[test]
    fn blocks_of_a_node_get_the_times_of_our_clock_before_and_after_its_own_was_set_and_keep_their_rows() {
        let offset = 1_000_000_000;
        for real_offset in [offset, offset - 900_000, 0, 3_600 * offset] {
            let (mut encoder, mut bytes) = (Encoder::new(1, 1, Nanos::SECOND), Vec::new());
            encoder.key_row(Stamp { boot: Nanos(5), real_offset }, 1, |_| (0, 7), &mut bytes);
            bytes[..HEADER_BYTES].copy_from_slice(&encoder.close().expect("rows").to_bytes());
            let ours = by_our_clock(&bytes, offset);
            let header = Header::from_bytes(ours.first_chunk().expect("a header"), 0).expect("a header");
            let expected = if real_offset == offset - 900_000 { real_offset } else { offset };
            assert_eq!(header.stamp, Stamp { boot: Nanos(5), real_offset: expected });
            let mut rows = 0;
            khz_record::rows(&ours, |_, _| rows += 1).expect("a sound block");
            assert_eq!(rows, 1);
        }
    }
}
