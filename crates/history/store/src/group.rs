//! A group: sections of several nodes that have the same series. Their columns of one series lie side by side, so that a question about
//! one series of many nodes finds them in few places of the disk.

use std::io;

use khz_model::NodeName;

use crate::column::Span;
use crate::limits::{GROUP_BYTES, GROUP_SECTIONS};
use crate::part::Part;
use crate::section::{Columns, Index};

/// The columns of a section, one after the other.
#[derive(Debug, Default)]
pub(crate) struct SectionBytes {
    bytes: Vec<u8>,
    /// The length of each.
    lengths: Vec<usize>,
}

impl SectionBytes {
    /// Adds the next column.
    pub fn push(&mut self, column: &[u8]) {
        self.bytes.extend_from_slice(column);
        self.lengths.push(column.len());
    }

    /// True if they are too many bytes to wait for those of other sections.
    pub fn is_large(&self) -> bool {
        self.bytes.len() > GROUP_BYTES
    }

    /// Each of them.
    pub fn columns(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |length| {
            let (column, after) = rest.split_at(*length);
            rest = after;
            column
        })
    }
}

/// A section that is not written yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub node: NodeName,
    pub span: Span,
    pub times: Vec<u8>,
    pub columns: SectionBytes,
}

/// Sections of one layout that are written together.
#[derive(Debug, Default)]
pub(crate) struct Group {
    layout: Part,
    sections: Vec<Waiting>,
    bytes: usize,
}

impl Group {
    pub fn len(&self) -> usize {
        self.sections.len()
    }

    /// True if the group cannot have this section, too.
    pub fn is_full_for(&self, layout: Part, section: &Waiting) -> bool {
        let is_too_much = self.bytes + section.columns.bytes.len() > GROUP_BYTES;
        !self.sections.is_empty()
            && (self.layout != layout || is_too_much || self.sections.len() == GROUP_SECTIONS)
    }

    /// Adds a section with this layout. All sections of a group have the same.
    pub fn push(&mut self, layout: Part, section: Waiting) {
        self.layout = layout;
        self.bytes += section.columns.bytes.len();
        self.sections.push(section);
    }

    /// Writes all sections at `begin`: first the columns of the first series of all sections, then those of the second, and so on,
    /// and finally times and indexes, which are always read together. Returns each node with the place of its index.
    pub fn write(
        self,
        begin: u64,
        mut append: impl FnMut(&[u8]) -> io::Result<Part>,
    ) -> io::Result<Vec<(NodeName, Part)>> {
        let Group { layout, sections, .. } = self;
        let mut columns: Vec<Columns> = sections.iter().map(|_| Columns::from(begin)).collect();
        let mut waiting: Vec<_> = sections.iter().map(|section| section.columns.columns()).collect();
        for _ in 0..sections.first().map_or(0, |first| first.columns.lengths.len()) {
            for (column, written) in waiting.iter_mut().zip(&mut columns) {
                written.push(append(column.next().unwrap_or_default())?);
            }
        }
        let times: Vec<Part> =
            sections.iter().map(|section| append(&section.times)).collect::<io::Result<_>>()?;
        let mut entries = Vec::with_capacity(sections.len());
        for ((Waiting { node, span, .. }, columns), times) in sections.iter().zip(columns).zip(times) {
            let mut index = Vec::new();
            Index { layout, span: *span, times, columns }.put(&mut index);
            entries.push((node.clone(), append(&index)?));
        }
        Ok(entries)
    }
}
