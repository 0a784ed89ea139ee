//! Texts that readers are in the middle of: each is kept until its last reader is through, however many newer ones have
//! come, and one user keeps only so many bytes like that.

use std::collections::HashMap;
use std::sync::Arc;

use crate::limits::PINNED_PER_USER_MAX;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// By user and the text's place in memory, which is no other's while it is kept: how many readers.
    readers: HashMap<(u32, usize), usize>,
    users: HashMap<u32, usize>,
}

impl Pins {
    /// A reader of this user begins; `false`: he keeps too much already.
    pub fn pin(&mut self, user: u32, text: &Arc<[u8]>) -> bool {
        let key = (user, text.as_ptr() as usize);
        if let Some(readers) = self.readers.get_mut(&key) {
            *readers += 1;
            return true;
        }
        let kept = self.users.entry(user).or_default();
        if *kept + text.len() > PINNED_PER_USER_MAX {
            return false;
        }
        *kept += text.len();
        self.readers.insert(key, 1);
        true
    }

    /// He is through with it.
    pub fn unpin(&mut self, user: u32, text: &Arc<[u8]>) {
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
    fn a_text_counts_once_a_user_and_not_at_all_when_its_readers_are_through() {
        let mut pins = Pins::default();
        let text: Arc<[u8]> = vec![7; PINNED_PER_USER_MAX].into();
        let other: Arc<[u8]> = Arc::from([1u8]);
        assert!(pins.pin(1, &text) && pins.pin(1, &text) && !pins.pin(1, &other));
        assert!(pins.pin(2, &other), "another user");
        assert_eq!(pins.bytes(), text.len() + 1);
        pins.unpin(1, &text);
        assert!(!pins.pin(1, &other));
        pins.unpin(1, &text);
        assert!(pins.pin(1, &other));
        pins.unpin(1, &other);
        pins.unpin(2, &other);
        assert_eq!(pins.bytes(), 0);
    }
}
