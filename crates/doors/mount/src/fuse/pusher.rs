//! The thread that brings new values into the page cache, wakes sleepers, and gives the upstream its commands. A drop or a
//! store waits while a read of the same file is under way: therefore no other thread does it.

use std::path::Path;
use std::sync::Arc;

use fuser::{INodeNo, Notifier, PollHandle};

use crate::effects::{Command, NewPage, Push};
use crate::fuse::shared::Shared;
use crate::upstream::Upstream;

/// Runs until the mount, at this directory, is over.
pub(crate) fn run(shared: &Arc<Shared>, notifier: &Notifier, upstream: &Arc<dyn Upstream>, directory: &Path) {
    shared.begin_to_push();
    while let Some(mut work) = shared.next_work() {
        for command in work.commands.drain(..) {
            match command {
                Command::Subscribe(subscription) => upstream.subscribe(subscription),
                Command::Unsubscribe(number) => upstream.unsubscribe(number),
                Command::ListNodes(wanted) => upstream.list_nodes(wanted),
                Command::SubscribeText(subscription) => upstream.subscribe_text(subscription),
                Command::ReadTextNow(number, request) => upstream.read_text_now(number, request),
                Command::UnsubscribeText(number) => upstream.unsubscribe_text(number),
                Command::ListChannels(wanted) => upstream.list_channels(wanted),
                Command::SubscribeChannel(subscription) => upstream.subscribe_channel(subscription),
                Command::UnsubscribeChannel(number) => upstream.unsubscribe_channel(number),
            }
        }
        for push in &work.pushes {
            // An error means that the kernel has forgotten the file, or that the mount is gone: there is nothing to do.
            let _ = match push {
                Push::Invalidate(inode) => notifier.inval_inode(INodeNo(inode.number()), 0, 0),
                Push::Store(page) => store(notifier, page, directory),
                Push::Forget(inode) => notifier.inval_inode(INodeNo(inode.number()), -1, 0),
                Push::Wake(sleeper) => notifier.poll(PollHandle(*sleeper)),
                Push::News(_) => Ok(()),
            };
        }
        for sleeper in shared.pushed(&work) {
            let _ = notifier.poll(PollHandle(sleeper));
        }
        shared.retry(&work);
    }
}

/// Drops a page, makes the kernel ask for the new length, and stores the new bytes: in this order a reader finds either no
/// page or a whole one of the right length (`open_files/page.rs`).
fn store(notifier: &Notifier, page: &NewPage, directory: &Path) -> std::io::Result<()> {
    let inode = INodeNo(page.inode.number());
    notifier.inval_inode(inode, 0, 0)?;
    // Another thread answers this `stat`, at once. Without it the first reader would ask for the length, and the kernel
    // would refuse to store a shorter text.
    let _ = std::fs::symlink_metadata(directory.join(&page.path));
    notifier.store(inode, 0, &page.text)
}
