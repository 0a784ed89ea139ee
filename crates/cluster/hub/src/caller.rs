//! Where a connection comes from: an address, or this machine's own socket, for which the kernel names the process's
//! user.

use std::fmt;
use std::net::SocketAddr;

use khz_trust::Place;
use rustix::fd::AsFd;

/// The origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Over the network.
    Net(SocketAddr),
    /// From this machine, through the local socket.
    Local {
        /// The user of the process; `None`: the kernel does not say.
        uid: Option<u32>,
        /// What that user may do here.
        place: Place,
    },
}

impl Caller {
    /// The peer of a local socket.
    pub fn of_local(socket: impl AsFd) -> Self {
        let own = rustix::process::geteuid();
        match rustix::net::sockopt::socket_peercred(socket) {
            Ok(peer) => Caller::Local {
                uid: Some(peer.uid.as_raw()),
                place: match peer.uid {
                    uid if uid.is_root() => Place::LocalRoot,
                    uid if uid == own => Place::LocalOwn,
                    _ => Place::LocalOther,
                },
            },
            Err(_) => Caller::Local { uid: None, place: Place::LocalOther },
        }
    }

    /// The origin, for the table of roles.
    pub fn place(&self) -> Place {
        match self {
            Caller::Net(address) if address.ip().to_canonical().is_loopback() => Place::Loopback,
            Caller::Net(_) => Place::Elsewhere,
            Caller::Local { place, .. } => *place,
        }
    }

    /// Without a port, for people.
    pub fn from(&self) -> String {
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
    fn the_kernel_names_peers_of_the_local_socket_and_the_address_tells_loopback() {
        let local = Caller::Local { uid: Some(7), place: Place::LocalOther };
        assert_eq!((local.to_string().as_str(), local.place()), ("this machine, uid 7", Place::LocalOther));
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let place = Caller::of_local(&ours).place();
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(place, if is_root { Place::LocalRoot } else { Place::LocalOwn });
        for (address, place) in [
            ("127.0.0.1:1", Place::Loopback),
            ("127.9.9.9:1", Place::Loopback),
            ("[::ffff:127.0.0.1]:1", Place::Loopback),
            ("10.0.0.1:1", Place::Elsewhere),
        ] {
            assert_eq!(Caller::Net(address.parse().unwrap()).place(), place, "{address}");
        }
    }
}
