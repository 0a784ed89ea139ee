//! Files and who has them open: opening, reading, closing, and what `stat` sees.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use khz_model::{Decimal, Rate, Reading};

use super::control_files::ControlHandle;
use super::pages::Page;
use super::polls::Poller;
use super::{Answer, Tree};
use crate::inode::{Class, Inode, NodeId, PathId};
use crate::limits::{
    ATTRIBUTES_TTL, FILE_LEASE, HANDLES_PER_USER_MAX, LENGTH_HOLD, NAME_TTL, OPENED_TEXT_MAX, PUSHED_MAX,
};
use crate::names::Names;
use crate::settings::Filter;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// User.
    pub user: u32,
    /// Since when he waits; `None`: he has just come.
    pub since: Option<Instant>,
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A value.
    Value,
    /// A text that is made when it is read.
    Text,
    /// A setting, which may be written.
    Control,
    /// A file as a node's kernel printed it.
    KernelText,
    /// A link to another of these.
    Link,
}

/// What `stat` sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The inode.
    pub inode: Inode,
    /// What it is.
    pub kind: Kind,
    /// Its length, where it is known before it is read.
    pub size: u64,
    /// When its row was gathered.
    pub modified: SystemTime,
    /// How long the kernel may keep this.
    pub ttl: Duration,
}

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its handle.
    pub handle: u64,
    /// Reads come from the page cache; else each comes to us.
    pub cached: bool,
    /// What the page cache has is good.
    pub keep: bool,
}

/// What a reader asks for.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// The open file.
    pub handle: u64,
    /// From here on.
    pub offset: u64,
    /// So many bytes at most.
    pub size: usize,
    /// Since when he waits.
    pub began: Instant,
}

/// A value's file that somebody has open, or had a moment ago.
#[derive(Debug)]
pub(super) struct OpenFile {
    handles: usize,
    /// Handles that wait for news.
    pub pollers: Vec<u64>,
    /// What is in it: the last reading that passed the mount's filter.
    pub shown: Reading,
    pub places: u8,
    pub filter: Filter,
    /// The place whose rate it is served at, and the rate.
    pub rate: Option<((NodeId, PathId), Rate)>,
    /// The page cache follows.
    pub pushed: bool,
    /// It waits to be pushed.
    pub soiled: bool,
    /// What the page cache has of it while it is followed.
    pub page: Page,
    opened: Instant,
    /// A value with another number of digits waits until then.
    pub held_until: Option<Instant>,
    closed: Option<Instant>,
}

/// Something open.
#[derive(Debug)]
pub(super) struct Handle {
    pub inode: Inode,
    pub user: u32,
    pub what: What,
    /// Place whose rate it causes.
    pub caused: Option<(NodeId, PathId)>,
    /// When it was opened, until its text is read from the beginning.
    pub unread_since: Option<Instant>,
}

/// The text that who opened a file last reads first. `stat` tells its length until he has closed it or begun again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    handle: u64,
    length: u64,
}

/// What a handle keeps.
#[derive(Debug)]
pub(super) enum What {
    Value(Option<Poller>),
    /// A value whose instance had just gone when its reader began.
    JustGone,
    /// A text, as it was when its reader began.
    Text(Vec<u8>),
    Control(ControlHandle),
    /// The text that its reader is in the middle of.
    KernelText(Option<Arc<[u8]>>),
    /// A kernel file whose readers are served by the page cache.
    CachedText,
    Directory(Vec<super::Entry>),
}

impl OpenFile {
    /// What whoever asks now is told: as long as the page cache follows, what it has or will have next.
    fn answered(&self) -> Reading {
        if self.pushed { self.page.told() } else { self.shown }
    }

    /// Until when a value with another number of digits has to wait: who has just opened the file was told a length, and nobody
    /// was told of news.
    pub fn held(&mut self, now: Instant) -> Option<Instant> {
        let length = |reading| text(reading, self.places).map_or(0, |text| text.len());
        let is_another = length(self.shown) != length(self.page.told());
        let is_new = now.saturating_duration_since(self.opened) < LENGTH_HOLD;
        let until = match self.held_until {
            Some(until) if is_another => until,
            None if is_another && is_new && self.pollers.is_empty() && self.handles > 0 => now + LENGTH_HOLD,
            _ => now,
        };
        self.held_until = (now < until).then_some(until);
        self.held_until
    }
}

impl Tree {
    /// What stands at an inode; `None`: nothing any more.
    pub(super) fn kind(&self, inode: Inode) -> Option<Kind> {
        if !self.names.has(inode.path) || inode.node != NodeId::TREE && self.node(inode.node).is_none() {
            return None;
        }
        let Inode { node, class, path } = inode;
        match class {
            Class::Control => self.has_settings(node, path).then_some(Kind::Directory),
            Class::Rate | Class::Range | Class::Change => {
                self.has_settings(node, path).then_some(Kind::Control)
            }
            Class::Error => Some(Kind::Text),
            Class::Plain if node == NodeId::TREE => match path {
                Names::TOP => Some(Kind::Directory),
                path if path == self.fixed.by || path == self.fixed.mount => Some(Kind::Directory),
                path if path == self.fixed.stats || self.names.parent(path) == self.fixed.by => {
                    Some(Kind::Text)
                }
                _ => None,
            },
            Class::Plain if path == Names::TOP || path == self.fixed.metrics => Some(Kind::Directory),
            Class::Plain if path == self.fixed.status => Some(Kind::Text),
            Class::Plain if self.is_in_proc(inode) => self.proc_kind(node, path),
            Class::Plain => {
                let layout = self.node(node)?.layout.as_ref()?;
                if layout.slot(path).is_some() {
                    return Some(Kind::Value);
                }
                layout.entries(path).map(|_| Kind::Directory)
            }
        }
    }

    /// What `stat` sees of an inode.
    pub fn attributes(&mut self, inode: Inode) -> Option<Attributes> {
        let kind = self.kind(inode)?;
        let mut seen = Attributes { inode, kind, size: 0, modified: UNIX_EPOCH, ttl: NAME_TTL };
        if kind == Kind::Value {
            let (value, has_just_gone) = (self.value(inode), self.has_just_gone(inode));
            let file = self.files.get_mut(&inode);
            let file = file.map(|file| {
                file.page.touch();
                &*file
            });
            let shown = file.map(|file| (file.answered(), file.places));
            let shown = shown.or(value.map(|(reading, _, places)| (reading, places)));
            // Of an empty file the kernel would not ask what is in it, and nobody would hear why there is no number.
            let length = |(reading, places)| text(reading, places).map_or(1, |text| text.len() as u64);
            // Who had it open before hears that it is gone; for who opens it now it is empty.
            seen.size = if has_just_gone && file.is_none() { 0 } else { shown.map_or(0, length) };
            seen.modified =
                value.map_or(UNIX_EPOCH, |(_, stamp, _)| UNIX_EPOCH + Duration::from(stamp.real()));
            seen.ttl = if file.is_some_and(|file| file.pushed) { ATTRIBUTES_TTL } else { Duration::ZERO };
        }
        if matches!(kind, Kind::KernelText | Kind::Link) {
            self.proc_attributes(&mut seen);
        }
        if let Some(length) = self.made_length(inode, kind) {
            // Archivers and sendfile(2) read so much and no more.
            (seen.size, seen.ttl) = (length as u64, Duration::ZERO);
        }
        if let Some(begun) = self.begun.get(&inode) {
            seen.size = begun.length;
        }
        Some(seen)
    }

    /// Opens a file for reading; a setting also for writing. `late`: its first value has not come in time.
    pub fn open(
        &mut self,
        inode: Inode,
        writes: bool,
        asker: Asker,
        now: Instant,
        late: bool,
    ) -> Answer<Opened> {
        let Some(kind) = self.kind(inode) else { return Answer::Fail(libc::ENOENT) };
        if writes && kind != Kind::Control {
            return Answer::Fail(if kind == Kind::Directory { libc::EISDIR } else { libc::EACCES });
        }
        if self.users.get(&asker.user).is_some_and(|user| user.handles >= HANDLES_PER_USER_MAX) {
            self.counts.too_many_handles += 1;
            return Answer::Fail(libc::ENFILE);
        }
        match kind {
            Kind::Directory => Answer::Fail(libc::EISDIR),
            Kind::Value => self.open_value(inode, asker, now, late),
            Kind::KernelText => self.open_kernel_text(inode, asker, now, late),
            // The kernel follows links itself.
            Kind::Link => Answer::Fail(libc::ELOOP),
            Kind::Control => self.open_control(inode, asker, now),
            Kind::Text => match self.text(inode, now, late) {
                Answer::Ready(mut text) => {
                    self.hold_text(inode);
                    let opened = self.opened(inode, asker, What::Text(Vec::new()));
                    if inode == self.stats_inode() {
                        // Who reads the numbers is one of them.
                        text = self.stats_text();
                    }
                    let length = text.len();
                    if let Some(Handle { what, .. }) = self.handles.get_mut(&opened.handle) {
                        *what = What::Text(text);
                    }
                    self.begin_text(&opened, inode, length, now);
                    Answer::Ready(opened)
                }
                Answer::Wait => Answer::Wait,
                Answer::Fail(errno) => Answer::Fail(errno),
            },
        }
    }

    fn open_value(&mut self, inode: Inode, asker: Asker, now: Instant, late: bool) -> Answer<Opened> {
        self.want_node(inode.node, now);
        if self.is_cut_off(inode.node) {
            return Answer::Fail(libc::EIO);
        }
        // What was there when somebody last looked is no value of now. Who has waited for one in vain gets it all the same.
        let is_current = self.is_current(inode.node, now);
        let is_believed = is_current || late && !self.options.strict;
        let kept = self.kept(inode).map(|(value, places)| (value.reading, places));
        let Some((reading, places)) = kept.filter(|_| is_believed) else {
            return if late { Answer::Fail(libc::ETIMEDOUT) } else { Answer::Wait };
        };
        if !is_current {
            self.timed_out();
        }
        if self.has_just_gone(inode) {
            return Answer::Ready(self.opened(inode, asker, What::JustGone));
        }
        if let Err(errno) = present(reading) {
            return Answer::Fail(errno);
        }
        let (cached, keep) = self.hold(inode, reading, places, now);
        let opened = self.opened(inode, asker, What::Value(None));
        self.charge(opened.handle, inode);
        Answer::Ready(Opened { cached, keep, ..opened })
    }

    /// Notes that a value's file is open; tells whether the page cache is used, and whether what it has is good.
    fn hold(&mut self, inode: Inode, reading: Reading, places: u8, now: Instant) -> (bool, bool) {
        if !self.files.contains_key(&inode) {
            if self.files.len() >= PUSHED_MAX {
                return (false, false);
            }
            let all = self.places(inode);
            let file = OpenFile {
                handles: 0,
                pollers: Vec::new(),
                shown: reading,
                places,
                filter: self.settings.filter(&all, None),
                rate: self.settings.rate(&all),
                pushed: false,
                soiled: false,
                page: Page::new(reading),
                opened: now,
                held_until: None,
                closed: None,
            };
            self.files.insert(inode, file);
        }
        let Some(file) = self.files.get_mut(&inode) else { return (false, false) };
        let was_pushed = file.pushed;
        file.opened = now;
        let again = file.closed.is_some_and(|closed| now.saturating_duration_since(closed) < FILE_LEASE);
        file.handles += 1;
        let is_behind = !was_pushed && {
            file.shown = reading;
            !file.page.begin(reading)
        };
        // Who opens it only once is served by one read: following it for him would cost more.
        file.pushed = true;
        if file.handles == 1 && !again {
            file.closed = None;
        }
        let has_rate = file.rate.is_some();
        if is_behind {
            self.soil(inode);
        }
        self.watch(inode, true);
        self.wishes.stale |= has_rate && !was_pushed;
        (true, was_pushed)
    }

    /// Marks a value so that its rows are looked at.
    fn watch(&mut self, inode: Inode, watched: bool) {
        let Some(node) = self.node_mut(inode.node) else { return };
        let slot = node.layout.as_ref().and_then(|layout| layout.slot(inode.path));
        if let Some(value) = slot.and_then(|slot| node.values.get_mut(slot as usize)) {
            value.watched = watched;
        }
    }

    /// Charges a rate above the base lane to the user whose file causes it; beyond his budget he gets the base rate.
    fn charge(&mut self, handle: u64, inode: Inode) {
        let Some((place, _)) = self.files.get(&inode).and_then(|file| file.rate) else { return };
        if !self.charge_place(handle, inode, place)
            && let Some(file) = self.files.get_mut(&inode).filter(|file| file.handles == 1)
        {
            file.rate = None;
        }
    }

    /// Charges a place to the user of a handle; `false`: he has used up his budget.
    pub(super) fn charge_place(&mut self, handle: u64, inode: Inode, place: (NodeId, PathId)) -> bool {
        let place = if place.0 == NodeId::TREE { (inode.node, Names::TOP) } else { place };
        let Some(user) = self.handles.get(&handle).map(|handle| handle.user) else { return true };
        let places = &mut self.users.entry(user).or_default().places;
        if !places.contains_key(&place) && places.len() >= self.options.budget {
            self.counts.over_budget += 1;
            return false;
        }
        *places.entry(place).or_default() += 1;
        if let Some(handle) = self.handles.get_mut(&handle) {
            handle.caused = Some(place);
        }
        true
    }

    pub(super) fn opened(&mut self, inode: Inode, asker: Asker, what: What) -> Opened {
        self.handles_made += 1;
        let handle = self.handles_made;
        self.counts.opens += 1;
        self.handles
            .insert(handle, Handle { inode, user: asker.user, what, caused: None, unread_since: None });
        self.users.entry(asker.user).or_default().handles += 1;
        let wants_rows = !self.is_in_proc(inode);
        let is_new = self.node_mut(inode.node).filter(|_| wants_rows).is_some_and(|node| {
            node.handles += 1;
            node.handles == 1 && node.leased_until.is_none()
        });
        self.wishes.stale |= is_new;
        Opened { handle, cached: false, keep: false }
    }

    /// A text was opened, and its reader has one of this length to read.
    pub(super) fn begin_text(&mut self, opened: &Opened, inode: Inode, length: usize, now: Instant) {
        if let Some(handle) = self.handles.get_mut(&opened.handle) {
            handle.unread_since = Some(now);
        }
        self.begun.insert(inode, Begun { handle: opened.handle, length: length as u64 });
    }

    /// A reader is at the beginning of a text. True when that is the one that he has opened; if not, he wants the one of now.
    fn reads_what_he_opened(&mut self, handle: u64, now: Instant) -> bool {
        let Some(open) = self.handles.get_mut(&handle) else { return false };
        let inode = open.inode;
        let since = open.unread_since.take();
        // Who opens it later may have seen a newer one: nobody sees an older one after that.
        let is_last = self.begun.get(&inode).is_some_and(|begun| begun.handle == handle);
        let is_new = since.is_some_and(|since| now.saturating_duration_since(since) <= OPENED_TEXT_MAX);
        let is_it = is_last && is_new;
        if !is_it {
            self.forget_begun(inode, handle);
        }
        is_it
    }

    fn forget_begun(&mut self, inode: Inode, handle: u64) {
        if self.begun.get(&inode).is_some_and(|begun| begun.handle == handle) {
            self.begun.remove(&inode);
        }
    }

    /// What a file holds from an offset on. Only who begins to read a kernel file may have to wait; `late`: he has waited long
    /// enough.
    pub fn read(&mut self, read: Read, now: Instant, late: bool) -> Answer<Vec<u8>> {
        let Read { handle, offset, size, .. } = read;
        let is_first = offset == 0 && self.reads_what_he_opened(handle, now);
        let Some(Handle { inode, what, .. }) = self.handles.get(&handle) else {
            return Answer::Fail(libc::EBADF);
        };
        let inode = *inode;
        let bytes = match what {
            What::Directory(_) => return Answer::Fail(libc::EISDIR),
            What::KernelText(_) | What::CachedText => {
                return self.read_kernel_text(read, is_first, now, late);
            }
            What::Value(_) => {
                if self.is_cut_off(inode.node) {
                    return Answer::Fail(libc::EIO);
                }
                let file = self.files.get_mut(&inode).map(|file| {
                    file.page.read(now);
                    (file.answered(), file.places)
                });
                let shown = file.or_else(|| self.value(inode).map(|(reading, _, places)| (reading, places)));
                match shown.map_or(Err(libc::ENODATA), |(reading, places)| text(reading, places)) {
                    Ok(text) => text,
                    Err(errno) => return Answer::Fail(errno),
                }
            }
            // It may be back, or gone for long.
            What::JustGone => match self.value(inode).map(|(reading, _, places)| text(reading, places)) {
                Some(Ok(text)) => text,
                _ if self.has_just_gone(inode) => Vec::new(),
                Some(Err(errno)) => return Answer::Fail(errno),
                None => return Answer::Fail(libc::ENODATA),
            },
            // From the beginning again: a text of now.
            What::Text(_) if offset == 0 && !is_first => match self.text(inode, now, true) {
                Answer::Ready(text) => {
                    if let Some(Handle { what, .. }) = self.handles.get_mut(&handle) {
                        *what = What::Text(text.clone());
                    }
                    text
                }
                other => return other,
            },
            What::Text(text) => text.clone(),
            What::Control(control) => self.setting_text(inode, control.process),
        };
        Answer::Ready(piece(&bytes, offset, size))
    }

    /// The last descriptor of a handle is closed.
    pub fn release(&mut self, handle: u64, now: Instant) {
        let Some(Handle { inode, user, what, caused, .. }) = self.handles.remove(&handle) else { return };
        let wants_rows = !self.is_in_proc(inode);
        if let Some(node) = self.node_mut(inode.node).filter(|_| wants_rows) {
            node.handles -= 1;
            // Whoever comes again soon finds it up to date.
            node.leased_until = Some(now + crate::limits::LEASE);
        }
        self.discharge(user, caused);
        self.forget_begun(inode, handle);
        match what {
            What::Value(_) => self.let_go(inode, handle, now),
            What::Control(control) => self.close_control(inode, handle, user, &control, now),
            What::KernelText(reading) => self.close_kernel_text(inode, user, reading, now),
            What::CachedText => self.close_kernel_text(inode, user, None, now),
            What::Text(_) => self.let_text_go(inode, now),
            What::Directory(_) | What::JustGone => {}
        }
    }

    fn discharge(&mut self, user: u32, caused: Option<(NodeId, PathId)>) {
        let Some(known) = self.users.get_mut(&user) else { return };
        known.handles -= 1;
        if let Some(place) = caused
            && let Some(count) = known.places.get_mut(&place)
        {
            *count -= 1;
            if *count == 0 {
                known.places.remove(&place);
            }
        }
        if known.handles == 0 {
            self.users.remove(&user);
        }
    }

    fn let_go(&mut self, inode: Inode, handle: u64, now: Instant) {
        let Some(file) = self.files.get_mut(&inode) else { return };
        file.handles -= 1;
        file.pollers.retain(|&known| known != handle);
        if file.handles > 0 {
            return;
        }
        let was_closed_before = file.closed.replace(now).is_some();
        if !was_closed_before {
            self.stop_pushing(inode);
        }
    }

    /// The page cache of a file does not follow any more: the kernel is to ask for its size again.
    fn stop_pushing(&mut self, inode: Inode) {
        let Some(file) = self.files.get_mut(&inode) else { return };
        if std::mem::take(&mut file.pushed) {
            self.work.forget.push(inode);
            self.watch(inode, false);
            self.wishes.stale |= self.files.get(&inode).is_some_and(|file| file.rate.is_some());
        }
    }

    /// Files that were closed long enough ago are forgotten.
    pub(super) fn forget_files(&mut self, now: Instant) {
        let old = |file: &OpenFile| {
            file.handles == 0
                && !file.page.is_under_way()
                && file.closed.is_none_or(|closed| now.saturating_duration_since(closed) >= FILE_LEASE)
        };
        let gone: Vec<Inode> =
            self.files.iter().filter(|(_, file)| old(file)).map(|(&inode, _)| inode).collect();
        for inode in gone {
            self.stop_pushing(inode);
            self.files.remove(&inode);
        }
    }

    /// With `strict`: nothing of a node is believed while it, or the hub, is away.
    pub(super) fn is_cut_off(&self, node: NodeId) -> bool {
        let is_down = || self.node(node).is_some_and(|node| node.status.is_some() && !self.is_up(node));
        self.options.strict && (!self.hub.up || is_down())
    }
}

/// What a read of so many bytes gets of a text.
pub(super) fn piece(text: &[u8], offset: u64, size: usize) -> Vec<u8> {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    text[from..from.saturating_add(size).min(text.len())].to_vec()
}

/// A value's line, or the errno that says why there is none.
pub(super) fn text(reading: Reading, places: u8) -> Result<Vec<u8>, i32> {
    present(reading).map(|value| format!("{}\n", Decimal::new(value, places)).into_bytes())
}

/// A reading's value, or the errno: unknown is never a number.
fn present(reading: Reading) -> Result<u64, i32> {
    match reading {
        Reading::Present(value) => Ok(value),
        Reading::Absent(_) => Err(libc::ENODATA),
        Reading::Failed(_) => Err(libc::EIO),
    }
}
