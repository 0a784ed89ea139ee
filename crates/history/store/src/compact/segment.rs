//! A sealed segment of the log becomes a piece of each hour that it has rows of, node by node. It holds the rows of one
//! node at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use khz_block::{Decoder, Step};
use khz_model::{Nanos, NodeName, Series};

use crate::StoreError;
use crate::disk::Disk;
use crate::lane_of::lane_of;
use crate::limits::{HOURS_AT_ONCE, NODE_ROWS_BYTES};
use crate::log::{LogView, LoggedBlock, SchemaHash};
use crate::part_file::PartFile;
use crate::rows::{NodeRows, write_section};
use crate::shelf::listing::Listing;
use crate::shelf::{Shelf, Tier, Unit};

/// What came of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Rows that are in pieces now.
    pub rows: u64,
    /// Rows that are older than what is kept.
    pub too_old: u64,
    /// Rows that are later than any honest clock.
    pub too_new: u64,
}

/// Where pieces go.
pub(crate) struct Target<'a> {
    pub disk: &'a Disk,
    pub shelf: &'a Shelf,
    pub listing: &'a Listing,
    /// The times of rows that are taken.
    pub window: Range<u64>,
}

/// Writes the pieces of a segment. After an error some of them may be there, and the segment is taken again as a whole.
pub(crate) fn compact(
    target: &Target<'_>,
    view: &LogView,
    segment: u64,
    damage: &mut Vec<StoreError>,
) -> Result<Taken, StoreError> {
    let nodes = view.nodes(Some(segment));
    let mut pass = Pass::new(target, Chosen::Any);
    loop {
        for node in &nodes {
            let mut found = Vec::new();
            let blocks = view.blocks(node, Some(segment), Nanos(0), Nanos(u64::MAX), &mut found);
            let done = StoreError::refuse_failures(&mut found);
            let done = done.and_then(|()| pass.node(node, &blocks, &mut found));
            if pass.is_first() {
                damage.append(&mut found);
            }
            if let Err(error) = done {
                pass.give_up();
                return Err(error);
            }
        }
        let (taken, waiting) = pass.finish()?;
        let these: BTreeSet<Unit> = waiting.iter().copied().take(HOURS_AT_ONCE).collect();
        if these.is_empty() {
            return Ok(taken);
        }
        let waiting = waiting.difference(&these).copied().collect();
        pass = Pass { taken, waiting, ..Pass::new(target, Chosen::These(these)) };
    }
}

/// The hours whose rows a pass takes.
enum Chosen {
    /// The first ones that come: rows of others wait.
    Any,
    These(BTreeSet<Unit>),
}

/// One pass over the nodes.
struct Pass<'a> {
    target: &'a Target<'a>,
    chosen: Chosen,
    files: BTreeMap<Unit, PartFile<'a>>,
    /// Hours that have rows and must wait for another pass.
    waiting: BTreeSet<Unit>,
    taken: Taken,
    decoder: Decoder,
    /// The series of the last schema.
    columns: Option<(SchemaHash, Arc<Vec<Series>>)>,
    /// The hour of the last row.
    unit: Option<Unit>,
}

impl<'a> Pass<'a> {
    fn new(target: &'a Target<'a>, chosen: Chosen) -> Self {
        Pass {
            target,
            chosen,
            files: BTreeMap::new(),
            waiting: BTreeSet::new(),
            taken: Taken::default(),
            decoder: Decoder::new(),
            columns: None,
            unit: None,
        }
    }

    fn is_first(&self) -> bool {
        matches!(self.chosen, Chosen::Any)
    }

    /// Takes the blocks of a node, lane by lane.
    fn node(
        &mut self,
        node: &NodeName,
        blocks: &[LoggedBlock],
        damage: &mut Vec<StoreError>,
    ) -> Result<(), StoreError> {
        let mut lanes: BTreeMap<&str, Vec<&LoggedBlock>> = BTreeMap::new();
        for block in blocks {
            lanes.entry(lane_of(block.schema.series())).or_default().push(block);
        }
        lanes.into_values().try_for_each(|blocks| self.lane(node, &blocks, damage))
    }

    /// Takes the blocks of one lane of a node.
    fn lane(
        &mut self,
        node: &NodeName,
        blocks: &[&LoggedBlock],
        damage: &mut Vec<StoreError>,
    ) -> Result<(), StoreError> {
        let mut rows = BTreeMap::new();
        for block in blocks {
            let columns = self.columns(block);
            let mut rest = &block.bytes[..];
            loop {
                match self.decoder.step(rest) {
                    Ok(Step::Header(length)) => rest = &rest[length..],
                    Ok(Step::Row(length)) => {
                        rest = &rest[length..];
                        self.row(node, block.shift, &columns, &mut rows)?;
                    }
                    Ok(Step::Incomplete) => break,
                    Err(problem) => {
                        let row = block.header.first_row;
                        damage.push(StoreError::Block { node: node.clone(), row, problem });
                        break;
                    }
                }
            }
            for (unit, rows) in rows.iter_mut().filter(|(_, rows)| rows.held() > NODE_ROWS_BYTES) {
                self.flush(node, *unit, rows)?;
            }
        }
        rows.iter_mut().try_for_each(|(unit, rows)| self.flush(node, *unit, rows))
    }

    /// Adds the decoder's row to those of its hour.
    fn row(
        &mut self,
        node: &NodeName,
        shift: i64,
        columns: &Arc<Vec<Series>>,
        rows: &mut BTreeMap<Unit, NodeRows>,
    ) -> Result<(), StoreError> {
        let time = self.decoder.stamp().real().0.saturating_add_signed(shift);
        let Some(unit) = self.unit_of(time) else { return Ok(()) };
        if !self.takes(unit)? {
            return Ok(());
        }
        let of_unit = rows.entry(unit).or_default();
        // A metric that changed its type begins another section, and so does a row beyond the limit of one.
        if of_unit.columns(columns).is_err() || of_unit.is_full() {
            self.flush(node, unit, of_unit)?;
            of_unit.columns(columns)?;
        }
        of_unit.shift(shift);
        of_unit.decoded(&self.decoder)?;
        self.taken.rows += 1;
        Ok(())
    }

    /// The hour of a row; `None`: it is not taken.
    fn unit_of(&mut self, time: u64) -> Option<Unit> {
        let is_first = u64::from(self.is_first());
        if time < self.target.window.start {
            self.taken.too_old += is_first;
            return None;
        }
        let known = self.unit.filter(|unit| (unit.begin.0..unit.end.0).contains(&time));
        let unit = known.or_else(|| Tier::Raw.unit(Nanos(time)));
        match unit.filter(|_| time < self.target.window.end) {
            Some(unit) => self.unit = Some(unit),
            None => self.taken.too_new += is_first,
        }
        unit.filter(|_| time < self.target.window.end)
    }

    /// True if this pass writes the rows of an hour, whose file then is there.
    fn takes(&mut self, unit: Unit) -> Result<bool, StoreError> {
        if self.files.contains_key(&unit) {
            return Ok(true);
        }
        let may = match &self.chosen {
            Chosen::Any => self.files.len() < HOURS_AT_ONCE && !self.waiting.contains(&unit),
            Chosen::These(these) => these.contains(&unit),
        };
        if !may {
            if self.is_first() {
                self.waiting.insert(unit);
            }
            return Ok(false);
        }
        let Target { disk, shelf, listing, .. } = self.target;
        disk.create_folder(&shelf.tier_folder(Tier::Raw))?;
        let path = shelf.path(unit, listing.next_number(unit));
        self.files.insert(unit, PartFile::create(disk, &path, Nanos(0))?);
        Ok(true)
    }

    /// Writes a section of the rows so far.
    fn flush(&mut self, node: &NodeName, unit: Unit, rows: &mut NodeRows) -> Result<(), StoreError> {
        let rows = std::mem::take(rows);
        match self.files.get_mut(&unit) {
            Some(file) => file.write(|writer| write_section(writer, node, &rows)),
            None => Ok(()),
        }
    }

    fn columns(&mut self, block: &LoggedBlock) -> Arc<Vec<Series>> {
        if let Some((_, columns)) = self.columns.as_ref().filter(|(hash, _)| *hash == block.schema_hash) {
            return columns.clone();
        }
        let columns = Arc::new(block.schema.series().to_vec());
        self.columns = Some((block.schema_hash, columns.clone()));
        columns
    }

    /// Gives the files their names. Returns the hours that wait.
    fn finish(mut self) -> Result<(Taken, BTreeSet<Unit>), StoreError> {
        while let Some((_, file)) = self.files.pop_first() {
            if let Err(error) = file.finish() {
                self.give_up();
                return Err(error);
            }
        }
        Ok((self.taken, self.waiting))
    }

    fn give_up(self) {
        self.files.into_values().for_each(PartFile::remove);
    }
}
