//! What nodes say of a channel: the last sentence of each, such as why it refuses it. Of more nodes than are remembered, the first
//! ones count.

use std::collections::BTreeMap;

use khz_model::{NodeName, Notice};

use crate::limits::NOTED_NODES_MAX;

/// What the nodes of one channel have said last.
#[derive(Clone, Debug, Default)]
pub struct NodeNotices(BTreeMap<NodeName, String>);

impl NodeNotices {
    /// A node has said something. That one is down or back is no news of the channel; what it said before does not hold any more once
    /// it sends the channel.
    pub fn take(&mut self, notice: &Notice) {
        if notice.change.is_some() {
            return;
        }
        if notice.text == Notice::SENDS_NOW {
            self.forget(&notice.node);
        } else if self.0.len() < NOTED_NODES_MAX || self.0.contains_key(&notice.node) {
            self.0.insert(notice.node.clone(), notice.text.clone());
        }
    }

    /// What a node said does not hold any more.
    pub fn forget(&mut self, node: &NodeName) {
        if !self.0.is_empty() {
            self.0.remove(node);
        }
    }

    /// The same with what others have heard, which is newer.
    pub fn and(mut self, newer: NodeNotices) -> Self {
        self.0.extend(newer.0);
        self
    }

    /// Each sentence, with its nodes.
    pub fn sentences(&self) -> Vec<(String, Vec<NodeName>)> {
        let mut sentences: Vec<(String, Vec<NodeName>)> = Vec::new();
        for (node, text) in &self.0 {
            match sentences.iter_mut().find(|(known, _)| known == text) {
                Some((_, nodes)) => nodes.push(node.clone()),
                None => sentences.push((text.clone(), vec![node.clone()])),
            }
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> NodeName {
        NodeName::new(text).expect("a name")
    }

    #[test]
    fn the_last_sentence_of_each_node_counts_until_it_sends_rows_and_there_are_not_too_many() {
        let mut notices = NodeNotices::default();
        let why = "this node takes no handlers";
        for (name, text) in [("n1", "x"), ("n1", why), ("n2", why), ("n3", why), ("n3", Notice::SENDS_NOW)] {
            notices.take(&Notice::of(node(name), text));
        }
        assert_eq!(notices.sentences(), [(why.to_owned(), vec![node("n1"), node("n2")])]);
        notices.forget(&node("n2"));
        let mut newer = NodeNotices::default();
        newer.take(&Notice::of(node("n1"), "y"));
        assert_eq!(notices.and(newer).sentences(), [("y".to_owned(), vec![node("n1")])]);
        let mut many = NodeNotices::default();
        (0..2 * NOTED_NODES_MAX).for_each(|number| many.take(&Notice::of(node(&format!("m{number}")), "no")));
        assert_eq!(many.sentences()[0].1.len(), NOTED_NODES_MAX);
    }
}
