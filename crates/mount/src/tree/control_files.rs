//! Files below `.control`: what stands in them, and what a line that is written to one brings about. A line holds for
//! the whole mount when its file is closed at once by root or by who has mounted it, and for the process alone while it
//! keeps the file open.

use std::sync::Arc;
use std::time::Instant;

use khz_model::Rate;
use khz_trust::{Door, Role, Way, standing};

use super::files::{Asker, Kind, Opened, What};
use super::{Answer, Tree};
use crate::control;
use crate::inode::{Class, Inode, NodeId, PathId};
use crate::limits::{AT_ONCE, CONTROL_BYTES_MAX};
use crate::names::Names;
use crate::settings::{Owner, Setting};

/// An open control file.
#[derive(Debug)]
pub(super) struct ControlHandle {
    /// Who reads it: he is shown what he has set himself.
    pub process: Option<u32>,
    written: Option<Instant>,
    /// The last line took the setting back.
    cleared: bool,
    /// Its process has slept with it until a value came: it was never meant for others.
    has_served: bool,
}

impl Tree {
    /// True for places that may have settings: the mount, a node, a metric, and directories of metrics.
    pub(super) fn has_settings(&self, node: NodeId, path: PathId) -> bool {
        if path == Names::TOP {
            return true;
        }
        if self.is_in_proc(Inode::plain(node, path)) {
            return matches!(self.proc_kind(node, path), Some(Kind::Directory | Kind::KernelText));
        }
        let layout = self.node(node).and_then(|node| node.layout.as_ref());
        let is_known = |layout: &Arc<crate::layout::Layout>| {
            layout.slot(path).is_some() || layout.entries(path).is_some()
        };
        node != NodeId::TREE && (path == self.fixed.metrics || layout.is_some_and(is_known))
    }

    /// True where values themselves are filtered: at the file of one.
    pub(super) fn has_filter(&self, node: NodeId, path: PathId) -> bool {
        self.node(node)
            .and_then(|node| node.layout.as_ref())
            .is_some_and(|layout| layout.slot(path).is_some())
    }

    pub(super) fn open_control(&mut self, inode: Inode, asker: Asker, now: Instant) -> Answer<Opened> {
        if inode.node != NodeId::TREE && !self.is_in_proc(inode) {
            self.want_node(inode.node, now);
        }
        let control = ControlHandle { process: None, written: None, cleared: false, has_served: false };
        Answer::Ready(self.opened(inode, asker, What::Control(control)))
    }

    /// The setting that stands at a control file.
    pub(super) fn setting_text(&self, inode: Inode, process: Option<u32>) -> Vec<u8> {
        let place = (inode.node, inode.path);
        let setting = self.settings.at(place, inode.class, process);
        let none = if inode.class == Class::Rate { "default" } else { "off" };
        let text = setting.map_or_else(|| none.to_owned(), Setting::text);
        let text = text.strip_prefix("every ").unwrap_or(&text);
        format!("{text}\n").into_bytes()
    }

    /// Takes a line. `process` is who writes. `Ready`: so many bytes.
    pub fn write(&mut self, handle: u64, bytes: &[u8], process: u32, now: Instant) -> Answer<usize> {
        let Some(open) = self.handles.get(&handle) else { return Answer::Fail(libc::EBADF) };
        let (inode, user) = (open.inode, open.user);
        if !matches!(open.what, What::Control(_)) {
            return Answer::Fail(libc::EBADF);
        }
        let setting = match self.line(inode, bytes, user) {
            Ok(setting) => setting,
            Err((errno, problem)) => return self.refuse(inode, errno, &problem),
        };
        let cleared = setting.is_none();
        let owner = Owner::Held { handle, process };
        if self.settings.set((inode.node, inode.path), owner, inode.class, setting).is_err() {
            return self.refuse(
                inode,
                libc::ENOSPC,
                "too many places have settings: take some back with `default`",
            );
        }
        if let Some(What::Control(control)) = self.handles.get_mut(&handle).map(|open| &mut open.what) {
            control.written = Some(now);
            control.process = Some(process);
            control.cleared = cleared;
            control.has_served = false;
        }
        Answer::Ready(bytes.len())
    }

    /// True for users whose lines may hold for everybody.
    fn is_master(&self, user: u32) -> bool {
        let way = match user {
            0 => Way::LocalRoot,
            user if user == self.owner => Way::LocalOwn,
            _ => Way::LocalOther,
        };
        standing(Door::Mount, way, None).may_be(Role::Operator)
    }

    /// The fastest rate that a user may ask for, and as what.
    fn ceiling(&self, user: u32) -> (Rate, &str) {
        match &self.options.ceiling {
            (ceiling, role) if self.is_master(user) => (*ceiling, role),
            _ => (self.options.others, "a user who has not mounted it"),
        }
    }

    /// What a line means at an inode.
    fn line(&self, inode: Inode, bytes: &[u8], user: u32) -> Result<Option<Setting>, (i32, String)> {
        let wrong = |problem| (libc::EINVAL, problem);
        if bytes.len() > CONTROL_BYTES_MAX {
            return Err(wrong(format!(
                "a line has at most {CONTROL_BYTES_MAX} bytes, this one {}",
                bytes.len()
            )));
        }
        Ok(match inode.class {
            Class::Range => {
                control::range(bytes).map_err(wrong)?.map(|range| Setting::Range(Arc::new(range)))
            }
            Class::Change => {
                control::change(bytes).map_err(wrong)?.map(|change| Setting::Change(Arc::new(change)))
            }
            _ => {
                let rate = control::rate(bytes).map_err(wrong)?;
                let (ceiling, role) = self.ceiling(user);
                if let Some(rate) = rate.filter(|rate| rate.period() < ceiling.period()) {
                    let problem =
                        format!("{rate} is beyond what this mount may ask for as {role}: {ceiling}");
                    return Err((libc::EPERM, problem));
                }
                rate.map(Setting::Rate)
            }
        })
    }

    fn refuse(&mut self, inode: Inode, errno: i32, problem: &str) -> Answer<usize> {
        self.counts.refused_lines += 1;
        let file = match inode.class {
            Class::Range => "range",
            Class::Change => "change",
            _ => "rate",
        };
        let node = self.node(inode.node).map_or("", |node| node.name.as_str());
        let path = self.names.text(inode.path);
        let way: Vec<&str> =
            [node, ".control", &path, file].into_iter().filter(|part| !part.is_empty()).collect();
        self.error = format!("{}: {problem}\n", way.join("/"));
        Answer::Fail(errno)
    }

    /// What was wrong with the last line that was refused, or what a node said last of the rate that one asks for.
    pub(super) fn error_text(&self) -> Vec<u8> {
        self.error.clone().into_bytes()
    }

    /// A value is polled by `process`: what it holds there concerns itself, however soon it lets go.
    pub(super) fn settings_serve(&mut self, places: &[(NodeId, PathId)], process: u32) {
        for handle in self.settings.held_by(places, process) {
            if let Some(What::Control(control)) = self.handles.get_mut(&handle).map(|open| &mut open.what) {
                control.has_served = true;
            }
        }
    }

    /// The last descriptor of a control file is closed.
    pub(super) fn close_control(
        &mut self,
        inode: Inode,
        handle: u64,
        user: u32,
        control: &ControlHandle,
        now: Instant,
    ) {
        let Some(written) = control.written else { return };
        let at_once = now.saturating_duration_since(written) < AT_ONCE && !control.has_served;
        let for_all = at_once && self.is_master(user);
        let place = (inode.node, inode.path);
        if !self.settings.close(place, inode.class, handle, for_all) && for_all && control.cleared {
            // Taking back needs no room.
            let _ = self.settings.set(place, Owner::Mount, inode.class, None);
        }
        if at_once && !for_all {
            // Closing gives nobody an errno: the reason must do.
            let _ = self.refuse(
                inode,
                libc::EPERM,
                "only root and who has mounted the tree set this for everybody; keep the file open while you want it",
            );
        }
    }

    /// Settings have changed since they were last looked at: open files are judged by the new ones.
    pub(super) fn renew_settings(&mut self) {
        if self.settings_seen == self.settings.revision() {
            return;
        }
        self.settings_seen = self.settings.revision();
        let files: Vec<Inode> = self.files.keys().copied().collect();
        for inode in files {
            let places = self.places(inode);
            let (filter, rate) = (self.settings.filter(&places, None), self.settings.rate(&places));
            let Some(file) = self.files.get_mut(&inode) else { continue };
            self.wishes.stale |= file.rate != rate;
            let is_opened_up = file.filter != filter;
            (file.filter, file.rate) = (filter, rate);
            let pollers = file.pollers.clone();
            if is_opened_up {
                self.changed(inode);
            }
            pollers.into_iter().for_each(|handle| self.renew_poller(handle, inode));
        }
        self.renew_text_paces();
    }
}
