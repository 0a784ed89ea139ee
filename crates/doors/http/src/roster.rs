//! The state of every node, refreshed a few times a second at most, for any number of requests: four thousand
//! scrapes and sixty screens share one list. Decides nothing: the query says which nodes are up and down.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use khz_model::{NodeStatus, Query};
use tokio::time::Instant;

/// A list is used for this long. A node counts as down after 2.5 s of silence (`khz_link::limits::SILENCE`), to which this
/// adds little.
const AGE_MAX: Duration = Duration::from_millis(200);

/// The last list.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    last: Mutex<Option<(Instant, Arc<Vec<NodeStatus>>)>>,
}

impl Roster {
    /// The state of every node, in name order, at most [`AGE_MAX`] old.
    pub(crate) fn nodes(&self, query: &dyn Query) -> Arc<Vec<NodeStatus>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match &*last {
            Some((seen, nodes)) if now.duration_since(*seen) < AGE_MAX => Arc::clone(nodes),
            _ => {
                let nodes = Arc::new(query.status());
                *last = Some((now, Arc::clone(&nodes)));
                nodes
            }
        }
    }
}
