//! Which role a peer may have: one table for every door, and the one function that reads it. This file does
//! not know how a peer proves its identity; doors find that out and learn here what the proof is worth.

use crate::role::Role;

/// A door, by the protocol that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The link of a hub, and of a `khz` that runs alone: over TCP and by the local socket.
    Link,
    /// HTTP of a hub or an agent: over TCP and by the local socket.
    Http,
    /// The text protocol of a hub or an agent: over TCP and by the local socket.
    Text,
    /// HTTP and the text protocol of a `khz` that runs alone: its page may choose any rate.
    Alone,
    /// The socket at which jobs publish their own numbers.
    Publish,
    /// The mounted tree: the kernel says whose process opens a file.
    Mount,
}

/// Where a peer connects from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// By a local socket or a mounted tree, as root.
    LocalRoot,
    /// By a local socket or a mounted tree, as the user that the daemon, or the mount, runs as.
    LocalOwn,
    /// By a local socket or a mounted tree, as another user.
    LocalOther,
    /// Over TCP from this machine.
    Loopback,
    /// From another machine, or from this one over an address that others can have too.
    Elsewhere,
}

/// What a peer has shown and a door has verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing.
    Nothing,
    /// The key of the hub's present run.
    RunKey,
    /// A token of the cluster.
    Token,
    /// A certificate of the cluster's CA.
    Certificate,
}

/// A way in: the place that a peer connects from, and its proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a local socket, as root.
    LocalRoot,
    /// By a local socket, as the daemon's own user.
    LocalOwn,
    /// By a local socket, as another user.
    LocalOther,
    /// Over loopback, with the run key.
    LoopbackRunKey,
    /// Over loopback, with a token or a certificate.
    LoopbackShown,
    /// Over loopback, with no proof.
    Loopback,
    /// Over loopback, with no proof, where `--insecure` is set.
    LoopbackInsecure,
    /// From elsewhere, with a certificate.
    ElsewhereCertificate,
    /// From elsewhere, with a token.
    ElsewhereToken,
    /// From elsewhere, with no proof.
    Elsewhere,
    /// From elsewhere, with no proof, where `--insecure` is set.
    ElsewhereInsecure,
}

impl Way {
    /// The way in for this place and proof. A proof decides more than the place, except at a local socket: there
    /// only the user counts, whom the kernel names. (The HTTP door gives a caller at a local socket that shows a
    /// token the place loopback, so that the token counts.)
    pub const fn of(place: Place, proof: Proof, insecure: bool) -> Way {
        match (place, proof) {
            (Place::LocalRoot, _) => Way::LocalRoot,
            (Place::LocalOwn, _) => Way::LocalOwn,
            (Place::LocalOther, _) => Way::LocalOther,
            (Place::Loopback, Proof::RunKey) => Way::LoopbackRunKey,
            (Place::Loopback, Proof::Token | Proof::Certificate) => Way::LoopbackShown,
            (Place::Elsewhere, Proof::Certificate) => Way::ElsewhereCertificate,
            (Place::Elsewhere, Proof::Token) => Way::ElsewhereToken,
            (Place::Loopback, Proof::Nothing) if insecure => Way::LoopbackInsecure,
            (Place::Loopback, Proof::Nothing) => Way::Loopback,
            // The run key is valid only on this machine.
            (Place::Elsewhere, Proof::Nothing | Proof::RunKey) if insecure => Way::ElsewhereInsecure,
            (Place::Elsewhere, Proof::Nothing | Proof::RunKey) => Way::Elsewhere,
        }
    }

    /// True where nothing proves the peer's name, and it is believed.
    pub const fn is_unproved(self) -> bool {
        matches!(self, Way::LoopbackInsecure | Way::ElsewhereInsecure)
    }
}

/// One cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// The peer may not come in.
    Nobody,
    /// As any role that it asks for.
    Anybody,
    /// As the role of its token or certificate.
    AsShown,
    /// As a reader.
    Reader,
    /// As a reader or an operator.
    Operator,
    /// As a reader, or as the node whose name it gives.
    Named,
    /// It has no role, and may publish numbers below `job.`.
    Publisher,
}

/// Every door, in the order of the table's columns.
const DOORS: [Door; 6] = [Door::Link, Door::Http, Door::Text, Door::Alone, Door::Publish, Door::Mount];

/// `docs/security.md` has the same table in words; a test compares the two.
const TABLE: [(Way, [Cell; 6]); 11] = {
    use Cell::*;
    use Way::*;
    [
        //                       link      HTTP      text      alone     publish    mount
        (LocalRoot, [Anybody, Operator, Operator, Operator, Publisher, Operator]),
        (LocalOwn, [Anybody, Operator, Operator, Operator, Publisher, Operator]),
        (LocalOther, [Reader, Reader, Reader, Operator, Publisher, Reader]),
        (LoopbackRunKey, [Anybody, Reader, Reader, Operator, Nobody, Nobody]),
        (LoopbackShown, [AsShown, AsShown, AsShown, AsShown, Nobody, Nobody]),
        (Loopback, [Reader, Reader, Reader, Operator, Nobody, Nobody]),
        (LoopbackInsecure, [Named, Reader, Reader, Operator, Nobody, Nobody]),
        (ElsewhereCertificate, [AsShown, AsShown, AsShown, AsShown, Nobody, Nobody]),
        (ElsewhereToken, [AsShown, AsShown, AsShown, AsShown, Nobody, Nobody]),
        (Elsewhere, [Nobody, Nobody, Nobody, Nobody, Nobody, Nobody]),
        (ElsewhereInsecure, [Named, Reader, Reader, Reader, Nobody, Nobody]),
    ]
};

/// The roles that a peer may have at a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    cell: Cell,
    shown: Option<Role>,
    /// Nodes only send over the link, and read nothing at other doors.
    takes_nodes: bool,
}

/// What a peer with this way in may be at this door; `shown`: the role of its token or certificate.
pub fn standing(door: Door, way: Way, shown: Option<Role>) -> Standing {
    let row = TABLE.iter().find(|(known, _)| *known == way);
    let column = DOORS.iter().position(|known| *known == door);
    let cell = row.zip(column).map_or(Cell::Nobody, |((_, cells), column)| cells[column]);
    Standing { cell, shown, takes_nodes: door == Door::Link }
}

impl Standing {
    /// Whether the peer may have this role.
    pub fn may_be(self, role: Role) -> bool {
        let is_right = match self.cell {
            Cell::Nobody | Cell::Publisher => false,
            Cell::Anybody => true,
            Cell::AsShown => self.shown == Some(role),
            Cell::Reader => role == Role::Reader,
            Cell::Operator => matches!(role, Role::Reader | Role::Operator),
            Cell::Named => matches!(role, Role::Reader | Role::Node),
        };
        is_right && (self.takes_nodes || role.may_read())
    }

    /// The peer's highest role, for doors at which a peer does not ask for one; `None`: it may not come in.
    pub fn most(self) -> Option<Role> {
        Role::ALL.into_iter().filter(|&role| self.may_be(role)).max()
    }

    /// Whether the peer may publish its own numbers.
    pub fn may_publish(self) -> bool {
        self.cell == Cell::Publisher
    }
}

#[cfg(test)]
#[path = "admission/tests.rs"]
mod tests;
