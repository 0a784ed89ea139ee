//! The Want with which the hub opens a lane at a node: from which row on, how far back, and whether every row at once. It
//! only decides; the peer sends.

use khz_link::{LaneOffer, Ranges, Want};
use khz_model::Nanos;

use crate::cluster::Cluster;
use crate::lane::Lane;
use crate::limits::HISTORY_SPAN;
use crate::node::{BASE, Node};

/// Every row, however old.
const ALL: Nanos = Nanos(u64::MAX);

/// The Want for a lane that the node offers: missing rows, and the recent past if the hub has just started. `None`: no
/// subscription needs the lane.
pub(super) fn of_offer(cluster: &Cluster, node: &Node, id: u64, offer: &LaneOffer<'_>) -> Option<Want> {
    let lane = node.lanes().get(id)?;
    let is_boost = lane.name != BASE;
    if is_boost && !node.subscriptions().need(id) && !lane.is_former_of_channel() {
        return None;
    }
    let prompt = is_prompt(cluster, node, lane);
    if let Some(before) = lane.logged_before() {
        return Some(unlogged(cluster, lane, before, prompt));
    }
    if let Some(start) = node.subscriptions().channel_start(id) {
        return Some(unbroken(lane, start, prompt));
    }
    if lane.has_rows() && lane.late_readers > 0 {
        return Some(missed(lane, prompt));
    }
    let (from_row, span) = match lane.received().first() {
        _ if is_boost => (offer.next_row, Nanos(0)),
        // A connection may have ended before all of the past had come: the oldest row here may not be the first.
        Some(&(oldest, end)) if cluster.keeps_history() => (if oldest == 0 { end } else { 0 }, HISTORY_SPAN),
        None if cluster.keeps_history() => (0, HISTORY_SPAN),
        // Without memory for the past, only rows missed since are asked for, so that they are counted.
        Some(&(_, end)) => (end, HISTORY_SPAN),
        None => (0, Nanos(0)),
    };
    let (epoch, schema_bytes, have) = (lane.epoch, lane.schema_bytes(), newest(lane.received()));
    Some(Want { epoch, from_row, span, schema_bytes, prompt, have })
}

/// Wants all rows, of any age, that neither came nor were in the log before this hub's start: the store must get every row
/// that the ring still has. If the hub keeps rows in memory, the newest rows of a base lane come again.
fn unlogged(cluster: &Cluster, lane: &Lane, before: &Ranges, prompt: bool) -> Want {
    let remembered = HISTORY_SPAN.0.checked_div(lane.period.0).unwrap_or(0);
    let is_memory = cluster.keeps_history() && lane.name == BASE;
    let until = if is_memory { lane.next_offered.saturating_sub(remembered) } else { u64::MAX };
    let mut known = Ranges::default();
    for &(from, to) in before.as_slice() {
        known.add(from, to.min(until));
    }
    for &(from, to) in lane.received() {
        known.add(from, to);
    }
    Want {
        epoch: lane.epoch,
        from_row: known.complete_from_zero(),
        span: ALL,
        schema_bytes: lane.schema_bytes(),
        prompt,
        have: known.above(),
    }
}

/// The Want for a lane that serves a subscription which the node has just answered.
pub(super) fn of_answer(cluster: &Cluster, node: &Node, id: u64) -> Option<Want> {
    let lane = node.lanes().get(id)?;
    let prompt = is_prompt(cluster, node, lane);
    if let Some(start) = node.subscriptions().channel_start(id) {
        return Some(match lane.logged_before() {
            Some(before) => unlogged(cluster, lane, before, prompt),
            None => unbroken(lane, start, prompt),
        });
    }
    if lane.has_rows() && lane.late_readers > 0 {
        return Some(missed(lane, prompt));
    }
    let (epoch, from_row, schema_bytes) = (lane.epoch, lane.next_row(), lane.schema_bytes());
    Some(Want { epoch, from_row, span: Nanos(0), schema_bytes, prompt, have: Vec::new() })
}

/// Whether each row of a lane is wanted at once: this is the case if one of its readers wants it, or if the lane is slow
/// and the cluster small. Nodes of a small cluster need not be spread over the second: they send each row right after they
/// have gathered it.
fn is_prompt(cluster: &Cluster, node: &Node, lane: &Lane) -> bool {
    let is_slow_base = lane.name == BASE && lane.period >= Nanos::SECOND;
    node.subscriptions().are_prompt(lane.id) || is_slow_base && cluster.is_small()
}

/// Wants all rows of a channel from the first row of its readers: rows are few, and a reader may wait for any of them. The
/// node sends them in order, so that readers that take no late rows get them too.
fn unbroken(lane: &Lane, start: u64, prompt: bool) -> Want {
    let from_row = start.max(lane.next_row());
    let (epoch, schema_bytes) = (lane.epoch, lane.schema_bytes());
    Want { epoch, from_row, span: ALL, schema_bytes, prompt, have: Vec::new() }
}

/// All missed rows of a lane, however old: a reader wants every row.
fn missed(lane: &Lane, prompt: bool) -> Want {
    let have = newest(lane.received());
    Want {
        epoch: lane.epoch,
        from_row: have.first().map_or(0, |&(from, _)| from),
        span: ALL,
        schema_bytes: lane.schema_bytes(),
        prompt,
        have,
    }
}

/// From this row on, every row comes because of this Want, or is reported lost; `None`: from the first row that comes. Rows
/// that are older than the Want's span do not come. Rows in the hub's log but not in memory (`have` names them) do not come
/// either: a reader that needs them requests them, if the node can resend rows.
pub(super) fn certain_from(want: &Want, node: &Node, id: u64) -> Option<u64> {
    let is_certain = want.span == ALL || want.span > Nanos(0) && !node.can_resend();
    let lane = node.lanes().get(id).filter(|_| is_certain)?;
    let logged =
        want.have.iter().filter_map(|&(from, to)| lane.missing(from, to).last().map(|&(_, end)| end));
    Some(logged.fold(want.from_row, u64::max))
}

/// The newest ranges, as many as a Want can carry.
fn newest(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    ranges[ranges.len().saturating_sub(khz_link::limits::HAVE_MAX)..].to_vec()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use khz_model::{ByteSize, NodeName, Rate};
    use khz_store::log::{Intake, Log};

    use super::*;
    use crate::cluster::Settings;
    use crate::lane::tests::{gets_rows, lane};
    use crate::node::SharedNode;

    const OFFER: LaneOffer<'static> = LaneOffer {
        lane: 1,
        node: "",
        name: BASE,
        epoch: 1,
        generation: 1,
        period: Nanos::SECOND,
        interest: 0,
        oldest_row: 0,
        next_row: 0,
        schema_bytes: 0,
        schema_hash: [0; 16],
        stands_in: false,
    };

    /// A log that has the rows 0..1,000 and 1,200..1,300 of node n1, after a restart.
    fn log(folder: &std::path::Path, node: &NodeName) -> (Log, Intake) {
        let (mut log, intake, _) = Log::open(folder).expect("a log");
        let mut lane = lane();
        lane.log_to(&intake, node);
        gets_rows(&mut lane, 0, 1_000);
        gets_rows(&mut lane, 1_200, 100);
        drop(lane);
        log.commit().expect("room");
        let (log, intake, _) = Log::open(folder).expect("a log");
        (log, intake)
    }

    /// Offers the lane with this next row. Returns the Want, and the row from which on rows are certain.
    fn wanted(cluster: &Arc<Cluster>, node: &SharedNode, next_row: u64) -> (Want, Option<u64>) {
        let mut node = node.lock();
        let id = node.lanes_mut().offered(1, BASE, 1, Nanos::SECOND).expect("room for a lane");
        node.log_lane(id, cluster);
        node.lanes_mut().get_mut(id).expect("the lane").next_offered = next_row;
        let offer = LaneOffer { next_row, ..OFFER };
        let want = of_offer(cluster, &node, id, &offer).expect("a base lane is wanted");
        let certain = certain_from(&want, &node, id);
        (want, certain)
    }

    #[test]
    fn of_a_lane_that_is_over_the_store_gets_what_it_lacks_while_its_channel_is_kept() {
        let folder = std::env::temp_dir().join(format!("khz-hub-former-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let name = NodeName::new("n1").expect("a good name");
        let (_log, intake) = log(&folder, &name);
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        let settings = Settings { name: "hub".into(), history: ByteSize(0), rate_max };
        let cluster = Cluster::new(settings, [7; 16]);
        cluster.log_to(intake);
        let shared = cluster.node_or_new(&name, Nanos(0)).expect("room for a node");
        let mut node = shared.lock();
        let offered = |node: &mut Node, number: u32, lane: &str, epoch: u64| {
            let id = node.lanes_mut().offered(number, lane, epoch, Nanos::SECOND).expect("room for a lane");
            node.log_lane(id, &cluster);
            let offer = LaneOffer { lane: number, name: lane, epoch, next_row: 1_310, ..OFFER };
            (of_offer(&cluster, node, id, &offer), id)
        };
        assert_eq!(offered(&mut node, 1, "channel.hot.former", 1).0, None, "nobody keeps it");
        let handler = [1].as_slice().into();
        let hot = khz_model::ChannelName::new("hot").expect("a good name");
        let terms = crate::node::Terms {
            patterns: Vec::new(),
            rate: Rate::from_hz(1),
            exact: false,
            prompt: true,
            channel: Some(Arc::new(khz_model::ChannelTerms { name: hot, handler })),
        };
        node.subscribe_for(&Arc::new(terms), true).expect("room for a subscription");
        assert_eq!(offered(&mut node, 2, "channel.cold.former", 1).0, None, "another channel");
        let (want, id) = offered(&mut node, 3, "channel.hot.former", 1);
        let want = want.expect("the channel is kept");
        assert_eq!((want.from_row, want.have, want.span), (1_000, vec![(1_200, 1_300)], ALL));
        // It serves no subscription, and stays until the node has sent all its rows. Then it is removed.
        node.lanes_mut().get_mut(id).expect("the lane").alive = true;
        let commands = node.lanes_mut().leave_all_but(Lane::is_former_of_channel);
        assert!(commands.is_empty());
        node.close_lane(3);
        assert!(node.lanes().get(id).is_none());
        let _ = std::fs::remove_dir_all(&folder);
    }

    #[test]
    fn a_hub_that_starts_again_asks_for_what_its_log_lacks_and_for_what_its_memory_needs() {
        let folder = std::env::temp_dir().join(format!("khz-hub-wants-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let name = NodeName::new("n1").expect("a good name");
        let (_log, intake) = log(&folder, &name);
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        let start = |history| {
            let settings = Settings { name: "hub".into(), history: ByteSize(history), rate_max };
            let cluster = Cluster::new(settings, [7; 16]);
            cluster.log_to(intake.clone());
            let node = cluster.node_or_new(&name, Nanos(0)).expect("room for a node");
            (cluster, node)
        };
        let lacking = |from_row, have: &[(u64, u64)], certain| {
            let want =
                Want { epoch: 1, from_row, span: ALL, schema_bytes: 0, prompt: true, have: have.to_vec() };
            (want, Some(certain))
        };
        // Without memory for the past, and where the rows are too old for it.
        let (cluster, node) = start(0);
        assert_eq!(wanted(&cluster, &node, 1_310), lacking(1_000, &[(1_200, 1_300)], 1_300));
        let (cluster, node) = start(1 << 20);
        assert_eq!(wanted(&cluster, &node, 9_000), lacking(1_000, &[(1_200, 1_300)], 1_300));
        // The last ten minutes come again.
        assert_eq!(wanted(&cluster, &node, 1_810), lacking(1_000, &[(1_200, 1_210)], 1_210));
        assert_eq!(wanted(&cluster, &node, 1_310), lacking(710, &[], 710));
        // Rows that came since this start do not come again.
        gets_rows(node.lock().lanes_mut().numbered(1).expect("the lane"), 1_250, 70);
        assert_eq!(wanted(&cluster, &node, 1_320), lacking(720, &[(1_250, 1_320)], 720));
        let _ = std::fs::remove_dir_all(&folder);
    }
}
