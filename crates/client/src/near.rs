//! What this machine has of a hub that it reaches over loopback: the hub's local socket, and the key of its run, where
//! we are its user or root. It connects to nobody.

use std::net::SocketAddr;
use std::path::Path;

use khz_link::driver::{FindNear, Near};
use khz_link::{Prove, Role, Vouch};
use khz_trust::{Identity, RunKeyFile};

use crate::place;

/// Looks for the hub at an address each time a connection to it is made. `identity`: as what we come; `raised`: as what
/// instead, where the key is found.
pub fn find(run_dir: Option<&Path>, identity: Identity, raised: Option<khz_trust::Role>) -> FindNear {
    let told = run_dir.map(Path::to_owned);
    Box::new(move |address| {
        let RunKeyFile { key, socket } = at(told.as_deref(), address)?;
        let token = key.token(raised.unwrap_or(identity.role), &identity.name);
        let prove: Prove = Box::new(move |nonce| token.proof(nonce));
        Some(Near { socket, vouch: Vouch { prove, role: raised.map(link_role) } })
    })
}

/// The key of the hub at this address, if one of our user's, or of anybody's where we are root, runs there.
pub fn at(run_dir: Option<&Path>, address: SocketAddr) -> Option<RunKeyFile> {
    RunKeyFile::find(&place::run_dirs(run_dir), address)
}

/// The role as the link says it.
pub(crate) fn link_role(role: khz_trust::Role) -> Role {
    match role {
        khz_trust::Role::Node => Role::Node,
        khz_trust::Role::Reader => Role::Reader,
        khz_trust::Role::Operator => Role::Operator,
        khz_trust::Role::Hub => Role::Hub,
    }
}
