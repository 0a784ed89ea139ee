//! Looks up the addresses of hubs. The system's resolver may take half a minute, so it runs in its own thread. Until it
//! answers, the last answer is used.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::driver::bell::Bell;

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

#[derive(Debug, Default)]
struct Found {
    addresses: Vec<SocketAddr>,
    problem: Option<String>,
    /// A thread is looking the name up.
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

    /// Begins to look the name up, unless a lookup is under way or not necessary. The bell rings when the
    /// lookup is done.
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

    /// False while a thread is looking the name up.
    pub fn is_done(&self) -> bool {
        !lock(&self.found).under_way
    }

    /// The addresses of the last answer, or why there is none.
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

#[cfg(test)]
mod tests {
    use khz_model::Nanos;

    use super::*;
    use crate::driver::session::sleep;

    /// Sleeps until the lookup has rung its bell.
    fn is_answered(lookup: &Lookup, bell: &Bell) {
        for _ in 0..60 {
            if lookup.is_done() {
                return;
            }
            sleep(None, bell, Nanos::SECOND);
        }
        panic!("the resolver does not answer");
    }

    #[test]
    fn an_address_needs_no_resolver_and_a_name_is_looked_up_in_the_background() {
        let bell = Bell::new().unwrap();
        let lookup = Lookup::new("::1", 7);
        assert_eq!(lookup.addresses(), Err("the name has no address".to_owned()), "no lookup was begun");
        lookup.begin(&bell);
        assert!(lookup.is_done());
        assert_eq!(lookup.addresses(), Ok(vec!["[::1]:7".parse().unwrap()]));
        let lookup = Lookup::new("localhost", 7);
        lookup.begin(&bell);
        is_answered(&lookup, &bell);
        let found = lookup.addresses().unwrap();
        assert!(
            !found.is_empty()
                && found.iter().all(|address| address.ip().is_loopback() && address.port() == 7)
        );
    }

    #[test]
    fn an_error_of_the_resolver_is_reported_and_the_last_good_answer_is_kept() {
        let bell = Bell::new().unwrap();
        // No name is that long, so the resolver refuses it at once.
        let lookup = Lookup::new(&"n".repeat(300), 7);
        lookup.begin(&bell);
        is_answered(&lookup, &bell);
        let problem = lookup.addresses().unwrap_err();
        assert!(problem != "the name has no address" && !problem.is_empty(), "{problem}");
        let before: Vec<SocketAddr> = vec!["10.0.0.1:7".parse().unwrap()];
        lock(&lookup.found).addresses = before.clone();
        lookup.begin(&bell);
        is_answered(&lookup, &bell);
        assert_eq!(lookup.addresses(), Ok(before));
        lock(&lookup.found).addresses.clear();
        (lock(&lookup.found).problem, lock(&lookup.found).under_way) = (None, true);
        assert_eq!(lookup.addresses(), Err("the name's lookup takes too long".to_owned()));
        assert!(!lookup.is_done());
    }
}
