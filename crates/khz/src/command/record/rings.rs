//! Past rows from the rings of this machine's agents: `khz record --last`.

use khz_model::{Misses, Nanos, Pattern};
use khz_record::Recorder;
use khz_ring::Reader;

use super::flags::RecordFlags;
use super::ring_copy::RingCopy;
use crate::command::recording::of_error;
use crate::command::ring::place::{NodeRings, RingPlace, chosen, find};
use crate::command::ring::{Recording, newest_stamp};
use crate::config::Plan;
use crate::show::misses::{self, Listed};
use crate::show::outcome::Failure;

/// Copies the last `span` of every node that a pattern selects.
pub fn record(
    flags: &RecordFlags,
    plan: &Plan,
    patterns: &[Pattern],
    span: Nanos,
    recorder: &mut Recorder,
) -> Result<Misses, Failure> {
    let place = RingPlace { directory: flags.directory.clone() };
    let mut nodes = find(chosen(&place, plan), None)?;
    let mut listed = Vec::new();
    for rings in &nodes {
        let ring = Recording::of(lane(rings, flags.lane.as_deref())?.clone(), &[], None);
        listed.push((rings.node.clone(), ring.columns));
    }
    let listed = Listed::new(listed.iter().map(|(node, series)| (node.as_str(), series.clone())));
    nodes.retain(|rings| patterns.iter().any(|pattern| pattern.matches_node(&rings.node)));
    if nodes.is_empty() {
        return Err(Failure::work(
            "there are rings here, and no pattern selects their nodes: `khz ring show` names them",
        ));
    }
    let misses = listed.misses(patterns);
    if listed.has_none(patterns) {
        return Err(Failure::Work(misses::sentences(&misses, "in these rings").join("; ")));
    }
    for (number, rings) in (1..).zip(&nodes) {
        let reader = lane(rings, flags.lane.as_deref())?;
        let Some(at) = first_block(reader, span) else { continue };
        let mut copy = RingCopy::new(reader.clone(), number, at);
        copy.begin(recorder, reader.period()).map_err(of_error)?;
        copy.finish(recorder).map_err(of_error)?;
        if copy.overtaken > 0 {
            crate::show::table::remark!(
                "{}: {} blocks were overwritten while they were read, or lack their schema",
                rings.node,
                copy.overtaken
            );
        }
    }
    Ok(misses)
}

/// The named lane, or the fastest one.
fn lane<'a>(rings: &'a NodeRings, name: Option<&str>) -> Result<&'a Reader, Failure> {
    let readers = || rings.lanes.iter().map(|(_, reader)| reader);
    let found = match name {
        Some(name) => readers().find(|reader| reader.label().lane == name),
        None => readers().min_by_key(|reader| reader.period()),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = readers().map(|reader| reader.label().lane.as_str()).collect();
        Failure::work(format!("{} has no such lane; it has {}", rings.node, names.join(", ")))
    })
}

/// The block with the first row of the span: the last one that begins before it.
fn first_block(reader: &Reader, span: Nanos) -> Option<u64> {
    let blocks = reader.blocks();
    let began = |at: &u64| reader.header(*at).map(|header| header.stamp.boot);
    let newest = newest_stamp(reader, *blocks.last()?)?;
    let since = newest.boot.since(span);
    let first = blocks.iter().rposition(|at| began(at).is_some_and(|began| began <= since)).unwrap_or(0);
    blocks.get(first).copied()
}
