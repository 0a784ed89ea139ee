//! Texts that readers are in the middle of: each is kept until its last reader has finished, however many newer ones have
//! come. What one user keeps this way has a limit.

use std::collections::HashMap;
use std::sync::Arc;

use crate::limits::PINNED_PER_USER_MAX;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// The user of each handle, and the text that it reads.
    reading: HashMap<u64, (u32, Arc<[u8]>)>,
    /// By user and the text's place in memory, which no other text has while it is kept: how many readers.
    readers: HashMap<(u32, usize), usize>,
    /// Bytes that each user keeps.
    users: HashMap<u32, usize>,
}

impl Pins {
    /// The text that a handle reads.
    pub fn text(&self, handle: u64) -> Option<&Arc<[u8]>> {
        self.reading.get(&handle).map(|(_, text)| text)
    }

    /// A user begins to read a text through a handle, instead of the one before; `false`: the user keeps too much already.
    pub fn pin(&mut self, handle: u64, user: u32, text: &Arc<[u8]>) -> bool {
        self.unpin(handle);
        let key = (user, text.as_ptr() as usize);
        let readers = self.readers.entry(key).or_default();
        if *readers == 0 {
            let kept = self.users.entry(user).or_default();
            if *kept + text.len() > PINNED_PER_USER_MAX {
                self.readers.remove(&key);
                return false;
            }
            *kept += text.len();
        }
        *readers += 1;
        self.reading.insert(handle, (user, text.clone()));
        true
    }

    /// A handle has finished.
    pub fn unpin(&mut self, handle: u64) {
        let Some((user, text)) = self.reading.remove(&handle) else { return };
        let key = (user, text.as_ptr() as usize);
        let Some(readers) = self.readers.get_mut(&key) else { return };
        *readers -= 1;
        if *readers > 0 {
            return;
        }
        self.readers.remove(&key);
        if let Some(kept) = self.users.get_mut(&user) {
            *kept -= text.len();
            if *kept == 0 {
                self.users.remove(&user);
            }
        }
    }

    /// Bytes of all users.
    pub fn bytes(&self) -> usize {
        self.users.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_counts_once_a_user_and_not_at_all_when_its_readers_have_finished() {
        let mut pins = Pins::default();
        let text: Arc<[u8]> = vec![7; PINNED_PER_USER_MAX].into();
        let other: Arc<[u8]> = Arc::from([1u8]);
        assert!(pins.pin(10, 1, &text) && pins.pin(11, 1, &text) && !pins.pin(12, 1, &other));
        assert!(pins.pin(20, 2, &other), "another user");
        assert_eq!(pins.bytes(), text.len() + 1);
        pins.unpin(10);
        assert!(!pins.pin(12, 1, &other));
        assert!(pins.pin(11, 1, &other), "the text before is given back first");
        pins.unpin(11);
        pins.unpin(20);
        assert_eq!((pins.bytes(), pins.text(11)), (0, None));
    }
}
