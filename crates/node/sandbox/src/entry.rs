//! A program that a reader wants at this node: where its rows come from, where they go, and what it has taken.

use std::sync::Arc;

use khz_gather::{OutsideLane, OutsideRows, ProgramWish};
use khz_model::{ChannelName, Instance, Nanos, QueryError};
use khz_ring::Shared;

use crate::counts::Counts;
use crate::wire::{Begin, Order};

/// A program.
pub(crate) struct Entry {
    pub number: u32,
    wish: ProgramWish,
    rows: OutsideRows,
    pub counts: Arc<Counts>,
    /// The child has it, in its present version.
    pub has_begun: bool,
}

impl Entry {
    /// A program whose lane nobody reads yet.
    ///
    /// # Errors
    /// There is no memory for its lane.
    pub fn new(number: u32, wish: ProgramWish) -> Result<Self, QueryError> {
        let name = &wish.terms.name;
        let rows = OutsideRows::new(&wish.node, name, wish.input.period())
            .map_err(|error| refused(name, &error.to_string()))?;
        let counts = Arc::new(Counts::of(Instance::from_kernel(name.as_str().as_bytes())));
        Ok(Entry { number, wish, rows, counts, has_begun: false })
    }

    /// The channel.
    pub fn channel(&self) -> &ChannelName {
        &self.wish.terms.name
    }

    /// Its lane.
    pub fn lane(&self) -> OutsideLane {
        self.rows.lane()
    }

    /// Whether this is the program of a wish.
    pub fn is_of(&self, wish: &ProgramWish) -> bool {
        self.wish.terms == wish.terms
            && self.wish.patterns == wish.patterns
            && self.wish.input.epoch() == wish.input.epoch()
    }

    /// Whether a wish is for another version of this program, for the same rows.
    pub fn is_other_of(&self, wish: &ProgramWish) -> bool {
        self.wish.terms.name == wish.terms.name
            && self.wish.patterns == wish.patterns
            && self.wish.input.epoch() == wish.input.epoch()
    }

    /// The version of this wish is executed from the next row on. The lane stays, so its readers miss no row, and get none twice.
    pub fn replace(&mut self, wish: ProgramWish) {
        (self.wish, self.has_begun) = (wish, false);
    }

    /// Whether nobody has read it for this long.
    pub fn is_left(&self, now: Nanos, linger: Nanos) -> bool {
        let (readers, left) = self.lane().readers();
        readers == 0 && now.since(left) > linger
    }

    /// The order for the child, and the ring with the rows.
    ///
    /// # Errors
    /// The ring cannot be shared.
    pub fn order(&self) -> Result<(Order, Shared), String> {
        let ring = self.wish.input.reader().share();
        let ring =
            ring.map_err(|errno| format!("its rows cannot be shared with the child process: {errno}"))?;
        let begin = Begin {
            number: self.number,
            ring_bytes: ring.size,
            is_nameless: ring.is_nameless,
            hash: self.wish.program.hash,
            patterns: self.wish.patterns.iter().map(ToString::to_string).collect(),
            packed: self.wish.program.packed.to_vec(),
        };
        Ok((Order::Begin(begin), ring))
    }

    /// The child has died: the program begins with the rows that come then. What was between is lost.
    pub fn lose_child(&mut self) {
        self.has_begun = false;
        self.counts.begin_again();
    }

    /// Its rows have these values.
    pub fn set_names(&mut self, names: Vec<String>) {
        match self.rows.set_names(names) {
            Ok(()) => self.lane().say(String::new()),
            Err(why) => self.lane().say(format!("sends no rows: {why}")),
        }
    }

    /// A row that came out.
    pub fn row(&mut self, stamp: khz_model::Stamp, values: &[f64]) {
        if !self.rows.row(stamp, values) {
            self.counts.lose(1);
        }
    }

    /// Wakes its readers.
    pub fn ring_bells(&self) {
        self.rows.ring_bells();
    }

    /// Its lane gets no more rows.
    pub fn end(&self) {
        self.rows.end();
    }
}

/// Why a node does not execute a program.
pub(crate) fn refused(channel: &ChannelName, problem: &str) -> QueryError {
    QueryError::Channel { channel: channel.clone(), problem: problem.to_owned(), for_now: false }
}
