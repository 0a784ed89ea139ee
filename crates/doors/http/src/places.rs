//! Which reader has how many of the places for streams. Readers together leave some to operators, and no reader has all of the
//! others. It counts operators' streams nowhere, and opens none.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use khz_door::Caller;
use khz_trust::Role;

use crate::limits::Limits;
use crate::prometheus::line::Client;
use crate::refusal::Refusal;

/// Whose streams are counted together: those of a name that was proved, or of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Named(String),
    At(Client),
}

/// The streams of readers.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<HashMap<Holder, usize>>);

/// A reader's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct ReaderPlace {
    places: Arc<Places>,
    holder: Holder,
}

impl Places {
    /// A place for a reader; `None`: an operator needs none of these.
    ///
    /// # Errors
    /// Returns which limit is reached.
    pub fn take(
        self: &Arc<Self>,
        caller: &Caller,
        client: Client,
        limits: &Limits,
    ) -> Result<Option<ReaderPlace>, Refusal> {
        if caller.role != Role::Reader {
            return Ok(None);
        }
        let holder = if caller.is_named { Holder::Named(caller.shown.clone()) } else { Holder::At(client) };
        let refuse = |error: String| Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, error));
        let mut held = self.held();
        let (share, all) = (limits.streams_of_a_reader, limits.streams_of_readers);
        if held.get(&holder).is_some_and(|held| *held >= share) {
            let whose = if caller.is_named { &caller.shown } else { "readers at your address" };
            return refuse(format!("{whose} may have {share} streams, and have them already; end one first"));
        }
        if held.values().sum::<usize>() >= all {
            return refuse(format!(
                "the limit of {all} streams of readers is reached; try again when others have gone"
            ));
        }
        *held.entry(holder.clone()).or_default() += 1;
        drop(held);
        Ok(Some(ReaderPlace { places: Arc::clone(self), holder }))
    }

    /// At most one entry for each stream.
    fn held(&self) -> MutexGuard<'_, HashMap<Holder, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReaderPlace {
    fn drop(&mut self) {
        let mut held = self.places.held();
        match held.get_mut(&self.holder) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(held.remove(&self.holder)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn caller(role: Role, name: Option<&str>) -> Caller {
        Caller {
            role,
            shown: name.unwrap_or("a reader").to_owned(),
            is_named: name.is_some(),
            name: name.map(str::to_owned),
            uid: None,
        }
    }

    fn address(last: u8) -> Client {
        Client(Some(IpAddr::from([192, 0, 2, last])))
    }

    #[test]
    fn a_reader_has_its_share_wherever_it_is_and_readers_leave_some_to_operators() {
        let places = Arc::new(Places::default());
        let limits = Limits { streams_of_a_reader: 2, streams_of_readers: 5, ..Limits::default() };
        let take = |name: Option<&str>, last: u8| {
            places.take(&caller(Role::Reader, name), address(last), &limits).map_err(|refusal| refusal.error)
        };
        let bob = [take(Some("reader bob"), 1).unwrap(), take(Some("reader bob"), 2).unwrap()];
        let more = take(Some("reader bob"), 3).unwrap_err();
        assert_eq!(more, "reader bob may have 2 streams, and have them already; end one first");
        // Others at that address have their own share.
        let others = [take(None, 1).unwrap(), take(None, 1).unwrap()];
        assert!(take(None, 1).unwrap_err().starts_with("readers at your address may have 2 streams"));
        let last = take(None, 2).unwrap();
        let full = take(None, 3).unwrap_err();
        assert!(full.starts_with("the limit of 5 streams of readers is reached"), "{full}");
        for _ in 0..10 {
            assert!(places.take(&caller(Role::Operator, None), address(1), &limits).unwrap().is_none());
        }
        drop((bob, last));
        assert_eq!(places.held().len(), 1);
        take(Some("reader bob"), 1).unwrap();
        drop(others);
        assert!(places.held().is_empty());
    }
}
