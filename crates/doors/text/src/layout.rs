//! Where the wanted items are in the parts of a node: worked out once for each kind of node, and reused for
//! every later answer.

use std::sync::Arc;

use khz_model::{Columns, Part, ValueFormat};

use crate::items::{Items, SharedItems};
use crate::limits::LAYOUTS_MAX;
use crate::mask::Mask;
use crate::page::STEP;

/// One wanted item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub part: u16,
    pub slot: u32,
    /// The item's bit.
    pub bit: u32,
    /// Where its name begins in the layout's names; a blank follows the name.
    name_at: u32,
    pub name_length: u16,
    pub format: ValueFormat,
}

/// The wanted items of one kind of node, lowest bit first.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub cells: Vec<Cell>,
    names: Vec<u8>,
    /// Bytes of all names.
    pub name_bytes: usize,
}

impl Layout {
    /// The layout for parts with these columns. Assigns bits to new items.
    fn new(columns: &[Arc<dyn Columns>], mask: &Mask, items: &mut Items) -> Self {
        let mut wanted = Vec::new();
        for (part, columns) in columns.iter().enumerate() {
            for (slot, series) in columns.series().iter().enumerate() {
                if let Some(bit) = items.bit(series).filter(|&bit| mask.has(bit as usize)) {
                    wanted.push((bit, part as u16, slot as u32));
                }
            }
        }
        // If several parts have the same series, the first part counts.
        wanted.sort_unstable();
        wanted.dedup_by_key(|&mut (bit, ..)| bit);
        let mut layout = Layout::default();
        for (bit, part, slot) in wanted {
            let Some(item) = items.list().get(bit as usize) else { continue };
            let (name_at, name_length) = (layout.names.len() as u32, item.name.len() as u16 + 1);
            layout.names.extend_from_slice(item.name.as_bytes());
            layout.names.push(b' ');
            layout.cells.push(Cell {
                part,
                slot,
                bit,
                name_at,
                name_length,
                format: item.series.metric.format(),
            });
        }
        layout.name_bytes = layout.names.len();
        layout.names.resize(layout.name_bytes + 2 * STEP, 0);
        layout
    }

    /// The name of a cell, with the blank and at least [`STEP`] further bytes after it.
    #[inline]
    pub fn name(&self, cell: &Cell) -> &[u8] {
        &self.names[cell.name_at as usize..]
    }
}

/// The layouts that a connection used most recently.
#[derive(Default)]
pub(crate) struct Layouts {
    /// The most recent first.
    known: Vec<Known>,
}

struct Known {
    columns: Vec<Arc<dyn Columns>>,
    layout: Arc<Layout>,
}

impl Known {
    fn is_for(&self, parts: &[Part<'_>]) -> bool {
        let mut pairs = self.columns.iter().zip(parts);
        self.columns.len() == parts.len() && pairs.all(|(one, part)| Arc::ptr_eq(one, &part.columns))
    }
}

impl Layouts {
    /// The layout for a node with these parts.
    pub fn of(&mut self, parts: &[Part<'_>], mask: &Mask, items: &SharedItems) -> Arc<Layout> {
        if let Some(at) = self.known.iter().position(|known| known.is_for(parts)) {
            if at > 0 {
                self.known[..=at].rotate_right(1);
            }
            return self.known[0].layout.clone();
        }
        let columns: Vec<Arc<dyn Columns>> = parts.iter().map(|part| part.columns.clone()).collect();
        let layout = Arc::new(Layout::new(&columns, mask, &mut items.lock()));
        self.known.truncate(LAYOUTS_MAX - 1);
        self.known.insert(0, Known { columns, layout: layout.clone() });
        layout
    }

    /// Bytes that the layouts take.
    pub fn held(&self) -> usize {
        let one =
            |known: &Known| known.layout.cells.capacity() * size_of::<Cell>() + known.layout.names.capacity();
        self.known.iter().map(one).sum()
    }

    /// Drops all layouts, since the mask has changed.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::tests::series;
    use khz_model::{Series, Stamp};

    fn names(layout: &Layout) -> Vec<String> {
        let name = |cell: &Cell| layout.name(cell)[..cell.name_length.into()].to_vec();
        layout.cells.iter().map(|cell| String::from_utf8(name(cell)).unwrap().trim_end().to_owned()).collect()
    }

    fn columns(names: &[&'static str]) -> Arc<dyn Columns> {
        Arc::new(names.iter().map(|name| series(name, None, 0)).collect::<Vec<Series>>())
    }

    fn part(columns: &Arc<dyn Columns>) -> Part<'static> {
        Part { columns: columns.clone(), stamp: Stamp::default(), values: &[], states: &[] }
    }

    #[test]
    fn the_first_part_counts_where_two_have_the_same_series() {
        let (items, mask) = (SharedItems::default(), Mask::everything());
        let (base, newer) = (columns(&["a", "b", "c"]), columns(&["c", "b"]));
        let mut layouts = Layouts::default();
        let alone = layouts.of(&[part(&base)], &mask, &items);
        assert_eq!(names(&alone), ["a", "b", "c"]);
        let both = layouts.of(&[part(&newer), part(&base)], &mask, &items);
        assert_eq!(
            both.cells.iter().map(|cell| (cell.part, cell.slot)).collect::<Vec<_>>(),
            [(1, 0), (0, 1), (0, 0)]
        );
        assert!(Arc::ptr_eq(&alone, &layouts.of(&[part(&base)], &mask, &items)));
    }

    #[test]
    fn a_mask_chooses_and_kinds_of_nodes_beyond_the_limit_are_worked_out_again() {
        let (items, mask) = (SharedItems::default(), Mask::of_digits(b"5"));
        let kinds: Vec<_> = (0..=LAYOUTS_MAX).map(|_| columns(&["a", "b", "c", "d"])).collect();
        let mut layouts = Layouts::default();
        for kind in &kinds {
            assert_eq!(names(&layouts.of(&[part(kind)], &mask, &items)), ["a", "c"]);
        }
        assert_eq!(layouts.known.len(), LAYOUTS_MAX);
    }
}
