//! The queue of one action: alerts that wait for their first attempt, or for a retry.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use khz_notify::{ALERT_NAME, Alert, Labels};

use crate::counts::Counts;
use crate::desk::Turn;
use crate::limits::{LABELS_BYTES_MAX, WAITING_MAX};
use crate::record::{About, Again};
use crate::said::Said;
use crate::settings::Action;
use crate::worker::held;

/// The queue of one action.
#[derive(Default)]
pub(crate) struct Lane {
    queue: Mutex<VecDeque<Due>>,
    bell: Condvar,
    pub said: Mutex<Said>,
    pub counts: Counts,
}

/// An alert that waits for an action.
pub(crate) struct Due {
    pub alert: Arc<Alert>,
    /// Why no action may get the alert. Then only some of its labels are here.
    pub unfit: Option<Arc<Unfit>>,
    /// The actions that follow this one.
    pub rest: VecDeque<Turn>,
    /// The run that is retried; `None`: this is the first attempt.
    pub again: Option<Again>,
    /// It waits until then.
    pub not_before: Option<Instant>,
    /// The log has no room for it, and the hub's log has already said so.
    pub is_unlogged: bool,
}

/// Why an alert with too many or too long labels is refused.
pub(crate) struct Unfit {
    pub why: String,
    /// The fingerprint of all its labels.
    fingerprint: u64,
}

impl Due {
    /// An alert for actions, within the size limit of alerts. If its labels are too large, only its name and these labels are kept.
    pub fn new<'a>(alert: &Alert, rest: VecDeque<Turn>, left: impl Iterator<Item = &'a str>) -> Self {
        let of = |alert, unfit| Due { alert, unfit, rest, again: None, not_before: None, is_unlogged: false };
        let why = match alert.fitted() {
            Ok(fitted) => return of(Arc::new(fitted.into_owned()), None),
            Err(why) => format!("the alert is too large: {why}"),
        };
        let unfit = Unfit { why, fingerprint: alert.fingerprint(&Labels::new()) };
        let is_short = |value: &str| value.len() <= LABELS_BYTES_MAX / 4;
        let names = left.chain([ALERT_NAME]);
        let labels = names.filter_map(|name| alert.labels.get_key_value(name));
        let labels = labels.filter(|(_, value)| is_short(value));
        let labels = labels.map(|(name, value)| (name.clone(), value.clone())).collect();
        let alert = Alert { labels, starts_at: alert.starts_at, ends_at: alert.ends_at, ..Alert::default() };
        of(Arc::new(alert), Some(Arc::new(unfit)))
    }

    pub fn about(&self, action: &Action) -> About {
        let mut about = About::new(action, &self.alert);
        about.fingerprint = self.unfit.as_ref().map_or(about.fingerprint, |unfit| unfit.fingerprint);
        about
    }
}

impl Lane {
    /// Puts an alert into the queue, if there is room.
    pub fn put(&self, due: Due) -> std::result::Result<(), Due> {
        let mut queue = held(&self.queue);
        if queue.len() >= WAITING_MAX {
            return Err(due);
        }
        queue.push_back(due);
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        self.bell.notify_one();
        Ok(())
    }

    /// Puts back an alert for a retry. Its thread has just taken it out, so the queue exceeds its limit by one at most.
    pub fn put_back(&self, due: Due) {
        held(&self.queue).push_back(due);
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// This alert is over: retries that wait for it become due at once.
    pub fn is_over(&self, alert: &Alert) {
        let mut queue = held(&self.queue);
        let is_meant =
            |due: &&mut Due| due.alert.starts_at == alert.starts_at && due.alert.labels == alert.labels;
        queue.iter_mut().filter(is_meant).for_each(|due| due.not_before = None);
        self.bell.notify_one();
    }

    pub fn ring(&self) {
        let _queue = held(&self.queue);
        self.bell.notify_one();
    }

    /// Waits for the next due alert; `None`: khz ends.
    pub fn next(&self, is_over: &AtomicBool) -> Option<Due> {
        let mut queue = held(&self.queue);
        loop {
            if is_over.load(Ordering::Acquire) {
                return None;
            }
            let now = Instant::now();
            let due_at = |due: &Due| due.not_before.unwrap_or(now);
            if let Some(at) = queue.iter().position(|due| due_at(due) <= now) {
                return queue.remove(at);
            }
            let wait = queue.iter().map(|due| due_at(due).saturating_duration_since(now)).min();
            queue = match wait {
                Some(wait) => {
                    let wait = wait.max(Duration::from_millis(1));
                    self.bell.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
