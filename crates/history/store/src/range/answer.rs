//! The common state of all answers: the question, its nodes, the memory of the answer, and its progress.

use std::collections::BTreeSet;
use std::sync::Arc;

use khz_model::hostlist::{EXPAND_MAX, Hostlist};
use khz_model::pattern::named_nodes;
use khz_model::{
    Nanos, NodeName, Pattern, QueryError, RangePart, RangePoint, RangeRequest, RangeShape, Share,
};

use crate::StoreError;
use crate::file::ColumnFile;
use crate::joined::Rows;
use crate::lane_of::are_of_channel;
use crate::limits::{BUCKETS_MAX, RANGE_QUERY_BYTES};
use crate::range::RangeReader;
use crate::range::ahead::COLUMNS_AHEAD;
use crate::range::chosen::Chosen;
use crate::range::live::{LiveReader, LiveRows};
use crate::range::strand::{SeriesList, Strip};

/// Damages that an answer remembers until somebody asks for them: a disk that fails fails everywhere.
const DAMAGES_MAX: usize = 64;

/// A question that is being answered.
pub(crate) struct Asked {
    pub reader: RangeReader,
    pub patterns: Vec<Pattern>,
    pub from: Nanos,
    pub to: Nanos,
    share: Share,
    /// Its memory besides the rows of a node.
    least: u64,
    /// Readings or points given.
    given: u64,
    pub damage: Vec<StoreError>,
    pub chosen: Chosen,
    /// How many nodes were selected last.
    nodes: usize,
    /// Rows of channels are left out.
    is_of_base: bool,
}

impl Asked {
    pub fn new(reader: RangeReader, request: RangeRequest) -> Result<Self, QueryError> {
        let RangeRequest { patterns, from, to, shape } = request;
        let buckets = match shape {
            // More than that are refused where they are counted.
            RangeShape::Points(points) if points as usize <= BUCKETS_MAX => u64::from(points),
            RangeShape::Buckets(length) => {
                to.0.saturating_sub(from.0).div_ceil(length.0.max(1)).min(BUCKETS_MAX as u64)
            }
            _ => 0,
        };
        let least = RANGE_QUERY_BYTES + buckets * size_of::<RangePoint>() as u64;
        let share = reader.budget.take(least).ok_or_else(|| full(&reader))?;
        Ok(Asked {
            reader,
            patterns,
            from,
            to,
            share,
            least,
            given: 0,
            damage: Vec::new(),
            chosen: Chosen::default(),
            nodes: 1,
            is_of_base: false,
        })
    }

    /// The same of base lanes only.
    pub fn of_base(self) -> Self {
        Asked { is_of_base: true, ..self }
    }

    /// From now on the answer holds this much beside what every answer may.
    pub fn hold(&self, bytes: usize) -> Result<(), QueryError> {
        if self.share.set(self.least + bytes as u64) { Ok(()) } else { Err(full(&self.reader)) }
    }

    /// Counts a part that is given away.
    pub fn give(&mut self, part: RangePart) -> Result<Option<RangePart>, QueryError> {
        self.given += part.content.count() as u64;
        let limit = self.reader.readings_max;
        match self.given > limit {
            true => Err(QueryError::RangeTooLarge { limit }),
            false => Ok(Some(part)),
        }
    }

    /// Returns the damage since the last call.
    pub fn damages(&mut self) -> Vec<String> {
        let mut texts: Vec<String> = self.damage.drain(..).map(|error| error.to_string()).collect();
        texts.dedup();
        texts.truncate(DAMAGES_MAX);
        texts
    }

    /// The selected nodes in the order of their names: those that these files or the log have, or all that the patterns
    /// name.
    pub fn nodes(&mut self, files: &[Arc<ColumnFile>]) -> Vec<NodeName> {
        let selected = self.selected_nodes(files);
        self.nodes = selected.len();
        selected
    }

    fn selected_nodes(&mut self, files: &[Arc<ColumnFile>]) -> Vec<NodeName> {
        let is_countable = |pattern: &Pattern| pattern.nodes().is_some_and(Hostlist::is_countable);
        let named = named_nodes(&self.patterns);
        if self.patterns.iter().all(is_countable) && named.len() < EXPAND_MAX {
            let named: BTreeSet<NodeName> =
                named.iter().filter_map(|name| NodeName::stored(name).ok()).collect();
            return named.into_iter().collect();
        }
        let mut nodes: BTreeSet<NodeName> = self.reader.open.nodes().into_iter().collect();
        if let Some(log) = &self.reader.log {
            nodes.extend(log.nodes(None));
        }
        for file in files {
            let (found, damage) = file.nodes();
            nodes.extend(found);
            self.damage.extend(damage);
        }
        let is_selected =
            |node: &NodeName| self.patterns.iter().any(|pattern| pattern.matches_node(node.as_str()));
        nodes.into_iter().filter(is_selected).collect()
    }

    /// The selected rows of a node that are no columns yet.
    pub fn live(&mut self, node: &NodeName, from: Nanos, to: Nanos) -> Vec<Arc<LiveRows>> {
        let open = self.reader.open.of(node, from, to);
        let reader = LiveReader {
            log: self.reader.log.as_ref(),
            unpacked: &self.reader.unpacked,
            chosen: &mut self.chosen,
            patterns: &self.patterns,
            nodes: self.nodes,
            is_of_base: self.is_of_base,
        };
        reader.read(node, open, (from, to), &mut self.damage)
    }

    /// Adds the selected series of a node's strips to a list.
    pub fn select<'a>(
        &mut self,
        node: &NodeName,
        strips: impl Iterator<Item = &'a Strip>,
        all: &mut SeriesList,
    ) {
        let of_node = self.chosen.patterns_of(&self.patterns, node);
        for strip in strips {
            all.add(&strip.selected(|list| self.chosen.of(&self.patterns, &of_node, list)));
        }
    }

    /// The sections of a node in these files that have selected series.
    pub fn sections(&mut self, files: &[Arc<ColumnFile>], node: &NodeName) -> Vec<Strip> {
        let mut strips = Strip::sections(files, node, &self.reader.unpacked, &mut self.damage);
        let of_node = self.chosen.patterns_of(&self.patterns, node);
        strips.retain(|strip| {
            let selected = strip.selected(|list| self.chosen.of(&self.patterns, &of_node, list));
            let is_left_out = self.is_of_base && are_of_channel(strip.series());
            if selected.slots().len() > COLUMNS_AHEAD && !is_left_out {
                strip.expect();
            }
            !is_left_out && !selected.slots().is_empty()
        });
        strips
    }
}

fn full(reader: &RangeReader) -> QueryError {
    QueryError::Full { what: "bytes for all range queries", limit: reader.budget.limit().0 as usize }
}
