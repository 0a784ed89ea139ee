//! The list of nodes with their status, for a reader that shows the cluster: it writes the whole list repeatedly while
//! the reader wants it. It keeps only the place in the list.

use khz_link::node_status;
use khz_model::{Nanos, NodeName};

use crate::clock;
use crate::cluster::Cluster;

/// Time between two lists, if there are not more nodes than may be listed in that time.
const PERIOD: Nanos = Nanos::SECOND;

/// Nodes listed for one reader in that time: some 150 KB.
const NODES_A_PERIOD: u64 = 1_024;

/// One reader's place in the list.
#[derive(Debug)]
pub(crate) struct Roster {
    next: Nanos,
    /// The last node that was written, while a list is under way.
    at: Option<NodeName>,
}

impl Roster {
    /// The first list is due now.
    pub fn new() -> Self {
        Roster { next: Nanos(0), at: None }
    }

    /// When the next list is due.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Writes what is due, unless `out` is full.
    pub fn pump(&mut self, cluster: &Cluster, out: &mut Vec<u8>) {
        let now = clock::boot();
        if now < self.next {
            return;
        }
        let nodes = cluster.nodes();
        let from = self.at.as_ref().map_or(0, |at| nodes.partition_point(|node| node.name <= *at));
        for node in nodes.iter().skip(from) {
            if out.len() > cluster.out_bytes_max() {
                return;
            }
            let status = cluster.status_of(node, now);
            node_status::put(&status, out);
            self.at = Some(status.node);
        }
        node_status::put_end(nodes.len(), out);
        self.at = None;
        let periods = (nodes.len() as u64).div_ceil(NODES_A_PERIOD).max(1);
        self.next = Nanos(now.0 + periods * PERIOD.0);
    }
}

#[cfg(test)]
mod tests {
    use khz_link::{Frame, frame, limits::FRAME_MAX};
    use khz_model::{ByteSize, Rate};

    use super::*;
    use crate::cluster::Settings;

    /// The nodes in these bytes, and their number if the list ends there.
    fn listed(bytes: &[u8]) -> (Vec<String>, Option<u64>) {
        let (mut at, mut names, mut end) = (0, Vec::new(), None);
        while let Some(found) = frame::split(&bytes[at..], FRAME_MAX).expect("whole frames") {
            match Frame::decode(found.kind, found.body).expect("a frame") {
                Frame::Node(status) => names.push(status.node.as_str().to_owned()),
                Frame::Nodes { count } => end = Some(count),
                other => panic!("{other:?}"),
            }
            at += found.length;
        }
        (names, end)
    }

    fn at(seconds: u64) -> Nanos {
        let now = Nanos::from_secs(1_000 + seconds);
        clock::played::NOW.set(Some(now));
        now
    }

    #[test]
    fn all_nodes_are_listed_then_again_after_a_time_and_a_slow_reader_goes_on_where_it_was() {
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        let cluster = Cluster::new(Settings { name: "hub".into(), history: ByteSize(0), rate_max }, [7; 16]);
        let now = at(0);
        let name = |n: u64| NodeName::new(&format!("n{n:04}")).expect("a good name");
        (0..NODES_A_PERIOD).for_each(|n| drop(cluster.node_or_new(&name(n), now)));
        let (mut roster, mut out) = (Roster::new(), Vec::new());
        roster.pump(&cluster, &mut out);
        let (names, end) = listed(&out);
        assert_eq!((names.len() as u64, end), (NODES_A_PERIOD, Some(NODES_A_PERIOD)));
        assert!(names.is_sorted() && names[0] == "n0000");
        assert_eq!(roster.next(), at(1), "a thousand are listed in a second");
        at(0);
        out.clear();
        roster.pump(&cluster, &mut out);
        assert!(out.is_empty(), "it is not due");
        drop(cluster.node_or_new(&name(NODES_A_PERIOD), now));
        at(1);
        // It stops when `out` is full, and continues after the node that it wrote last.
        out = vec![0; cluster.out_bytes_max()];
        roster.pump(&cluster, &mut out);
        assert_eq!(listed(&out.split_off(cluster.out_bytes_max())), (vec!["n0000".to_owned()], None));
        out.clear();
        roster.pump(&cluster, &mut out);
        let (names, end) = listed(&out);
        assert_eq!(
            (names.len() as u64, names[0].as_str(), end),
            (NODES_A_PERIOD, "n0001", Some(NODES_A_PERIOD + 1))
        );
        assert_eq!(roster.next(), at(3), "one more than a thousand are two seconds");
        clock::played::NOW.set(None);
    }
}
