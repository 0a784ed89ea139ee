//! TLS settings for both sides: rustls with ring, TLS 1.3 and 1.2, from files that may change while they are
//! in use. No other providers, no roots but those given, and no sockets.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::certificate::Certificate;
use crate::error::TrustError;
use crate::files::{read_private, read_public};
use crate::moment::Moment;
use crate::watched::Watched;

/// How often an owner calls `refresh`.
pub const REFRESH_PERIOD: Duration = Duration::from_secs(10);
/// A peer that has not finished its handshake by then is disconnected. A handshake takes a millisecond and
/// three round trips.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// After a restart every node of a large cluster may come back at once, so each gets only one ticket.
const TICKETS: usize = 1;

/// The protocol inside TLS; the handshake names it, so that no peer talks to the wrong door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// The link.
    Link,
    /// The text protocol, which `openssl s_client` speaks without naming it.
    Text,
}

/// Whether a caller must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// It may; a wrong certificate is still refused.
    Optional,
    /// It must.
    Required,
}

/// The files of a server, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// Its certificate, and the certificates between it and its CA.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The CA that signs callers' certificates; without it callers are not asked for one.
    pub ca: Option<PathBuf>,
}

/// The files of a caller, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// The CA of the servers that are trusted.
    pub ca: PathBuf,
    /// Certificate and key to show where the server asks for them.
    pub pair: Option<(PathBuf, PathBuf)>,
}

/// The server's side of TLS.
pub struct TlsServer {
    files: ServerFiles,
    clients: ClientCertificates,
    protocol: Protocol,
    config: Watched<Arc<ServerConfig>>,
}

/// The caller's side of TLS.
pub struct TlsClient {
    files: ClientFiles,
    protocol: Protocol,
    config: Watched<Arc<ClientConfig>>,
}

impl Protocol {
    fn alpn(self) -> Vec<Vec<u8>> {
        match self {
            Protocol::Http => vec![b"http/1.1".to_vec()],
            Protocol::Link => vec![b"khz-link/1".to_vec()],
            Protocol::Text => Vec::new(),
        }
    }
}

impl ServerFiles {
    /// Certificate and key.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        ServerFiles { certificate: certificate.into(), key: key.into(), ca: None }
    }

    /// The same with a CA for callers' certificates.
    #[must_use]
    pub fn with_ca(self, ca: impl Into<PathBuf>) -> Self {
        ServerFiles { ca: Some(ca.into()), ..self }
    }

    fn config(&self, clients: ClientCertificates, protocol: Protocol) -> Result<ServerConfig, TrustError> {
        let provider = Arc::new(default_provider());
        let pair = pair(&self.certificate, &self.key, &provider)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|problem| TrustError::Tls { path: self.certificate.clone(), problem })?;
        let builder = match &self.ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca)?), provider);
                let verifier = match clients {
                    ClientCertificates::Optional => verifier.allow_unauthenticated(),
                    ClientCertificates::Required => verifier,
                };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| content(ca, error))?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
        config.alpn_protocols = protocol.alpn();
        // Callers keep the tickets: they take no memory here, however many callers there are. New files mean
        // new ticket keys, so a caller that the new CA would refuse cannot resume a session that the old CA
        // allowed.
        config.ticketer = Ticketer::new().map_err(|_| TrustError::Random)?;
        config.send_tls13_tickets = TICKETS;
        Ok(config)
    }
}

impl ClientFiles {
    /// The CA alone: a token identifies the caller, or nothing does.
    pub fn new(ca: impl Into<PathBuf>) -> Self {
        ClientFiles { ca: ca.into(), pair: None }
    }

    /// The same with a certificate and its key.
    #[must_use]
    pub fn with_pair(self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        ClientFiles { pair: Some((certificate.into(), key.into())), ..self }
    }

    fn config(&self, protocol: Protocol) -> Result<ClientConfig, TrustError> {
        let provider = Arc::new(default_provider());
        let roots = Arc::new(roots(&self.ca)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|problem| TrustError::Tls { path: self.ca.clone(), problem })?
            .with_webpki_verifier(verifier.build().map_err(|error| content(&self.ca, error))?);
        let mut config = match &self.pair {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let pair = pair(certificate, key, &provider)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair)))
            }
        };
        config.alpn_protocols = protocol.alpn();
        Ok(config)
    }
}

impl TlsServer {
    /// Reads the files; errors name the wrong file and what is wrong with it.
    pub fn load(
        files: ServerFiles,
        clients: ClientCertificates,
        protocol: Protocol,
    ) -> Result<Self, TrustError> {
        let mut paths = vec![files.certificate.clone(), files.key.clone()];
        paths.extend(files.ca.clone());
        let config = Watched::new(paths, || files.config(clients, protocol).map(Arc::new))?;
        Ok(TlsServer { files, clients, protocol, config })
    }

    /// The settings for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.get()
    }

    /// Reads the files again if they have changed, for connections from now on. Returns true if they had.
    /// When they cannot be used, the old ones stay in use, and the error is returned once for each change.
    /// Call it every [`REFRESH_PERIOD`]; it costs one `stat` for each file.
    pub fn refresh(&self) -> Result<bool, TrustError> {
        self.config.refresh(|| self.files.config(self.clients, self.protocol).map(Arc::new))
    }
}

impl TlsClient {
    /// Reads the files; errors name the wrong file and what is wrong with it.
    pub fn load(files: ClientFiles, protocol: Protocol) -> Result<Self, TrustError> {
        let mut paths = vec![files.ca.clone()];
        paths.extend(files.pair.iter().flat_map(|(certificate, key)| [certificate.clone(), key.clone()]));
        let config = Watched::new(paths, || files.config(protocol).map(Arc::new))?;
        Ok(TlsClient { files, protocol, config })
    }

    /// The settings for the next connection.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.get()
    }

    /// Like [`TlsServer::refresh`].
    pub fn refresh(&self) -> Result<bool, TrustError> {
        self.config.refresh(|| self.files.config(self.protocol).map(Arc::new))
    }

    /// A host as the server's certificate must name it: a DNS name or an address, without a port.
    pub fn server_name(host: &str) -> Result<ServerName<'static>, TrustError> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(ServerName::from(ip.to_canonical()));
        }
        ServerName::try_from(host.to_owned()).map_err(|_| TrustError::ServerName(host.to_owned()))
    }
}

fn content(path: &Path, problem: impl std::fmt::Display) -> TrustError {
    TrustError::Content { path: path.into(), problem: problem.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let pem = read_public(path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(content(path, "there is no certificate in it (PEM, BEGIN CERTIFICATE)")),
        Err(problem) => Err(content(path, format!("this is not PEM: {problem}"))),
    }
}

fn roots(path: &Path) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|problem| TrustError::Tls { path: path.into(), problem })?;
    }
    Ok(roots)
}

/// A certificate and its key, checked against each other and against the clock.
fn pair(certificate: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, TrustError> {
    let chain = certificates(certificate)?;
    check_time(certificate, &chain[0])?;
    let der = PrivateKeyDer::from_pem_slice(&read_private(key)?)
        .map_err(|_| content(key, "there is no private key in it (PEM, BEGIN PRIVATE KEY)"))?;
    CertifiedKey::from_der(chain, der, provider).map_err(|problem| match problem {
        rustls::Error::InconsistentKeys(_) => {
            TrustError::WrongKey { certificate: certificate.into(), key: key.into() }
        }
        problem => TrustError::Tls { path: key.into(), problem },
    })
}

fn check_time(path: &Path, der: &[u8]) -> Result<(), TrustError> {
    let certificate = Certificate::read(der).map_err(|problem| content(path, problem))?;
    let now = Moment::now();
    if now > certificate.until {
        return Err(TrustError::Expired { path: path.into(), since: certificate.until });
    }
    if now < certificate.from {
        return Err(TrustError::NotYetValid { path: path.into(), from: certificate.from, now });
    }
    Ok(())
}
