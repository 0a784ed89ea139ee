//! The columns of a node that a reader's patterns select, and their readings in a row. The cursors of one subscription
//! share the columns of nodes that have the same schema.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use khz_block::Decoder;
use khz_link::limits::VERSION;
use khz_model::{Absence, Pattern, Reading, Row, Series};
use khz_plan::Handler;

use crate::node::Terms;
use crate::schemas::Schema;

/// Schemas whose columns one selection remembers.
const KINDS_MAX: usize = 8;

/// The patterns of a subscription that select a node by its name. Nodes that the same patterns select share one
/// selection.
#[derive(Debug)]
pub(crate) struct Selection {
    patterns: Arc<[Pattern]>,
    /// Numbers of these patterns.
    speaking: Vec<u32>,
    /// The terms of a subscription at such a node, beyond the base lane.
    pub terms: Option<Arc<Terms>>,
    /// Select every series of a lane: in a channel the node sends only series for the reader, under names that no pattern
    /// matches.
    is_all: bool,
    /// A new reader also wants the row that was sent last.
    gives_states: bool,
    /// The rows are only for the store: no reader reads them here.
    pub is_kept: bool,
    /// The version of the link that the reader speaks; it decides which values the reader knows.
    version: u8,
    /// Columns that some cursor has, newest choice first.
    known: Mutex<Vec<Weak<Chosen>>>,
}

impl Selection {
    pub fn new(patterns: Arc<[Pattern]>, speaking: Vec<u32>, terms: Option<Terms>) -> Self {
        let terms = terms.map(Arc::new);
        let is_all = terms.as_ref().is_some_and(|terms| terms.channel.is_some());
        let channel = terms.as_ref().and_then(|terms| terms.channel.as_ref());
        let handler = channel.and_then(|channel| Handler::take(&channel.handler).ok());
        let gives_states = handler.is_some_and(|handler| handler.gives_states());
        let (is_kept, known) = Default::default();
        Selection { patterns, speaking, terms, is_all, gives_states, is_kept, version: VERSION, known }
    }

    /// The same for the store, which keeps the rows.
    pub fn kept(mut self, is_kept: bool) -> Self {
        self.is_kept = is_kept;
        self
    }

    /// The same for a reader that speaks this version of the link.
    pub fn spoken(mut self, version: u8) -> Self {
        self.version = version;
        self
    }

    /// All of these patterns, whatever nodes they name.
    pub fn all(patterns: &[Pattern]) -> Self {
        Selection::new(patterns.into(), (0..patterns.len() as u32).collect(), None)
    }

    /// True for a channel whose newest row a new reader wants, however old it is.
    pub fn gives_states(&self) -> bool {
        self.gives_states
    }

    /// True if it selects rows of a channel.
    pub fn is_of_channel(&self) -> bool {
        self.is_all
    }

    fn selects(&self, series: &Series) -> bool {
        let mut speaking = self.speaking.iter().map(|&number| &self.patterns[number as usize]);
        self.is_all || speaking.any(|pattern| series.is_selected(std::slice::from_ref(pattern)))
    }

    /// The columns that it selects in a schema, and the operations that selecting them took.
    fn choose(&self, schema: &Arc<Schema>) -> (Arc<Chosen>, usize) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let of_schema = |chosen: &Arc<Chosen>| Arc::ptr_eq(&chosen.schema, schema);
        if let Some(chosen) = known.iter().filter_map(Weak::upgrade).find(of_schema) {
            return (chosen, 1);
        }
        let chosen = Arc::new(Chosen::new(
            schema,
            |series| self.selects(series),
            |series| khz_link::knows(self.version, series),
        ));
        known.retain(|chosen| chosen.strong_count() > 0);
        known.truncate(KINDS_MAX - 1);
        known.insert(0, Arc::downgrade(&chosen));
        (chosen, 1 + schema.series().len() * self.speaking.len())
    }
}

/// Columns of a schema.
#[derive(Debug)]
struct Chosen {
    slots: Vec<u32>,
    /// The column of each slot.
    columns: Vec<Option<u32>>,
    series: Arc<Vec<Series>>,
    /// Slots that are selected, and whose values the reader does not know.
    left_out: usize,
    schema: Arc<Schema>,
}

impl Chosen {
    fn new(
        schema: &Arc<Schema>,
        is_selected: impl Fn(&Series) -> bool,
        is_known: impl Fn(&Series) -> bool,
    ) -> Self {
        let mut left_out = 0;
        let chosen = schema.series().iter().enumerate().filter(|(_, series)| {
            let (selected, known) = (is_selected(series), is_known(series));
            left_out += usize::from(selected && !known);
            selected && known
        });
        let (slots, series): (Vec<u32>, Vec<Series>) =
            chosen.map(|(slot, series)| (slot as u32, series.clone())).unzip();
        let mut columns = vec![None; schema.series().len()];
        for (&slot, column) in slots.iter().zip(0..) {
            columns[slot as usize] = Some(column);
        }
        Chosen { slots, columns, series: Arc::new(series), left_out, schema: schema.clone() }
    }

    fn held(&self) -> usize {
        size_of::<Chosen>()
            + self.columns.len() * size_of::<Option<u32>>()
            + self.slots.len() * (size_of::<u32>() + size_of::<Series>())
    }
}

/// The slots that a reader wants, and what they mean.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    chosen: Option<Arc<Chosen>>,
    /// What each column is.
    pub series: Arc<Vec<Series>>,
    /// Operations that choosing took since the last [`Columns::take_cost`].
    cost: usize,
}

impl Columns {
    /// Takes the columns out of a schema; `true` if they may have changed.
    pub fn choose(&mut self, schema: &Arc<Schema>, selection: &Selection) -> bool {
        if self.chosen.as_ref().is_some_and(|known| Arc::ptr_eq(&known.schema, schema)) {
            return false;
        }
        let (chosen, cost) = selection.choose(schema);
        self.series = chosen.series.clone();
        self.chosen = Some(chosen);
        self.cost = self.cost.saturating_add(cost);
        true
    }

    /// True once they were chosen.
    pub fn are_chosen(&self) -> bool {
        self.chosen.is_some()
    }

    /// Operations that choosing took since the last call.
    pub fn take_cost(&mut self) -> usize {
        std::mem::take(&mut self.cost)
    }

    /// The bytes that it holds, about: its part of what cursors share.
    pub fn held(&self) -> usize {
        self.chosen.as_ref().map_or(0, |chosen| chosen.held().div_ceil(Arc::strong_count(chosen)))
    }

    /// True if the patterns select nothing but series whose values the reader does not know.
    pub fn are_all_left_out(&self) -> bool {
        self.is_empty() && self.chosen.as_ref().is_some_and(|chosen| chosen.left_out > 0)
    }

    /// True if the schema has nothing that is selected.
    pub fn are_bare(&self) -> bool {
        self.are_chosen() && self.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }

    fn slots(&self) -> &[u32] {
        self.chosen.as_ref().map_or(&[], |chosen| &chosen.slots)
    }

    /// The reading of one column in the decoder's row.
    pub fn reading(&self, decoder: &Decoder, column: usize) -> Reading {
        let reading = self.slots().get(column).and_then(|&slot| decoder.reading(slot as usize));
        reading.unwrap_or(Reading::Absent(Absence::NotYet))
    }

    /// The columns that the decoder's row changed, in order.
    pub fn changed<'a>(&'a self, decoder: &'a Decoder) -> impl Iterator<Item = usize> + 'a {
        let columns = self.chosen.as_ref().map_or(&[][..], |chosen| &chosen.columns);
        let column = |&slot: &u32| columns.get(slot as usize).copied().flatten();
        decoder.changed().iter().filter_map(column).map(|column| column as usize)
    }

    /// One row.
    pub fn row(&self, decoder: &Decoder) -> Row {
        let readings = (0..self.slots().len()).map(|column| self.reading(decoder, column)).collect();
        Row { stamp: decoder.stamp(), readings }
    }
}
