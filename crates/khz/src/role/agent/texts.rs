//! Kernel texts of this node as the link sees them: what a hub wants becomes wants of the slow lane, and what that reads is
//! packed, on its thread, against the text before. Of each file one packed text waits for the link, never two.

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
    /// The slow lane's wants by the hub's numbers.
    wants: HashMap<u32, u64>,
    made: u64,
    /// The text that is being said.
    saying: Option<TextSender>,
}

/// Where the slow lane puts texts, and the link takes them.
struct Outbox {
    state: Mutex<Waiting>,
    bell: Bell,
}

#[derive(Default)]
struct Waiting {
    wants: HashMap<u64, Known>,
    ready: VecDeque<u64>,
}

/// What is known of a want.
struct Known {
    number: u32,
    version: u32,
    /// What the next text is packed against: the hub has it, or will before.
    base: Arc<[u8]>,
    out: Option<Out>,
    /// The file was read after the hub had asked this.
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

    /// Puts something out for a want, if that stands still.
    fn put(&self, want: u64, make: impl FnOnce(&mut Known) -> Out) {
        let mut waiting = self.lock();
        let Some(known) = waiting.wants.get_mut(&want) else { return };
        // What waits is what the next text is packed against: it is never thrown away.
        if known.out.is_some() {
            return;
        }
        known.out = Some(make(known));
        waiting.ready.push_back(want);
        drop(waiting);
        self.bell.ring();
    }
}

/// The slow lane's end.
struct Packer(Arc<Outbox>);

impl TextTaker for Packer {
    fn has_room(&mut self, want: u64) -> bool {
        self.0.lock().wants.get(&want).is_none_or(|known| known.out.is_none())
    }

    fn text(&mut self, want: u64, text: &Arc<[u8]>, stamp: Stamp) {
        // Packing takes time: nobody waits for the lock meanwhile.
        let Some((version, base)) =
            self.0.lock().wants.get(&want).map(|known| (known.version, known.base.clone()))
        else {
            return;
        };
        let packed = pack(text, &base);
        self.0.put(want, |known| match packed {
            Ok(bytes) => {
                known.version = version.checked_add(1).unwrap_or(1);
                known.base = text.clone();
                let (length, bytes) = (text.len() as u32, bytes.into());
                Out::Text(PackedText { version: known.version, base: version, stamp, length, bytes })
            }
            Err(problem) => Out::None(Why::Failed, problem.to_owned()),
        });
    }

    fn given(&mut self, want: u64, ask: u32) {
        let mut waiting = self.0.lock();
        let Some(known) = waiting.wants.get_mut(&want) else { return };
        known.given = Some(ask);
        waiting.ready.push_back(want);
        drop(waiting);
        self.0.bell.ring();
    }

    fn failed(&mut self, want: u64, error: &TextError) {
        let why = match error {
            TextError::NotAllowed(_) => Why::NotAllowed,
            TextError::Missing(_) => Why::Missing,
            TextError::TooLong { .. } => Why::TooLong,
            TextError::Stuck { .. } | TextError::Crowded => Why::Stuck,
            TextError::Failed { .. } => Why::Failed,
        };
        self.0.put(want, |_| Out::None(why, error.to_string()));
    }
}

impl AgentTexts {
    /// Files below the plan's root, as far as it allows; `bell` is the link's. Nothing runs until something is wanted.
    pub fn new(plan: &Plan, counters: Counters, bell: Bell) -> Self {
        let outbox = Arc::new(Outbox { state: Mutex::default(), bell });
        let lane = Texts::new(plan.root.clone(), plan.proc_allow.clone(), Packer(outbox.clone()));
        AgentTexts { counters, lane, outbox, wants: HashMap::new(), made: 0, saying: None }
    }

    /// The hub wants to see a file.
    pub fn read(&mut self, wish: &ReadFrame<'_>) {
        let want = *self.wants.entry(wish.number).or_insert_with(|| {
            self.made += 1;
            let (number, base) = (wish.number, Arc::from([]));
            self.outbox
                .lock()
                .wants
                .insert(self.made, Known { number, version: 0, base, out: None, given: None });
            self.made
        });
        if let Err(error) = self.lane.want(want, wish.path, wish.period) {
            let text = format!("cannot start reading: {error}");
            self.outbox.put(want, |_| Out::None(Why::Failed, text));
        }
        self.count();
    }

    /// Writes down what it has done.
    fn count(&self) {
        let TextCounts { reads, texts, stuck, refused } = self.lane.counts();
        let Counters { wanted, reads: all, changed, refused: none, stuck: late } = &self.counters;
        let numbers = [
            (wanted, self.wants.len() as u64),
            (all, reads),
            (changed, texts),
            (none, refused),
            (late, stuck),
        ];
        numbers.into_iter().for_each(|(counter, number)| counter.store(number, Ordering::Relaxed));
    }

    /// The hub wants one that it wants already to be read at once.
    pub fn text_now(&mut self, number: u32, ask: u32) {
        if let Some(&want) = self.wants.get(&number) {
            self.lane.ask(want, ask);
        }
    }

    /// It does not any more.
    pub fn unread(&mut self, number: u32) {
        let Some(want) = self.wants.remove(&number) else { return };
        self.saying.take_if(|saying| saying.number() == number);
        let mut waiting = self.outbox.lock();
        waiting.wants.remove(&want);
        waiting.ready.retain(|&ready| ready != want);
        drop(waiting);
        self.lane.dismiss(want);
        self.count();
    }

    /// Says the next piece of a text, or why there is none; `false`: nothing is ready.
    pub fn say(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(saying) = &mut self.saying {
            if !saying.say(out) {
                self.saying = None;
            }
            return true;
        }
        let mut waiting = self.outbox.lock();
        let Some(want) = waiting.ready.pop_front() else { return false };
        let Some(known) = waiting.wants.get_mut(&want) else { return true };
        let number = known.number;
        let ready = known.out.take();
        // It comes after the text that it is about.
        let given = if ready.is_none() { known.given.take() } else { None };
        if known.given.is_some() {
            waiting.ready.push_front(want);
        }
        drop(waiting);
        self.count();
        match ready {
            Some(Out::Text(text)) => self.saying = Some(TextSender::new(number, text)),
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
    fn a_text_waits_alone_and_what_is_dismissed_never_leaves() {
        let outbox = Arc::new(Outbox { state: Mutex::default(), bell: Bell::new().unwrap() });
        let known = Known { number: 7, version: 0, base: Arc::from([]), out: None, given: None };
        outbox.lock().wants.insert(1, known);
        let mut packer = Packer(outbox.clone());
        assert!(packer.has_room(1));
        packer.text(1, &Arc::from(&b"first"[..]), Stamp::default());
        assert!(!packer.has_room(1), "the link has not taken it");
        let Some(Out::Text(text)) = outbox.lock().wants.get_mut(&1).and_then(|known| known.out.take()) else {
            panic!("no text")
        };
        assert_eq!((text.version, text.base, text.length), (1, 0, 5));
        outbox.lock().wants.remove(&1);
        packer.text(1, &Arc::from(&b"second"[..]), Stamp::default());
        packer.failed(1, &TextError::Crowded);
        assert!(outbox.lock().wants.is_empty());
    }
}
