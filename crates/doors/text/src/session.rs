//! The choices of one connection, and the answers that follow from them. It reads through the query interface
//! and writes pages; its caller sends them and waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use khz_door::counts::{count, count_n};
use khz_model::{Budget, LaneStatus, Look, Nanos, NodeName, NodeStatus, Part, Query, Rate, Wanted};

use crate::counters::Counters;
use crate::describe::{Describe, Listing};
use crate::extension::Extension;
use crate::gone::{Census, Gone};
use crate::items::SharedItems;
use crate::layout::Layouts;
use crate::lines::Format;
use crate::mask::Mask;
use crate::page::Page;

/// The current identities of the hub that answers and of the hubs that its nodes come from.
pub type Origins = Arc<dyn Fn() -> Vec<[u8; 16]> + Send + Sync>;

/// What all sessions of a door share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub query: Arc<dyn Query>,
    /// The cluster's name.
    pub cluster: Arc<str>,
    pub items: SharedItems,
    /// When the door began; times are counted from here.
    pub began: Instant,
    /// How old rows may be by default.
    pub window: Nanos,
    pub counters: Counters,
    /// The memory that all sessions together may take.
    pub answers: Budget,
    /// The hubs of these nodes; see [`Origins`].
    pub origins: Option<Origins>,
}

/// One connection's session.
pub(crate) struct Session {
    pub shared: Shared,
    mask: Mask,
    age: Option<Nanos>,
    format: Format,
    layouts: Layouts,
    wanted: Wanted,
    /// How many items there were when `wanted` was made.
    wanted_of: usize,
}

impl Session {
    pub fn new(shared: Shared) -> Self {
        Session {
            shared,
            mask: Mask::everything(),
            age: None,
            format: Format::default(),
            layouts: Layouts::default(),
            wanted: Wanted::default(),
            wanted_of: 0,
        }
    }

    /// Chooses the items for later answers.
    pub fn choose(&mut self, mask: Mask) {
        self.mask = mask;
        self.layouts.clear();
        self.wanted_of = 0;
    }

    /// Executes an extension that sets something; returns the line that answers it.
    pub fn set(&mut self, extension: Extension) -> String {
        match extension {
            Extension::Nodes(pattern) => {
                self.wanted.nodes = pattern;
                let nodes = self.shared.query.nodes();
                let meant = nodes.iter().filter(|node| self.wanted.has_node(node)).count();
                return format!(":ok {meant} of {} nodes\n", nodes.len());
            }
            Extension::Age(age) => self.age = age,
            Extension::Lines => self.format = Format::Lines,
            Extension::Sexp => self.format = Format::Sexp,
            Extension::Hub => return self.origins(),
            Extension::Every(_) | Extension::Items { .. } | Extension::Slowed | Extension::Help => {}
        }
        ":ok\n".to_owned()
    }

    /// A line for each lane that runs slower than asked, of the nodes that are shown.
    pub fn slowed(&self) -> impl Iterator<Item = String> + use<'_> {
        // A rate may be `every 128ms`; a word of a line contains no space.
        let word = |rate: Rate| rate.to_string().trim_start_matches("every ").to_owned();
        let nodes =
            self.shared.query.status().into_iter().filter(|status| self.wanted.has_node(&status.node));
        nodes.flat_map(move |status| {
            let slowed = status.lanes.into_iter().filter(LaneStatus::is_slowed);
            let line = move |lane: LaneStatus| {
                format!("{} {} {} {}\n", status.node, lane.name, word(lane.rate), word(lane.asked))
            };
            slowed.map(line).collect::<Vec<_>>()
        })
    }

    /// The answer to `:every`. It warns of nodes whose rows already come more slowly than asked.
    pub fn every(&self) -> String {
        let is_slowed = |status: &NodeStatus| {
            self.wanted.has_node(&status.node) && status.lanes.iter().any(LaneStatus::is_slowed)
        };
        match self.shared.query.status().iter().filter(|status| is_slowed(status)).count() {
            0 => ":ok\n".to_owned(),
            1 => ":ok 1 node runs slower than asked, below its CPU ceiling (:slowed)\n".to_owned(),
            nodes => format!(":ok {nodes} nodes run slower than asked, below their CPU ceilings (:slowed)\n"),
        }
    }

    /// `:ok` and the hubs of these nodes; `:ok` alone where no hub answers.
    fn origins(&self) -> String {
        let all = self.shared.origins.as_ref().map(|origins| origins()).unwrap_or_default();
        let words = all.iter().map(|&identity| format!(" {:032x}", u128::from_be_bytes(identity)));
        format!(":ok{}\n", words.collect::<String>())
    }

    /// Adds the items of every node to the list; returns which of all items have been gone for a while.
    pub fn learn_from(&self, look: &mut dyn Look) -> Gone {
        let (mut known, mut census) = (Layouts::default(), Census::default());
        let everything = Mask::everything();
        while look.next(&mut |_, parts| {
            let layout = known.of(parts, &everything, &self.shared.items);
            census.count(&layout, parts);
        }) {}
        let nodes = self.shared.query.nodes().len();
        let now = Nanos(u64::try_from(self.shared.began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let mut items = self.shared.items.lock();
        self.shared.counters.items_left_out.store(items.left_out(), Ordering::Relaxed);
        let gone = census.gone(items.list().len(), nodes);
        items.gone_for_long(&gone, now)
    }

    /// Begins to describe the items that are not gone.
    pub fn describe(&self, listing: Listing, gone: Gone, page: &mut Page) -> Describe {
        Describe::begin(&self.shared.cluster, self.shared.query.nodes().len(), listing, gone, page)
    }

    /// How old the rows of a status may be: no client makes nodes gather more often than once per window.
    pub fn age_max(&self) -> Nanos {
        self.age.map_or(self.shared.window, |age| age.max(self.shared.window))
    }

    /// The nodes and metrics of a status.
    pub fn wanted(&mut self) -> &Wanted {
        let items = self.shared.items.lock();
        let known = items.list().len();
        if self.wanted_of != known || known == 0 {
            self.wanted_of = known;
            let chosen = !self.mask.is_everything();
            self.wanted.metrics = chosen.then(|| items.metrics(self.mask.bits()));
        }
        drop(items);
        &self.wanted
    }

    /// Begins a status.
    pub fn begin(&self, page: &mut Page) {
        count(&self.shared.counters.statuses);
        self.format.begin(page);
    }

    /// Writes nodes until the page is full; `false`: the last node is written.
    pub fn go_on(&mut self, look: &mut dyn Look, page: &mut Page) -> bool {
        let Session { shared, layouts, mask, format, .. } = self;
        while !page.is_full() {
            let mut show = |node: &NodeName, parts: &[Part<'_>]| {
                let layout = layouts.of(parts, mask, &shared.items);
                format.node(page, node, parts, &layout);
            };
            if !look.next(&mut show) {
                return false;
            }
        }
        true
    }

    /// Bytes that the session takes.
    pub fn held(&self) -> usize {
        self.layouts.held()
    }

    /// Ends a status.
    pub fn end(&self, look: &dyn Look, page: &mut Page) {
        count_n(&self.shared.counters.nodes_left_out, look.left_out());
        self.format.end(page);
    }
}
