//! Reading the segments that an earlier start has left: which blocks there are, and blocks made of the rows that came after
//! the last one. The lists of commits say it; a segment whose lists are damaged, or that has none, is read record by record.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use khz_block::schema::SCHEMA_BYTES_MAX;
use khz_block::{MetricPool, RowScanner, SchemaDecoder};
use khz_model::{Columns, Nanos, Series};

use crate::StoreError;
use crate::bytes::{Bytes, Read};
use crate::log::batch::Waiting;
use crate::log::index::{Entry, InBundle, Index};
use crate::log::intake::Shared;
use crate::log::left_out::LeftOut;
use crate::log::list::{Listed, ListedBlock, RecordPlace};
use crate::log::record::{self, BlockMeta, Kind, LaneRecord, Piece};
use crate::log::segment::{self, Found, SegmentFile};
use crate::log::tail::Tail;
use crate::log::walk::Contents;
use crate::log::{LoggedBlock, LoggedLane, SchemaHash};

/// How a log is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the lists of its commits.
    Lists,
    /// Record by record.
    Records,
}

/// A log that was read.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub index: Index,
    /// The segments, oldest first.
    pub segments: Vec<Known>,
}

/// A segment that was read.
#[derive(Debug)]
pub(crate) struct Known {
    pub segment: Arc<SegmentFile>,
    /// Where its last whole commit ends.
    pub end: u64,
    /// Its records, if they were read one by one.
    pub records: Vec<Found>,
    /// The bytes after that end.
    pub left_out: Option<LeftOut>,
}

/// The bytes of a block, as far as the log has been read.
#[derive(Default)]
struct OpenBlock {
    bytes: Vec<u8>,
    /// The number after the last whole row.
    end: u64,
    shift: i64,
    /// The columns of its slots, and the hash of their schema.
    schema: Option<(SchemaHash, Arc<dyn Columns>)>,
}

/// Blocks that the log does not have as a whole, by lane and first row.
type Open = HashMap<(u32, u64), OpenBlock>;

impl OpenBlock {
    /// Takes a piece. After one that is missing, nothing can be decoded.
    fn add(&mut self, piece: &Piece, bytes: &[u8]) {
        if piece.offset == 0 {
            // It came again from its start.
            self.bytes.clear();
        }
        if piece.offset == self.bytes.len() {
            self.bytes.extend_from_slice(bytes);
        }
        (self.end, self.shift) = (piece.end, piece.shift);
    }
}

/// Reads all segments of a folder. Afterwards, the bytes of open blocks wait as blocks.
pub(crate) fn read(
    folder: &Path,
    way: Way,
    shared: &Shared,
    damage: &mut Vec<StoreError>,
) -> Result<Replayed, StoreError> {
    let mut read = Vec::new();
    for segment in segment::all(folder, damage)? {
        match What::of(&segment, way, damage) {
            Ok(what) => read.push((segment, what)),
            Err(error) => damage.push(error),
        }
    }
    let needed = Needed::of(&read);
    let (mut replayed, mut open, mut pool) = (Replayed::default(), Open::new(), MetricPool::default());
    for (segment, what) in read {
        let mut reader = Reader::new(&segment, shared, &mut pool, &needed, damage);
        let (end, records) = match what {
            What::Lists(tail) => {
                for listed in tail.lists.iter().flat_map(|list| list.entries()) {
                    reader.listed(listed, &mut open);
                }
                (tail.end, Vec::new())
            }
            What::Records(contents) => {
                contents.records.iter().for_each(|found| reader.record(found, &mut open));
                (contents.end, contents.records)
            }
        };
        reader.finish(&mut replayed.index);
        let left_out = LeftOut::of(&segment, end).unwrap_or_else(|error| {
            damage.push(error);
            None
        });
        damage.extend(left_out.filter(|left| left.is_damage).map(|left| left.told(&segment)));
        replayed.segments.push(Known { segment, end, records, left_out });
    }
    for waiting in rebuilt(open, shared) {
        shared.state().batch.push_block(waiting);
    }
    Ok(replayed)
}

/// The known content of a segment before its records are read.
enum What {
    Lists(Tail),
    Records(Contents),
}

impl What {
    fn of(segment: &SegmentFile, way: Way, damage: &mut Vec<StoreError>) -> Result<Self, StoreError> {
        if way == Way::Lists {
            match Tail::of(segment) {
                Ok(Some(tail)) => return Ok(What::Lists(tail)),
                Ok(None) => {}
                Err(error) => damage.push(error),
            }
        }
        let mut contents = Contents::of(segment)?;
        damage.append(&mut contents.damage);
        Ok(What::Records(contents))
    }
}

/// The records of rows that may have bytes of blocks that have not ended.
#[derive(Default)]
struct Needed {
    /// Those before `from`.
    records: BTreeSet<RecordPlace>,
    /// From here on all of them.
    from: RecordPlace,
}

impl Needed {
    /// The last list decides: a block that ended before has not begun again since.
    fn of(read: &[(Arc<SegmentFile>, What)]) -> Self {
        let last = read.iter().rev().find_map(|(segment, what)| match what {
            What::Lists(tail) => Some((segment.number, tail.lists.last()?)),
            What::Records(_) => None,
        });
        last.map_or_else(Needed::default, |(segment, list)| Needed {
            records: list.needed.clone(),
            from: (segment, list.begin),
        })
    }

    fn has(&self, place: RecordPlace) -> bool {
        place >= self.from || self.records.contains(&place)
    }
}

/// The bytes of an open block.
pub(crate) struct OpenBytes {
    pub lane: Arc<LoggedLane>,
    pub piece: Piece,
    pub bytes: Vec<u8>,
    pub schema_hash: SchemaHash,
    pub schema: Arc<dyn Columns>,
}

/// The log's bytes of the open blocks of some lanes, each with its first row. `records`: the records of this process that hold
/// them.
pub(crate) fn open_bytes(
    records: &BTreeMap<RecordPlace, Arc<SegmentFile>>,
    wanted: &HashMap<u32, (Arc<LoggedLane>, u64)>,
    damage: &mut Vec<StoreError>,
) -> Vec<OpenBytes> {
    let mut open: BTreeMap<u32, (Piece, OpenBlock)> = BTreeMap::new();
    for (&(_, at), segment) in records {
        let read = segment.found(at).and_then(|found| Ok((found, segment.body(&found)?)));
        let read = read.and_then(|(found, body)| Ok((table(segment, &found, &body)?, body)));
        let (pieces, body) = match read {
            Ok(read) => read,
            Err(error) => {
                damage.push(error);
                continue;
            }
        };
        for (piece, at) in pieces {
            if wanted.get(&piece.lane).is_none_or(|(_, first_row)| *first_row != piece.first_row) {
                continue;
            }
            let (last, block) = open.entry(piece.lane).or_insert((piece, OpenBlock::default()));
            block.add(&piece, &body[at..at + piece.length]);
            *last = piece;
        }
    }
    let of_lane = |(lane, (piece, OpenBlock { bytes, .. })): (u32, (Piece, OpenBlock))| {
        let lane = wanted.get(&lane)?.0.clone();
        // An open block has a schema.
        let (_, known) = lane.schema()?;
        let piece = Piece { offset: 0, length: bytes.len(), ..piece };
        Some(OpenBytes { lane, piece, bytes, schema_hash: known.hash, schema: known.columns })
    };
    open.into_iter().filter_map(of_lane).collect()
}

/// The table of a record of rows, whose body begins with these bytes: each piece, and where its bytes begin in the body.
fn table(segment: &SegmentFile, found: &Found, front: &[u8]) -> Result<Vec<(Piece, usize)>, StoreError> {
    let length = front.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let table = front.get(4..length.saturating_add(4)).unwrap_or_default();
    record::take_table(table, found.head.length)
        .map_err(|problem| segment.damaged(found.at, found.head.length as u64, problem))
}

/// Reads the records of one segment.
struct Reader<'a> {
    segment: &'a Arc<SegmentFile>,
    shared: &'a Shared,
    pool: &'a mut MetricPool,
    needed: &'a Needed,
    damage: &'a mut Vec<StoreError>,
    /// The meaning of this file's numbers, and the blocks of each lane.
    lanes: HashMap<u32, (Arc<LoggedLane>, Vec<Entry>)>,
    schemas: HashMap<u32, (SchemaHash, Arc<dyn Columns>)>,
    /// Where the first record is whose lane or schema is not known, and how many bytes there are of such records.
    unknown: Option<(u64, u64)>,
}

impl<'a> Reader<'a> {
    fn new(
        segment: &'a Arc<SegmentFile>,
        shared: &'a Shared,
        pool: &'a mut MetricPool,
        needed: &'a Needed,
        damage: &'a mut Vec<StoreError>,
    ) -> Self {
        let (lanes, schemas) = (HashMap::new(), HashMap::new());
        Reader { segment, shared, pool, needed, damage, lanes, schemas, unknown: None }
    }

    /// The blocks go into the index.
    fn finish(self, index: &mut Index) {
        // One damaged schema is one problem, however many records need it.
        let unknown = self.unknown.map(|(at, bytes)| self.segment.damaged(at, bytes, UNKNOWN));
        self.damage.extend(unknown);
        for (lane, entries) in self.lanes.into_values() {
            index.add_all(lane.node(), entries);
        }
    }

    /// Handles a list's entry for a record.
    fn listed(&mut self, listed: Listed, open: &mut Open) {
        let done = match listed {
            Listed::Lane(lane) => {
                self.lane(&lane);
                Ok(())
            }
            Listed::Schema { number, hash, at } => self.listed_schema(number, hash, at),
            Listed::Rows { at } if !self.needed.has((self.segment.number, at)) => Ok(()),
            Listed::Rows { at } => self.segment.found(at).and_then(|found| self.rows(&found, open)),
            Listed::Block(block) => self.block(&block, open),
        };
        self.damage.extend(done.err());
    }

    fn record(&mut self, found: &Found, open: &mut Open) {
        let done = self.walked(found, open);
        self.damage.extend(done.err());
    }

    /// A record that was found by itself.
    fn walked(&mut self, found: &Found, open: &mut Open) -> Result<(), StoreError> {
        match found.head.kind {
            Kind::Lane => {
                let body = self.segment.body(found)?;
                let lane = self.whole(found, LaneRecord::take(Bytes(&body)))?;
                self.lane(&lane);
            }
            Kind::Schema => self.schema(found)?,
            Kind::Block => {
                let front = self.segment.block_front(found)?;
                let (meta, header) = self.whole(found, BlockMeta::take(Bytes(&front)))?;
                let corrected = |time: Nanos| Nanos(time.0.saturating_add_signed(meta.shift));
                let block = ListedBlock {
                    lane: meta.lane,
                    schema: meta.schema,
                    at: found.at,
                    length: found.head.length,
                    first_row: header.first_row,
                    rows: meta.rows,
                    span: (corrected(header.stamp.real()), corrected(meta.last)),
                    is_part: meta.is_part,
                };
                self.block(&block, open)?;
            }
            Kind::Rows if self.needed.has((self.segment.number, found.at)) => self.rows(found, open)?,
            Kind::Rows | Kind::Commit | Kind::List => {}
        }
        Ok(())
    }

    fn lane(&mut self, lane: &LaneRecord) {
        let known = self.shared.state().lane(&lane.node, lane.epoch);
        for &(from, to) in &lane.stored {
            known.add(from, to);
        }
        let (known_before, _) = self.lanes.entry(lane.number).or_insert_with(|| (known.clone(), Vec::new()));
        *known_before = known;
    }

    fn listed_schema(&mut self, number: u32, hash: SchemaHash, at: u64) -> Result<(), StoreError> {
        let known = self.shared.state().schema_of(&hash);
        match known {
            Some(columns) => {
                self.schemas.insert(number, (hash, columns));
                Ok(())
            }
            None => self.segment.found(at).and_then(|found| self.schema(&found)),
        }
    }

    fn schema(&mut self, found: &Found) -> Result<(), StoreError> {
        let body = self.segment.body(found)?;
        let read = schema(&body, self.pool);
        let (number, hash, columns) = self.whole(found, read)?;
        let mut state = self.shared.state();
        // Blocks with one schema share it, whichever segment they are in.
        let known = state.schema(&hash, &columns);
        let columns = state.schema_numbered(known).map_or(columns, |known| known.columns.clone());
        drop(state);
        self.schemas.insert(number, (hash, columns));
        Ok(())
    }

    fn block(&mut self, block: &ListedBlock, open: &mut Open) -> Result<(), StoreError> {
        let ListedBlock { at, length, first_row, rows, span, .. } = *block;
        let known = self.lanes.get_mut(&block.lane).zip(self.schemas.get(&block.schema));
        let Some(((lane, entries), (schema_hash, schema))) = known else {
            self.leave(at, length);
            return Ok(());
        };
        let end = first_row + u64::from(rows);
        lane.add(first_row, end);
        lane.has(schema.series());
        // The block has everything that came of it before.
        let key = (lane.number, first_row);
        if !block.is_part && open.get(&key).is_some_and(|open| open.end <= end) {
            open.remove(&key);
        }
        let (lane, schema, segment) = (lane.clone(), schema.clone(), self.segment.clone());
        let schema_hash = *schema_hash;
        let bundle = InBundle::Not;
        entries.push(Entry { lane, schema, schema_hash, segment, at, length, first_row, rows, span, bundle });
        Ok(())
    }

    fn rows(&mut self, found: &Found, open: &mut Open) -> Result<(), StoreError> {
        let body = self.segment.body(found)?;
        for (piece, at) in table(self.segment, found, &body)? {
            let known = self.lanes.get(&piece.lane).zip(self.schemas.get(&piece.schema));
            let Some(((lane, _), schema)) = known else {
                self.leave(found.at, piece.length);
                continue;
            };
            let open = open.entry((lane.number, piece.first_row)).or_default();
            open.add(&piece, &body[at..at + piece.length]);
            if open.schema.as_ref().is_none_or(|(hash, _)| *hash != schema.0) {
                open.schema = Some(schema.clone());
            }
        }
        Ok(())
    }

    /// A record cannot be understood.
    fn leave(&mut self, at: u64, bytes: usize) {
        let (_, known) = self.unknown.get_or_insert((at, 0));
        *known += bytes as u64;
    }

    fn whole<T>(&self, found: &Found, read: Read<T>) -> Result<T, StoreError> {
        read.map_err(|problem| self.segment.damaged(found.at, found.head.length as u64, problem))
    }
}

const UNKNOWN: &str = "records, the first of them here, name a lane or a schema that is not in this segment";

/// Reads the body of a schema's record.
fn schema(body: &[u8], pool: &mut MetricPool) -> Read<(u32, SchemaHash, Arc<dyn Columns>)> {
    let (number, hash, bytes) = record::take_schema(Bytes(body))?;
    if bytes.len() > SCHEMA_BYTES_MAX {
        return Err("a schema is beyond its limit");
    }
    let mut decoder = SchemaDecoder::new();
    decoder.feed_sharing(bytes, pool).map_err(|_| "a schema that cannot be read")?;
    let series: Vec<Series> = decoder.series().to_vec();
    Ok((number, hash, Arc::new(series)))
}

/// Makes a block of the rows that are whole in each open block.
fn rebuilt(open: Open, shared: &Shared) -> Vec<Waiting> {
    let mut open: Vec<((u32, u64), OpenBlock)> = open.into_iter().collect();
    open.sort_unstable_by_key(|(key, _)| *key);
    let waiting = |((lane, _), open): ((u32, u64), OpenBlock)| {
        let (schema_hash, schema) = open.schema?;
        let block = block_of(open.bytes, open.shift, &schema, schema_hash)?;
        let mut state = shared.state();
        let lane = state.numbered(lane).cloned()?;
        lane.has(block.schema.series());
        let schema = state.schema(&block.schema_hash, &block.schema);
        Some(Waiting { lane, block, schema, is_part: false })
    };
    open.into_iter().filter_map(waiting).collect()
}

/// The whole rows among the bytes of an open block; `None`: there is none.
pub(crate) fn block_of(
    mut bytes: Vec<u8>,
    shift: i64,
    schema: &Arc<dyn Columns>,
    schema_hash: SchemaHash,
) -> Option<LoggedBlock> {
    let mut scanner = RowScanner::new();
    scanner.feed(&bytes).ok()?;
    let (header, rows, last) = (*scanner.header()?, scanner.rows(), scanner.stamp().real());
    bytes.truncate(bytes.len() - scanner.unfinished());
    let (schema, bytes) = (schema.clone(), Arc::new(bytes));
    (rows > 0).then_some(LoggedBlock { header, rows, schema, schema_hash, bytes, last, shift })
}
