//! How new a kernel file's text is, as who reads it may believe: not by when it came, but by when it was asked for. A text that
//! answers an ask is of that instant or later, whatever the network and the clocks do. Who begins to read gets one that is not older
//! than [`TEXT_AGE_MAX`], or the last one where the node does not answer.

use std::sync::Arc;
use std::time::Instant;

use khz_model::Stamp;

use super::super::Tree;
use super::super::wishes::Order;
use crate::inode::Inode;
use crate::limits::{TEXT_AGE_MAX, TEXT_NOW_PAUSE};

/// What is known of that.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    /// The text is of this instant or later.
    of: Option<Instant>,
    /// Counts what the node was asked; one thing at a time, for all readers.
    asks: u32,
    under_way: Option<Instant>,
    /// Somebody has waited for the answer in vain: nobody else does.
    is_late: bool,
    /// It cannot be asked before.
    rests_until: Option<Instant>,
    /// A text that is older than one that somebody has seen. It is shown only where the node says that it is of now.
    pub older: Option<(Arc<[u8]>, Stamp)>,
}

impl Fresh {
    /// Nobody answers what was asked before.
    pub fn begin_anew(&mut self) {
        let Fresh { of, asks, .. } = *self;
        *self = Fresh { of, asks, ..Fresh::default() };
    }
}

impl Tree {
    /// True where a reader who has waited since `began` may begin to read what is here; if not, the node was asked.
    pub(super) fn is_fresh(&mut self, inode: Inode, began: Instant, now: Instant, late: bool) -> bool {
        let Some(known) = self.proc.texts.get_mut(&inode) else { return true };
        let Fresh { of, is_late, rests_until, .. } = known.fresh;
        if of.is_some_and(|of| began.saturating_duration_since(of) <= TEXT_AGE_MAX) {
            return true;
        }
        if late {
            known.fresh.is_late = known.fresh.under_way.is_some();
            self.proc.counts.not_in_time += 1;
            return true;
        }
        let rests = rests_until.is_some_and(|until| now < until);
        let is_wanted = known.wish.is_some() && known.problem.is_none();
        if is_late || rests || !is_wanted || !self.hub.up {
            return true;
        }
        self.ask_text(inode, now);
        false
    }

    /// Asks the node to read a file now, unless it is asked already.
    pub(super) fn ask_text(&mut self, inode: Inode, now: Instant) {
        let Some(known) = self.proc.texts.get_mut(&inode) else { return };
        let Some(wish) = known.wish.filter(|_| known.fresh.under_way.is_none()) else { return };
        known.fresh.asks = known.fresh.asks.wrapping_add(1);
        known.fresh.under_way = Some(now);
        self.proc.counts.asked += 1;
        self.work.orders.push(Order::ReadNow(wish.number, known.fresh.asks));
    }

    /// The node has read a file after it was asked to, or cannot be asked.
    pub fn kernel_text_given(&mut self, wish: u32, ask: u32, is_read: bool, now: Instant) {
        let Some(&inode) = self.proc.by_wish.get(&wish) else { return };
        let Some(known) = self.proc.texts.get_mut(&inode) else { return };
        if known.fresh.asks != ask {
            return;
        }
        known.fresh.is_late = false;
        let Some(asked) = known.fresh.under_way.take() else { return };
        if is_read {
            known.fresh.of = Some(asked);
            if let Some((text, stamp)) = known.fresh.older.take() {
                self.keep_text(inode, &text, stamp, now);
            }
        } else {
            known.fresh.rests_until = Some(now + TEXT_NOW_PAUSE);
        }
        self.stir(inode.node);
    }
}
