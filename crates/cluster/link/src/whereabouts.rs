//! At which of its hubs a reader should be: where most of the nodes are that it follows, and of several such hubs at the one that
//! it prefers. This file opens no socket: the caller says whose lanes stand still, and which nodes are up at each hub.

use std::collections::HashSet;

use khz_model::Nanos;

/// The pause between two looks at the list of nodes while lanes stand still; each look in vain doubles it.
pub const LOOK_FIRST: Nanos = Nanos::SECOND;

/// The longest pause, also while all lanes go on: a list of thousands of nodes is a megabyte.
pub const LOOK_MAX: Nanos = Nanos::from_secs(60);

/// Other hubs answer within this time, or are not asked until the next look.
pub const ANSWER_LATE: Nanos = Nanos::from_secs(5);

/// While nodes are at other hubs, the reader asks these hubs again and again for at most this long: agents that go back one after
/// the other take half of it.
pub const SPLIT_MAX: Nanos = Nanos::from_secs(600);

/// The names of nodes that are up.
pub type Up = HashSet<String>;

/// What a reader knows of its hubs.
#[derive(Debug)]
pub struct Whereabouts {
    present: usize,
    stage: Stage,
    /// When it last looked, and the pause after that.
    looked: Nanos,
    pause: Nanos,
    /// How many lanes stood still then.
    still: u64,
    here: Up,
    /// For each hub what is up there; `None`: not known.
    there: Vec<Option<Up>>,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// All is well, as far as it knows.
    Calm,
    /// It waits for the present hub's list of nodes.
    Looks,
    /// It compares that list with those of the other hubs: since when, and until when if nothing comes of it.
    Compares { since: Nanos, until: Nanos },
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
            here: Up::new(),
            there: vec![None; hubs],
        }
    }

    /// The reader has come to a hub, which has accepted it.
    pub fn came_to(&mut self, hub: usize, now: Nanos) {
        (self.present, self.looked, self.still) = (hub, now, 0);
        self.calm();
    }

    /// This many lanes stand still, or have ended at this hub. Decides whether it is time for a look.
    pub fn stand_still(&mut self, lanes: u64, now: Nanos) {
        match self.stage {
            Stage::Calm => {
                let pause = match lanes {
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
            Stage::Compares { until, .. } if now < until => self.still = lanes,
            Stage::Compares { .. } => {
                self.looked = now;
                self.calm();
            }
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

    /// A list of the present hub is complete: which of the nodes that the reader follows are up there, and whether it lacks some.
    pub fn here(&mut self, up: Up, lacks: bool, now: Nanos) {
        if !self.looks() {
            return;
        }
        if !lacks && !up.is_empty() {
            // Where lanes stand still of nodes that are up, a look does not help.
            if self.still == 0 {
                self.pause = LOOK_FIRST;
            }
            // At another hub than the first it asks the better ones, too: they may have the nodes as well.
            if self.present == 0 {
                self.calm();
                return;
            }
        }
        self.here = up;
        if self.stage == Stage::Looks {
            self.stage = Stage::Compares { since: now, until: Nanos(now.0 + ANSWER_LATE.0) };
        }
    }

    /// A list of another hub is complete.
    pub fn there(&mut self, hub: usize, up: Up, now: Nanos) {
        let Stage::Compares { since, until } = &mut self.stage else { return };
        // Some are on their way.
        if up.iter().any(|node| !self.here.contains(node)) {
            *until = Nanos(now.0 + ANSWER_LATE.0).min(Nanos(since.0 + SPLIT_MAX.0));
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
        // Of several the first: the last of those with the most in reverse order.
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

    /// A reader at this hub of three, which compares, with these nodes up at its own.
    fn comparing(present: usize, here: &[&str]) -> Whereabouts {
        let mut reader = Whereabouts::new(3);
        reader.came_to(present, at(0));
        reader.stand_still(1, at(1));
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
        let mut reader = Whereabouts::new(2);
        reader.came_to(0, at(0));
        reader.stand_still(0, at(59));
        assert!(!reader.looks());
        reader.stand_still(0, at(60));
        assert!(reader.looks());
        reader.here(up(&["n1"]), false, at(60));
        assert!(!reader.looks() && !reader.compares());
        reader.came_to(1, at(100));
        reader.stand_still(0, at(160));
        reader.here(up(&["n1"]), false, at(160));
        assert!(reader.compares());
        reader.there(0, up(&["n1"]), at(161));
        assert_eq!(reader.better(), Some((0, 1)));
    }

    #[test]
    fn a_node_that_is_nowhere_costs_a_look_a_minute_and_another_one_is_looked_for_at_once() {
        let mut reader = Whereabouts::new(2);
        reader.came_to(0, at(0));
        let mut looks = Vec::new();
        for second in 1..400 {
            reader.stand_still(1, at(second));
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
        reader.stand_still(2, at(400));
        assert!(reader.looks());
    }

    #[test]
    fn lanes_that_stand_still_though_their_nodes_are_up_cost_a_look_a_minute() {
        let mut reader = Whereabouts::new(2);
        reader.came_to(0, at(0));
        let looks = (1..1_000).filter(|&second| {
            reader.stand_still(1, at(second));
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
            reader.stand_still(1, at(second));
            if !reader.compares() {
                break;
            }
            reader.there(0, up(&["n3"]), at(second));
            last = second;
        }
        assert_eq!(last, SPLIT_MAX.0 / Nanos::SECOND.0);
        assert_eq!(reader.better(), None, "what it knew is old");
    }
}
