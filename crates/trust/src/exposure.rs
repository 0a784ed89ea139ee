//! The rule which address may be opened how, the same for every door: loopback is free; elsewhere TLS and a way to
//! know who comes, or somebody says that he accepts the risk. It refuses to open anything.

use std::net::SocketAddr;

/// What a door has been given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// A certificate and its key: it speaks TLS.
    pub tls: bool,
    /// A CA for certificates or a cluster key for tokens: it can know who comes.
    pub identifies: bool,
    /// `--insecure`.
    pub insecure: bool,
}

/// Under which terms a door is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Only this machine reaches it: plain text, and who comes needs to show nothing.
    Loopback,
    /// TLS; who comes must show a certificate or a token.
    Tls,
    /// Somebody accepted that everybody who can reach it may come in; with TLS where there is a certificate.
    Insecure,
}

/// An address that may not be opened like this. The text says the ways out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExposureError {
    /// No TLS.
    #[error(
        "other machines can reach {0}, and without TLS everybody could read along; listen on 127.0.0.1, or give a \
         certificate (--tls-cert and --tls-key; `khz certs` makes them), or add --insecure to accept it"
    )]
    Plain(SocketAddr),
    /// TLS, and nothing to tell people apart by.
    #[error(
        "other machines can reach {0}, and nothing says who may come in; give a CA whose certificates count \
         (--tls-ca) or a key whose tokens count (--cluster-key), or listen on 127.0.0.1, or add --insecure to let \
         everybody in"
    )]
    Anybody(SocketAddr),
    /// A plain connection out.
    #[error(
        "readings would go to {0} without TLS, and everybody on the way could read and change them; give the \
         hub's CA (--tls-ca), or go through a tunnel to 127.0.0.1, or add --insecure to accept it"
    )]
    PlainOut(SocketAddr),
}

impl Exposure {
    /// For a door that listens at `address`.
    pub fn of_listener(address: SocketAddr, means: Means) -> Result<Self, ExposureError> {
        match means {
            _ if is_loopback(address) => Ok(Exposure::Loopback),
            Means { insecure: true, .. } => Ok(Exposure::Insecure),
            Means { tls: false, .. } => Err(ExposureError::Plain(address)),
            Means { identifies: false, .. } => Err(ExposureError::Anybody(address)),
            Means { .. } => Ok(Exposure::Tls),
        }
    }

    /// For a connection from here to a hub at `address`; `tls` where the hub's certificate will be verified.
    pub fn of_caller(address: SocketAddr, tls: bool, insecure: bool) -> Result<Self, ExposureError> {
        match (tls, insecure) {
            (true, _) => Ok(Exposure::Tls),
            _ if is_loopback(address) => Ok(Exposure::Loopback),
            (false, true) => Ok(Exposure::Insecure),
            (false, false) => Err(ExposureError::PlainOut(address)),
        }
    }
}

/// True where only this machine can be at the other end.
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
    fn loopback_is_free_and_everything_else_asks() {
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
