//! Sleeping until a value comes that passes the settings: `poll`, `select` and `epoll`.
//!
//! A program that hears of a value reads at once, out of the page cache. So it hears of the value only when the page has it:
//! [`Polls::change`] notes the news, the thread that pushes renews the page, and [`Polls::arrive`] tells. Otherwise the
//! program would read the value before, and sleep through the one that it waits for.

use std::collections::HashMap;

use khz_model::{Reading, ValueFormat};

use crate::controls::settings::Filter;
use crate::effects::Effects;
use crate::inode::Inode;

/// Handles that have been polled.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    pollers: HashMap<u64, Poller>,
    by_file: HashMap<Inode, Vec<u64>>,
    woken: u64,
}

#[derive(Debug)]
struct Poller {
    process: u32,
    filter: Filter,
    /// The last value that passed.
    last: Option<u64>,
    /// Something has passed since the last poll, and is in the file's page.
    has_news: bool,
    /// What wakes it, while it sleeps.
    sleeper: Option<u64>,
}

/// A handle that is polled for the first time.
pub(crate) struct First {
    pub handle: u64,
    pub inode: Inode,
    pub process: u32,
    pub filter: Filter,
    pub reading: Option<(Reading, ValueFormat)>,
    /// The reading is still on the way into the file's page.
    pub is_coming: bool,
}

impl Polls {
    /// A process polls a handle for the first time. There is news if the filter lets the present reading pass, or if there is
    /// no value: at once, or when the page has the reading.
    pub fn begin(&mut self, first: First, effects: &mut Effects) {
        let First { handle, inode, process, filter, reading, is_coming } = first;
        let last = reading.and_then(|(reading, _)| reading.value());
        let is_news = is_news(&filter, reading);
        if is_news && is_coming {
            effects.news(handle);
        }
        let has_news = is_news && !is_coming;
        self.pollers.insert(handle, Poller { process, filter, last, has_news, sleeper: None });
        self.by_file.entry(inode).or_default().push(handle);
    }

    /// Takes the news of a handle: true when there is some. Else the next news wakes `sleeper`, once. `None`: nobody has
    /// polled the handle.
    pub fn poll(&mut self, handle: u64, sleeper: Option<u64>) -> Option<bool> {
        let poller = self.pollers.get_mut(&handle)?;
        let has_news = std::mem::take(&mut poller.has_news);
        poller.sleeper = sleeper.filter(|_| !has_news);
        Some(has_news)
    }

    /// The reading of a file has changed. Its page gets it with the next pushes.
    pub fn change(&mut self, inode: Inode, reading: Reading, format: ValueFormat, effects: &mut Effects) {
        for handle in self.by_file.get(&inode).into_iter().flatten() {
            let Some(poller) = self.pollers.get_mut(handle) else { continue };
            let passes = match reading {
                Reading::Present(value) => poller.filter.passes(poller.last, value, format),
                _ => true,
            };
            if passes {
                poller.last = reading.value().or(poller.last);
                effects.news(*handle);
            }
        }
    }

    /// The file's page has the news of a handle. Returns whom to wake.
    pub fn arrive(&mut self, handle: u64) -> Option<u64> {
        let poller = self.pollers.get_mut(&handle)?;
        poller.has_news = true;
        let sleeper = poller.sleeper.take();
        self.woken += u64::from(sleeper.is_some());
        sleeper
    }

    /// Settings have changed: each poller of a file gets the filter that its process has now.
    pub fn set(
        &mut self,
        inode: Inode,
        reading: Option<(Reading, ValueFormat)>,
        filter_of: impl Fn(u32) -> Filter,
        effects: &mut Effects,
    ) {
        for handle in self.by_file.get(&inode).into_iter().flatten() {
            let Some(poller) = self.pollers.get_mut(handle) else { continue };
            let filter = filter_of(poller.process);
            if filter == poller.filter {
                continue;
            }
            if is_news(&filter, reading) {
                effects.news(*handle);
            }
            poller.filter = filter;
        }
    }

    /// A handle is closed.
    pub fn close(&mut self, handle: u64, inode: Inode) {
        if self.pollers.remove(&handle).is_none() {
            return;
        }
        if let Some(handles) = self.by_file.get_mut(&inode) {
            handles.retain(|&known| known != handle);
            if handles.is_empty() {
                self.by_file.remove(&inode);
            }
        }
    }

    /// True for a file that somebody polls.
    pub fn has(&self, inode: Inode) -> bool {
        self.by_file.contains_key(&inode)
    }

    /// Sleepers that were woken by a value.
    pub fn woken(&self) -> u64 {
        self.woken
    }
}

/// True when a present reading is news to a process that begins to wait.
fn is_news(filter: &Filter, reading: Option<(Reading, ValueFormat)>) -> bool {
    match reading {
        Some((Reading::Present(value), format)) => filter.holds(value, format),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::Push;

    fn begin(polls: &mut Polls, handle: u64, is_coming: bool, effects: &mut Effects) {
        let reading = Some((Reading::Present(1), ValueFormat::WHOLE));
        let (inode, filter) = (Inode::ROOT, Filter::default());
        polls.begin(First { handle, inode, process: 7, filter, reading, is_coming }, effects);
    }

    /// Does what the thread that pushes does; who is woken.
    fn push(polls: &mut Polls, effects: &mut Effects) -> Vec<u64> {
        let pushes = effects.take_pushes(Vec::new()).pushes;
        let handle = |push| match push {
            Push::News(handle) => handle,
            other => panic!("{other:?}"),
        };
        pushes.into_iter().map(handle).filter_map(|handle| polls.arrive(handle)).collect()
    }

    #[test]
    fn a_sleeper_is_woken_once_and_news_are_told_once() {
        let (mut polls, mut effects) = (Polls::default(), Effects::default());
        assert_eq!(polls.poll(1, None), None);
        begin(&mut polls, 1, false, &mut effects);
        assert_eq!(polls.poll(1, None), Some(true), "the value that is there");
        assert_eq!(polls.poll(1, Some(99)), Some(false));
        polls.change(Inode::ROOT, Reading::Present(2), ValueFormat::WHOLE, &mut effects);
        polls.change(Inode::ROOT, Reading::Present(3), ValueFormat::WHOLE, &mut effects);
        assert_eq!(push(&mut polls, &mut effects), [99]);
        assert_eq!((polls.poll(1, None), polls.poll(1, None)), (Some(true), Some(false)));
        assert_eq!(polls.woken(), 1);
    }

    #[test]
    fn nobody_hears_of_a_value_before_its_page_has_it() {
        let (mut polls, mut effects) = (Polls::default(), Effects::default());
        begin(&mut polls, 1, true, &mut effects);
        assert_eq!(polls.poll(1, Some(99)), Some(false), "the value is still on the way");
        assert_eq!(push(&mut polls, &mut effects), [99]);
        assert_eq!(polls.poll(1, None), Some(true));
        polls.change(Inode::ROOT, Reading::Present(2), ValueFormat::WHOLE, &mut effects);
        assert_eq!(polls.poll(1, Some(98)), Some(false), "a program that reads now finds the value before");
        assert_eq!(push(&mut polls, &mut effects), [98]);
        assert_eq!(polls.poll(1, None), Some(true));
    }

    #[test]
    fn a_file_whose_pollers_have_closed_it_is_polled_no_more() {
        let (mut polls, mut effects) = (Polls::default(), Effects::default());
        begin(&mut polls, 1, false, &mut effects);
        begin(&mut polls, 2, true, &mut effects);
        polls.close(1, Inode::ROOT);
        assert!(polls.has(Inode::ROOT));
        polls.close(2, Inode::ROOT);
        assert!(!polls.has(Inode::ROOT));
        assert!(push(&mut polls, &mut effects).is_empty(), "its news come too late");
    }
}
