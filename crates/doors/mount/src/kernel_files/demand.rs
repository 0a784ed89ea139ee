//! Which kernel files are subscribed to: those that are open, and those that somebody has used within the last [`LEASE`].

use std::time::Instant;

use khz_model::Nanos;

use super::subscriptions::Room;
use super::texts::{KernelText, Subscribed};
use super::{Around, EVERYBODY, KernelFiles};
use crate::effects::Command;
use crate::inode::{Inode, NodeId};
use crate::limits::{LEASE, LIST_PERIOD, PROBLEM_TTL, TEXT_PERIOD};
use crate::upstream::TextSubscription;

impl KernelFiles {
    /// Somebody uses the list of a node.
    pub(super) fn want_list(&mut self, node: NodeId, around: &mut Around<'_>) {
        let inode = self.list_inode(node);
        // There is always room: lists have no handles.
        let _ = self.want(inode, EVERYBODY, around);
        self.rest(inode, around);
    }

    /// A user uses a file: the mount subscribes to it, until the lease ends. An errno: there is no room for it.
    pub(super) fn want(&mut self, inode: Inode, user: u32, around: &mut Around<'_>) -> Result<(), i32> {
        let text = self.texts.get_or_new(inode, around.now);
        text.used = around.now;
        let since = text.problem.map(|(_, since)| around.now.saturating_duration_since(since));
        // An old problem is not believed: the node is asked again.
        if text.handles == 0 && since.is_some_and(|since| since >= PROBLEM_TTL) {
            self.unsubscribe(inode, around);
        }
        let Some(text) = self.texts.get_mut(inode) else { return Err(libc::ENOENT) };
        if let Some(subscribed) = &mut text.subscription {
            self.subscriptions.use_again(&mut subscribed.held);
            return Ok(());
        }
        self.make_room(user, around)?;
        let Some(node) = around.cluster.roster().name(inode.node).cloned() else { return Err(libc::ENOENT) };
        let path = KernelFiles::path_at_node(around.names, inode.path);
        let period = self.period(inode, around);
        let held = self.subscriptions.add(inode, user);
        if let Some(text) = self.texts.get_mut(inode) {
            text.subscription = Some(Subscribed { held, period, answered: false });
            text.problem = None;
        }
        let subscription = TextSubscription { number: held.number, node, path, period };
        around.effects.command(Command::SubscribeText(subscription));
        Ok(())
    }

    /// A use of a file ends: if the file is not open, its lease begins.
    pub(super) fn rest(&mut self, inode: Inode, around: &mut Around<'_>) {
        let Some(text) = self.texts.get_mut(inode).filter(|text| text.handles == 0) else { return };
        text.used = around.now;
        if let Some(subscribed) = &mut text.subscription {
            self.subscriptions.rest(&mut subscribed.held, inode);
        }
        self.renew_period(inode, around);
    }

    fn make_room(&mut self, user: u32, around: &mut Around<'_>) -> Result<(), i32> {
        loop {
            match self.subscriptions.room(user) {
                Room::Free => return Ok(()),
                Room::After(oldest) => self.unsubscribe(oldest, around),
                Room::Full => {
                    self.counts.refused += 1;
                    return Err(libc::ENFILE);
                }
            }
        }
    }

    fn unsubscribe(&mut self, inode: Inode, around: &mut Around<'_>) {
        let Some(text) = self.texts.get_mut(inode) else { return };
        let Some(subscribed) = text.subscription.take() else { return };
        text.freshness.reset();
        self.subscriptions.remove(subscribed.held);
        around.effects.command(Command::UnsubscribeText(subscribed.held.number));
        self.end_caching(inode, around.effects);
    }

    /// How often the node reads a file: at its place's rate while it is open and the rate is within a reader's budget.
    fn period(&self, inode: Inode, around: &Around<'_>) -> Nanos {
        if inode.path == self.top {
            return LIST_PERIOD;
        }
        let may_hurry = |text: &KernelText| text.handles > 0 && !text.over_budget;
        let may_hurry = self.texts.get(inode).is_some_and(may_hurry);
        let rate = around.controls.rate(&around.names.places(inode)).filter(|_| may_hurry);
        rate.map_or(TEXT_PERIOD, |(_, rate)| rate.period())
    }

    /// Changes the period of a subscription when another one is set.
    pub fn renew_period(&mut self, inode: Inode, around: &mut Around<'_>) {
        let period = self.period(inode, around);
        let subscribed = self.texts.get_mut(inode).and_then(|text| text.subscription.as_mut());
        let Some(subscribed) = subscribed.filter(|subscribed| subscribed.period != period) else { return };
        subscribed.period = period;
        let number = subscribed.held.number;
        let Some(node) = around.cluster.roster().name(inode.node).cloned() else { return };
        let path = KernelFiles::path_at_node(around.names, inode.path);
        around.effects.command(Command::SubscribeText(TextSubscription { number, node, path, period }));
    }

    /// Settings have changed.
    pub fn renew_periods(&mut self, around: &mut Around<'_>) {
        self.subscriptions.inodes().into_iter().for_each(|inode| self.renew_period(inode, around));
    }

    /// Ends the subscriptions to files that nobody has used for a while.
    pub fn expire(&mut self, around: &mut Around<'_>) {
        let now = around.now;
        let is_over =
            |text: &KernelText| text.handles == 0 && text.subscription.is_some() && is_past(text.used, now);
        let texts = self.texts.iter().filter(|(_, text)| is_over(text));
        let over: Vec<Inode> = texts.map(|(inode, _)| inode).collect();
        over.into_iter().for_each(|inode| self.unsubscribe(inode, around));
    }
}

fn is_past(used: Instant, now: Instant) -> bool {
    now.saturating_duration_since(used) >= LEASE
}
