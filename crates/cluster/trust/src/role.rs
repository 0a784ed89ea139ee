//! Roles: what a peer may do. An identity is a role with a name. This file does not know how a peer proves
//! its identity.

use std::fmt;
use std::str::FromStr;

use khz_model::{Nanos, NodeName, Rate};

/// The fastest rate for a reader: as fast as the kernel counts CPU time, and faster than any screen.
pub const READER_RATE_MAX_HZ: u64 = 100;

/// What a peer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Sends the rows of the node whose name it has, and of no other. Reads nothing.
    Node,
    /// Reads, at most [`READER_RATE_MAX_HZ`] times a second.
    Reader,
    /// Reads at any rate up to the agents' ceilings.
    Operator,
    /// Sends the rows of all its nodes to a hub above, and reads for its readers at any rate.
    Hub,
}

/// A text or byte that names no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a role: there are node, reader, operator and hub")]
pub struct RoleError(pub String);

impl Role {
    /// Every role.
    pub const ALL: [Role; 4] = [Role::Node, Role::Reader, Role::Operator, Role::Hub];

    /// The word for it in tokens, certificates and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Reader => "reader",
            Role::Operator => "operator",
            Role::Hub => "hub",
        }
    }

    /// The byte for it on the link.
    pub const fn byte(self) -> u8 {
        match self {
            Role::Node => 1,
            Role::Reader => 2,
            Role::Hub => 3,
            Role::Operator => 4,
        }
    }

    /// The role with this byte on the link.
    pub fn from_byte(byte: u8) -> Result<Self, RoleError> {
        Role::ALL.into_iter().find(|role| role.byte() == byte).ok_or_else(|| RoleError(byte.to_string()))
    }

    /// True where the role may read what the nodes send.
    pub const fn may_read(self) -> bool {
        !matches!(self, Role::Node)
    }

    /// True where the role may send the rows of nodes.
    pub const fn may_send(self) -> bool {
        matches!(self, Role::Node | Role::Hub)
    }

    /// True where the role may define channels.
    pub const fn may_make_channels(self) -> bool {
        matches!(self, Role::Reader | Role::Operator)
    }

    /// True where the role may change or remove a channel that this one made.
    pub const fn may_change_channel_of(self, maker: Role) -> bool {
        matches!((self, maker), (Role::Operator, _) | (Role::Reader, Role::Reader))
    }

    /// True where the role may read at this rate.
    pub fn may_read_at(self, rate: Rate) -> bool {
        const READER_PERIOD_MIN: Nanos = Nanos(1_000_000_000 / READER_RATE_MAX_HZ);
        match self {
            Role::Node => false,
            Role::Reader => rate.period() >= READER_PERIOD_MIN,
            Role::Operator | Role::Hub => true,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(word: &str) -> Result<Self, RoleError> {
        /// Longer words are not printed.
        const SHOWN_MAX: usize = 40;
        let found = Role::ALL.into_iter().find(|role| role.word() == word);
        found.ok_or_else(|| RoleError(word.chars().take(SHOWN_MAX).collect()))
    }
}

/// A peer's identity: a role and a name. Names of readers and operators follow the rules of node names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// What the peer may do.
    pub role: Role,
    /// The peer's name.
    pub name: NodeName,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_its_word_and_its_byte() {
        for role in Role::ALL {
            assert_eq!(role.word().parse(), Ok(role));
            assert_eq!(Role::from_byte(role.byte()), Ok(role));
        }
        assert_eq!("root".parse::<Role>().unwrap_err().to_string(), RoleError("root".into()).to_string());
        assert!(Role::from_byte(0).is_err() && Role::from_byte(5).is_err());
    }

    #[test]
    fn readers_and_operators_make_channels_and_readers_leave_those_of_operators() {
        let makers: Vec<Role> = Role::ALL.into_iter().filter(|role| role.may_make_channels()).collect();
        assert_eq!(makers, [Role::Reader, Role::Operator]);
        for role in Role::ALL {
            let may = makers.iter().map(|&maker| role.may_change_channel_of(maker)).collect::<Vec<_>>();
            assert_eq!(may, [role != Role::Node && role != Role::Hub, role == Role::Operator], "{role}");
        }
    }

    #[test]
    fn a_reader_reads_up_to_a_hundred_times_a_second_a_node_never() {
        let may = |role: Role, hz| role.may_read_at(Rate::from_hz(hz).unwrap());
        assert!(may(Role::Reader, 100) && !may(Role::Reader, 101));
        assert!(may(Role::Operator, 1_000) && may(Role::Hub, 1_000));
        assert!(!may(Role::Node, 1));
        let senders: Vec<Role> = Role::ALL.into_iter().filter(|role| role.may_send()).collect();
        assert_eq!(senders, [Role::Node, Role::Hub]);
    }
}
