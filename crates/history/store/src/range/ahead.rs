//! Looking ahead: while an answer goes from node to node and each read waits for the disk, what the next nodes need is asked for
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
const COLUMNS_AHEAD: usize = 16;

/// How far the answer has looked.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Nodes of which everything was asked for.
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
    for entry in nodes.iter().flat_map(|node| file.entries_of(node).unwrap_or_default()) {
        if !asked.reader.unpacked.knows(&Place::Part(file.identity(), entry.index.offset)) {
            file.expect(entry.index);
        }
    }
}

fn expect_columns(asked: &mut Asked, file: &ColumnFile, nodes: &[NodeName]) {
    for node in nodes {
        let of_node = asked.chosen.patterns_of(&asked.patterns, node);
        // The read of what is damaged reports it.
        for entry in file.entries_of(node).unwrap_or_default() {
            let place = Place::Part(file.identity(), entry.index.offset);
            let Ok(section) = asked.reader.unpacked.section(place, || file.section(&entry)) else { continue };
            let list = List::Columns(section.layout.clone());
            let selected = asked.chosen.of(&asked.patterns, &of_node, &list);
            let times = section.index.times;
            match selected.slots() {
                [] => {}
                slots if slots.len() <= COLUMNS_AHEAD => {
                    let columns = slots.iter().filter_map(|slot| section.index.columns.get(*slot as usize));
                    columns.chain([times]).for_each(|part| file.expect(part));
                }
                _ => {
                    let length = entry.index.offset.saturating_sub(times.offset) as usize;
                    file.expect(Part { length, ..times });
                }
            }
        }
    }
}
