//! A reader that wants every row, as a recorder does: it remembers its rows across connections and hubs. No row may come twice,
//! or be missing in the end.

use std::collections::BTreeMap;

use khz_block::{Decoder, Step};
use khz_follow::{Follower, Lane, Reader, Row, Subscriptions};
use khz_link::{Held, LaneOffer, Ranges};
use khz_model::{Nanos, NodeName};

use super::reader::Interest;

/// The rows of one lane.
#[derive(Default)]
pub struct Kept {
    /// Rows that came or are lost.
    settled: Ranges,
    /// When each row was gathered.
    times: BTreeMap<u64, Nanos>,
    pub lost: u64,
}

impl Kept {
    /// The first row, and the one after the last.
    pub fn span(&self) -> (u64, u64) {
        (self.settled.start().unwrap_or(0), self.settled.end())
    }

    /// Rows between those that neither came nor are lost.
    pub fn missing(&self) -> Vec<(u64, u64)> {
        let (from, to) = self.span();
        self.settled.holes(from, to)
    }

    /// The first row, and when it was gathered, which was not gathered when its number says.
    pub fn elsewhere(&self, gathered: impl Fn(u64) -> Nanos) -> Option<(u64, Nanos)> {
        self.times.iter().map(|(&row, &time)| (row, time)).find(|&(row, time)| time != gathered(row))
    }
}

/// The reader.
#[derive(Default)]
pub struct Keeper {
    /// By node and epoch.
    pub kept: BTreeMap<(NodeName, u64), Kept>,
}

/// A lane that is offered.
pub struct Offered {
    node: NodeName,
    epoch: u64,
    next_row: u64,
}

impl Keeper {
    /// One that has no rows.
    pub fn follower() -> Follower<Keeper> {
        Follower::new(Keeper::default(), Subscriptions::default())
    }

    fn of(&mut self, lane: &Offered) -> &mut Kept {
        self.kept.entry((lane.node.clone(), lane.epoch)).or_default()
    }

    fn came(&mut self, lane: &Offered, row: u64, boot: Nanos) {
        let kept = self.of(lane);
        let new = kept.settled.add(row, row + 1);
        kept.times.insert(row, boot);
        assert_eq!(new, 1, "row {row} of {} in epoch {:x} came twice, or was lost", lane.node, lane.epoch);
    }
}

impl Reader for Keeper {
    type Subscription = Interest;
    type Lane = Offered;

    fn offered(&mut self, node: &NodeName, offer: &LaneOffer<'_>, _: &Interest) -> Option<Offered> {
        Some(Offered { node: node.clone(), epoch: offer.epoch, next_row: offer.next_row })
    }

    fn held(&self, lane: &Offered) -> Option<Held> {
        let kept = self.kept.get(&(lane.node.clone(), lane.epoch));
        let mut settled = kept.map_or_else(Ranges::default, |kept| kept.settled.clone());
        settled.add(0, settled.start().unwrap_or(lane.next_row.saturating_sub(1)));
        Some(Held { from: settled.complete_from_zero(), ranges: settled.above() })
    }

    fn row(&mut self, lane: &mut Lane<Self>, row: &Row<'_>) {
        self.came(&lane.data, row.number(), row.stamp().boot);
    }

    fn past(&mut self, lane: &mut Lane<Self>, block: &[u8]) {
        let (mut decoder, mut rest) = (Decoder::new(), block);
        while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(rest) {
            rest = &rest[length..];
            if let Step::Row(_) = step {
                self.came(&lane.data, decoder.next_row() - 1, decoder.stamp().boot);
            }
        }
    }

    fn lost(&mut self, lane: &mut Lane<Self>, from: u64, to: u64) {
        let kept = self.of(&lane.data);
        // It could not have had rows before its first row.
        let from = from.max(kept.span().0);
        kept.lost += kept.settled.add(from, to);
    }

    fn notice(&mut self, _: &Interest, granted: bool, text: &str) {
        assert!(granted, "{text}");
    }
}
