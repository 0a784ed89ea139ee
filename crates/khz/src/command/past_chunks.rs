//! Chunks of the past, out of a store, into a recording; and what they say beside the rows: which patterns selected something,
//! what is damaged, how it ends.

use std::collections::HashMap;

use khz_block::trace::{Chunk, LaneHead, Next, Sealed, next};
use khz_block::{HEADER_BYTES, Header, SchemaDecoder};
use khz_model::{Nanos, Pattern};
use khz_record::{RecordError, Recorder};
use serde::Deserialize;

use crate::command::found::Found;
use crate::command::recording::of_error;
use crate::show::outcome::Failure;
use crate::show::table::remark;

/// Takes chunks as they come.
pub struct PastChunks {
    /// What has come of each pattern.
    pub found: Found,
    /// The node of each lane.
    nodes: HashMap<u32, String>,
    /// When the newest block began.
    pub reached: Nanos,
    /// Something in the store could not be read; stderr has said what.
    pub is_damaged: bool,
    /// How the answer ends, if it has ended.
    pub end: Option<End>,
}

/// How an answer ends.
pub enum End {
    /// It is whole.
    Whole,
    /// It had to stop, and says why.
    Stopped(String),
    /// What comes is no recording.
    Damaged(&'static str),
}

/// What a note says; what it does not say is empty.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NoteJson {
    damage: Option<String>,
    error: Option<String>,
    end: Option<String>,
}

impl PastChunks {
    /// Before the first chunk.
    pub fn new(patterns: &[Pattern]) -> Self {
        let found = Found::new(patterns);
        PastChunks { found, nodes: HashMap::new(), reached: Nanos(0), is_damaged: false, end: None }
    }

    /// Takes all whole chunks, and returns their length. `begin` makes the recording before the first lane.
    pub fn take(
        &mut self,
        bytes: &[u8],
        recorder: &mut Option<Recorder>,
        mut begin: impl FnMut() -> Result<Recorder, Failure>,
    ) -> Result<usize, Failure> {
        let mut at = 0;
        while self.end.is_none() {
            let (chunk, length) = match next(&bytes[at..]) {
                Next::Chunk(chunk, length) => (chunk, length),
                Next::Incomplete(_) => break,
                Next::Damaged(problem) => {
                    self.end = Some(End::Damaged(problem));
                    break;
                }
            };
            at += length;
            let Some(Chunk::Sealed(sealed)) = chunk else { continue };
            if let Sealed::Note(text) = sealed {
                self.note(text);
                continue;
            }
            let recorder = match recorder {
                Some(recorder) => recorder,
                None => recorder.insert(begin()?),
            };
            self.sealed(&sealed, recorder).map_err(of_error)?;
        }
        Ok(at)
    }

    fn note(&mut self, text: &str) {
        let note: NoteJson = serde_json::from_str(text).unwrap_or_default();
        if let Some(sentence) = note.damage {
            remark!("{sentence}");
            self.is_damaged = true;
        }
        let stopped = note.error.map(End::Stopped);
        self.end = stopped.or(note.end.map(|_| End::Whole));
    }

    fn sealed(&mut self, chunk: &Sealed<'_>, recorder: &mut Recorder) -> Result<(), RecordError> {
        match *chunk {
            Sealed::Lane(ref head) => {
                let LaneHead { lane, node, .. } = *head;
                self.nodes.insert(lane, node.to_owned());
                recorder.lane(head)
            }
            Sealed::Schema { lane, generation, offset, bytes } => {
                self.find(lane, bytes);
                recorder.schema(lane, generation, offset, bytes)
            }
            Sealed::Block { lane, bytes } => {
                if let Some(Ok(header)) =
                    bytes.first_chunk::<HEADER_BYTES>().map(|head| Header::from_bytes(head, 0))
                {
                    self.reached = self.reached.max(header.stamp.real());
                }
                recorder.block(lane, bytes)?;
                recorder.tick(crate::command::record::now())
            }
            Sealed::Lost { .. } | Sealed::PackedSchema { .. } | Sealed::Note(_) | Sealed::Unknown(_) => {
                Ok(())
            }
        }
    }

    /// Finds the patterns that select something of a lane.
    fn find(&mut self, lane: u32, schema: &[u8]) {
        let Some(node) = self.nodes.get(&lane) else { return };
        // Most schemas are of nodes that are found.
        let mut decoder = SchemaDecoder::new();
        let mut is_read = false;
        self.found.take(node, |pattern| {
            if !std::mem::replace(&mut is_read, true) {
                // What is damaged in it, those find who read the recording.
                let _ = decoder.feed(schema);
            }
            let selects = |series: &khz_model::Series| {
                pattern.matches_series(&series.metric.name, series.instance.as_ref())
            };
            decoder.series().iter().any(selects)
        });
    }
}
