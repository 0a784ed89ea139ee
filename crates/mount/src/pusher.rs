//! The thread that brings new values into the page cache, wakes who sleeps, and says to the source what is wanted. A
//! drop or a store waits while a read of the same file is under way: therefore nobody else does it.

use std::path::Path;
use std::sync::Arc;

use fuser::{INodeNo, Notifier, PollHandle};

use crate::source::Source;
use crate::state::Shared;
use crate::tree::{Fresh, Order, Push};

/// Runs until the mount, at this directory, is over.
pub(crate) fn run(shared: &Arc<Shared>, notifier: &Notifier, source: &Arc<dyn Source>, directory: &Path) {
    shared.begin_to_push();
    while let Some(mut work) = shared.next_work() {
        for order in work.orders.drain(..) {
            match order {
                Order::Ask(wish) => source.ask(wish),
                Order::Dismiss(number) => source.dismiss(number),
                Order::Roster(wanted) => source.roster(wanted),
                Order::Read(wish) => source.read(wish),
                Order::ReadNow(number, ask) => source.read_now(number, ask),
                Order::Unread(number) => source.unread(number),
            }
        }
        for push in &work.pushes {
            // An error means that the kernel has forgotten the file or the mount is gone: nothing is to be done.
            let _ = match push {
                Push::Invalidate(inode) => notifier.inval_inode(INodeNo(inode.number()), 0, 0),
                Push::Store(fresh) => store(notifier, fresh, directory),
                Push::Forget(inode) => notifier.inval_inode(INodeNo(inode.number()), -1, 0),
                Push::Wake(sleeper) => notifier.poll(PollHandle(*sleeper)),
            };
        }
        shared.pushed(&work);
        shared.ask_again(&work);
    }
}

/// Drops a page, has the kernel ask for the new length, and stores the new bytes: in this order a reader finds either
/// no page or a whole one of the right length (`tree/pages.rs`).
fn store(notifier: &Notifier, fresh: &Fresh, directory: &Path) -> std::io::Result<()> {
    let inode = INodeNo(fresh.inode.number());
    notifier.inval_inode(inode, 0, 0)?;
    // The other threads answer it, whatever they know: this one never waits. Without it the first reader would ask, and a
    // shorter text would not be taken.
    let _ = std::fs::symlink_metadata(directory.join(&fresh.path));
    notifier.store(inode, 0, &fresh.text)
}
