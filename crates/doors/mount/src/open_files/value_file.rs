//! One file of a value: what it shows, and when its page in the page cache has to get a new value.

use std::time::Instant;

use khz_model::{Rate, Reading, ValueFormat};

use crate::controls::settings::{Filter, Place};
use crate::file::line;
use crate::limits::{FILE_LEASE, LENGTH_HOLD};
use crate::open_files::page::{Page, Renewal};

/// A file of a value that is open, or was a moment ago.
#[derive(Debug)]
pub(crate) struct ValueFile {
    handles: usize,
    /// The last reading that passed the filter.
    shown: Reading,
    format: ValueFormat,
    filter: Filter,
    /// The rate that it is served at, and the place that has it.
    rate: Option<(Place, Rate)>,
    /// The page cache follows it.
    followed: bool,
    /// It waits to be pushed.
    dirty: bool,
    /// It is being pushed.
    is_on_the_way: bool,
    page: Page,
    opened: Instant,
    /// A value with another number of digits waits until then.
    held_until: Option<Instant>,
    closed: Option<Instant>,
}

/// What a file is opened with: its value now, and its settings.
pub(crate) struct Opening {
    pub reading: Reading,
    pub format: ValueFormat,
    pub filter: Filter,
    pub rate: Option<(Place, Rate)>,
}

/// What a file shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub reading: Reading,
    pub format: ValueFormat,
    /// The page cache follows it.
    pub followed: bool,
}

/// What a dirty file needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: nobody follows it any more.
    Nothing,
    /// Its new value has another length, and waits until then.
    Delay(Instant),
    /// Its page gets a new value.
    Renew(Renewal),
}

impl ValueFile {
    /// A file that nobody has open yet.
    pub fn new(opening: Opening, now: Instant) -> Self {
        let Opening { reading, format, filter, rate } = opening;
        ValueFile {
            handles: 0,
            shown: reading,
            format,
            filter,
            rate,
            followed: false,
            dirty: false,
            is_on_the_way: false,
            page: Page::new(reading),
            opened: now,
            held_until: None,
            closed: None,
        }
    }

    /// Another handle; the page cache follows the file from now on. Returns whether it did before. If it did not, the file
    /// shows this reading.
    pub fn open(&mut self, reading: Reading, now: Instant) -> bool {
        let was_followed = std::mem::replace(&mut self.followed, true);
        let again = self.closed.is_some_and(|closed| now.saturating_duration_since(closed) < FILE_LEASE);
        (self.opened, self.handles) = (now, self.handles + 1);
        // A program that opens the file once is served by one read: following the file for it would cost more.
        if self.handles == 1 && !again {
            self.closed = None;
        }
        if !was_followed {
            self.shown = reading;
        }
        was_followed
    }

    /// True when the page cache serves what the file shows. `false`: another value is still on the way into it, and this one
    /// has to be pushed after that.
    pub fn follow(&mut self) -> bool {
        self.page.follow(self.shown)
    }

    /// A handle is closed. True when the file is not followed any more; it is for a while if it was opened again and again.
    pub fn close(&mut self, now: Instant) -> bool {
        self.handles -= 1;
        self.handles == 0 && self.closed.replace(now).is_none()
    }

    /// True for a file that was closed long enough ago.
    pub fn is_expired(&self, now: Instant) -> bool {
        let is_old = |closed| now.saturating_duration_since(closed) >= FILE_LEASE;
        self.handles == 0 && !self.page.is_being_stored() && self.closed.is_none_or(is_old)
    }

    /// The page cache does not follow the file any more; `false`: it did not before.
    pub fn stop_following(&mut self) -> bool {
        std::mem::take(&mut self.followed)
    }

    /// The page cache follows it.
    pub fn is_followed(&self) -> bool {
        self.followed
    }

    /// The rate that it is served at, and the place that has it.
    pub fn rate(&self) -> Option<(Place, Rate)> {
        self.rate
    }

    /// Its rate is beyond its user's budget: it gets the base rate, unless another handle has it open.
    pub fn refuse_rate(&mut self) {
        if self.handles == 1 {
            self.rate = None;
        }
    }

    /// Other settings hold. Returns whether other values pass the filter from now on, and whether the rate is another.
    pub fn set(&mut self, filter: Filter, rate: Option<(Place, Rate)>) -> (bool, bool) {
        let changed = (self.filter != filter, self.rate != rate);
        (self.filter, self.rate) = (filter, rate);
        changed
    }

    /// The reading has changed; `false`: the filter holds it back.
    pub fn change(&mut self, reading: Reading, format: ValueFormat) -> bool {
        let passes = match (self.shown, reading) {
            (Reading::Present(last), Reading::Present(value)) => {
                self.filter.passes(Some(last), value, format)
            }
            _ => true,
        };
        if passes {
            self.shown = reading;
        }
        passes
    }

    /// The page cache has an old value; `false`: that is known already, or it has none.
    pub fn mark_dirty(&mut self) -> bool {
        let is_new = self.followed && !self.dirty;
        self.dirty |= is_new;
        is_new
    }

    /// What a dirty file needs now.
    pub fn clean(&mut self, is_polled: bool, now: Instant) -> Need {
        if self.followed
            && let Some(until) = self.hold(is_polled, now)
        {
            return Need::Delay(until);
        }
        self.dirty = false;
        if self.followed { Need::Renew(self.page.renew(self.shown, now)) } else { Need::Nothing }
    }

    /// A push brings its value into the page cache.
    pub fn begin_push(&mut self) {
        self.is_on_the_way = true;
    }

    /// That push is done.
    pub fn end_push(&mut self) {
        self.is_on_the_way = false;
        self.page.end_store();
    }

    /// True while the page cache may have the value before.
    pub fn is_behind(&self) -> bool {
        self.dirty || self.is_on_the_way
    }

    /// Until when a value with another number of digits has to wait: a program that has just opened the file knows a length.
    /// A file that is polled does not wait, since its pollers are woken at once.
    fn hold(&mut self, is_polled: bool, now: Instant) -> Option<Instant> {
        let length = |reading| line(reading, self.format).map_or(0, |text| text.len());
        let is_another = length(self.shown) != length(self.page.served());
        let is_new = now.saturating_duration_since(self.opened) < LENGTH_HOLD;
        let until = match self.held_until {
            Some(until) if is_another && !is_polled => until,
            None if is_another && is_new && !is_polled && self.handles > 0 => now + LENGTH_HOLD,
            _ => now,
        };
        self.held_until = (now < until).then_some(until);
        self.held_until
    }

    /// The text that its page gets; `None`: it has no value.
    pub fn text(&self) -> Option<Vec<u8>> {
        line(self.shown, self.format).ok()
    }

    /// Its page.
    pub fn page(&mut self) -> &mut Page {
        &mut self.page
    }

    /// What it shows. While the page cache follows the file, every reader gets what the cache has or will have next.
    pub fn shown(&self) -> Shown {
        let reading = if self.followed { self.page.served() } else { self.shown };
        Shown { reading, format: self.format, followed: self.followed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn value(number: u64) -> Reading {
        Reading::Present(number)
    }

    fn file(now: Instant) -> ValueFile {
        let opening =
            Opening { reading: value(9), format: ValueFormat::WHOLE, filter: Filter::default(), rate: None };
        let mut file = ValueFile::new(opening, now);
        assert!(!file.open(value(9), now) && file.follow());
        file
    }

    #[test]
    fn a_longer_value_waits_for_a_program_that_has_just_opened_the_file() {
        let now = Instant::now();
        let mut file = file(now);
        assert!(file.change(value(10), ValueFormat::WHOLE) && file.mark_dirty() && !file.mark_dirty());
        assert_eq!(file.clean(false, now), Need::Delay(now + LENGTH_HOLD));
        assert_eq!(file.shown().reading, value(9));
        assert_eq!(file.clean(false, now + LENGTH_HOLD), Need::Renew(Renewal::Drop));
        assert_eq!(file.shown().reading, value(10));
    }

    #[test]
    fn a_longer_value_does_not_wait_for_a_program_that_polls() {
        let now = Instant::now();
        let mut file = file(now);
        assert!(file.change(value(10), ValueFormat::WHOLE) && file.mark_dirty());
        assert_eq!(file.clean(true, now), Need::Renew(Renewal::Drop));
    }

    #[test]
    fn a_longer_value_that_waits_goes_when_a_program_begins_to_poll() {
        let now = Instant::now();
        let mut file = file(now);
        assert!(file.change(value(10), ValueFormat::WHOLE) && file.mark_dirty());
        assert_eq!(file.clean(false, now), Need::Delay(now + LENGTH_HOLD));
        assert!(file.is_behind());
        assert_eq!(file.clean(true, now), Need::Renew(Renewal::Drop));
        file.begin_push();
        assert!(file.is_behind());
        file.end_push();
        assert!(!file.is_behind());
    }

    #[test]
    fn a_file_that_is_opened_again_and_again_is_followed_until_its_lease_ends() {
        let now = Instant::now();
        let mut once = file(now);
        assert!(once.close(now), "it was opened once");
        let mut again = file(now);
        assert!(again.close(now) && again.stop_following());
        again.open(value(9), now + Duration::from_millis(1));
        assert!(!again.close(now + Duration::from_millis(2)) && again.is_followed());
        assert!(!again.is_expired(now + FILE_LEASE));
        assert!(again.is_expired(now + FILE_LEASE + Duration::from_millis(2)));
    }
}
