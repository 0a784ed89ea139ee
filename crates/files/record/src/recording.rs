//! Reads a recording: its files one after the other, each lane under one number, each block with the series of its slots.
//! It reads traces of one lane too (`khz ring export --trace`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_block::trace::{Chunk, Sealed};
use khz_block::{Decoder, HEADER_BYTES, Header, SchemaDecoder};
use khz_model::{Nanos, Series};

use crate::chunks::{Reach, chunks};
use crate::clocks::ClockSet;
use crate::numbering::{Numbering, ONLY};
use crate::outline::Outline;
use crate::reorder::{ReorderBuffer, Waiting};
use crate::{RecordError, packing, rows, with_header};

pub use crate::numbering::Lane;

/// What comes out of a recording: lanes in the order of the files, the blocks of each lane in the order of their rows.
pub enum Event<'a> {
    /// A lane begins: its number, the lane, its period.
    Lane(usize, &'a Lane, Nanos),
    /// The series of a lane's slots from now on: a new generation, or more slots. The same `Arc` until they change.
    Columns(usize, Arc<Vec<Series>>),
    /// A block, with its rows.
    Block(Block<'a>),
    /// Rows of a lane that are lost: first row and end.
    Lost(usize, u64, u64),
    /// A note of the recorder: a JSON object.
    Note(&'a str),
    /// Somebody set a node's clock. All rows have the times of the clock as it was set last.
    ClockSet(&'a ClockSet),
}

/// A block of a recording.
pub struct Block<'a> {
    /// Its lane.
    pub lane: usize,
    /// What it says of itself.
    pub header: Header,
    bytes: &'a [u8],
    problem: &'a mut Option<String>,
}

impl Block<'_> {
    /// Header and rows.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Its rows, each with its number. A row that cannot be decoded becomes damage of the recording.
    pub fn rows(self, take: impl FnMut(u64, &Decoder)) {
        if let Err(error) = rows(self.bytes, take) {
            *self.problem = Some(format!("a block: {error}"));
        }
    }
}

/// A recording: one file, or several that follow each other.
#[derive(Clone, Debug)]
pub struct Recording {
    paths: Vec<PathBuf>,
}

impl Recording {
    /// A recording of these files, in this order. It opens nothing yet.
    pub fn of(paths: &[PathBuf]) -> Self {
        Recording { paths: paths.to_vec() }
    }

    /// Reads everything once. Returns how far each file could be read.
    pub fn read(&self, mut take: impl FnMut(Event<'_>)) -> Result<Vec<(PathBuf, Reach)>, RecordError> {
        let mut lanes = Lanes { outline: Outline::of(&self.paths)?, ..Lanes::default() };
        lanes.outline.clocks.set().iter().for_each(|set| take(Event::ClockSet(set)));
        let mut reached = Vec::new();
        for path in &self.paths {
            lanes.begin_file(path);
            let reach = chunks(path, |_, chunk| lanes.take(chunk, &mut take))?;
            reached.push((path.clone(), reach));
        }
        // Blocks that wait for rows that no file has.
        let rest = lanes.give_out_all(&mut take);
        if let (Err(problem), Some((_, reach))) = (rest, reached.last_mut()) {
            reach.note(reach.bytes, 0, problem);
        }
        Ok(reached)
    }
}

/// The lanes of a recording, while it is read.
#[derive(Default)]
struct Lanes {
    numbering: Numbering,
    /// The rows of lanes that have not begun.
    outline: Outline,
    /// In the present file: the schemas that came.
    schemas: HashMap<(u32, u32), Schema>,
    /// The columns of each lane that were given last.
    given: HashMap<usize, Arc<Vec<Series>>>,
    /// Blocks that came before earlier ones.
    reorder: ReorderBuffer,
}

#[derive(Default)]
struct Schema {
    decoder: SchemaDecoder,
    bytes: u64,
    /// All series so far; the same `Arc` until there are more.
    columns: Arc<Vec<Series>>,
}

impl Lanes {
    fn begin_file(&mut self, path: &Path) {
        self.numbering.begin_file(path);
        self.schemas.clear();
        self.given.clear();
    }

    fn take(&mut self, chunk: Chunk<'_>, take: &mut impl FnMut(Event<'_>)) -> Result<(), String> {
        match chunk {
            Chunk::Sealed(Sealed::Lane(head)) => {
                let (place, is_another) = self.numbering.lane(&head)?;
                if is_another {
                    self.schemas.retain(|(number, _), _| *number != head.lane);
                }
                self.begin(place, head.period, take);
                Ok(())
            }
            Chunk::Sealed(Sealed::Schema { lane, generation, offset, bytes }) => {
                self.schema(lane, generation, offset, bytes)
            }
            Chunk::Sealed(Sealed::PackedSchema { lane, generation, offset, packed }) => {
                self.schema(lane, generation, offset, &packing::unpack(packed)?)
            }
            Chunk::Sealed(Sealed::Block { lane, bytes }) => self.block(lane, bytes, take),
            Chunk::Sealed(Sealed::Lost { lane, from, to }) => {
                take(Event::Lost(self.numbering.place(lane)?, from, to));
                Ok(())
            }
            Chunk::Sealed(Sealed::Note(note)) => {
                take(Event::Note(note));
                Ok(())
            }
            Chunk::Sealed(Sealed::Unknown(_)) => Ok(()),
            Chunk::Schema(bytes) => {
                let offset = self.schemas.get(&(ONLY, 0)).map_or(0, |schema| schema.bytes);
                self.schema(ONLY, 0, offset, bytes)
            }
            Chunk::Block(bytes) => {
                if let (place, Some(period)) = self.numbering.only(bytes)? {
                    self.begin(place, period, take);
                }
                self.block(ONLY, bytes, take)
            }
        }
    }

    /// A lane is announced, for the first time or again.
    fn begin(&mut self, place: usize, period: u64, take: &mut impl FnMut(Event<'_>)) {
        let lane = self.numbering.at(place);
        if place >= self.reorder.lanes() {
            self.reorder.begin(place, self.outline.take(lane));
        }
        take(Event::Lane(place, lane, Nanos(period)));
    }

    fn schema(&mut self, lane: u32, generation: u32, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let schema = self.schemas.entry((lane, generation)).or_default();
        if offset == 0 && schema.bytes > 0 {
            *schema = Schema::default();
        }
        if offset != schema.bytes {
            return Err("a piece of a schema that does not continue it".into());
        }
        schema.bytes += bytes.len() as u64;
        schema.decoder.feed(bytes).map_err(|error| error.to_string())
    }

    fn block(&mut self, lane: u32, bytes: &[u8], take: &mut impl FnMut(Event<'_>)) -> Result<(), String> {
        let header = header_of(bytes)?;
        let place = self.numbering.place(lane)?;
        // A trace of one lane has one schema, whatever the generation in its blocks.
        let generation = if lane == ONLY { 0 } else { header.generation };
        let columns = match self.schemas.get_mut(&(lane, generation)) {
            Some(schema) => schema.columns(),
            None => Arc::default(),
        };
        if columns.len() < header.slots as usize {
            self.reorder.refuse(place, &header);
            self.give_out(place, false, take)?;
            return Err(format!("a block of {} slots, of which {} are known", header.slots, columns.len()));
        }
        if self.reorder.is_due(place, &header) {
            self.give(place, header, bytes, columns, take)?;
            return self.give_out(place, false, take);
        }
        match self.reorder.put(place, Waiting { header, bytes: bytes.to_vec(), columns }) {
            true => self.give_out_all(take),
            false => Ok(()),
        }
    }

    /// Gives out the waiting blocks of a lane whose turn has come.
    fn give_out(&mut self, place: usize, all: bool, take: &mut impl FnMut(Event<'_>)) -> Result<(), String> {
        while let Some(Waiting { header, bytes, columns }) = self.reorder.take(place, all) {
            self.give(place, header, &bytes, columns, take)?;
        }
        Ok(())
    }

    fn give_out_all(&mut self, take: &mut impl FnMut(Event<'_>)) -> Result<(), String> {
        (0..self.reorder.lanes()).try_for_each(|place| self.give_out(place, true, take))
    }

    fn give(
        &mut self,
        place: usize,
        header: Header,
        bytes: &[u8],
        columns: Arc<Vec<Series>>,
        take: &mut impl FnMut(Event<'_>),
    ) -> Result<(), String> {
        if self.given.get(&place).is_none_or(|given| !Arc::ptr_eq(given, &columns)) {
            take(Event::Columns(place, columns.clone()));
            self.given.insert(place, columns);
        }
        let mut problem = None;
        let node = &self.numbering.at(place).node;
        match self.outline.clocks.corrected(node, &header) {
            None => take(Event::Block(Block { lane: place, header, bytes, problem: &mut problem })),
            Some(header) => {
                let bytes = &with_header(bytes, &header);
                take(Event::Block(Block { lane: place, header, bytes, problem: &mut problem }));
            }
        }
        problem.map_or(Ok(()), Err)
    }
}

impl Schema {
    fn columns(&mut self) -> Arc<Vec<Series>> {
        let series = self.decoder.series();
        if series.len() != self.columns.len() {
            self.columns = Arc::new(series.to_vec());
        }
        self.columns.clone()
    }
}

/// The header of a block.
pub(crate) fn header_of(bytes: &[u8]) -> Result<Header, String> {
    let head = bytes.first_chunk::<HEADER_BYTES>().ok_or("a block too short for its header")?;
    Header::from_bytes(head, 0).map_err(|error| error.to_string())
}
