//! The tree: which nodes and files there are, what is in them, who has them open, and what is wanted of the cluster
//! because of that. It opens nothing and waits for nobody; time is given to it.

mod by;
mod control_files;
mod files;
mod house;
mod listing;
mod lookup;
mod pages;
mod polls;
mod proc;
mod roster;
mod rows;
#[cfg(test)]
mod tests;
mod texts;
mod wishes;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::{NodeName, NodeStatus, Rate, Reading, Stamp, Stay};

use crate::inode::{Inode, NodeId, PathId};
use crate::layout::Layout;
use crate::limits::{BUDGET_PER_USER, FIRST_VALUE, OTHERS_RATE_MAX_HZ};
use crate::names::Names;
use crate::settings::Settings;

pub use files::{Asker, Attributes, Kind, Opened, Read};
pub use house::{Push, Work};
pub use listing::Entry;
pub use pages::Fresh;
pub use wishes::Order;

use files::{Begun, Handle, OpenFile};
use proc::Proc;
use roster::Roster;
use wishes::Wishes;

/// How the mount behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// A first value must come within this time.
    pub wait: Duration,
    /// Files of nodes that are down give EIO instead of their last value.
    pub strict: bool,
    /// Places at which one user may want more than the base rate.
    pub budget: usize,
    /// Fastest rate that the mount's role may ask for, and what the role is called.
    pub ceiling: (Rate, String),
    /// Fastest rate that other users may ask for.
    pub others: Rate,
    /// Kernel files of up to a page are read out of the page cache: fast, but who reads one in pieces may get pieces of
    /// two texts.
    pub cache_texts: bool,
}

impl Options {
    /// What a mount does that was told nothing.
    pub fn new(ceiling: Rate, role: &str) -> Self {
        let others = Rate::from_hz(OTHERS_RATE_MAX_HZ).map_or(ceiling, |most| ceiling.at_most(most));
        let ceiling = (ceiling, role.to_owned());
        Options {
            wait: FIRST_VALUE,
            strict: false,
            budget: BUDGET_PER_USER,
            ceiling,
            others,
            cache_texts: false,
        }
    }
}

/// What a question about the tree comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// This.
    Ready(T),
    /// Something must come first; ask again when [`Work::stirred`] says so.
    Wait,
    /// An errno.
    Fail(i32),
}

/// Everything that is known and wanted.
pub struct Tree {
    options: Options,
    /// Who has mounted it: he and root set what holds for everybody, at any rate below the ceiling.
    owner: u32,
    names: Names,
    fixed: Fixed,
    nodes: Vec<Node>,
    by_name: BTreeMap<NodeName, NodeId>,
    roster: Roster,
    hub: Hub,
    lanes: HashMap<u64, Lane>,
    layouts: Vec<Arc<Layout>>,
    files: HashMap<Inode, OpenFile>,
    handles: HashMap<u64, Handle>,
    handles_made: u64,
    begun: HashMap<Inode, Begun>,
    users: BTreeMap<u32, User>,
    settings: Settings,
    settings_seen: u64,
    error: String,
    wishes: Wishes,
    proc: Proc,
    by: by::By,
    work: Work,
    /// Pages stored since house was kept.
    stores: usize,
    /// Requests that wait for something that comes.
    waiting: usize,
    counts: Counts,
}

/// Paths that every tree has.
#[derive(Clone, Copy, Debug)]
struct Fixed {
    by: PathId,
    mount: PathId,
    stats: PathId,
    status: PathId,
    metrics: PathId,
}

/// One node.
struct Node {
    name: NodeName,
    status: Option<(NodeStatus, Instant)>,
    /// Number of the list that has told it.
    told_in: u64,
    layout: Option<Arc<Layout>>,
    values: Vec<Value>,
    /// The lane of all its series, once a row has come in it since the node was wanted: its values are of now.
    answered: Option<u64>,
    /// Number of the list that was under way when its values were asked for.
    asked_in: u64,
    leased_until: Option<Instant>,
    /// Open files and directories below it.
    handles: usize,
}

impl Node {
    /// One of which nothing is known.
    fn new(name: NodeName) -> Self {
        Node {
            name,
            status: None,
            told_in: 0,
            layout: None,
            values: Vec::new(),
            answered: None,
            asked_in: 0,
            leased_until: None,
            handles: 0,
        }
    }
}

/// The latest reading of a series.
#[derive(Clone, Copy, Debug)]
struct Value {
    reading: Reading,
    stamp: Stamp,
    lane: u64,
    /// Somebody has its file open.
    watched: bool,
    /// Whether it is listed, by the node's boot clock.
    stay: Stay,
}

/// A lane of the source.
struct Lane {
    node: NodeId,
    wish: u32,
    stamp: Stamp,
    cells: Cells,
}

/// Where a lane's columns go.
enum Cells {
    /// Into the values of the node: the slot of each column.
    Node(Vec<Option<u32>>),
    /// Into a metric's table of all nodes.
    By(Arc<str>),
}

#[derive(Debug)]
struct Hub {
    up: bool,
    text: String,
    times: u64,
}

/// What a user has open and has caused.
#[derive(Debug, Default)]
struct User {
    handles: usize,
    /// Places whose rate his open files cause, and how many do.
    places: HashMap<(NodeId, PathId), usize>,
}

/// Counted since the start, for `.mount/stats`.
#[derive(Debug, Default)]
struct Counts {
    opens: u64,
    rows: u64,
    pushed: u64,
    stored: u64,
    stores_left_out: u64,
    dropped: u64,
    wakes: u64,
    timed_out: u64,
    too_many_handles: u64,
    over_budget: u64,
    refused_lines: u64,
    nodes_left_out: u64,
    series_left_out: u64,
    wishes_left_out: u64,
    by_names_left_out: u64,
    told: u64,
    told_last: String,
}

impl Tree {
    /// An empty tree, mounted by this user.
    pub fn new(options: Options, owner: u32) -> Self {
        let mut names = Names::new();
        let mut fixed = |parent, name| names.intern(parent, name).unwrap_or(Names::TOP);
        let mount = fixed(Names::TOP, ".mount");
        let fixed = Fixed {
            by: fixed(Names::TOP, ".by"),
            mount,
            stats: fixed(mount, "stats"),
            status: fixed(Names::TOP, "status"),
            metrics: fixed(Names::TOP, "metrics"),
        };
        let proc = Proc::new(names.intern(Names::TOP, "proc").unwrap_or(Names::TOP));
        Tree {
            options,
            owner,
            names,
            fixed,
            nodes: Vec::new(),
            by_name: BTreeMap::new(),
            roster: Roster::new(),
            hub: Hub { up: false, text: "not connected yet".to_owned(), times: 0 },
            lanes: HashMap::new(),
            layouts: Vec::new(),
            files: HashMap::new(),
            handles: HashMap::new(),
            handles_made: 0,
            begun: HashMap::new(),
            users: BTreeMap::new(),
            settings: Settings::default(),
            settings_seen: 0,
            error: String::new(),
            wishes: Wishes::default(),
            proc,
            by: by::By::default(),
            work: Work::default(),
            stores: 0,
            waiting: 0,
            counts: Counts::default(),
        }
    }

    /// How it behaves.
    pub fn options(&self) -> &Options {
        &self.options
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get((id.0 as usize).checked_sub(1)?)
    }

    fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut((id.0 as usize).checked_sub(1)?)
    }

    /// The places whose settings concern a file, from itself outwards.
    fn places(&self, inode: Inode) -> Vec<(NodeId, PathId)> {
        let mut places = vec![(inode.node, inode.path)];
        let mut path = inode.path;
        while path != Names::TOP {
            path = self.names.parent(path);
            places.push((inode.node, path));
        }
        if inode.node != NodeId::TREE {
            places.push((NodeId::TREE, Names::TOP));
        }
        places
    }
}
