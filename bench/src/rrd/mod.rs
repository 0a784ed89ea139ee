//! `.rrd` files beside librrd and rrdcached: the sections, and what they share.

mod accept;
mod cgroup;
mod client;
mod daemons;
mod plot;
mod replay;
mod resident;
mod rounds;
mod tree;
mod update;

use crate::Section;

/// The sections in their order.
pub const SECTIONS: [Section; 6] = [
    ("update", update::run),
    ("resident", resident::run),
    ("accept", accept::accepted),
    ("drain", accept::drained),
    ("replay", replay::run),
    ("rounds", rounds::run),
];
