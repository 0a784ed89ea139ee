//! Which series of a list a question selects. Most nodes share few lists, so each is looked through once.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Columns, NodeName, Pattern, Series};

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
    fn series(&self) -> &[Series] {
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

/// Patterns that mean a node, each as its number, and where a list is.
type Place = (Arc<[usize]>, usize);

/// The lists that were looked through.
#[derive(Default)]
pub(crate) struct Chosen {
    lists: HashMap<Place, (List, Arc<[Key]>)>,
    /// The patterns of the last node.
    last: Option<Arc<[usize]>>,
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
    pub fn of(&mut self, patterns: &[Pattern], chosen: &Arc<[usize]>, list: &List) -> Arc<[Key]> {
        let place = (chosen.clone(), list.address());
        if let Some((_, keys)) = self.lists.get(&place) {
            return keys.clone();
        }
        if self.lists.len() == LISTS_MAX {
            self.lists.clear();
        }
        let patterns: Vec<Pattern> = chosen.iter().map(|number| patterns[*number].clone()).collect();
        let selected = list.series().iter().filter(|series| series.is_selected(&patterns));
        let keys: Arc<[Key]> = selected.map(Key::of).collect();
        self.lists.insert(place, (list.clone(), keys.clone()));
        keys
    }
}
