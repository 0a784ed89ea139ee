//! Sleeping until a value that passes the settings arrives: what `poll`, `select` and `epoll` ask.

use khz_model::Reading;

use super::files::What;
use super::{Answer, Tree};
use crate::inode::Inode;
use crate::settings::Filter;

/// A handle that has been polled.
#[derive(Debug)]
pub(super) struct Poller {
    process: u32,
    filter: Filter,
    /// The last value that passed.
    last: Option<u64>,
    /// Something has passed since it was last said.
    news: bool,
    /// What wakes it, while it sleeps.
    wakes: Option<u64>,
}

impl Tree {
    /// True when there is news for a handle; else `wakes` is woken when there is, once.
    /// `process` is who polls: he hears what he has set himself.
    pub fn poll(&mut self, handle: u64, process: u32, wakes: Option<u64>) -> Answer<bool> {
        let Some(open) = self.handles.get(&handle) else { return Answer::Fail(libc::EBADF) };
        let inode = open.inode;
        match &open.what {
            What::Value(Some(_)) => {}
            What::Value(None) => self.begin_to_poll(handle, inode, process),
            // A text or a setting can always be read.
            What::Text(_)
            | What::JustGone
            | What::KernelText(_)
            | What::CachedText
            | What::Control(_)
            | What::Directory(_) => {
                return Answer::Ready(true);
            }
        }
        let Some(What::Value(Some(poller))) = self.handles.get_mut(&handle).map(|open| &mut open.what) else {
            return Answer::Fail(libc::EBADF);
        };
        let news = std::mem::take(&mut poller.news);
        poller.wakes = wakes.filter(|_| !news);
        Answer::Ready(news)
    }

    fn begin_to_poll(&mut self, handle: u64, inode: Inode, process: u32) {
        let places = self.places(inode);
        self.settings_serve(&places, process);
        let filter = self.settings.filter(&places, Some(process));
        let (last, news) = match self.value(inode) {
            Some((Reading::Present(value), _, places)) => (Some(value), filter.holds(value, places)),
            _ => (None, true),
        };
        if let Some(open) = self.handles.get_mut(&handle) {
            open.what = What::Value(Some(Poller { process, filter, last, news, wakes: None }));
        }
        if let Some(file) = self.files.get_mut(&inode) {
            file.pollers.push(handle);
        }
    }

    /// The reading of a file that somebody has open is another.
    pub(super) fn changed(&mut self, inode: Inode) {
        let Some((reading, _, places)) = self.value(inode) else { return };
        let Some(file) = self.files.get_mut(&inode) else { return };
        let passes = match (file.shown, reading) {
            (Reading::Present(last), Reading::Present(value)) => {
                file.filter.passes(Some(last), value, places)
            }
            _ => true,
        };
        if passes {
            file.shown = reading;
            self.soil(inode);
        } else {
            self.counts.dropped += 1;
        }
        let pollers = self.files.get(&inode).map(|file| file.pollers.clone()).unwrap_or_default();
        for handle in pollers {
            self.tell(handle, reading, places);
        }
    }

    fn tell(&mut self, handle: u64, reading: Reading, places: u8) {
        let Some(What::Value(Some(poller))) = self.handles.get_mut(&handle).map(|open| &mut open.what) else {
            return;
        };
        let passes = match reading {
            Reading::Present(value) => poller.filter.passes(poller.last, value, places),
            _ => true,
        };
        if passes {
            poller.last = reading.value().or(poller.last);
            poller.news = true;
            let woken = poller.wakes.take();
            self.counts.wakes += u64::from(woken.is_some());
            self.work.wakes.extend(woken);
        }
    }

    /// Settings have changed: who polls is judged by the new ones.
    pub(super) fn renew_poller(&mut self, handle: u64, inode: Inode) {
        let places = self.places(inode);
        let Some(What::Value(Some(poller))) = self.handles.get_mut(&handle).map(|open| &mut open.what) else {
            return;
        };
        let filter = self.settings.filter(&places, Some(poller.process));
        if filter != poller.filter {
            poller.filter = filter;
            let value = self.value(inode);
            let holds = |filter: &Filter| match value {
                Some((Reading::Present(value), _, places)) => filter.holds(value, places),
                _ => true,
            };
            let Some(What::Value(Some(poller))) = self.handles.get_mut(&handle).map(|open| &mut open.what)
            else {
                return;
            };
            poller.news |= holds(&poller.filter);
            if poller.news {
                self.work.wakes.extend(poller.wakes.take());
            }
        }
    }
}
