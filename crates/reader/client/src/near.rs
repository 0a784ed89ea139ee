//! Finds, for a program on the link, the local socket and the run key of a hub on loopback. The key is found only by the
//! hub's user and root. Connects to nothing.

use std::net::SocketAddr;
use std::path::Path;

use khz_link::driver::{FindNear, Near};
use khz_link::{Prove, Role, Vouch};
use khz_trust::{Identity, RunKeyFile};

use crate::place;

/// Finds the hub at an address again for each connection to it. `identity`: who we are; `raised`: our role
/// instead if the run key is found.
pub fn find(run_dir: Option<&Path>, identity: Identity, raised: Option<khz_trust::Role>) -> FindNear {
    let told = run_dir.map(Path::to_owned);
    Box::new(move |address| {
        let RunKeyFile { key, socket } = at(told.as_deref(), address)?;
        let token = key.token(raised.unwrap_or(identity.role), &identity.name);
        let prove: Prove = Box::new(move |nonce| token.proof(nonce));
        Some(Near { socket, vouch: Vouch { prove, role: raised.map(link_role) } })
    })
}

/// The run key of the hub at this address, if the hub runs as our user; for root, as any user.
pub fn at(run_dir: Option<&Path>, address: SocketAddr) -> Option<RunKeyFile> {
    RunKeyFile::find(&place::run_dirs(run_dir), address)
}

/// The same role in the link's type.
pub(crate) fn link_role(role: khz_trust::Role) -> Role {
    match role {
        khz_trust::Role::Node => Role::Node,
        khz_trust::Role::Reader => Role::Reader,
        khz_trust::Role::Operator => Role::Operator,
        khz_trust::Role::Hub => Role::Hub,
    }
}
