//! Items that are gone: interfaces, disks and jobs that no node has any more. `#` leaves them out after a while. Their
//! bits stay reserved, and `#` lists them again when they come back.

use khz_model::{Absence, Nanos, Part, Stay};

use crate::layout::Layout;

/// A set of items, by their bits.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn has(&self, bit: usize) -> bool {
        self.0.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    fn set(&mut self, bit: usize) {
        if bit / 64 >= self.0.len() {
            self.0.resize(bit / 64 + 1, 0);
        }
        self.0[bit / 64] |= 1 << (bit % 64);
    }
}

/// The items that are gone.
#[derive(Debug, Default)]
pub(crate) struct Gone(Bits);

impl Gone {
    /// True when the item with this bit is gone.
    pub fn has(&self, bit: usize) -> bool {
        self.0.has(bit)
    }

    /// Those that are no longer listed; `stays` has one for each item.
    pub fn for_long(&self, stays: &mut [Stay], now: Nanos) -> Self {
        let mut gone = Bits::default();
        for (bit, stay) in stays.iter_mut().enumerate() {
            if !stay.note(!self.has(bit), now) {
                gone.set(bit);
            }
        }
        Gone(gone)
    }
}

/// Which items the counted nodes have.
#[derive(Debug, Default)]
pub(crate) struct Census {
    nodes: usize,
    /// Some node has the item.
    there: Bits,
    /// Some node reports that the item is gone there.
    gone: Bits,
}

impl Census {
    /// Counts one more node. A number that is absent for another reason than "gone" may come at any moment,
    /// so its item is there.
    pub fn count(&mut self, layout: &Layout, parts: &[Part<'_>]) {
        const GONE: u8 = Absence::InstanceGone as u8;
        self.nodes += 1;
        for cell in &layout.cells {
            let state =
                parts.get(usize::from(cell.part)).and_then(|part| part.states.get(cell.slot as usize));
            match state {
                Some(&GONE) => self.gone.set(cell.bit as usize),
                _ => self.there.set(cell.bit as usize),
            }
        }
    }

    /// Which of these items are gone; `nodes`: how many nodes there are. An item that no counted node
    /// mentions may belong to a node that is down: it counts as gone only when all nodes have been counted.
    pub fn gone(&self, items: usize, nodes: usize) -> Gone {
        let mut gone = Bits::default();
        let is_gone = |bit: &usize| !self.there.has(*bit) && (self.gone.has(*bit) || self.nodes >= nodes);
        (0..items).filter(is_gone).for_each(|bit| gone.set(bit));
        Gone(gone)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use khz_model::{Columns, Reading, Series, Stamp};

    use super::*;
    use crate::items::SharedItems;
    use crate::items::tests::series;
    use crate::layout::Layouts;
    use crate::mask::Mask;

    const GONE: Reading = Reading::Absent(Absence::InstanceGone);
    const NO_FIELD: Reading = Reading::Absent(Absence::NoField);

    fn part(names: &[&'static str]) -> Arc<dyn Columns> {
        Arc::new(names.iter().map(|name| series(name, None, 0)).collect::<Vec<Series>>())
    }

    /// The items that are gone when these nodes report these readings, out of `all` nodes.
    fn gone(items: &SharedItems, nodes: &[(&[&'static str], &[Reading])], all: usize) -> Vec<String> {
        let (mut layouts, mut census) = (Layouts::default(), Census::default());
        for (names, readings) in nodes {
            let states: Vec<u8> = readings.iter().map(|reading| reading.state()).collect();
            let part = Part { columns: part(names), stamp: Stamp::default(), values: &[], states: &states };
            let layout = layouts.of(std::slice::from_ref(&part), &Mask::everything(), items);
            census.count(&layout, &[part]);
        }
        let items = items.lock();
        let gone = census.gone(items.list().len(), all);
        let names = items.list().iter().enumerate().filter(|(bit, _)| gone.has(*bit));
        names.map(|(_, item)| item.name.to_string()).collect()
    }

    #[test]
    fn an_item_that_is_gone_is_left_out_after_a_while_and_one_that_was_never_there_at_once() {
        let mut gone = Bits::default();
        gone.set(1);
        let (gone, nothing) = (Gone(gone), Gone::default());
        let mut stays = vec![Stay::default(); 3];
        let at = Nanos::from_secs;
        let mut left_out = |gone: &Gone, now| -> Vec<usize> {
            let gone = gone.for_long(&mut stays, now);
            (0..3).filter(|&bit| gone.has(bit)).collect()
        };
        assert_eq!(left_out(&gone, at(1)), [1], "nobody saw it here");
        assert!(left_out(&nothing, at(2)).is_empty());
        assert!(left_out(&gone, at(3)).is_empty(), "it may only blink");
        assert!(left_out(&nothing, at(4)).is_empty());
        assert!(left_out(&gone, at(5)).is_empty());
        assert_eq!(left_out(&gone, Nanos(at(5).0 + khz_model::GONE_WHILE.0)), [1]);
    }

    #[test]
    fn an_item_is_gone_when_no_node_has_it_and_comes_back_with_its_bit() {
        let items = SharedItems::default();
        let names: &[&str] = &["a", "b", "c"];
        let there = Reading::Present(1);
        assert!(gone(&items, &[(names, &[there, NO_FIELD, there])], 1).is_empty());
        assert_eq!(gone(&items, &[(names, &[there, NO_FIELD, GONE])], 1), ["c"]);
        assert!(gone(&items, &[(names, &[there, there, GONE]), (&["c"], &[there])], 2).is_empty());
        assert_eq!(gone(&items, &[(names, &[GONE, there, GONE]), (&["c"], &[GONE])], 3), ["a", "c"]);
        // Its agent was restarted and does not know the item; another node may.
        assert_eq!(gone(&items, &[(&["a", "c"], &[there, there])], 1), ["b"]);
        assert!(gone(&items, &[(&["a", "c"], &[there, there])], 2).is_empty());
        assert!(gone(&items, &[(names, &[there, there, there])], 1).is_empty());
        let listed: Vec<String> = items.lock().list().iter().map(|item| item.name.to_string()).collect();
        assert_eq!(listed, ["a", "b", "c"], "no bit changes its meaning");
    }
}
