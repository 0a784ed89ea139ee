//! Reads a ring while its writer runs, or after it has died. A reader never waits, notices when the writer
//! has overtaken it, and checks everything that it reads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use khz_block::{HEADER_BYTES, Header};
use khz_model::Nanos;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, fstat};
use rustix::io::Errno;

use crate::bytes::RingBytes;
use crate::error::RingError;
use crate::layout::{Areas, ENTRY_BYTES, Label, PAGE_BYTES, SCHEMA_BYTES, word};

/// While the writer moves schemas, a reader waits at most this long. A move takes microseconds, or some milliseconds
/// for the largest schemas; a writer that died meanwhile never ends it.
const MOVE_MAX: Duration = Duration::from_secs(1);

/// The reader was too slow: the writer has given up the bytes that it wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("overtaken by the writer")]
pub struct Overtaken;

/// A reader of a ring; cheap to clone.
#[derive(Clone, Debug)]
pub struct Reader {
    bytes: RingBytes,
    areas: Areas,
    size: u64,
    label: Arc<Label>,
    /// The memory as a file, where this process made it.
    file: Option<Arc<OwnedFd>>,
}

/// A ring, for another process that shall read it: a file that can only be read, and where its parts are.
#[derive(Debug)]
pub struct Shared {
    /// The file.
    pub file: OwnedFd,
    /// The size of the data in bytes.
    pub size: u64,
    /// It is anonymous memory, whose parts are elsewhere than in a file with a name.
    pub is_nameless: bool,
}

impl Reader {
    pub(crate) fn new(bytes: RingBytes, areas: Areas, size: u64, label: Arc<Label>) -> Self {
        Reader { bytes, areas, size, label, file: None }
    }

    /// The same, which can be shared.
    pub(crate) fn with_file(self, file: Arc<OwnedFd>) -> Self {
        Reader { file: Some(file), ..self }
    }

    /// The ring for another process. It cannot write to it.
    ///
    /// # Errors
    /// Another process made it, or the kernel does not open its memory again.
    pub fn share(&self) -> Result<Shared, Errno> {
        let file = self.file.as_ref().ok_or(Errno::BADF)?;
        // Opened again, because a duplicate could write, too.
        let number = std::os::fd::AsRawFd::as_raw_fd(file.as_ref());
        let path = format!("/proc/self/fd/{number}");
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Shared { file, size: self.size, is_nameless: self.areas == Areas::NAMELESS })
    }

    /// A reader of a ring that another process shares.
    ///
    /// # Errors
    /// Returns what it is not.
    pub fn of_shared(shared: Shared) -> Result<Self, &'static str> {
        let Shared { file, size, is_nameless } = shared;
        let areas = if is_nameless { Areas::NAMELESS } else { Areas::FILE };
        if !size.is_power_of_two() || size > crate::layout::DATA_MAX {
            return Err("its size is no power of two within the limits");
        }
        let length = fstat(file.as_fd()).map_err(|_| "its file cannot be examined")?.st_size as u64;
        if length < areas.data + size {
            return Err("its file is too short");
        }
        // What the ring is called stays with who shares it.
        let label = Label {
            node: String::new(),
            lane: String::new(),
            number: 0,
            machine: [0; 16],
            boot: [0; 16],
            epoch: 0,
            created: 0,
        };
        Ok(Reader::new(RingBytes::File(Arc::new(file)), areas, size, Arc::new(label)))
    }

    /// Opens a ring file of any process, running or not. If the file is damaged later, reads return errors;
    /// there is no signal.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        let not_a_ring = |problem| RingError::NotARing { path: path.into(), problem };
        let failed = |what| move |source| RingError::File { what, path: path.into(), source };
        // NONBLOCK: opening a pipe of that name would wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed("open"))?;
        let length = fstat(&file).map_err(failed("examine"))?.st_size as u64;
        let bytes = RingBytes::File(Arc::new(file));
        let mut page = Vec::new();
        if !bytes.copy(0, PAGE_BYTES, &mut page) {
            return Err(not_a_ring("shorter than a ring's first page".into()));
        }
        let (label, size) = Label::from_page(&page).map_err(not_a_ring)?;
        let areas = Areas::FILE;
        if length < areas.data + size {
            return Err(not_a_ring(format!("cut short: {length} bytes of {}", areas.data + size)));
        }
        Ok(Reader::new(bytes, areas, size, Arc::new(label)))
    }

    /// The identity of the ring.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// The size of the data in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The number of bytes ever written.
    pub fn head(&self) -> u64 {
        self.word(word::HEAD)
    }

    /// The position of the oldest block that is still there.
    pub fn oldest(&self) -> u64 {
        self.word(word::TAIL)
    }

    /// The position of the newest block.
    pub fn newest(&self) -> u64 {
        self.word(word::NEWEST)
    }

    /// The generation of the current writer's schema.
    pub fn generation(&self) -> u32 {
        self.word(word::GENERATION) as u32
    }

    /// The current period of the lane.
    pub fn period(&self) -> Nanos {
        Nanos(self.word(word::PERIOD))
    }

    /// The period that was asked of the lane, which may run slower for a while. In older files that is not known: it is the last one.
    pub fn asked(&self) -> Nanos {
        match self.word(word::ASKED) {
            0 => self.period(),
            asked => Nanos(asked),
        }
    }

    /// The process id of the current or last writer, in its own namespace.
    pub fn pid(&self) -> u64 {
        self.word(word::PID)
    }

    /// When that writer started, on CLOCK_BOOTTIME.
    pub fn started(&self) -> Nanos {
        Nanos(self.word(word::STARTED))
    }

    fn word(&self, word: usize) -> u64 {
        self.bytes.load(self.areas.word(word))
    }

    /// Appends the bytes from `from` up to head, but at most `most`, to `out`; returns how many.
    pub fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        let head = self.head();
        if from > head || head - from > self.size {
            return Err(Overtaken);
        }
        let length = (head - from).min(most as u64);
        let start = out.len();
        let whole = self.copy_data(from, length, out);
        fence(Ordering::Acquire);
        if !whole || self.oldest() > from {
            out.truncate(start);
            return Err(Overtaken);
        }
        Ok(length as usize)
    }

    /// Copies in one piece, or in two around the end of the data.
    fn copy_data(&self, from: u64, length: u64, out: &mut Vec<u8>) -> bool {
        let at = from & (self.size - 1);
        let first = length.min(self.size - at);
        self.bytes.copy(self.areas.data + at, first as usize, out)
            && self.bytes.copy(self.areas.data, (length - first) as usize, out)
    }

    /// The header of the block at `at`; `None` if no block begins there.
    pub fn header(&self, at: u64) -> Option<Header> {
        let header = self.header_once(at)?;
        // The writer writes the closing fields before the flag: after the flag is seen, a second read finds
        // them.
        if header.closed.is_some() { self.header_once(at) } else { Some(header) }
    }

    fn header_once(&self, at: u64) -> Option<Header> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        self.copy(at, HEADER_BYTES, &mut bytes).ok()?;
        Header::from_bytes(bytes.first_chunk()?, 0).ok()
    }

    /// The position of the block after the one at `at`; `None` if that is the newest, or if no block begins
    /// there.
    pub fn next_block(&self, at: u64) -> Option<u64> {
        let (_, length, _) = self.header(at)?.closed?;
        let next = at.checked_add(HEADER_BYTES as u64 + u64::from(length))?;
        (next <= self.newest()).then_some(next)
    }

    /// Appends the whole block at `at` to `out`, the open block up to its last row; returns its header.
    /// `None`: no block begins there any more.
    pub fn block(&self, at: u64, out: &mut Vec<u8>) -> Option<Header> {
        let start = out.len();
        let whole = |header: &Header| header.closed.map(|(_, length, _)| HEADER_BYTES + length as usize);
        let most = whole(&self.header(at)?).unwrap_or(usize::MAX);
        self.copy(at, most, out).ok()?;
        let header = out.get(start..).and_then(<[u8]>::first_chunk).map(|bytes| Header::from_bytes(bytes, 0));
        let Some(Ok(header)) = header else {
            out.truncate(start);
            return None;
        };
        // The block may have been closed during the copy, and the next one begun.
        if let Some(length) = whole(&header) {
            out.truncate(start + length);
        }
        Some(header)
    }

    /// The positions of the current blocks, oldest first. A slow reader may find the first ones gone.
    pub fn blocks(&self) -> Vec<u64> {
        let head = self.head();
        let first = Some(self.oldest()).filter(|&at| at < head);
        std::iter::successors(first, |&at| self.next_block(at).filter(|&next| next < head)).collect()
    }

    /// The length of a generation's schema; `None` if the ring does not have it, or not any more.
    pub fn schema_bytes(&self, generation: u32) -> Option<u64> {
        self.settled(|| self.entry(generation).map(|(_, bytes)| bytes))
    }

    /// Appends the bytes of a generation's schema from `from` on, but at most `most`, to `out`; returns how
    /// many. `None`: the generation does not exist, or its schema is shorter than `from`.
    pub fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        let start = out.len();
        let copied = self.settled(|| {
            out.truncate(start);
            let (at, bytes) = self.entry(generation)?;
            let length = bytes.checked_sub(from)?.min(most as u64) as usize;
            self.bytes.copy(at + from, length, out).then_some(length)
        });
        out.truncate(start + copied.unwrap_or(0));
        copied
    }

    /// Reads the schema area while nothing in it moves.
    fn settled<T>(&self, mut read: impl FnMut() -> Option<T>) -> Option<T> {
        let mut began = None;
        loop {
            let before = self.word(word::SCHEMA_MOVES);
            if before.is_multiple_of(2) {
                let found = read();
                // The second load of the word must come after the loads of the area.
                fence(Ordering::Acquire);
                if self.word(word::SCHEMA_MOVES) == before {
                    return found;
                }
            }
            if began.get_or_insert_with(Instant::now).elapsed() > MOVE_MAX {
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// The offset and length of a generation's schema.
    fn entry(&self, generation: u32) -> Option<(u64, u64)> {
        let mut entries =
            Entries { bytes: &self.bytes, area: self.areas.schema, at: 0, end: self.word(word::SCHEMA) };
        entries.find(|entry| entry.generation == generation).map(|entry| (entry.at, entry.bytes))
    }
}

/// A generation in the schema area.
pub(crate) struct Entry {
    pub generation: u32,
    /// The offset of its bytes in the file.
    pub at: u64,
    pub bytes: u64,
}

/// The entries of the schema area, up to the first one that makes no sense.
pub(crate) struct Entries<'a> {
    pub bytes: &'a RingBytes,
    /// The offset of the area.
    pub area: u64,
    /// The offset, in the area, of the next entry.
    pub at: u64,
    /// The length of the area's complete part.
    pub end: u64,
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let start = self.at;
        if start + ENTRY_BYTES > self.end.min(SCHEMA_BYTES) {
            return None;
        }
        let generation = self.bytes.load(self.area + start) as u32;
        let bytes = self.bytes.load(self.area + start + 8);
        if bytes > SCHEMA_BYTES - start - ENTRY_BYTES {
            return None;
        }
        self.at = (start + ENTRY_BYTES + bytes).next_multiple_of(8);
        Some(Entry { generation, at: self.area + start + ENTRY_BYTES, bytes })
    }
}
