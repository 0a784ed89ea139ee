//! One kernel file of a node that readers want: who reads it and how often, its newest text, and requests to read it now.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_link::texts::{PackedText, TextFault, TextIntake, TextPiece, Why, pack};
use khz_model::Nanos;

use super::TextInbox;
use crate::mailbox::Command;
use crate::node::Link;

/// Bytes of all nodes' texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextBytes(Arc<AtomicU64>);

impl TextBytes {
    /// How many they are.
    pub fn held(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One text's part of them, given back when the text is gone.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub all: TextBytes,
    pub bytes: u64,
}

impl Held {
    fn set(&mut self, bytes: u64) {
        self.all.0.fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// What a reader is sent about a text.
pub(crate) enum News {
    Text(PackedText),
    None(Why, String),
    /// The reader has the newest text.
    Nothing,
}

/// A reader of a text: its inbox, its number for the text, how often it wants the text.
#[derive(Debug)]
pub(super) struct TextReader {
    pub inbox: Arc<TextInbox>,
    pub number: u32,
    pub period: Nanos,
    pub request: Option<Request>,
}

/// A reader's request to read the file now: the last one, whose answer also answers the ones before.
#[derive(Debug)]
pub(super) struct Request {
    /// The reader's number for it.
    pub ask: u32,
    pub state: State,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It waits until the node has answered the request that is under way.
    Waits,
    /// It was sent to the node as part of this request.
    Sent(u32),
    /// The node has read the file, or cannot be asked; the reader does not know yet.
    Answered { is_read: bool },
}

/// A kernel file of one node that readers want.
#[derive(Debug)]
pub(super) struct WantedText {
    /// Our number for it, never used twice for one node.
    pub number: u32,
    pub path: String,
    /// How often the node sends it.
    period: Nanos,
    pub readers: Vec<TextReader>,
    intake: TextIntake,
    /// Counts the texts that readers got.
    version: u32,
    /// The newest text packed against the text before, and packed alone.
    differing: Option<PackedText>,
    whole: Option<PackedText>,
    problem: Option<(Why, String)>,
    /// A text of this file was refused. Later texts are useless, since they are packed against it, and the hub has asked the node
    /// to stop. A new reader can have the file only after all present readers have left.
    pub given_up: bool,
    /// How many requests were sent to the node, and the request that is under way: at most one.
    requests_made: u32,
    under_way: Option<u32>,
    pub held: Held,
}

impl WantedText {
    /// A file that this reader wants; nothing is sent yet.
    pub fn new(number: u32, path: &str, reader: TextReader, all: &TextBytes) -> Self {
        WantedText {
            number,
            path: path.to_owned(),
            period: reader.period,
            readers: vec![reader],
            intake: TextIntake::default(),
            version: 0,
            differing: None,
            whole: None,
            problem: None,
            given_up: false,
            requests_made: 0,
            under_way: None,
            held: Held { all: all.clone(), bytes: 0 },
        }
    }

    /// Asks the node for the file at the pace of the fastest reader, if the node is up and understands that.
    pub fn subscribe(&mut self, link: Option<&Link>) {
        self.period = self.readers.iter().map(|reader| reader.period).min().unwrap_or(self.period);
        match link {
            Some(link) if link.is_through_hub() => {
                let text = "this node comes through another hub, which passes no kernel texts on";
                self.fail(Why::NotServed, text.to_owned());
            }
            Some(link) if !link.texts().texts => {
                let text = "the agent of this node is older than kernel texts: it sends none";
                self.fail(Why::NotServed, text.to_owned());
            }
            Some(_) if self.given_up => {}
            Some(link) => {
                let (number, path, period) = (self.number, self.path.clone(), self.period);
                link.send(Command::Read { number, path, period });
            }
            // The node is asked when it connects.
            None => {}
        }
    }

    /// The reader with this inbox and number.
    pub fn of_reader(&mut self, inbox: &Arc<TextInbox>, number: u32) -> Option<&mut TextReader> {
        let is_it = |known: &&mut TextReader| known.number == number && Arc::ptr_eq(&known.inbox, inbox);
        self.readers.iter_mut().find(is_it)
    }

    /// Sends one request for all readers that wait, unless one is under way: its text may be older than what they want.
    pub fn send_request(&mut self, link: Option<&Link>) {
        let is_waiting = |reader: &TextReader| {
            reader.request.as_ref().is_some_and(|request| request.state == State::Waits)
        };
        if self.under_way.is_some() || !self.readers.iter().any(is_waiting) {
            return;
        }
        let can_ask = |link: &&Link| link.texts().now && !link.is_through_hub();
        let Some(link) = link.filter(can_ask).filter(|_| !self.given_up) else {
            return self.fail_requests();
        };
        self.requests_made = self.requests_made.wrapping_add(1);
        let request = self.requests_made;
        self.under_way = Some(request);
        for waiting in self.readers.iter_mut().filter_map(|reader| reader.request.as_mut()) {
            if waiting.state == State::Waits {
                waiting.state = State::Sent(request);
            }
        }
        link.send(Command::TextNow { number: self.number, ask: request });
    }

    /// Answers the requests in a state of which this is true.
    fn answer(&mut self, is_read: bool, is_answered: impl Fn(&State) -> bool) {
        for reader in &mut self.readers {
            if let Some(request) = reader.request.as_mut().filter(|request| is_answered(&request.state)) {
                request.state = State::Answered { is_read };
                reader.inbox.put(reader.number);
            }
        }
    }

    /// The node has answered a request.
    pub fn answered(&mut self, request: u32, is_read: bool, link: Option<&Link>) {
        if self.under_way == Some(request) {
            self.under_way = None;
            self.answer(is_read, |state| *state == State::Sent(request));
            self.send_request(link);
        }
    }

    /// The node cannot be asked: no request will bring a text.
    pub fn fail_requests(&mut self) {
        self.under_way = None;
        self.answer(false, |state| matches!(state, State::Waits | State::Sent(_)));
    }

    /// Readers came, left or changed their pace: the node is asked for the pace of the fastest.
    pub fn keep_pace(&mut self, link: Option<&Link>) {
        let fastest = self.readers.iter().map(|reader| reader.period).min();
        if fastest.is_some_and(|period| period != self.period) {
            self.subscribe(link);
        }
    }

    /// Every reader has news.
    fn notify(&self) {
        for reader in &self.readers {
            reader.inbox.put(reader.number);
        }
    }

    /// There is no text, and this is why.
    pub fn fail(&mut self, why: Why, text: String) {
        self.problem = Some((why, text));
        self.notify();
    }

    /// Accepts no more texts of this file.
    pub fn give_up(&mut self, link: Option<&Link>) {
        self.given_up = true;
        self.fail_requests();
        self.intake.begin_anew();
        self.held.set(self.intake.held() as u64);
        if let Some(link) = link {
            link.send(Command::Unread { number: self.number });
        }
    }

    /// A new connection sends the file from the beginning.
    pub fn begin_again(&mut self, link: &Link) {
        self.intake.begin_anew();
        self.given_up = false;
        self.fail_requests();
        self.subscribe(Some(link));
    }

    /// A piece of a text came; `true`: it completes a text.
    pub fn take(&mut self, piece: &TextPiece<'_>) -> Result<bool, TextFault> {
        let before = self.intake.text().cloned();
        let is_whole = self.intake.take(piece)?;
        self.held.set(self.intake.held() as u64);
        if !is_whole {
            return Ok(false);
        }
        let Some((text, stamp)) = self.intake.text() else { return Ok(false) };
        let length = text.len() as u32;
        let base = self.version;
        self.version = base.checked_add(1).unwrap_or(1);
        self.whole = None;
        self.differing = before.and_then(|(before, _)| {
            let bytes = pack(text, &before).ok()?.into();
            Some(PackedText { version: self.version, base, stamp: *stamp, length, bytes })
        });
        self.problem = None;
        self.notify();
        Ok(true)
    }

    /// The news for a reader that has this version.
    pub fn news(&mut self, known: u32) -> News {
        match &self.problem {
            Some((why, text)) => News::None(*why, text.clone()),
            None => self.packed_for(known),
        }
    }

    fn packed_for(&mut self, known: u32) -> News {
        if known == self.version {
            return News::Nothing;
        }
        if let Some(differing) = self.differing.as_ref().filter(|text| text.base == known && known > 0) {
            return News::Text(differing.clone());
        }
        if self.whole.is_none()
            && let Some((text, stamp)) = self.intake.text()
        {
            let (version, length) = (self.version, text.len() as u32);
            self.whole = pack(text, &[]).ok().map(|bytes| {
                let bytes = bytes.into();
                PackedText { version, base: 0, stamp: *stamp, length, bytes }
            });
        }
        self.whole.clone().map_or(News::Nothing, News::Text)
    }
}
