//! Which rows of a node's base lane are here, through whichever hubs they came, so that a hub below sends all others. It asks for
//! nothing itself.

use khz_link::{Held, LaneOffer, Ranges};
use khz_model::Nanos;

use crate::clock;
use crate::cluster::Cluster;
use crate::limits::AWAY_MAX;
use crate::node::Node;

/// What is said of a lane that a hub below offers.
pub(super) struct HeldRows {
    pub held: Held,
    /// Each row from here on comes, or is reported lost.
    pub certain: u64,
    /// No row from here on is here.
    pub end: u64,
}

/// The rows of the offered lane that are here or in the store. Of the last minute only those in memory count, since readers above ask
/// for them, and as many rows are wanted from before the first one that is known: the hub may have been away so long. An epoch of which
/// nothing is known may have begun when the node was heard last: then rows since a minute before that are wanted.
pub(super) fn of(cluster: &Cluster, node: &Node, offer: &LaneOffer<'_>) -> HeldRows {
    let rows = |time: Nanos| time.0.checked_div(offer.period.0).unwrap_or(0).saturating_add(1);
    let recent = offer.next_row.saturating_sub(rows(AWAY_MAX));
    let stored = cluster.intake().map_or_else(Vec::new, |intake| intake.stored(&node.name, offer.epoch));
    let received = node.lanes().base_of(offer.epoch).map_or(&[][..], |lane| lane.received());
    let unheard = match stored.is_empty() && received.is_empty() && node.lanes().base().is_some() {
        true => clock::boot().since(node.link().last_heard()),
        false => Nanos(0),
    };
    let first = offer.next_row.saturating_sub(rows(Nanos(AWAY_MAX.0.saturating_add(unheard.0))));
    let mut known = Ranges::default();
    for (from, to) in stored.into_iter().map(|(from, to)| (from, to.min(recent))) {
        known.add(from, to);
    }
    for &(from, to) in received {
        known.add(from, to);
    }
    known.add(0, known.start().map_or(first, |start| start.min(recent)));
    let held = Held { from: known.complete_from_zero(), ranges: known.above() };
    let mut here = Ranges::default();
    for &(from, to) in received {
        here.add(from, to);
    }
    // The store has rows that readers here cannot have: they do not come.
    let only_stored = held.ranges.iter().filter_map(|&(from, to)| Some(here.holes(from, to).last()?.1));
    let certain = only_stored.fold(held.from, u64::max);
    let end = held.ranges.last().map_or(held.from, |&(_, end)| end);
    HeldRows { held, certain, end }
}

#[cfg(test)]
mod tests {
    use khz_model::{ByteSize, Nanos, NodeName, Rate};
    use khz_store::log::Log;

    use super::*;
    use crate::cluster::Settings;
    use crate::lane::tests::{gets_rows, lane};
    use crate::node::BASE;

    #[test]
    fn all_rows_are_wanted_that_are_neither_stored_nor_here_and_those_of_the_last_minute_again() {
        let folder = std::env::temp_dir().join(format!("khz-hub-held-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let name = NodeName::new("n1").expect("a good name");
        let (mut log, intake, _) = Log::open(&folder).expect("a log");
        let mut before = lane();
        before.log_to(&intake, &name);
        gets_rows(&mut before, 100, 900);
        gets_rows(&mut before, 1_200, 100);
        drop(before);
        log.commit().expect("room");
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        let settings = Settings { name: "hub".into(), history: ByteSize(0), rate_max };
        let cluster = Cluster::new(settings, [7; 16]);
        cluster.log_to(intake);
        let shared = cluster.node_or_new(&name, Nanos(0)).expect("room for a node");
        let mut node = shared.lock();
        let rows = |node: &Node, epoch: u64, next_row: u64| {
            let offer = LaneOffer {
                lane: 1,
                node: "n1",
                name: "interest1",
                epoch,
                generation: 1,
                period: Nanos::SECOND,
                interest: 1,
                oldest_row: 0,
                next_row,
                schema_bytes: 0,
                schema_hash: [0; 16],
                stands_in: false,
            };
            let HeldRows { held, certain, .. } = of(&cluster, node, &offer);
            (held.from, held.ranges, certain)
        };
        assert_eq!(rows(&node, 2, 5_000), (4_939, vec![], 4_939), "nothing is known of it");
        assert_eq!(rows(&node, 1, 5_000), (1_000, vec![(1_200, 1_300)], 1_300));
        assert_eq!(rows(&node, 1, 1_310), (1_000, vec![(1_200, 1_249)], 1_249));
        let id = node.lanes_mut().offered(1, BASE, 1, Nanos::SECOND).expect("room for a lane");
        gets_rows(node.lanes_mut().get_mut(id).expect("the lane"), 1_249, 70);
        assert_eq!(rows(&node, 1, 1_320), (1_000, vec![(1_200, 1_319)], 1_249));
        let _ = std::fs::remove_dir_all(&folder);
    }
}
