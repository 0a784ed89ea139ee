//! Kernel texts of one node: what readers want of it, each file once however many they are, and the newest text of each
//! as long as somebody wants it. It sends nothing itself and opens no file.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use khz_link::Allowance;
use khz_link::limits::TEXTS_MAX;
use khz_link::texts::{NoText, PackedText, TextFault, TextIntake, TextPiece, Why, pack};
use khz_model::Nanos;

use crate::limits::{ALL_TEXT_BYTES_MAX, NODE_TEXT_BYTES_MAX, READS_A_SECOND, READS_AT_ONCE};
use crate::mailbox::Command;
use crate::node::{Link, THROUGH_HUB};

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

/// Who wants a text: his inbox, his number for it, how often.
#[derive(Debug)]
struct Wanting {
    inbox: Arc<TextInbox>,
    number: u32,
    period: Nanos,
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
        link: Option<(&Link, bool)>,
        all: &TextBytes,
    ) -> Result<u32, (Why, String)> {
        let wanting = Wanting { inbox: inbox.clone(), number, period };
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
        link: Option<(&Link, bool)>,
    ) {
        let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.number == number) else { return };
        let is_his = |wanting: &&mut Wanting| wanting.number == reader && Arc::ptr_eq(&wanting.inbox, inbox);
        if let Some(wanting) = wanted.readers.iter_mut().find(is_his) {
            wanting.period = period;
        }
        wanted.keep_pace(link);
    }

    /// A reader does not want it any more.
    pub fn leave(&mut self, number: u32, inbox: &Arc<TextInbox>, reader: u32, link: Option<(&Link, bool)>) {
        let Some(at) = self.wanted.iter().position(|wanted| wanted.number == number) else { return };
        let wanted = &mut self.wanted[at];
        wanted.readers.retain(|wanting| wanting.number != reader || !Arc::ptr_eq(&wanting.inbox, inbox));
        if !wanted.readers.is_empty() {
            return wanted.keep_pace(link);
        }
        self.wanted.swap_remove(at);
        if let Some((link, true)) = link {
            link.mailbox.put(link.connection, Command::Unread { number });
        }
    }

    /// The node has connected anew: everything is said again.
    pub fn connected(&mut self, link: &Link, knows: bool) {
        for wanted in &mut self.wanted {
            wanted.intake.begin_anew();
            wanted.given_up = false;
            wanted.say(Some((link, knows)));
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
    fn say(&mut self, link: Option<(&Link, bool)>) {
        self.period = self.readers.iter().map(|wanting| wanting.period).min().unwrap_or(self.period);
        match link {
            Some((link, _)) if link.connection >= THROUGH_HUB => {
                let text = "this node comes through another hub, which passes no kernel texts on";
                self.fail(Why::NotServed, text.to_owned());
            }
            Some((_, false)) => {
                let text = "the agent of this node is older than kernel texts: it sends none";
                self.fail(Why::NotServed, text.to_owned());
            }
            Some(_) if self.given_up => {}
            Some((link, true)) => {
                let (number, path, period) = (self.number, self.path.clone(), self.period);
                link.mailbox.put(link.connection, Command::Read { number, path, period });
            }
            // It is said when the node comes.
            None => {}
        }
    }

    /// The pace is that of the fastest reader.
    fn keep_pace(&mut self, link: Option<(&Link, bool)>) {
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
        self.intake.begin_anew();
        self.held.set(self.intake.held() as u64);
        if let Some(link) = link {
            link.mailbox.put(link.connection, Command::Unread { number: self.number });
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
