//! A channel's handler outside an agent, over given series: it takes rows of readings, and returns rows of the channel. With
//! it, simulated nodes execute channels as agents do. It gathers nothing, and knows neither lanes nor rings.

use std::sync::Arc;

use khz_model::{Budget, ChannelTerms, Nanos, NodeName, Pattern, QueryError, Series, Stamp};

use crate::handled::{Channel, Handled, WantedBy};
use crate::readings::Cell;

/// A handler, bound to the series that it needs.
#[derive(Debug)]
pub struct ChannelRows {
    handled: Handled,
    /// Which of the given series each of its readings is.
    places: Vec<usize>,
}

impl ChannelRows {
    /// Binds a channel to the series that it needs, with one row per period. Its windows count for the budget.
    ///
    /// # Errors
    /// Returns why a node cannot execute it.
    pub fn new(
        terms: Arc<ChannelTerms>,
        patterns: &[Pattern],
        node: &NodeName,
        series: &[Series],
        period: Nanos,
        budget: &Budget,
    ) -> Result<Self, QueryError> {
        let mut handled =
            Handled::new(Arc::new(Channel::new(terms, WantedBy::Readers)?), patterns, node, period, budget)?;
        let places: Vec<usize> = (0..series.len()).filter(|&place| handled.wants(&series[place])).collect();
        handled.bind(places.iter().map(|&place| series[place].clone()).collect(), period)?;
        Ok(ChannelRows { handled, places })
    }

    /// How many slots its rows have; with histograms they may become more.
    pub fn slots(&self) -> usize {
        self.handled.slots()
    }

    /// The meaning of a slot.
    pub fn series(&self, slot: usize) -> Option<&Series> {
        self.handled.series(slot)
    }

    /// How many times more slowly than asked rows should come now.
    pub fn slower(&self) -> u32 {
        self.handled.slower()
    }

    /// A reader begins that may not know the earlier rows.
    pub fn read_again(&mut self) {
        self.handled.read_again();
    }

    /// Takes the next row: state and bits of each of the given series. Returns the rows that are to be sent because of it, often
    /// none: state and bits of each slot.
    pub fn row(&mut self, stamp: Stamp, reading: impl Fn(usize) -> Cell) -> Vec<(Stamp, Vec<Cell>)> {
        let ChannelRows { handled, places } = self;
        let at = |number: usize| reading(places[number]);
        let is_sent = handled.row(stamp, |number| at(number as usize));
        if let Some(mut past) = handled.take_past() {
            let mut rows = Vec::new();
            past.send(|stamp, cells| rows.push((stamp, cells.to_vec())));
            handled.put_past(past);
            return rows;
        }
        if !is_sent {
            return Vec::new();
        }
        let cell = |slot: usize| match handled.reading_of(slot) {
            Some(number) => handled.kept(number).unwrap_or_else(|| at(number)),
            None => handled.computed(slot),
        };
        vec![(stamp, (0..handled.slots()).map(cell).collect())]
    }
}
