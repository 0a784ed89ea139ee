//! The origin of an epoll event. Only this file knows how a connection's number is made from its place.

use crate::node::THROUGH_HUB;

/// A connection of the link door: its place in the table, and a count that tells it from the connections that had the
/// place before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    place: u32,
    count: u32,
}

/// A connection's number has the count in its upper half. The highest bit is for nodes that come through another hub.
const COUNT_MAX: u64 = (THROUGH_HUB >> 32) - 1;

impl Token {
    /// The connection in this place that is the `count`th of all.
    pub fn new(place: usize, count: u64) -> Self {
        Token { place: place as u32, count: (count & COUNT_MAX) as u32 }
    }

    /// The place in the table.
    pub fn place(self) -> usize {
        self.place as usize
    }

    /// One number for both, by which nodes and readers know their connection.
    pub fn number(self) -> u64 {
        u64::from(self.count) << 32 | u64::from(self.place)
    }

    /// The connection with this number.
    pub fn of_number(number: u64) -> Self {
        Token { place: number as u32, count: (number >> 32) as u32 }
    }
}

/// What has an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The mailbox's bell.
    Bell,
    /// The listener with this number.
    Listener(usize),
    /// A connection.
    Connection(Token),
}

const BELL: u64 = u64::MAX;
/// A door has fewer than 1,024 listeners.
const FIRST_LISTENER: u64 = u64::MAX - 1_024;

impl Origin {
    /// The number that epoll keeps for it.
    pub fn number(self) -> u64 {
        match self {
            Origin::Bell => BELL,
            Origin::Listener(number) => FIRST_LISTENER + number as u64,
            Origin::Connection(token) => token.number(),
        }
    }

    /// What epoll's number means.
    pub fn of_number(number: u64) -> Self {
        match number {
            BELL => Origin::Bell,
            FIRST_LISTENER.. => Origin::Listener((number - FIRST_LISTENER) as usize),
            _ => Origin::Connection(Token::of_number(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_means_what_it_was_made_of_and_none_is_that_of_a_node_through_another_hub() {
        let tokens =
            [(0, 1), (7, 1), (7, 2), (65_535, COUNT_MAX)].map(|(place, count)| Token::new(place, count));
        let connections = tokens.map(Origin::Connection);
        for origin in
            [Origin::Bell, Origin::Listener(0), Origin::Listener(1_000)].into_iter().chain(connections)
        {
            assert_eq!(Origin::of_number(origin.number()), origin);
        }
        assert!(tokens.iter().all(|token| token.number() < THROUGH_HUB));
        assert_eq!(Token::new(7, COUNT_MAX + 2), Token::new(7, 1), "the count begins again");
    }
}
