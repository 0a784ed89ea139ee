//! Nodes that are at another one of the recorder's hubs, and what the command has said about them. While nodes move, nothing is
//! printed. A change is printed once it lasts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use khz_model::fold::fold;

use crate::show::table::printable;

/// When nothing has changed for this long, moving nodes have all arrived.
const SETTLED: Duration = Duration::from_secs(3);

/// Nodes with the hub at which they are.
pub type Places = BTreeMap<String, String>;

/// The current places of nodes, and the places that the user knows.
#[derive(Debug, Default)]
pub struct Elsewhere {
    nodes: Places,
    said: Places,
    changed: Option<Instant>,
}

impl Elsewhere {
    /// Sets the nodes that are at other hubs now. All other nodes are not.
    pub fn are(&mut self, nodes: Places, now: Instant) {
        (self.nodes, self.changed) = (nodes, Some(now));
    }

    /// Nodes that are at other hubs.
    pub fn nodes(&self) -> &Places {
        &self.nodes
    }

    /// Settled changes that the user does not know: nodes that have gone to other hubs, and nodes that have come back.
    pub fn news(&mut self, now: Instant) -> Vec<String> {
        if self.changed.take_if(|changed| now.saturating_duration_since(*changed) >= SETTLED).is_none() {
            return Vec::new();
        }
        let said = std::mem::replace(&mut self.said, self.nodes.clone());
        let gone = by_hub(self.nodes.iter().filter(|(node, hub)| said.get(*node) != Some(hub)));
        let back = by_hub(said.iter().filter(|(node, _)| !self.nodes.contains_key(*node)));
        let are = |nodes: &[String]| if nodes.len() == 1 { "is" } else { "are" };
        let gone = gone.into_iter().map(|(hub, nodes)| {
            let (names, are) = (printable(&fold(&nodes)), are(&nodes));
            format!("{names} {are} at {hub}: recorded once back at the other hub")
        });
        let back = back.into_iter().map(|(hub, nodes)| {
            let (names, are) = (printable(&fold(&nodes)), are(&nodes));
            format!("{names} {are} not at {hub} any more")
        });
        gone.chain(back).collect()
    }
}

/// The nodes of each hub.
pub fn by_hub<'a>(nodes: impl Iterator<Item = (&'a String, &'a String)>) -> BTreeMap<String, Vec<String>> {
    let mut by_hub = BTreeMap::<String, Vec<String>>::new();
    for (node, hub) in nodes {
        by_hub.entry(hub.clone()).or_default().push(node.clone());
    }
    by_hub
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(nodes: &[(&str, &str)]) -> Places {
        nodes.iter().map(|(node, hub)| ((*node).to_owned(), (*hub).to_owned())).collect()
    }

    #[test]
    fn who_has_gone_or_come_back_is_said_each_time_once_it_has_settled() {
        let (mut elsewhere, start) = (Elsewhere::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(elsewhere.news(at(100)).is_empty());
        elsewhere.are(places(&[("n1", "B")]), at(0));
        assert!(elsewhere.news(at(2)).is_empty(), "others may follow");
        elsewhere.are(places(&[("n1", "B"), ("n2", "B"), ("n4", "C")]), at(2));
        assert!(elsewhere.news(at(4)).is_empty());
        assert_eq!(
            elsewhere.news(at(5)),
            [
                "n[1-2] are at B: recorded once back at the other hub",
                "n4 is at C: recorded once back at the other hub"
            ]
        );
        assert!(elsewhere.news(at(60)).is_empty(), "that is known");
        elsewhere.are(places(&[("n2", "C")]), at(60));
        assert_eq!(
            elsewhere.news(at(63)),
            [
                "n2 is at C: recorded once back at the other hub",
                "n1 is not at B any more",
                "n4 is not at C any more"
            ]
        );
        elsewhere.are(places(&[]), at(70));
        elsewhere.are(places(&[("n2", "C")]), at(71));
        assert!(elsewhere.news(at(75)).is_empty(), "it was away for a moment");
        elsewhere.are(places(&[]), at(80));
        assert_eq!(elsewhere.news(at(83)), ["n2 is not at C any more"]);
        elsewhere.are(places(&[("n2", "C")]), at(90));
        assert_eq!(elsewhere.news(at(93)), ["n2 is at C: recorded once back at the other hub"], "again");
    }
}
