//! Parts of an answer about the past, as chunks of a trace: the rows of each node are put together from the parts. The rows get
//! new numbers, because the past has none.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use khz_model::{Absence, Nanos, NodeName, RangeContent, RangePart, Reading, Stamp};

use super::{LaneHead, Sealed};
use crate::{BlockError, Encoder, HEADER_BYTES, SchemaEncoder};

/// If the time since boot falls by more than this, the node has booted. Rows of a node whose clock was set back lie between
/// each other; they are at most this far apart, because the hub corrects clocks that are 5 s off.
const BOOT_FALL_MIN: Nanos = Nanos::from_secs(10);

/// Turns parts of an answer, which come step by step, into chunks. It holds one step of one node, and a few words about each node.
#[derive(Debug)]
pub struct PastTrace {
    /// The parts of one step and node.
    parts: Vec<RangePart>,
    lanes: HashMap<NodeName, Lane>,
    /// The epoch of row numbers that begin now.
    epoch: u64,
    hasher: RandomState,
}

/// What is known of the one lane of a node.
#[derive(Debug)]
struct Lane {
    number: u32,
    epoch: u64,
    period: Nanos,
    next_row: u64,
    /// The generation of the schema, and the hash of its bytes; `None`: it must be written.
    generation: u32,
    schema: Option<u64>,
    boot: Nanos,
}

impl PastTrace {
    /// Before the first part. The epoch is that of all lanes: it should be another one in each trace, such as the present time.
    pub fn new(epoch: u64) -> Self {
        PastTrace { parts: Vec::new(), lanes: HashMap::new(), epoch, hasher: RandomState::new() }
    }

    /// Takes the next part of the answer. If it begins another step or node, chunks with the rows before it are appended.
    ///
    /// # Errors
    /// A schema takes no more series, or bytes.
    pub fn part(&mut self, part: RangePart, out: &mut Vec<u8>) -> Result<(), BlockError> {
        let is_next = |one: &RangePart| one.node != part.node || one.step != part.step;
        if self.parts.last().is_some_and(is_next) {
            self.flush(out)?;
        }
        self.parts.push(part);
        Ok(())
    }

    /// Appends chunks with the rows of the last step.
    ///
    /// # Errors
    /// As for [`PastTrace::part`].
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), BlockError> {
        let parts = std::mem::take(&mut self.parts);
        let Some(first) = parts.first() else { return Ok(()) };
        let (mut schema, mut meaning) = (SchemaEncoder::new(), Vec::new());
        for part in &parts {
            schema.append(&part.series, &mut meaning)?;
        }
        let hash = self.hasher.hash_one(&meaning);
        let (number, epoch) = (self.lanes.len() as u32 + 1, self.epoch);
        let lane = self.lanes.entry(first.node.clone()).or_insert_with(|| Lane {
            number,
            epoch,
            period: Nanos::SECOND,
            next_row: 0,
            generation: 0,
            schema: None,
            boot: Nanos(0),
        });
        let rows = Rows::of(&parts);
        if let Some(period) = rows.period() {
            lane.period = period;
        }
        let mut writing = Writing { lane, node: &first.node, meaning: &meaning, hash, out };
        writing.rows(rows);
        Ok(())
    }

    /// Roughly the bytes that it holds.
    pub fn held(&self) -> usize {
        let readings = self.parts.iter().map(|part| part.content.held());
        readings.sum::<usize>() + self.lanes.len() * size_of::<(NodeName, Lane)>()
    }
}

/// One step of one node on its way into chunks.
struct Writing<'a> {
    lane: &'a mut Lane,
    node: &'a NodeName,
    meaning: &'a [u8],
    hash: u64,
    out: &'a mut Vec<u8>,
}

impl Writing<'_> {
    fn rows(&mut self, mut rows: Rows<'_>) {
        let (mut encoder, mut block) = (Encoder::new(0, 0, self.lane.period), Vec::new());
        while let Some((stamp, readings)) = rows.next() {
            let reading = |slot: usize| (readings[slot].state(), readings[slot].bits());
            let is_booted = stamp.boot.0.saturating_add(BOOT_FALL_MIN.0) < self.lane.boot.0;
            if !is_booted && encoder.rows_open() > 0 && !encoder.wants_new_block_of_copies(stamp) {
                encoder.delta_row(stamp, 0..readings.len(), reading, &mut block);
            } else {
                self.close(&mut encoder, &mut block);
                self.begin(is_booted);
                encoder.resume(self.lane.next_row, self.lane.generation);
                encoder.key_row(stamp, readings.len(), reading, &mut block);
            }
            self.lane.boot = stamp.boot;
        }
        self.close(&mut encoder, &mut block);
    }

    /// Writes what must come before a block: the lane, and the meaning of its slots.
    fn begin(&mut self, is_booted: bool) {
        let lane = &mut *self.lane;
        if is_booted {
            (lane.epoch, lane.next_row, lane.schema) = (lane.epoch + 1, 0, None);
        }
        if lane.schema.is_none() {
            let (number, node, period) = (lane.number, self.node.as_str(), lane.period.0);
            let head = LaneHead { lane: number, node, name: "base", epoch: lane.epoch, period };
            Sealed::Lane(head).put(self.out);
        }
        if lane.schema != Some(self.hash) {
            (lane.generation, lane.schema) = (lane.generation + 1, Some(self.hash));
            let (lane, generation) = (lane.number, lane.generation);
            Sealed::Schema { lane, generation, offset: 0, bytes: self.meaning }.put(self.out);
        }
    }

    fn close(&mut self, encoder: &mut Encoder, block: &mut Vec<u8>) {
        let Some(header) = encoder.close() else { return };
        block[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        Sealed::Block { lane: self.lane.number, bytes: block }.put(self.out);
        self.lane.next_row = encoder.rows();
        block.clear();
    }
}

/// The rows of parts that belong together, in the order of their times. A series without a value in a row is absent.
struct Rows<'a> {
    /// The readings of each part that are still to come.
    left: Vec<&'a [(Stamp, Reading)]>,
    row: Vec<Reading>,
}

impl<'a> Rows<'a> {
    fn of(parts: &'a [RangePart]) -> Self {
        let readings = |part: &'a RangePart| match &part.content {
            RangeContent::Readings(readings) => &readings[..],
            RangeContent::Points(_) | RangeContent::Column(_) => &[],
        };
        Rows { left: parts.iter().map(readings).collect(), row: Vec::new() }
    }

    fn next(&mut self) -> Option<(Stamp, &[Reading])> {
        let stamps = self.left.iter().filter_map(|left| Some(left.first()?.0));
        let stamp = stamps.min_by_key(|stamp| stamp.real())?;
        self.row.clear();
        for left in &mut self.left {
            let reading = left.split_first().filter(|((found, _), _)| found.real() == stamp.real());
            self.row.push(match reading {
                Some(((_, reading), rest)) => {
                    *left = rest;
                    *reading
                }
                None => Reading::Absent(Absence::NotYet),
            });
        }
        Some((stamp, &self.row))
    }

    /// The usual distance between two rows; `None`: there are too few rows to tell.
    fn period(&self) -> Option<Nanos> {
        let longest = self.left.iter().max_by_key(|left| left.len())?;
        let pairs = longest.windows(2).map(|pair| pair[1].0.real().since(pair[0].0.real()).0);
        let mut apart: Vec<u64> = pairs.filter(|apart| *apart > 0).collect();
        apart.sort_unstable();
        let median = *apart.get(apart.len() / 2).filter(|_| apart.len() >= APART_MIN)?;
        // Ticks are at whole milliseconds; a row may come a little later.
        Some(Nanos((median + 500_000) / 1_000_000 * 1_000_000).max(Nanos(1_000_000)))
    }
}

/// Distances between rows that tell how far apart they are as a rule.
const APART_MIN: usize = 2;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use khz_model::reading::LABELS_STATE;
    use khz_model::{Fault, Instance, Kind, Labels, Metric, Series, Unit, ValueType};

    use super::*;
    use crate::trace::{Chunk, Chunks, begin_sealed};
    use crate::{Decoder, Header, SchemaDecoder, Step};

    /// State and value, or labels as a text.
    type Cell = (u8, String);
    /// By node, epoch, time, and series.
    type Cells = BTreeMap<(String, u64, u64, String), Cell>;

    fn series(name: &'static str, value_type: ValueType) -> Series {
        let metric = Metric {
            help: "Help.".into(),
            value_type,
            ..Metric::plain(name, name.replace('.', "_"), Kind::Gauge, Unit::Count)
        };
        Series { metric: Arc::new(metric), instance: Some(Instance::from_kernel(b"eth0")) }
    }

    fn at(second: u64, boot: u64) -> Stamp {
        Stamp { boot: Nanos(boot), real_offset: (second * 1_000_000_000) as i64 - boot as i64 }
    }

    fn part(
        node: &str,
        step: u64,
        series: &Series,
        readings: Vec<(Stamp, Reading)>,
        labels: &[Labels],
    ) -> RangePart {
        RangePart {
            node: NodeName::new(node).unwrap(),
            series: series.clone(),
            step: Nanos(step),
            shift: 0,
            content: RangeContent::Readings(readings),
            labels: labels.to_vec(),
        }
    }

    /// Everything that a trace says.
    fn cells(chunks: &[u8]) -> Cells {
        let mut trace = Vec::new();
        begin_sealed("{}", &mut trace);
        trace.extend_from_slice(chunks);
        let (mut cells, mut heads) = (Cells::new(), HashMap::new());
        let mut schemas: HashMap<(u32, u32), Vec<Series>> = HashMap::new();
        for chunk in Chunks::of(&trace).unwrap() {
            let Chunk::Sealed(sealed) = chunk.unwrap() else { panic!("a chunk of another kind") };
            match sealed {
                Sealed::Lane(head) => {
                    heads.insert(head.lane, (head.node.to_owned(), head.epoch, head.period, 0));
                }
                Sealed::Schema { lane, generation, offset: 0, bytes } => {
                    let mut decoder = SchemaDecoder::new();
                    decoder.feed(bytes).unwrap();
                    schemas.insert((lane, generation), decoder.series().to_vec());
                }
                Sealed::Block { lane, bytes } => {
                    let (node, epoch, _, next_row) = heads.get_mut(&lane).unwrap();
                    let (mut decoder, mut rest) = (Decoder::new(), bytes);
                    let mut series: &[Series] = &[];
                    while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(rest) {
                        rest = &rest[length..];
                        if let Step::Header(_) = step {
                            let header = Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap();
                            assert_eq!(header.first_row, *next_row, "no row is missing");
                            series = &schemas[&(lane, header.generation)];
                            continue;
                        }
                        *next_row += 1;
                        for (slot, series) in series.iter().enumerate() {
                            assert_eq!(&*series.metric.help, "Help.");
                            let reading = decoder.reading(slot).unwrap();
                            let shown = match reading.state() {
                                LABELS_STATE => Labels::numbered(reading.bits())
                                    .map_or_else(String::new, |labels| labels.to_string()),
                                _ => reading.bits().to_string(),
                            };
                            let key = (
                                node.clone(),
                                *epoch,
                                decoder.stamp().real().0,
                                series.metric.name.to_string(),
                            );
                            assert!(
                                cells.insert(key, (reading.state(), shown)).is_none(),
                                "a row comes twice"
                            );
                        }
                    }
                }
                Sealed::Note(_) => {}
                other => panic!("{other:?}"),
            }
        }
        cells
    }

    #[test]
    fn rows_of_several_nodes_steps_and_boots_come_back_with_their_labels() {
        let (number, info) =
            (series("test.number", ValueType::Unsigned), series("test.info", ValueType::Labels));
        let labels = Labels::new([("version", "1")]).unwrap();
        let labelled = Reading::Labels(labels.number());
        let mut expected = Cells::new();
        let (mut trace, mut chunks) = (PastTrace::new(50), Vec::new());
        let second = 1_000_000_000;
        for step in 0..3u64 {
            for node in ["n1", "n2"] {
                // The node n2 boots before the last step. A block takes a minute, and a step has several.
                let is_booted = node == "n2" && step == 2;
                let mut of_number = Vec::new();
                let mut of_info = Vec::new();
                for row in 0..200u64 {
                    let time = 10_000 + step * 1_000 + row;
                    // The difference of the two clocks changes a little from block to block.
                    let drift = row / 30 * 44;
                    let boot = if is_booted { (row + 1) * second } else { time * second };
                    let stamp = at(time, boot - drift);
                    let key = |name: &str| {
                        (node.to_owned(), 50 + u64::from(is_booted), time * second, name.to_owned())
                    };
                    let reading = if row % 7 == 3 {
                        Reading::Failed(Fault::Malformed)
                    } else {
                        Reading::Present(u64::MAX - row)
                    };
                    if row % 5 != 1 {
                        of_number.push((stamp, reading));
                        expected.insert(key("test.number"), (reading.state(), reading.bits().to_string()));
                    } else {
                        let none = Reading::Absent(Absence::NotYet);
                        expected.insert(key("test.number"), (none.state(), none.bits().to_string()));
                    }
                    // In the second step the node n1 has no labels, and so another schema.
                    if !(node == "n1" && step == 1) {
                        of_info.push((stamp, labelled));
                        expected.insert(key("test.info"), (LABELS_STATE, labels.to_string()));
                    } else if row % 5 == 1 {
                        expected.remove(&key("test.number"));
                    }
                }
                let mut put = |part| trace.part(part, &mut chunks).unwrap();
                put(part(node, step, &number, of_number, &[]));
                if !of_info.is_empty() {
                    put(part(node, step, &info, of_info, std::slice::from_ref(&labels)));
                }
            }
        }
        trace.flush(&mut chunks).unwrap();
        assert_eq!(cells(&chunks), expected);
    }
}
