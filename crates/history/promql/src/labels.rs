//! The labels of a series, the name of its metric among them.

use std::sync::Arc;

/// The label that is the metric's name.
pub const METRIC_NAME: &str = "__name__";

/// The labels that say what a metric is, sorted: its name, and its type and unit where the source has them.
pub(crate) const METADATA: [&str; 3] = [METRIC_NAME, "__type__", "__unit__"];

/// Labels, sorted by name, each name once; none is empty. Copies share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LabelSet(Arc<[(Arc<str>, Arc<str>)]>);

impl LabelSet {
    /// The set of these labels. Of two with the same name, the last one counts. Labels without a value are left out, because they
    /// do not exist in PromQL.
    pub fn new<N: Into<Arc<str>>, V: Into<Arc<str>>>(labels: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut all: Vec<(Arc<str>, Arc<str>)> =
            labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        all.reverse();
        all.sort_by(|one, two| one.0.cmp(&two.0));
        all.dedup_by(|later, kept| later.0 == kept.0);
        all.retain(|(_, value)| !value.is_empty());
        LabelSet(all.into())
    }

    /// The value of a label; empty: it has none of this name.
    pub fn get(&self, name: &str) -> &str {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name)).map_or("", |at| &self.0[at].1)
    }

    /// Bytes of all names and values.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// The labels without those about the metric itself, which no longer hold for a computed value.
    pub(crate) fn unnamed(&self) -> Self {
        self.without(&METADATA)
    }

    /// The labels without these, which are sorted.
    pub(crate) fn without<S: AsRef<str>>(&self, names: &[S]) -> Self {
        if !self.0.iter().any(|(name, _)| has(names, name)) {
            return self.clone();
        }
        LabelSet(self.0.iter().filter(|(name, _)| !has(names, name)).cloned().collect())
    }

    /// Only these labels, which are sorted.
    pub(crate) fn only<S: AsRef<str>>(&self, names: &[S]) -> Self {
        LabelSet(self.0.iter().filter(|(name, _)| has(names, name)).cloned().collect())
    }

    /// The same with another value of a label; without it if the value is empty.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut all: Vec<(Arc<str>, Arc<str>)> =
            self.0.iter().filter(|(known, _)| **known != *name).cloned().collect();
        if !value.is_empty() {
            let at = all.partition_point(|(known, _)| **known < *name);
            all.insert(at, (name.into(), value.into()));
        }
        LabelSet(all.into())
    }

    /// All labels in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

/// True if a name is one of these. They are sorted, since there may be thousands.
fn has<S: AsRef<str>>(names: &[S], name: &str) -> bool {
    names.binary_search_by(|known| known.as_ref().cmp(name)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_the_last_of_a_name_counts_and_empty_ones_are_not_there() {
        let labels = LabelSet::new([("b", "1"), ("a", "x"), ("b", "2"), ("c", ""), ("d", "1"), ("d", "")]);
        let all: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(all, [("a", "x"), ("b", "2")]);
        assert_eq!((labels.get("b"), labels.get("d"), labels.get("")), ("2", "", ""));
    }
}
