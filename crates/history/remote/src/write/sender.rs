//! Sends the requests of a feed to one receiver, while the next request is made. Refused samples are counted and dropped. If the
//! receiver does not accept a request now, it is retried at growing intervals, up to about thirty seconds.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver as Inbox, Sender as Outbox, channel};
use std::thread;
use std::time::Duration;

use khz_model::Nanos;

use super::counts::Counts;
use super::feed::Feed;
use super::parcel::Parcel;
use super::request::Request;
use crate::wire::Packer;

/// The first pause before a request is sent again.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest one.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The pause between two looks for new rows.
const IDLE: Duration = Duration::from_secs(1);
/// The number of requests in flight, each over its own connection. The receiver can process one while the other is on its way. One
/// more packed request is in memory, since the next one is made meanwhile.
pub const REQUESTS_AT_ONCE: usize = 2;
/// A receiver that finds requests too large gets none with fewer samples than this, unless single ones must be halved.
const SAMPLES_LEAST: usize = 100;

/// The most requests in a row that may be too large: enough to go from the largest request to a single series more than once. If
/// the receiver has accepted nothing by then, it has a wrong setting, and is retried at growing intervals. Nothing is lost
/// meanwhile.
const TOO_LARGE_MAX: usize = 32;

/// A receiver's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has the samples.
    Taken,
    /// It will never take them: sending them again does not help.
    Refused(String),
    /// The receiver accepts fewer samples at once.
    TooLarge(String),
    /// It does not take them now; it may have said for how long.
    Later(String, Option<Duration>),
}

/// Where requests go.
pub trait Receiver {
    /// Sends the bytes of a request.
    fn send(&mut self, packed: &[u8]) -> Answer;
}

/// The topic of a problem. Problems with the same topic are logged rarely, and do not hide those with another topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Samples wait.
    Waits,
    /// Samples are lost for the receiver.
    Refused,
    /// Rows cannot be read, or cursors not be written.
    Store,
}

/// Time, chance and people, from outside.
pub trait World {
    /// The wall clock.
    fn now(&self) -> Nanos;

    /// Waits for this long, or until the end.
    fn pause(&self, time: Duration);

    /// Some number between 0 and 1.
    fn chance(&self) -> f64;

    /// Something that people should know, at most one sentence.
    fn tell(&self, topic: Topic, problem: &str);
}

/// Sends to one receiver.
pub struct Sender<R, W> {
    feed: Feed,
    /// One receiver, over several connections.
    connections: [R; REQUESTS_AT_ONCE],
    world: W,
    counts: Arc<Counts>,
    is_over: Arc<AtomicBool>,
}

impl<R: Receiver + Send, W: World + Sync> Sender<R, W> {
    /// Sends what the feed has, until `is_over`.
    pub fn new(
        feed: Feed,
        connections: [R; REQUESTS_AT_ONCE],
        world: W,
        counts: Arc<Counts>,
        is_over: Arc<AtomicBool>,
    ) -> Self {
        Sender { feed, connections, world, counts, is_over }
    }

    /// Runs until the end. Samples that were not acknowledged by then are sent after the next start.
    pub fn run(self) {
        let Sender { mut feed, connections, world, counts, is_over } = self;
        let (samples_max, too_large) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        let deliveries = connections.map(|receiver| Delivery {
            receiver,
            world: &world,
            counts: &counts,
            is_over: &is_over,
            samples_max: &samples_max,
            too_large: &too_large,
        });
        thread::scope(|scope| {
            let mut courier = match Courier::start(scope, deliveries) {
                Ok(courier) => courier,
                Err(error) => return world.tell(Topic::Waits, &format!("cannot start a thread: {error}")),
            };
            while !is_over.load(Ordering::Acquire) {
                feed.limit_samples(samples_max.load(Ordering::Relaxed));
                let mut sent = true;
                let pass = feed.pass(world.now(), &mut |request: &Request| {
                    sent = courier.take(request, &world, &counts);
                    sent
                });
                // A series is in one request of a pass: each pass is delivered before the next begins.
                if !sent || !courier.finish() {
                    return;
                }
                pass.problems.iter().for_each(|problem| world.tell(Topic::Store, problem));
                if let Err(error) = feed.save() {
                    world.tell(Topic::Store, &error.to_string());
                }
                if !pass.is_behind {
                    world.pause(IDLE);
                }
            }
        });
    }
}

/// Packs requests, and hands each to a thread that delivers, as soon as one is free.
struct Courier {
    /// The inboxes of the threads.
    threads: Vec<Outbox<Parcel>>,
    done: Inbox<Done>,
    packer: Packer,
    /// Numbers of the threads that have nothing to deliver.
    idle: Vec<usize>,
    /// Parcels whose memory can be used again.
    free: Vec<Parcel>,
}

/// The result of a thread: its number, the parcel, and whether it goes on.
type Done = (usize, Parcel, bool);

impl Courier {
    /// Starts a thread for each delivery.
    fn start<'scope, R: Receiver + Send + 'scope, W: World + Sync + 'scope>(
        scope: &'scope thread::Scope<'scope, '_>,
        deliveries: impl IntoIterator<Item = Delivery<'scope, R, W>>,
    ) -> io::Result<Self> {
        let (outbox, done) = channel();
        let mut threads = Vec::new();
        for (number, mut delivery) in deliveries.into_iter().enumerate() {
            // Only an idle thread gets a parcel, so nothing waits in the channel.
            let ((orders, inbox), outbox) = (channel(), outbox.clone());
            let run = move || delivery.run(number, &inbox, &outbox);
            thread::Builder::new().name("remote send".into()).spawn_scoped(scope, run)?;
            threads.push(orders);
        }
        let idle = (0..threads.len()).collect();
        Ok(Courier { threads, done, packer: Packer::default(), idle, free: Vec::new() })
    }

    /// Packs a request, waits for a thread, and hands it over; false: the end has come.
    fn take(&mut self, request: &Request, world: &impl World, counts: &Counts) -> bool {
        let mut parcel = self.free.pop().unwrap_or_default();
        if let Err(error) = request.pack_into(&mut self.packer, &mut parcel) {
            world.tell(Topic::Refused, &error.to_string());
            Counts::add(&counts.refused, request.samples() as u64);
            self.free.push(parcel);
            return true;
        }
        if self.idle.is_empty() && !self.wait() {
            return false;
        }
        let thread = self.idle.pop().and_then(|number| self.threads.get(number));
        thread.is_some_and(|thread| thread.send(parcel).is_ok())
    }

    /// Waits until everything that was handed over is delivered; false: the end has come.
    fn finish(&mut self) -> bool {
        while self.idle.len() < self.threads.len() {
            if !self.wait() {
                return false;
            }
        }
        true
    }

    /// Waits until one more thread is idle; false: the end has come.
    fn wait(&mut self) -> bool {
        let Ok((number, parcel, goes_on)) = self.done.recv() else { return false };
        self.idle.push(number);
        self.free.push(parcel);
        goes_on
    }
}

/// Delivers parcels.
struct Delivery<'a, R, W> {
    receiver: R,
    world: &'a W,
    counts: &'a Counts,
    is_over: &'a AtomicBool,
    /// The most samples of a request that the receiver does not find too large, as far as is known.
    samples_max: &'a AtomicUsize,
    /// Requests in a row that were too large.
    too_large: &'a AtomicUsize,
}

impl<R: Receiver, W: World> Delivery<'_, R, W> {
    fn run(&mut self, number: usize, orders: &Inbox<Parcel>, outbox: &Outbox<Done>) {
        while let Ok(parcel) = orders.recv() {
            let goes_on = self.deliver(&parcel);
            if outbox.send((number, parcel, goes_on)).is_err() || !goes_on {
                return;
            }
        }
    }

    /// Sends a request until the receiver has taken or refused all of it; false: the end came first.
    fn deliver(&mut self, parcel: &Parcel) -> bool {
        Counts::add(&self.counts.waiting, parcel.samples as u64);
        let mut is_done = true;
        // Each half is halved again before the other one comes, so there are as many as halvings.
        let mut later: Vec<Parcel> = Vec::new();
        let mut halves = self.send(parcel);
        loop {
            match halves {
                Sent::End => is_done = false,
                Sent::Done => {}
                Sent::Halved(parts) => {
                    let [one, two] = *parts;
                    later.extend([two, one]);
                }
            }
            let Some(next) = later.pop().filter(|_| is_done) else { break };
            halves = self.send(&next);
        }
        Counts::subtract(&self.counts.waiting, parcel.samples as u64);
        is_done
    }

    /// The same, unless it is too large: then its halves come back.
    fn send(&mut self, parcel: &Parcel) -> Sent {
        let (counts, samples) = (self.counts, parcel.samples);
        let mut pause = PAUSE_MIN;
        loop {
            if self.is_over.load(Ordering::Acquire) {
                return Sent::End;
            }
            match self.receiver.send(&parcel.bytes) {
                Answer::Taken => {
                    self.too_large.store(0, Ordering::Relaxed);
                    Counts::add(&counts.sent, samples as u64);
                    return Sent::Done;
                }
                Answer::Refused(problem) => return self.refused(samples, &problem),
                Answer::TooLarge(problem) => {
                    self.samples_max.fetch_min((samples / 2).max(SAMPLES_LEAST), Ordering::Relaxed);
                    let is_everything = self.rest(&problem);
                    return match parcel.halves() {
                        Ok(Some(parts)) => Sent::Halved(Box::new(parts)),
                        Ok(None) if is_everything => continue,
                        Ok(None) => self.refused(samples, &problem),
                        Err(error) => self.refused(samples, &error.to_string()),
                    };
                }
                Answer::Later(problem, wish) => {
                    Counts::add(&counts.retries, 1);
                    self.world.tell(Topic::Waits, &format!("samples wait: {problem}"));
                    counts.measure(self.world.now().0);
                    let jittered = self.jittered(pause);
                    self.world.pause(wish.map_or(jittered, |wish| wish.max(jittered).min(PAUSE_MAX)));
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// A request was too large. Waits if all of the last ones were; then true.
    fn rest(&self, problem: &str) -> bool {
        let in_vain = self.too_large.fetch_add(1, Ordering::Relaxed).saturating_sub(TOO_LARGE_MAX);
        if in_vain == 0 {
            return false;
        }
        Counts::add(&self.counts.retries, 1);
        self.world.tell(Topic::Waits, &format!("samples wait: every request is too large: {problem}"));
        self.counts.measure(self.world.now().0);
        let doublings = u32::try_from(in_vain - 1).unwrap_or(u32::MAX).min(16);
        let pause = PAUSE_MIN.saturating_mul(1 << doublings).min(PAUSE_MAX);
        self.world.pause(self.jittered(pause));
        true
    }

    /// Many senders must not come back at one moment.
    fn jittered(&self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + self.world.chance() / 2.0)
    }

    fn refused(&self, samples: usize, problem: &str) -> Sent {
        Counts::add(&self.counts.refused, samples as u64);
        self.world.tell(Topic::Refused, &format!("the receiver refuses {samples} samples: {problem}"));
        Sent::Done
    }
}

/// What came of a request.
enum Sent {
    /// It was taken or refused.
    Done,
    /// These are to be sent instead of it.
    Halved(Box<[Parcel; 2]>),
    /// The end came first.
    End,
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::message::{TimeSeries, WriteRequest};

    /// Answers in this order; afterwards it takes everything. Has the series that it has taken.
    struct Scripted(Vec<Answer>, Vec<TimeSeries>);

    impl Receiver for Scripted {
        fn send(&mut self, packed: &[u8]) -> Answer {
            let answer = if self.0.is_empty() { Answer::Taken } else { self.0.remove(0) };
            if answer == Answer::Taken {
                self.1.extend(WriteRequest::unpack(packed).unwrap().timeseries);
            }
            answer
        }
    }

    /// Notes the pauses, and ends everything after some.
    struct Noted {
        pauses: RefCell<Vec<f64>>,
        told: RefCell<Vec<String>>,
        is_over: Arc<AtomicBool>,
        last: usize,
        chance: f64,
    }

    impl World for Noted {
        fn now(&self) -> Nanos {
            Nanos::from_secs(self.pauses.borrow().len() as u64)
        }

        fn pause(&self, time: Duration) {
            self.pauses.borrow_mut().push(time.as_secs_f64());
            self.is_over.store(self.pauses.borrow().len() == self.last, Ordering::Release);
        }

        fn chance(&self) -> f64 {
            self.chance
        }

        fn tell(&self, _: Topic, problem: &str) {
            self.told.borrow_mut().push(problem.to_owned());
        }
    }

    /// What has come of a request with three series.
    struct Outcome {
        is_done: bool,
        pauses: Vec<f64>,
        counts: Counts,
        told: Vec<String>,
        taken: Vec<String>,
        samples_max: usize,
    }

    fn sent(answers: Vec<Answer>, last: usize, chance: f64) -> Outcome {
        let mut request = Request::default();
        for name in ["a", "b", "c"] {
            request.add([("__name__", name)], &[(1, 1.0), (2, 1.0)]);
        }
        let mut parcel = Parcel::default();
        request.pack_into(&mut Packer::default(), &mut parcel).unwrap();
        let counts = Counts::default();
        let (is_over, samples_max) = (Arc::<AtomicBool>::default(), AtomicUsize::new(usize::MAX));
        let too_large = AtomicUsize::new(0);
        let (pauses, told) = (RefCell::default(), RefCell::default());
        let world = Noted { pauses, told, is_over: is_over.clone(), last, chance };
        let mut delivery = Delivery {
            receiver: Scripted(answers, Vec::new()),
            world: &world,
            counts: &counts,
            is_over: &is_over,
            samples_max: &samples_max,
            too_large: &too_large,
        };
        // As often as it takes until all answers are given.
        let mut is_done = delivery.deliver(&parcel);
        while is_done && !delivery.receiver.0.is_empty() {
            is_done = delivery.deliver(&parcel);
        }
        let taken = delivery.receiver.1;
        Outcome {
            is_done,
            pauses: world.pauses.into_inner(),
            told: world.told.into_inner(),
            taken: taken.into_iter().map(|series| series.labels[0].value.clone()).collect(),
            samples_max: samples_max.into_inner(),
            counts,
        }
    }

    fn count(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }

    #[test]
    fn what_may_pass_is_sent_again_later_and_later_and_the_receiver_may_say_when() {
        let later = |wish| Answer::Later("status 503".into(), wish);
        let done = sent(vec![later(None); 9], usize::MAX, 1.0);
        assert!(done.is_done);
        assert_eq!(done.pauses, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]);
        let Counts { sent: accepted, retries, waiting, .. } = &done.counts;
        assert_eq!((count(accepted), count(retries), count(waiting)), (6, 9, 0));
        assert_eq!(done.told[0], "samples wait: status 503");
        let done = sent(vec![later(None); 2], usize::MAX, 0.0);
        assert_eq!(done.pauses, [0.25, 0.5], "many senders do not come at one moment");
        let wish = |seconds| later(Some(Duration::from_secs(seconds)));
        let done = sent(vec![wish(7), wish(0), wish(4_000)], usize::MAX, 1.0);
        assert_eq!(done.pauses, [7.0, 1.0, 30.0]);
    }

    #[test]
    fn what_is_refused_is_counted_and_not_sent_again() {
        let done = sent(vec![Answer::Refused("status 400: out of order".into())], 1, 1.0);
        assert!(done.is_done && done.pauses.is_empty());
        assert_eq!((count(&done.counts.sent), count(&done.counts.refused)), (0, 6));
        assert_eq!(done.told, ["the receiver refuses 6 samples: status 400: out of order"]);
    }

    #[test]
    fn what_is_too_large_is_halved_in_its_order_until_it_is_taken_or_is_one_series() {
        let large = || Answer::TooLarge("status 413".into());
        let done = sent(vec![large()], 1, 1.0);
        assert_eq!(done.taken, ["a", "b", "c"]);
        assert_eq!((count(&done.counts.sent), count(&done.counts.refused)), (6, 0));
        assert_eq!(done.samples_max, SAMPLES_LEAST, "later requests are smaller from the start");
        // The first half is one series already: it is refused, and the rest goes on.
        let done = sent(vec![large(), large(), large()], 1, 1.0);
        assert_eq!(done.taken, ["b", "c"]);
        assert_eq!((count(&done.counts.sent), count(&done.counts.refused)), (4, 2));
        assert_eq!(done.told, ["the receiver refuses 2 samples: status 413"]);
    }

    #[test]
    fn a_receiver_that_finds_everything_too_large_is_asked_later_and_later_until_it_takes_something() {
        let mut answers = vec![Answer::TooLarge("status 413".into()); TOO_LARGE_MAX + 9];
        answers.extend([Answer::Taken, Answer::TooLarge("status 413".into())]);
        let done = sent(answers, usize::MAX, 1.0);
        assert_eq!(done.pauses, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert!(done.is_done && count(&done.counts.sent) > 0);
        assert_eq!(count(&done.counts.retries), 8, "each of them counts as a request that is sent again");
    }

    #[test]
    fn the_end_does_not_wait_for_a_receiver_that_is_gone() {
        let done = sent(vec![Answer::Later("gone".into(), None); 9], 3, 1.0);
        assert!(!done.is_done);
        assert_eq!((done.pauses.len(), count(&done.counts.sent), count(&done.counts.refused)), (3, 0, 0));
    }
}
