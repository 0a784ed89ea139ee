//! The rings of the lanes: files in the node's directory for the plan's lanes, anonymous memory for lanes
//! that readers open. It decides the size of each ring, and what to do when there is no room.

use khz_block::{Encoder, ROW_LABELS_MAX};
use khz_model::{ByteSize, Nanos, Rate};
use khz_ring::{
    Folder, Found, Label, MEMORY_PAGE_BYTES, Ring, RingError, SnapshotLabel, SnapshotWriter, random_epoch,
};

use crate::clock;
use crate::error::GatherError;
use crate::machine::Machine;
use crate::plan::{Plan, RingSize};

/// A ring in a file is never smaller than this: less would hold too little history to be worth a file.
const FILE_BYTES_MIN: u64 = 1 << 20;

/// The number of the base lane.
const BASE: u16 = 0;

/// The consequence of a ring without a file.
const WITHOUT_FILE: &str = "is recorded in memory without a name, which ends with this process: nothing is left to be read after a crash";

/// The most that the ring of a lane that readers open keeps: this part of the rings' memory, but at least so much. With more lanes it is
/// less (`lane_memory.rs`).
const BOOST_PART: u64 = 16;
const BOOST_BYTES_MIN: u64 = 1 << 20;
/// A ring of an open lane is no shorter than that.
const BOOST_BYTES_LEAST: u64 = 16 << 10;

/// The ring of a channel's lane keeps this many rows in which everything changed, within these bounds.
const CHANNEL_ROWS_MIN: u64 = 16;
const CHANNEL_BYTES_MIN: u64 = 4 << 10;
pub(crate) const CHANNEL_BYTES_MAX: u64 = 4 << 20;
/// It also keeps the rows of this time, if they fit into that size. The rows bridge the time until a hub is
/// back, for which the lane lives on. The ring is no recording.
const CHANNEL_SPAN: Nanos = Nanos::from_secs(60);
const CHANNEL_SPAN_BYTES_MAX: u64 = 512 << 10;
/// A ring in memory without a name has room for this many times what it may keep, so that it can give pages back. Room without rows takes
/// no memory.
const ROOM: u64 = 4;

/// The size of a row for each slot, in halves of a byte (`PROMISES.md`): up to 1 Hz, and from 10 Hz on.
const SLOW_HALF_BYTES: u64 = 4;
const FAST_HALF_BYTES: u64 = 1;
/// The size of a row besides its slots.
const ROW_BYTES: u64 = 8;

/// The rings of one agent. Their directory stays locked while this lives.
pub(crate) struct Rings {
    folder: Option<Folder>,
    node: String,
    machine: Machine,
    size: RingSize,
}

/// The facts about a lane that determine the size of its ring.
#[derive(Clone, Copy)]
pub(crate) struct LaneSize {
    /// Its part of the memory of all rings.
    pub part: f64,
    pub rate: Rate,
    pub slots: usize,
}

/// The facts about a channel that say how much its lane's ring keeps.
#[derive(Clone, Copy)]
pub(crate) struct ChannelNeeds {
    /// The slots of a row.
    pub slots: usize,
    /// Some of them are labels.
    pub has_labels: bool,
    /// The shortest time between two rows; 0: not known.
    pub period: Nanos,
}

impl ChannelNeeds {
    pub fn bytes(&self) -> u64 {
        let row = row_bytes_max(self.slots, self.has_labels) as u64;
        let rows = CHANNEL_SPAN.0.checked_div(self.period.0).unwrap_or(0);
        let span = rows.saturating_mul(row).min(CHANNEL_SPAN_BYTES_MAX);
        let bytes = span.max(CHANNEL_ROWS_MIN * row).min(CHANNEL_BYTES_MAX);
        bytes.next_power_of_two().max(CHANNEL_BYTES_MIN)
    }

    /// The shortest ring: half of it has room for a row.
    pub fn bytes_min(&self) -> u64 {
        room_of_two(self.slots, self.has_labels).next_multiple_of(CHANNEL_BYTES_MIN).min(self.bytes())
    }
}

/// The shortest ring of a lane of readings: half of it has room for a row. A lane of very many slots begins a block with
/// each row.
pub(crate) fn boost_bytes_min(slots: usize, has_labels: bool) -> u64 {
    room_of_two(slots, has_labels)
        .next_multiple_of(MEMORY_PAGE_BYTES)
        .clamp(BOOST_BYTES_LEAST, CHANNEL_BYTES_MAX)
}

/// Two rows, one of which has as many labels as a row may have.
fn room_of_two(slots: usize, has_labels: bool) -> u64 {
    (row_bytes_max(slots, false) + row_bytes_max(slots, has_labels)) as u64
}

/// No row of `slots` slots has more bytes.
pub(crate) const fn row_bytes_max(slots: usize, has_labels: bool) -> usize {
    Encoder::row_bytes_max(slots) - if has_labels { 0 } else { ROW_LABELS_MAX }
}

impl Rings {
    /// Locks the plan's directory. It is an error if another agent holds the lock. If the directory cannot be
    /// used (a read-only file system, or another user's directory), the agent runs without files.
    pub fn open(plan: &Plan) -> Result<Self, GatherError> {
        let folder = match plan.ring_folder.as_deref().map(Folder::lock).transpose() {
            Err(error @ RingError::Locked { .. }) => return Err(error.into()),
            Err(error) => {
                tracing::warn!("{error}: every lane {WITHOUT_FILE}, and programs find no snapshot");
                None
            }
            Ok(folder) => folder,
        };
        if let Some(Err(error)) = folder.as_ref().filter(|_| plan.keep_rings).map(Folder::keep) {
            tracing::warn!("{error}: a clean end of khz may remove these rings");
        }
        Ok(Rings { folder, node: plan.node.to_string(), machine: Machine::this(), size: plan.ring })
    }

    /// The ring of a lane of the plan.
    pub fn of_plan(&self, number: u16, lane: &str, size: LaneSize) -> Result<Ring, RingError> {
        let bytes = self.bytes(size);
        let label = self.label(number, lane);
        let Some(folder) = &self.folder else { return Ring::anonymous(bytes, label) };
        let period = size.rate.period();
        let open = |bytes| match number {
            BASE => folder.leading_ring(label.clone(), bytes, period),
            _ => folder.ring_at(label.clone(), bytes, period),
        };
        let (ring, found) = match in_file(folder, &label, bytes, open) {
            Err(error @ RingError::NoMemory { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!("lane {lane}: {error}: it {WITHOUT_FILE}");
                return Ring::anonymous(bytes, label);
            }
            Ok(found) => found,
        };
        match found {
            Found::Nothing => {}
            Found::TakenUp => tracing::info!("lane {lane}: its ring continues at row {}", ring.next_row),
            Found::PutAside(why) => {
                tracing::info!(
                    "lane {lane}: the existing ring could not be continued and is now {lane}.ring.old: {why}"
                );
            }
        }
        Ok(ring)
    }

    /// The most that the ring of a lane that readers opened keeps.
    pub fn boost_bytes(&self) -> u64 {
        match self.size {
            RingSize::Bytes(ByteSize(bytes)) => (bytes / BOOST_PART).max(BOOST_BYTES_MIN),
            RingSize::Span(_) => BOOST_BYTES_MIN.max((64 << 20) / BOOST_PART),
        }
    }

    /// The ring of a lane that readers opened. It keeps little before the lane has its share.
    pub fn of_readers(&self, number: u16, lane: &str) -> Result<Ring, RingError> {
        let room = ROOM * self.boost_bytes().max(CHANNEL_BYTES_MAX);
        let mut ring = Ring::anonymous(room, self.label(number, lane))?;
        ring.writer.keep(BOOST_BYTES_LEAST);
        Ok(ring)
    }

    /// The ring of a channel's lane. It has room for more rows than it keeps ([`ChannelNeeds::bytes`]): there may be more slots.
    pub fn of_channel(&self, number: u16, lane: &str) -> Result<Ring, RingError> {
        let mut ring = Ring::anonymous(ROOM * CHANNEL_BYTES_MAX, self.label(number, lane))?;
        ring.writer.keep(CHANNEL_BYTES_MIN);
        Ok(ring)
    }

    /// The size of a lane's ring. A span is rounded up to a power of two, because rings round down.
    fn bytes(&self, lane: LaneSize) -> u64 {
        match self.size {
            RingSize::Bytes(ByteSize(bytes)) => (bytes as f64 * lane.part) as u64,
            RingSize::Span(span) => span_bytes(span, lane).next_power_of_two(),
        }
    }

    /// A snapshot beside the files of the rings, if they have files.
    pub fn snapshot(&self) -> Option<Result<SnapshotWriter, RingError>> {
        let Label { node, machine, boot, epoch, created, .. } = self.label(0, "");
        Some(self.folder.as_ref()?.snapshot(&SnapshotLabel { node, machine, boot, epoch, created }))
    }

    /// The label of a new ring.
    pub fn label(&self, number: u16, lane: &str) -> Label {
        Label {
            node: self.node.clone(),
            lane: lane.to_owned(),
            number,
            machine: self.machine.id,
            boot: self.machine.boot,
            epoch: random_epoch(),
            created: clock::stamp().real().0,
        }
    }
}

/// The most bytes that the rows of a lane take in this time.
fn span_bytes(span: Nanos, lane: LaneSize) -> u64 {
    const MS: u64 = 1_000_000;
    let period = lane.rate.period().0.clamp(100 * MS, 1_000 * MS);
    let (least, most) = (FAST_HALF_BYTES, SLOW_HALF_BYTES);
    // Between 10 Hz and 1 Hz, the size grows in proportion to the period.
    let half_bytes = least * 900 * MS + (most - least) * (period - 100 * MS);
    let row = ROW_BYTES + (lane.slots as u128 * u128::from(half_bytes) / u128::from(2 * 900 * MS)) as u64;
    let rows = span.0.div_ceil(lane.rate.period().0);
    rows.saturating_mul(row).min(1 << 36)
}

/// A ring in a file, as large as there is room for, or one in anonymous memory.
fn in_file(
    folder: &Folder,
    label: &Label,
    wanted: u64,
    open: impl Fn(u64) -> Result<(Ring, Found), RingError>,
) -> Result<(Ring, Found), RingError> {
    let lane = &label.lane;
    let mut bytes = wanted;
    loop {
        match open(bytes) {
            Err(error @ RingError::NoRoom { .. }) => {
                tracing::warn!("lane {lane}: {error}");
                // New rows are worth more than the rings that were put aside.
                if folder.remove_old()? {
                    continue;
                }
                if bytes / 2 < FILE_BYTES_MIN {
                    tracing::warn!("lane {lane} {WITHOUT_FILE}");
                    return Ok((Ring::anonymous(wanted, label.clone())?, Found::Nothing));
                }
                bytes /= 2;
            }
            Ok(found) => {
                if bytes < wanted {
                    tracing::warn!(
                        "lane {lane} has a ring of {} instead of {}",
                        ByteSize(bytes),
                        ByteSize(wanted)
                    );
                }
                return Ok(found);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_of_a_channel_keeps_a_minute_of_its_rows_or_some_of_its_largest() {
        let bytes = |slots, has_labels, period| {
            ChannelNeeds { slots, has_labels, period: Nanos::from_millis(period) }.bytes()
        };
        assert_eq!(bytes(1, false, 1_000), 4 << 10);
        assert_eq!(bytes(1, false, 60_000), 4 << 10);
        assert_eq!(bytes(1, false, 0), 4 << 10, "a row on demand");
        assert_eq!(bytes(1, false, 100), 32 << 10);
        assert_eq!(bytes(1, false, 10), 512 << 10);
        assert_eq!(bytes(1, false, 1), 512 << 10);
        assert_eq!(bytes(4_000, false, 1_000), 1 << 20, "sixteen rows");
        assert_eq!(bytes(40_000, false, 1_000), 4 << 20);
        assert_eq!(bytes(1, true, 1_000), 4 << 20, "labels may be long");
    }

    #[test]
    fn with_another_base_rate_no_lane_continues_its_ring() {
        let path = std::env::temp_dir().join(format!("khz-gather-rings-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let epochs = |base_hz: u64| {
            let folder = Some(Folder::lock(&path).unwrap());
            let (machine, size) = (Machine::this(), RingSize::Bytes(ByteSize(4 << 20)));
            let rings = Rings { folder, node: "n1".into(), machine, size };
            [(BASE, "base", base_hz), (1, "local", 10)].map(|(number, lane, hz)| {
                let rate = Rate::from_hz(hz).unwrap();
                let ring = rings.of_plan(number, lane, LaneSize { part: 0.5, rate, slots: 3 }).unwrap();
                ring.writer.set_asked(rate.period());
                ring.reader.label().epoch
            })
        };
        let first = epochs(1);
        assert_eq!(epochs(1), first);
        let second = epochs(10);
        assert!(first.iter().zip(second).all(|(before, now)| *before != now), "{first:?} {second:?}");
        assert_eq!(epochs(10), second);
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_span_takes_what_its_rows_may_take() {
        let lane = |hz, slots| LaneSize { part: 1.0, rate: Rate::from_hz(hz).unwrap(), slots };
        let hour = Nanos::from_secs(3_600);
        assert_eq!(span_bytes(hour, lane(1, 300)), 3_600 * (8 + 600));
        assert_eq!(span_bytes(hour, lane(10, 300)), 36_000 * (8 + 150));
        assert_eq!(span_bytes(hour, lane(1_000, 300)), 3_600_000 * (8 + 150));
        let between = span_bytes(hour, lane(2, 300)) / 7_200;
        assert!((8 + 150..8 + 600).contains(&between), "{between}");
        assert_eq!(span_bytes(Nanos(u64::MAX), lane(1_000, 1 << 19)), 1 << 36);
    }
}
