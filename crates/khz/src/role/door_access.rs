//! TLS, tokens and roles of the doors of this process, as the plan says. Opens no door.

use std::sync::Arc;

use khz_door::Access;
use khz_trust::{ClientCertificates, ClusterKey, Door, Protocol, REFRESH_PERIOD, TlsServer, TrustError};

use crate::config::Plan;
use crate::show::outcome::{Failure, sentence};

/// TLS and access of the doors.
pub struct DoorAccess {
    /// TLS of the HTTP door.
    pub http: Option<Arc<TlsServer>>,
    /// TLS of the text door.
    pub text: Option<Arc<TlsServer>>,
    /// What each role may do at the HTTP door.
    pub http_access: Access,
    /// The same at the text door.
    pub text_access: Access,
}

/// TLS and tokens where the plan has them: for the doors of a hub or agent, or of `khz` alone.
pub fn load(plan: &Plan, is_alone: bool) -> Result<DoorAccess, Failure> {
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
    Ok(DoorAccess {
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
