//! Which series of a list a question selects. Most nodes share few lists, so each is looked through once.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Columns, NodeName, Pattern, Schema, Series};

use crate::layout::{Key, Layout};

/// Lists that are remembered. If there are more, all are forgotten, and those that come again are looked through again.
const LISTS_MAX: usize = 1_024;

/// The series of a block, or of a section of a file.
#[derive(Clone)]
pub(crate) enum List {
    Slots(Arc<dyn Columns>),
    Columns(Arc<Layout>),
}

impl List {
    /// The series, in order.
    pub fn series(&self) -> &[Series] {
        match self {
            List::Slots(columns) => columns.series(),
            List::Columns(layout) => layout.series(),
        }
    }

    /// Where the list is in memory. Nothing else is there while somebody holds it.
    pub fn address(&self) -> usize {
        match self {
            List::Slots(columns) => Arc::as_ptr(columns).cast::<()>().addr(),
            List::Columns(layout) => Arc::as_ptr(layout).addr(),
        }
    }
}

/// The selected series of a list.
#[derive(Debug)]
pub(crate) struct Selected {
    /// Where each is in the list, in order.
    slots: Arc<[u32]>,
    /// The series in the same order.
    layout: Layout,
    keys: Vec<Key>,
    /// The same in the order of their names. Lists that have the same series share it.
    sorted: Arc<[(Key, Series)]>,
}

/// Puts series into the order of their names, those of one name into the order of their formats.
pub(crate) fn sort(all: &mut [(Key, Series)]) {
    let order = |(key, _): &(Key, Series)| (key.format.value_type as u8, key.format.places);
    all.sort_by(|one, two| {
        (&one.0.metric, &one.0.instance)
            .cmp(&(&two.0.metric, &two.0.instance))
            .then(order(one).cmp(&order(two)))
    });
}

impl Selected {
    fn of(list: &List, patterns: &[Pattern]) -> Self {
        let (mut slots, mut schema, mut keys) = (Vec::new(), Schema::new(), Vec::new());
        for (slot, series) in list.series().iter().enumerate() {
            // A list has each series once.
            if series.is_selected(patterns) && schema.append(series.clone()) == Some(slots.len() as u32) {
                slots.push(slot as u32);
                keys.push(Key::of(series));
            }
        }
        let layout = Layout::of(schema);
        let mut sorted: Vec<(Key, Series)> =
            keys.iter().cloned().zip(layout.series().iter().cloned()).collect();
        sort(&mut sorted);
        Selected { slots: slots.into(), layout, keys, sorted: sorted.into() }
    }

    /// Where the series are in the list, in order.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// The same, to keep.
    pub fn slots_shared(&self) -> Arc<[u32]> {
        self.slots.clone()
    }

    /// The series, in that order.
    pub fn series(&self) -> &[Series] {
        self.layout.series()
    }

    /// Their keys.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Each with its key, in the order of their names.
    pub fn sorted(&self) -> &Arc<[(Key, Series)]> {
        &self.sorted
    }

    /// The place of a series among them.
    pub fn place(&self, key: &Key) -> Option<usize> {
        self.layout.place(key)
    }
}

/// Patterns that mean a node, each as its number, and where a list is.
type Place = (Arc<[usize]>, usize);

/// The lists that were looked through.
#[derive(Default)]
pub(crate) struct Chosen {
    lists: HashMap<Place, (List, Arc<Selected>)>,
    /// The patterns of the last node.
    last: Option<Arc<[usize]>>,
    /// What the last list that was looked through has.
    sorted: Option<Arc<[(Key, Series)]>>,
}

/// True if two lists have the same series, down to the last detail of their metrics.
fn are_same(one: &[(Key, Series)], two: &[(Key, Series)]) -> bool {
    let is_same = |((one, of_one), (two, of_two)): (&(Key, Series), &(Key, Series))| {
        one == two && of_one.metric == of_two.metric
    };
    one.len() == two.len() && one.iter().zip(two).all(is_same)
}

impl Chosen {
    /// Which of these patterns mean a node.
    pub fn patterns_of(&mut self, patterns: &[Pattern], node: &NodeName) -> Arc<[usize]> {
        let means = |number: &usize| patterns[*number].matches_node(node.as_str());
        let of_node: Vec<usize> = (0..patterns.len()).filter(means).collect();
        if let Some(last) = self.last.as_ref().filter(|last| last[..] == of_node[..]) {
            return last.clone();
        }
        self.last.insert(of_node.into()).clone()
    }

    /// The selected series of a list; `chosen` are the numbers of the patterns that count.
    pub fn of(&mut self, patterns: &[Pattern], chosen: &Arc<[usize]>, list: &List) -> Arc<Selected> {
        let place = (chosen.clone(), list.address());
        if let Some((_, selected)) = self.lists.get(&place) {
            return selected.clone();
        }
        if self.lists.len() == LISTS_MAX {
            self.lists.clear();
        }
        let patterns: Vec<Pattern> = chosen.iter().map(|number| patterns[*number].clone()).collect();
        let mut selected = Selected::of(list, &patterns);
        match &self.sorted {
            Some(last) if are_same(last, &selected.sorted) => selected.sorted = last.clone(),
            _ => self.sorted = Some(selected.sorted.clone()),
        }
        let selected = Arc::new(selected);
        self.lists.insert(place, (list.clone(), selected.clone()));
        selected
    }
}
