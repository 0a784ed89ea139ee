//! Chooses the hub at which a reader should be: the hub that has most of the nodes that the reader follows, and if several hubs
//! have as many, the preferred one. This file opens no socket: the caller reports how many lanes stand still, and which nodes are
//! up at each hub.

use std::collections::{BTreeMap, HashSet};

use khz_model::Nanos;

/// The pause between two checks of the list of nodes while lanes stand still. Each check without result
/// doubles the pause.
pub const LOOK_FIRST: Nanos = Nanos::SECOND;

/// The longest pause, also used while no lane stands still: a list of thousands of nodes is a
/// megabyte.
pub const LOOK_MAX: Nanos = Nanos::from_secs(60);

/// The pause between two checks while the reader follows a channel, for each [`NODES_A_LOOK`] nodes. Rows of a channel come at
/// irregular times, so a silent lane does not show that its node has gone.
pub const LOOK_OF_CHANNELS: Nanos = Nanos::from_secs(5);

/// See [`LOOK_OF_CHANNELS`]: the list of this many nodes has some 150 KB.
pub const NODES_A_LOOK: usize = 1_024;

/// If another hub does not answer within this time, it is not asked until the next check.
pub const ANSWER_LATE: Nanos = Nanos::from_secs(5);

/// The first comparison on a connection lasts at least this long: after a failure agents look for a hub, too, and may reach
/// theirs later than the reader.
pub const SETTLED: Nanos = Nanos::from_secs(15);

/// While nodes are at other hubs, the reader asks these hubs repeatedly for at most this long: agents that go back one after the
/// other take half of it. After that, it asks them once a minute, and keeps its connections there.
pub const SPLIT_MAX: Nanos = Nanos::from_secs(600);

/// The names of nodes that are up.
pub type Up = HashSet<String>;

/// What a reader knows of its hubs.
#[derive(Debug)]
pub struct Whereabouts {
    present: usize,
    stage: Stage,
    /// When it last checked the list, and the pause after that.
    looked: Nanos,
    pause: Nanos,
    /// How many lanes stood still at that time.
    still: u64,
    /// Which nodes were up here at the last look.
    seen: Up,
    /// When it last compared, and how long it does not compare again unless a node leaves.
    compared: Nanos,
    calm_for: Nanos,
    here: Up,
    /// For each hub, the nodes that are up there; `None`: not known.
    there: Vec<Option<Up>>,
    /// It has not compared on this connection. Nodes may be at other hubs without a lane that stands still here, because
    /// this hub never offered their lanes.
    is_new: bool,
    /// Since when nodes are at other hubs.
    split: Option<Nanos>,
    /// The hubs at which nodes were at the last comparison.
    held: Vec<bool>,
}

/// The current activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Everything is well, as far as it knows.
    Calm,
    /// It waits for the present hub's list of nodes.
    Looks,
    /// It compares that list with the lists of the other hubs. If it finds no better hub, it stops
    /// at `until`.
    Compares { until: Nanos },
}

impl Whereabouts {
    /// A reader with this many hubs.
    pub fn new(hubs: usize) -> Self {
        Whereabouts {
            present: 0,
            stage: Stage::Calm,
            looked: Nanos(0),
            pause: LOOK_FIRST,
            still: 0,
            seen: Up::new(),
            compared: Nanos(0),
            calm_for: LOOK_OF_CHANNELS,
            here: Up::new(),
            there: vec![None; hubs],
            is_new: false,
            split: None,
            held: vec![false; hubs],
        }
    }

    /// The reader has come to a hub, which has accepted it.
    pub fn came_to(&mut self, hub: usize, now: Nanos) {
        (self.present, self.looked, self.still) = (hub, now, 0);
        (self.compared, self.calm_for) = (Nanos(0), LOOK_OF_CHANNELS);
        self.seen.clear();
        self.calm();
        (self.stage, self.is_new, self.split) = (Stage::Looks, true, None);
        self.held.fill(false);
    }

    /// The caller reports how many lanes stand still or have ended at this hub, and whether the reader follows channels. Decides
    /// whether to check the list now.
    pub fn stand_still(&mut self, lanes: u64, has_channels: bool, now: Nanos) {
        match self.stage {
            Stage::Calm => {
                let pause = match lanes {
                    0 if has_channels => {
                        let lists = self.seen.len().div_ceil(NODES_A_LOOK).max(1) as u64;
                        Nanos(LOOK_OF_CHANNELS.0 * lists).min(LOOK_MAX)
                    }
                    0 => LOOK_MAX,
                    lanes if lanes > self.still => LOOK_FIRST,
                    _ => self.pause,
                };
                if now.since(self.looked) >= pause {
                    (self.stage, self.looked, self.still) = (Stage::Looks, now, lanes);
                    self.pause = Nanos(self.pause.0 * 2).min(LOOK_MAX);
                }
            }
            Stage::Looks => {}
            Stage::Compares { until } if now < until => self.still = lanes,
            Stage::Compares { .. } => {
                self.looked = now;
                self.hold();
                self.calm();
            }
        }
    }

    /// Remembers at which hubs nodes are.
    fn hold(&mut self) {
        let is_elsewhere = |up: &Option<Up>| up.iter().flatten().any(|node| !self.here.contains(node));
        self.held = self.there.iter().map(is_elsewhere).collect();
        if !self.held.contains(&true) {
            self.split = None;
        }
    }

    fn calm(&mut self) {
        self.stage = Stage::Calm;
        self.here.clear();
        self.there.iter_mut().for_each(|up| *up = None);
    }

    /// True while it wants the present hub's list of nodes.
    pub fn looks(&self) -> bool {
        self.stage != Stage::Calm
    }

    /// True while it wants the lists of the other hubs.
    pub fn compares(&self) -> bool {
        matches!(self.stage, Stage::Compares { .. })
    }

    /// True while it keeps its connection to this hub: nodes are there that are not here. Without that connection, they may
    /// stop gathering.
    pub fn holds(&self, hub: usize) -> bool {
        self.compares() || self.held.get(hub) == Some(&true)
    }

    /// The nodes that are up only at other hubs, each with the first of these hubs.
    pub fn elsewhere(&self) -> BTreeMap<&str, usize> {
        let mut nodes = BTreeMap::new();
        for (hub, up) in self.there.iter().enumerate() {
            for node in up.iter().flatten().filter(|node| !self.here.contains(*node)) {
                nodes.entry(node.as_str()).or_insert(hub);
            }
        }
        nodes
    }

    /// A list of the present hub is complete: `up` has the nodes up there that the reader follows; `lacks` says whether some are
    /// not up.
    pub fn here(&mut self, up: Up, lacks: bool, now: Nanos) {
        if !self.looks() {
            return;
        }
        let has_left = self.seen.iter().any(|node| !up.contains(node));
        self.seen.clone_from(&up);
        if !lacks && !up.is_empty() {
            // If lanes stand still although their nodes are up, a check does not help.
            if self.still == 0 {
                self.pause = LOOK_FIRST;
            }
            // At another hub than the first, it asks the better hubs, too: they may have the nodes as
            // well.
            let is_split = self.compares() || self.held.contains(&true);
            if self.present == 0 && !self.is_new && !is_split {
                self.calm();
                return;
            }
        }
        // If a node is nowhere, or a better hub is away for long, that is no reason to connect to the other hubs at each
        // check.
        let is_known = self.stage == Stage::Looks && self.still == 0 && !has_left && !self.is_new;
        if is_known && now.since(self.compared) < self.calm_for {
            self.calm();
            return;
        }
        self.here = up;
        if self.stage == Stage::Looks {
            self.compared = now;
            self.calm_for =
                if has_left { LOOK_OF_CHANNELS } else { Nanos(self.calm_for.0 * 2).min(LOOK_MAX) };
            let least = if std::mem::take(&mut self.is_new) { SETTLED } else { ANSWER_LATE };
            self.stage = Stage::Compares { until: Nanos(now.0 + least.0) };
        }
    }

    /// A list of another hub is complete.
    pub fn there(&mut self, hub: usize, up: Up, now: Nanos) {
        let Stage::Compares { until } = &mut self.stage else { return };
        // Some nodes are moving.
        if up.iter().any(|node| !self.here.contains(node)) {
            let since = *self.split.get_or_insert(now);
            *until = Nanos(now.0 + ANSWER_LATE.0).min(Nanos(since.0 + SPLIT_MAX.0)).max(*until);
        }
        if let Some(known) = self.there.get_mut(hub) {
            *known = Some(up);
        }
    }

    /// A better hub than the present one, and how many of the nodes are up there.
    pub fn better(&self) -> Option<(usize, usize)> {
        if !self.compares() {
            return None;
        }
        let here = self.here.len();
        let counts = self.there.iter().enumerate().filter_map(|(hub, up)| Some((hub, up.as_ref()?.len())));
        let is_better = |&(hub, up): &(usize, usize)| up > here || hub < self.present && up == here && up > 0;
        // Among equal hubs the first wins: in reverse order it is the last of those with the most
        // nodes.
        let better: Vec<_> = counts.filter(|(hub, _)| *hub != self.present).filter(is_better).collect();
        better.into_iter().rev().max_by_key(|&(_, up)| up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(1_000 + seconds)
    }

    fn up(nodes: &[&str]) -> Up {
        nodes.iter().map(|node| (*node).to_owned()).collect()
    }

    /// A reader at this hub of two. It came there 100 s ago, and has compared without result.
    fn settled(present: usize) -> Whereabouts {
        let mut reader = Whereabouts::new(2);
        reader.came_to(present, at(0));
        reader.here(up(&["n1"]), false, at(0));
        reader.there(1 - present, up(&[]), at(0));
        reader.stand_still(0, false, at(14));
        assert!(reader.compares(), "agents may still be on their way");
        reader.stand_still(0, false, at(15));
        assert!(!reader.looks() && !reader.holds(0) && !reader.holds(1));
        reader.looked = at(0);
        reader
    }

    /// A reader at this hub of three, which compares, with these nodes up at its own.
    fn comparing(present: usize, here: &[&str]) -> Whereabouts {
        let mut reader = Whereabouts::new(3);
        reader.came_to(present, at(0));
        reader.stand_still(1, false, at(1));
        assert!(reader.looks() && !reader.compares());
        reader.here(up(here), true, at(1));
        assert!(reader.compares());
        reader
    }

    #[test]
    fn a_reader_goes_where_more_of_its_nodes_are_and_to_the_hub_that_it_prefers_where_as_many_are() {
        let mut reader = comparing(1, &["n1"]);
        reader.there(0, up(&[]), at(2));
        assert_eq!(reader.better(), None);
        reader.there(2, up(&["n2"]), at(2));
        assert_eq!(reader.better(), None, "as many at one that it likes less");
        reader.there(0, up(&["n2"]), at(2));
        assert_eq!(reader.better(), Some((0, 1)));
        reader.there(2, up(&["n2", "n3"]), at(2));
        assert_eq!(reader.better(), Some((2, 2)));
        reader.there(0, up(&["n2", "n3"]), at(2));
        assert_eq!(reader.better(), Some((0, 2)), "of two equal ones the first");
    }

    #[test]
    fn a_hub_without_any_of_its_nodes_is_no_better_one() {
        let mut reader = comparing(2, &[]);
        reader.there(0, up(&[]), at(2));
        assert_eq!(reader.better(), None);
        reader.there(1, up(&["n1"]), at(2));
        assert_eq!(reader.better(), Some((1, 1)));
    }

    #[test]
    fn while_lanes_go_on_it_looks_once_a_minute_and_only_a_reader_that_is_away_asks_other_hubs() {
        let mut reader = settled(0);
        reader.stand_still(0, false, at(59));
        assert!(!reader.looks());
        reader.stand_still(0, false, at(60));
        assert!(reader.looks());
        reader.here(up(&["n1"]), false, at(60));
        assert!(!reader.looks() && !reader.compares());
        let mut reader = settled(1);
        reader.stand_still(0, false, at(60));
        reader.here(up(&["n1"]), false, at(60));
        assert!(reader.compares());
        reader.there(0, up(&["n1"]), at(61));
        assert_eq!(reader.better(), Some((0, 1)));
    }

    #[test]
    fn a_reader_that_comes_to_a_hub_finds_the_nodes_that_are_elsewhere_though_no_lane_stands_still() {
        let mut reader = Whereabouts::new(2);
        reader.came_to(0, at(0));
        assert!(reader.looks());
        reader.here(up(&["n1", "n2"]), false, at(0));
        assert!(reader.compares() && reader.elsewhere().is_empty());
        reader.there(1, up(&["n2", "n3"]), at(1));
        assert_eq!(reader.elsewhere(), BTreeMap::from([("n3", 1)]));
        assert_eq!(reader.better(), None);
    }

    #[test]
    fn it_keeps_its_place_where_nodes_are_elsewhere_until_they_have_come_back() {
        let mut reader = Whereabouts::new(2);
        reader.came_to(0, at(0));
        let (mut comparing, back) = (0, 5_000);
        for second in 0..back + 120 {
            reader.stand_still(0, false, at(second));
            if reader.looks() {
                reader.here(up(&["n1"]), false, at(second));
            }
            let is_back = second >= back;
            if reader.compares() {
                comparing += 1;
                reader.there(1, up(if is_back { &[] } else { &["n2"] }), at(second));
            }
            assert!(is_back || reader.holds(1), "{second}");
        }
        assert!(!reader.holds(1));
        assert!(
            comparing < 1_100,
            "a list a second for ten minutes, and then for a few seconds a minute: {comparing}"
        );
    }

    #[test]
    fn a_node_that_is_nowhere_costs_a_look_a_minute_and_another_one_is_looked_for_at_once() {
        let mut reader = settled(0);
        let mut looks = Vec::new();
        for second in 1..400 {
            reader.stand_still(1, false, at(second));
            if reader.looks() && !reader.compares() {
                looks.push(second);
                reader.here(up(&["n1"]), true, at(second));
            }
            if reader.compares() {
                reader.there(1, up(&["n1"]), at(second));
                assert_eq!(reader.better(), None);
            }
        }
        let pauses: Vec<u64> = looks.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(pauses.is_sorted() && pauses.last() == Some(&65), "{looks:?}");
        assert!(!reader.compares());
        reader.stand_still(2, false, at(400));
        assert!(reader.looks());
    }

    #[test]
    fn lanes_that_stand_still_though_their_nodes_are_up_cost_a_look_a_minute() {
        let mut reader = settled(0);
        let looks = (1..1_000).filter(|&second| {
            reader.stand_still(1, false, at(second));
            let looks = reader.looks();
            reader.here(up(&["n1"]), false, at(second));
            looks
        });
        assert!(looks.count() < 25);
    }

    #[test]
    fn while_some_nodes_are_elsewhere_it_goes_on_comparing_for_a_while() {
        let mut reader = comparing(1, &["n1", "n2"]);
        let mut last = 0;
        for second in 1..1_000 {
            reader.stand_still(1, false, at(second));
            if !reader.compares() {
                break;
            }
            reader.there(0, up(&["n3"]), at(second));
            last = second;
        }
        assert_eq!(last, SPLIT_MAX.0 / Nanos::SECOND.0);
        assert_eq!(reader.better(), None, "what it knew is old");
    }

    /// Simulates a reader of channels at hub 1 from the first to the last second; the hub has these nodes and lacks others. Returns
    /// its checks, and how often it compared without result.
    fn looks(reader: &mut Whereabouts, here: &Up, seconds: std::ops::Range<u64>) -> (Vec<u64>, usize) {
        let (mut looks, mut compared, mut compares) = (Vec::new(), 0, false);
        for second in seconds {
            reader.stand_still(0, true, at(second));
            if reader.looks() && !reader.compares() {
                looks.push(second);
                reader.here(here.clone(), true, at(second));
            }
            compared +=
                usize::from(reader.compares() && !std::mem::replace(&mut compares, reader.compares()));
            compares = reader.compares();
        }
        (looks, compared)
    }

    #[test]
    fn a_reader_of_channels_finds_soon_that_a_node_has_left_and_one_that_is_nowhere_costs_few_connections() {
        let mut reader = settled(1);
        let (first, compared) = looks(&mut reader, &up(&["n1", "n2"]), 1..1_000);
        assert_eq!((first[0], compared <= 25), (5, true), "{first:?} {compared}");
        let pauses = first.windows(2).map(|two| two[1] - two[0]);
        assert!(pauses.max() <= Some(10), "a look goes on while it compares: {first:?}");
        // Now one of its nodes goes back to the first hub.
        let second = (1_010..).find(|&second| {
            looks(&mut reader, &up(&["n1"]), second..second + 1);
            reader.compares() && reader.here.len() == 1
        });
        let second = second.unwrap();
        assert!(second <= 1_020, "{second}");
        reader.there(0, up(&["n1", "n2"]), at(second));
        assert_eq!(reader.better(), Some((0, 2)));
    }

    #[test]
    fn a_reader_of_channels_of_many_nodes_looks_less_often() {
        let many: Up = (0..3_000).map(|n| format!("n{n}")).collect();
        let mut reader = settled(0);
        let mut looks = Vec::new();
        for second in 1..100 {
            reader.stand_still(0, true, at(second));
            if reader.looks() {
                looks.push(second);
                reader.here(many.clone(), false, at(second));
            }
        }
        assert_eq!(looks, [5, 20, 35, 50, 65, 80, 95]);
    }
}
