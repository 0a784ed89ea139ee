//! The list of nodes: the visible ones, their order, and the chosen one.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use khz_model::Nanos;
use khz_model::fold::by_name;

use super::node::Node;
use super::odd::{Odd, odd};
use super::world::World;

/// A column of the list.
pub struct Column {
    /// Its title.
    pub title: &'static str,
    /// Its width.
    pub width: u16,
    /// What it shows of a node, for sorting and drawing.
    pub number: fn(&Node) -> Option<f64>,
    /// The curve of a waterfall that is sorted by it.
    pub curve: &'static str,
}

/// All columns after the name. The first of them is how odd a node is.
pub const COLUMNS: [Column; 8] = [
    Column { title: "ODD", width: 15, number: |_| None, curve: "cpu" },
    Column { title: "CPU", width: 5, number: |node| node.summary().cpu, curve: "cpu" },
    Column { title: "MEM", width: 5, number: |node| node.summary().memory, curve: "memory" },
    Column { title: "LOAD", width: 7, number: |node| node.summary().load, curve: "load" },
    Column { title: "IO", width: 5, number: |node| node.summary().io_pressure, curve: "pressure.io" },
    Column { title: "DISK", width: 5, number: |node| node.summary().disk, curve: "disk" },
    Column { title: "NET", width: 11, number: |node| node.summary().traffic, curve: "traffic" },
    Column { title: "WAIT", width: 5, number: |node| node.summary().cpu_pressure, curve: "pressure.cpu" },
];

/// The list.
pub struct List {
    /// 0: by name; else by this column, the greatest first.
    pub sorted: usize,
    /// The other way round.
    pub reverse: bool,
    /// Only nodes that are down or odd.
    pub only_odd: bool,
    /// Tiles in place of lines.
    pub tiles: bool,
    /// Only nodes whose names have this in them.
    pub search: String,
    /// The chosen node. It stays chosen when the order changes.
    chosen: Option<String>,
    /// The number of the chosen line.
    line: usize,
}

impl Default for List {
    /// Nodes that are down or odd come first.
    fn default() -> Self {
        let (reverse, only_odd, tiles, search) = (false, false, false, String::new());
        List { sorted: 1, reverse, only_odd, tiles, search, chosen: None, line: 0 }
    }
}

/// A line of the list.
pub struct Line<'a> {
    /// The node.
    pub name: &'a str,
    /// What is known of it.
    pub node: &'a Node,
    /// How it differs from the others.
    pub odd: Option<Odd>,
}

impl List {
    /// The lines in their order.
    pub fn lines<'a>(&self, world: &'a World) -> Vec<Line<'a>> {
        let all: Vec<(&str, &Node)> = world.nodes().collect();
        let nodes: Vec<&Node> = all.iter().map(|(_, node)| *node).collect();
        let lines = all.into_iter().zip(odd(&nodes)).map(|((name, node), odd)| Line { name, node, odd });
        let is_shown = |line: &Line<'_>| {
            (self.search.is_empty() || line.name.to_lowercase().contains(&self.search))
                && (!self.only_odd || line.odd.is_some() || line.node.is_away())
        };
        let mut lines: Vec<Line<'a>> = lines.filter(is_shown).collect();
        // Sorted by keys that are computed once.
        let keys: Vec<Option<f64>> = lines.iter().map(|line| self.key(line)).collect();
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by(|&a, &b| {
            self.compare(keys[a], keys[b]).then_with(|| by_name(lines[a].name, lines[b].name))
        });
        if self.reverse && self.sorted == 0 {
            order.reverse();
        }
        let mut places: Vec<Option<Line<'a>>> = lines.drain(..).map(Some).collect();
        order.into_iter().filter_map(|at| places[at].take()).collect()
    }

    /// The number by which a line is sorted.
    fn key(&self, line: &Line<'_>) -> Option<f64> {
        match self.sorted {
            0 => None,
            // A node that is away is the oddest of all.
            1 if line.node.is_away() => Some(f64::INFINITY),
            1 => Some(line.odd.map_or(0.0, |odd| odd.far.abs())),
            column if line.node.is_away() => COLUMNS.get(column - 1).and(None),
            column => COLUMNS.get(column - 1).and_then(|column| (column.number)(line.node)),
        }
    }

    /// The greatest first, and unknown numbers last in either direction.
    fn compare(&self, a: Option<f64>, b: Option<f64>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) if self.reverse => a.total_cmp(&b),
            (Some(a), Some(b)) => b.total_cmp(&a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }

    /// Sorts by another column.
    pub fn sort(&mut self, by: i8) {
        let columns = COLUMNS.len() as i64 + 1;
        self.sorted = usize::try_from((self.sorted as i64 + i64::from(by)).rem_euclid(columns)).unwrap_or(0);
    }

    /// Moves the choice.
    pub fn choose(&mut self, by: isize, count: usize) {
        self.line = self.line.saturating_add_signed(by).min(count.saturating_sub(1));
        self.chosen = None;
    }

    /// Chooses this line.
    pub fn choose_line(&mut self, line: usize) {
        (self.line, self.chosen) = (line, None);
    }

    /// The number of the chosen line among these. A chosen node stays chosen.
    pub fn place(&self, lines: &[Line<'_>]) -> usize {
        let chosen = self.chosen.as_deref().and_then(|name| lines.iter().position(|line| line.name == name));
        chosen.unwrap_or(self.line).min(lines.len().saturating_sub(1))
    }

    /// The chosen node.
    pub fn chosen(&self, world: &World) -> Option<String> {
        let lines = self.lines(world);
        Some(lines.get(self.place(&lines))?.name.to_owned())
    }
}

/// A shorter pause does not end the time in which a node is odd.
const ODD_PAUSE: Nanos = Nanos::from_secs(5);

/// A node that is odd this soon after its first row may have been odd before, since its first rates need two rows.
const FIRST_ROWS: Nanos = Nanos::from_secs(2);

/// Older times are useless, since the list keeps rows of a shorter time.
const ODD_TIMES_KEPT: Nanos = Nanos::from_secs(600);

/// The most kept times of oddness of a node. One that is odd now and then keeps the latest.
const ODD_TIMES_MAX: usize = 32;

/// Since when a node is odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OddSince {
    /// Since this moment.
    pub time: Nanos,
    /// It may have been odd for longer, since earlier rows are unknown.
    pub is_least: bool,
}

/// A time in which a node was odd.
struct OddTime {
    since: OddSince,
    last: Nanos,
}

/// What is known of a node.
struct OddNode {
    /// The first and the last comparison of a time without a pause.
    first: Nanos,
    last: Nanos,
    /// Oldest first.
    times: VecDeque<OddTime>,
}

/// When nodes were odd. It outlives the list, which is opened repeatedly.
#[derive(Default)]
pub struct OddTimes {
    nodes: BTreeMap<String, OddNode>,
    /// The time of the last comparison, and the seconds since then.
    noted: Nanos,
    ago: u64,
}

/// After this time (s) without a newer row, the clock of all nodes counts as set back.
const OLD_ROWS_MAX: u64 = 10;

impl OddTimes {
    /// Compares the nodes at most once a second: a row of this time has come.
    pub fn note(&mut self, world: &mut World, row: Nanos) {
        if row.since(self.noted) < Nanos::SECOND {
            // While other nodes send newer rows, an older row is the last one of a node that is down.
            if self.ago <= OLD_ROWS_MAX {
                return;
            }
            *self = OddTimes::default();
        }
        (self.noted, self.ago) = (row, 0);
        self.compare(world, row);
    }

    /// A second has passed.
    pub fn tick(&mut self) {
        self.ago += 1;
    }

    /// Since when a node was odd at this moment; `None` if it was not, as far as is known.
    pub fn since(&self, node: &str, moment: Nanos) -> Option<OddSince> {
        // The row of this node may be a little later than the row that set this time.
        let until = Nanos(moment.0.saturating_add(Nanos::SECOND.0));
        let was_odd = |time: &&OddTime| time.since.time <= until && moment.since(time.last) <= ODD_PAUSE;
        Some(self.nodes.get(node)?.times.iter().rev().find(was_odd)?.since)
    }

    fn compare(&mut self, world: &mut World, now: Nanos) {
        let nodes: Vec<&Node> = world.nodes().map(|(_, node)| node).collect();
        let odd = odd(&nodes);
        for ((name, node), odd) in world.nodes_mut().zip(odd) {
            let Some(row) = node.time().filter(|_| !node.is_away()) else {
                node.odd_since = None;
                continue;
            };
            if !self.nodes.contains_key(name) {
                let none = OddNode { first: row, last: now, times: VecDeque::new() };
                self.nodes.insert(name.to_owned(), none);
            }
            if let Some(known) = self.nodes.get_mut(name) {
                known.compared(odd.is_some(), row, now);
            }
            node.odd_since = self.since(name, now);
        }
        self.nodes.retain(|_, node| now.since(node.last) <= ODD_TIMES_KEPT);
    }
}

impl OddNode {
    /// Notes whether its row of this time was odd. That row may be older than the one that triggered the comparison.
    fn compared(&mut self, is_odd: bool, row: Nanos, now: Nanos) {
        if now.since(self.last) > ODD_PAUSE {
            self.first = row;
        }
        self.last = now;
        if !is_odd {
            return;
        }
        match self.times.back_mut() {
            Some(time) if now.since(time.last) <= ODD_PAUSE => {
                time.since.time = time.since.time.min(row);
                time.last = now;
            }
            _ => {
                let is_least = row.since(self.first) <= FIRST_ROWS;
                self.times.push_back(OddTime { since: OddSince { time: row, is_least }, last: now });
                if self.times.len() > ODD_TIMES_MAX {
                    self.times.pop_front();
                }
            }
        }
    }
}
