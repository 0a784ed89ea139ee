//! How every node is, looked up a few times a second however many ask: four thousand scrapes and sixty screens
//! share one look. It refuses to judge; up and down are the answerer's words.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use khz_model::{NodeStatus, Query};
use tokio::time::Instant;

/// A look serves for this long. A node counts as down after 3 s of silence: this adds little.
const AGE_MAX: Duration = Duration::from_millis(200);

/// The last look.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    last: Mutex<Option<(Instant, Arc<Vec<NodeStatus>>)>>,
}

impl Roster {
    /// How every node is, in name order, as seen at most [`AGE_MAX`] ago.
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
