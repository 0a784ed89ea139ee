//! Where a connection comes from: an address, or this machine's own socket, where the kernel says whose process calls.

use std::fmt;
use std::net::SocketAddr;

use khz_trust::Role;
use rustix::fd::AsFd;

/// Where somebody calls from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Over the network.
    Net(SocketAddr),
    /// From this machine, through the local socket.
    Local {
        /// Whose process it is; `None`: the kernel does not say.
        uid: Option<u32>,
        /// Root or our own user, who own this process.
        owns_us: bool,
    },
}

impl Caller {
    /// Who is at the other end of a local socket.
    pub fn of_local(socket: impl AsFd) -> Self {
        let own = rustix::process::geteuid();
        match rustix::net::sockopt::socket_peercred(socket) {
            Ok(peer) => {
                Caller::Local { uid: Some(peer.uid.as_raw()), owns_us: peer.uid.is_root() || peer.uid == own }
            }
            Err(_) => Caller::Local { uid: None, owns_us: false },
        }
    }

    /// True where the kernel vouches for this role, so that nothing needs to be shown; `None`: it says nothing.
    pub fn may_be(&self, role: Role) -> Option<bool> {
        match self {
            Caller::Net(_) => None,
            Caller::Local { owns_us, .. } => Some(*owns_us || role == Role::Reader),
        }
    }

    /// Without a port, for people.
    pub fn place(&self) -> String {
        match self {
            Caller::Net(address) => address.ip().to_string(),
            Caller::Local { .. } => self.to_string(),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caller::Net(address) => address.fmt(f),
            Caller::Local { uid: Some(uid), .. } => write!(f, "this machine, uid {uid}"),
            Caller::Local { uid: None, .. } => f.write_str("this machine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_the_local_socket_owners_may_be_anybody_and_others_read() {
        let local = |owns_us| Caller::Local { uid: Some(7), owns_us };
        for role in Role::ALL {
            assert_eq!(local(true).may_be(role), Some(true));
            assert_eq!(local(false).may_be(role), Some(role == Role::Reader));
            assert_eq!(Caller::Net(([127, 0, 0, 1], 1).into()).may_be(role), None);
        }
        assert_eq!(local(true).to_string(), "this machine, uid 7");
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(matches!(Caller::of_local(&ours), Caller::Local { uid: Some(_), owns_us: true }));
    }
}
