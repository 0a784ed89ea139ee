//! The texts of kernel files that are kept: the newest of each. All together have a limit: texts that nobody has open go
//! first, the oldest ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use khz_model::{Nanos, Stamp};

use super::freshness::Freshness;
use super::subscriptions::Held;
use crate::inode::Inode;
use crate::limits::TEXTS_BYTES_MAX;

/// All texts.
#[derive(Debug, Default)]
pub(super) struct Texts {
    texts: HashMap<Inode, KernelText>,
    bytes: usize,
    /// Texts for which there was no room.
    dropped: u64,
}

/// A kernel file that somebody has used.
#[derive(Debug)]
pub(super) struct KernelText {
    pub subscription: Option<Subscribed>,
    /// The newest text.
    newest: Option<(Arc<[u8]>, Stamp)>,
    pub freshness: Freshness,
    /// Why there is none now, and since when that is known.
    pub problem: Option<(i32, Instant)>,
    pub handles: usize,
    /// Its rate is beyond the budget of every reader: the node reads it as if no rate was set.
    pub over_budget: bool,
    /// The page cache has it: another text has to drop it.
    pub cached: bool,
    pub used: Instant,
}

/// The subscription to a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subscribed {
    pub held: Held,
    pub period: Nanos,
    /// It has answered, on the present connection.
    pub answered: bool,
}

impl KernelText {
    fn new(now: Instant) -> Self {
        KernelText {
            subscription: None,
            newest: None,
            freshness: Freshness::default(),
            problem: None,
            handles: 0,
            over_budget: false,
            cached: false,
            used: now,
        }
    }

    /// The last text that came, and its time, even if there is a problem now.
    pub fn last(&self) -> Option<&(Arc<[u8]>, Stamp)> {
        self.newest.as_ref()
    }

    /// What is in the file now, or the errno that says why nothing is.
    pub fn newest(&self) -> Result<Arc<[u8]>, i32> {
        match (&self.problem, &self.newest) {
            (Some((errno, _)), _) => Err(*errno),
            (None, Some((text, _))) => Ok(text.clone()),
            (None, None) => Err(libc::EIO),
        }
    }

    /// The upstream has answered on the present connection.
    pub fn has_answered(&self) -> bool {
        self.subscription.is_some_and(|subscribed| subscribed.answered)
    }
}

impl Texts {
    pub fn get(&self, inode: Inode) -> Option<&KernelText> {
        self.texts.get(&inode)
    }

    pub fn get_mut(&mut self, inode: Inode) -> Option<&mut KernelText> {
        self.texts.get_mut(&inode)
    }

    /// The entry of a file, a new one when it has none.
    pub fn get_or_new(&mut self, inode: Inode, now: Instant) -> &mut KernelText {
        self.texts.entry(inode).or_insert_with(|| KernelText::new(now))
    }

    pub fn iter(&self) -> impl Iterator<Item = (Inode, &KernelText)> {
        self.texts.iter().map(|(&inode, text)| (inode, text))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut KernelText> {
        self.texts.values_mut()
    }

    /// A file has this text from here on. True when that is another than before, or there is no room for it.
    pub fn keep(&mut self, inode: Inode, bytes: &Arc<[u8]>, stamp: Stamp, now: Instant) -> bool {
        self.make_room(inode, bytes.len());
        let has_room = self.bytes + bytes.len() <= TEXTS_BYTES_MAX;
        let Some(text) = self.texts.get_mut(&inode) else { return false };
        let old = text.newest.take();
        if let Some((old, _)) = &old {
            self.bytes -= old.len();
        }
        let is_another = old.is_none_or(|(old, _)| old != *bytes) || text.problem.is_some() || !has_room;
        if has_room {
            self.bytes += bytes.len();
            text.newest = Some((bytes.clone(), stamp));
        } else {
            self.dropped += 1;
        }
        text.problem = (!has_room).then_some((libc::ENOMEM, now));
        is_another
    }

    /// Drops texts that nobody has open until there is room for one of this length, and for some more.
    fn make_room(&mut self, inode: Inode, bytes: usize) {
        if self.bytes + bytes <= TEXTS_BYTES_MAX {
            return;
        }
        let idle = self.texts.iter().filter(|(at, text)| text.handles == 0 && **at != inode);
        let mut idle: Vec<(Instant, Inode)> = idle.map(|(&inode, text)| (text.used, inode)).collect();
        idle.sort_unstable();
        for (_, inode) in idle {
            if self.bytes + bytes <= TEXTS_BYTES_MAX / 8 * 7 {
                return;
            }
            self.drop_text(inode);
        }
    }

    fn drop_text(&mut self, inode: Inode) {
        let Some(text) = self.texts.get_mut(&inode) else { return };
        if let Some((text, _)) = text.newest.take() {
            self.bytes -= text.len();
            self.dropped += 1;
        }
        if text.subscription.is_none() {
            self.texts.remove(&inode);
        }
    }

    /// Bytes of all texts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Texts for which there was no room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inode::{NodeId, PathId};

    #[test]
    fn the_oldest_texts_that_nobody_has_open_make_room() {
        let (mut texts, now) = (Texts::default(), Instant::now());
        let file = |number: u32| Inode::plain(NodeId(1), PathId(number));
        let bytes: Arc<[u8]> = vec![7; TEXTS_BYTES_MAX / 4].into();
        for number in 0..4 {
            let used = now + std::time::Duration::from_secs(number.into());
            texts.get_or_new(file(number), now).used = used;
            assert!(texts.keep(file(number), &bytes, Stamp::default(), now));
        }
        texts.get_or_new(file(0), now).handles = 1;
        texts.get_or_new(file(4), now);
        texts.keep(file(4), &bytes, Stamp::default(), now);
        let has = |number| texts.get(file(number)).is_some_and(|text| text.newest.is_some());
        assert_eq!([0, 1, 2, 3, 4].map(has), [true, false, false, true, true]);
        assert_eq!((texts.bytes(), texts.dropped()), (3 * bytes.len(), 2));
    }

    #[test]
    fn a_text_without_room_says_so_until_there_is_some() {
        let (mut texts, now) = (Texts::default(), Instant::now());
        texts.get_or_new(Inode::ROOT, now).handles = 1;
        let (large, small): (Arc<[u8]>, Arc<[u8]>) =
            (vec![7; TEXTS_BYTES_MAX + 1].into(), b"x".as_slice().into());
        assert!(texts.keep(Inode::ROOT, &large, Stamp::default(), now));
        assert_eq!(texts.get(Inode::ROOT).unwrap().newest(), Err(libc::ENOMEM));
        assert!(texts.keep(Inode::ROOT, &small, Stamp::default(), now));
        assert!(!texts.keep(Inode::ROOT, &small, Stamp::default(), now), "the same text again");
    }
}
