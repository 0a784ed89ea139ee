//! Bells of readers that sleep until something happens. It rings all bells, and drops the bells of readers that have gone. It
//! does not know what has happened.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::query::Bell;

/// The bells; any thread may ring them.
#[derive(Default)]
pub struct Bells(Mutex<Vec<Weak<Bell>>>);

impl Bells {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Bell>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This bell rings from now on, until its holder drops it.
    pub fn hear(&self, bell: &Arc<Bell>) {
        let mut bells = self.lock();
        bells.retain(|bell| bell.strong_count() > 0);
        bells.push(Arc::downgrade(bell));
    }

    /// Rings all of them.
    pub fn ring(&self) {
        self.lock().retain(|bell| bell.upgrade().inspect(|bell| bell()).is_some());
    }
}

impl fmt::Debug for Bells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bells", self.lock().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_bell_rings_until_its_holder_drops_it() {
        let (bells, rung) = (Bells::default(), Arc::new(AtomicUsize::new(0)));
        let bell = || {
            let rung = rung.clone();
            Arc::new(Arc::new(move || _ = rung.fetch_add(1, Ordering::Relaxed)) as Bell)
        };
        let (one, two) = (bell(), bell());
        bells.hear(&one);
        bells.hear(&two);
        bells.ring();
        drop(one);
        bells.ring();
        assert_eq!(rung.load(Ordering::Relaxed), 3);
        drop(two);
        bells.ring();
        assert_eq!((rung.load(Ordering::Relaxed), format!("{bells:?}")), (3, "0 bells".to_owned()));
    }
}
