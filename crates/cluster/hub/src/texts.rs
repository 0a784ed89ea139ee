//! Kernel texts of one node: what readers want of it, each file once however many they are, and the newest text of each
//! as long as somebody wants it. It sends nothing itself and opens no file.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use khz_link::Allowance;
use khz_link::limits::TEXTS_MAX;
use khz_link::texts::{NoText, PackedText, TextFault, TextGiven, TextIntake, TextPiece, Why, pack};
use khz_link::{KNOWS_TEXT_NOW, KNOWS_TEXTS};
use khz_model::Nanos;

use crate::limits::{ALL_TEXT_BYTES_MAX, NODE_TEXT_BYTES_MAX, READS_A_SECOND, READS_AT_ONCE};
use crate::mailbox::Command;
use crate::node::Link;

/// Where a reader hears which of its wishes have news.
#[derive(Debug, Default)]
pub(crate) struct TextInbox {
    numbers: Mutex<BTreeSet<u32>>,
    has_news: AtomicBool,
}

impl TextInbox {
    fn numbers(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.numbers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// There is news of a wish.
    pub fn put(&self, number: u32) {
        self.numbers().insert(number);
        self.has_news.store(true, Ordering::Release);
    }

    /// A glance without the lock.
    pub fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Acquire)
    }

    /// One of the wishes with news, each in its turn.
    pub fn take(&self, after: u32) -> Option<u32> {
        let mut numbers = self.numbers();
        let next = numbers.range(after.saturating_add(1)..).next().or_else(|| numbers.first()).copied();
        if let Some(number) = next {
            numbers.remove(&number);
        }
        self.has_news.store(!numbers.is_empty(), Ordering::Release);
        next
    }
}

/// What a node understands of kernel texts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextAbilities {
    texts: bool,
    now: bool,
}

impl TextAbilities {
    pub fn from_abilities(abilities: u8) -> Self {
        TextAbilities { texts: abilities & KNOWS_TEXTS != 0, now: abilities & KNOWS_TEXT_NOW != 0 }
    }
}

/// Who wants a text: his inbox, his number for it, how often.
#[derive(Debug)]
struct Wanting {
    inbox: Arc<TextInbox>,
    number: u32,
    period: Nanos,
    ask: Option<Ask>,
}

/// A reader's wish to have the file read at once: the last one, which answers those before it too.
#[derive(Debug)]
struct Ask {
    ask: u32,
    state: Asked,
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// The node was asked something before, and has not answered yet.
    Waits,
    /// What the node was asked then answers this one.
    Said(u32),
    /// The node has read the file since, or cannot be asked; the reader is to hear of it.
    Given { is_read: bool },
}

/// A file that somebody wants.
#[derive(Debug)]
struct Wanted {
    /// Our number for it, never used twice for one node.
    number: u32,
    path: String,
    /// As the node was told.
    period: Nanos,
    readers: Vec<Wanting>,
    intake: TextIntake,
    /// Counts the texts that readers were told of.
    version: u32,
    /// The newest text packed against the one before, and alone.
    differing: Option<PackedText>,
    whole: Option<PackedText>,
    problem: Option<(Why, String)>,
    /// A text of it was left lying: what comes later is packed against that, and useless. The node was told to stop; whoever
    /// asks when all its readers have left begins anew.
    given_up: bool,
    /// Counts what the node was asked to read at once; the one that is under way: it is asked one thing at a time.
    asks_made: u32,
    ask_under_way: Option<u32>,
    held: Held,
}

/// Bytes of all nodes' texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextBytes(Arc<AtomicU64>);

/// So many of them, given back when they are gone.
#[derive(Debug, Default)]
struct Held {
    all: TextBytes,
    bytes: u64,
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

/// What a reader is to be told of a wish.
pub(crate) enum News {
    Text(PackedText),
    None(Why, String),
    /// He knows.
    Nothing,
}

/// All files of a node that somebody wants.
#[derive(Debug)]
pub(crate) struct Texts {
    wanted: Vec<Wanted>,
    made: u32,
    /// New wishes that may come.
    wishes: Allowance<READS_AT_ONCE, READS_A_SECOND>,
}

impl Texts {
    pub fn new(now: Nanos) -> Self {
        Texts { wanted: Vec::new(), made: 0, wishes: Allowance::full(now) }
    }

    /// A reader wants a file: its number here. `knows`: the node understands such wishes.
    pub fn want(
        &mut self,
        path: &str,
        (inbox, number, period): (&Arc<TextInbox>, u32, Nanos),
        link: Option<&Link>,
        all: &TextBytes,
    ) -> Result<u32, (Why, String)> {
        let wanting = Wanting { inbox: inbox.clone(), number, period, ask: None };
        if let Some(known) = self.wanted.iter_mut().find(|wanted| wanted.path == path) {
            known.readers.push(wanting);
            inbox.put(number);
            known.keep_pace(link);
            return Ok(known.number);
        }
        self.may_want().map_err(|text| (Why::TooMany, text))?;
        self.made += 1;
        let mut wanted = Wanted {
            number: self.made,
            path: path.to_owned(),
            period,
            readers: vec![wanting],
            intake: TextIntake::default(),
            version: 0,
            differing: None,
            whole: None,
            problem: None,
            given_up: false,
            asks_made: 0,
            ask_under_way: None,
            held: Held { all: all.clone(), bytes: 0 },
        };
        wanted.say(link);
        self.wanted.push(wanted);
        Ok(self.made)
    }

    fn may_want(&mut self) -> Result<(), String> {
        if self.wanted.len() >= TEXTS_MAX {
            return Err(format!("{TEXTS_MAX} kernel texts of this node are wanted already"));
        }
        if !self.wishes.take(crate::clock::boot()) {
            return Err(format!("more than {READS_A_SECOND} new kernel texts of this node a second"));
        }
        Ok(())
    }

    /// A reader wants it at another pace.
    pub fn pace(
        &mut self,
        number: u32,
        inbox: &Arc<TextInbox>,
        reader: u32,
        period: Nanos,
        link: Option<&Link>,
    ) {
        let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.number == number) else { return };
        if let Some(wanting) = wanted.of_reader(inbox, reader) {
            wanting.period = period;
        }
        wanted.keep_pace(link);
    }

    /// A reader wants it to be read at once.
    pub fn ask(
        &mut self,
        number: u32,
        inbox: &Arc<TextInbox>,
        (reader, ask): (u32, u32),
        link: Option<&Link>,
    ) {
        let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.number == number) else { return };
        if let Some(wanting) = wanted.of_reader(inbox, reader) {
            wanting.ask = Some(Ask { ask, state: Asked::Waits });
        }
        wanted.say_ask(link);
    }

    /// The node has read a file after it was asked to, or cannot.
    pub fn given(&mut self, given: TextGiven, link: Option<&Link>) {
        let TextGiven { number, ask, is_read } = given;
        let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.number == number) else { return };
        if wanted.ask_under_way == Some(ask) {
            wanted.ask_under_way = None;
            wanted.answer(is_read, |state| *state == Asked::Said(ask));
            wanted.say_ask(link);
        }
    }

    /// The answer to what a reader has asked, if it has come.
    pub fn given_to(&mut self, number: u32, inbox: &Arc<TextInbox>, reader: u32) -> Option<TextGiven> {
        let wanted = self.wanted.iter_mut().find(|wanted| wanted.number == number)?;
        let wanting = wanted.of_reader(inbox, reader)?;
        let Ask { ask, state: Asked::Given { is_read } } = wanting.ask.as_ref()? else { return None };
        let given = TextGiven { number: reader, ask: *ask, is_read: *is_read };
        wanting.ask = None;
        Some(given)
    }

    /// The node is away: nobody answers.
    pub fn disconnected(&mut self) {
        self.wanted.iter_mut().for_each(Wanted::answer_nobody_can);
    }

    /// The cluster has forgotten the node: its readers look for one that has come back.
    pub fn forgotten(&self) {
        let readers = self.wanted.iter().flat_map(|wanted| &wanted.readers);
        readers.for_each(|wanting| wanting.inbox.put(wanting.number));
    }

    /// A reader does not want it any more.
    pub fn leave(&mut self, number: u32, inbox: &Arc<TextInbox>, reader: u32, link: Option<&Link>) {
        let Some(at) = self.wanted.iter().position(|wanted| wanted.number == number) else { return };
        let wanted = &mut self.wanted[at];
        wanted.readers.retain(|wanting| wanting.number != reader || !Arc::ptr_eq(&wanting.inbox, inbox));
        if !wanted.readers.is_empty() {
            return wanted.keep_pace(link);
        }
        self.wanted.swap_remove(at);
        if let Some(link) = link.filter(|link| link.texts().texts) {
            link.send(Command::Unread { number });
        }
    }

    /// The node has connected anew: everything is said again.
    pub fn connected(&mut self, link: &Link) {
        for wanted in &mut self.wanted {
            wanted.intake.begin_anew();
            wanted.given_up = false;
            wanted.answer_nobody_can();
            wanted.say(Some(link));
        }
    }

    /// A piece of a text came; `true`: it completes one.
    pub fn take(&mut self, piece: &TextPiece<'_>, link: Option<&Link>) -> Result<bool, TextFault> {
        let others = self.held();
        // One that nobody wants any more.
        let of_piece = |wanted: &&mut Wanted| wanted.number == piece.number && !wanted.given_up;
        let Some(wanted) = self.wanted.iter_mut().find(of_piece) else { return Ok(false) };
        let others = others - wanted.held.bytes;
        let all = wanted.held.all.0.load(Ordering::Relaxed) - wanted.held.bytes;
        let bytes = u64::from(piece.length) + u64::from(piece.packed);
        let is_full = others + bytes > NODE_TEXT_BYTES_MAX || all + bytes > ALL_TEXT_BYTES_MAX;
        let taken =
            if is_full { Err(TextFault::TooLong { bytes: piece.length }) } else { wanted.take(piece) };
        if let Err(TextFault::TooLong { bytes }) = taken {
            wanted.fail(Why::TooLong, format!("a text of {bytes} bytes is more than this hub takes of it"));
            wanted.give_up(link);
        }
        taken
    }

    fn held(&self) -> u64 {
        self.wanted.iter().map(|wanted| wanted.held.bytes).sum()
    }

    /// The node has no such text.
    pub fn none(&mut self, none: &NoText<'_>) {
        if let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.number == none.number) {
            wanted.fail(none.why, none.text.to_owned());
        }
    }

    /// What a reader who knows this version is to be told.
    pub fn news(&mut self, number: u32, known: u32) -> News {
        let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.number == number) else {
            return News::Nothing;
        };
        if let Some((why, text)) = &wanted.problem {
            return News::None(*why, text.clone());
        }
        wanted.packed_for(known)
    }
}

impl Wanted {
    /// Says the wish to the node, if it is there and understands it.
    fn say(&mut self, link: Option<&Link>) {
        self.period = self.readers.iter().map(|wanting| wanting.period).min().unwrap_or(self.period);
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
            // It is said when the node comes.
            None => {}
        }
    }

    /// A reader's part in it.
    fn of_reader(&mut self, inbox: &Arc<TextInbox>, reader: u32) -> Option<&mut Wanting> {
        let is_his = |wanting: &&mut Wanting| wanting.number == reader && Arc::ptr_eq(&wanting.inbox, inbox);
        self.readers.iter_mut().find(is_his)
    }

    /// Asks the node for all readers who wait, unless it is asked something already: what that brings may be older than
    /// what they want.
    fn say_ask(&mut self, link: Option<&Link>) {
        let is_waiting =
            |wanting: &Wanting| wanting.ask.as_ref().is_some_and(|ask| ask.state == Asked::Waits);
        if self.ask_under_way.is_some() || !self.readers.iter().any(is_waiting) {
            return;
        }
        let is_asked = |link: &&Link| link.texts().now && !link.is_through_hub();
        let Some(link) = link.filter(is_asked).filter(|_| !self.given_up) else {
            return self.answer_nobody_can();
        };
        self.asks_made = self.asks_made.wrapping_add(1);
        let ask = self.asks_made;
        self.ask_under_way = Some(ask);
        for waiting in self.readers.iter_mut().filter_map(|wanting| wanting.ask.as_mut()) {
            if waiting.state == Asked::Waits {
                waiting.state = Asked::Said(ask);
            }
        }
        link.send(Command::TextNow { number: self.number, ask });
    }

    /// Answers the asks of which this is true.
    fn answer(&mut self, is_read: bool, is_answered: impl Fn(&Asked) -> bool) {
        for wanting in &mut self.readers {
            if let Some(ask) = wanting.ask.as_mut().filter(|ask| is_answered(&ask.state)) {
                ask.state = Asked::Given { is_read };
                wanting.inbox.put(wanting.number);
            }
        }
    }

    fn answer_nobody_can(&mut self) {
        self.ask_under_way = None;
        self.answer(false, |state| matches!(state, Asked::Waits | Asked::Said(_)));
    }

    /// The pace is that of the fastest reader.
    fn keep_pace(&mut self, link: Option<&Link>) {
        let fastest = self.readers.iter().map(|wanting| wanting.period).min();
        if fastest.is_some_and(|period| period != self.period) {
            self.say(link);
        }
    }

    fn tell(&self) {
        for wanting in &self.readers {
            wanting.inbox.put(wanting.number);
        }
    }

    fn fail(&mut self, why: Why, text: String) {
        self.problem = Some((why, text));
        self.tell();
    }

    /// Nothing more is taken of it.
    fn give_up(&mut self, link: Option<&Link>) {
        self.given_up = true;
        self.answer_nobody_can();
        self.intake.begin_anew();
        self.held.set(self.intake.held() as u64);
        if let Some(link) = link {
            link.send(Command::Unread { number: self.number });
        }
    }

    fn take(&mut self, piece: &TextPiece<'_>) -> Result<bool, TextFault> {
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
        self.tell();
        Ok(true)
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
