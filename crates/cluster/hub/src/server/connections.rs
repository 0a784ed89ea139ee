//! The table of the link door's connections. A place is used again when its connection is gone; then a [`Token`] of
//! the old connection finds nothing. The table also counts the bytes of unfinished frames of all connections.

use super::token::Token;
use crate::connection::Connection;
use crate::limits::UNFINISHED_BYTES_MAX;

/// All connections.
#[derive(Default)]
pub(super) struct Connections {
    places: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    /// Connections made so far.
    made: u64,
    open: usize,
    unfinished: Unfinished,
}

impl Connections {
    /// How many are open.
    pub fn open(&self) -> usize {
        self.open
    }

    /// A token for the next connection, which [`Connections::insert`] puts into its place.
    pub fn next_token(&mut self) -> Token {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.made += 1;
        Token::new(place, self.made)
    }

    /// A new connection.
    pub fn insert(&mut self, connection: Box<Connection>) {
        self.open += 1;
        self.put_back(connection);
    }

    /// The place of a connection that was not made after all.
    pub fn free(&mut self, token: Token) {
        self.free.push(token.place());
    }

    /// A connection.
    pub fn get(&self, token: Token) -> Option<&Connection> {
        self.places.get(token.place())?.as_deref().filter(|connection| connection.token == token)
    }

    /// A connection, to change it.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut Connection> {
        self.places.get_mut(token.place())?.as_deref_mut().filter(|connection| connection.token == token)
    }

    /// Takes a connection out for a moment; [`Connections::put_back`] follows.
    pub fn take(&mut self, token: Token) -> Option<Box<Connection>> {
        self.places.get_mut(token.place())?.take_if(|connection| connection.token == token)
    }

    /// Puts a connection into its place.
    pub fn put_back(&mut self, connection: Box<Connection>) {
        let place = connection.token.place();
        self.places[place] = Some(connection);
    }

    /// Takes a connection out for good.
    pub fn remove(&mut self, token: Token) -> Option<Box<Connection>> {
        let connection = self.take(token)?;
        self.free.push(token.place());
        self.open -= 1;
        self.unfinished.set(connection.kept, 0);
        Some(connection)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Connection> {
        self.places.iter().flatten().map(|connection| &**connection)
    }

    /// Unfinished frames of all of them.
    pub fn unfinished(&mut self) -> &mut Unfinished {
        &mut self.unfinished
    }
}

/// Bytes of frames that have begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    bytes: usize,
    /// The most of them since memory was given back.
    most: usize,
}

impl Unfinished {
    /// A connection that held `before` bytes holds `after` now.
    pub fn set(&mut self, before: usize, after: usize) {
        self.bytes = (self.bytes + after).saturating_sub(before);
        self.most = self.most.max(self.bytes);
    }

    /// True if all connections together hold more than a hub keeps.
    pub fn are_too_many(&self) -> bool {
        self.bytes > UNFINISHED_BYTES_MAX
    }

    /// Bytes that have become free, once most have.
    pub fn take_freed(&mut self) -> Option<usize> {
        let freed = (self.bytes <= self.most / 4).then(|| self.most - self.bytes)?;
        self.most = self.bytes;
        Some(freed)
    }
}
