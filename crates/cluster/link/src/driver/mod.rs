//! Links over real sockets; each has its own thread. [`Driver`] sends an agent's lanes to a hub. It shares the rings with
//! the gather thread. It also shares the connection: the gather thread sends the rows that it has just written (`seat`).
//! [`Following`] subscribes at the hub where its nodes are, and receives rows.

mod agent;
mod bell;
mod clock;
mod counters;
mod dialer;
mod events;
mod following;
mod lookup;
mod outpost;
mod preference;
mod present_sink;
mod reader;
mod seat;
mod session;
mod tcp;
mod texts;
mod transport;
mod waker;
mod worker;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use bell::Bell;
pub use counters::{Counters, UNKNOWN};
pub use dialer::{FindNear, HubAddress, Near, TlsSettings};
pub use events::{EVENT_BYTES, Event, EventSink, Events};
pub use following::{ConnectionSink, Following, FollowingError, FollowingSettings};
pub use tcp::{connect_from, socket_to};
pub use waker::Waker;

use crate::dial::Identity;
use crate::source::Lanes;
use agent::Agent;
use dialer::Dialer;
use khz_model::Nanos;
use preference::{Moves, Preference};
use worker::Running;

/// What the agent's thread needs.
pub struct Settings {
    /// The hubs, the preferred one first.
    pub hubs: Vec<HubAddress>,
    /// Our identity.
    pub identity: Arc<Identity>,
    /// TLS around the link; `None`: none.
    pub tls: Option<TlsSettings>,
    /// Finds a proof of who we are on this machine; `None`: there is none.
    pub near: Option<FindNear>,
    /// The local address that we connect from; `None`: the kernel chooses.
    pub from: Option<IpAddr>,
    /// The agent returns to a better hub that was well for this long; 0: never.
    pub failback_after: Nanos,
    /// The counters.
    pub counters: Counters,
    /// Wakes the thread; prompt lanes also ring it.
    pub bell: Bell,
}

/// What a thread shares with the thread that started it.
pub(crate) struct Shared {
    stop: AtomicBool,
    /// Failures are no longer logged.
    muted: AtomicBool,
    /// The order to leave for a better hub.
    moves: Moves,
    pub bell: Bell,
    pub counters: Counters,
}

impl Shared {
    fn new(bell: Bell, counters: Counters) -> Arc<Self> {
        let (stop, muted) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Shared { stop, muted, moves: Moves::default(), bell, counters })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Failures are no longer logged.
    fn mute(&self) {
        self.muted.store(true, Ordering::Relaxed);
    }

    fn is_muted(&self) -> bool {
        self.muted.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bell.ring();
    }
}

/// The agent's running thread. Dropping it ends the connection and the thread.
pub struct Driver {
    running: Running,
}

impl Driver {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread or no timer for it.
    pub fn start<L>(settings: Settings, lanes: L) -> std::io::Result<Self>
    where
        L: Lanes<Lane: Send> + Send + 'static,
    {
        let Settings { hubs, identity, tls, near, from, failback_after, counters, bell } = settings;
        let addresses = hubs.iter().map(ToString::to_string).collect();
        let preference = Arc::new(Preference::new(addresses, failback_after));
        let shared = Shared::new(bell, counters);
        let caller = Agent::new(identity, lanes, &shared, preference.clone())?;
        let running =
            Running::start(Arc::new(Dialer::new(hubs, tls, near, from)), shared, caller, Some(preference))?;
        Ok(Driver { running })
    }

    /// Call this when the hub is expected to end: failures are no longer logged.
    pub fn mute(&self) {
        self.running.shared.mute();
    }
}
