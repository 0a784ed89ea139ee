//! Who may come in as what: one table for every door, and the one function that reads it. It refuses to know how
//! somebody has proved who he is; doors find that out and ask here what it is worth.

use crate::role::Role;

/// A door, by what is spoken there.
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
    /// The socket at which jobs publish numbers of their own.
    Publish,
    /// The mounted tree: the kernel says whose process opens a file.
    Mount,
}

/// Where somebody comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// By a local socket or a mounted tree, as root.
    LocalRoot,
    /// The same as the user that the daemon, or the mount, runs as.
    LocalOwn,
    /// The same as somebody else.
    LocalOther,
    /// Over TCP from this machine.
    Loopback,
    /// From another machine, or from this one over an address that others have too.
    Elsewhere,
}

/// What somebody has shown, and what was found to be true.
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

/// A way in: where somebody comes from, with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a local socket, as root.
    LocalRoot,
    /// By a local socket, as the daemon's own user.
    LocalOwn,
    /// By a local socket, as somebody else.
    LocalOther,
    /// Over loopback, with the run key.
    LoopbackRunKey,
    /// Over loopback, with a token or a certificate.
    LoopbackShown,
    /// Over loopback, with nothing.
    Loopback,
    /// The same where `--insecure` was said.
    LoopbackInsecure,
    /// From elsewhere, with a certificate.
    ElsewhereCertificate,
    /// From elsewhere, with a token.
    ElsewhereToken,
    /// From elsewhere, with nothing.
    Elsewhere,
    /// The same where `--insecure` was said.
    ElsewhereInsecure,
}

impl Way {
    /// The way of who comes from there and has shown that. A proof counts for more than a place, but by a local socket:
    /// there the kernel has said more already.
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
            // The run key is for this machine.
            (Place::Elsewhere, Proof::Nothing | Proof::RunKey) if insecure => Way::ElsewhereInsecure,
            (Place::Elsewhere, Proof::Nothing | Proof::RunKey) => Way::Elsewhere,
        }
    }

    /// True where a name is believed that nobody has proved.
    pub const fn is_believed(self) -> bool {
        matches!(self, Way::LoopbackInsecure | Way::ElsewhereInsecure)
    }
}

/// One cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// He may not come in.
    Nobody,
    /// As whatever he says he is.
    Anybody,
    /// As what his token or certificate says.
    AsShown,
    /// As a reader.
    Reader,
    /// As a reader or an operator.
    Operator,
    /// As a reader, or as the node that he says he is.
    Named,
    /// He has no role, and may publish numbers below `job.`.
    Publisher,
}

/// Every door, in the order of the table's columns.
const DOORS: [Door; 6] = [Door::Link, Door::Http, Door::Text, Door::Alone, Door::Publish, Door::Mount];

/// `docs/security.md` has the same table in words, and a test holds them against each other.
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

/// What somebody may be at a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    cell: Cell,
    shown: Option<Role>,
    /// A node sends over the link, and reads nothing elsewhere.
    takes_nodes: bool,
}

/// What who comes this way may be at this door; `shown`: the role that his token or certificate says.
pub fn standing(door: Door, way: Way, shown: Option<Role>) -> Standing {
    let row = TABLE.iter().find(|(known, _)| *known == way);
    let column = DOORS.iter().position(|known| *known == door);
    let cell = row.zip(column).map_or(Cell::Nobody, |((_, cells), column)| cells[column]);
    Standing { cell, shown, takes_nodes: door == Door::Link }
}

impl Standing {
    /// Whether he may come as this.
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

    /// The most that he may be, at a door where nobody says as what he comes; `None`: he may not come in.
    pub fn most(self) -> Option<Role> {
        Role::ALL.into_iter().filter(|&role| self.may_be(role)).max()
    }

    /// Whether he may publish numbers of his own.
    pub fn may_publish(self) -> bool {
        self.cell == Cell::Publisher
    }
}

#[cfg(test)]
#[path = "admission/tests.rs"]
mod tests;
