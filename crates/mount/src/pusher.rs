//! The thread that drops old values from the page cache, wakes who sleeps, and says to the source what is wanted. A drop
//! waits while a read of the same file is under way: therefore nobody else does it.

use std::sync::Arc;

use fuser::{INodeNo, Notifier, PollHandle};

use crate::source::Source;
use crate::state::Shared;
use crate::tree::{Order, Push};

/// Runs until the mount is over.
pub(crate) fn run(shared: &Arc<Shared>, notifier: &Notifier, source: &Arc<dyn Source>) {
    while let Some(mut work) = shared.next_work() {
        for order in work.orders.drain(..) {
            match order {
                Order::Ask(wish) => source.ask(wish),
                Order::Dismiss(number) => source.dismiss(number),
                Order::Roster(wanted) => source.roster(wanted),
                Order::Read(wish) => source.read(wish),
                Order::Unread(number) => source.unread(number),
            }
        }
        for push in work.pushes.drain(..) {
            // An error means that the kernel has forgotten the file or the mount is gone: nothing is to be done.
            let _ = match push {
                Push::Invalidate(inode) => notifier.inval_inode(INodeNo(inode.number()), 0, 0),
                Push::Forget(inode) => notifier.inval_inode(INodeNo(inode.number()), -1, 0),
                Push::Wake(sleeper) => notifier.poll(PollHandle(sleeper)),
            };
        }
        shared.ask_again(&work);
    }
}
