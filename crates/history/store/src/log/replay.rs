//! Reading the segments that an earlier start has left: which blocks there are, and blocks made of the rows that came after
//! the last one.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use khz_block::schema::SCHEMA_BYTES_MAX;
use khz_block::{Header, MetricPool, RowScanner, SchemaDecoder};
use khz_model::{Columns, Series};

use crate::StoreError;
use crate::bytes::{Bytes, Read};
use crate::log::batch::Waiting;
use crate::log::index::{Entry, Index};
use crate::log::intake::Shared;
use crate::log::record::{self, BlockMeta, Kind, LaneRecord, Piece};
use crate::log::segment::{self, Found, Known, SegmentFile};
use crate::log::{LoggedBlock, LoggedLane, SchemaHash};

/// Where bytes of an open block are.
#[derive(Clone)]
struct Place {
    segment: Arc<SegmentFile>,
    found: Found,
    /// Where the bytes begin in the record's body.
    at: usize,
    piece: Piece,
    schema: Arc<dyn Columns>,
    schema_hash: SchemaHash,
}

/// Blocks by lane and first row that may be open, each as the pieces that the log has of it.
type Open = BTreeMap<(u32, u64), Vec<Place>>;

/// A lane and a schema that records name by their numbers.
type Named = (Arc<LoggedLane>, (SchemaHash, Arc<dyn Columns>));

/// Reads all segments of a folder into the index. What came of open blocks waits afterwards, as blocks.
pub(crate) fn read(
    folder: &Path,
    shared: &Arc<Shared>,
    index: &RwLock<Index>,
    damage: &mut Vec<StoreError>,
) -> Result<Vec<Known>, StoreError> {
    let (known, mut open, mut pool) = (segment::all(folder, damage)?, Open::new(), MetricPool::default());
    for Known { segment, contents } in &known {
        let mut reader = Reader::new(segment, shared, index, &mut pool);
        for found in &contents.records {
            if let Err(error) = reader.record(found, &mut open) {
                damage.push(error);
            }
        }
    }
    for waiting in rebuilt(open, shared, damage) {
        shared.state().batch.push_block(waiting);
    }
    Ok(known)
}

/// What came of an open block.
pub(crate) struct OpenBytes {
    pub lane: Arc<LoggedLane>,
    pub piece: Piece,
    pub bytes: Vec<u8>,
    pub schema_hash: SchemaHash,
    pub schema: Arc<dyn Columns>,
}

/// What these segments have of the open blocks of some lanes, each with its first row.
pub(crate) fn open_bytes(
    segments: &[Arc<SegmentFile>],
    wanted: &HashMap<u32, u64>,
    shared: &Arc<Shared>,
    damage: &mut Vec<StoreError>,
) -> Vec<OpenBytes> {
    let (index, mut open, mut pool) = (RwLock::default(), Open::new(), MetricPool::default());
    for segment in segments {
        let contents = match segment.contents() {
            Ok(contents) => contents,
            Err(error) => {
                damage.push(error);
                continue;
            }
        };
        let mut reader = Reader::new(segment, shared, &index, &mut pool);
        for found in contents.records.iter().filter(|found| found.head.kind != Kind::Block) {
            if let Err(error) = reader.record(found, &mut open) {
                damage.push(error);
            }
        }
        open.retain(|(lane, first_row), _| wanted.get(lane) == Some(first_row));
    }
    let bytes = gathered(&open, damage);
    let mut all = Vec::new();
    for (((lane, _), places), bytes) in open.into_iter().zip(bytes) {
        let known = shared.state().numbered(lane).cloned();
        let Some((lane, Place { piece, schema_hash, schema, .. })) = known.zip(places.last().cloned()) else {
            continue;
        };
        let piece = Piece { lane: lane.number, offset: 0, length: bytes.len(), ..piece };
        all.push(OpenBytes { lane, piece, bytes, schema_hash, schema });
    }
    all
}

/// Reads the records of one segment.
struct Reader<'a> {
    segment: &'a Arc<SegmentFile>,
    shared: &'a Arc<Shared>,
    index: &'a RwLock<Index>,
    pool: &'a mut MetricPool,
    /// What the numbers of this file mean.
    lanes: HashMap<u32, Arc<LoggedLane>>,
    schemas: HashMap<u32, (SchemaHash, Arc<dyn Columns>)>,
}

impl<'a> Reader<'a> {
    fn new(
        segment: &'a Arc<SegmentFile>,
        shared: &'a Arc<Shared>,
        index: &'a RwLock<Index>,
        pool: &'a mut MetricPool,
    ) -> Self {
        Reader { segment, shared, index, pool, lanes: HashMap::new(), schemas: HashMap::new() }
    }

    fn record(&mut self, found: &Found, open: &mut Open) -> Result<(), StoreError> {
        match found.head.kind {
            Kind::Lane => {
                let body = self.segment.body(found)?;
                let lane = self.whole(found, LaneRecord::take(Bytes(&body)))?;
                let known = self.shared.state().lane(&lane.node, lane.epoch);
                for &(from, to) in &lane.stored {
                    known.add(from, to);
                }
                self.lanes.insert(lane.number, known);
            }
            Kind::Schema => {
                let body = self.segment.body(found)?;
                let read = schema(&body, self.pool);
                let (number, hash, columns) = self.whole(found, read)?;
                let mut state = self.shared.state();
                // Blocks with one schema share it, whichever segment they are in.
                let known = state.schema(&hash, &columns);
                let columns = state.schema_numbered(known).map_or(columns, |known| known.columns.clone());
                self.schemas.insert(number, (hash, columns));
            }
            Kind::Block => {
                let front = self.segment.block_front(found)?;
                let (meta, header) = self.whole(found, BlockMeta::take(Bytes(&front)))?;
                self.block(found, &meta, &header, open)?;
            }
            Kind::Rows => self.rows(found, open)?,
            Kind::Commit => {}
        }
        Ok(())
    }

    fn block(
        &mut self,
        found: &Found,
        meta: &BlockMeta,
        header: &Header,
        open: &mut Open,
    ) -> Result<(), StoreError> {
        let (lane, (schema_hash, schema)) = self.numbered(found, meta.lane, meta.schema)?;
        let (first_row, end) = (header.first_row, header.first_row + u64::from(meta.rows));
        lane.add(first_row, end);
        // The block has everything that came of it before.
        let key = (lane.number, first_row);
        let has_all = |places: &Vec<Place>| places.last().is_some_and(|last| last.piece.end <= end);
        if !meta.is_part && open.get(&key).is_some_and(has_all) {
            open.remove(&key);
        }
        let corrected = |time: khz_model::Nanos| khz_model::Nanos(time.0.saturating_add_signed(meta.shift));
        let entry = Entry {
            lane,
            schema,
            schema_hash,
            segment: self.segment.clone(),
            at: found.at,
            length: found.head.length,
            first_row,
            rows: meta.rows,
            span: (corrected(header.stamp.real()), corrected(meta.last)),
        };
        self.index.write().unwrap_or_else(PoisonError::into_inner).add(entry);
        Ok(())
    }

    fn rows(&mut self, found: &Found, open: &mut Open) -> Result<(), StoreError> {
        let length = self.segment.front(found, 4)?;
        let length = length.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        let table = self.segment.front(found, length.saturating_add(4))?;
        let table = table.get(4..).unwrap_or_default();
        for (piece, at) in self.whole(found, record::take_table(table, found.head.length))? {
            let (lane, (schema_hash, schema)) = self.numbered(found, piece.lane, piece.schema)?;
            let places = open.entry((lane.number, piece.first_row)).or_default();
            if piece.offset == 0 {
                // It came again from its start.
                places.clear();
            }
            places.push(self.place(found, at, piece, &schema, schema_hash));
        }
        Ok(())
    }

    fn place(
        &self,
        found: &Found,
        at: usize,
        piece: Piece,
        schema: &Arc<dyn Columns>,
        schema_hash: SchemaHash,
    ) -> Place {
        let (segment, schema) = (self.segment.clone(), schema.clone());
        Place { segment, found: *found, at, piece, schema, schema_hash }
    }

    fn numbered(&self, found: &Found, lane: u32, schema: u32) -> Result<Named, StoreError> {
        let found_both = self.lanes.get(&lane).zip(self.schemas.get(&schema));
        let (lane, schema) =
            self.whole(found, found_both.ok_or("its lane or its schema is not in this segment"))?;
        Ok((lane.clone(), schema.clone()))
    }

    fn whole<T>(&self, found: &Found, read: Read<T>) -> Result<T, StoreError> {
        read.map_err(|problem| self.segment.damaged(found.at, found.head.length as u64, problem))
    }
}

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
fn rebuilt(open: Open, shared: &Arc<Shared>, damage: &mut Vec<StoreError>) -> Vec<Waiting> {
    let bytes = gathered(&open, damage);
    let mut blocks = Vec::new();
    for ((key, places), bytes) in open.into_iter().zip(bytes) {
        let lane = shared.state().numbered(key.0).cloned();
        let last = places.last();
        let block = last.and_then(|last| block_of(bytes, last.piece.shift, &last.schema, last.schema_hash));
        if let (Some(lane), Some(block)) = (lane, block) {
            let schema = shared.state().schema(&block.schema_hash, &block.schema);
            blocks.push(Waiting { lane, block, schema, is_part: false });
        }
    }
    blocks
}

/// The bytes of each open block, as far as they are whole. Each record is read once: it has bytes of many blocks.
fn gathered(open: &Open, damage: &mut Vec<StoreError>) -> Vec<Vec<u8>> {
    let mut all: Vec<(usize, &Place)> = Vec::new();
    for (block, places) in open.values().enumerate() {
        all.extend(places.iter().map(|place| (block, place)));
    }
    let record = |place: &Place| (place.segment.number, place.found.at);
    all.sort_by_key(|(_, place)| record(place));
    let mut bytes = vec![Vec::new(); open.len()];
    for of_record in all.chunk_by(|(_, one), (_, two)| record(one) == record(two)) {
        let first = of_record[0].1;
        let body = match first.segment.body(&first.found) {
            Ok(body) => body,
            Err(error) => {
                damage.push(error);
                continue;
            }
        };
        for (block, place) in of_record {
            let piece = place.piece;
            // After a piece that is missing, nothing can be decoded.
            if piece.offset == bytes[*block].len() {
                bytes[*block].extend_from_slice(&body[place.at..place.at + piece.length]);
            }
        }
    }
    bytes
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
