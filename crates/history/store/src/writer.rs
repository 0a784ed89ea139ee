//! Writes a column file from its first byte to its last: a section for each node, column by column. Sections with the same series
//! are written in groups. It keeps only the places of written parts.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::io::{self, Write};

use khz_model::{Labels, Nanos, NodeName, RangeBits, Series, ValueType};

use crate::column::{self, Span};
use crate::directory::{self, Entry, Page, Root};
use crate::group::{Group, SectionBytes, Waiting};
use crate::layout::{pack, schema_bytes};
use crate::limits::{COLUMN_BYTES_MAX, LAYOUTS_REMEMBERED_BYTES, PAGE_NODES, PAGES_MAX, ROWS_MAX};
use crate::part::Part;
use crate::rollup;
use crate::section::{Columns, Index};
use crate::summary::Summary;
use crate::times::Times;
use crate::track::Track;

/// The content of a track: readings, or summaries of a roll-up.
#[derive(Debug)]
pub(crate) enum Content {
    Readings(Track<u64>),
    Summaries(Track<Summary>),
}

impl RangeBits for Content {
    fn bits(&self) -> &[u64] {
        match self {
            Content::Readings(track) => &track.values,
            Content::Summaries(_) => &[],
        }
    }

    fn rises(&self) -> bool {
        match self {
            Content::Readings(track) => track.rises(),
            Content::Summaries(_) => false,
        }
    }
}

impl Content {
    /// The labels that are among the readings.
    pub fn labels(&self) -> &[Labels] {
        match self {
            Content::Readings(track) => &track.labels,
            Content::Summaries(_) => &[],
        }
    }

    /// How many rows have a value.
    pub fn values(&self) -> u64 {
        match self {
            Content::Readings(track) => track.values.len() as u64,
            Content::Summaries(track) => track.values.len() as u64,
        }
    }

    /// Roughly how many bytes it takes beside itself.
    pub fn held(&self) -> usize {
        match self {
            Content::Readings(track) => track.held(),
            Content::Summaries(track) => track.held(),
        }
    }
}

/// A column file under construction.
pub(crate) struct Writer<W> {
    out: W,
    offset: u64,
    resolution: Nanos,
    entries: Vec<Entry>,
    /// The times of all rows so far.
    span: Option<(u64, u64)>,
    /// The first layout: its place, and its schema, which later ones are packed with.
    first: Option<(Part, Vec<u8>)>,
    /// Where each schema was written, and the bytes of all of them.
    layouts: HashMap<Vec<u8>, Part>,
    layouts_bytes: usize,
    /// Sections that wait for others with the same series.
    group: Group,
    /// The column under construction, kept to reuse its memory.
    column: Vec<u8>,
}

/// A section that has some of its columns.
pub(crate) struct OpenSection {
    layout: Part,
    /// Which series the schema holds.
    held: Vec<bool>,
    columns: Done,
}

/// The columns of an open section.
enum Done {
    /// They wait for those of other sections.
    Waiting(SectionBytes),
    /// They are too large for a group, and are written.
    Written(Columns),
}

impl OpenSection {
    /// The places of the series that have columns here. The same series have the same places in any file.
    pub fn places(&self) -> Vec<usize> {
        (0..self.held.len()).filter(|place| self.held[*place]).collect()
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Sections: one for each node, or more if a metric's type changed.
    pub sections: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W, resolution: Nanos) -> io::Result<Self> {
        let mut writer = Writer {
            out,
            offset: 0,
            resolution,
            entries: Vec::new(),
            span: None,
            first: None,
            layouts: HashMap::new(),
            layouts_bytes: 0,
            group: Group::default(),
            column: Vec::new(),
        };
        writer.append(&directory::header())?;
        Ok(writer)
    }

    /// Writes the section of a node. `track` is asked for each series in turn, so that one column is held at a time.
    /// Series that no schema can hold are left out.
    pub fn section<E: From<io::Error>, C: Borrow<Content>>(
        &mut self,
        node: &NodeName,
        series: &[Series],
        times: &Times,
        mut track: impl FnMut(usize) -> Result<C, E>,
    ) -> Result<(), E> {
        let mut section = self.begin(series, times)?;
        for place in section.places() {
            let content = track(place)?;
            self.column(&mut section, content.borrow(), series[place].metric.value_type, times)?;
        }
        Ok(self.end(section, node, times)?)
    }

    /// Begins a section. Then come the columns of its [`OpenSection::places`].
    pub fn begin(&mut self, series: &[Series], times: &Times) -> io::Result<OpenSection> {
        debug_assert!(times.rows() <= ROWS_MAX, "BUG: more rows than readers take");
        if self.entries.len() + self.group.len() == PAGES_MAX * PAGE_NODES {
            return Err(too_much("more nodes than a directory can have"));
        }
        let (schema, held) = schema_bytes(series);
        let layout = self.layout(schema)?;
        Ok(OpenSection { layout, held, columns: Done::Waiting(SectionBytes::default()) })
    }

    /// Adds the next column of a section.
    pub fn column(
        &mut self,
        section: &mut OpenSection,
        content: &Content,
        value_type: ValueType,
        times: &Times,
    ) -> io::Result<()> {
        let mut column = std::mem::take(&mut self.column);
        column.clear();
        put(content, value_type, times, &mut column);
        let done = self.add(&mut section.columns, &column);
        self.column = column;
        done
    }

    fn add(&mut self, done: &mut Done, column: &[u8]) -> io::Result<()> {
        match done {
            Done::Written(columns) => columns.push(self.append_part(column)?),
            Done::Waiting(waiting) => {
                check_length(column)?;
                waiting.push(column);
                if waiting.is_large() {
                    let mut columns = Columns::from(self.offset);
                    waiting
                        .columns()
                        .try_for_each(|column| self.append(column).map(|part| columns.push(part)))?;
                    *done = Done::Written(columns);
                }
            }
        }
        Ok(())
    }

    /// Ends a section that has all its columns.
    pub fn end(&mut self, section: OpenSection, node: &NodeName, times: &Times) -> io::Result<()> {
        let OpenSection { layout, columns, .. } = section;
        let (first, last) = times.span();
        let (earliest, latest) = self.span.unwrap_or((first, last));
        self.span = Some((earliest.min(first), latest.max(last)));
        let (node, span) = (node.clone(), Span { rows: times.rows(), first, last });
        let mut bytes = Vec::new();
        times.put(&mut bytes);
        check_length(&bytes)?;
        match columns {
            Done::Waiting(columns) => self.group_with(layout, Waiting { node, span, times: bytes, columns }),
            Done::Written(columns) => {
                // Sections of one node stay in their order.
                self.write_group()?;
                let (times, mut index) = (self.append(&bytes)?, Vec::new());
                Index { layout, span, times, columns }.put(&mut index);
                let index = self.append(&index)?;
                self.entries.push(Entry { node, index });
                Ok(())
            }
        }
    }

    /// Adds a section to the present group, or begins another one.
    fn group_with(&mut self, layout: Part, section: Waiting) -> io::Result<()> {
        if self.group.is_full_for(layout, &section) {
            self.write_group()?;
        }
        self.group.push(layout, section);
        Ok(())
    }

    fn write_group(&mut self) -> io::Result<()> {
        let (group, begin) = (std::mem::take(&mut self.group), self.offset);
        let written = group.write(begin, |bytes| self.append(bytes))?;
        self.entries.extend(written.into_iter().map(|(node, index)| Entry { node, index }));
        Ok(())
    }

    /// Writes directory and tail. Returns the file, all of whose bytes are written.
    pub fn finish(mut self) -> io::Result<(W, Written)> {
        self.write_group()?;
        let sections = self.entries.len() as u64;
        let mut pages = Vec::new();
        for (first, bytes) in directory::pages(std::mem::take(&mut self.entries)) {
            pages.push(Page { first, part: self.append(&bytes)? });
        }
        let (first, last) = self.span.unwrap_or_default();
        let layout = self.first.take().map_or_else(Part::default, |(layout, _)| layout);
        let mut root = Vec::new();
        Root { resolution: self.resolution, first, last, layout, pages }.put(&mut root);
        let root = self.append(&root)?;
        self.append(&directory::tail(root))?;
        self.out.flush()?;
        Ok((self.out, Written { sections, bytes: self.offset }))
    }

    /// The place of a layout, which is written unless it was before.
    fn layout(&mut self, schema: Vec<u8>) -> io::Result<Part> {
        if let Some(&layout) = self.layouts.get(&schema) {
            return Ok(layout);
        }
        let packed = pack(&schema, self.first.as_ref().map(|(_, first)| &first[..]))?;
        let layout = self.append(&packed)?;
        if self.first.is_none() {
            self.first = Some((layout, schema.clone()));
        }
        if self.layouts_bytes + schema.len() > LAYOUTS_REMEMBERED_BYTES {
            self.layouts.clear();
            self.layouts_bytes = 0;
        }
        self.layouts_bytes += schema.len();
        self.layouts.insert(schema, layout);
        Ok(layout)
    }

    /// Writes a column or times.
    fn append_part(&mut self, bytes: &[u8]) -> io::Result<Part> {
        check_length(bytes)?;
        self.append(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<Part> {
        let part = Part::of(bytes, self.offset);
        self.out.write_all(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(part)
    }
}

/// A column or times that no reader would take are not written.
fn check_length(bytes: &[u8]) -> io::Result<()> {
    match bytes.len() > COLUMN_BYTES_MAX {
        true => Err(too_much("a column is beyond its limit: write shorter files")),
        false => Ok(()),
    }
}

fn too_much(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, problem)
}

fn put(content: &Content, value_type: ValueType, times: &Times, out: &mut Vec<u8>) {
    match content {
        Content::Readings(track) => column::put(track, value_type, times, out),
        Content::Summaries(track) => rollup::put(track, value_type, times, out),
    }
}
