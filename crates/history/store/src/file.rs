//! Reads a column file: finds the sections of a node, and their columns one by one. Damaged parts are reported with their offset,
//! and the rest can be read.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use khz_model::{Nanos, NodeName, ValueType};

use crate::StoreError;
use crate::bytes::{Bytes, Read};
use crate::column;
use crate::directory::{self, Entry, HEADER_BYTES, Page, Root, TAIL_BYTES, VERSION};
use crate::layout::{Layout, Layouts};
use crate::limits::{APPENDED_BYTES_MAX, PART_BYTES_MAX};
use crate::part::{Part, Source, next_identity};
use crate::rollup;
use crate::section::{Index, Section};
use crate::summary::Summary;
use crate::times::Times;
use crate::writer::Content;

/// An open column file.
#[derive(Debug)]
pub struct ColumnFile {
    source: Source,
    identity: u64,
    version: u8,
    /// Where it ends; what follows does not belong to it.
    end: u64,
    root: Root,
    layouts: Arc<Layouts>,
    /// The packed bytes of the first layout, once they were needed.
    first: OnceLock<Arc<[u8]>>,
    recent: Mutex<Recent>,
}

/// The data that was read last. Readers of many nodes ask in the order of names, and most nodes have the same layout.
#[derive(Debug, Default)]
struct Recent {
    page: Option<(Part, Arc<Vec<Entry>>)>,
    layout: Option<(Part, Arc<Layout>)>,
}

impl ColumnFile {
    /// Opens a file; `layouts` are shared by all files of a store.
    pub fn open(path: &Path, layouts: &Arc<Layouts>) -> Result<Self, StoreError> {
        Self::of(Source::open(path)?, layouts)
    }

    /// The file that these bytes are.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, StoreError> {
        Self::of(Source::memory(bytes), &Arc::default())
    }

    fn of(source: Source, layouts: &Arc<Layouts>) -> Result<Self, StoreError> {
        let header = Part { offset: 0, length: HEADER_BYTES, checksum: 0 };
        let start = source.bytes(0, HEADER_BYTES)?;
        let version = directory::check_header(&start).map_err(|problem| source.damaged(header, problem))?;
        if !(1..=VERSION).contains(&version) {
            return Err(StoreError::Version { path: source.path, version, reads: VERSION });
        }
        let (at, end) = find_root(&source)?;
        if at.length > PART_BYTES_MAX {
            return Err(source.damaged(at, "a directory beyond its limit"));
        }
        let root = source.part(at)?;
        let root = Root::take(Bytes(&root)).map_err(|problem| source.damaged(at, problem))?;
        Ok(ColumnFile {
            source,
            identity: next_identity(),
            version,
            end,
            root,
            layouts: layouts.clone(),
            first: OnceLock::new(),
            recent: Mutex::default(),
        })
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Another number for each file that this process opens.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    /// How many reads have waited for the disk.
    pub(crate) fn waits(&self) -> u64 {
        self.source.waits()
    }

    /// Announces a read of this part, so that the disk may fetch it early.
    pub(crate) fn expect(&self, part: Part) {
        self.source.expect(part.offset, part.length as u64);
    }

    /// The number of the file on its disk.
    pub(crate) fn inode(&self) -> u64 {
        self.source.inode
    }

    /// The length of the buckets; 0: rows as they were gathered.
    pub fn resolution(&self) -> Nanos {
        self.root.resolution
    }

    /// The times of the earliest and latest row or bucket.
    pub fn span(&self) -> (Nanos, Nanos) {
        (Nanos(self.root.first), Nanos(self.root.last))
    }

    /// The sections of a node: one, or more if the type of a metric changed.
    pub fn sections(&self, node: &NodeName) -> Result<Vec<Section>, StoreError> {
        let entries = self.entries_of(node)?;
        entries.iter().map(|entry| self.section(entry)).collect()
    }

    /// How many rows all sections have. It reads the index of each.
    pub(crate) fn rows(&self) -> Result<u64, StoreError> {
        let mut rows = 0;
        for page in &self.root.pages {
            for entry in self.page(page)?.iter() {
                let bytes = self.source.part(entry.index)?;
                let mut bytes = Bytes(&bytes);
                let of_section = Part::take(&mut bytes, PART_BYTES_MAX).and_then(|_| bytes.number());
                rows += self.whole(entry.index, of_section)?;
            }
        }
        Ok(rows)
    }

    /// Where the sections of a node are.
    pub(crate) fn entries_of(&self, node: &NodeName) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        for page in self.root.pages_of(node) {
            let page = self.page(page)?;
            // A page has its nodes in the order of their names.
            let from = page.partition_point(|entry| entry.node < *node);
            entries.extend(page[from..].iter().take_while(|entry| entry.node == *node).cloned());
        }
        Ok(entries)
    }

    /// The layouts of a node's sections.
    pub(crate) fn layouts_of(&self, node: &NodeName) -> Result<Vec<Arc<Layout>>, StoreError> {
        let mut layouts = Vec::new();
        for entry in self.entries_of(node)? {
            let bytes = self.source.part(entry.index)?;
            let layout = Part::take(&mut Bytes(&bytes), PART_BYTES_MAX);
            layouts.push(self.layout(self.whole(entry.index, layout)?)?);
        }
        Ok(layouts)
    }

    /// The names of all nodes, in order. Pages that are damaged are reported, and the others are read.
    pub fn nodes(&self) -> (Vec<NodeName>, Vec<StoreError>) {
        let (entries, damage) = self.entries();
        let mut nodes: Vec<NodeName> = entries.into_iter().map(|entry| entry.node).collect();
        nodes.dedup();
        (nodes, damage)
    }

    /// Reads everything, and says what is damaged.
    pub fn check(&self) -> Vec<StoreError> {
        let (entries, mut damage) = self.entries();
        for entry in &entries {
            match self.section(entry) {
                Ok(section) => damage.extend(self.check_section(&section)),
                Err(error) => damage.push(error),
            }
        }
        let appended =
            Part { offset: self.end, length: (self.source.length - self.end) as usize, checksum: 0 };
        if appended.length > 0 {
            damage.push(
                self.source.damaged(appended, "somebody has appended them; all before them can be read"),
            );
        }
        // Many sections need one layout.
        let mut told = HashSet::new();
        damage.retain(|error| told.insert(error.to_string()));
        damage
    }

    fn check_section(&self, section: &Section) -> Vec<StoreError> {
        let times = match self.times(section) {
            Ok(times) => times,
            Err(error) => return vec![error],
        };
        let column = |place: usize| self.content(section, place, &times).err();
        (0..section.index.columns.len()).filter_map(column).collect()
    }

    fn entries(&self) -> (Vec<Entry>, Vec<StoreError>) {
        let (mut entries, mut damage) = (Vec::new(), Vec::new());
        for page in &self.root.pages {
            match self.page(page) {
                Ok(found) => entries.extend(found.iter().cloned()),
                Err(error) => damage.push(error),
            }
        }
        (entries, damage)
    }

    fn page(&self, page: &Page) -> Result<Arc<Vec<Entry>>, StoreError> {
        if let Some((_, entries)) = self.recent().page.as_ref().filter(|(part, _)| *part == page.part) {
            return Ok(entries.clone());
        }
        let bytes = self.source.part(page.part)?;
        let entries = Arc::new(self.whole(page.part, directory::take_page(&bytes))?);
        self.recent().page = Some((page.part, entries.clone()));
        Ok(entries)
    }

    fn layout(&self, part: Part) -> Result<Arc<Layout>, StoreError> {
        if let Some((_, layout)) = self.recent().layout.as_ref().filter(|(known, _)| *known == part) {
            return Ok(layout.clone());
        }
        let packed = self.source.part(part)?;
        let first = if part == self.root.layout { None } else { Some(self.first_layout()?) };
        let layout = self.whole(part, self.layouts.get(&packed, first.as_ref()))?;
        self.recent().layout = Some((part, layout.clone()));
        Ok(layout)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A section by its place.
    pub(crate) fn section(&self, entry: &Entry) -> Result<Section, StoreError> {
        let bytes = self.source.part(entry.index)?;
        let index = self.whole(entry.index, Index::take(Bytes(&bytes), self.version))?;
        let layout = self.layout(index.layout)?;
        if layout.series().len() != index.columns.len() {
            return Err(self.source.damaged(entry.index, "it has other columns than its layout says"));
        }
        Ok(Section { node: entry.node.clone(), at: entry.index, layout, index, times: None })
    }

    fn first_layout(&self) -> Result<Arc<[u8]>, StoreError> {
        if let Some(first) = self.first.get() {
            return Ok(first.clone());
        }
        let first: Arc<[u8]> = self.source.part(self.root.layout)?.into();
        Ok(self.first.get_or_init(|| first).clone())
    }

    /// The times of a section's rows.
    pub(crate) fn times(&self, section: &Section) -> Result<Times, StoreError> {
        let part = section.index.times;
        let bytes = self.source.part(part)?;
        let times = self.whole(part, Times::take(&mut Bytes(&bytes), self.root.resolution))?;
        let span = section.index.span;
        if times.rows() != span.rows || times.span() != (span.first, span.last) {
            return Err(self.source.damaged(part, "its times are not those that the index states"));
        }
        Ok(times)
    }

    /// The content of a column: readings, or summaries. In a roll-up, columns of labels hold readings.
    pub(crate) fn content(
        &self,
        section: &Section,
        place: usize,
        times: &Times,
    ) -> Result<Content, StoreError> {
        let value_type = self.value_type(section, place);
        self.column(section, place, |bytes| match bytes.0.first() {
            Some(&column::ROLLUP) => rollup::take(bytes, value_type, times).map(Content::Summaries),
            _ => column::take(bytes, section.rows()).map(Content::Readings),
        })
    }

    /// The summary of a column of readings, without decoding it; `None` where only decoding can tell.
    pub(crate) fn summary(
        &self,
        section: &Section,
        place: usize,
    ) -> Result<Option<Option<Summary>>, StoreError> {
        let value_type = self.value_type(section, place);
        self.column(section, place, |bytes| column::summary(bytes, value_type, section.index.span))
    }

    fn value_type(&self, section: &Section, place: usize) -> ValueType {
        section.series().get(place).map_or(ValueType::Unknown, |series| series.metric.value_type)
    }

    fn column<T>(
        &self,
        section: &Section,
        place: usize,
        take: impl FnOnce(Bytes<'_>) -> Read<T>,
    ) -> Result<T, StoreError> {
        let nothing = || self.source.damaged(section.at, "it has no such column");
        let part = section.index.columns.get(place).ok_or_else(nothing)?;
        let bytes = self.source.part(part)?;
        self.whole(part, take(Bytes(&bytes)))
    }

    fn whole<T>(&self, part: Part, read: Read<T>) -> Result<T, StoreError> {
        read.map_err(|problem| self.source.damaged(part, problem))
    }
}

/// Where the root is, and where the file ends: at its last byte, unless somebody has appended some.
fn find_root(source: &Source) -> Result<(Part, u64), StoreError> {
    let offset = source.length.saturating_sub(TAIL_BYTES as u64);
    let problem = match directory::take_tail(&source.bytes(offset, TAIL_BYTES)?) {
        Ok(root) => return Ok((root, source.length)),
        Err(problem) => problem,
    };
    let from = source.length.saturating_sub(APPENDED_BYTES_MAX);
    let bytes = source.bytes(from, (source.length - from) as usize)?;
    let tails = bytes.windows(TAIL_BYTES).enumerate().rev();
    let found = tails.filter_map(|(at, tail)| Some((directory::take_tail(tail).ok()?, at))).next();
    let damaged = || source.damaged(Part { offset, length: TAIL_BYTES, checksum: 0 }, problem);
    found.map(|(root, at)| (root, from + (at + TAIL_BYTES) as u64)).ok_or_else(damaged)
}
