//! The lanes that a follower has on the present connection, each with its schema and what its reader keeps of it.

use std::collections::HashMap;

use khz_block::{BlockError, MetricPool, SchemaDecoder};
use khz_link::{LaneKey, LaneOffer};
use khz_model::{Nanos, NodeName, Series};

use crate::reader::Reader;

/// A lane, with what its reader keeps of it.
pub struct Lane<R: Reader> {
    /// The reader's own data.
    pub data: R::Lane,
    number: u64,
    subscription: R::Subscription,
    node: NodeName,
    name: Box<str>,
    epoch: u64,
    period: Nanos,
    schema: SchemaDecoder,
    /// How many of the series the reader knows.
    known: usize,
    is_damaged: bool,
}

impl<R: Reader> Lane<R> {
    pub(crate) fn new(
        number: u64,
        node: NodeName,
        offer: &LaneOffer<'_>,
        subscription: R::Subscription,
        data: R::Lane,
    ) -> Self {
        Lane {
            data,
            number,
            subscription,
            node,
            name: offer.name.into(),
            epoch: offer.epoch,
            period: offer.period,
            schema: SchemaDecoder::new(),
            known: 0,
            is_damaged: false,
        }
    }

    /// Its number, from 1. No two lanes of a follower have the same number, whatever the connection.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The subscription that it serves.
    pub fn subscription(&self) -> &R::Subscription {
        &self.subscription
    }

    /// The node whose lane it is.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Its name at the hub. A lane that follows another one on a later connection has the same name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its epoch, within which row numbers count.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The time between two rows.
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// The series of its slots, in the order of the slots, as far as they have arrived.
    pub fn series(&self) -> &[Series] {
        self.schema.series()
    }

    /// The series, and the reader's own data to change along with them.
    pub fn parts(&mut self) -> (&[Series], &mut R::Lane) {
        (self.schema.series(), &mut self.data)
    }

    pub(crate) fn offered_again(&mut self, offer: &LaneOffer<'_>) {
        self.period = offer.period;
    }

    /// Another generation's schema begins.
    pub(crate) fn begin_schema(&mut self) {
        (self.schema, self.known, self.is_damaged) = (SchemaDecoder::new(), 0, false);
    }

    /// Takes the next bytes of the schema. Returns the first error of a generation, and none after it.
    pub(crate) fn feed(&mut self, bytes: &[u8], pool: &mut MetricPool) -> Option<BlockError> {
        let error = self.schema.feed_sharing(bytes, pool).err()?;
        (!std::mem::replace(&mut self.is_damaged, true)).then_some(error)
    }

    /// If the reader does not know all series: how many it knows. After this call it knows all.
    pub(crate) fn take_news(&mut self) -> Option<usize> {
        let series = self.schema.series().len();
        let known = std::mem::replace(&mut self.known, series);
        (known != series).then_some(known)
    }
}

/// All lanes of the present connection.
pub struct Lanes<R: Reader>(HashMap<LaneKey, Lane<R>>);

impl<R: Reader> Default for Lanes<R> {
    fn default() -> Self {
        Lanes(HashMap::new())
    }
}

impl<R: Reader> Lanes<R> {
    /// Each lane, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Lane<R>> {
        self.0.values()
    }

    /// Each lane, in no order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane<R>> {
        self.0.values_mut()
    }

    pub(crate) fn get_mut(&mut self, key: &LaneKey) -> Option<&mut Lane<R>> {
        self.0.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: LaneKey, lane: Lane<R>) -> Option<Lane<R>> {
        self.0.insert(key, lane)
    }

    pub(crate) fn remove(&mut self, key: &LaneKey) -> Option<Lane<R>> {
        self.0.remove(key)
    }

    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Lane<R>> {
        std::mem::take(&mut self.0).into_values()
    }
}
