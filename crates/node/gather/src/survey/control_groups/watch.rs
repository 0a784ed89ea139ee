//! Notices that control groups were made, removed, filled or left: inotify tells of folders, and of the file `cgroup.events` of each
//! group, which the kernel marks as changed when the group's last task leaves or its first one comes.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, read};

/// What is watched of a folder.
const OF_FOLDER: WatchFlags =
    WatchFlags::CREATE.union(WatchFlags::DELETE).union(WatchFlags::MOVE).union(WatchFlags::ONLYDIR);

/// Room for some events; further events are read next.
const EVENTS_BYTES: usize = 4_096;

/// Watches the groups of the last walk.
#[derive(Default)]
pub(super) struct Watch {
    /// `None` before the first walk, and if the kernel refused something. Then each survey walks.
    inotify: Option<OwnedFd>,
}

impl Watch {
    /// True if the groups may be others than at the last walk.
    pub fn has_news(&mut self) -> bool {
        let Some(inotify) = &self.inotify else { return true };
        let mut news = false;
        let mut events = [0; EVENTS_BYTES];
        loop {
            match read(inotify, &mut events) {
                Ok(0) | Err(Errno::AGAIN) => return news,
                Err(Errno::INTR) => {}
                Ok(_) => news = true,
                Err(_) => {
                    self.inotify = None;
                    return true;
                }
            }
        }
    }

    /// Begins a walk: makes the watch if there is none.
    pub fn begin(&mut self) {
        if self.inotify.is_none() {
            self.inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        }
    }

    /// Watches a folder of groups. A watched folder stays watched, and the watch of a removed folder ends by itself: only the
    /// kernel knows whether a folder of the same name is still the same folder.
    pub fn folder(&mut self, folder: &Path) {
        let Some(inotify) = &self.inotify else { return };
        let watched = inotify::add_watch(inotify, folder, OF_FOLDER).and_then(|_| {
            match inotify::add_watch(inotify, folder.join("cgroup.events"), WatchFlags::MODIFY) {
                // The group that is mounted has none.
                Err(Errno::NOENT) => Ok(0),
                other => other,
            }
        });
        match watched {
            // It is gone already.
            Ok(_) | Err(Errno::NOENT) => {}
            // There are more groups than the kernel lets one user watch (fs.inotify.max_user_watches).
            Err(_) => self.inotify = None,
        }
    }
}
