//! The rule for opening an address, the same for every door. Loopback needs nothing. Any other address needs
//! TLS and a way to identify peers, or `--insecure`, with which the user accepts the risk. This file opens
//! nothing.

use std::net::SocketAddr;

/// What a door has been configured with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// A certificate and its key: it speaks TLS.
    pub tls: bool,
    /// A CA for certificates or a cluster key for tokens: it can identify peers.
    pub identifies: bool,
    /// `--insecure`.
    pub insecure: bool,
}

/// The terms under which a door is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Only this machine reaches it: plain text, and peers need to show nothing.
    Loopback,
    /// TLS; peers must show a certificate or a token.
    Tls,
    /// The user accepts that everybody who can reach it may come in; TLS where there is a certificate.
    Insecure,
}

/// An address that may not be opened in this way. The text names the ways out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExposureError {
    /// No TLS.
    #[error(
        "other machines can reach {0}, and without TLS everybody could read along; listen on 127.0.0.1, or give a \
         certificate (--tls-cert and --tls-key; `khz certs` makes them), or add --insecure to accept it"
    )]
    Plain(SocketAddr),
    /// TLS, but no way to identify peers.
    #[error(
        "other machines can reach {0}, and nothing says who may come in; give a CA whose certificates count \
         (--tls-ca) or a key whose tokens count (--cluster-key), or listen on 127.0.0.1, or add --insecure to let \
         everybody in"
    )]
    Anybody(SocketAddr),
    /// A connection to a hub without TLS.
    #[error(
        "readings would go to {0} without TLS, and everybody on the way could read and change them; give the \
         hub's CA (--tls-ca), or go through a tunnel to 127.0.0.1, or add --insecure to accept it"
    )]
    PlainOut(SocketAddr),
}

impl Exposure {
    /// The terms for a door that listens at `address`.
    pub fn of_listener(address: SocketAddr, means: Means) -> Result<Self, ExposureError> {
        match means {
            _ if is_loopback(address) => Ok(Exposure::Loopback),
            Means { insecure: true, .. } => Ok(Exposure::Insecure),
            Means { tls: false, .. } => Err(ExposureError::Plain(address)),
            Means { identifies: false, .. } => Err(ExposureError::Anybody(address)),
            Means { .. } => Ok(Exposure::Tls),
        }
    }

    /// The terms for a connection from here to a hub at `address`; `tls`: the hub's certificate will be
    /// verified.
    pub fn of_caller(address: SocketAddr, tls: bool, insecure: bool) -> Result<Self, ExposureError> {
        match (tls, insecure) {
            (true, _) => Ok(Exposure::Tls),
            _ if is_loopback(address) => Ok(Exposure::Loopback),
            (false, true) => Ok(Exposure::Insecure),
            (false, false) => Err(ExposureError::PlainOut(address)),
        }
    }
}

/// True where only this machine can be the peer.
fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str, tls: bool, identifies: bool, insecure: bool) -> Result<Exposure, String> {
        Exposure::of_listener(address.parse().unwrap(), Means { tls, identifies, insecure })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn loopback_is_free_and_every_other_address_needs_terms() {
        for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(listener(address, false, false, false), Ok(Exposure::Loopback), "{address}");
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            let plain = listener(address, false, true, false).unwrap_err();
            for way in ["127.0.0.1", "--tls-cert", "--insecure"] {
                assert!(plain.contains(way), "{plain}");
            }
            let anybody = listener(address, true, false, false).unwrap_err();
            assert!(anybody.contains("--tls-ca") && anybody.contains("--cluster-key"), "{anybody}");
            assert_eq!(listener(address, true, true, false), Ok(Exposure::Tls));
            assert_eq!(listener(address, false, false, true), Ok(Exposure::Insecure));
        }
    }

    #[test]
    fn plain_connections_leave_this_machine_only_when_somebody_accepts_it() {
        let caller =
            |address: &str, tls, insecure| Exposure::of_caller(address.parse().unwrap(), tls, insecure);
        assert_eq!(caller("127.0.0.1:1", false, false), Ok(Exposure::Loopback));
        assert_eq!(caller("127.0.0.1:1", true, false), Ok(Exposure::Tls));
        assert_eq!(caller("10.0.0.1:1", true, false), Ok(Exposure::Tls));
        assert_eq!(caller("10.0.0.1:1", false, true), Ok(Exposure::Insecure));
        assert!(caller("10.0.0.1:1", false, false).unwrap_err().to_string().contains("--tls-ca"));
    }
}
