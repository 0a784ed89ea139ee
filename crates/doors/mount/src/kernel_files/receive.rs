//! What the upstream sends of kernel files: texts, lists, and why there is none.

use std::sync::Arc;

use khz_model::Stamp;

use super::{Around, KernelFiles};
use crate::inode::Inode;

impl KernelFiles {
    /// The text of a subscription.
    pub fn text(&mut self, subscription: u32, bytes: &Arc<[u8]>, stamp: Stamp, around: &mut Around<'_>) {
        let Some(inode) = self.subscriptions.inode(subscription) else { return };
        self.counts.texts += 1;
        self.counts.bytes += bytes.len() as u64;
        if inode.path == self.top {
            self.lists.take(inode.node, bytes, around.names, self.top);
        }
        let Some(known) = self.texts.get_mut(inode) else { return };
        if let Some(subscribed) = &mut known.subscription {
            subscribed.answered = true;
        }
        if known.last().is_some_and(|(_, before)| is_older(stamp, *before)) {
            // Another hub does not know the text that somebody has seen here.
            known.freshness.set_unconfirmed(Some((bytes.clone(), stamp)));
            self.counts.older += 1;
        } else {
            known.freshness.set_unconfirmed(None);
            self.keep(inode, bytes, stamp, around);
        }
        around.effects.retry(inode.node);
    }

    fn keep(&mut self, inode: Inode, bytes: &Arc<[u8]>, stamp: Stamp, around: &mut Around<'_>) {
        if self.texts.keep(inode, bytes, stamp, around.now) {
            self.drop_cached(inode, around.effects);
        }
    }

    /// A node has answered a request for a fresh text (`is_read`), or cannot be asked.
    pub fn answered(&mut self, subscription: u32, request: u32, is_read: bool, around: &mut Around<'_>) {
        let Some(inode) = self.subscriptions.inode(subscription) else { return };
        let Some(known) = self.texts.get_mut(inode) else { return };
        if !known.freshness.answer(request, is_read, around.now) {
            return;
        }
        if let Some((text, stamp)) = is_read.then(|| known.freshness.confirm()).flatten() {
            self.keep(inode, &text, stamp, around);
        }
        around.effects.retry(inode.node);
    }

    /// There is no text for a subscription.
    pub fn no_text(&mut self, subscription: u32, errno: i32, why: &str, around: &mut Around<'_>) {
        let Some(inode) = self.subscriptions.inode(subscription) else { return };
        self.counts.failed += 1;
        if let Some(text) = self.texts.get_mut(inode) {
            text.problem = Some((errno, around.now));
            if let Some(subscribed) = &mut text.subscription {
                subscribed.answered = true;
            }
        }
        self.drop_cached(inode, around.effects);
        let node = around.cluster.roster().name(inode.node).map_or("", |name| name.as_str());
        let path = around.names.text(inode.path);
        around.controls.note_error(&format!("{node}/{path}: {why}"));
        around.effects.retry(inode.node);
    }

    /// The connection is over: what comes on the next one is new.
    pub fn disconnected(&mut self) {
        for text in self.texts.iter_mut() {
            text.freshness.reset();
            if let Some(subscribed) = &mut text.subscription {
                subscribed.answered = false;
            }
        }
    }
}

/// True for a text that both of its node's clocks call older. Where the node has started again, or a clock was set, one of
/// them does not. Where both were, the text is taken once the node has confirmed it.
fn is_older(stamp: Stamp, before: Stamp) -> bool {
    stamp.boot < before.boot && stamp.real() < before.real()
}
