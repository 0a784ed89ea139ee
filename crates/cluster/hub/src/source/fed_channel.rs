//! A lane for a channel of a node below, and the lanes of the hub below that feed it: one for each subscription there with the same
//! rows. Each row is taken once, in the order of the numbers.

use std::sync::Arc;

use super::early_rows::{EarlyRow, EarlyRows};
use super::fed_lane::FedLane;
use super::node_below::Here;
use crate::cluster::Cluster;
use crate::followed::FollowedChannel;
use crate::node::{Answer, Node, Terms};

/// A lane of a channel.
pub(super) struct FedChannel {
    pub lane: FedLane,
    /// The terms that a reader here must want to get its rows.
    pub terms: Terms,
    /// The channels for which the hub below offered it.
    pub channels: Vec<Arc<FollowedChannel>>,
    /// The lanes below that feed it, and the next row of each: one for each such channel. All have the same rows.
    pub below: Vec<(u64, u64)>,
    /// Channels whose lane below ended with the connection. The next connection offers the lane again, and it continues with the
    /// next row here.
    pub to_return: Vec<Arc<FollowedChannel>>,
    pub early: EarlyRows,
}

impl FedChannel {
    /// Offers the lane at the node, and to the subscriptions there.
    pub fn open(&mut self, node: &mut Node, cluster: &Cluster) -> Option<u64> {
        let id = self.lane.open(node)?;
        for number in node.subscriptions().wanting(&self.terms) {
            self.serve(node, number, id, cluster);
        }
        Some(id)
    }

    /// The oldest row that may still come of a lane below; `None`: no lane is left, and none returns.
    pub fn oldest_to_come(&self) -> Option<u64> {
        let returning = (!self.to_return.is_empty()).then(|| self.lane.next());
        self.below.iter().map(|&(_, next)| next).chain(returning).min()
    }

    /// A lane below has brought or lost all rows before this one.
    pub fn passed(&mut self, below: u64, row: u64) {
        if let Some((_, next)) = self.below.iter_mut().find(|(known, _)| *known == below) {
            *next = row.max(*next);
        }
    }

    /// The next row that waits, if no older one comes any more.
    fn due(&mut self) -> Option<(u64, EarlyRow)> {
        let next = self.lane.next();
        let is_awaited = self.oldest_to_come().is_some_and(|oldest| oldest <= next);
        self.early.take(next, if is_awaited { next } else { u64::MAX })
    }

    /// Writes the rows that have waited for older ones.
    pub fn write_due(&mut self, node: &mut Node, here: &Here) -> Result<u64, &'static str> {
        let (mut added, number) = (0, self.lane.number());
        while !self.early.is_empty()
            && let Some((row, early)) = self.due()
        {
            let place = node.lanes_mut().numbered(number).ok_or("no lane")?;
            added += self.lane.row(place, early.origin(), row, early.row(), here.kept())?;
        }
        Ok(added)
    }

    pub fn serve(&self, node: &mut Node, number: u32, id: u64, cluster: &Cluster) {
        if let Some(lane) = node.lanes_mut().get_mut(id) {
            lane.late.want(Some(self.lane.next()));
        }
        node.answered(number, Answer { granted: true, text: String::new() }, Some(id));
        node.log_lane(id, cluster);
    }
}
