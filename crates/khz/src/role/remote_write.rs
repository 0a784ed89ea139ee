//! Remote write as a daemon does it: a thread for each receiver, which reads the store as any query does. Neither the hub nor
//! the store's own threads know of it, so a receiver that is slow or gone costs them nothing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use khz_ask::{Post, PostAnswer};
use khz_model::metric::{Kind, Unit};
use khz_model::{Metric, Nanos, Repeats};
use khz_remote::write::{Answer, Counts, Cursors, Feed, Receiver, Sender, World};
use khz_store::range::RangeReader;

use crate::config::foreign::ForeignServer;
use crate::config::remote::RemoteWrite;
use crate::role::foreign::authorization;
use crate::role::store::now;
use crate::show::outcome::{Failure, sentence};

/// The folder of the cursors, below the store's.
const FOLDER: &str = "remote";
/// The threads that send. They end with this.
#[derive(Default)]
pub struct RemoteWriters {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    totals: Arc<Totals>,
}

impl RemoteWriters {
    /// Begins to send rows of the store in this folder. Cursors that are in use or damaged are errors, and so are files of
    /// secrets that cannot be read.
    pub fn start(
        &mut self,
        receivers: &[RemoteWrite],
        folder: &Path,
        reader: &RangeReader,
    ) -> Result<(), Failure> {
        for receiver in receivers {
            let failed =
                |problem: String| Failure::usage(format!("remote_write '{}': {problem}", receiver.name));
            let cursors = Cursors::open(&folder.join(FOLDER), &receiver.name, now());
            let cursors = cursors.map_err(|error| failed(sentence(&error)))?;
            let place = Place::new(receiver).map_err(&failed)?;
            let counts = Arc::<Counts>::default();
            self.totals.add(&counts);
            let feed = Feed::new(reader, cursors, receiver.settings.clone(), counts.clone());
            let world = Daemon { is_over: self.is_over.clone(), totals: self.totals.clone() };
            let sender = Sender::new(feed, place, world, counts, self.is_over.clone());
            let thread = std::thread::Builder::new().name("remote".into()).spawn(move || sender.run());
            let thread = thread.map_err(|error| Failure::work(format!("cannot start a thread: {error}")))?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// What they count, all of them together.
    pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        self.totals.metrics()
    }
}

/// What senders count, for the page of metrics.
#[cfg(test)]
pub fn metrics() -> Vec<(Metric, Arc<AtomicU64>)> {
    RemoteWriters::default().metrics()
}

impl Drop for RemoteWriters {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.threads.iter().map(JoinHandle::thread).for_each(Thread::unpark);
        // A request that is on its way may take as long as its timeout: nobody waits for it. What was not acknowledged is
        // sent after the next start.
    }
}

/// The counts of all senders together.
#[derive(Default)]
struct Totals {
    each: Mutex<Vec<Arc<Counts>>>,
    sent: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    late: Arc<AtomicU64>,
    retries: Arc<AtomicU64>,
    waiting: Arc<AtomicU64>,
    behind: Arc<AtomicU64>,
}

impl Totals {
    fn add(&self, counts: &Arc<Counts>) {
        self.each.lock().unwrap_or_else(PoisonError::into_inner).push(counts.clone());
    }

    /// Adds up what each has counted; of how far they are behind, the most.
    fn renew(&self) {
        let each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        type Count = fn(&Counts) -> &Arc<AtomicU64>;
        let sums: [(&Arc<AtomicU64>, Count); 5] = [
            (&self.sent, |counts| &counts.sent),
            (&self.refused, |counts| &counts.refused),
            (&self.late, |counts| &counts.late),
            (&self.retries, |counts| &counts.retries),
            (&self.waiting, |counts| &counts.waiting),
        ];
        for (total, count) in sums {
            total.store(
                each.iter().map(|counts| count(counts).load(Ordering::Relaxed)).sum(),
                Ordering::Relaxed,
            );
        }
        let behind = each.iter().map(|counts| counts.behind.load(Ordering::Relaxed)).max();
        self.behind.store(behind.unwrap_or(0), Ordering::Relaxed);
    }

    fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        use Kind::{Counter, Gauge};
        use Unit::{Count, Seconds};
        let metric = |name: &'static str, exposition: &'static str, help: &'static str, kind, unit| Metric {
            help: help.into(),
            ..Metric::plain(name, exposition, kind, unit)
        };
        vec![
            (
                metric(
                    "khz.remote_write.samples",
                    "khz_remote_write_samples_total",
                    "Samples that receivers of remote write have accepted.",
                    Counter,
                    Count,
                ),
                self.sent.clone(),
            ),
            (
                metric(
                    "khz.remote_write.refused",
                    "khz_remote_write_refused_total",
                    "Samples that receivers of remote write have refused for good.",
                    Counter,
                    Count,
                ),
                self.refused.clone(),
            ),
            (
                metric(
                    "khz.remote_write.rows_late",
                    "khz_remote_write_rows_late_total",
                    "Rows that came after later rows of their node were sent, and so were not sent.",
                    Counter,
                    Count,
                ),
                self.late.clone(),
            ),
            (
                metric(
                    "khz.remote_write.retries",
                    "khz_remote_write_retries_total",
                    "Requests of remote write that had to be sent again.",
                    Counter,
                    Count,
                ),
                self.retries.clone(),
            ),
            (
                metric(
                    "khz.remote_write.waiting",
                    "khz_remote_write_waiting",
                    "Samples of requests that receivers have not answered yet.",
                    Gauge,
                    Count,
                ),
                self.waiting.clone(),
            ),
            (
                metric(
                    "khz.remote_write.behind",
                    "khz_remote_write_behind_seconds",
                    "Age of the oldest rows that wait to be sent to some receiver.",
                    Gauge,
                    Seconds,
                ),
                self.behind.clone(),
            ),
        ]
    }
}

/// The clock, and pauses that end with the daemon.
struct Daemon {
    is_over: Arc<AtomicBool>,
    totals: Arc<Totals>,
}

impl World for Daemon {
    fn now(&self) -> Nanos {
        now()
    }

    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            self.totals.renew();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_over.load(Ordering::Acquire) {
                return;
            }
            std::thread::park_timeout(left.min(Duration::from_secs(1)));
        }
    }

    fn chance(&self) -> f64 {
        let mut bytes = [0; 4];
        // Without chance, pauses are only less spread.
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
    }
}

/// A receiver behind HTTP.
struct Place {
    name: String,
    post: Post,
    server: ForeignServer,
    begin: Instant,
    problems: Repeats,
}

impl Place {
    fn new(receiver: &RemoteWrite) -> Result<Self, String> {
        let server = receiver.server.clone();
        let post = Post::new(&server.url, server.files.clone(), server.timeout);
        let post = post.map_err(|error| sentence(&error))?;
        authorization(&server.login)?;
        Ok(Place {
            name: receiver.name.clone(),
            post,
            server,
            begin: Instant::now(),
            problems: Repeats::default(),
        })
    }
}

impl Receiver for Place {
    fn send(&mut self, packed: &[u8]) -> Answer {
        // Read each time: a secret may be changed while khz runs.
        let authorization = match authorization(&self.server.login) {
            Ok(authorization) => authorization,
            Err(problem) => return Answer::Later(problem, None),
        };
        let mut headers = vec![
            ("Content-Type", "application/x-protobuf"),
            ("Content-Encoding", "snappy"),
            ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ];
        headers.extend(self.server.headers.iter().map(|(name, value)| (&**name, &**value)));
        headers.extend(authorization.as_deref().map(|text| ("Authorization", text)));
        match self.post.send(&headers, packed) {
            Ok(answer) => meaning(&answer),
            Err(error) => Answer::Later(sentence(&error), None),
        }
    }

    fn tell(&mut self, problem: &str) {
        let now = Nanos(self.begin.elapsed().as_nanos() as u64);
        if let Some(times) = self.problems.happened(now) {
            tracing::warn!("remote_write '{}': {problem}{times}", self.name);
        }
    }
}

/// What an answer means for the request.
fn meaning(answer: &PostAnswer) -> Answer {
    let PostAnswer { status, retry_after, text } = answer;
    let problem = match text.is_empty() {
        true => format!("status {status}"),
        false => format!("status {status}: {text}"),
    };
    match status {
        200..=299 => Answer::Taken,
        // What is read and shown to a receiver is what the configuration says; another address must be written there.
        300..=399 => {
            Answer::Later(format!("it redirects ({problem}); write the other address into url"), None)
        }
        429 => Answer::Later(problem, *retry_after),
        400..=499 => Answer::Refused(problem),
        _ => Answer::Later(problem, *retry_after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_request_is_dropped_and_everything_that_may_pass_is_sent_again() {
        let answer = |status| {
            let after = Some(Duration::from_secs(7));
            meaning(&PostAnswer { status, retry_after: after, text: "why".into() })
        };
        for status in [200, 204] {
            assert_eq!(answer(status), Answer::Taken);
        }
        for status in [400, 401, 403, 404, 408, 409, 413, 422] {
            assert_eq!(answer(status), Answer::Refused(format!("status {status}: why")));
        }
        for status in [429, 500, 503] {
            let expected = Answer::Later(format!("status {status}: why"), Some(Duration::from_secs(7)));
            assert_eq!(answer(status), expected);
        }
        for status in [100, 301, 307, 600] {
            assert!(matches!(answer(status), Answer::Later(_, _)), "{status}");
        }
    }
}
