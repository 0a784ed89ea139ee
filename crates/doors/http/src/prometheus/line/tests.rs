//! The line with queries whose times are made up.

use super::*;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

fn client(number: u8) -> Client {
    Client(Some(IpAddr::from([192, 0, 2, number])))
}

fn poll(turn: Pin<&mut impl Future<Output = Turn>>) -> Option<Turn> {
    match turn.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(turn) => Some(turn),
        Poll::Pending => None,
    }
}

/// The turn that somebody gets at once.
fn at_once(line: &Arc<Line>, client: Client, tries: usize) -> Option<Turn> {
    poll(pin!(line.turn(client, tries)))
}

#[test]
fn one_client_leaves_a_place_for_others_and_one_for_short_queries() {
    let line = Arc::new(Line::default());
    let long: Vec<Turn> = (0..4).filter_map(|_| at_once(&line, client(1), QUERY_TURNS.len())).collect();
    assert_eq!(long.len(), QUERIES_OF_A_CLIENT_MAX);
    let other = at_once(&line, client(2), QUERY_TURNS.len()).expect("a place for another client");
    assert!(at_once(&line, client(3), QUERY_TURNS.len()).is_none(), "every place for long queries is taken");
    let short = at_once(&line, client(1), 0).expect("the place for short queries");
    assert!(short.is_short() && !other.is_short() && !short.stays());
    assert!(at_once(&line, client(3), 0).is_none());
    drop(short);
    let short = at_once(&line, client(3), 0).expect("it is free again");
    drop(other);
    assert!(short.stays() && !short.is_short(), "it takes the place that became free");
    assert!(at_once(&line, client(1), 0).is_some());
}

#[test]
fn the_next_place_is_for_the_client_that_has_the_fewest_and_waits_longest() {
    let line = Arc::new(Line::default());
    let mut held: Vec<Turn> = [1, 1, 2].map(|n| at_once(&line, client(n), QUERY_TURNS.len()).unwrap()).into();
    let (mut one, mut two, mut three, mut four) = (
        Box::pin(line.turn(client(1), QUERY_TURNS.len())),
        Box::pin(line.turn(client(2), QUERY_TURNS.len())),
        Box::pin(line.turn(client(3), QUERY_TURNS.len())),
        Box::pin(line.turn(client(4), QUERY_TURNS.len())),
    );
    assert!(
        [&mut one, &mut two, &mut three, &mut four].into_iter().all(|turn| poll(turn.as_mut()).is_none())
    );
    drop(three);
    drop(held.remove(0));
    let fourth = poll(four.as_mut()).expect("it has none, and the third has left");
    assert!(poll(one.as_mut()).is_none() && poll(two.as_mut()).is_none());
    drop(held.pop());
    assert!(poll(two.as_mut()).is_some(), "client 2 has none any more, and client 1 has one");
    drop(fourth);
    assert!(poll(one.as_mut()).is_some());
}

/// A query with a made-up cost.
struct Job {
    client: Client,
    cost: Duration,
    came: Instant,
    tries: usize,
    /// While it is in the line.
    waits: Option<oneshot::Receiver<Turn>>,
}

/// What happens to a query that has a place, and when.
struct Event {
    at: Instant,
    job: Job,
    place: Place,
    /// It needs this much more.
    rest: Duration,
}

/// The line in a time that is made up, as `evaluate` uses it.
struct Simulation {
    line: State,
    now: Instant,
    waiting: Vec<Job>,
    running: Vec<Event>,
}

impl Simulation {
    fn new() -> Self {
        Simulation { line: State::default(), now: Instant::now(), waiting: Vec::new(), running: Vec::new() }
    }

    fn comes(&mut self, client: Client, cost: Duration) {
        self.stands_in_line(Job { client, cost, came: self.now, tries: 0, waits: None });
    }

    fn stands_in_line(&mut self, mut job: Job) {
        let (tell, told) = oneshot::channel();
        self.line.waiting.push_back(Waiter { client: job.client, tries: job.tries, since: self.now, tell });
        job.waits = Some(told);
        self.waiting.push(job);
    }

    /// Gives free places to those who wait.
    fn gives(&mut self) {
        while let Some((waiter, place)) = self.line.next(self.now) {
            drop(waiter);
            let is_next = |job: &mut Job| {
                let told = job.waits.as_mut().unwrap().try_recv();
                matches!(told, Err(oneshot::error::TryRecvError::Closed))
            };
            let at = self.waiting.iter_mut().position(is_next).unwrap();
            let mut job = self.waiting.swap_remove(at);
            job.waits = None;
            let rest = job.cost;
            let held = if place == Place::Short { rest.min(time(job.tries).unwrap()) } else { rest };
            self.running.push(Event { at: self.now + held, rest: rest - held, job, place });
        }
    }

    /// The next query that has ended; `None`: nothing ends before this time, which it is now.
    fn ends(&mut self, before: Instant) -> Option<Job> {
        loop {
            self.gives();
            let first = (0..self.running.len()).min_by_key(|&at| self.running[at].at);
            let Some(first) = first.filter(|&first| self.running[first].at <= before) else {
                self.now = before;
                return None;
            };
            let Event { at, mut job, place, rest } = self.running.swap_remove(first);
            self.now = at;
            let may_stay = self.line.has_place(job.client);
            self.line.free(job.client, place);
            if rest.is_zero() {
                return Some(job);
            }
            if may_stay {
                self.line.take(job.client, Place::Any, self.now);
                self.running.push(Event {
                    at: self.now + rest,
                    rest: Duration::ZERO,
                    job,
                    place: Place::Any,
                });
            } else {
                job.tries += 1;
                self.stands_in_line(job);
            }
        }
    }
}

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// The longest wait of queries that take 5 ms, each of an address that asks nothing else, beside 30 addresses that always ask two
/// queries with these costs, and ask the next one when one is answered.
fn waits_beside(costs: impl Fn(usize) -> Duration) -> Duration {
    let mut simulation = Simulation::new();
    let begin = simulation.now;
    let mut asked = 0;
    let mut cost = || {
        asked += 1;
        costs(asked)
    };
    for number in (0..30).chain(0..30) {
        simulation.comes(client(number), cost());
    }
    let (mut longest, mut answered) = (Duration::ZERO, 0);
    for round in 0..100 {
        simulation.comes(client(100 + round), ms(5));
        while let Some(job) = simulation.ends(begin + ms(1_700) * (u32::from(round) + 1)) {
            if job.client.0 < client(100).0 {
                simulation.comes(job.client, cost());
            } else {
                longest = longest.max(simulation.now - job.came - job.cost);
                answered += 1;
            }
        }
    }
    assert!(answered >= 98, "{answered} of 100 have an answer");
    longest
}

#[test]
fn a_short_query_waits_little_beside_many_others_of_other_addresses() {
    // The turn that has begun, and one turn of each other address (docs/limits.md).
    let most = QUERY_TURNS[2] + QUERY_TURNS[0] * 30;
    for (name, longest) in [
        ("long", waits_beside(|_| ms(20_000))),
        ("of a second", waits_beside(|_| ms(1_000))),
        ("of 400 ms", waits_beside(|_| ms(400))),
        ("of all lengths", waits_beside(|number| ms([3, 20, 90, 110, 300, 700, 2_000, 60_000][number % 8]))),
    ] {
        assert!(longest <= most, "beside queries {name}: {longest:?}");
    }
}

#[test]
fn an_address_that_floods_the_line_with_short_queries_keeps_nobody_waiting() {
    let mut simulation = Simulation::new();
    let begin = simulation.now;
    // The places for any query are taken for two minutes.
    for number in [1, 1, 2] {
        simulation.comes(client(number), ms(120_000));
    }
    for number in 3..6 {
        (0..100).for_each(|_| simulation.comes(client(number), ms(5)));
    }
    simulation.comes(client(100), ms(400));
    let mut answered = 0;
    while let Some(job) = simulation.ends(begin + ms(100_000)) {
        answered += 1;
        if job.client == client(100) {
            let waited = simulation.now - job.came;
            assert!(waited <= ms(4_000), "{waited:?}, {answered} others");
            return;
        }
        simulation.comes(job.client, ms(5));
    }
    panic!("no answer beside {answered} others");
}
