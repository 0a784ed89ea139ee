//! The labels of a series of a step, the name among them, sorted by name.

use std::fmt;
use std::sync::Arc;

use crate::plan::Grouping;

/// The label that is the metric's name.
pub const METRIC_NAME: &str = "__name__";

/// The label of a result of a rule, on its way from a node to the hub, that has its metric's name: labels of nodes cannot have the
/// name of Prometheus' own one.
pub const RULE_METRIC: &str = "khz_rule_metric";

/// Labels, each name once; none of them is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelSet(Arc<[(Arc<str>, Arc<str>)]>);

impl LabelSet {
    /// The set of these labels. If several have the same name, the first one counts.
    pub fn new<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut all: Vec<(Arc<str>, Arc<str>)> = labels
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        all.sort_by(|one, two| one.0.cmp(&two.0));
        all.dedup_by(|later, first| later.0 == first.0);
        LabelSet(all.into())
    }

    /// The value of a label, or nothing.
    pub fn get(&self, name: &str) -> &str {
        let place = self.0.binary_search_by(|(known, _)| (**known).cmp(name));
        place.map_or("", |place| &self.0[place].1)
    }

    /// True without labels and name.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Those without the name.
    pub(crate) fn unnamed(&self) -> Self {
        self.keep(|name| name != METRIC_NAME)
    }

    /// Those by which a group is formed.
    pub(crate) fn group(&self, grouping: &Grouping) -> Self {
        let is_listed = |name: &str| grouping.labels.iter().any(|label| label == name);
        match grouping.is_without {
            true => self.keep(|name| name != METRIC_NAME && !is_listed(name)),
            false => self.keep(is_listed),
        }
    }

    /// Those without some.
    pub(crate) fn without(&self, names: &[String]) -> Self {
        self.keep(|name| !names.iter().any(|label| label == name))
    }

    /// These, with some labels as another set has them.
    pub(crate) fn with(&self, names: &[String], other: &LabelSet) -> Self {
        let taken = names.iter().map(|name| (name.as_str(), other.get(name)));
        let own = self.iter().filter(|(name, _)| !names.iter().any(|taken| taken == name));
        LabelSet::new(taken.chain(own).collect::<Vec<_>>())
    }

    fn keep(&self, is_kept: impl Fn(&str) -> bool) -> Self {
        LabelSet(self.0.iter().filter(|(name, _)| is_kept(name)).cloned().collect())
    }
}

impl fmt::Display for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.iter().filter(|(name, _)| *name != METRIC_NAME);
        write!(f, "{}{{", self.get(METRIC_NAME))?;
        for (number, (name, value)) in others.enumerate() {
            write!(f, "{}{name}={value:?}", if number > 0 { "," } else { "" })?;
        }
        write!(f, "}}")
    }
}
