//! The alerts of one way, each once, limited in number and size. When it is full, the least important alerts are removed: first the
//! oldest resolved ones, then those that are only repeated. It does not know when anything is sent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::alert::{Alert, ByLabels, Labels};
use crate::limits::{ALERTS_BYTES_MAX, ALERTS_MAX};

/// The worth of an alert when there are too many; the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Worth {
    /// Resolved, and the other side knows it.
    Over,
    /// Resolved, and the other side does not know it yet.
    Resolved,
    /// Firing, and the other side knows it: only repeats are lost.
    Repeated,
    /// Firing, and nobody knows it yet.
    News,
}

/// An alert with what its way notes about it.
#[derive(Debug)]
pub(crate) struct Row<S> {
    pub alert: Arc<Alert>,
    pub state: S,
    place: (Worth, u64),
    bytes: usize,
}

/// The alerts of a way, by numbers.
#[derive(Debug)]
pub(crate) struct Table<S> {
    ids: HashMap<ByLabels, u64>,
    rows: BTreeMap<u64, Row<S>>,
    /// The order in which alerts are removed.
    order: BTreeSet<(Worth, u64, u64)>,
    bytes: usize,
    next: u64,
}

impl<S> Default for Table<S> {
    fn default() -> Self {
        Table { ids: HashMap::new(), rows: BTreeMap::new(), order: BTreeSet::new(), bytes: 0, next: 0 }
    }
}

impl<S> Table<S> {
    pub fn id(&self, labels: &Labels) -> Option<u64> {
        self.ids.get(labels).copied()
    }

    pub fn get(&self, id: u64) -> Option<&Row<S>> {
        self.rows.get(&id)
    }

    pub fn state(&mut self, id: u64) -> Option<&mut S> {
        self.rows.get_mut(&id).map(|row| &mut row.state)
    }

    pub fn rows(&self) -> impl Iterator<Item = (u64, &Row<S>)> {
        self.rows.iter().map(|(id, row)| (*id, row))
    }

    /// Adds a new alert. To make room, alerts of less worth, or of the same worth and older, move to `removed`. `None`: there is no
    /// room.
    pub fn add(
        &mut self,
        alert: Arc<Alert>,
        worth: Worth,
        state: S,
        removed: &mut Vec<(u64, Row<S>)>,
    ) -> Option<u64> {
        let bytes = alert.bytes();
        while self.rows.len() >= ALERTS_MAX || self.bytes + bytes > ALERTS_BYTES_MAX {
            let &(least, _, id) = self.order.first()?;
            if least > worth || least == Worth::News {
                return None;
            }
            removed.push((id, self.remove(id)?));
        }
        let id = self.number();
        self.ids.insert(ByLabels(alert.clone()), id);
        self.order.insert((worth, id, id));
        self.bytes += bytes;
        self.rows.insert(id, Row { alert, state, place: (worth, id), bytes });
        Some(id)
    }

    /// Replaces the text of an alert.
    pub fn replace(&mut self, id: u64, alert: Arc<Alert>) {
        let Some(row) = self.rows.get_mut(&id) else { return };
        // The old key stays, since its labels are equal. The size changes by the difference.
        let bytes = alert.bytes();
        self.bytes = self.bytes - row.bytes + bytes;
        row.bytes = bytes;
        if let Some((_, id)) = self.ids.remove_entry(&row.alert.labels) {
            self.ids.insert(ByLabels(alert.clone()), id);
        }
        row.alert = alert;
    }

    /// Sets the worth of an alert.
    pub fn set_worth(&mut self, id: u64, worth: Worth) {
        let seq = self.number();
        let Some(row) = self.rows.get_mut(&id).filter(|row| row.place.0 != worth) else { return };
        self.order.remove(&(row.place.0, row.place.1, id));
        row.place = (worth, seq);
        self.order.insert((worth, seq, id));
    }

    pub fn remove(&mut self, id: u64) -> Option<Row<S>> {
        let row = self.rows.remove(&id)?;
        self.order.remove(&(row.place.0, row.place.1, id));
        self.ids.remove(&row.alert.labels);
        self.bytes -= row.bytes;
        Some(row)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(number: usize, text: usize) -> Arc<Alert> {
        let labels = [("n".to_owned(), number.to_string())].into();
        let annotations = [("text".to_owned(), "x".repeat(text))].into();
        Arc::new(Alert { labels, annotations, ..Alert::default() })
    }

    #[test]
    fn when_it_is_full_resolved_ones_go_first_then_repeats_and_news_stay() {
        let mut table = Table::default();
        let mut removed = Vec::new();
        let mut add = |table: &mut Table<()>, number, worth| {
            removed.clear();
            let id = table.add(alert(number, 0), worth, (), &mut removed);
            (id, removed.iter().map(|(id, _)| *id).collect::<Vec<u64>>())
        };
        let ids: Vec<u64> =
            (0..ALERTS_MAX).map(|number| add(&mut table, number, Worth::News).0.unwrap()).collect();
        assert_eq!(add(&mut table, ALERTS_MAX, Worth::News), (None, vec![]), "news do not push out news");
        table.set_worth(ids[7], Worth::Repeated);
        table.set_worth(ids[9], Worth::Resolved);
        table.set_worth(ids[8], Worth::Resolved);
        let mut next = ALERTS_MAX;
        for expected in [ids[9], ids[8], ids[7]] {
            next += 1;
            let (id, removed) = add(&mut table, next, Worth::News);
            assert_eq!((id.is_some(), removed), (true, vec![expected]));
            assert!(table.get(expected).is_none());
        }
        assert_eq!(add(&mut table, next + 1, Worth::News), (None, vec![]));
        assert_eq!(add(&mut table, next + 1, Worth::Resolved), (None, vec![]));
        assert_eq!(table.rows().count(), ALERTS_MAX);
    }

    #[test]
    fn its_bytes_are_those_of_its_alerts_whatever_happens_to_them() {
        let mut table = Table::default();
        let mut removed = Vec::new();
        let id = table.add(alert(1, 100), Worth::News, (), &mut removed).unwrap();
        let other = table.add(alert(2, 100), Worth::News, (), &mut removed).unwrap();
        table.replace(id, alert(1, 5_000));
        let sum = |table: &Table<()>| table.rows().map(|(_, row)| row.alert.bytes()).sum::<usize>();
        assert_eq!(table.bytes, sum(&table));
        assert_eq!(table.id(&alert(1, 0).labels), Some(id));
        table.remove(other);
        table.remove(other);
        assert_eq!((table.bytes, table.order.len(), table.ids.len()), (sum(&table), 1, 1));
        let large = 60 << 10;
        let fits = ALERTS_BYTES_MAX / large;
        let taken = (10..10 + 2 * fits)
            .filter(|&number| table.add(alert(number, large), Worth::News, (), &mut removed).is_some());
        assert!(taken.count() <= fits && table.bytes <= ALERTS_BYTES_MAX);
    }
}
