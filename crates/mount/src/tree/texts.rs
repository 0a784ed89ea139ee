//! Files whose text is made when somebody reads them: a node's status, the mount's numbers, the last error.

use std::fmt::Write;
use std::time::Instant;

use khz_model::{Nanos, NodeStatus};

use super::files::Kind;
use super::{Answer, Node, Tree};
use crate::inode::{Class, Inode, NodeId};

impl Tree {
    /// The text of a file that is no value.
    pub(super) fn text(&mut self, inode: Inode, now: Instant, late: bool) -> Answer<Vec<u8>> {
        match inode.class {
            Class::Error => Answer::Ready(self.error_text()),
            Class::Plain if inode.node != NodeId::TREE => self.status_text(inode.node, now, late),
            Class::Plain if inode.path == self.fixed.stats => Answer::Ready(self.stats_text()),
            Class::Plain => {
                let metric = self.names.name(inode.path).to_owned();
                self.by_text(&metric, now, late)
            }
            _ => Answer::Fail(libc::ENOENT),
        }
    }

    /// The length of a text that is made when it is read, where making it asks nobody: of a table of all nodes it
    /// is not known before.
    pub(super) fn made_length(&self, inode: Inode, kind: Kind) -> Option<usize> {
        let text = match (kind, inode.class) {
            (Kind::Control, _) => self.setting_text(inode, None),
            (Kind::Text, Class::Error) => self.error_text(),
            (Kind::Text, Class::Plain) if inode.node != NodeId::TREE => {
                self.known_status(self.node(inode.node)?, Instant::now())?
            }
            (Kind::Text, Class::Plain) if inode.path == self.fixed.stats => self.stats_text(),
            _ => return None,
        };
        Some(text.len())
    }

    /// How a node is now; how it was, where nothing newer can be had.
    fn status_text(&mut self, id: NodeId, now: Instant, late: bool) -> Answer<Vec<u8>> {
        self.want_roster(now);
        let Some(node) = self.node(id) else { return Answer::Fail(libc::ENOENT) };
        let is_current = late || self.roster.is_whole() || !self.is_worth_waiting();
        match self.known_status(node, now).filter(|_| is_current) {
            Some(text) => Answer::Ready(text),
            None if late => Answer::Fail(libc::ETIMEDOUT),
            None => Answer::Wait,
        }
    }

    /// What is known of a node, old or new.
    fn known_status(&self, node: &Node, now: Instant) -> Option<Vec<u8>> {
        let (status, known) = node.status.as_ref()?;
        let since = Nanos(now.saturating_duration_since(*known).as_nanos() as u64);
        let state = match self.is_listed(node) {
            // The hub has been started again, and the node has not come yet.
            false => "unknown",
            true => status.presence().as_str(),
        };
        Some(node_text(state, status, since, self.hub.up).into_bytes())
    }

    /// A text is open: what it is made of stays wanted.
    pub(super) fn hold_text(&mut self, inode: Inode) {
        if self.is_by(inode) {
            let metric = self.names.name(inode.path).to_owned();
            self.by.opened(&metric);
        }
        self.roster.handles += usize::from(self.is_of_roster(inode));
    }

    /// It is closed.
    pub(super) fn let_text_go(&mut self, inode: Inode, now: Instant) {
        if self.is_by(inode) {
            let metric = self.names.name(inode.path).to_owned();
            self.by.closed(&metric, now);
        }
        if self.is_of_roster(inode) {
            self.roster.handles -= 1;
            self.want_roster(now);
        }
    }

    fn is_by(&self, inode: Inode) -> bool {
        inode.node == NodeId::TREE && self.names.parent(inode.path) == self.fixed.by
    }

    /// True for texts that are made of how the nodes are.
    fn is_of_roster(&self, inode: Inode) -> bool {
        self.is_by(inode) || inode.node != NodeId::TREE && inode.path == self.fixed.status
    }

    /// The mount's numbers.
    pub(super) fn stats_inode(&self) -> Inode {
        Inode::plain(NodeId::TREE, self.fixed.stats)
    }

    pub(super) fn stats_text(&self) -> Vec<u8> {
        let up = self.up_nodes().count();
        let counts = &self.counts;
        let mut text = format!("hub {}\n", if self.hub.up { "connected" } else { "away" });
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {value}");
        };
        line("hub_text", &self.hub.text);
        line("hub_connects", &self.hub.times);
        line("nodes", &self.nodes.len());
        line("nodes_up", &up);
        line("nodes_left_out", &counts.nodes_left_out);
        line("names", &self.names.count());
        line("series_left_out", &counts.series_left_out);
        line("by_names", &self.by.names);
        line("by_names_left_out", &counts.by_names_left_out);
        line("interests", &self.wishes.count());
        line("interests_left_out", &counts.wishes_left_out);
        line("interests_told", &counts.told);
        line("interests_told_last", &counts.told_last);
        line("rows", &counts.rows);
        line("opens", &counts.opens);
        line("handles", &self.handles.len());
        line("handles_refused", &counts.too_many_handles);
        line("files_followed", &self.files.values().filter(|file| file.pushed).count());
        line("values_pushed", &counts.pushed);
        line("pages_stored", &counts.stored);
        line("pages_not_stored", &counts.stores_left_out);
        line("values_filtered", &counts.dropped);
        line("sleepers_woken", &counts.wakes);
        line("waits_timed_out", &counts.timed_out);
        for (name, value) in self.proc.stats() {
            line(name, &value);
        }
        line("settings", &self.settings.count());
        line("lines_refused", &counts.refused_lines);
        line("budget", &self.options.budget);
        line("over_budget", &counts.over_budget);
        for (user, known) in &self.users {
            let text = format!("handles {} interests {}", known.handles, known.places.len());
            line(&format!("user {user}"), &text);
        }
        text.into_bytes()
    }

    /// A request has waited in vain.
    pub fn timed_out(&mut self) {
        self.counts.timed_out += 1;
    }
}

/// `since`: how long ago the status was true. `known`: whether it still is.
fn node_text(state: &str, status: &NodeStatus, since: Nanos, known: bool) -> String {
    let seconds = |time: Nanos| format!("{}.{:03}", time.0 / 1_000_000_000, time.0 / 1_000_000 % 1_000);
    let aged = |time: Nanos| seconds(Nanos(time.0.saturating_add(since.0)));
    let mut text = format!("state {state}\n");
    let mut line = |name: &str, value: Option<String>| {
        // Unknown is never a number. Writing to a string cannot fail.
        let _ = writeln!(text, "{name} {}", value.as_deref().unwrap_or("unknown"));
    };
    line("hub", Some(if known { "connected" } else { "away" }.to_owned()));
    let newest = status.lanes.iter().filter_map(|lane| lane.age).min();
    line("age_seconds", newest.map(aged));
    line("heard_seconds", status.heard.map(aged));
    line("in_this_state_seconds", status.since.map(aged));
    line("address", status.address.clone());
    line("agent", Some(status.version.clone()).filter(|version| !version.is_empty()));
    line("clock_offset_ns", status.clock_offset.map(|offset| offset.to_string()));
    line("round_trip_ns", status.round_trip.map(|trip| trip.0.to_string()));
    line("connects", Some(status.connects.to_string()));
    for lane in &status.lanes {
        let age = lane.age.map_or_else(|| "unknown".to_owned(), aged);
        let rate = lane.rate.to_string();
        let rate = rate.strip_prefix("every ").unwrap_or(&rate).to_owned();
        let asked = match lane.is_slowed() {
            true => format!(" asked {}", lane.asked),
            false => String::new(),
        };
        let text = format!(
            "rate {rate}{asked} values {} age_seconds {age} rows {} awaited {} lost {} late {}",
            lane.slots, lane.rows, lane.awaited, lane.lost, lane.late
        );
        line(&format!("lane {}", lane.name), Some(text));
    }
    if let Some(problem) = &status.problem {
        line("problem", Some(problem.clone()));
    }
    text
}
