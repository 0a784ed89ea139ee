//! The latest reading of every series of every node, and which series a node has. A row costs a comparison for each cell
//! that may have changed; only series whose file is open cost more. It subscribes to nothing.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{Absence, Reading, Series, Stamp, Stay, ValueFormat};

use crate::cluster::layout::Layout;
use crate::inode::{Inode, NodeId, PathId};
use crate::names::Names;

/// Layouts that are kept for the next node with the same series: clusters have few kinds of nodes.
const LAYOUTS_SHARED_MAX: usize = 64;

/// Rows whose offsets to the wall clock differ by more are of different boots.
const SAME_BOOT: u64 = 1_000_000_000;

const NOT_YET: Reading = Reading::Absent(Absence::NotYet);

/// The reading of an interface, disk or job that is no longer there.
const GONE: Reading = Reading::Absent(Absence::InstanceGone);

/// What is known of all nodes' series.
pub(crate) struct Values {
    /// The directory of series, in every node.
    top: PathId,
    nodes: HashMap<NodeId, NodeValues>,
    lanes: HashMap<u64, Lane>,
    layouts: Vec<Arc<Layout>>,
    /// Series that could not become files.
    left_out: u64,
}

#[derive(Default)]
struct NodeValues {
    layout: Option<Arc<Layout>>,
    /// By slot of the layout.
    values: Vec<Value>,
    /// The lane that has all series of the node and sends rows: as long as there is one, the values are current.
    current_lane: Option<u64>,
}

impl NodeValues {
    /// What a lane has sent is stale from now on.
    fn end_lane(&mut self, lane: u64) {
        self.current_lane = self.current_lane.filter(|&current| current != lane);
    }
}

/// The latest reading of a series.
#[derive(Clone, Copy, Debug)]
struct Value {
    reading: Reading,
    stamp: Stamp,
    lane: u64,
    /// Its file is open.
    watched: bool,
    /// Whether it is listed, by the node's boot clock.
    stay: Stay,
}

/// A lane of the upstream.
struct Lane {
    node: NodeId,
    subscription: u32,
    /// It has all series of its node.
    has_all: bool,
    stamp: Stamp,
    /// The slot of each column.
    slots: Vec<Option<u32>>,
}

/// The columns of a lane.
pub(crate) struct Columns<'a> {
    /// The lane's number at the upstream.
    pub lane: u64,
    /// The subscription that it serves.
    pub subscription: u32,
    /// They are all series of the node.
    pub has_all: bool,
    /// The node.
    pub node: NodeId,
    /// The series.
    pub series: &'a Arc<Vec<Series>>,
}

impl Values {
    /// Nothing is known; series stand below `top` in every node.
    pub fn new(top: PathId) -> Self {
        Values { top, nodes: HashMap::new(), lanes: HashMap::new(), layouts: Vec::new(), left_out: 0 }
    }

    /// A lane has these columns from here on.
    pub fn columns(&mut self, columns: &Columns<'_>, names: &mut Names) {
        let &Columns { lane, subscription, has_all, node, series } = columns;
        if has_all {
            self.lay_out(node, series, names);
        }
        let slots = self.slots(node, series, names);
        self.lanes.insert(lane, Lane { node, subscription, has_all, stamp: Stamp::default(), slots });
        // A lane without columns has no rows: this is its answer.
        if series.is_empty() && has_all {
            self.nodes.entry(node).or_default().current_lane.get_or_insert(lane);
        }
    }

    /// Gives a node the tree of its series; values that it has already keep their place in it.
    fn lay_out(&mut self, id: NodeId, series: &Arc<Vec<Series>>, names: &mut Names) {
        let layout = self.shared_layout(series, names);
        let node = self.nodes.entry(id).or_default();
        let before = node.layout.replace(layout.clone());
        let old = |path| before.as_ref()?.slot(path);
        let (stamp, stay) = (Stamp::default(), Stay::default());
        let none = Value { reading: NOT_YET, stamp, lane: 0, watched: false, stay };
        let kept =
            |path: &Option<_>| path.and_then(old).and_then(|slot| node.values.get(slot as usize).copied());
        node.values = layout.paths.iter().map(|path| kept(path).unwrap_or(none)).collect();
        if before.is_some() {
            let others = self.lanes.values_mut().filter(|lane| lane.node == id);
            others.for_each(|lane| remap(&mut lane.slots, before.as_deref(), &layout));
        }
    }

    fn shared_layout(&mut self, series: &Arc<Vec<Series>>, names: &mut Names) -> Arc<Layout> {
        let is_it = |layout: &&Arc<Layout>| Arc::ptr_eq(&layout.series, series) || layout.series == *series;
        if let Some(layout) = self.layouts.iter().find(is_it) {
            return layout.clone();
        }
        let layout = Arc::new(Layout::new(names, self.top, series.clone()));
        self.left_out += layout.left_out() as u64;
        if self.layouts.len() == LAYOUTS_SHARED_MAX {
            self.layouts.remove(0);
        }
        self.layouts.push(layout.clone());
        layout
    }

    /// Where the columns of a lane belong in its node's layout.
    fn slots(&self, id: NodeId, series: &[Series], names: &Names) -> Vec<Option<u32>> {
        let Some(layout) = self.layout(id) else { return vec![None; series.len()] };
        if series == layout.series.as_slice() {
            return (0..series.len() as u32).map(Some).collect();
        }
        series.iter().map(|one| layout.find(names, self.top, one)).collect()
    }

    /// A row: the columns that may have changed. Returns the lane's node and the open files whose reading has changed;
    /// `None`: the lane is not one of ours.
    pub fn row(
        &mut self,
        lane: u64,
        stamp: Stamp,
        cells: &mut dyn Iterator<Item = (usize, Reading)>,
    ) -> Option<(NodeId, Vec<Inode>)> {
        let known = self.lanes.get_mut(&lane)?;
        known.stamp = stamp;
        let id = known.node;
        let node = self.nodes.entry(id).or_default();
        if known.has_all {
            node.current_lane.get_or_insert(lane);
        }
        let mut changed = Vec::new();
        for (column, reading) in cells {
            let Some(slot) = known.slots.get(column).copied().flatten() else { continue };
            let Some(value) = node.values.get_mut(slot as usize) else { continue };
            if is_older(stamp, value.stamp) {
                continue;
            }
            if value.watched && value.reading != reading {
                let path = node.layout.as_ref().and_then(|layout| *layout.paths.get(slot as usize)?);
                changed.extend(path.map(|path| Inode::plain(id, path)));
            }
            (value.reading, value.stamp, value.lane) = (reading, stamp, lane);
            value.stay.note(reading != GONE, stamp.boot);
        }
        Some((id, changed))
    }

    /// Nothing more comes in a lane.
    pub fn close(&mut self, lane: u64) {
        if let Some(known) = self.lanes.remove(&lane)
            && let Some(node) = self.nodes.get_mut(&known.node)
        {
            node.end_lane(lane);
        }
    }

    /// Subscriptions have ended. Rows of theirs that are still under way do not make a node's values current.
    pub fn unsubscribed(&mut self, gone: &[u32]) {
        for (&lane, known) in self.lanes.iter_mut().filter(|(_, lane)| gone.contains(&lane.subscription)) {
            known.has_all = false;
            if let Some(node) = self.nodes.get_mut(&known.node) {
                node.end_lane(lane);
            }
        }
    }

    /// Forgets nodes, with their lanes.
    pub fn forget(&mut self, is_gone: impl Fn(NodeId) -> bool) {
        self.nodes.retain(|&id, _| !is_gone(id));
        self.lanes.retain(|_, lane| !is_gone(lane.node));
    }

    /// The nodes of which something is known.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.keys().copied()
    }

    /// The connection is over: no node's values are current.
    pub fn disconnected(&mut self) {
        self.nodes.values_mut().for_each(|node| node.current_lane = None);
    }

    /// True while rows with all series of a node come.
    pub fn is_current(&self, id: NodeId) -> bool {
        self.nodes.get(&id).is_some_and(|node| node.current_lane.is_some())
    }

    /// The series of a node as a directory tree, if they are known.
    pub fn layout(&self, id: NodeId) -> Option<&Arc<Layout>> {
        self.nodes.get(&id)?.layout.as_ref()
    }

    /// The latest reading of a file, if there ever was one, and its decimal places.
    pub fn reading(&self, inode: Inode) -> Option<(Reading, ValueFormat)> {
        let (value, series) = self.value(inode)?;
        Some((value.reading, series.metric.format()))
    }

    /// When the reading of a file was gathered last: each row of its lane confirms it.
    pub fn gathered(&self, inode: Inode) -> Option<Stamp> {
        let (value, _) = self.value(inode)?;
        Some(self.lanes.get(&value.lane).map_or(value.stamp, |lane| lane.stamp))
    }

    fn value(&self, inode: Inode) -> Option<(&Value, &Series)> {
        let node = self.nodes.get(&inode.node)?;
        let layout = node.layout.as_ref()?;
        let slot = layout.slot(inode.path)? as usize;
        let value = node.values.get(slot).filter(|value| value.reading != NOT_YET)?;
        Some((value, layout.series.get(slot)?))
    }

    /// The series of a file.
    pub fn series(&self, inode: Inode) -> Option<&Series> {
        let layout = self.layout(inode.node)?;
        layout.series.get(layout.slot(inode.path)? as usize)
    }

    /// Every series of a node with its latest reading.
    pub fn all(&self, id: NodeId) -> impl Iterator<Item = (&Series, Reading)> {
        let node = self.nodes.get(&id);
        let series = node.into_iter().flat_map(|node| &node.layout).flat_map(|layout| layout.series.iter());
        let readings = node.into_iter().flat_map(|node| &node.values).map(|value| value.reading);
        series.zip(readings)
    }

    /// True when a file, or some file below a directory, has a value now or is of an instance that has just gone. Listings
    /// leave out what is absent or failed, so that a program that walks the tree can read every file that it finds.
    pub fn is_listed(&self, node: NodeId, path: PathId) -> bool {
        let inode = Inode::plain(node, path);
        if let Some((reading, _)) = self.reading(inode) {
            return reading.value().is_some() || self.has_just_gone(inode);
        }
        let entries = self.layout(node).and_then(|layout| layout.entries(path)).unwrap_or_default();
        entries.iter().any(|&path| self.is_listed(node, path))
    }

    /// True for a file whose instance has just gone: the file is still listed, and empty.
    pub fn has_just_gone(&self, inode: Inode) -> bool {
        let Some((value, _)) = self.value(inode).filter(|(value, _)| value.reading == GONE) else {
            return false;
        };
        // The newest row of the lane tells the time: while no row comes, nothing changes.
        self.lanes.get(&value.lane).is_some_and(|lane| value.stay.is_listed(lane.stamp.boot))
    }

    /// The names of metrics without instances that some node is known to have.
    pub fn plain_metrics(&self) -> impl Iterator<Item = &str> {
        let series = self.layouts.iter().flat_map(|layout| layout.series.iter());
        series.filter(|one| one.instance.is_none()).map(|one| one.metric.name.as_ref())
    }

    /// Sets whether [`Values::row`] reports changes of a file.
    pub fn watch(&mut self, inode: Inode, watched: bool) {
        let Some(node) = self.nodes.get_mut(&inode.node) else { return };
        let slot = node.layout.as_ref().and_then(|layout| layout.slot(inode.path));
        if let Some(value) = slot.and_then(|slot| node.values.get_mut(slot as usize)) {
            value.watched = watched;
        }
    }

    /// Series that could not become files.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// True when a row was gathered before another of the same boot.
fn is_older(stamp: Stamp, other: Stamp) -> bool {
    stamp.boot < other.boot && stamp.real_offset.abs_diff(other.real_offset) < SAME_BOOT
}

/// Turns slots of one layout into those of another.
fn remap(slots: &mut [Option<u32>], before: Option<&Layout>, after: &Layout) {
    for slot in slots {
        let path = slot.and_then(|slot| before?.paths.get(slot as usize).copied().flatten());
        *slot = path.and_then(|path| after.slot(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::series;
    use khz_model::Nanos;

    const NODE: NodeId = NodeId(1);

    struct Lab {
        values: Values,
        names: Names,
    }

    impl Lab {
        fn new() -> Self {
            Lab { values: Values::new(Names::TOP), names: Names::new() }
        }

        fn columns(&mut self, lane: u64, has_all: bool, metrics: &[&str]) {
            let series: Vec<Series> = metrics.iter().map(|metric| series(metric, None)).collect();
            let columns =
                Columns { lane, subscription: lane as u32, has_all, node: NODE, series: &Arc::new(series) };
            self.values.columns(&columns, &mut self.names);
        }

        fn row(&mut self, lane: u64, seconds: u64, values: &[u64]) -> Vec<Inode> {
            let stamp = Stamp { boot: Nanos(seconds * 1_000_000_000), real_offset: 0 };
            let mut cells = values.iter().map(|&value| Reading::Present(value)).enumerate();
            self.values.row(lane, stamp, &mut cells).unwrap().1
        }

        fn file(&self, metric: &str) -> Inode {
            let path = metric.split('.').fold(Names::TOP, |at, word| self.names.find(at, word).unwrap());
            Inode::plain(NODE, path)
        }

        fn value(&self, metric: &str) -> Option<u64> {
            self.values.reading(self.file(metric)).and_then(|(reading, _)| reading.value())
        }
    }

    #[test]
    fn values_keep_their_places_when_the_series_of_a_node_change() {
        let mut lab = Lab::new();
        lab.columns(1, true, &["a.x", "b.x"]);
        lab.columns(2, false, &["b.x"]);
        lab.row(1, 1, &[10, 20]);
        lab.columns(1, true, &["c.x", "b.x"]);
        assert_eq!((lab.value("b.x"), lab.value("c.x")), (Some(20), None));
        lab.row(2, 2, &[21]);
        assert_eq!(lab.value("b.x"), Some(21), "the slots of the other lane have moved too");
    }

    #[test]
    fn an_older_row_of_a_slower_lane_changes_nothing() {
        let mut lab = Lab::new();
        lab.columns(1, true, &["a.x"]);
        lab.columns(2, false, &["a.x"]);
        lab.row(2, 5, &[50]);
        lab.row(1, 4, &[40]);
        assert_eq!(lab.value("a.x"), Some(50));
    }

    #[test]
    fn a_row_reports_only_changes_of_files_that_are_watched() {
        let mut lab = Lab::new();
        lab.columns(1, true, &["a.x", "b.x"]);
        lab.row(1, 1, &[1, 1]);
        let file = lab.file("a.x");
        lab.values.watch(file, true);
        assert_eq!(lab.row(1, 2, &[2, 2]), [file]);
        assert_eq!(lab.row(1, 3, &[2, 3]), []);
    }

    #[test]
    fn values_are_current_while_a_lane_with_all_series_sends_rows() {
        let mut lab = Lab::new();
        lab.columns(1, true, &["a.x"]);
        lab.columns(2, false, &["a.x"]);
        lab.row(2, 1, &[1]);
        assert!(!lab.values.is_current(NODE));
        lab.row(1, 2, &[1]);
        assert!(lab.values.is_current(NODE));
        lab.values.unsubscribed(&[1]);
        lab.row(1, 3, &[1]);
        assert!(!lab.values.is_current(NODE), "that row was under way when the subscription ended");
        lab.columns(3, true, &[]);
        assert!(lab.values.is_current(NODE), "it says that the node has nothing");
        lab.values.close(3);
        assert!(!lab.values.is_current(NODE));
    }
}
