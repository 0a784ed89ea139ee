//! Runs what reads samples: on a thread of its own kind, few at a time, not longer than the request may take, and not longer
//! than its client waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use khz_door::Caller;
use khz_job::{Jobs, Viewer};
use khz_model::{
    Nanos, Query, QueryError as RangeError, RangeAnswer, RangePart, RangeRequest, Ranges, Reach,
};
use khz_past::{JobJoin, Known, PastSource};
use khz_promql::{Engine, LabelSet, Limits, Matcher, QueryError, Selection, Sink, Source};
use tokio::task::spawn_blocking;
use tokio::time::{timeout, timeout_at};

use crate::prometheus::failure::Failure;
use crate::prometheus::line::{self, Client};
use crate::routes::App;

/// When to stop: nobody waits any more, or the time is over.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    is_left: Arc<AtomicBool>,
    deadline: Instant,
    /// The most bytes that the work has held.
    held: Arc<AtomicUsize>,
}

impl Stop {
    /// Fails if it is time to stop.
    pub fn check(&self) -> Result<(), QueryError> {
        if self.is_left.load(Ordering::Relaxed) {
            return Err(QueryError::Cancelled);
        }
        match Instant::now() < self.deadline {
            true => Ok(()),
            false => Err(timed_out()),
        }
    }

    /// The time that the work has left: it has waited for its turn.
    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Where the work writes the most bytes that it has held.
    pub fn held(&self) -> Arc<AtomicUsize> {
        self.held.clone()
    }

    /// The work has held this many bytes.
    pub fn has_held(&self, bytes: usize) {
        self.held.fetch_max(bytes, Ordering::Relaxed);
    }

    /// An engine that stops when it is time to.
    pub fn engine(&self, limits: Limits) -> Engine {
        let limits = Limits { time: limits.time.min(self.time_left()), ..limits };
        Engine::new(limits).cancelled_by(self.is_left()).counting_in(self.held())
    }

    /// Set when nobody waits any more.
    fn is_left(&self) -> Arc<AtomicBool> {
        self.is_left.clone()
    }
}

fn timed_out() -> QueryError {
    QueryError::Timeout("query timed out in expression evaluation".to_owned())
}

/// Sets the flag when the request that waits is dropped.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Who asks, when (ms since 1970), and how long the answer may take.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub client: Client,
    /// The caller, who may not see all jobs.
    pub caller: Option<Caller>,
    pub now: i64,
    pub time: Duration,
}

/// Works on the samples of the nodes; waits for a turn first. Work that takes too long for the place for short queries is stopped,
/// and begins again at another place.
pub(crate) async fn evaluate<T: Send + 'static>(
    app: &Arc<App>,
    asked: Asked,
    work: impl Fn(&dyn Source, &Stop) -> Result<T, QueryError> + Send + Sync + 'static,
) -> Result<T, Failure> {
    let deadline = Instant::now() + asked.time;
    let now = Nanos(u64::try_from(asked.now).unwrap_or(0).saturating_mul(1_000_000));
    let work = Arc::new(work);
    let jobs = jobs(app, asked.caller.as_ref());
    let mut tries = 0;
    loop {
        let stop = Stop { is_left: Arc::default(), deadline, held: Arc::default() };
        let _waiting = Waiting(stop.is_left.clone());
        let turn = timeout_at(deadline.into(), app.queries.turn(asked.client, tries)).await;
        let turn = turn.map_err(|_| QueryError::Timeout("query timed out in query queue".to_owned()))?;
        let turn = Arc::new(turn);
        let mut running = spawn_blocking({
            let (query, job, stop, jobs) = (app.query.clone(), app.job.clone(), stop.clone(), jobs.clone());
            let (work, turn, tide) = (Arc::clone(&work), Arc::clone(&turn), Arc::clone(&app.tide));
            move || {
                let _turn = turn;
                let source = Stoppable::new(query, job.clone(), now, stop.clone());
                let answer = work(&JobJoin::new(source, jobs, job, asked.now), &stop);
                // Also where there is no answer, or a short one.
                tide.ebbs(stop.held.load(Ordering::Relaxed) as u64);
                let answer = answer?;
                stop.check()?;
                Ok::<T, QueryError>(answer)
            }
        });
        if let Some(time) = line::time(tries).filter(|_| turn.is_short()) {
            let ended = timeout(time, &mut running).await;
            match ended {
                Ok(ended) => return Ok(ended.map_err(|_| Failure::closing())??),
                Err(_) if !turn.stays() => {
                    tries += 1;
                    stop.is_left.store(true, Ordering::Relaxed);
                }
                Err(_) => {}
            }
        }
        match running.await.map_err(|_| Failure::closing())? {
            Err(QueryError::Cancelled) if stop.is_left.load(Ordering::Relaxed) => {}
            ended => return Ok(ended?),
        }
    }
}

/// The jobs that a caller may see; without a caller, none.
pub(super) fn jobs(app: &App, caller: Option<&Caller>) -> Option<(Arc<Jobs>, Viewer)> {
    let desk = app.jobs.as_ref()?;
    Some((Arc::clone(&desk.jobs), desk.viewer(caller?)))
}

/// A source that stops when it is time to: at each part that it reads.
struct Stoppable {
    source: PastSource,
    stop: Stop,
}

impl Stoppable {
    fn new(query: Arc<dyn Query>, job: Arc<str>, now: Nanos, stop: Stop) -> Self {
        let known = Known::of(query.clone(), job, now);
        let ranges = StoppableRanges { query, stop: stop.clone() };
        Stoppable { source: PastSource::new(Arc::new(ranges), known), stop }
    }

    /// What a range cannot say: why it stopped.
    fn explained<T>(&self, answer: Result<T, QueryError>) -> Result<T, QueryError> {
        answer.map_err(|error| self.stop.check().err().unwrap_or(error))
    }
}

impl Source for Stoppable {
    fn select(&self, wanted: &Selection, sink: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
        self.stop.check()?;
        self.explained(self.source.select(wanted, sink))
    }

    fn series(
        &self,
        matchers: &[Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), QueryError> {
        self.stop.check()?;
        self.explained(self.source.series(matchers, after, to, limit))
    }
}

struct StoppableRanges {
    query: Arc<dyn Query>,
    stop: Stop,
}

impl Ranges for StoppableRanges {
    fn reach(&self) -> Reach {
        self.query.reach()
    }

    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, RangeError> {
        let answer = self.query.range(request)?;
        Ok(Box::new(StoppableAnswer { answer, stop: self.stop.clone() }))
    }
}

struct StoppableAnswer {
    answer: Box<dyn RangeAnswer>,
    stop: Stop,
}

impl RangeAnswer for StoppableAnswer {
    fn next(&mut self) -> Result<Option<RangePart>, RangeError> {
        match self.stop.check() {
            Ok(()) => self.answer.next(),
            Err(_) => Err(RangeError::Stopped),
        }
    }

    fn width(&self) -> Option<Nanos> {
        self.answer.width()
    }

    fn damage(&mut self) -> Vec<String> {
        self.answer.damage()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No series.
    struct Nothing;

    impl Source for Nothing {
        fn select(&self, _: &Selection, _: &mut dyn Sink) -> Result<Vec<String>, QueryError> {
            Ok(Vec::new())
        }

        fn series(
            &self,
            _: &[Matcher],
            _: i64,
            _: i64,
            _: usize,
        ) -> Result<(Vec<LabelSet>, bool), QueryError> {
            Ok((Vec::new(), false))
        }
    }

    #[test]
    fn the_time_of_a_query_includes_its_wait() {
        let limits = Limits { time: Duration::from_secs(100), ..Limits::default() };
        let asked = |waited: Duration| {
            let deadline = Instant::now() + limits.time - waited;
            let stop = Stop { is_left: Arc::default(), deadline, held: Arc::default() };
            stop.engine(limits).query(&Nothing, "sum_over_time(vector(1)[1h:1s])", 0).map(|_| ())
        };
        assert_eq!(asked(Duration::ZERO), Ok(()));
        assert!(matches!(asked(limits.time), Err(QueryError::Timeout(_))));
    }
}
