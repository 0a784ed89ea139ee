//! A reader's second connection, to another hub than the present one. It asks which nodes are up there, and subscribes to the same
//! lanes, so that nodes which have moved there go on gathering them. It takes no rows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use khz_block::Decoder;
use khz_model::NodeStatus;

use crate::dial::{HubName, Identity};
use crate::driver::Shared;
use crate::driver::bell::Bell;
use crate::driver::counters::Counters;
use crate::driver::dialer::Dialer;
use crate::driver::following::{ConnectionSink, Requests, lock};
use crate::driver::reader::Reader;
use crate::driver::waker::Waker;
use crate::driver::worker::Running;
use crate::lane_sink::{Accept, LaneKey, LaneSink};
use crate::message::{LaneOffer, Told};
use crate::whereabouts::Up;

/// The connection. Dropping it ends the connection and its thread.
pub(super) struct Outpost {
    hub: usize,
    list: Arc<Mutex<Option<Up>>>,
    lists: Arc<AtomicBool>,
    running: Running,
}

impl Outpost {
    /// Connects to one of these hubs. If there is no thread for it, the reader stays where it is.
    pub fn start(
        hub: usize,
        dialer: &Dialer,
        identity: &Arc<Identity>,
        requests: &Arc<Mutex<Requests>>,
        home: &Arc<Shared>,
    ) -> Option<Self> {
        let shared = Shared::new(Bell::new().ok()?, Counters::default());
        shared.mute();
        let list = Arc::<Mutex<Option<Up>>>::default();
        let sink =
            Scout { requests: requests.clone(), up: Up::new(), list: list.clone(), home: home.clone() };
        let waker = Waker::of(&shared);
        let lists = Arc::new(AtomicBool::new(true));
        let reader = Reader::new(identity.clone(), sink, requests.clone(), &shared, waker);
        let reader = reader.into_outpost(lists.clone());
        let running = Running::start(Arc::new(dialer.only(hub)), shared, reader, None).ok()?;
        Some(Outpost { hub, list, lists, running })
    }

    /// Whether it requests the list of nodes. If not, it only holds its subscriptions.
    pub fn set_lists(&self, lists: bool) {
        if self.lists.swap(lists, Ordering::Relaxed) != lists {
            self.running.shared.bell.ring();
        }
    }

    /// Which hub it is.
    pub fn hub(&self) -> usize {
        self.hub
    }

    /// The nodes that are up there and that the reader follows; each list is returned once.
    pub fn take_list(&self) -> Option<Up> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Takes the lists of nodes, and refuses all lanes.
struct Scout {
    requests: Arc<Mutex<Requests>>,
    up: Up,
    list: Arc<Mutex<Option<Up>>>,
    /// The reader, which is woken by each complete list.
    home: Arc<Shared>,
}

impl LaneSink for Scout {
    fn offered(&mut self, _: &LaneKey, _: &LaneOffer<'_>) -> Option<Accept> {
        None
    }
    fn schema(&mut self, _: &LaneKey, _: u32, _: u64, _: &[u8]) {}
    fn row(&mut self, _: &LaneKey, _: u64, _: &Decoder) {}
    fn block(&mut self, _: &LaneKey, _: &[u8]) {}
    fn lost(&mut self, _: &LaneKey, _: u64, _: u64) {}
    fn answered(&mut self, _: &Told<'_>) {}
    fn closed(&mut self, _: &LaneKey) {}
    fn node(&mut self, status: &NodeStatus) {
        let requests = lock(&self.requests);
        if requests.follows(status.node.as_str()) && requests.are_served(status) {
            self.up.insert(status.node.as_str().to_owned());
        }
    }
    fn nodes_end(&mut self) {
        *self.list.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::mem::take(&mut self.up));
        self.home.bell.ring();
    }
}

impl ConnectionSink for Scout {
    fn up(&mut self, _: &HubName) {}
    fn down(&mut self, _: &str) {
        self.up.clear();
    }
}
