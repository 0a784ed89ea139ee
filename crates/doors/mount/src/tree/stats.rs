//! Texts about the tree itself: `.mount/stats`, and the status of a node.

use std::fmt::{Display, Write};
use std::time::Instant;

use super::{Tree, status};
use crate::inode::NodeId;

impl Tree {
    /// What is known of a node, old or new.
    pub(super) fn status_text(&self, node: NodeId, now: Instant) -> Option<Vec<u8>> {
        let roster = self.cluster.roster();
        roster.status(node).map(|known| status::text(&known, roster.is_hub_up(), now).into_bytes())
    }

    /// What the mount holds, does and refuses.
    pub(super) fn stats_text(&self) -> Vec<u8> {
        let mut text = String::new();
        let mut line = |name: &str, value: &dyn Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {value}");
        };
        self.cluster_stats(&mut line);
        self.file_stats(&mut line);
        for (name, value) in self.kernel_files.stats() {
            line(name, &value);
        }
        for (name, value) in self.channels.stats() {
            line(name, &value);
        }
        line("channel_notice_last", &self.channels.notice_last());
        let (settings, refused) = self.controls.counts();
        line("settings", &settings);
        line("lines_refused", &refused);
        line("budget", &self.options.budget);
        line("over_budget", &self.handles.counts().over_budget);
        for (user, handles, places) in self.handles.users() {
            line(&format!("user {user}"), &format!("handles {handles} interests {places}"));
        }
        text.into_bytes()
    }

    fn cluster_stats(&self, line: &mut dyn FnMut(&str, &dyn Display)) {
        let (roster, subscriptions) = (self.cluster.roster(), self.cluster.subscriptions());
        let (hub, connects) = roster.hub();
        let (by_names, by_names_left_out) = self.cluster.tables().names();
        line("hub", &if roster.is_hub_up() { "connected" } else { "away" });
        line("hub_text", &hub);
        line("hub_connects", &connects);
        line("nodes", &roster.count());
        line("nodes_up", &roster.up().count());
        line("nodes_left_out", &roster.left_out());
        line("names", &self.names.count());
        line("series_left_out", &self.cluster.values().left_out());
        line("by_names", &by_names);
        line("by_names_left_out", &by_names_left_out);
        line("interests", &subscriptions.count());
        line("interests_left_out", &subscriptions.left_out());
        line("interests_told", &self.counts.notices);
        line("interests_told_last", &self.counts.notice_last);
        line("rows", &self.cluster.rows());
    }

    fn file_stats(&self, line: &mut dyn FnMut(&str, &dyn Display)) {
        let counts = self.value_files.counts();
        line("opens", &self.handles.opened());
        line("handles", &self.handles.open_now());
        line("handles_refused", &self.handles.counts().refused);
        line("files_followed", &self.value_files.followed());
        line("values_pushed", &counts.pushed);
        line("pages_stored", &counts.stored);
        line("pages_not_stored", &counts.not_stored);
        line("values_filtered", &counts.filtered);
        line("sleepers_woken", &self.polls.woken());
        line("requests_waiting", &self.effects.waiting());
        line("waits_timed_out", &self.counts.timed_out);
    }
}
