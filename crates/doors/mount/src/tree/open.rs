//! What programs do with files: `stat`, open, read, write, poll, close. Each goes to the part that owns the file.

use std::time::{Duration, Instant, UNIX_EPOCH};

use khz_model::Reading;

use super::Tree;
use crate::answer::Answer;
use crate::controls::Target;
use crate::file::{Attributes, Caller, Kind, Opened, Read, Readiness, errno, line};
use crate::inode::{Class, Inode, NodeId};
use crate::kernel_files::{OpenedText, Reader};
use crate::limits::{ATTRIBUTES_TTL, NAME_TTL};
use crate::open_files::handles::{Content, Handle};
use crate::open_files::polls::First;
use crate::open_files::value_file::Opening;
use crate::paths::Area;

impl Tree {
    /// What `stat` sees of an inode.
    pub fn attributes(&mut self, inode: Inode, now: Instant) -> Option<Attributes> {
        let kind = self.kind(inode)?;
        let mut seen = Attributes { inode, kind, size: 0, modified: UNIX_EPOCH, ttl: NAME_TTL };
        match kind {
            Kind::Directory => {}
            Kind::Value if inode.class == Class::Channel => self.channel_value_attributes(&mut seen),
            Kind::Value => self.value_attributes(&mut seen, now),
            Kind::KernelText | Kind::Link => self.kernel_files.attributes(&mut seen),
            Kind::Text | Kind::Control => {
                if let Some(text) = self.known_text(inode, kind) {
                    // Archivers and sendfile(2) read only as far as this.
                    (seen.size, seen.ttl) = (text.len() as u64, Duration::ZERO);
                }
            }
        }
        seen.size = self.first_reads.length(inode).unwrap_or(seen.size);
        Some(seen)
    }

    fn value_attributes(&mut self, seen: &mut Attributes, now: Instant) {
        let values = self.cluster.values();
        let file = self.value_files.stat(seen.inode);
        let shown = file.map(|file| (file.reading, file.format)).or_else(|| values.reading(seen.inode));
        if file.is_none()
            && let Some((reading @ Reading::Present(_), _)) = shown
        {
            self.told_values.tell(seen.inode, reading, now);
        }
        // Of an empty file the kernel would not ask what is in it, and nobody would learn why there is no number.
        let length = |(reading, format)| line(reading, format).map_or(1, |text| text.len() as u64);
        // A program that had the file open before gets an error when the instance is gone; a new reader finds the file empty, or the
        // value whose length it knows.
        let just_gone = if file.is_none() { self.just_gone(seen.inode, now) } else { None };
        seen.size = just_gone.map_or_else(|| shown.map_or(0, length), |text| text.len() as u64);
        let gathered = values.gathered(seen.inode);
        seen.modified = gathered.map_or(UNIX_EPOCH, |stamp| UNIX_EPOCH + Duration::from(stamp.real()));
        let is_followed = file.is_some_and(|file| file.followed);
        seen.ttl = if is_followed { ATTRIBUTES_TTL } else { Duration::ZERO };
    }

    /// What the file of an instance that has just gone holds: the value whose length a program was told a moment ago, or nothing. If
    /// others have the file open, they know that it is gone. `None`: it has not just gone.
    fn just_gone(&self, inode: Inode, now: Instant) -> Option<Vec<u8>> {
        let values = self.cluster.values();
        let (_, format) = values.reading(inode).filter(|_| values.has_just_gone(inode))?;
        let told = self.told_values.last(inode, now).filter(|_| !self.value_files.has(inode));
        Some(told.and_then(|reading| line(reading, format).ok()).unwrap_or_default())
    }

    /// A text that is made when it is read, if it can be made without asking a node. A table cannot, so its length is not
    /// known before it is read.
    fn known_text(&self, inode: Inode, kind: Kind) -> Option<Vec<u8>> {
        if kind == Kind::Control {
            return Some(self.controls.text(inode, None));
        }
        match (inode.class, self.area(inode)?) {
            (Class::Channel, _) if self.is_definition(inode) => self.channels.definition(inode),
            (Class::Error, _) => Some(self.controls.error().as_bytes().to_vec()),
            (_, Area::Status) => self.status_text(inode.node, Instant::now()),
            (_, Area::Stats) => Some(self.stats_text()),
            _ => None,
        }
    }

    /// What a link means.
    pub fn link_target(&self, inode: Inode) -> Option<&str> {
        self.kernel_files.link_target(inode)
    }

    /// True for a kernel file that has a text: an open of it waits only for a fresher one.
    pub fn has_kernel_text(&self, inode: Inode) -> bool {
        self.kernel_files.has_text(inode)
    }

    /// Opens a file for reading; a setting also for writing. `is_late`: its first value has not come in time.
    pub fn open(
        &mut self,
        inode: Inode,
        writes: bool,
        caller: Caller,
        now: Instant,
        is_late: bool,
    ) -> Answer<Opened> {
        let Some(kind) = self.kind(inode) else { return Answer::Fail(libc::ENOENT) };
        if writes && kind != Kind::Control {
            return Answer::Fail(if kind == Kind::Directory { libc::EISDIR } else { libc::EACCES });
        }
        if let Err(errno) = self.handles.admit(caller.user) {
            return Answer::Fail(errno);
        }
        match kind {
            Kind::Directory => Answer::Fail(libc::EISDIR),
            // The kernel follows links itself.
            Kind::Link => Answer::Fail(libc::ELOOP),
            Kind::Value | Kind::Text if inode.class == Class::Channel && !self.is_definition(inode) => {
                self.open_in_channel(inode, caller, now)
            }
            Kind::Value => self.open_value(inode, caller, now, is_late),
            Kind::KernelText => self.open_kernel_text(inode, caller, now, is_late),
            Kind::Control => Answer::Ready(self.open_control(inode, caller, now)),
            Kind::Text => self.text(inode, now, is_late).map(|text| self.open_text(inode, caller, text, now)),
        }
    }

    /// Makes a handle. A node's rows are subscribed to while anything of it but kernel files is open.
    pub(super) fn open_handle(&mut self, inode: Inode, user: u32, content: Content) -> u64 {
        if has_lease(self.area(inode)) {
            self.cluster.open(inode.node, &mut self.effects);
        }
        self.handles.open(inode, user, content)
    }

    fn open_value(&mut self, inode: Inode, caller: Caller, now: Instant, is_late: bool) -> Answer<Opened> {
        self.cluster.want(inode.node, now, &mut self.effects);
        if self.cluster.roster().is_unreachable(inode.node) {
            return Answer::Fail(libc::EIO);
        }
        // A stale value is shown only when the wait for a current one timed out.
        let is_current = self.cluster.is_current(inode.node, now, &mut self.effects);
        let is_believed = is_current || is_late && !self.options.strict;
        let known = self.cluster.values().reading(inode).filter(|_| is_believed);
        let Some((reading, format)) = known else { return Answer::missing(is_late) };
        if !is_current {
            self.timed_out();
        }
        if let Some(text) = self.just_gone(inode, now) {
            let handle = self.open_handle(inode, caller.user, Content::JustGone(text));
            return Answer::Ready(Opened::uncached(handle));
        }
        if let Err(why) = format.value_or_why(reading) {
            return Answer::Fail(errno(why));
        }
        let settings = self.names.places(inode);
        let (filter, rate) = (self.controls.filter(&settings, None), self.controls.rate(&settings));
        let opening = Opening { reading, format, filter, rate };
        let followed = self.value_files.open(inode, opening, now, &mut self.effects);
        if followed.is_some() {
            self.cluster.watch(inode, true);
        }
        let handle = self.open_handle(inode, caller.user, Content::Value);
        if let Some(place) = self.value_files.rate_place(inode)
            && !self.handles.charge(handle, place)
        {
            self.value_files.refuse_rate(inode);
        }
        let (cached, keep) = (followed.is_some(), followed == Some(true));
        Answer::Ready(Opened { cached, keep, ..Opened::uncached(handle) })
    }

    fn open_kernel_text(
        &mut self,
        inode: Inode,
        caller: Caller,
        now: Instant,
        is_late: bool,
    ) -> Answer<Opened> {
        let (files, mut around) = self.kernel_files(now);
        let answer = files.may_open(inode, caller, is_late, &mut around);
        let is_cached = files.may_be_cached(inode);
        answer.map(|()| {
            let content = if is_cached { Content::CachedText } else { Content::KernelText };
            let handle = self.open_handle(inode, caller.user, content);
            let opened = self.kernel_files.open(handle, inode, caller.user, is_cached);
            if let Some((place, _)) = self.controls.rate(&self.names.places(inode)) {
                self.kernel_files.charged(inode, self.handles.charge(handle, place));
            }
            let (files, mut around) = self.kernel_files(now);
            files.renew_period(inode, &mut around);
            match opened {
                OpenedText::Cached { keep } => Opened { cached: true, keep, ..Opened::uncached(handle) },
                OpenedText::Begun(length) => {
                    self.first_reads.open(handle, inode, length, now);
                    Opened::uncached(handle)
                }
                OpenedText::Nothing => Opened::uncached(handle),
            }
        })
    }

    fn open_control(&mut self, inode: Inode, caller: Caller, now: Instant) -> Opened {
        if inode.node != NodeId::TREE && self.area(inode) != Some(Area::Proc) {
            self.cluster.want(inode.node, now, &mut self.effects);
        }
        let handle = self.open_handle(inode, caller.user, Content::Control);
        self.controls.open(handle);
        Opened::uncached(handle)
    }

    fn open_text(&mut self, inode: Inode, caller: Caller, mut text: Vec<u8>, now: Instant) -> Opened {
        match self.area(inode) {
            Some(Area::Table) => self.cluster.open_table(self.names.name(inode.path)),
            Some(Area::Status) => self.cluster.open_status(),
            _ => {}
        }
        let handle = self.open_handle(inode, caller.user, Content::Text(Vec::new()));
        if inode == Inode::plain(NodeId::TREE, self.paths.stats) {
            // This open counts too.
            text = self.stats_text();
        }
        self.first_reads.open(handle, inode, text.len(), now);
        self.handles.set_text(handle, text);
        Opened::uncached(handle)
    }

    /// The text of a file that is made when it is read.
    fn text(&mut self, inode: Inode, now: Instant, is_late: bool) -> Answer<Vec<u8>> {
        match (inode.class, self.area(inode)) {
            (Class::Plain, Some(Area::Table)) => {
                let metric = self.names.name(inode.path);
                self.cluster.table(metric, now, is_late, &mut self.effects)
            }
            (Class::Channel, _) => self.definition(inode, now, is_late),
            (Class::Plain, Some(Area::Status)) => {
                self.cluster.want_roster(now, &mut self.effects);
                let is_settled = is_late || self.cluster.roster().is_settled();
                let text = self.status_text(inode.node, now).filter(|_| is_settled);
                text.map_or(Answer::missing(is_late), Answer::Ready)
            }
            _ => Answer::or_fail(self.known_text(inode, Kind::Text), libc::ENOENT),
        }
    }

    /// What a file holds. Only the first read of a kernel file may have to wait; `is_late`: it has waited long enough.
    pub fn read(&mut self, read: Read, now: Instant, is_late: bool) -> Answer<Vec<u8>> {
        let Some(open) = self.handles.get(read.handle) else { return Answer::Fail(libc::EBADF) };
        let (inode, user) = (open.inode, open.user);
        let is_first = read.offset == 0 && self.first_reads.is_first(read.handle, inode, now);
        match &open.content {
            Content::Directory(_) => Answer::Fail(libc::EISDIR),
            Content::Value => self.read_value(&read, inode, now),
            Content::JustGone(text) => self.read_just_gone(&read, inode, text),
            Content::ChannelRows => self.read_channel_rows(&read, inode),
            Content::ChannelValue => self.read_channel_value(&read, inode),
            Content::KernelText => {
                let (files, mut around) = self.kernel_files(now);
                files.read(&read, Reader { inode, user }, is_first, is_late, &mut around)
            }
            Content::CachedText => {
                let (files, around) = self.kernel_files(now);
                files.read_cached(&read, inode, &around)
            }
            // From the start again: the text is made again.
            Content::Text(_) if read.offset == 0 && !is_first => self.text(inode, now, true).map(|text| {
                let part = read.part(&text);
                self.handles.set_text(read.handle, text);
                part
            }),
            Content::Text(text) => Answer::Ready(read.part(text)),
            Content::Control => Answer::Ready(read.part(&self.controls.text(inode, Some(read.handle)))),
        }
    }

    fn read_value(&mut self, read: &Read, inode: Inode, now: Instant) -> Answer<Vec<u8>> {
        if self.cluster.roster().is_unreachable(inode.node) {
            return Answer::Fail(libc::EIO);
        }
        let file = self.value_files.read(inode, now).map(|file| (file.reading, file.format));
        let shown = file.or_else(|| self.cluster.values().reading(inode));
        match shown.map_or(Err(libc::ENODATA), |(reading, format)| line(reading, format)) {
            Ok(text) => Answer::Ready(read.part(&text)),
            Err(errno) => Answer::Fail(errno),
        }
    }

    /// The instance of a file had just gone when the file was opened. It may be back now, or gone for long.
    fn read_just_gone(&self, read: &Read, inode: Inode, text: &[u8]) -> Answer<Vec<u8>> {
        let values = self.cluster.values();
        if values.has_just_gone(inode) {
            return Answer::Ready(read.part(text));
        }
        match values.reading(inode).map_or(Err(libc::ENODATA), |(reading, format)| line(reading, format)) {
            Ok(text) => Answer::Ready(read.part(&text)),
            Err(errno) => Answer::Fail(errno),
        }
    }

    /// Takes a line that a process writes to a control file. Returns its length.
    pub fn write(&mut self, handle: u64, bytes: &[u8], process: u32, now: Instant) -> Answer<usize> {
        let Some(&Handle { inode, user, content: Content::Control, .. }) = self.handles.get(handle) else {
            return Answer::Fail(libc::EBADF);
        };
        let (names, roster) = (&self.names, self.cluster.roster());
        let path = || control_path(names, roster.name(inode.node).map(|name| name.as_str()), inode);
        self.controls.write(&Target { handle, inode, user, path: &path }, bytes, process, now)
    }

    /// Whether there is news for a handle that a process polls. If there is none, the next news wakes `sleeper`, once.
    pub fn poll(&mut self, handle: u64, process: u32, sleeper: Option<u64>) -> Answer<Readiness> {
        let Some(open) = self.handles.get(handle) else { return Answer::Fail(libc::EBADF) };
        let inode = open.inode;
        match open.content {
            Content::Value => {}
            Content::ChannelRows | Content::ChannelValue => {
                return Answer::Ready(self.poll_in_channel(handle, inode, process, sleeper));
            }
            // A text, a setting or an empty file can always be read.
            _ => return Answer::Ready(Readiness::News),
        }
        let readiness = |has_news| if has_news { Readiness::News } else { Readiness::Nothing };
        if let Some(has_news) = self.polls.poll(handle, sleeper) {
            return Answer::Ready(readiness(has_news));
        }
        let places = self.names.places(inode);
        self.controls.serve(&places, process);
        let filter = self.controls.filter(&places, Some(process));
        let is_coming = self.value_files.hasten(inode);
        let reading = self.cluster.values().reading(inode);
        self.polls.begin(First { handle, inode, process, filter, reading, is_coming }, &mut self.effects);
        Answer::or_fail(self.polls.poll(handle, sleeper).map(readiness), libc::EBADF)
    }

    /// The last descriptor of a handle is closed.
    pub fn release(&mut self, handle: u64, now: Instant) {
        let Some(Handle { inode, user, content, .. }) = self.handles.close(handle) else { return };
        if has_lease(self.area(inode)) {
            self.cluster.close(inode.node, now);
        }
        self.first_reads.close(handle, inode);
        match content {
            Content::Directory(_) | Content::JustGone(_) => {}
            Content::ChannelRows | Content::ChannelValue => self.close_in_channel(handle, inode, user, now),
            Content::Value => self.close_value(handle, inode, now),
            Content::Text(_) => self.close_text(inode, now),
            Content::KernelText | Content::CachedText => {
                let (files, mut around) = self.kernel_files(now);
                files.close(handle, inode, &mut around);
            }
            Content::Control => {
                let (names, roster) = (&self.names, self.cluster.roster());
                let path = || control_path(names, roster.name(inode.node).map(|name| name.as_str()), inode);
                self.controls.close(&Target { handle, inode, user, path: &path }, now);
            }
        }
    }

    fn close_value(&mut self, handle: u64, inode: Inode, now: Instant) {
        self.polls.close(handle, inode);
        if self.value_files.close(inode, now, &mut self.effects) {
            self.cluster.watch(inode, false);
        }
    }

    fn close_text(&mut self, inode: Inode, now: Instant) {
        match self.area(inode) {
            Some(Area::Table) => {
                self.cluster.close_table(self.names.name(inode.path), now, &mut self.effects);
            }
            Some(Area::Status) => self.cluster.close_status(now, &mut self.effects),
            _ => {}
        }
    }
}

/// True where an open file keeps its node's rows subscribed.
fn has_lease(area: Option<Area>) -> bool {
    !matches!(area, Some(Area::Proc | Area::Channel))
}

/// The path of a control file: `node7/.control/metrics/mem/free/rate`.
fn control_path(names: &crate::names::Names, node: Option<&str>, inode: Inode) -> String {
    let file = match inode.class {
        Class::Range => "range",
        Class::Change => "change",
        _ => "rate",
    };
    let path = names.text(inode.path);
    let parts = [node.unwrap_or_default(), ".control", &path, file];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}
