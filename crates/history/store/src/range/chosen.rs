//! Which series of a list a question selects. Most nodes share few lists, so each is looked through once.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use khz_model::hostlist::{EXPAND_MAX, Hostlist};
use khz_model::pattern::named_nodes;
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
    /// The patterns of each node, if the patterns name all nodes one by one: comparing each name with each costs 90,000 comparisons
    /// if 300 groups have recorded something.
    named: OnceCell<Option<HashMap<String, Vec<usize>>>>,
    /// The sorted content of the last list that was searched.
    sorted: Option<Arc<[(Key, Series)]>>,
}

/// The patterns of each node; `None`: they do not name them one by one, or too many.
fn named(patterns: &[Pattern]) -> Option<HashMap<String, Vec<usize>>> {
    let is_countable = |pattern: &Pattern| pattern.nodes().is_some_and(Hostlist::is_countable);
    if !patterns.iter().all(is_countable) || named_nodes(patterns).len() >= EXPAND_MAX {
        return None;
    }
    let mut named: HashMap<String, Vec<usize>> = HashMap::new();
    for (number, pattern) in patterns.iter().enumerate() {
        for node in named_nodes(std::slice::from_ref(pattern)) {
            let numbers = named.entry(node).or_default();
            if numbers.last() != Some(&number) {
                numbers.push(number);
            }
        }
    }
    Some(named)
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
        let of_node: Vec<usize> = match self.named.get_or_init(|| named(patterns)) {
            Some(named) => named.get(node.as_str()).cloned().unwrap_or_default(),
            None => (0..patterns.len()).filter(means).collect(),
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_of_a_node_are_those_that_fit_it_whether_they_name_it_or_not() {
        for texts in [&["n1,n2:a", "n[2-3]:b", "n1,n1:c"][..], &["n1:a", "n*:b"], &["a", "n2:b"]] {
            let patterns: Vec<Pattern> = texts.iter().map(|text| Pattern::new(text).unwrap()).collect();
            let mut chosen = Chosen::default();
            for node in ["n1", "n2", "n3", "m"] {
                let fits = |number: &usize| patterns[*number].matches_node(node);
                let expected: Vec<usize> = (0..patterns.len()).filter(fits).collect();
                let node = NodeName::stored(node).unwrap();
                assert_eq!(chosen.patterns_of(&patterns, &node)[..], expected[..], "{texts:?} {node}");
            }
        }
    }
}
