//! Sends what a feed gives, request by request, to one receiver. What the receiver refuses is counted and dropped; what it
//! does not take now is sent again, later and later, up to once in some thirty seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use khz_model::Nanos;

use super::counts::Counts;
use super::feed::Feed;
use super::request::Request;

/// The first pause before a request is sent again.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest one.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The pause between two looks for new rows.
const IDLE: Duration = Duration::from_secs(1);

/// What a receiver says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has the samples.
    Taken,
    /// It will never take them: sending them again does not help.
    Refused(String),
    /// It does not take them now; it may have said for how long.
    Later(String, Option<Duration>),
}

/// Where requests go.
pub trait Receiver {
    /// Sends the bytes of a request.
    fn send(&mut self, packed: &[u8]) -> Answer;

    /// Something that people should know, at most one sentence.
    fn tell(&mut self, problem: &str);
}

/// Time and chance, from outside.
pub trait World {
    /// The wall clock.
    fn now(&self) -> Nanos;

    /// Waits for this long, or until the end.
    fn pause(&self, time: Duration);

    /// Some number between 0 and 1.
    fn chance(&self) -> f64;
}

/// Sends to one receiver.
pub struct Sender<R, W> {
    feed: Feed,
    receiver: R,
    world: W,
    counts: Arc<Counts>,
    is_over: Arc<AtomicBool>,
}

impl<R: Receiver, W: World> Sender<R, W> {
    /// Sends what the feed has, until `is_over`.
    pub fn new(feed: Feed, receiver: R, world: W, counts: Arc<Counts>, is_over: Arc<AtomicBool>) -> Self {
        Sender { feed, receiver, world, counts, is_over }
    }

    /// Runs until the end. What was not acknowledged then is sent after the next start.
    pub fn run(mut self) {
        while !self.is_over.load(Ordering::Acquire) {
            let Sender { feed, receiver, world, counts, is_over } = &mut self;
            let mut sent = true;
            let mut send = |request: &Request| {
                sent = deliver(request, receiver, world, counts, is_over);
                sent
            };
            let pass = feed.pass(world.now(), &mut send);
            if !sent {
                return;
            }
            pass.problems.iter().for_each(|problem| receiver.tell(problem));
            if let Err(error) = feed.save() {
                receiver.tell(&error.to_string());
            }
            if !pass.is_behind {
                world.pause(IDLE);
            }
        }
    }
}

/// Sends a request until the receiver takes or refuses it; false: the end came first.
fn deliver(
    request: &Request,
    receiver: &mut impl Receiver,
    world: &impl World,
    counts: &Counts,
    is_over: &AtomicBool,
) -> bool {
    let samples = request.samples() as u64;
    let packed = match request.pack() {
        Ok(packed) => packed,
        Err(error) => {
            receiver.tell(&error.to_string());
            Counts::add(&counts.refused, samples);
            return true;
        }
    };
    Counts::set(&counts.waiting, samples);
    let mut pause = PAUSE_MIN;
    let is_done = loop {
        if is_over.load(Ordering::Acquire) {
            break false;
        }
        match receiver.send(&packed) {
            Answer::Taken => {
                Counts::add(&counts.sent, samples);
                break true;
            }
            Answer::Refused(problem) => {
                Counts::add(&counts.refused, samples);
                receiver.tell(&format!("the receiver refuses {samples} samples: {problem}"));
                break true;
            }
            Answer::Later(problem, wish) => {
                Counts::add(&counts.retries, 1);
                receiver.tell(&format!("samples wait: {problem}"));
                counts.measure(world.now().0);
                // Many senders must not come back at one moment.
                let jittered = pause.mul_f64(0.5 + world.chance() / 2.0);
                world.pause(wish.map_or(jittered, |wish| wish.max(jittered).min(PAUSE_MAX)));
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    };
    Counts::set(&counts.waiting, 0);
    is_done
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Answers in this order; afterwards it takes everything.
    struct Scripted(Vec<Answer>, Vec<String>);

    impl Receiver for Scripted {
        fn send(&mut self, _: &[u8]) -> Answer {
            if self.0.is_empty() { Answer::Taken } else { self.0.remove(0) }
        }

        fn tell(&mut self, problem: &str) {
            self.1.push(problem.to_owned());
        }
    }

    /// Notes the pauses, and ends everything after some.
    struct Noted {
        pauses: RefCell<Vec<f64>>,
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
    }

    fn sent(answers: Vec<Answer>, last: usize, chance: f64) -> (bool, Vec<f64>, Arc<Counts>, Vec<String>) {
        let mut request = Request::default();
        request.add([("__name__", "up")], &[(1, 1.0), (2, 1.0)]);
        let (mut receiver, counts) = (Scripted(answers, Vec::new()), Arc::<Counts>::default());
        let is_over = Arc::<AtomicBool>::default();
        let world = Noted { pauses: RefCell::default(), is_over: is_over.clone(), last, chance };
        let done = deliver(&request, &mut receiver, &world, &counts, &is_over);
        (done, world.pauses.into_inner(), counts, receiver.1)
    }

    fn count(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }

    #[test]
    fn what_may_pass_is_sent_again_later_and_later_and_the_receiver_may_say_when() {
        let later = |wish| Answer::Later("status 503".into(), wish);
        let (done, pauses, counts, told) = sent(vec![later(None); 9], usize::MAX, 1.0);
        assert!(done);
        assert_eq!(pauses, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]);
        assert_eq!((count(&counts.sent), count(&counts.retries), count(&counts.waiting)), (2, 9, 0));
        assert_eq!(told[0], "samples wait: status 503");
        let (_, pauses, ..) = sent(vec![later(None); 2], usize::MAX, 0.0);
        assert_eq!(pauses, [0.25, 0.5], "many senders do not come at one moment");
        let wish = |seconds| later(Some(Duration::from_secs(seconds)));
        let (_, pauses, ..) = sent(vec![wish(7), wish(0), wish(4_000)], usize::MAX, 1.0);
        assert_eq!(pauses, [7.0, 1.0, 30.0]);
    }

    #[test]
    fn what_is_refused_is_counted_and_not_sent_again() {
        let (done, pauses, counts, told) =
            sent(vec![Answer::Refused("status 400: out of order".into())], 1, 1.0);
        assert!(done && pauses.is_empty());
        assert_eq!((count(&counts.sent), count(&counts.refused)), (0, 2));
        assert_eq!(told, ["the receiver refuses 2 samples: status 400: out of order"]);
    }

    #[test]
    fn the_end_does_not_wait_for_a_receiver_that_is_gone() {
        let (done, pauses, counts, _) = sent(vec![Answer::Later("gone".into(), None); 9], 3, 1.0);
        assert!(!done);
        assert_eq!((pauses.len(), count(&counts.sent), count(&counts.refused)), (3, 0, 0));
    }
}
