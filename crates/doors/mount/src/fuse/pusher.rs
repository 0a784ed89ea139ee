//! The thread that brings new values into the page cache and wakes sleepers. A drop or a store waits in the kernel while a read
//! of the same file, or a lookup of its name, is under way: therefore no other thread does it.

use std::path::Path;

use fuser::{INodeNo, Notifier, PollHandle};

use crate::effects::{NewPage, Push};
use crate::fuse::shared::Shared;

/// Runs until the mount, at this directory, is over.
pub(crate) fn run(shared: &Shared, notifier: &Notifier, directory: &Path) {
    shared.begin_to_push();
    while let Some(work) = shared.next_pushes() {
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
