//! Looking ahead: an answer goes from node to node, and each read waits for the disk. So the reads for the next nodes are requested
//! together. A disk that gets many reads at a time does four of them in the time of one.

use std::sync::Arc;

use khz_model::NodeName;

use crate::file::ColumnFile;
use crate::part::Part;
use crate::range::answer::Asked;
use crate::range::chosen::List;
use crate::range::unpacked::Place;

/// Nodes for which it looks ahead at a time: those of a page of a file's directory.
const NODES_AHEAD: usize = crate::limits::PAGE_NODES;
/// A question about more columns of a node reads all of the node.
pub(crate) const COLUMNS_AHEAD: usize = 16;

/// Parts with this many bytes between them, or less, are fetched together: that is quicker than two reads of a disk.
const GAP: u64 = 16 << 10;

/// How far the answer has looked.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The number of next nodes whose reads are already requested.
    left: usize,
    /// How many reads had waited.
    waits: u64,
}

impl Ahead {
    /// Called before each node; `nodes` are this one and those after it, `files` the ones that they are read from.
    pub fn look(&mut self, asked: &mut Asked, files: &[Arc<ColumnFile>], nodes: &[NodeName]) {
        let nodes = self.next(asked, files, nodes);
        files.iter().for_each(|file| expect_indexes(asked, file, nodes));
        files.iter().for_each(|file| expect_columns(asked, file, nodes));
    }

    /// The same of the indexes of sections only.
    pub fn look_at_indexes(&mut self, asked: &mut Asked, files: &[Arc<ColumnFile>], nodes: &[NodeName]) {
        let nodes = self.next(asked, files, nodes);
        files.iter().for_each(|file| expect_indexes(asked, file, nodes));
    }

    /// The nodes for which it looks ahead now.
    fn next<'a>(
        &mut self,
        asked: &Asked,
        files: &[Arc<ColumnFile>],
        nodes: &'a [NodeName],
    ) -> &'a [NodeName] {
        if self.left > 0 {
            self.left -= 1;
            return &[];
        }
        let waits = files.iter().map(|file| file.waits()).sum();
        let has_waited = waits > std::mem::replace(&mut self.waits, waits);
        if !(has_waited || asked.reader.is_looking) || nodes.len() < 2 {
            return &[];
        }
        let nodes = &nodes[..nodes.len().min(NODES_AHEAD)];
        self.left = nodes.len() - 1;
        nodes
    }
}

/// The indexes of sections come first, because they say where the columns are.
fn expect_indexes(asked: &Asked, file: &ColumnFile, nodes: &[NodeName]) {
    let entries = nodes.iter().flat_map(|node| file.entries_of(node).unwrap_or_default());
    let knows = |index: &Part| asked.reader.unpacked.knows(&Place::Part(file.identity(), index.offset));
    expect(file, entries.map(|entry| entry.index).filter(|index| !knows(index)).collect());
}

fn expect_columns(asked: &mut Asked, file: &ColumnFile, nodes: &[NodeName]) {
    let mut parts = Vec::new();
    for node in nodes {
        let of_node = asked.chosen.patterns_of(&asked.patterns, node);
        // The read of what is damaged reports it.
        for entry in file.entries_of(node).unwrap_or_default() {
            let place = Place::Part(file.identity(), entry.index.offset);
            let Ok(section) = asked.reader.unpacked.section(place, || file.section(&entry)) else { continue };
            let list = List::Columns(section.layout.clone());
            let selected = asked.chosen.of(&asked.patterns, &of_node, &list);
            match selected.slots() {
                [] => {}
                slots if slots.len() <= COLUMNS_AHEAD => {
                    parts.extend(slots.iter().filter_map(|slot| section.index.columns.get(*slot as usize)));
                    parts.push(section.index.times);
                }
                _ => parts.push(section.extent()),
            }
        }
    }
    expect(file, parts);
}

/// Asks for these parts, for those that lie close together at once.
fn expect(file: &ColumnFile, mut parts: Vec<Part>) {
    parts.sort_unstable_by_key(|part| part.offset);
    let mut ranges: Vec<Part> = Vec::new();
    for part in parts {
        match ranges.last_mut() {
            Some(range) if part.offset <= range.end().saturating_add(GAP) => {
                range.length = (part.end().max(range.end()) - range.offset) as usize;
            }
            _ => ranges.push(part),
        }
    }
    ranges.into_iter().for_each(|range| file.expect(range));
}
