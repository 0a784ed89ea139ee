//! Who is who, and who may do what: roles, tokens, certificates, TLS settings, and the rule for opening an
//! address. This crate opens no socket and writes no log: doors call it, and act on its answers.
//!
//! A hub's link door in short:
//!
//! ```no_run
//! # use khz_trust::*;
//! # fn door(listen: std::net::SocketAddr, insecure: bool) -> Result<(), Box<dyn std::error::Error>> {
//! let key = ClusterKey::read("/etc/khz/tls/cluster.key".as_ref())?;
//! let files = ServerFiles::new("/etc/khz/tls/hub.pem", "/etc/khz/tls/hub.key").with_ca("/etc/khz/tls/ca.pem");
//! let tls = TlsServer::load(files, ClientCertificates::Optional, Protocol::Link)?;
//! Exposure::of_listener(listen, Means { tls: true, identifies: true, insecure })?;
//! // For each connection:
//! let session = rustls::ServerConnection::new(tls.config())?;
//! // After the handshake, the identity of the peer:
//! let known = session.peer_certificates().and_then(|chain| chain.first());
//! let identity = known.map(|certificate| Identity::of_certificate(certificate)).transpose()?;
//! // Or, without a certificate, after its Hello:
//! # let (said, nonce, proof) = (Identity { role: Role::Node, name: khz_model::NodeName::new("n1")? }, [0; 32], [0; 32]);
//! let is_right = key.verify(&said, &nonce, &proof);
//! // Every REFRESH_PERIOD; the error goes into the log:
//! let reloaded = tls.refresh()?;
//! # Ok(()) }
//! ```

#![forbid(unsafe_code)]

mod admission;
mod certificate;
mod cluster_key;
mod error;
mod explain;
mod exposure;
mod files;
mod moment;
mod role;
mod run_key;
mod tls;
mod token;
mod watched;

pub use admission::{Door, Place, Proof, Standing, Way, standing};
pub use certificate::{Certificate, PeerError};
pub use cluster_key::{ClusterKey, NONCE_BYTES, PROOF_BYTES};
pub use error::TrustError;
pub use explain::{explain, explain_io, in_our_words};
pub use exposure::{Exposure, ExposureError, Means};
pub use files::{read_private, read_public, write_new};
pub use moment::Moment;
pub use role::{Identity, READER_RATE_MAX_HZ, Role, RoleError};
pub use run_key::{RunKey, RunKeyFile};
pub use tls::{
    ClientCertificates, ClientFiles, HANDSHAKE_TIMEOUT, Protocol, REFRESH_PERIOD, ServerFiles, TlsClient,
    TlsServer,
};
pub use token::{TOKEN_BYTES_MAX, Token, TokenError};
