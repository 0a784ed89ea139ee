//! Sleeping until a value comes that passes the settings: `poll`, `select` and `epoll`.

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
    /// Something has passed since the last poll.
    has_news: bool,
    /// What wakes it, while it sleeps.
    sleeper: Option<u64>,
}

impl Polls {
    /// A process polls a handle for the first time. There is news at once if the filter lets the present reading pass, or if
    /// there is no value.
    pub fn begin(
        &mut self,
        handle: u64,
        inode: Inode,
        process: u32,
        filter: Filter,
        reading: Option<(Reading, ValueFormat)>,
    ) {
        let last = reading.and_then(|(reading, _)| reading.value());
        let has_news = is_news(&filter, reading);
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

    /// The reading of a file has changed.
    pub fn change(&mut self, inode: Inode, reading: Reading, format: ValueFormat, effects: &mut Effects) {
        for handle in self.by_file.get(&inode).into_iter().flatten() {
            let Some(poller) = self.pollers.get_mut(handle) else { continue };
            let passes = match reading {
                Reading::Present(value) => poller.filter.passes(poller.last, value, format),
                _ => true,
            };
            if passes {
                poller.last = reading.value().or(poller.last);
                poller.has_news = true;
                self.woken += u64::from(poller.wake(effects));
            }
        }
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
            poller.has_news |= is_news(&filter, reading);
            poller.filter = filter;
            if poller.has_news {
                poller.wake(effects);
            }
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

impl Poller {
    /// True when there was a sleeper.
    fn wake(&mut self, effects: &mut Effects) -> bool {
        let sleeper = self.sleeper.take();
        sleeper.into_iter().for_each(|sleeper| effects.wake(sleeper));
        sleeper.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::Push;

    const VALUE: Option<(Reading, ValueFormat)> = Some((Reading::Present(1), ValueFormat::WHOLE));

    #[test]
    fn a_sleeper_is_woken_once_and_news_are_told_once() {
        let (mut polls, mut effects) = (Polls::default(), Effects::default());
        assert_eq!(polls.poll(1, None), None);
        polls.begin(1, Inode::ROOT, 7, Filter::default(), VALUE);
        assert_eq!(polls.poll(1, None), Some(true), "the value that is there");
        assert_eq!(polls.poll(1, Some(99)), Some(false));
        polls.change(Inode::ROOT, Reading::Present(2), ValueFormat::WHOLE, &mut effects);
        polls.change(Inode::ROOT, Reading::Present(3), ValueFormat::WHOLE, &mut effects);
        assert_eq!(effects.take(Vec::new()).pushes, [Push::Wake(99)]);
        assert_eq!((polls.poll(1, None), polls.poll(1, None)), (Some(true), Some(false)));
        assert_eq!(polls.woken(), 1);
    }

    #[test]
    fn a_file_whose_pollers_have_closed_it_is_polled_no_more() {
        let mut polls = Polls::default();
        polls.begin(1, Inode::ROOT, 7, Filter::default(), VALUE);
        polls.begin(2, Inode::ROOT, 7, Filter::default(), VALUE);
        polls.close(1, Inode::ROOT);
        assert!(polls.has(Inode::ROOT));
        polls.close(2, Inode::ROOT);
        assert!(!polls.has(Inode::ROOT));
    }
}
