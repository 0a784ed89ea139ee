//! The link door of a cluster of one: a local socket, at which it is read as a hub is, so that a reader needs to know one
//! way only. Its own agent reports to it, like any agent to any hub. Nobody comes in from elsewhere.

use std::sync::Arc;

use khz_client::place::ALONE_LINK_SOCKET;
use khz_door::LocalSocket;
use khz_hub::{Cluster, LinkDoor, LinkServer};
use khz_link::driver::{Bell, Counters, Driver, HubAddress, Settings};
use khz_model::ByteSize;

use crate::agent_lanes::AgentLanes;
use crate::agent_texts::{self, AgentTexts};
use crate::config::Plan;
use crate::outcome::{Failure, sentence};
use crate::{agent, door, hub};

/// The door, while it is open.
pub struct OwnLink {
    // In this order they end: a hub that goes says nothing of those it had.
    _server: LinkServer,
    driver: Driver,
    _socket: LocalSocket,
}

impl OwnLink {
    /// Opens it; without a place for local sockets there is none, which is only logged.
    pub fn open(plan: &Plan, lanes: khz_gather::Lanes) -> Result<Option<Self>, Failure> {
        let Some(mut socket) = door::local_socket(plan, ALONE_LINK_SOCKET) else { return Ok(None) };
        let Some(local) = door::listener(&mut socket) else { return Ok(None) };
        let path = socket.path().to_owned();
        // The rings keep the past.
        let settings =
            khz_hub::Settings { name: plan.node.to_string(), history: ByteSize(0), rate_max: plan.rate_max };
        let cluster = Cluster::new(settings, hub::identity()?);
        let link = LinkDoor {
            listen: Vec::new(),
            local: Some(local),
            tls: None,
            key: None,
            certificates: false,
            insecure: false,
        };
        let server = LinkServer::start(cluster, link).map_err(|error| Failure::work(sentence(&error)))?;
        let failed = |error: std::io::Error| Failure::work(format!("cannot start the link: {error}"));
        let bell = Bell::new().map_err(|errno| failed(errno.into()))?;
        let again = || bell.again().map_err(|errno| failed(errno.into()));
        let lanes = AgentLanes::new(
            lanes,
            AgentTexts::new(plan, agent_texts::Counters::default(), again()?),
            again()?,
        );
        let settings = Settings {
            hubs: vec![HubAddress::Local(path)],
            identity: Arc::new(agent::identity(plan, None)),
            tls: None,
            counters: Counters::default(),
            bell,
        };
        let driver = Driver::start(settings, lanes).map_err(failed)?;
        Ok(Some(OwnLink { driver, _server: server, _socket: socket }))
    }
}

impl Drop for OwnLink {
    fn drop(&mut self) {
        self.driver.mute();
    }
}
