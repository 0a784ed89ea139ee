//! Kernel texts of one node: the files that readers want, each once for all its readers, and the newest text of each while
//! a reader wants it. It opens no file.

use std::sync::Arc;

use khz_link::Allowance;
use khz_link::limits::TEXTS_MAX;
use khz_link::texts::{NoText, TextFault, TextGiven, TextPiece, Why};
use khz_link::{KNOWS_TEXT_NOW, KNOWS_TEXTS};
use khz_model::Nanos;

use crate::limits::{ALL_TEXT_BYTES_MAX, NODE_TEXT_BYTES_MAX, READS_A_SECOND, READS_AT_ONCE};
use crate::mailbox::Command;
use crate::node::Link;

mod inbox;
mod wanted_text;

pub(crate) use inbox::TextInbox;
pub(crate) use wanted_text::{News, TextBytes};
use wanted_text::{Request, State, TextReader, WantedText};

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

/// All files of one node that readers want.
#[derive(Debug)]
pub(crate) struct Texts {
    wanted: Vec<WantedText>,
    made: u32,
    /// New files that may be wanted.
    allowance: Allowance<READS_AT_ONCE, READS_A_SECOND>,
}

impl Texts {
    pub fn new(now: Nanos) -> Self {
        Texts { wanted: Vec::new(), made: 0, allowance: Allowance::full(now) }
    }

    /// A reader wants a file. Returns the file's number.
    pub fn want(
        &mut self,
        path: &str,
        (inbox, number, period): (&Arc<TextInbox>, u32, Nanos),
        link: Option<&Link>,
        all: &TextBytes,
    ) -> Result<u32, (Why, String)> {
        let reader = TextReader { inbox: inbox.clone(), number, period, request: None };
        if let Some(known) = self.wanted.iter_mut().find(|wanted| wanted.path == path) {
            known.readers.push(reader);
            inbox.put(number);
            known.keep_pace(link);
            return Ok(known.number);
        }
        self.may_want().map_err(|text| (Why::TooMany, text))?;
        self.made += 1;
        let mut wanted = WantedText::new(self.made, path, reader, all);
        wanted.subscribe(link);
        self.wanted.push(wanted);
        Ok(self.made)
    }

    fn may_want(&mut self) -> Result<(), String> {
        if self.wanted.len() >= TEXTS_MAX {
            return Err(format!("{TEXTS_MAX} kernel texts of this node are wanted already"));
        }
        if !self.allowance.take(crate::clock::boot()) {
            return Err(format!("more than {READS_A_SECOND} new kernel texts of this node a second"));
        }
        Ok(())
    }

    /// A reader wants a file at another pace.
    pub fn pace(
        &mut self,
        number: u32,
        inbox: &Arc<TextInbox>,
        reader: u32,
        period: Nanos,
        link: Option<&Link>,
    ) {
        let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.number == number) else { return };
        if let Some(known) = wanted.of_reader(inbox, reader) {
            known.period = period;
        }
        wanted.keep_pace(link);
    }

    /// A reader requests that a file is read now.
    pub fn request(
        &mut self,
        number: u32,
        inbox: &Arc<TextInbox>,
        (reader, ask): (u32, u32),
        link: Option<&Link>,
    ) {
        let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.number == number) else { return };
        if let Some(known) = wanted.of_reader(inbox, reader) {
            known.request = Some(Request { ask, state: State::Waits });
        }
        wanted.send_request(link);
    }

    /// The node has read a file as requested, or cannot.
    pub fn answered(&mut self, given: TextGiven, link: Option<&Link>) {
        let TextGiven { number, ask, is_read } = given;
        if let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.number == number) {
            wanted.answered(ask, is_read, link);
        }
    }

    /// Takes the answer to a reader's request, if it has come.
    pub fn take_answer(&mut self, number: u32, inbox: &Arc<TextInbox>, reader: u32) -> Option<TextGiven> {
        let wanted = self.wanted.iter_mut().find(|wanted| wanted.number == number)?;
        let known = wanted.of_reader(inbox, reader)?;
        let Request { ask, state: State::Answered { is_read } } = known.request.as_ref()? else {
            return None;
        };
        let answer = TextGiven { number: reader, ask: *ask, is_read: *is_read };
        known.request = None;
        Some(answer)
    }

    /// The node is down: no request will be answered.
    pub fn disconnected(&mut self) {
        self.wanted.iter_mut().for_each(WantedText::fail_requests);
    }

    /// The cluster has forgotten the node: its readers must find another one of the name.
    pub fn forgotten(&self) {
        let readers = self.wanted.iter().flat_map(|wanted| &wanted.readers);
        readers.for_each(|reader| reader.inbox.put(reader.number));
    }

    /// A reader does not want a file any more.
    pub fn leave(&mut self, number: u32, inbox: &Arc<TextInbox>, reader: u32, link: Option<&Link>) {
        let Some(at) = self.wanted.iter().position(|wanted| wanted.number == number) else { return };
        let wanted = &mut self.wanted[at];
        wanted.readers.retain(|known| known.number != reader || !Arc::ptr_eq(&known.inbox, inbox));
        if !wanted.readers.is_empty() {
            return wanted.keep_pace(link);
        }
        self.wanted.swap_remove(at);
        if let Some(link) = link.filter(|link| link.texts().texts) {
            link.send(Command::Unread { number });
        }
    }

    /// The node has connected: it is asked for every file again.
    pub fn connected(&mut self, link: &Link) {
        for wanted in &mut self.wanted {
            wanted.begin_again(link);
        }
    }

    /// A piece of a text came; `true`: it completes one.
    pub fn take(&mut self, piece: &TextPiece<'_>, link: Option<&Link>) -> Result<bool, TextFault> {
        let others = self.held();
        // No reader may want the file any more.
        let of_piece = |wanted: &&mut WantedText| wanted.number == piece.number && !wanted.given_up;
        let Some(wanted) = self.wanted.iter_mut().find(of_piece) else { return Ok(false) };
        let others = others - wanted.held.bytes;
        let all = wanted.held.all.held() - wanted.held.bytes;
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

    /// The news for a reader that has this version.
    pub fn news(&mut self, number: u32, known: u32) -> News {
        let Some(wanted) = self.wanted.iter_mut().find(|wanted| wanted.number == number) else {
            return News::Nothing;
        };
        wanted.news(known)
    }
}
