//! How readers learn of the rows of a lane: the bells that are rung after each. It knows no rows.

use std::sync::{Arc, Weak};

use rustix::fd::OwnedFd;

/// A function that the gather thread calls after rows.
pub type Call = dyn Fn() + Send + Sync;

/// How a reader learns of every row of a lane.
pub(crate) enum Bell {
    /// An eventfd on which the reader sleeps.
    Fd(OwnedFd),
    /// A function that the gather thread calls.
    Call(Arc<Call>),
}

/// The bells of one lane.
#[derive(Default)]
pub(super) struct Bells(Vec<Weak<Bell>>);

impl std::fmt::Debug for Bells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bells", self.0.len())
    }
}

impl Bells {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Rings this bell after every row until its holder drops it.
    pub fn add(&mut self, bell: Weak<Bell>) {
        self.0.push(bell);
    }

    /// Rings the bells, and drops bells without a holder. The gather thread makes the calls later: a call that several lanes share
    /// is added to `calls` once.
    pub fn ring(&mut self, calls: &mut Vec<Arc<Call>>) {
        self.0.retain(|bell| {
            let Some(bell) = bell.upgrade() else { return false };
            match &*bell {
                Bell::Fd(bell) => {
                    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
                }
                Bell::Call(call) => {
                    let is_same =
                        |known: &Arc<Call>| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(call));
                    if !calls.iter().any(is_same) {
                        calls.push(call.clone());
                    }
                }
            }
            true
        });
    }
}
