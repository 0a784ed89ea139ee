//! The answers of a node that has a store: the past out of the store, and everything else as without one.

use std::sync::Arc;

use khz_model::{
    Columns, Delivery, Forgotten, Interest, Look, Metric, Nanos, NodeName, NodeStatus, Pattern, Query,
    QueryError, RangeAnswer, RangeRequest, Ranges, Rate, Sample, Snapshot, Subscription, WaitFor, Wanted,
};

/// A query that also remembers.
pub struct Remembering {
    present: Arc<dyn Query>,
    past: Arc<dyn Ranges>,
}

impl Remembering {
    /// Answers about the present as this query does, and about the past with that.
    pub fn over(present: Arc<dyn Query>, past: Arc<dyn Ranges>) -> Arc<dyn Query> {
        Arc::new(Remembering { present, past })
    }
}

impl Query for Remembering {
    fn nodes(&self) -> Vec<NodeName> {
        self.present.nodes()
    }

    fn metrics(&self) -> Vec<Arc<Metric>> {
        self.present.metrics()
    }

    fn series(&self, node: &NodeName) -> Option<Arc<dyn Columns>> {
        self.present.series(node)
    }

    fn is_described(&self, node: &NodeName) -> bool {
        self.present.is_described(node)
    }

    fn rate_max(&self) -> Rate {
        self.present.rate_max()
    }

    fn latest<'a>(
        &'a self,
        patterns: &'a [Pattern],
        age_max: Nanos,
    ) -> WaitFor<'a, Result<Snapshot, QueryError>> {
        self.present.latest(patterns, age_max)
    }

    fn renew<'a>(&'a self, patterns: &'a [Pattern], age_max: Nanos) -> WaitFor<'a, ()> {
        self.present.renew(patterns, age_max)
    }

    fn look<'a>(&'a self, wanted: &Wanted, age_max: Nanos) -> Box<dyn Look + 'a> {
        self.present.look(wanted, age_max)
    }

    fn look_at<'a>(&'a self, patterns: &[Pattern], age_max: Nanos) -> Box<dyn Look + 'a> {
        self.present.look_at(patterns, age_max)
    }

    fn subscribe(&self, interest: Interest) -> Result<Box<dyn Subscription>, QueryError> {
        self.present.subscribe(interest)
    }

    fn history_of(
        &self,
        node: &NodeName,
        patterns: &[Pattern],
        span: Nanos,
        rows_max: usize,
    ) -> Result<Option<Delivery>, QueryError> {
        self.present.history_of(node, patterns, span, rows_max)
    }

    fn history(
        &self,
        patterns: &[Pattern],
        span: Nanos,
        rows_max: usize,
    ) -> Result<Vec<Delivery>, QueryError> {
        self.present.history(patterns, span, rows_max)
    }

    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, QueryError> {
        self.past.range(request)
    }

    fn status(&self) -> Vec<NodeStatus> {
        self.present.status()
    }

    fn forget(&self, nodes: &Pattern) -> Result<Forgotten, QueryError> {
        self.present.forget(nodes)
    }

    fn own(&self) -> Option<Vec<Sample>> {
        self.present.own()
    }
}
