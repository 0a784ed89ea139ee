//! Which lane a number in a file of a recording means. Numbers count within a file, lanes over all files.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use khz_block::trace::LaneHead;

use crate::recording::header_of;

/// Lanes of one recording: eight for each node of the largest hub.
const LANES_MAX: usize = 32_768;

/// The number of the lane in a trace with one lane.
pub(crate) const ONLY: u32 = u32::MAX;

/// A lane of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    /// The node.
    pub node: Arc<str>,
    /// The lane's name at the node.
    pub name: Arc<str>,
    /// Row numbers count within an epoch.
    pub epoch: u64,
}

/// The lanes so far.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    lanes: Vec<Lane>,
    places: HashMap<Lane, usize>,
    /// In the present file: the place of each lane's number.
    numbers: HashMap<u32, usize>,
    /// The file's name: the node of a trace with one lane.
    file_name: String,
}

impl Numbering {
    /// The next file begins.
    pub fn begin_file(&mut self, path: &Path) {
        self.numbers.clear();
        self.file_name = path.file_stem().map_or_else(|| "node".into(), |name| name.to_string_lossy().into());
    }

    /// A lane is announced. Returns its place, and whether its number meant another lane before.
    pub fn lane(&mut self, head: &LaneHead<'_>) -> Result<(usize, bool), String> {
        let lane = Lane { node: head.node.into(), name: head.name.into(), epoch: head.epoch };
        let place = match self.places.get(&lane) {
            Some(&place) => place,
            None if self.lanes.len() == LANES_MAX => return Err(format!("more than {LANES_MAX} lanes")),
            None => {
                self.places.insert(lane.clone(), self.lanes.len());
                self.lanes.push(lane);
                self.lanes.len() - 1
            }
        };
        let is_another = self.numbers.insert(head.lane, place).is_some_and(|before| before != place);
        Ok((place, is_another))
    }

    /// The place of the lane with this number.
    pub fn place(&self, lane: u32) -> Result<usize, String> {
        self.numbers.get(&lane).copied().ok_or_else(|| format!("lane {lane} was never announced"))
    }

    /// The place of the only lane of a trace, to which this block belongs; with its period, if it is new.
    pub fn only(&mut self, block: &[u8]) -> Result<(usize, Option<u64>), String> {
        if let Some(&place) = self.numbers.get(&ONLY) {
            return Ok((place, None));
        }
        let period = header_of(block)?.period.0;
        let node = std::mem::take(&mut self.file_name);
        let head = LaneHead { lane: ONLY, node: &node, name: "trace", epoch: 0, period };
        Ok((self.lane(&head)?.0, Some(period)))
    }

    /// The lane at a place.
    pub fn at(&self, place: usize) -> &Lane {
        &self.lanes[place]
    }

    /// All lanes, by their places.
    pub fn into_lanes(self) -> Vec<Lane> {
        self.lanes
    }
}
