//! What an outage of the khz has cost: how many rows of each node are missing, by their numbers before and after. It prints nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use khz_model::RowNumber;
use khz_model::fold::fold;

use crate::show::quantities::of_time;

/// After this time the command prints what it knows, even if not every node has sent a row: one of a condition may come in days.
const SETTLED: Duration = Duration::from_secs(5);

/// An absence shorter than this is not told: the next server was asked at once.
const BRIEF: Duration = Duration::from_millis(500);

/// An outage that is over, while its cost is counted.
pub struct Outage {
    away: Duration,
    /// From its beginning to the first rows after it, once these have come: the next khz may be there at once, and its nodes later.
    until_rows: Option<Duration>,
    back: Instant,
    /// Nodes that have not sent a row with a number since.
    awaited: BTreeMap<String, Awaited>,
    missing: u64,
    /// Nodes that count otherwise than before, or not at all.
    unknown: BTreeSet<String>,
    is_told: bool,
}

/// A node from which a row is awaited.
struct Awaited {
    /// Its last row before; `None`: it had no number.
    before: Option<RowNumber>,
    /// It was away already when the outage began: perhaps no row comes of it.
    was_away: bool,
    /// Rows that have come since, and rows that were reported as lost.
    since: u64,
}

/// What is known after some rows of a node have come.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Rows that are missing before these.
    pub missing: u64,
    /// How many of these had come before the outage.
    pub known: usize,
}

impl Outage {
    /// The khz was away for this long, after these nodes had sent rows. The last word: the node had gone away before.
    pub fn new(away: Duration, nodes: impl Iterator<Item = (String, Option<RowNumber>, bool)>) -> Self {
        let awaited = |(node, before, was_away)| (node, Awaited { before, was_away, since: 0 });
        let awaited = nodes.map(awaited).collect();
        let (missing, unknown, until_rows) = (0, BTreeSet::new(), None);
        Outage { away, until_rows, back: Instant::now(), awaited, missing, unknown, is_told: false }
    }

    /// Rows of a node have come, of which the last has this number; `lost` more were reported as lost before them.
    pub fn rows(&mut self, node: &str, rows: usize, lost: u64, last: Option<RowNumber>) -> Counted {
        if rows > 0 && self.away > Duration::ZERO {
            self.until_rows.get_or_insert_with(|| self.away + self.back.elapsed());
        }
        let Some(awaited) = self.awaited.get_mut(node) else { return Counted::default() };
        awaited.since += rows as u64 + lost;
        let since = awaited.since;
        match (awaited.before, last) {
            // Of many rows at a time only the last ones come with a number.
            (Some(_), None) => return Counted::default(),
            (Some(before), Some(last)) if before.epoch == last.epoch => {
                let missing = last.number.saturating_sub(before.number).saturating_sub(since);
                let first = last.number.saturating_add(1).saturating_sub(rows as u64);
                let known = before.number.saturating_add(1).saturating_sub(first);
                self.awaited.remove(node);
                self.missing += missing;
                return Counted { missing, known: usize::try_from(known).unwrap_or(rows).min(rows) };
            }
            _ => {}
        }
        // One that was away may have been started again: there are no rows to be missed.
        if self.awaited.remove(node).is_some_and(|awaited| !awaited.was_away) {
            self.unknown.insert(node.to_owned());
        }
        Counted::default()
    }

    /// True once, when it is time to tell; `is_last`: nothing more will come.
    pub fn is_due(&mut self, is_last: bool) -> bool {
        let is_due = is_last || self.due().next().is_none() || self.back.elapsed() >= SETTLED;
        is_due && !std::mem::replace(&mut self.is_told, true)
    }

    /// Nodes that were there when it began, and have not sent a row with a number since.
    fn due(&self) -> impl Iterator<Item = &String> {
        self.awaited.iter().filter(|(_, awaited)| !awaited.was_away).map(|(node, _)| node)
    }

    /// How long it was: up to the first rows after it, if some have come.
    pub fn away(&self) -> Duration {
        self.until_rows.unwrap_or(self.away)
    }

    /// Rows that are known to be missing.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Nodes of which nobody knows how many are missing.
    pub fn unknown(&self) -> Vec<String> {
        self.unknown.iter().chain(self.due()).cloned().collect()
    }

    /// What is known, as a sentence.
    pub fn sentence(&self) -> String {
        let mut parts = vec![match self.away() {
            away if away < BRIEF => "the rows go on".to_owned(),
            away => format!("the rows come again after {}", of_time(away)),
        }];
        let silent: Vec<&String> = self.due().collect();
        match (self.missing, self.unknown.is_empty() && silent.is_empty()) {
            (0, true) => parts.push("none is missing".to_owned()),
            (0, false) => {}
            (1, _) => parts.push("1 row is missing".to_owned()),
            (rows, _) => parts.push(format!("{rows} rows are missing")),
        }
        if !self.unknown.is_empty() {
            parts.push(format!("how many of {} are missing is unknown", fold(&self.unknown)));
        }
        if !silent.is_empty() {
            parts.push(format!("{} has sent none so far, so that is unknown, too", fold(silent)));
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: u64, number: u64) -> Option<RowNumber> {
        Some(RowNumber { epoch, number })
    }

    fn outage(before: Option<RowNumber>) -> Outage {
        Outage::new(Duration::from_secs(2), [("n1".to_owned(), before, false)].into_iter())
    }

    #[test]
    fn numbers_of_one_epoch_tell_what_is_missing() {
        let mut one = outage(at(5, 100));
        assert_eq!(one.rows("n1", 2, 3, at(5, 110)), Counted { missing: 5, known: 0 });
        assert_eq!((one.missing(), one.is_due(false), one.is_due(false)), (5, true, false));
        assert_eq!(one.rows("n1", 2, 0, at(5, 120)), Counted::default(), "that was later");
        assert_eq!(outage(at(5, 100)).rows("n1", 1, 0, at(5, 101)), Counted::default());
        let mut none = outage(at(5, 100));
        none.rows("n1", 1, 0, at(5, 101));
        assert_eq!(none.sentence(), "the rows come again after 2.0s; none is missing");
    }

    #[test]
    fn rows_that_come_a_second_time_are_known() {
        assert_eq!(outage(at(5, 100)).rows("n1", 3, 0, at(5, 101)), Counted { missing: 0, known: 2 });
        assert_eq!(outage(at(5, 100)).rows("n1", 1, 0, at(5, 100)), Counted { missing: 0, known: 1 });
    }

    #[test]
    fn only_the_last_of_many_rows_has_a_number() {
        let mut many = outage(at(5, 100));
        assert_eq!(many.rows("n1", 50, 0, None), Counted::default());
        assert_eq!(many.rows("n1", 50, 0, at(5, 210)).missing, 10);
    }

    #[test]
    fn a_node_that_was_away_before_is_counted_when_it_comes_and_not_awaited() {
        let nodes = [("n1".to_owned(), at(5, 100), true)];
        let mut gone = Outage::new(Duration::ZERO, nodes.into_iter());
        assert!(gone.is_due(false) && gone.unknown().is_empty());
        assert_eq!(gone.sentence(), "the rows go on; none is missing");
        assert_eq!(gone.rows("n1", 1, 0, at(5, 104)), Counted { missing: 3, known: 0 });
        assert_eq!(gone.missing(), 3);
    }

    #[test]
    fn what_cannot_be_counted_is_unknown() {
        for (before, after) in [(at(5, 100), at(6, 101)), (None, at(5, 1)), (None, None)] {
            let mut unknown = outage(before);
            unknown.rows("n1", 1, 0, after);
            assert_eq!((unknown.missing(), unknown.unknown()), (0, vec!["n1".to_owned()]));
            assert!(unknown.sentence().ends_with("how many of n1 are missing is unknown"));
        }
        let mut silent = outage(at(5, 100));
        assert!(!silent.is_due(false) && silent.is_due(true));
        assert_eq!(silent.unknown(), ["n1"]);
        assert!(silent.sentence().contains("n1 has sent none so far"), "{}", silent.sentence());
    }
}
