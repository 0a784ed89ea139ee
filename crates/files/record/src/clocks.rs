//! The clocks of nodes in a recording. A node's wall clock may be set during a recording. Its time since boot continues, and each block has
//! the difference between the two clocks. So all rows of one boot can get the times of the clock as it was set last, in the order in which
//! they were gathered. Otherwise rows would go back in time, or jump.

use std::collections::HashMap;
use std::sync::Arc;

use khz_block::Header;
use khz_model::{Nanos, Stamp};

/// Clocks that differ by less were not set, but adjusted.
const SET_MIN: u64 = 100_000_000;
/// Settings of one node's clock that are distinguished. The times of rows beyond these stay as they are.
const SETTINGS_MAX: usize = 256;

/// What a node's wall clock showed beside its time since boot.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// The difference of the two, ns.
    offset: i64,
    /// When the newest block with it was gathered, since boot.
    newest: Nanos,
    /// The setting of the same boot that came last.
    last: usize,
}

/// The settings of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    nodes: HashMap<Arc<str>, Vec<Setting>>,
    /// The setting of each epoch of a lane, by its place: all of an epoch is of one boot.
    epochs: HashMap<usize, usize>,
}

/// A node's clock, as it was until somebody set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockSet {
    /// The node.
    pub node: Arc<str>,
    /// When the last block with it was gathered, by the clock as it was set last.
    pub until: Nanos,
    /// By how much it was ahead of the clock as it was set last, ns.
    pub ahead: i64,
}

impl Clocks {
    /// A block of a lane of this node, which has this place.
    pub fn note(&mut self, node: &Arc<str>, place: usize, header: &Header) {
        let Stamp { boot, real_offset: offset } = header.stamp;
        if !self.nodes.contains_key(node) {
            self.nodes.insert(node.clone(), Vec::new());
        }
        let Some(settings) = self.nodes.get_mut(node) else { return };
        let at = match nearest(settings, offset) {
            Some(at) => at,
            None if settings.len() == SETTINGS_MAX => return,
            None => {
                settings.push(Setting { offset, newest: boot, last: settings.len() });
                settings.len() - 1
            }
        };
        let before = self.epochs.insert(place, at).unwrap_or(at);
        settings[at].newest = settings[at].newest.max(boot);
        // All that are of one boot.
        let (one, other) = (settings[at].last, settings[before].last);
        let last = if settings[one].newest < settings[other].newest { other } else { one };
        let last = if settings[last].newest <= settings[at].newest { at } else { last };
        let is_of_boot = |setting: &&mut Setting| setting.last == one || setting.last == other;
        settings.iter_mut().filter(is_of_boot).for_each(|setting| setting.last = last);
    }

    /// Keeps only the nodes whose clock was set. The others need no look at their blocks.
    pub fn keep_set(&mut self) {
        let is_set = |settings: &Vec<Setting>| settings.iter().enumerate().any(|(at, one)| one.last != at);
        self.nodes.retain(|_, settings| is_set(settings));
    }

    /// The header with the time of the clock as it was set last; `None`: it has that.
    pub fn corrected(&self, node: &str, header: &Header) -> Option<Header> {
        let settings = self.nodes.get(node)?;
        let known = settings[nearest(settings, header.stamp.real_offset)?];
        let by = settings[known.last].offset.saturating_sub(known.offset);
        let real_offset = header.stamp.real_offset.saturating_add(by);
        (by != 0).then_some(Header { stamp: Stamp { real_offset, ..header.stamp }, ..*header })
    }

    /// The clocks that were set, as they were before, by node.
    pub fn set(&self) -> Vec<ClockSet> {
        let mut all: Vec<ClockSet> = Vec::new();
        for (node, settings) in &self.nodes {
            let set = settings.iter().map(|setting| (setting, settings[setting.last].offset));
            let set = set.filter(|(setting, last)| setting.offset != *last);
            all.extend(set.map(|(setting, last)| ClockSet {
                node: node.clone(),
                until: Stamp { boot: setting.newest, real_offset: last }.real(),
                ahead: setting.offset.saturating_sub(last),
            }));
        }
        all.sort_by(|one, other| (&one.node, one.until).cmp(&(&other.node, other.until)));
        all
    }
}

fn nearest(settings: &[Setting], offset: i64) -> Option<usize> {
    let near = settings.iter().enumerate().map(|(at, known)| (known.offset.abs_diff(offset), at));
    near.filter(|(apart, _)| *apart < SET_MIN).min().map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn header(second: u64, offset: i64) -> Header {
        let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: offset };
        Header {
            lane: 1,
            generation: 1,
            first_row: second,
            slots: 1,
            period: Nanos::SECOND,
            stamp,
            closed: None,
        }
    }

    /// The clocks of one node with these blocks: lane, seconds since boot, offset.
    fn clocks(blocks: &[(usize, u64, i64)]) -> (Arc<str>, Clocks) {
        let (node, mut clocks) = (Arc::from("n1"), Clocks::default());
        blocks.iter().for_each(|&(lane, second, offset)| clocks.note(&node, lane, &header(second, offset)));
        (node, clocks)
    }

    fn times(blocks: &[(usize, u64, i64)]) -> Vec<i64> {
        let (node, clocks) = clocks(blocks);
        let offset = |&(_, second, offset): &(usize, u64, i64)| {
            let header = header(second, offset);
            clocks.corrected(&node, &header).unwrap_or(header).stamp.real_offset
        };
        blocks.iter().map(offset).collect()
    }

    #[test]
    fn all_rows_of_a_boot_have_the_times_of_the_clock_as_it_was_set_last() {
        let (right, wrong, adjusted) = (1_000 * SECOND, 4_600 * SECOND, 1_000 * SECOND + 5_000_000);
        let forth_and_back = [(0, 10, right), (0, 20, wrong), (0, 30, adjusted), (0, 40, right)];
        assert_eq!(times(&forth_and_back), [right, right, adjusted, right]);
        assert_eq!(times(&[(0, 10, right), (0, 20, wrong)]), [wrong; 2]);
        // A lane that ended before, and whose blocks came later.
        let late = [(0, 10, right), (0, 20, wrong), (1, 9, right), (1, 11, right)];
        assert_eq!(times(&late), [wrong; 4]);
        // One lane ended between two settings: the others know of all.
        let third = 77 * SECOND;
        let three = [(0, 10, right), (0, 20, wrong), (1, 21, wrong), (1, 30, third), (2, 5, right)];
        assert_eq!(times(&three), [third; 5]);
    }

    #[test]
    fn another_boot_has_a_clock_of_its_own() {
        let (first, second) = (1_000 * SECOND, 5_000 * SECOND);
        assert_eq!(times(&[(0, 10, first), (1, 15, second), (0, 20, first)]), [first, second, first]);
        let (_, clocks) = clocks(&[(0, 10, first), (1, 15, second)]);
        assert_eq!(clocks.set(), []);
    }

    #[test]
    fn what_was_set_is_told_and_settings_without_end_are_not_remembered() {
        let (node, set) = clocks(&[(0, 10, 7 * SECOND), (0, 20, SECOND)]);
        let expected = ClockSet { node, until: Nanos::from_secs(11), ahead: 6 * SECOND };
        assert_eq!(set.set(), [expected]);
        let many: Vec<_> = (0..2_000).map(|n| (0, n as u64, n * SECOND)).collect();
        let (_, many) = clocks(&many);
        assert_eq!(many.nodes["n1"].len(), SETTINGS_MAX);
    }
}
