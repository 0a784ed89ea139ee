//! The chunks of a trace file, read piece by piece: a file of any size needs no more memory than its largest chunk. Damage
//! is reported with its offset, and reading continues after it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use khz_block::trace::{self, CHUNK_BYTES_MAX, Chunk, FRONT_BYTES, HEADER_BYTES, Next};

use crate::RecordError;

/// Bytes of one read.
const PIECE: usize = 1 << 20;
/// Places of damage that are reported one by one; the others are counted.
const DAMAGES_MAX: usize = 1_000;

/// A place in a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub offset: u64,
    /// Bytes that were skipped; 0: the chunk is whole, but this version cannot use it.
    pub bytes: u64,
    /// The damage there.
    pub problem: String,
}

/// How far a file could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Bytes that were read.
    pub bytes: u64,
    /// Where the last chunk begins, if it is cut off: the file is being written, or its writer was killed.
    pub cut_off: Option<u64>,
    /// Places of damage, in order.
    pub damage: Vec<Damage>,
    /// How many places of damage there are; `damage` may have fewer.
    pub damages: u64,
}

impl Reach {
    pub(crate) fn note(&mut self, offset: u64, bytes: u64, problem: String) {
        self.damages += 1;
        if self.damage.len() < DAMAGES_MAX {
            self.damage.push(Damage { offset, bytes, problem });
        }
    }
}

/// Calls `take` for every whole chunk, with its offset. If `take` refuses a chunk, that is damage
/// too.
pub(crate) fn chunks(
    path: &Path,
    mut take: impl FnMut(u64, Chunk<'_>) -> Result<(), String>,
) -> Result<Reach, RecordError> {
    let file = |what, source| RecordError::File { what, path: path.to_owned(), source };
    let source = File::open(path).map_err(|source| file("open", source))?;
    let mut window = Window { file: source, bytes: Vec::new(), start: 0, offset: 0, is_end: false };
    window.fill(HEADER_BYTES).map_err(|source| file("read", source))?;
    trace::check_header(window.rest())
        .map_err(|source| RecordError::NoTrace { path: path.to_owned(), source })?;
    window.pass(HEADER_BYTES);
    let mut reach = Reach::default();
    loop {
        window.fill(FRONT_BYTES).map_err(|source| file("read", source))?;
        if window.rest().is_empty() {
            break;
        }
        let at = window.offset;
        match trace::next(window.rest()) {
            Next::Chunk(chunk, length) => {
                match chunk {
                    None => reach.note(at, 0, "a chunk of a kind that this version does not know".into()),
                    Some(chunk) => {
                        if let Err(problem) = take(at, chunk) {
                            reach.note(at, 0, problem);
                        }
                    }
                }
                window.pass(length);
            }
            Next::Incomplete(length) if !window.is_end => {
                window.fill(length).map_err(|source| file("read", source))?;
            }
            Next::Incomplete(_) => {
                // The file ends here, or the chunk's length is wrong.
                if !window.seek().map_err(|source| file("read", source))? {
                    reach.cut_off = Some(at);
                    break;
                }
                reach.note(at, window.offset - at, "a chunk whose length is wrong".into());
            }
            Next::Damaged(problem) => {
                let is_found = window.seek().map_err(|source| file("read", source))?;
                reach.note(at, window.offset - at, problem.into());
                if !is_found {
                    break;
                }
            }
        }
    }
    reach.bytes = window.offset;
    Ok(reach)
}

/// A part of the file in memory.
struct Window {
    file: File,
    bytes: Vec<u8>,
    /// Where the next chunk begins in `bytes`, and in the file.
    start: usize,
    offset: u64,
    is_end: bool,
}

impl Window {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn pass(&mut self, length: usize) {
        self.start += length;
        self.offset += length as u64;
    }

    /// Reads until the window has this many bytes, or the file ends.
    fn fill(&mut self, wanted: usize) -> std::io::Result<()> {
        debug_assert!(wanted <= CHUNK_BYTES_MAX + FRONT_BYTES);
        while self.rest().len() < wanted && !self.is_end {
            if self.start >= PIECE {
                self.bytes.drain(..std::mem::take(&mut self.start));
            }
            let here = self.bytes.len();
            let more = PIECE.max(wanted - (here - self.start));
            let read = (&mut self.file).take(more as u64).read_to_end(&mut self.bytes)?;
            self.is_end = read < more;
        }
        Ok(())
    }

    /// Moves to the next whole sealed chunk. `false`: there is none. If the file is only cut off, the window has not moved;
    /// otherwise it is at the end of the file.
    fn seek(&mut self) -> std::io::Result<bool> {
        let mut from = 1;
        loop {
            let Some(at) = trace::find(self.rest(), from) else {
                if self.is_end {
                    let is_cut = matches!(trace::next(self.rest()), Next::Incomplete(_));
                    self.pass(if is_cut { 0 } else { self.rest().len() });
                    return Ok(false);
                }
                // A mark across the window's end is found in the next round.
                let done = self.rest().len().saturating_sub(FRONT_BYTES + 4);
                self.pass(done.saturating_sub(1));
                from = 1;
                let here = self.rest().len();
                self.fill(here + PIECE)?;
                continue;
            };
            match trace::next(&self.rest()[at..]) {
                Next::Chunk(Some(Chunk::Sealed(_)), _) => {
                    self.pass(at);
                    return Ok(true);
                }
                Next::Incomplete(length) if !self.is_end => self.fill(at + length)?,
                _ => from = at + 1,
            }
        }
    }
}
