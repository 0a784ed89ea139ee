//! Kernel texts of this node as the link sees them. A file that the hub subscribes to becomes a subscription of the slow
//! lane. The lane's thread packs each text against the one before. For each file at most one packed text waits for the link.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use khz_gather::{TextCounts, TextError, TextTaker, Texts};
use khz_link::driver::Bell;
use khz_link::texts::{NoText, PackedText, ReadFrame, TextGiven, TextSender, Why, pack};
use khz_model::Stamp;

use crate::config::Plan;

khz_door::counters! {
    "texts";
    wanted: Gauge, "Kernel files that the hub wants to see now.";
    reads: Counter, "Kernel files read for readers elsewhere.";
    changed: Counter, "Kernel texts that differed from the one before and were sent.";
    refused: Counter, "Kernel files that could not be shown: not allowed, missing, too long, stuck or failed.";
    stuck: Counter, "Kernel files that were not read in time.";
}

/// The texts of one link.
pub struct AgentTexts {
    counters: Counters,
    lane: Texts,
    outbox: Arc<Outbox>,
    /// The slow lane's subscriptions, by the hub's numbers.
    subscriptions: HashMap<u32, u64>,
    made: u64,
    /// The text that is being sent.
    sending: Option<TextSender>,
}

/// Texts from the slow lane to the link.
struct Outbox {
    state: Mutex<Waiting>,
    bell: Bell,
}

#[derive(Default)]
struct Waiting {
    subscriptions: HashMap<u64, Known>,
    ready: VecDeque<u64>,
}

/// The state of a subscription.
struct Known {
    number: u32,
    version: u32,
    /// The next text is packed against this one, which the hub has, or will have by then.
    base: Arc<[u8]>,
    out: Option<Out>,
    /// The file was read after this request of the hub: confirm it.
    given: Option<u32>,
}

enum Out {
    Text(PackedText),
    None(Why, String),
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Puts a text out for a subscription that still exists.
    fn put(&self, subscription: u64, make: impl FnOnce(&mut Known) -> Out) {
        let mut waiting = self.lock();
        let Some(known) = waiting.subscriptions.get_mut(&subscription) else { return };
        // The next text is packed against the waiting one, so that one is never dropped.
        if known.out.is_some() {
            return;
        }
        known.out = Some(make(known));
        waiting.ready.push_back(subscription);
        drop(waiting);
        self.bell.ring();
    }
}

/// The slow lane's end.
struct Packer(Arc<Outbox>);

impl TextTaker for Packer {
    fn has_room(&mut self, subscription: u64) -> bool {
        self.0.lock().subscriptions.get(&subscription).is_none_or(|known| known.out.is_none())
    }

    fn text(&mut self, subscription: u64, text: &Arc<[u8]>, stamp: Stamp) {
        // Packing takes time, so it is done without the lock.
        let Some((version, base)) =
            self.0.lock().subscriptions.get(&subscription).map(|known| (known.version, known.base.clone()))
        else {
            return;
        };
        let packed = pack(text, &base);
        self.0.put(subscription, |known| match packed {
            Ok(bytes) => {
                known.version = version.checked_add(1).unwrap_or(1);
                known.base = text.clone();
                let (length, bytes) = (text.len() as u32, bytes.into());
                Out::Text(PackedText { version: known.version, base: version, stamp, length, bytes })
            }
            Err(problem) => Out::None(Why::Failed, problem.to_owned()),
        });
    }

    fn given(&mut self, subscription: u64, ask: u32) {
        let mut waiting = self.0.lock();
        let Some(known) = waiting.subscriptions.get_mut(&subscription) else { return };
        known.given = Some(ask);
        waiting.ready.push_back(subscription);
        drop(waiting);
        self.0.bell.ring();
    }

    fn failed(&mut self, subscription: u64, error: &TextError) {
        let why = match error {
            TextError::NotAllowed(_) => Why::NotAllowed,
            TextError::Missing(_) => Why::Missing,
            TextError::TooLong { .. } => Why::TooLong,
            TextError::Stuck { .. } | TextError::Crowded => Why::Stuck,
            TextError::Failed { .. } => Why::Failed,
        };
        self.0.put(subscription, |_| Out::None(why, error.to_string()));
    }
}

impl AgentTexts {
    /// Texts of files below the plan's root, as far as the plan allows. `bell` wakes the link. Nothing runs before the first
    /// subscription.
    pub fn new(plan: &Plan, counters: Counters, bell: Bell) -> Self {
        let outbox = Arc::new(Outbox { state: Mutex::default(), bell });
        let lane = Texts::new(plan.root.clone(), plan.proc_allow.clone(), Packer(outbox.clone()));
        AgentTexts { counters, lane, outbox, subscriptions: HashMap::new(), made: 0, sending: None }
    }

    /// The hub subscribes to a file.
    pub fn read(&mut self, request: &ReadFrame<'_>) {
        let subscription = *self.subscriptions.entry(request.number).or_insert_with(|| {
            self.made += 1;
            let (number, base) = (request.number, Arc::from([]));
            self.outbox
                .lock()
                .subscriptions
                .insert(self.made, Known { number, version: 0, base, out: None, given: None });
            self.made
        });
        if let Err(error) = self.lane.want(subscription, request.path, request.period) {
            let text = format!("cannot start reading: {error}");
            self.outbox.put(subscription, |_| Out::None(Why::Failed, text));
        }
        self.count();
    }

    /// Updates the counters.
    fn count(&self) {
        let TextCounts { reads, texts, stuck, refused } = self.lane.counts();
        let Counters { wanted, reads: all, changed, refused: none, stuck: late } = &self.counters;
        let numbers = [
            (wanted, self.subscriptions.len() as u64),
            (all, reads),
            (changed, texts),
            (none, refused),
            (late, stuck),
        ];
        numbers.into_iter().for_each(|(counter, number)| counter.store(number, Ordering::Relaxed));
    }

    /// The hub asks for a fresh text of a file that it subscribes to.
    pub fn text_now(&mut self, number: u32, ask: u32) {
        if let Some(&subscription) = self.subscriptions.get(&number) {
            self.lane.ask(subscription, ask);
        }
    }

    /// The hub cancels a subscription.
    pub fn unread(&mut self, number: u32) {
        let Some(subscription) = self.subscriptions.remove(&number) else { return };
        self.sending.take_if(|sending| sending.number() == number);
        let mut waiting = self.outbox.lock();
        waiting.subscriptions.remove(&subscription);
        waiting.ready.retain(|&ready| ready != subscription);
        drop(waiting);
        self.lane.dismiss(subscription);
        self.count();
    }

    /// Sends the next piece of a text, or why there is none; `false`: nothing is ready.
    pub fn say(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(sending) = &mut self.sending {
            if !sending.say(out) {
                self.sending = None;
            }
            return true;
        }
        let mut waiting = self.outbox.lock();
        let Some(subscription) = waiting.ready.pop_front() else { return false };
        let Some(known) = waiting.subscriptions.get_mut(&subscription) else { return true };
        let number = known.number;
        let ready = known.out.take();
        // The confirmation follows the text that it is about.
        let given = if ready.is_none() { known.given.take() } else { None };
        if known.given.is_some() {
            waiting.ready.push_front(subscription);
        }
        drop(waiting);
        self.count();
        match ready {
            Some(Out::Text(text)) => self.sending = Some(TextSender::new(number, text)),
            Some(Out::None(why, text)) => NoText { number, why, text: &text }.put(out),
            None => {}
        }
        if let Some(ask) = given {
            TextGiven { number, ask, is_read: true }.put(out);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_waits_for_each_file_and_a_cancelled_subscription_sends_nothing() {
        let outbox = Arc::new(Outbox { state: Mutex::default(), bell: Bell::new().unwrap() });
        let known = Known { number: 7, version: 0, base: Arc::from([]), out: None, given: None };
        outbox.lock().subscriptions.insert(1, known);
        let mut packer = Packer(outbox.clone());
        assert!(packer.has_room(1));
        packer.text(1, &Arc::from(&b"first"[..]), Stamp::default());
        assert!(!packer.has_room(1), "the link has not taken it");
        let Some(Out::Text(text)) =
            outbox.lock().subscriptions.get_mut(&1).and_then(|known| known.out.take())
        else {
            panic!("no text")
        };
        assert_eq!((text.version, text.base, text.length), (1, 0, 5));
        outbox.lock().subscriptions.remove(&1);
        packer.text(1, &Arc::from(&b"second"[..]), Stamp::default());
        packer.failed(1, &TextError::Crowded);
        assert!(outbox.lock().subscriptions.is_empty());
    }
}
