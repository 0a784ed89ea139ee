//! A lane here whose rows come from a hub below. Rows keep the numbers that they have at the node, so that a row that is missing
//! is missed here too. It decides nothing about the node.

use std::sync::Arc;

use khz_block::{Decoder, Encoder};
use khz_link::LaneOffer;
use khz_link::epoch::through;
use khz_model::Nanos;

use crate::counts::Counts;
use crate::lane::Lane;
use crate::node::Node;
use crate::schemas::Schema;

/// A row below: the lane there, the generation of its slots, and what they mean.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub lane: u64,
    pub generation: u32,
    pub schema: Option<&'a Arc<Schema>>,
}

/// A lane of a node that comes through a hub below.
pub(super) struct FedLane {
    /// Its number on the connection that speaks for the node here.
    number: u32,
    name: String,
    epoch: u64,
    period: Nanos,
    /// The row that was said to come next when the lane was offered, and the first that comes.
    offered: u64,
    first: u64,
    /// Rows before this one were asked for in case that somebody lacks them.
    spare_until: u64,
    encoder: Encoder,
    /// The lane below and its generation of which the last row was.
    from: Option<(u64, u32)>,
    /// The generation here.
    generation: u32,
    /// Slots of the open block; 0: the next row begins another.
    slots: usize,
}

impl FedLane {
    /// A base lane: the hub below begins with the row before the next one.
    pub fn base(number: u32, name: &str, epoch: u64, period: Nanos, next_row: u64) -> Self {
        FedLane::new(number, name, epoch, period, (next_row, next_row.saturating_sub(1)))
    }

    /// A lane of a channel: the offer's next row is one more than the first row that is for new readers here. `from`: the first that
    /// comes, if that is another one; `is_spare`: perhaps nobody lacks those before the offer.
    pub fn of_channel(
        number: u32,
        name: &str,
        offer: &LaneOffer<'_>,
        from: Option<u64>,
        is_spare: bool,
    ) -> Self {
        let offered = offer.next_row.saturating_sub(1);
        let rows = (offered, from.unwrap_or(offered));
        let lane = FedLane::new(number, name, through(offer.epoch), offer.period, rows);
        FedLane { spare_until: if is_spare { offered } else { 0 }, ..lane }
    }

    fn new(number: u32, name: &str, epoch: u64, period: Nanos, (offered, first): (u64, u64)) -> Self {
        FedLane {
            number,
            name: name.to_owned(),
            epoch,
            period,
            offered,
            first,
            spare_until: 0,
            encoder: Encoder::new(0, 0, period),
            from: None,
            generation: 0,
            slots: 0,
        }
    }

    /// Its name here.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number on the connection that speaks for the node.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// True if it has the rows of a channel's lane with this epoch.
    pub fn continues(&self, epoch: u64) -> bool {
        self.epoch == through(epoch)
    }

    /// The first row that has not come.
    pub fn next(&self) -> u64 {
        self.encoder.rows().max(self.first)
    }

    /// Rows before this one are not lost if they do not come.
    pub fn spare_until(&self) -> u64 {
        self.spare_until
    }

    /// Time between two rows, as the hub below said last.
    pub fn set_period(&mut self, period: Nanos) {
        self.period = period;
        self.encoder.set_period(period);
    }

    /// Offers the lane at the node, which a connection of ours speaks for. Returns its id; `None`: the node has too many lanes.
    pub fn open(&mut self, node: &mut Node) -> Option<u64> {
        if let Some(id) = node.lanes().id_of(self.number) {
            return Some(id);
        }
        let id = node.lanes_mut().offered(self.number, &self.name, self.epoch, self.period)?;
        let next = self.next();
        let lane = node.lanes_mut().get_mut(id)?;
        lane.alive = true;
        lane.next_offered = self.offered.max(self.encoder.rows());
        lane.late.want(Some(next));
        if self.from.is_none() {
            // Another one wrote into this lane before, and what the slots of those blocks mean stays.
            self.generation = lane.newest_generation().map_or(1, |generation| generation.saturating_add(1));
        }
        self.close();
        Some(id)
    }

    /// The next row begins a block.
    pub fn close(&mut self) {
        self.encoder.close();
        self.slots = 0;
    }

    /// Writes one row, and returns how many are to be counted. After an error the next row begins a block.
    pub fn row(
        &mut self,
        lane: &mut Lane,
        origin: Origin<'_>,
        number: u64,
        row: &Decoder,
        (counts, keep): (&Counts, bool),
    ) -> Result<u64, &'static str> {
        let written = self.write(lane, origin, number, row, (counts, keep));
        if written.is_err() {
            self.close();
        }
        written
    }

    fn write(
        &mut self,
        lane: &mut Lane,
        origin: Origin<'_>,
        number: u64,
        row: &Decoder,
        (counts, keep): (&Counts, bool),
    ) -> Result<u64, &'static str> {
        let slots = row.slots();
        let from = (origin.lane, origin.generation);
        let is_elsewhere = self.encoder.rows() != number || slots != self.slots || self.from != Some(from);
        let begins = is_elsewhere || self.encoder.wants_new_block_of_copies(row.stamp());
        if begins && let Some((rows, bytes, crc)) = self.encoder.close().and_then(|header| header.closed) {
            lane.end(rows, bytes, crc)?;
        }
        let reading = |slot: usize| (row.states()[slot], row.values()[slot]);
        let mut bytes = Vec::new();
        if !begins {
            let changed = row.changed().iter().map(|&slot| slot as usize);
            self.encoder.delta_row(row.stamp(), changed, reading, &mut bytes);
            return lane.append(&bytes);
        }
        let means = |schema: &Arc<Schema>| {
            lane.schema(self.generation).is_none_or(|known| Arc::ptr_eq(known, schema))
        };
        let is_other = self.from.replace(from).is_some_and(|before| before != from);
        if is_other && !origin.schema.is_some_and(means) {
            self.generation = self.generation.saturating_add(1);
        }
        if let Some(schema) = origin.schema {
            lane.set_schema(self.generation, schema.clone());
        }
        self.encoder.resume(number, self.generation);
        self.slots = slots;
        self.encoder.key_row(row.stamp(), slots, reading, &mut bytes);
        Counts::add(&counts.blocks, 1);
        lane.begin(&bytes, keep)
    }
}
