//! What the doors of this process are fitted with, as the plan says: TLS, tokens, roles and local sockets. It refuses
//! to open them.

use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use khz_door::{Access, LocalSocket};
use khz_trust::{ClientCertificates, ClusterKey, Door, Protocol, REFRESH_PERIOD, TlsServer, TrustError};

use crate::config::{Plan, places};
use crate::show::outcome::{Failure, sentence};

/// Everybody may look for a socket in it; who he is decides what he may do there.
const RUN_DIR_MODE: u32 = 0o755;

/// What the plan gives to doors.
pub struct Fitting {
    /// TLS of the HTTP door.
    pub http: Option<Arc<TlsServer>>,
    /// TLS of the text door.
    pub text: Option<Arc<TlsServer>>,
    /// Who may do what at the HTTP door.
    pub http_access: Access,
    /// The same at the text door.
    pub text_access: Access,
}

/// TLS and tokens where the plan has them, for the doors of a hub or agent, or of a `khz` that is alone.
pub fn fitting(plan: &Plan, is_alone: bool) -> Result<Fitting, Failure> {
    let unusable = |error: TrustError| Failure::usage(sentence(&error));
    let tls = |protocol| {
        let files = plan.trust.server_files();
        let tls = files.map(|files| TlsServer::load(files, ClientCertificates::Optional, protocol));
        tls.transpose().map(|tls| tls.map(Arc::new)).map_err(unusable)
    };
    let key = plan.trust.cluster_key.as_deref().map(ClusterKey::read);
    let key = key.transpose().map_err(unusable)?.map(Arc::new);
    let access = |door| {
        let door = if is_alone { Door::Alone } else { door };
        Access { door, insecure: plan.insecure, key: key.clone() }
    };
    Ok(Fitting {
        http: tls(Protocol::Http)?,
        text: tls(Protocol::Text)?,
        http_access: access(Door::Http),
        text_access: access(Door::Text),
    })
}

/// Reads a door's certificate again whenever its files change; never ends.
pub async fn keep_fresh(door: &str, tls: Option<Arc<TlsServer>>) {
    let Some(tls) = tls else { return std::future::pending().await };
    loop {
        tokio::time::sleep(REFRESH_PERIOD).await;
        match tls.refresh() {
            Ok(false) => {}
            Ok(true) => tracing::info!("the {door} door has read its new certificate"),
            Err(error) => tracing::error!("the {door} door keeps its old certificate: {}", sentence(&error)),
        }
    }
}

/// Our own local socket. Without one everything goes by TCP: why there is none is only logged.
pub fn local_socket(plan: &Plan, name: &str) -> Option<LocalSocket> {
    let path = socket_path(plan, name)?;
    match LocalSocket::bind(&path) {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::info!("there is no local socket: {}", sentence(&error));
            None
        }
    }
}

/// Where a local socket of ours goes, in a folder that is there.
pub fn socket_path(plan: &Plan, name: &str) -> Option<PathBuf> {
    Some(run_dir(plan)?.join(name))
}

/// The folder where what we have for this machine goes; it is there.
pub fn run_dir(plan: &Plan) -> Option<PathBuf> {
    let folder = places::run_dirs(plan).into_iter().next()?;
    let made = std::fs::DirBuilder::new().recursive(true).mode(RUN_DIR_MODE).create(&folder);
    if let Err(error) = made {
        tracing::info!("there are no local sockets: cannot make {}: {error}", folder.display());
        return None;
    }
    // In a folder where everybody writes somebody else may have been faster.
    if !khz_client::place::is_safe(&folder) {
        tracing::warn!("there are no local sockets: {} is another user's", folder.display());
        return None;
    }
    Some(folder)
}

/// A local socket for a thread of its own; why there is none is only logged.
pub fn listener(socket: &mut LocalSocket) -> Option<UnixListener> {
    socket.std_listener().unwrap_or_else(|error| {
        tracing::info!("there is no local socket: {error}");
        None
    })
}
