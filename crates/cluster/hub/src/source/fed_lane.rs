//! A lane here whose rows come from a hub below. Rows keep the numbers that they have at the node, so that missing rows are
//! noticed here too. It decides nothing about the node.

use std::sync::Arc;

use khz_block::{Decoder, Encoder};
use khz_link::epoch::through;
use khz_link::{LaneOffer, Ranges};
use khz_model::Nanos;

use super::held_rows::HeldRows;
use crate::counts::Counts;
use crate::lane::Lane;
use crate::node::Node;
use crate::schemas::Schema;

/// Where a row below comes from: its lane, the generation of its slots, and their meaning.
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
    /// For a base lane: each row from here on comes, or is reported lost.
    certain: Option<u64>,
    /// No row from here on has come. The next field: rows before it are not wanted, because this hub has forgotten the node
    /// together with them.
    seen: u64,
    floor: u64,
    /// Rows that are lost if the hub below alone has the node.
    lost: Ranges,
    /// The first row of the open block.
    began: u64,
    encoder: Encoder,
    /// The lane below and its generation of which the last row was.
    from: Option<(u64, u32)>,
    /// Slots of the open block; 0: the next row begins another.
    slots: usize,
}

impl FedLane {
    /// A base lane: the hub below sends the rows that are not here. It has the node's own epoch, so that its rows are the same on every
    /// way.
    pub fn base(number: u32, name: &str, offer: &LaneOffer<'_>, rows: &HeldRows) -> Self {
        let HeldRows { certain, end, .. } = *rows;
        let lane = FedLane::new(number, name, offer.epoch, offer.period, (offer.next_row, certain));
        FedLane { certain: Some(certain), seen: end, ..lane }
    }

    /// A lane of a channel: new readers here begin one row before the offer's next row. `from`: the first row that comes, if it is
    /// another one; `is_spare`: rows before the offer may be lacked by nobody.
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
            certain: None,
            seen: 0,
            floor: 0,
            lost: Ranges::default(),
            began: 0,
            encoder: Encoder::new(0, 0, period),
            from: None,
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

    /// Its epoch here.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Time between two rows, as the hub below said last.
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// The node was forgotten here, and comes back: only rows are wanted that have not come yet.
    pub fn forget(&mut self) {
        self.floor = self.seen;
        self.certain = self.certain.map(|certain| certain.max(self.floor));
    }

    /// Rows before this one come now. `false`: nobody wants them.
    pub fn takes(&mut self, end: u64) -> bool {
        self.seen = self.seen.max(end);
        end > self.floor
    }

    /// The hub below has lost these rows; another one, which speaks for the node, may have them.
    pub fn lacks(&mut self, from: u64, to: u64) {
        self.lost.add(from, to);
    }

    /// The same, once, now that no other hub speaks for the node.
    pub fn take_lost(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.lost).as_slice().to_vec()
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
        let certain = self.certain.unwrap_or(self.next());
        let lane = node.lanes_mut().get_mut(id)?;
        lane.alive = true;
        lane.becomes_fed();
        lane.next_offered = self.offered.max(self.encoder.rows());
        lane.late.want(Some(certain));
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
        // Another hub below may have written into the lane meanwhile.
        let is_ours = lane.is_open_at(self.began, self.encoder.rows());
        let is_elsewhere = self.encoder.rows() != number || slots != self.slots || self.from != Some(from);
        let begins = !is_ours || is_elsewhere || self.encoder.wants_new_block_of_copies(row.stamp());
        if begins
            && let Some((rows, bytes, crc)) = self.encoder.close().and_then(|header| header.closed)
            && is_ours
        {
            lane.end(rows, bytes, crc)?;
        }
        let reading = |slot: usize| (row.states()[slot], row.values()[slot]);
        let mut bytes = Vec::new();
        if !begins {
            let changed = row.changed().iter().map(|&slot| slot as usize);
            self.encoder.delta_row(row.stamp(), changed, reading, &mut bytes);
            return lane.append(&bytes);
        }
        let generation = match origin.schema {
            Some(schema) => lane.generation_for(schema),
            None if slots > 0 => return Err("rows before their schema"),
            None => lane.newest_generation().unwrap_or(1),
        };
        self.encoder.resume(number, generation);
        (self.from, self.slots, self.began) = (Some(from), slots, number);
        self.encoder.key_row(row.stamp(), slots, reading, &mut bytes);
        Counts::add(&counts.blocks, 1);
        lane.begin(&bytes, keep)
    }
}
