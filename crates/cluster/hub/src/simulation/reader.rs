//! A reader of a hub: the real end of the link, and a real follower.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;

use khz_follow::Follower;
use khz_link::limits::VERSION;
use khz_link::{Ask, ChannelFrame, Identity, LaneSink, ReaderEnd, Role, Told};
use khz_model::{ChannelName, ChannelTerms, Nanos};

use super::random::Random;
use super::wire::Shared;
use crate::followed::FollowedChannel;
use crate::source::{NodesBelow, Wanted};

/// A subscription.
#[derive(Clone, Debug)]
pub struct Interest {
    pub number: u32,
    pub period: Nanos,
    pub exact: bool,
    pub prompt: bool,
    pub pattern: String,
    pub channel: Option<Arc<ChannelTerms>>,
    /// When the reader began to ask for it.
    pub asked: Nanos,
}

/// For the source, whose other subscriptions are channels ([`Reader::follow`]).
impl From<Interest> for Wanted {
    fn from(_: Interest) -> Self {
        Wanted::Everything
    }
}

/// A reader of one hub.
pub struct Reader<R: khz_follow::Reader> {
    pub follower: Follower<R>,
    pub hub: usize,
    pub interests: Vec<Interest>,
    /// The version of the link that it speaks.
    pub version: u8,
    /// It wants the list of nodes.
    pub lists: bool,
    name: String,
    reader_end: ReaderEnd,
    said: HashSet<u32>,
    asked: u32,
    now: Nanos,
    wire: Option<Shared>,
    out: Vec<u8>,
    is_up: bool,
}

impl<R: khz_follow::Reader<Subscription: From<Interest>>> Reader<R> {
    pub fn new(follower: Follower<R>, hub: usize, role: Role, machine: u8, now: Nanos) -> Self {
        let name = format!("reader{machine}");
        let identity = Identity {
            role,
            name: name.clone(),
            machine: [machine; 16],
            boot: [0; 16],
            started: 1,
            start_nonce: 1,
            program: "test".into(),
            prove: None,
        };
        Reader {
            follower,
            hub,
            interests: Vec::new(),
            version: VERSION,
            lists: false,
            name,
            reader_end: ReaderEnd::new(Arc::new(identity), now),
            said: HashSet::new(),
            asked: 0,
            now,
            wire: None,
            out: Vec::new(),
            is_up: false,
        }
    }

    /// Subscribes.
    pub fn ask(&mut self, period: Nanos, flags: (bool, bool), pattern: &str) {
        self.subscribe(period, flags, pattern, None);
    }

    /// Subscribes to a channel with this handler.
    pub fn ask_channel(&mut self, period: Nanos, prompt: bool, pattern: &str, handler: u8) {
        let name = ChannelName::new(["hot", "cold"][usize::from(handler % 2)]).expect("a name");
        let channel = ChannelTerms { name, handler: [handler].as_slice().into() };
        self.subscribe(period, (true, prompt), pattern, Some(Arc::new(channel)));
    }

    fn subscribe(
        &mut self,
        period: Nanos,
        (exact, prompt): (bool, bool),
        pattern: &str,
        channel: Option<Arc<ChannelTerms>>,
    ) {
        let (pattern, asked) = (pattern.into(), self.now);
        let interest = Interest { number: self.asked + 1, period, exact, prompt, pattern, channel, asked };
        self.add(interest.clone(), interest.into());
    }

    fn add(&mut self, interest: Interest, subscription: R::Subscription) {
        self.asked = interest.number;
        let number = || Ok::<_, Infallible>(interest.number);
        let Ok(_) = self.follower.subscriptions().add(subscription, number);
        self.interests.push(interest);
    }

    /// Ends the subscription with this index.
    pub fn dismiss(&mut self, at: usize) {
        let interest = self.interests.remove(at);
        self.follower.subscriptions().remove(interest.number);
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True while it has no connection.
    pub fn is_alone(&self) -> bool {
        self.wire.is_none()
    }

    /// A connection was established.
    pub fn connect(&mut self, wire: Shared, now: Nanos) {
        self.reader_end.reconnected(now);
        (self.wire, self.is_up) = (Some(wire), false);
        self.said.clear();
        self.out.clear();
    }

    /// The connection breaks.
    pub fn cut(&mut self) {
        if let Some(wire) = self.wire.take() {
            wire.borrow_mut().is_cut = true;
            self.reader_end.cut(&mut self.follower);
            self.follower.down("cut");
            self.rest();
        }
    }

    /// Takes the bytes that have come, and sends what is due. `false`: the hub is silent.
    pub fn turn(&mut self, now: Nanos, lag: Nanos, random: &mut Random) -> bool {
        self.now = now;
        let Some(wire) = self.wire.clone() else { return true };
        if wire.borrow().is_cut {
            self.cut();
            return true;
        }
        loop {
            let Some(bytes) = wire.borrow_mut().from_hub.read(now) else { break };
            let taken = self.reader_end.receive(&bytes, now, now.0 as i64, &mut self.follower, &mut self.out);
            taken.expect("a reader is not refused and refuses nothing");
        }
        if self.reader_end.poll(now, now.0 as i64, &mut self.out).is_err() {
            return false;
        }
        if self.reader_end.is_welcome() {
            if !std::mem::replace(&mut self.is_up, true) {
                self.follower.up(self.reader_end.hub());
                if self.lists {
                    self.reader_end.roster(true, &mut self.out);
                }
            }
            self.say();
        }
        self.rest();
        wire.borrow_mut().to_hub.write(&mut self.out, now, lag, random);
        true
    }

    fn rest(&mut self) {
        self.follower.rest();
        assert_eq!(self.follower.refusal(), None);
    }

    fn say(&mut self) {
        let Reader { reader_end, follower, interests, said, out, .. } = self;
        for number in said.extract_if(|number| !interests.iter().any(|known| known.number == *number)) {
            reader_end.dismiss(number, follower, out);
        }
        for interest in interests.iter() {
            let Interest { number, period, exact, prompt, ref pattern, ref channel, .. } = *interest;
            if !said.insert(number) {
                continue;
            }
            if channel.is_some() && !reader_end.knows_channels() {
                // As the driver answers.
                let text = "the hub's khz is older than channels: update it";
                let (granted, period, lane, refused_by) = (false, Nanos(0), 0, "");
                follower.answered(&Told { interest: number, granted, period, text, lane, refused_by });
                continue;
            }
            let (patterns, channel) = (&[pattern.as_str()], channel.as_deref().map(ChannelFrame::from));
            reader_end.ask(&Ask { number, period, exact, prompt, channel, patterns, ..Ask::default() }, out);
        }
    }
}

impl Reader<NodesBelow> {
    /// Subscribes to what readers follow above, as the source does.
    pub fn follow(&mut self, followed: &Arc<FollowedChannel>) -> u32 {
        let FollowedChannel { interest, prompt, .. } = &**followed;
        let (number, pattern) = (self.asked + 1, interest.patterns[0].to_string());
        let (period, exact, channel) = (interest.rate.period(), interest.exact, interest.channel.clone());
        let interest = Interest { number, period, exact, prompt: *prompt, pattern, channel, asked: self.now };
        self.add(interest, Wanted::Channel(followed.clone()));
        number
    }
}
