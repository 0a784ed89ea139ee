//! The hub's stored samples, for a template of an alert that a node has judged. The source is made only when a template asks: few
//! do, and a thousand nodes may fire at once.

use std::sync::{Arc, OnceLock};

use khz_model::{Nanos, Query};
use khz_past::PastSource;
use khz_promql::{LabelSet, Matcher, QueryError, Selection, Sink, Source};

/// The stored samples, made when somebody asks.
pub(super) struct Asked {
    query: Arc<dyn Query>,
    job: Arc<str>,
    now: Nanos,
    source: OnceLock<PastSource>,
}

impl Asked {
    /// At this time (ms since 1970).
    pub fn new(query: Arc<dyn Query>, job: Arc<str>, time: i64) -> Self {
        let now = Nanos(time.max(0).unsigned_abs().saturating_mul(1_000_000));
        Asked { query, job, now, source: OnceLock::new() }
    }

    fn source(&self) -> &PastSource {
        self.source.get_or_init(|| PastSource::of(self.query.clone(), self.job.clone(), self.now))
    }
}

impl Source for Asked {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        self.source().select(wanted, sink)
    }

    fn series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError> {
        self.source().series(matchers, after, to, limit)
    }
}
