//! Whoever reads from a hub: the real end of the link, and somebody who takes what comes.

use std::collections::HashSet;
use std::sync::Arc;

use khz_follow::Follower;
use khz_link::{Ask, Identity, LaneSink, ReaderEnd, Role};
use khz_model::Nanos;

use super::random::Random;
use super::wire::Shared;

/// Who takes what comes, and hears when the connection comes and goes.
pub trait Ear: LaneSink {
    /// A hub has welcomed us.
    fn up(&mut self, hub: &khz_link::HubName);
    /// The connection is over.
    fn down(&mut self);
    /// Everything that has come was handed over.
    fn rest(&mut self);
    /// Which interests stand now.
    fn standing(&mut self, _: &[Interest]) {}
}

impl<R: khz_follow::Reader> Ear for Follower<R> {
    fn up(&mut self, hub: &khz_link::HubName) {
        Follower::up(self, hub);
    }
    fn down(&mut self) {
        Follower::down(self, "cut");
    }
    fn rest(&mut self) {
        Follower::rest(self);
        assert_eq!(self.refusal(), None);
    }
}

/// Rows that are wanted.
#[derive(Clone, Debug)]
pub struct Interest {
    pub number: u32,
    pub period: Nanos,
    pub exact: bool,
    pub prompt: bool,
    pub pattern: String,
}

/// A reader of one hub.
pub struct Reader<E> {
    pub ear: E,
    pub hub: usize,
    pub interests: Vec<Interest>,
    name: String,
    reader_end: ReaderEnd,
    said: HashSet<u32>,
    asked: u32,
    wire: Option<Shared>,
    out: Vec<u8>,
    is_up: bool,
}

impl<E: Ear> Reader<E> {
    pub fn new(ear: E, hub: usize, role: Role, machine: u8, now: Nanos) -> Self {
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
            ear,
            hub,
            interests: Vec::new(),
            name,
            reader_end: ReaderEnd::new(Arc::new(identity), now),
            said: HashSet::new(),
            asked: 0,
            wire: None,
            out: Vec::new(),
            is_up: false,
        }
    }

    /// Wants rows.
    pub fn ask(&mut self, period: Nanos, (exact, prompt): (bool, bool), pattern: &str) {
        self.asked += 1;
        let interest = Interest { number: self.asked, period, exact, prompt, pattern: pattern.into() };
        self.interests.push(interest);
        self.ear.standing(&self.interests);
    }

    /// Does not want those any more.
    pub fn dismiss(&mut self, at: usize) {
        self.interests.remove(at);
        self.ear.standing(&self.interests);
    }

    /// What it calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `true`: it is without a connection.
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
            self.reader_end.cut(&mut self.ear);
            self.ear.down();
            self.ear.rest();
        }
    }

    /// Takes what has come and says what there is to say.
    pub fn turn(&mut self, now: Nanos, lag: Nanos, random: &mut Random) {
        let Some(wire) = self.wire.clone() else { return };
        if wire.borrow().is_cut {
            return self.cut();
        }
        loop {
            let Some(bytes) = wire.borrow_mut().from_hub.read(now) else { break };
            let taken = self.reader_end.receive(&bytes, now, now.0 as i64, &mut self.ear, &mut self.out);
            taken.expect("a reader is not refused and refuses nothing");
        }
        self.reader_end.poll(now, now.0 as i64, &mut self.out).expect("the hub is not silent");
        if self.reader_end.is_welcome() {
            if !std::mem::replace(&mut self.is_up, true) {
                self.ear.up(self.reader_end.hub());
            }
            self.say();
        }
        self.ear.rest();
        wire.borrow_mut().to_hub.write(&mut self.out, now, lag, random);
    }

    fn say(&mut self) {
        let Reader { reader_end, ear, interests, said, out, .. } = self;
        for number in said.extract_if(|number| !interests.iter().any(|known| known.number == *number)) {
            reader_end.dismiss(number, ear, out);
        }
        for Interest { number, period, exact, prompt, pattern, .. } in interests.iter() {
            if said.insert(*number) {
                let (number, period, exact, prompt) = (*number, *period, *exact, *prompt);
                let patterns = &[pattern.as_str()];
                reader_end.ask(&Ask { number, period, exact, prompt, past: false, patterns }, out);
            }
        }
    }
}
