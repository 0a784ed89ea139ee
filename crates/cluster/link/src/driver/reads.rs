//! The kernel texts that a reader wants, on whatever connection: said as fast as a hub allows, and anew on every
//! connection. It holds no text.

use std::collections::{BTreeMap, BTreeSet};

use khz_model::Nanos;

use crate::limits::{READS_A_SECOND, READS_AT_ONCE};
use crate::reader_end::{LaneSink, ReaderEnd};
use crate::texts::{NoText, ReadFrame, TextGiven, Why};

/// Half of what a hub allows, since its clock is not ours.
pub(super) const SAID_AT_ONCE: u64 = READS_AT_ONCE / 2;
pub(super) const SAID_A_SECOND: u64 = READS_A_SECOND / 2;

/// What is wanted.
#[derive(Debug, Default)]
pub(super) struct Reads {
    standing: BTreeMap<u32, Standing>,
    /// Numbers of which the hub does not know the present state.
    unsaid: BTreeSet<u32>,
    /// Those that are to be read at once: the last ask of each, as long as it was not said.
    asks: BTreeMap<u32, u32>,
}

#[derive(Debug)]
struct Standing {
    node: String,
    path: String,
    period: Nanos,
}

impl Reads {
    /// Wants a text, or the same at another pace.
    pub fn want(&mut self, wish: &ReadFrame<'_>) {
        let &ReadFrame { number, node, period, path } = wish;
        let standing = Standing { node: node.to_owned(), path: path.to_owned(), period };
        self.standing.insert(number, standing);
        self.unsaid.insert(number);
    }

    /// Wants one that stands to be read at once.
    pub fn ask(&mut self, number: u32, ask: u32) {
        if self.standing.contains_key(&number) {
            self.asks.insert(number, ask);
        }
    }

    /// Does not want it any more.
    pub fn dismiss(&mut self, number: u32) {
        self.asks.remove(&number);
        if self.standing.remove(&number).is_some() {
            self.unsaid.insert(number);
        }
    }

    /// The hub is another one, or has forgotten everything.
    pub fn forget_said(&mut self) {
        self.unsaid = self.standing.keys().copied().collect();
    }

    /// True when there is something to be said.
    pub fn is_waiting(&self) -> bool {
        !self.unsaid.is_empty()
    }

    /// Says what the hub does not know, as far as `may` allows, and what is to be read at once.
    pub fn say<S: LaneSink>(
        &mut self,
        reader_end: &mut ReaderEnd,
        sink: &mut S,
        may: impl FnMut() -> bool,
        out: &mut Vec<u8>,
    ) {
        self.say_wishes(reader_end, sink, may, out);
        // One whose wish the hub does not know yet is asked for when it does.
        for (number, ask) in self.asks.extract_if(.., |number, _| !self.unsaid.contains(number)) {
            if reader_end.knows_text_now() {
                reader_end.text_now(number, ask, out);
            } else {
                sink.text_given(TextGiven { number, ask, is_read: false });
            }
        }
    }

    fn say_wishes<S: LaneSink>(
        &mut self,
        reader_end: &mut ReaderEnd,
        sink: &mut S,
        mut may: impl FnMut() -> bool,
        out: &mut Vec<u8>,
    ) {
        while let Some(&number) = self.unsaid.first() {
            let Some(Standing { node, path, period }) = self.standing.get(&number) else {
                reader_end.unread(number, out);
                self.unsaid.remove(&number);
                continue;
            };
            if !reader_end.knows_texts() {
                let text = "this hub is older than kernel texts: it passes none on";
                sink.no_text(&NoText { number, why: Why::NotServed, text });
            } else if may() {
                reader_end.read(&ReadFrame { number, node, period: *period, path }, out);
            } else {
                return;
            }
            self.unsaid.remove(&number);
        }
    }
}
