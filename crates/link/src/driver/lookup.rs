//! Names of hubs to addresses. The system's resolver may take half a minute; it takes it in a thread of its own, and
//! until it has answered the last answer is good enough.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::driver::bell::Bell;

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

#[derive(Debug, Default)]
struct Found {
    addresses: Vec<SocketAddr>,
    problem: Option<String>,
    /// A thread is at it.
    under_way: bool,
}

/// One hub's name.
#[derive(Debug)]
pub(crate) struct Lookup {
    host: String,
    port: u16,
    found: Arc<Mutex<Found>>,
}

impl Lookup {
    pub fn new(host: &str, port: u16) -> Self {
        Lookup { host: host.to_owned(), port, found: Arc::default() }
    }

    /// Begins to look the name up, unless that is under way or needs nobody. The bell rings when it is done.
    pub fn begin(&self, bell: &Bell) {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            lock(&self.found).addresses = vec![SocketAddr::new(address, self.port)];
            return;
        }
        let Ok(bell) = bell.again() else { return };
        if std::mem::replace(&mut lock(&self.found).under_way, true) {
            return;
        }
        let (host, port, found) = (self.host.clone(), self.port, self.found.clone());
        let work = move || {
            let answer = (host.as_str(), port).to_socket_addrs();
            let mut found = lock(&found);
            match answer {
                Ok(addresses) => {
                    (found.addresses, found.problem) = (addresses.take(ADDRESSES_MAX).collect(), None);
                }
                Err(error) => found.problem = Some(error.to_string()),
            }
            found.under_way = false;
            drop(found);
            bell.ring();
        };
        if std::thread::Builder::new().name("lookup".into()).spawn(work).is_err() {
            lock(&self.found).under_way = false;
        }
    }

    /// False while a thread is at it.
    pub fn is_done(&self) -> bool {
        !lock(&self.found).under_way
    }

    /// The last answer, or why there is none.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let found = lock(&self.found);
        if !found.addresses.is_empty() {
            return Ok(found.addresses.clone());
        }
        let why =
            if found.under_way { "the name's lookup takes too long" } else { "the name has no address" };
        Err(found.problem.clone().unwrap_or_else(|| why.to_owned()))
    }
}

fn lock(found: &Mutex<Found>) -> MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
