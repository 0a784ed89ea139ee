//! Rows of kept channels that the store will never have: nodes no longer had them when they were requested. The code that follows
//! these channels for the store reports them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use khz_link::former;
use khz_model::{ChannelName, NodeName, Notice};

/// Losses are counted for this many channels at nodes; further losses are only in the counts of the
/// nodes.
const LOSSES_MAX: usize = 4_096;

/// How many rows of each channel each node has lost since the start of the hub.
#[derive(Debug, Default)]
pub(crate) struct KeptLosses(Mutex<BTreeMap<(ChannelName, NodeName), Loss>>);

#[derive(Debug, Default)]
struct Loss {
    rows: u64,
    /// Nobody has said so.
    is_new: bool,
}

impl KeptLosses {
    /// Rows of a lane of a node are lost, which the store would have kept.
    pub fn add(&self, node: &NodeName, lane: &str, rows: u64) {
        let Some(channel) = channel_of(lane).filter(|_| rows > 0) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (channel, node.clone());
        if all.len() < LOSSES_MAX || all.contains_key(&key) {
            let loss = all.entry(key).or_default();
            (loss.rows, loss.is_new) = (loss.rows.saturating_add(rows), true);
        }
    }

    /// The notices since the last call.
    pub fn news(&self) -> Vec<(ChannelName, Notice)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new =
            all.iter_mut().filter_map(|(of, loss)| std::mem::take(&mut loss.is_new).then_some((of, loss)));
        new.map(|((channel, node), loss)| {
            let rows = if loss.rows == 1 { "1 row is".to_owned() } else { format!("{} rows are", loss.rows) };
            let text = format!("{rows} missing in the store: the node had them no more when the hub asked");
            (channel.clone(), Notice::of(node.clone(), text))
        })
        .collect()
    }
}

/// The channel whose rows a lane has, or had.
fn channel_of(lane: &str) -> Option<ChannelName> {
    let present = || lane.strip_prefix(ChannelName::PREFIX)?.split('.').next();
    ChannelName::new(former::channel_of(lane).or_else(present)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_a_channel_add_up_over_its_lanes_and_are_said_once() {
        let (losses, node) = (KeptLosses::default(), NodeName::new("n1").expect("a name"));
        losses.add(&node, "channel.hot", 2);
        losses.add(&node, "channel.hot.2", 3);
        losses.add(&node, "channel.hot.former", 4);
        losses.add(&node, "channel.cold", 1);
        losses.add(&node, "base", 7);
        losses.add(&node, "channel.hot", 0);
        let said = |losses: &KeptLosses| -> Vec<String> {
            losses.news().into_iter().map(|(channel, notice)| format!("{channel} {}", notice.text)).collect()
        };
        let why = "missing in the store: the node had them no more when the hub asked";
        assert_eq!(said(&losses), [format!("cold 1 row is {why}"), format!("hot 9 rows are {why}")]);
        losses.add(&node, "channel.hot", 1);
        assert_eq!(said(&losses), [format!("hot 10 rows are {why}")]);
        assert!(said(&losses).is_empty());
    }
}
