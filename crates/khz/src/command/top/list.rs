//! The list of nodes: the visible ones, their order, and the chosen one.

use std::cmp::Ordering;

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
