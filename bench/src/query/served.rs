//! A store behind the real HTTP door: what a hub has, without its nodes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use khz_http::{Door, JobDesk};
use khz_model::{
    Delivery, Interest, Metric, Nanos, NodeName, Pattern, Query, QueryError, RangeAnswer, RangeRequest,
    Ranges, Rate, Snapshot, Subscription, WaitFor,
};
use khz_store::range::RangeReader;

use crate::error::BenchError;
use crate::place::Pinned;
use crate::program::failed;

/// What a store remembers, as doors ask for it.
struct Stored {
    reader: RangeReader,
    nodes: Vec<NodeName>,
    metrics: Vec<Arc<Metric>>,
}

impl Query for Stored {
    fn nodes(&self) -> Vec<NodeName> {
        self.nodes.clone()
    }

    fn metrics(&self) -> Vec<Arc<Metric>> {
        self.metrics.clone()
    }

    fn rate_max(&self) -> Rate {
        Rate::from_hz(1).expect("BUG: 1 Hz is a rate")
    }

    fn latest<'a>(&'a self, _: &'a [Pattern], _: Nanos) -> WaitFor<'a, Result<Snapshot, QueryError>> {
        Box::pin(std::future::ready(Ok(Snapshot { nodes: Vec::new(), missing: Vec::new() })))
    }

    fn subscribe(&self, _: Interest) -> Result<Box<dyn Subscription>, QueryError> {
        Err(QueryError::NoMemory)
    }

    fn history_of(
        &self,
        _: &NodeName,
        _: &[Pattern],
        _: Nanos,
        _: usize,
    ) -> Result<Option<Delivery>, QueryError> {
        Ok(None)
    }

    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, QueryError> {
        self.reader.range(request)
    }
}

/// A door that answers until this is dropped.
pub struct Served {
    pub address: SocketAddr,
    close: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Serves a store on one core, its threads all on that of the others.
    pub fn start(
        reader: RangeReader,
        nodes: Vec<NodeName>,
        metrics: Vec<Arc<Metric>>,
    ) -> Result<Self, BenchError> {
        Served::with_jobs(reader, nodes, metrics, None)
    }

    /// The same with jobs of a batch system.
    pub fn with_jobs(
        reader: RangeReader,
        nodes: Vec<NodeName>,
        metrics: Vec<Arc<Metric>>,
        jobs: Option<JobDesk>,
    ) -> Result<Self, BenchError> {
        let (close, closing) = tokio::sync::oneshot::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let query = Arc::new(Stored { reader, nodes, metrics });
        let thread = std::thread::spawn(move || {
            let serve = async {
                let mut door = Door::new(query);
                door.jobs = jobs;
                door.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
                match door.bind().await {
                    Ok(bound) => {
                        let _ = sender.send(Ok(bound.local_addr()));
                        bound.serve(async { _ = closing.await }).await;
                    }
                    Err(error) => _ = sender.send(Err(failed("the door", error))),
                }
            };
            // The threads that the runtime starts inherit the place.
            let pinned = Pinned::here();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let (Ok(runtime), Ok(_pinned)) = (runtime, pinned) {
                runtime.block_on(serve);
            }
        });
        let address = receiver.recv().map_err(|_| failed("the door", "its thread has ended"))??;
        Ok(Served { address, close: Some(close), thread: Some(thread) })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.close.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
