//! How a program reaches a hub: its address, the proof of our identity, and our role. Opens no connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_link::Prove;
use khz_link::driver::{Counters, FindNear, FollowingSettings, HubAddress, TlsSettings};
use khz_model::NodeName;
use khz_trust::{ClientFiles, Exposure, ExposureError, Identity, Protocol, TlsClient, Token, TrustError};
use rustix::time::{ClockId, clock_gettime};

use crate::{near, place};

/// The way to a hub. For fields that are not set, khz's defaults on this machine apply.
///
/// ```no_run
/// use khz_client::Access;
///
/// let here = Access::local()?;
/// let there = Access::hub("hub1", 7071).with_ca("/etc/khz/tls/ca.pem").with_token("/etc/khz/tls/job.token")?;
/// # Ok::<(), khz_client::AccessError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Access {
    /// The hubs, the preferred one first.
    pub hubs: Vec<HubAddress>,
    /// The hubs' CA, and our certificate if we have one.
    pub files: Option<ClientFiles>,
    /// Our token.
    pub token: Option<Token>,
    /// Connect to other machines even without TLS.
    pub insecure: bool,
    /// Our name, if neither token nor certificate has one.
    pub name: NodeName,
    /// Search this directory first for the socket and the run key of a hub on this machine.
    pub run_dir: Option<PathBuf>,
    /// The local address to connect from; `None`: the kernel chooses.
    pub from: Option<IpAddr>,
}

/// Why no hub can be reached.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// No khz accepts connections on this machine.
    #[error("no khz answers on this machine (looked for {sockets} in {folders}), and no hub is named")]
    NobodyHere {
        /// The socket names that were tried.
        sockets: String,
        /// The directories that were searched.
        folders: String,
    },
    /// A key or certificate file cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Our certificate names no identity.
    #[error("{path}: {problem}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with the certificate.
        problem: String,
    },
    /// The token or certificate belongs to a role that only sends rows.
    #[error("{identity} may send rows but not read them; a reader's token is made by `khz certs token`")]
    MayNotRead {
        /// The identity in it.
        identity: Identity,
    },
    /// Others could read the connection.
    #[error("hub {hub}: {source}")]
    Exposed {
        /// The hub.
        hub: HubAddress,
        /// Why it is refused.
        source: ExposureError,
    },
}

impl Access {
    /// Through the local socket of a khz on this machine: a hub, or a khz that runs alone.
    ///
    /// # Errors
    /// No khz accepts connections.
    pub fn local() -> Result<Self, AccessError> {
        Access::local_in(None)
    }

    /// The same, with the sockets in this directory.
    ///
    /// # Errors
    /// No khz accepts connections.
    pub fn local_in(run_dir: Option<&Path>) -> Result<Self, AccessError> {
        match place::link_socket(run_dir) {
            Some(socket) => {
                let run_dir = run_dir.map(Path::to_owned);
                Ok(Access { run_dir, ..Access::to(vec![HubAddress::Local(socket)]) })
            }
            None => {
                let folders = place::run_dirs(run_dir);
                let folders: Vec<String> =
                    folders.iter().map(|folder| folder.display().to_string()).collect();
                Err(AccessError::NobodyHere {
                    sockets: [place::HUB_LINK_SOCKET, place::ALONE_LINK_SOCKET].join(" and "),
                    folders: folders.join(", "),
                })
            }
        }
    }

    /// Through a hub's link door.
    pub fn hub(host: impl Into<String>, port: u16) -> Self {
        Access::to(vec![HubAddress::Net { host: host.into(), port }])
    }

    /// Through the first of these hubs that answers.
    pub fn to(hubs: Vec<HubAddress>) -> Self {
        Access {
            hubs,
            files: None,
            token: None,
            insecure: false,
            name: host_name(),
            run_dir: None,
            from: None,
        }
    }

    /// Use TLS; the hubs' certificates must be signed by this CA.
    #[must_use]
    pub fn with_ca(self, ca: impl Into<PathBuf>) -> Self {
        Access { files: Some(ClientFiles::new(ca)), ..self }
    }

    /// Show the token in this file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn with_token(self, path: impl AsRef<Path>) -> Result<Self, AccessError> {
        Ok(Access { token: Some(Token::read(path.as_ref())?), ..self })
    }

    /// Connect from this local address, on hosts that have several.
    #[must_use]
    pub fn from_address(self, from: IpAddr) -> Self {
        Access { from: Some(from), ..self }
    }

    /// The TLS settings for this protocol; `None`: plain text is allowed.
    ///
    /// # Errors
    /// A file cannot be used, or others could read the connection.
    pub fn tls(&self, protocol: Protocol) -> Result<Option<TlsSettings>, AccessError> {
        for hub in &self.hubs {
            let HubAddress::Net { host, port } = hub else { continue };
            let address = SocketAddr::new(ip_of(host), *port);
            Exposure::of_caller(address, self.files.is_some(), self.insecure)
                .map_err(|source| AccessError::Exposed { hub: hub.clone(), source })?;
        }
        Ok(self.files.clone().map(|files| tls_settings(files, protocol)).transpose()?)
    }

    /// Our identity. The role is that of our token or certificate; else operator, if we own the khz whose
    /// socket it is or can read the run key of this machine's hub; else reader.
    ///
    /// # Errors
    /// The certificate names no identity, or one that may not read.
    pub fn identity(&self) -> Result<Identity, AccessError> {
        let identity = self.said()?;
        if !identity.role.may_read() {
            return Err(AccessError::MayNotRead { identity });
        }
        Ok(identity)
    }

    fn said(&self) -> Result<Identity, AccessError> {
        if let Some(token) = &self.token {
            return Ok(token.identity().clone());
        }
        if let Some((certificate, _)) = self.files.as_ref().and_then(|files| files.pair.as_ref()) {
            return of_certificate(certificate);
        }
        let all_ours = !self.hubs.is_empty() && self.hubs.iter().all(|hub| self.owns(hub));
        let role = if all_ours { khz_trust::Role::Operator } else { khz_trust::Role::Reader };
        Ok(Identity { role, name: self.name.clone() })
    }

    /// Whether we own the khz that answers there now.
    fn owns(&self, hub: &HubAddress) -> bool {
        match hub {
            HubAddress::Local(path) => is_ours(path),
            HubAddress::Net { host, port } => {
                let address = SocketAddr::new(ip_of(host), *port);
                near::at(self.run_dir.as_deref(), address).is_some()
            }
        }
    }

    /// The proof of our identity for a hub of this machine: without a token or certificate we are operators
    /// there, also at a hub that starts later.
    fn near(&self, identity: &Identity) -> FindNear {
        let raised = (!self.shows_something()).then_some(khz_trust::Role::Operator);
        near::find(self.run_dir.as_deref(), identity.clone(), raised)
    }

    /// Whether we have a token or a certificate.
    fn shows_something(&self) -> bool {
        self.token.is_some() || self.files.as_ref().is_some_and(|files| files.pair.is_some())
    }

    /// The settings for a link's thread.
    ///
    /// # Errors
    /// A file cannot be used, or others could read the connection.
    pub fn settings(&self) -> Result<FollowingSettings, AccessError> {
        let tls = self.tls(Protocol::Link)?;
        let mut identity = self.identity()?;
        let near = self.near(&identity);
        let over_net = |hub: &HubAddress| matches!(hub, HubAddress::Net { .. });
        if !self.shows_something() && self.hubs.iter().any(over_net) {
            // A run key, at each hub where one is found, raises the role.
            identity.role = khz_trust::Role::Reader;
        }
        let identity = link_identity(identity, self.token.clone());
        Ok(FollowingSettings {
            hubs: self.hubs.clone(),
            identity: Arc::new(identity),
            tls,
            near: Some(near),
            from: self.from,
            counters: Counters::default(),
        })
    }
}

/// A name may stand for any machine, so it counts as elsewhere.
fn ip_of(host: &str) -> IpAddr {
    const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => host.parse().unwrap_or(ELSEWHERE),
    }
}

/// Reads changed files again for each connection; unusable ones leave the old settings in use.
fn tls_settings(files: ClientFiles, protocol: Protocol) -> Result<TlsSettings, TrustError> {
    let client = TlsClient::load(files, protocol)?;
    Ok(Box::new(move || {
        let _ = client.refresh();
        client.config()
    }))
}

fn of_certificate(path: &Path) -> Result<Identity, AccessError> {
    let wrong = |problem: String| AccessError::Certificate { path: path.into(), problem };
    let pem = khz_trust::read_public(path)?;
    khz_trust::Certificate::read_pem(&pem)
        .and_then(|certificate| certificate.identity())
        .map_err(|error| wrong(error.to_string()))
}

/// Root owns everything; a socket belongs to the user that made it.
fn is_ours(socket: &Path) -> bool {
    let own = rustix::process::geteuid();
    own.is_root() || std::fs::metadata(socket).is_ok_and(|about| about.uid() == own.as_raw())
}

fn host_name() -> NodeName {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    NodeName::new(&name)
        .or_else(|_| NodeName::new("localhost"))
        .expect("BUG: 'localhost' is a valid node name")
}

fn link_identity(identity: Identity, token: Option<Token>) -> khz_link::Identity {
    let boot = clock_gettime(ClockId::Boottime);
    let mut nonce = [0; 8];
    // If the kernel has no random bytes, the time serves: it tells two starts apart, and proves nothing.
    let _ = rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::NONBLOCK);
    khz_link::Identity {
        role: near::link_role(identity.role),
        name: identity.name.to_string(),
        machine: [0; 16],
        boot: [0; 16],
        started: boot.tv_sec * 1_000_000_000 + boot.tv_nsec,
        start_nonce: u64::from_le_bytes(nonce) ^ boot.tv_nsec as u64,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        prove: token.map(|token| Box::new(move |nonce: &[u8; 32]| token.proof(nonce)) as Prove),
    }
}
