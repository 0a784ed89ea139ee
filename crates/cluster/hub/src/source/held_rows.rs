//! Which rows of a node's base lane are here, from any hub, so that a hub below sends all others. It requests nothing itself.

use khz_link::{Held, LaneOffer, Ranges};
use khz_model::Nanos;

use crate::cluster::Cluster;
use crate::limits::{AWAY_MAX, HISTORY_SPAN};
use crate::node::Node;

/// The rows to report as held when a hub below offers a lane.
pub(super) struct HeldRows {
    pub held: Held,
    /// Each row from here on comes, or is reported lost.
    pub certain: u64,
    /// The row after the newest row that is here.
    pub end: u64,
}

/// The rows of the offered lane that are here or in the store. In the last minute only rows in memory count, since readers above request
/// them. The rows of a minute before the first known row are also wanted, since the hub may have been away for that long. An unknown epoch
/// may have begun when the node was last heard, even before this hub's start: then rows since a minute before that are wanted. A hub
/// without a store has room for the rows of ten minutes.
pub(super) fn of(cluster: &Cluster, node: &Node, offer: &LaneOffer<'_>) -> HeldRows {
    let rows = |time: Nanos| time.0.checked_div(offer.period.0).unwrap_or(0).saturating_add(1);
    let recent = offer.next_row.saturating_sub(rows(AWAY_MAX));
    let stored = cluster.intake().map_or_else(Vec::new, |intake| intake.stored(&node.name, offer.epoch));
    let received = node.lanes().base_of(offer.epoch).map_or(&[][..], |lane| lane.received());
    let most = if cluster.intake().is_some() { Nanos(u64::MAX) } else { HISTORY_SPAN };
    let unheard = match stored.is_empty() && received.is_empty() {
        true => node.link().silent_for().unwrap_or(Nanos(0)).min(most),
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
    // Rows that are only in the store are not sent, so readers here cannot get them.
    let only_stored = held.ranges.iter().filter_map(|&(from, to)| Some(here.holes(from, to).last()?.1));
    let certain = only_stored.fold(held.from, u64::max);
    let end = held.ranges.last().map_or(held.from, |&(_, end)| end);
    HeldRows { held, certain, end }
}

#[cfg(test)]
mod tests {
    use khz_model::{ByteSize, Nanos, NodeName, NodeStatus, Rate};
    use khz_store::log::Log;

    use super::*;
    use crate::clock::{self, played};
    use crate::cluster::Settings;
    use crate::lane::tests::{gets_rows, lane};
    use crate::memory::{Entry, State};
    use crate::node::BASE;

    fn cluster() -> std::sync::Arc<Cluster> {
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        Cluster::new(Settings { name: "hub".into(), history: ByteSize(0), rate_max }, [7; 16])
    }

    /// The held rows of a lane with this epoch whose next row is this one.
    fn rows(cluster: &Cluster, node: &Node, epoch: u64, next_row: u64) -> (u64, Vec<(u64, u64)>, u64) {
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
        let HeldRows { held, certain, .. } = of(cluster, node, &offer);
        (held.from, held.ranges, certain)
    }

    #[test]
    fn of_an_epoch_that_began_while_the_hub_was_away_all_rows_are_wanted_since_it_heard_the_node() {
        played::NOW.set(Some(Nanos::from_secs(100_000)));
        let name = NodeName::new("n1").expect("a good name");
        for (has_log, away, from) in [
            (true, 4_000, 5_000 - 4_061),
            (false, 500, 5_000 - 561),
            // It could keep no older rows.
            (false, 4_000, 5_000 - 661),
            // The epoch began after that.
            (true, 8_000, 0),
        ] {
            let folder = std::env::temp_dir().join(format!("khz-hub-away-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            let cluster = cluster();
            let log = has_log.then(|| Log::open(&folder).expect("a log"));
            if let Some((_, intake, _)) = &log {
                cluster.log_to(intake.clone());
            }
            let heard = clock::before(Nanos::from_secs(away));
            let (node, address, version) = (name.clone(), String::new(), String::new());
            cluster.remember(vec![Entry { node, state: State::Up, heard, since: 0, address, version }]);
            let shared = cluster.node_or_new(&name, clock::boot()).expect("room for a node");
            // The hub below says that it has heard it just now.
            let status = NodeStatus { up: false, heard: Some(Nanos(0)), ..NodeStatus::here(name.clone()) };
            shared.lock().link_mut().reported_by(0, "below", &status);
            assert_eq!(rows(&cluster, &shared.lock(), 2, 5_000), (from, vec![], from), "{away} s");
            let _ = std::fs::remove_dir_all(&folder);
        }
        played::NOW.set(None);
    }

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
        let cluster = cluster();
        cluster.log_to(intake);
        let shared = cluster.node_or_new(&name, Nanos(0)).expect("room for a node");
        let node = &mut *shared.lock();
        assert_eq!(rows(&cluster, node, 2, 5_000), (4_939, vec![], 4_939), "nothing is known of it");
        assert_eq!(rows(&cluster, node, 1, 5_000), (1_000, vec![(1_200, 1_300)], 1_300));
        assert_eq!(rows(&cluster, node, 1, 1_310), (1_000, vec![(1_200, 1_249)], 1_249));
        let id = node.lanes_mut().offered(1, BASE, 1, Nanos::SECOND).expect("room for a lane");
        gets_rows(node.lanes_mut().get_mut(id).expect("the lane"), 1_249, 70);
        assert_eq!(rows(&cluster, node, 1, 1_320), (1_000, vec![(1_200, 1_319)], 1_249));
        let _ = std::fs::remove_dir_all(&folder);
    }
}
