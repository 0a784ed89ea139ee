//! Reads a recording: its files one after the other, each lane under one number, each block with the series of its slots.
//! It reads traces of one lane too (`khz ring export --trace`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_block::trace::{Chunk, LaneHead, Sealed};
use khz_block::{Decoder, HEADER_BYTES, Header, SchemaDecoder};
use khz_model::{Nanos, Series};

use crate::chunks::{Reach, chunks};
use crate::reorder::{ReorderBuffer, Waiting};
use crate::{RecordError, packing, rows};

/// Lanes of one recording: eight for each node of the largest hub.
const LANES_MAX: usize = 32_768;

/// A lane of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The node.
    pub node: Arc<str>,
    /// The lane's name at the node.
    pub name: Arc<str>,
    /// Row numbers count within an epoch.
    pub epoch: u64,
}

/// What comes out of a recording: lanes in the order of the files, the blocks of each lane in the order of their rows.
pub enum Event<'a> {
    /// A lane begins: its number, the lane, its period.
    Lane(usize, &'a Lane, Nanos),
    /// The series of a lane's slots from here on: a new generation, or more slots. The same `Arc` until they change.
    Columns(usize, Arc<Vec<Series>>),
    /// A block, with its rows.
    Block(Block<'a>),
    /// Rows of a lane that are lost: first row and end.
    Lost(usize, u64, u64),
    /// A note of the recorder: a JSON object.
    Note(&'a str),
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
        let mut lanes = Lanes::default();
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
    lanes: Vec<Lane>,
    places: HashMap<Lane, usize>,
    /// In the present file: the place of each lane's number, and the schemas that came.
    numbers: HashMap<u32, usize>,
    schemas: HashMap<(u32, u32), Schema>,
    /// The columns of each lane that were given last.
    given: HashMap<usize, Arc<Vec<Series>>>,
    /// Blocks that came before earlier ones.
    reorder: ReorderBuffer,
    /// The file's name: the node of a trace with one lane.
    file_name: String,
}

#[derive(Default)]
struct Schema {
    decoder: SchemaDecoder,
    bytes: u64,
    /// All series so far; the same `Arc` until there are more.
    columns: Arc<Vec<Series>>,
}

/// The number of the lane in a trace with one lane.
const ONLY: u32 = u32::MAX;

impl Lanes {
    fn begin_file(&mut self, path: &Path) {
        self.numbers.clear();
        self.schemas.clear();
        self.given.clear();
        self.file_name = path.file_stem().map_or_else(|| "node".into(), |name| name.to_string_lossy().into());
    }

    fn take(&mut self, chunk: Chunk<'_>, take: &mut impl FnMut(Event<'_>)) -> Result<(), String> {
        match chunk {
            Chunk::Sealed(Sealed::Lane(head)) => self.lane(&head, take).map(|_| ()),
            Chunk::Sealed(Sealed::Schema { lane, generation, offset, bytes }) => {
                self.schema(lane, generation, offset, bytes)
            }
            Chunk::Sealed(Sealed::PackedSchema { lane, generation, offset, packed }) => {
                self.schema(lane, generation, offset, &packing::unpack(packed)?)
            }
            Chunk::Sealed(Sealed::Block { lane, bytes }) => self.block(lane, bytes, take),
            Chunk::Sealed(Sealed::Lost { lane, from, to }) => {
                let place = self.place(lane)?;
                self.reorder.lose(place, from, to);
                take(Event::Lost(place, from, to));
                self.give_out(place, false, take)
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
                if !self.numbers.contains_key(&ONLY) {
                    let node = std::mem::take(&mut self.file_name);
                    let period = header_of(bytes)?.period.0;
                    let head = LaneHead { lane: ONLY, node: &node, name: "trace", epoch: 0, period };
                    self.lane(&head, take)?;
                }
                self.block(ONLY, bytes, take)
            }
        }
    }

    fn lane(&mut self, head: &LaneHead<'_>, take: &mut impl FnMut(Event<'_>)) -> Result<usize, String> {
        let lane = Lane { node: head.node.into(), name: head.name.into(), epoch: head.epoch };
        let place = match self.places.get(&lane) {
            Some(&place) => place,
            None if self.lanes.len() == LANES_MAX => return Err(format!("more than {LANES_MAX} lanes")),
            None => {
                self.places.insert(lane.clone(), self.lanes.len());
                self.lanes.push(lane);
                self.lanes.len() - 1
            }
        };
        if self.numbers.insert(head.lane, place).is_some_and(|before| before != place) {
            self.schemas.retain(|(number, _), _| *number != head.lane);
        }
        take(Event::Lane(place, &self.lanes[place], Nanos(head.period)));
        Ok(place)
    }

    fn place(&self, lane: u32) -> Result<usize, String> {
        self.numbers.get(&lane).copied().ok_or_else(|| format!("lane {lane} was never announced"))
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
        let place = self.place(lane)?;
        // A trace of one lane has one schema, whatever the generation in its blocks.
        let generation = if lane == ONLY { 0 } else { header.generation };
        let columns = match self.schemas.get_mut(&(lane, generation)) {
            Some(schema) => schema.columns(),
            None => Arc::default(),
        };
        if columns.len() < header.slots as usize {
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
        take(Event::Block(Block { lane: place, header, bytes, problem: &mut problem }));
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

fn header_of(bytes: &[u8]) -> Result<Header, String> {
    let head = bytes.first_chunk::<HEADER_BYTES>().ok_or("a block too short for its header")?;
    Header::from_bytes(head, 0).map_err(|error| error.to_string())
}
