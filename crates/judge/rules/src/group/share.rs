//! What is left of a rule for the hub when nodes judge it by themselves: the other nodes. Their samples come from a source that has
//! been narrowed to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use khz_promql::{LabelSet, Matcher, QueryError, Selection, Sink, Source};

use crate::alerts::NODE_LABEL;

/// Nodes up to which queries are narrowed to them. Of more, everything is asked for, and what others give is left out.
const NARROWED_MAX: usize = 64;

/// What is left of a rule for the hub.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// The nodes that judge it by themselves.
    pub judging: BTreeSet<Arc<str>>,
    /// The nodes that the hub judges; `None`: all others.
    pub left: Option<BTreeSet<Arc<str>>>,
}

impl Share {
    /// True if there is nothing to evaluate.
    pub(super) fn is_empty(&self) -> bool {
        self.left.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// A source with the samples of what is left, and perhaps more.
    pub(super) fn of<'a>(&self, source: &'a dyn Source) -> Left<'a> {
        let few = self.left.as_ref().filter(|left| left.len() <= NARROWED_MAX && !self.judging.is_empty());
        let matcher = few.and_then(|left| {
            let names: Vec<String> = left.iter().map(|name| regex::escape(name)).collect();
            Matcher::new(NODE_LABEL, "=~", &names.join("|"))?.ok()
        });
        Left { source, matcher }
    }
}

/// A source that is narrowed to some nodes.
pub(super) struct Left<'a> {
    source: &'a dyn Source,
    matcher: Option<Matcher>,
}

impl Source for Left<'_> {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        let Some(matcher) = &self.matcher else { return self.source.select(wanted, sink) };
        let mut narrowed = wanted.clone();
        narrowed.matchers.push(matcher.clone());
        self.source.select(&narrowed, sink)
    }

    fn series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError> {
        let all: Vec<Matcher> = matchers.iter().chain(&self.matcher).cloned().collect();
        self.source.series(&all, after, to, limit)
    }
}
