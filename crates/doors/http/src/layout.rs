//! Where the samples that a request selects are in the parts of a node, and the JSON that describes each.
//! Worked out once for each kind of node, and used for every node of that kind.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use khz_model::{Absence, Columns, Instance, NodeName, Part, Pattern, Reading, Series, ValueFormat};

use crate::json;
use crate::limits::LAYOUTS_MAX;

/// One selected series.
struct Cell {
    part: u16,
    slot: u32,
    format: ValueFormat,
    /// `{"name":...,"unit":...`, in the layout's text.
    head: Range<u32>,
}

/// The selected series of one kind of node.
#[derive(Default)]
struct Layout {
    cells: Vec<Cell>,
    heads: String,
}

/// A layout, and the kind of node that it is for.
struct Known {
    columns: Vec<Arc<dyn Columns>>,
    /// One bit for each pattern that selects such nodes.
    speaking: u64,
    layout: Layout,
}

/// The layouts of one answer, the last used one first.
pub(crate) struct Layouts {
    patterns: Vec<Pattern>,
    known: Vec<Known>,
}

impl Layouts {
    /// For these patterns, at most [`crate::limits::PATTERNS_MAX`].
    pub fn new(patterns: Vec<Pattern>) -> Self {
        Layouts { patterns, known: Vec::new() }
    }

    /// The selected samples of a node, separated by commas.
    pub fn samples(&mut self, node: &NodeName, parts: &[Part<'_>], out: &mut String) {
        let stamps: Vec<String> = parts.iter().map(|part| part.stamp.real_text()).collect();
        let layout = self.of(node, parts);
        for (number, cell) in layout.cells.iter().enumerate() {
            let (Some(part), Some(stamp)) = (parts.get(cell.part as usize), stamps.get(cell.part as usize))
            else {
                continue;
            };
            json::next(out, number);
            out.push_str(&layout.heads[cell.head.start as usize..cell.head.end as usize]);
            out.push_str(stamp);
            out.push_str("\",");
            json::member(out, reading(part, cell.slot as usize), cell.format);
            out.push('}');
        }
    }

    /// Bytes that they take.
    pub fn held(&self) -> u64 {
        let one =
            |known: &Known| known.layout.cells.capacity() * size_of::<Cell>() + known.layout.heads.capacity();
        self.known.iter().map(one).sum::<usize>() as u64
    }

    fn of(&mut self, node: &NodeName, parts: &[Part<'_>]) -> &Layout {
        let speak = |(at, pattern): (usize, &Pattern)| u64::from(pattern.matches_node(node.as_str())) << at;
        let speaking = self.patterns.iter().take(64).enumerate().map(speak).sum();
        let is_known = |known: &Known| known.is_for(parts, speaking);
        match self.known.iter().position(is_known) {
            Some(at) => self.known[..=at].rotate_right(1),
            None => {
                let spoken = |at: &usize| speaking >> at & 1 == 1;
                let patterns: Vec<Pattern> =
                    (0..self.patterns.len()).filter(spoken).map(|at| self.patterns[at].clone()).collect();
                let columns = parts.iter().map(|part| part.columns.clone()).collect();
                self.known.truncate(LAYOUTS_MAX - 1);
                self.known.insert(0, Known { columns, speaking, layout: Layout::new(parts, &patterns) });
            }
        }
        &self.known[0].layout
    }
}

impl Known {
    fn is_for(&self, parts: &[Part<'_>], speaking: u64) -> bool {
        let mut pairs = self.columns.iter().zip(parts);
        self.speaking == speaking
            && self.columns.len() == parts.len()
            && pairs.all(|(columns, part)| Arc::ptr_eq(columns, &part.columns))
    }
}

impl Layout {
    /// If several parts have the same series, the first part counts. The widest part determines the order.
    fn new(parts: &[Part<'_>], patterns: &[Pattern]) -> Self {
        let mut cells: Vec<(u16, u32)> = Vec::new();
        let (mut seen, mut overlap) = (HashSet::new(), false);
        for (part, columns) in parts.iter().enumerate() {
            for (slot, series) in columns.columns.series().iter().enumerate() {
                if !series.is_selected(patterns) {
                    continue;
                }
                match seen.insert(name(series)) {
                    true => cells.push((part as u16, slot as u32)),
                    false => overlap = true,
                }
            }
        }
        if overlap {
            in_order_of_the_widest(parts, &mut cells);
        }
        let mut layout = Layout::default();
        for (part, slot) in cells {
            let columns = parts[part as usize].columns.series();
            let series = &columns[slot as usize];
            let start = layout.heads.len() as u32;
            layout.heads.push('{');
            json::series(&mut layout.heads, series);
            layout.heads.push_str(",\"stamp\":\"");
            let head = start..layout.heads.len() as u32;
            layout.cells.push(Cell { part, slot, format: series.metric.format(), head });
        }
        layout
    }
}

/// A lane that was gathered a moment ago has some of the base lane's series: they keep their usual positions.
fn in_order_of_the_widest(parts: &[Part<'_>], cells: &mut [(u16, u32)]) {
    let Some(widest) = parts.iter().max_by_key(|part| part.columns.series().len()) else { return };
    let places: HashMap<_, usize> = widest.columns.series().iter().map(name).zip(0..).collect();
    cells.sort_by_key(|&(part, slot)| {
        let series = &parts[part as usize].columns.series()[slot as usize];
        places.get(&name(series)).copied().unwrap_or(usize::MAX)
    });
}

fn name(series: &Series) -> (&str, Option<&Instance>) {
    (&series.metric.name, series.instance.as_ref())
}

fn reading(part: &Part<'_>, slot: usize) -> Reading {
    match (part.states.get(slot), part.values.get(slot)) {
        (Some(&state), Some(&value)) => Reading::from_parts(state, value),
        _ => Reading::Absent(Absence::NotYet),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Kind, Metric, Nanos, Refresh, Stamp, Unit};

    fn columns(names: &[&'static str]) -> Arc<dyn Columns> {
        let series = |name: &&'static str| {
            let mut metric = khz_door::counts::entry("x", name, Kind::Gauge, "help");
            metric.name = (*name).into();
            (metric.unit, metric.refresh) = (Unit::Count, Refresh::Event);
            Series { metric: Arc::<Metric>::new(metric), instance: None }
        };
        Arc::new(names.iter().map(series).collect::<Vec<Series>>())
    }

    fn names(layouts: &mut Layouts, parts: &[Part<'_>]) -> Vec<String> {
        let mut out = String::from("[");
        layouts.samples(&NodeName::new("n1").unwrap(), parts, &mut out);
        out.push(']');
        let samples: serde_json::Value = serde_json::from_str(&out).unwrap();
        let text = |sample: &serde_json::Value| {
            let at = sample["value"].as_str().unwrap_or("absent");
            format!("{}={at}", sample["name"].as_str().unwrap())
        };
        samples.as_array().unwrap().iter().map(text).collect()
    }

    #[test]
    fn of_two_lanes_the_newer_counts_and_the_wider_sets_the_order() {
        let (base, newer) = (columns(&["a", "b", "c"]), columns(&["c", "b"]));
        let part = |columns: &Arc<dyn Columns>, values: &'static [u64], seconds| Part {
            columns: columns.clone(),
            stamp: Stamp { boot: Nanos::from_secs(seconds), real_offset: 0 },
            values,
            states: &[0; 3],
        };
        let mut layouts = Layouts::new(vec![Pattern::new("*").unwrap()]);
        let both = [part(&newer, &[30, 20], 2), part(&base, &[1, 2, 3], 1)];
        assert_eq!(names(&mut layouts, &both), ["a=1", "b=20", "c=30"]);
        assert_eq!(names(&mut layouts, &both[1..]), ["a=1", "b=2", "c=3"]);
        let short = [part(&base, &[1], 1)];
        assert_eq!(names(&mut layouts, &short), ["a=1", "b=absent", "c=absent"], "not there yet");
        assert!(layouts.held() > 0);
    }

    #[test]
    fn each_node_shows_what_its_patterns_select() {
        let base = columns(&["a", "b", "c"]);
        let parts = [Part { columns: base, stamp: Stamp::default(), values: &[1, 2, 3], states: &[0; 3] }];
        let mut layouts = Layouts::new(vec![Pattern::new("n1:a").unwrap(), Pattern::new("n2:b").unwrap()]);
        let mut of = |node: &str| {
            let mut out = String::new();
            layouts.samples(&NodeName::new(node).unwrap(), &parts, &mut out);
            out.split("\"name\":\"").skip(1).map(|rest| rest[..1].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (of("n1"), of("n2"), of("n3"), of("n1")),
            (vec!["a".into()], vec!["b".into()], vec![], vec!["a".into()])
        );
    }
}
