//! What has to be done because something has happened: commands for the upstream, pages and wake-ups for the kernel,
//! waiting requests to retry. The parts of the tree note it here; two threads take it out and do it. One does the errands,
//! and never waits for the kernel; the other pushes, and may.

use std::collections::BTreeSet;

use crate::inode::{Inode, NodeId};
use crate::upstream::{ChannelSubscription, Subscription, TextSubscription};

/// What the upstream has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send rows.
    Subscribe(Subscription),
    /// Stop sending them.
    Unsubscribe(u32),
    /// Send the list of nodes again and again, or stop.
    ListNodes(bool),
    /// Send a kernel file, or send it at another period.
    SubscribeText(TextSubscription),
    /// Read the file of such a subscription now; the second number is the request's.
    ReadTextNow(u32, u32),
    /// Stop sending it.
    UnsubscribeText(u32),
    /// Send the list of channels, again after every change, or stop.
    ListChannels(bool),
    /// Send the rows of a channel.
    SubscribeChannel(ChannelSubscription),
    /// Stop sending them.
    UnsubscribeChannel(u32),
}

/// What the kernel has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// Drop the page of a file: the next read fetches it.
    Invalidate(Inode),
    /// Drop the page of a file, and store this one before somebody reads.
    Store(NewPage),
    /// Forget the size of a file, since its page is not kept up to date any more.
    Forget(Inode),
    /// Wake a sleeper in `poll`.
    Wake(u64),
    /// Nothing of its own: the page of a polled handle has its news, once the pushes before this one are done.
    News(u64),
}

/// A page to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPage {
    /// Its file.
    pub inode: Inode,
    /// The file's path below the mount point. A `stat` of it makes the kernel ask for the new length; no message
    /// to the kernel could set it.
    pub path: String,
    /// The bytes.
    pub text: Vec<u8>,
}

/// Which waiting requests are to be tried again.
#[derive(Debug, Default)]
pub struct Retry {
    nodes: BTreeSet<NodeId>,
    all: bool,
}

impl Retry {
    /// True for requests that wait for this node. Those that wait for the tree itself depend on every node.
    pub fn concerns(&self, node: NodeId) -> bool {
        self.all || self.nodes.contains(&node) || node == NodeId::TREE && !self.nodes.is_empty()
    }

    fn is_empty(&self) -> bool {
        !self.all && self.nodes.is_empty()
    }
}

/// What has to be done now without the kernel.
#[derive(Debug, Default)]
pub struct Errands {
    /// For the upstream, in order.
    pub commands: Vec<Command>,
    /// For waiting lookups: the kernel may let the thread that pushes wait for one of them.
    pub lookups: Retry,
}

/// What the kernel has to do now, in order.
#[derive(Debug, Default)]
pub struct Pushes {
    /// For the kernel.
    pub pushes: Vec<Push>,
    /// For waiting requests, after the pushes: who reads then finds no page from before them.
    pub retry: Retry,
}

/// What waits to be done.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    commands: Vec<Command>,
    forget: Vec<Inode>,
    invalidate: Vec<Inode>,
    wakes: Vec<u64>,
    news: BTreeSet<u64>,
    lookups: Retry,
    retry: Retry,
    /// Requests that wait for something.
    waiting: usize,
    has_new_demand: bool,
}

impl Effects {
    /// The upstream has to do this.
    pub fn command(&mut self, command: Command) {
        self.commands.push(command);
    }

    /// See [`Push::Forget`].
    pub fn forget(&mut self, inode: Inode) {
        self.forget.push(inode);
    }

    /// See [`Push::Invalidate`].
    pub fn invalidate(&mut self, inode: Inode) {
        self.invalidate.push(inode);
    }

    /// See [`Push::Wake`].
    pub fn wake(&mut self, sleeper: u64) {
        self.wakes.push(sleeper);
    }

    /// See [`Push::News`].
    pub fn news(&mut self, handle: u64) {
        self.news.insert(handle);
    }

    /// Something of a node came that a request may wait for.
    pub fn retry(&mut self, node: NodeId) {
        if self.waiting > 0 {
            self.lookups.nodes.insert(node);
            self.retry.nodes.insert(node);
        }
    }

    /// Something came that any request may wait for.
    pub fn retry_all(&mut self) {
        self.lookups.all |= self.waiting > 0;
        self.retry.all |= self.waiting > 0;
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// This many requests wait now.
    pub fn set_waiting(&mut self, requests: usize) {
        self.waiting = requests;
    }

    /// An open, a close, a setting or an expiry may need other subscriptions.
    pub fn change_demand(&mut self) {
        self.has_new_demand = true;
    }

    /// True once after the demand has changed.
    pub fn take_new_demand(&mut self) -> bool {
        std::mem::take(&mut self.has_new_demand)
    }

    /// True when there are errands.
    pub fn has_errands(&self) -> bool {
        !self.commands.is_empty() || !self.lookups.is_empty() || self.has_new_demand
    }

    /// True when there is something to push.
    pub fn has_pushes(&self) -> bool {
        let Effects { forget, invalidate, wakes, news, retry, .. } = self;
        !(forget.is_empty()
            && invalidate.is_empty()
            && wakes.is_empty()
            && news.is_empty()
            && retry.is_empty())
    }

    /// Takes out the errands.
    pub fn take_errands(&mut self) -> Errands {
        Errands { commands: std::mem::take(&mut self.commands), lookups: std::mem::take(&mut self.lookups) }
    }

    /// Takes out what has to be pushed. `pages` are the new values of files; they come before the news and the wake-ups, so
    /// that a sleeper finds the new value when it reads at once.
    pub fn take_pushes(&mut self, pages: Vec<Push>) -> Pushes {
        let mut pushes: Vec<Push> = self.forget.drain(..).map(Push::Forget).collect();
        pushes.extend(self.invalidate.drain(..).map(Push::Invalidate));
        pushes.extend(pages);
        pushes.extend(std::mem::take(&mut self.news).into_iter().map(Push::News));
        pushes.extend(self.wakes.drain(..).map(Push::Wake));
        Pushes { pushes, retry: std::mem::take(&mut self.retry) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_retried_while_nobody_waits() {
        let mut effects = Effects::default();
        effects.retry(NodeId(1));
        effects.retry_all();
        assert!(!effects.has_errands() && !effects.has_pushes());
        effects.set_waiting(1);
        effects.retry(NodeId(1));
        for retry in [effects.take_errands().lookups, effects.take_pushes(Vec::new()).retry] {
            assert!(retry.concerns(NodeId(1)) && retry.concerns(NodeId::TREE) && !retry.concerns(NodeId(2)));
        }
        assert!(!effects.has_errands() && !effects.has_pushes());
    }

    #[test]
    fn sleepers_are_woken_after_the_pages_are_new() {
        let mut effects = Effects::default();
        effects.wake(7);
        effects.news(5);
        effects.invalidate(Inode::ROOT);
        effects.forget(Inode::ROOT);
        let page = Push::Invalidate(Inode::plain(NodeId(1), crate::inode::PathId(1)));
        let pushes = effects.take_pushes(vec![page.clone()]).pushes;
        let before = [Push::Forget(Inode::ROOT), Push::Invalidate(Inode::ROOT), page];
        assert_eq!(pushes, [&before[..], &[Push::News(5), Push::Wake(7)]].concat());
        assert!(!effects.has_pushes());
    }
}
