//! A client: the latest values on request, and values as they come.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;
use khz_follow::{Subscriber, Subscriptions};
use khz_link::driver::FollowingError;
use khz_model::{ChannelName, ChannelTerms, Interest, NameError, Pattern, QuantityError, Rate};

use crate::access::{Access, AccessError};
use crate::condition::Condition;
use crate::event::{Event, Value};
use crate::own::{OwnFollower, OwnNode};
use crate::page::Page;
use crate::queue::Queue;
use crate::router::{Route, Router};

/// How long to wait for an answer: an agent that has just started sends its first row within two seconds.
const ANSWER_MAX: Duration = Duration::from_secs(4);
/// When no further series has come for this long, all nodes have answered: flushes are 100 ms apart. It serves patterns that do
/// not name their nodes.
const QUIET: Duration = Duration::from_millis(400);

/// Why a client cannot do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no way to a hub.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The system cannot start a thread for the link.
    #[error("cannot start the link: {0}")]
    Link(#[from] std::io::Error),
    /// A pattern does not parse.
    #[error(transparent)]
    Pattern(#[from] NameError),
    /// A rate does not parse.
    #[error(transparent)]
    Rate(#[from] QuantityError),
    /// Too many subscriptions at once.
    #[error(transparent)]
    Interest(#[from] FollowingError),
    /// The hub refuses the request.
    #[error("the hub refuses: {0}")]
    Refused(String),
    /// No hub is connected.
    #[error("no answer: {0}")]
    Down(String),
    /// The patterns select other nodes, but this client knows only its own.
    #[error("only {node} is known here: its agent runs on this machine, and no hub does; name a hub")]
    OwnOnly {
        /// The client's own node.
        node: String,
    },
}

/// What to subscribe to.
///
/// ```
/// use khz_client::{Condition, Selection};
///
/// let selection = Selection::new(["node[1-8]:load.1m"])?
///     .rate("10Hz")?
///     .when(Condition::ChangedBy("0.5".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Selection {
    interest: Interest,
    prompt: bool,
    condition: Condition,
}

impl Selection {
    /// The series of these patterns, once a second.
    ///
    /// # Errors
    /// A pattern does not parse.
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, NameError> {
        let patterns: Result<_, _> = patterns.into_iter().map(|text| Pattern::new(text.as_ref())).collect();
        let interest = Interest::new(patterns?, once_a_second(), false);
        Ok(Selection { interest, prompt: false, condition: Condition::Always })
    }

    /// At this rate: `10Hz`, `5s`.
    ///
    /// # Errors
    /// The rate does not parse.
    pub fn rate(mut self, rate: &str) -> Result<Self, QuantityError> {
        self.interest.rate = rate.parse()?;
        Ok(self)
    }

    /// At exactly that rate, even where the kernel's numbers change more slowly.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.interest.exact = true;
        self
    }

    /// Each row at once, instead of in flushes of up to ten rows or 100 ms.
    #[must_use]
    pub fn prompt(mut self) -> Self {
        self.prompt = true;
        self
    }

    /// The rows of the channel that the hub keeps under this name: `khz channel list` shows them. Patterns and rate are the channel's
    /// own. Each row comes at once.
    ///
    /// # Errors
    /// The name is none of a channel.
    pub fn channel(name: &str) -> Result<Self, NameError> {
        let terms = ChannelTerms::named(ChannelName::new(name)?);
        let interest = Interest::new(vec![Pattern::everything()], once_a_second(), false);
        let interest = Interest { channel: Some(Arc::new(terms)), ..interest };
        Ok(Selection { interest, prompt: true, condition: Condition::Always })
    }

    /// Only values that pass this condition.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.condition = condition;
        self
    }
}

/// A connection to a khz: the one on this machine, or a hub.
///
/// ```no_run
/// use khz_client::{Client, Condition, Event, Selection};
///
/// let client = Client::local()?;
/// for value in client.get("load.*")? {
///     println!("{value}");
/// }
/// let selection = Selection::new(["*:mem.available"])?.when(Condition::Crossing("1GiB".parse()?));
/// for event in client.subscribe(selection)? {
///     if let Event::Value(value) = event {
///         println!("{value}");
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Client {
    /// `None`: only the own node is known.
    link: Option<Arc<Subscriber<Route>>>,
    own: Option<OwnNode>,
}

impl Client {
    /// To the khz on this machine: a hub, or a khz that runs alone. If there is only an agent, to its node
    /// ([`Client::own`]).
    ///
    /// # Errors
    /// No khz runs.
    pub fn local() -> Result<Self, ClientError> {
        match Access::local() {
            Ok(access) => Client::open(&access),
            Err(error @ AccessError::NobodyHere { .. }) => {
                Page::local().map(Client::own).map_err(|_| error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// To a node whose snapshot is on this machine, and to no other. Reads everything from shared memory and
    /// sends no requests. A subscription reads the latest values at its rate, but the agent gathers no faster
    /// for it. Of a series only name, unit, kind and decimal places are known.
    ///
    /// ```no_run
    /// let client = khz_client::Client::own(khz_client::Page::local()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn own(page: Page) -> Self {
        Client { link: None, own: Some(OwnNode::new(page)) }
    }

    /// To a hub. Connects in the background, and reconnects whenever the connection breaks.
    ///
    /// # Errors
    /// Token, key or certificate files cannot be used.
    pub fn open(access: &Access) -> Result<Self, ClientError> {
        let routes = Subscriptions::default();
        let link = Subscriber::sharing(access.settings()?, routes.clone(), Router::new(routes))?;
        Ok(Client { link: Some(Arc::new(link)), own: OwnNode::of_host() })
    }

    /// The latest values of every node that the pattern selects. If the pattern names only this machine's own
    /// node, they come from shared memory at once. Else it asks the hub. If the pattern names its nodes, it returns when each
    /// has answered; with a wildcard, when no further series has come for 400 ms. It waits at most four seconds; nodes that
    /// have not answered by then are missing.
    ///
    /// # Errors
    /// The pattern does not parse, the hub refuses, or it does not answer.
    pub fn get(&self, pattern: &str) -> Result<Vec<Value>, ClientError> {
        let selection = Selection::new([pattern])?;
        if let Some(values) = self.of_own(&selection.interest.patterns)? {
            return Ok(values);
        }
        let named = selection.interest.patterns[0].nodes().and_then(|nodes| nodes.expand());
        let mut awaited = named.map(BTreeSet::from_iter);
        let subscription = self.subscribe(selection)?;
        let (mut found, mut down) = (BTreeMap::new(), None);
        let (end, mut last) = (Instant::now() + ANSWER_MAX, None::<Instant>);
        loop {
            let quiet = last.filter(|_| awaited.is_none()).map_or(end, |last| end.min(last + QUIET));
            match subscription.next_within(quiet.saturating_duration_since(Instant::now())) {
                Some(Event::Value(value)) => {
                    if let Some(awaited) = &mut awaited {
                        awaited.remove(&*value.node);
                    }
                    let is_new =
                        found.insert((value.node.clone(), value.series.to_string()), value).is_none();
                    last = if is_new { Some(Instant::now()) } else { last };
                }
                Some(Event::Notice { granted: false, text }) => return Err(ClientError::Refused(text)),
                Some(Event::Down { problem }) => down = Some(problem),
                Some(_) => {}
                None => break,
            }
            if awaited.as_ref().is_some_and(BTreeSet::is_empty) && subscription.is_empty() {
                break;
            }
        }
        match down {
            Some(problem) if found.is_empty() => Err(ClientError::Down(problem)),
            _ => Ok(found.into_values().collect()),
        }
    }

    /// The values, if the patterns are about the own node alone; `None`: the hub has to answer.
    fn of_own(&self, patterns: &[Pattern]) -> Result<Option<Vec<Value>>, ClientError> {
        let Some(own) = &self.own else { return Ok(None) };
        if self.link.is_some() {
            return Ok(own.is_meant(patterns).then(|| own.values(patterns)).flatten());
        }
        only_own(own, patterns)?;
        let gone = || ClientError::Down(format!("the agent of {} does not run", own.name()));
        own.values(patterns).map(Some).ok_or_else(gone)
    }

    /// Values as they come, until the subscription is dropped: a blocking iterator, a stream, or calls of a function
    /// ([`Subscription::call_for_each`]).
    ///
    /// # Errors
    /// There are too many subscriptions.
    pub fn subscribe(&self, selection: Selection) -> Result<Subscription, ClientError> {
        let queue = Queue::default();
        let is_of_channel = selection.interest.channel.is_some();
        let route = Route { condition: selection.condition, is_of_channel, queue: queue.clone() };
        let feed = match (&self.link, &self.own) {
            (Some(link), _) => {
                let number = link.subscribe(&selection.interest, selection.prompt, route)?;
                Feed::Link(link.clone(), number)
            }
            (None, Some(own)) => {
                only_own(own, &selection.interest.patterns)?;
                let period = selection.interest.rate.period();
                Feed::Own { _follower: own.follow(selection.interest.patterns, period, route)? }
            }
            (None, None) => unreachable!("BUG: a client of nobody"),
        };
        Ok(Subscription { queue, feed })
    }
}

/// Refuses patterns that select other nodes.
fn only_own(own: &OwnNode, patterns: &[Pattern]) -> Result<(), ClientError> {
    let node = own.name();
    match patterns.iter().all(|pattern| pattern.matches_node(&node)) {
        true => Ok(()),
        false => Err(ClientError::OwnOnly { node: node.to_string() }),
    }
}

/// Values as they come. Dropping it ends it.
pub struct Subscription {
    queue: Queue,
    feed: Feed,
}

/// The origin of the values.
enum Feed {
    Link(Arc<Subscriber<Route>>, u32),
    Own { _follower: OwnFollower },
}

impl Subscription {
    /// The next event, if there is one.
    pub fn try_next(&self) -> Option<Event> {
        self.queue.try_next()
    }

    /// The next event; waits for it at most this long.
    pub fn next_within(&self, time: Duration) -> Option<Event> {
        self.queue.next(Some(time))
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Waits for each event; never ends by itself.
impl Iterator for Subscription {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.queue.next(None)
    }
}

impl Stream for Subscription {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.queue.poll_next(context)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Feed::Link(link, number) = &self.feed {
            link.unsubscribe(*number);
        }
    }
}

fn once_a_second() -> Rate {
    Rate::from_hz(1).expect("BUG: once a second is a rate")
}
