//! What comes from the source: columns and rows. A row costs a comparison for each cell that may have changed;
//! only files that somebody has open cost more.

use std::sync::Arc;
use std::time::Instant;

use khz_model::{Absence, NodeName, Reading, Series, Stamp, Stay};

use super::{Cells, Lane, Tree, Value};
use crate::inode::{Inode, NodeId};
use crate::layout::Layout;

/// Layouts that are remembered to be shared with the next node: clusters have few kinds of nodes.
const LAYOUTS_SHARED_MAX: usize = 64;

/// Stamps whose offset to the wall clock differs by more are of different boots.
const SAME_BOOT: u64 = 1_000_000_000;

const NOT_YET: Reading = Reading::Absent(Absence::NotYet);

/// What an interface, disk or job shows that is not there any more.
const GONE: Reading = Reading::Absent(Absence::InstanceGone);

impl Tree {
    /// The hub has taken us in, or is gone.
    pub fn connected(&mut self, up: bool, text: &str, now: Instant) {
        self.hub.up = up;
        self.hub.times += u64::from(up);
        self.hub.text = text.to_owned();
        if !up {
            self.forget_answers();
            self.forget_texts_answers();
            self.lose_list();
        }
        // Nobody could answer meanwhile.
        self.by.begin_anew(now);
        if !up && self.options.strict {
            let files: Vec<Inode> = self.files.keys().copied().collect();
            files.into_iter().for_each(|inode| self.soil(inode));
            self.drop_all_cached(None);
        }
        self.stir_all();
    }

    /// In strict mode the files of a node give errors while it is down.
    pub(super) fn soil_node(&mut self, id: NodeId) {
        let files: Vec<Inode> = self.files.keys().filter(|inode| inode.node == id).copied().collect();
        files.into_iter().for_each(|inode| self.soil(inode));
        self.drop_all_cached(Some(id));
    }

    /// The columns of a lane are these from now on.
    pub fn columns(&mut self, lane: u64, wish: u32, node: &NodeName, columns: &Arc<Vec<Series>>) {
        let Some(id) = self.node_or_new(node) else { return };
        let cells = match self.wishes.metric_of(wish).map(Arc::from) {
            Some(metric) => {
                self.by.columns(&metric, lane, id, columns);
                Cells::By(metric)
            }
            None => {
                if self.wishes.is_of_everything(wish) {
                    self.lay_out(id, columns);
                }
                Cells::Node(self.slots(id, columns))
            }
        };
        self.lanes.insert(lane, Lane { node: id, wish, stamp: Stamp::default(), cells });
        if columns.is_empty() {
            // No row will come.
            self.answer(id, lane, wish);
        }
        self.stir(id);
    }

    /// Gives a node the tree of its series, and takes its values over into it.
    fn lay_out(&mut self, id: NodeId, columns: &Arc<Vec<Series>>) {
        let known = |layout: &&Arc<Layout>| Arc::ptr_eq(&layout.series, columns) || layout.series == *columns;
        let layout = match self.layouts.iter().find(known) {
            Some(layout) => layout.clone(),
            None => {
                let layout = Arc::new(Layout::new(&mut self.names, self.fixed.metrics, columns.clone()));
                self.counts.series_left_out += layout.left_out() as u64;
                if self.layouts.len() == LAYOUTS_SHARED_MAX {
                    self.layouts.remove(0);
                }
                self.layouts.push(layout.clone());
                layout
            }
        };
        let Some(node) = self.node_mut(id) else { return };
        let before = node.layout.replace(layout.clone());
        let old = |path| before.as_ref()?.slot(path);
        let stay = Stay::default();
        let none = Value { reading: NOT_YET, stamp: Stamp::default(), lane: 0, watched: false, stay };
        let taken =
            |path: &Option<_>| path.and_then(old).and_then(|slot| node.values.get(slot as usize).copied());
        node.values = layout.paths.iter().map(|path| taken(path).unwrap_or(none)).collect();
        if before.is_none() {
            return;
        }
        // The slots of its other lanes are others now.
        let others: Vec<u64> =
            self.lanes.iter().filter(|(_, lane)| lane.node == id).map(|(&lane, _)| lane).collect();
        for lane in others {
            if let Some(Lane { cells: Cells::Node(slots), .. }) = self.lanes.get_mut(&lane) {
                remap(slots, before.as_deref(), &layout);
            }
        }
    }

    fn slots(&self, id: NodeId, columns: &[Series]) -> Vec<Option<u32>> {
        let Some(layout) = self.node(id).and_then(|node| node.layout.as_ref()) else {
            return vec![None; columns.len()];
        };
        if columns == layout.series.as_slice() {
            return (0..columns.len() as u32).map(Some).collect();
        }
        let mut way = |series: &Series| {
            let instance = series.instance.as_ref().map(ToString::to_string);
            let words = series.metric.name.split('.').chain(instance.as_deref());
            let path =
                words.into_iter().try_fold(self.fixed.metrics, |at, word| self.names.find(at, word))?;
            let own = self.names.find(path, crate::layout::OF_DIRECTORY);
            layout.slot(path).or_else(|| layout.slot(own?))
        };
        columns.iter().map(&mut way).collect()
    }

    /// A row: the columns that may have changed.
    pub fn row(&mut self, lane: u64, stamp: Stamp, cells: &mut dyn Iterator<Item = (usize, Reading)>) {
        self.counts.rows += 1;
        let Some(Lane { node: id, wish, stamp: last, cells: places }) = self.lanes.get_mut(&lane) else {
            return;
        };
        *last = stamp;
        let (id, wish) = (*id, *wish);
        match places {
            Cells::By(metric) => {
                self.by.row(metric, lane, id, cells);
                self.stir(id);
            }
            Cells::Node(slots) => {
                let slots = std::mem::take(slots);
                self.answer(id, lane, wish);
                self.take_row(id, lane, stamp, &slots, cells);
                if let Some(Lane { cells: Cells::Node(place), .. }) = self.lanes.get_mut(&lane) {
                    *place = slots;
                }
            }
        }
    }

    fn take_row(
        &mut self,
        id: NodeId,
        lane: u64,
        stamp: Stamp,
        slots: &[Option<u32>],
        cells: &mut dyn Iterator<Item = (usize, Reading)>,
    ) {
        let Some(node) = self.nodes.get_mut(id.0 as usize - 1) else { return };
        let mut changed = Vec::new();
        for (column, reading) in cells {
            let slot = slots.get(column).copied().flatten();
            let Some((slot, value)) = slot.and_then(|slot| Some((slot, node.values.get_mut(slot as usize)?)))
            else {
                continue;
            };
            if is_older(stamp, value.stamp) {
                continue;
            }
            if value.watched && value.reading != reading {
                changed.push(slot);
            }
            (value.reading, value.stamp, value.lane) = (reading, stamp, lane);
            value.stay.look(reading != GONE, stamp.boot);
        }
        let paths = node.layout.as_ref().map(|layout| layout.clone());
        for slot in changed {
            let path = paths.as_ref().and_then(|layout| layout.paths.get(slot as usize).copied().flatten());
            if let Some(path) = path {
                self.changed(Inode::plain(id, path));
            }
        }
        self.stir(id);
    }

    /// Nothing more comes in a lane.
    pub fn closed(&mut self, lane: u64) {
        if let Some(known) = self.lanes.remove(&lane) {
            self.silence(lane, &known);
        }
    }

    /// A lane has said what there is: where it has all series of a node, the node's values are of now from here on.
    fn answer(&mut self, id: NodeId, lane: u64, wish: u32) {
        let has_answered = self.node(id).is_none_or(|node| node.answered.is_some());
        if !has_answered
            && self.wishes.is_of_everything(wish)
            && let Some(node) = self.node_mut(id)
        {
            node.answered = Some(lane);
        }
    }

    /// What a lane has said is not of now any more.
    fn silence(&mut self, lane: u64, known: &Lane) {
        match &known.cells {
            Cells::By(metric) => self.by.silence(metric, lane, known.node),
            Cells::Node(_) => {
                if let Some(node) = self.node_mut(known.node).filter(|node| node.answered == Some(lane)) {
                    node.answered = None;
                }
            }
        }
    }

    /// Wishes were taken back: what comes when they are said again is news.
    pub(super) fn forget_wishes(&mut self, gone: &[u32]) {
        let lanes = std::mem::take(&mut self.lanes);
        lanes.iter().filter(|(_, known)| gone.contains(&known.wish)).for_each(|(&lane, known)| {
            self.silence(lane, known);
        });
        self.lanes = lanes;
    }

    /// The connection is over: what comes on the next one is news.
    fn forget_answers(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.answered = None);
        self.by.silence_all();
    }

    /// A wish was refused or is served more slowly.
    pub fn told(&mut self, text: &str) {
        self.counts.told += 1;
        text.clone_into(&mut self.counts.told_last);
        self.error = format!("{text}\n");
    }

    /// The value of a file, if there ever was one, and when it was gathered.
    pub(super) fn value(&self, inode: Inode) -> Option<(Reading, Stamp, u8)> {
        let (value, places) = self.kept(inode)?;
        let stamp = self.lanes.get(&value.lane).map_or(value.stamp, |lane| lane.stamp);
        Some((value.reading, stamp, places))
    }

    /// True where an instance has just gone: its file is still listed, and empty.
    pub(super) fn has_just_gone(&self, inode: Inode) -> bool {
        let Some((value, _)) = self.kept(inode).filter(|(value, _)| value.reading == GONE) else {
            return false;
        };
        // Time is what the newest row says: while none comes nothing changes.
        self.lanes.get(&value.lane).is_some_and(|lane| value.stay.is_listed(lane.stamp.boot))
    }

    /// The value of a file, if there ever was one, and its decimal places.
    pub(super) fn kept(&self, inode: Inode) -> Option<(&Value, u8)> {
        let node = self.node(inode.node)?;
        let layout = node.layout.as_ref()?;
        let slot = layout.slot(inode.path)? as usize;
        let value = node.values.get(slot).filter(|value| value.reading != NOT_YET)?;
        Some((value, layout.series[slot].metric.places))
    }
}

/// True when a row was gathered before another of the same boot.
fn is_older(stamp: Stamp, other: Stamp) -> bool {
    stamp.boot < other.boot && stamp.real_offset.abs_diff(other.real_offset) < SAME_BOOT
}

/// Slots of one layout as those of another.
fn remap(slots: &mut [Option<u32>], before: Option<&Layout>, after: &Layout) {
    for slot in slots {
        let path = slot.and_then(|slot| before?.paths.get(slot as usize).copied().flatten());
        *slot = path.and_then(|path| after.slot(path));
    }
}
