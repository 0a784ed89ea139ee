//! A lane whose rows another thread writes: those of a channel with a program, which a child process executes. Its readers see
//! no difference. It decides nothing about the rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_block::{Encoder, SchemaEncoder};
use khz_model::{
    Absence, ChannelName, ChannelTerms, Instance, Kind, Metric, Nanos, NodeName, Pattern, QueryError,
    Reading, Series, Stamp, Unit, ValueType,
};
use khz_plan::PackedProgram;
use khz_ring::{Ring, RingError, Writer, random_epoch};

use crate::clock;
use crate::lane::LaneView;
use crate::lane_handle::LaneHandle;
use crate::machine::Machine;
use crate::rings::{CHANNEL_BYTES_MAX, ChannelNeeds};

/// The number of such lanes in the headers of their blocks. The gather thread gives lower numbers.
const NUMBER: u16 = u16::MAX;

/// What executes the programs of channels.
pub trait Programs: Send + Sync + std::fmt::Debug {
    /// The lane of a program: one that runs, or a new one. It counts the reader ([`OutsideLane::enter`]).
    ///
    /// # Errors
    /// Returns why this node does not execute it.
    fn follow(&self, wish: ProgramWish) -> Result<OutsideLane, QueryError>;

    /// The counts of each channel with a program, for the agent's own numbers. It must not wait.
    fn counts(&self, each: &mut dyn FnMut(&Instance, ProgramCounts));
}

/// What a program has taken on this node: rows in, rows out, rows lost, failures, fuel, the most fuel of one row, nanoseconds,
/// and bytes of memory.
pub type ProgramCounts = [u64; 8];

/// A program that a reader wants.
pub struct ProgramWish {
    /// The channel.
    pub terms: Arc<ChannelTerms>,
    /// Its program.
    pub program: PackedProgram,
    /// The series of its rows.
    pub patterns: Vec<Pattern>,
    /// This node.
    pub node: NodeName,
    /// The lane with these series.
    pub input: LaneHandle,
}

/// Such a lane, for its readers.
#[derive(Clone, Debug)]
pub struct OutsideLane(pub(crate) Arc<LaneView>);

impl OutsideLane {
    /// One more reader.
    pub fn enter(&self) {
        self.0.readers.fetch_add(1, Ordering::Relaxed);
    }

    /// The readers now, and when the last one left (boot clock); 0: none has left yet.
    pub fn readers(&self) -> (usize, Nanos) {
        (self.0.readers.load(Ordering::Relaxed), self.0.left())
    }

    /// What its readers are to know; empty: nothing.
    pub fn say(&self, text: String) {
        self.0.set_lacks(text);
    }
}

/// The one writer of such a lane.
#[derive(Debug)]
pub struct OutsideRows {
    view: Arc<LaneView>,
    ring: Writer,
    encoder: Encoder,
    metric: Arc<Metric>,
    names: Vec<String>,
    /// The row on its way into the ring.
    bytes: Vec<u8>,
}

impl OutsideRows {
    /// The lane of a channel, whose rows come at most once in `period`.
    ///
    /// # Errors
    /// The kernel has no memory for its ring.
    pub fn new(node: &NodeName, channel: &ChannelName, period: Nanos) -> Result<Self, RingError> {
        let machine = Machine::this();
        let label = khz_ring::Label {
            node: node.to_string(),
            lane: channel.metric(),
            number: NUMBER,
            machine: machine.id,
            boot: machine.boot,
            epoch: random_epoch(),
            created: clock::stamp().real().0,
        };
        let mut ring = Ring::anonymous(CHANNEL_BYTES_MAX, label)?;
        ring.writer.keep(ChannelNeeds { slots: 1, has_labels: false, period }.bytes());
        ring.writer.set_period(period);
        ring.writer.set_asked(period);
        let generation = ring.writer.generation();
        let view = Arc::new(LaneView::written_outside(ring.reader, generation, period));
        let exposed = format!("khz_channel_{channel}");
        let plain = Metric::plain(channel.metric(), exposed, Kind::Gauge, Unit::Count).of_instances("value");
        let metric = Metric { value_type: ValueType::Float, help: "Computed by a program.".into(), ..plain };
        let encoder = Encoder::new(NUMBER, generation, period);
        let (metric, names, bytes) = (Arc::new(metric), Vec::new(), Vec::new());
        Ok(OutsideRows { view, ring: ring.writer, encoder, metric, names, bytes })
    }

    /// The lane for its readers.
    pub fn lane(&self) -> OutsideLane {
        OutsideLane(self.view.clone())
    }

    /// Its rows have these values from now on. If the names differ from those before, another generation begins.
    ///
    /// # Errors
    /// The names have no room in the ring; its rows stay as they were.
    pub fn set_names(&mut self, names: Vec<String>) -> Result<(), &'static str> {
        if names == self.names {
            return Ok(());
        }
        let of = |name: &String| Series {
            metric: self.metric.clone(),
            instance: Some(Instance::from_kernel(name.as_bytes())),
        };
        let series: Vec<Series> = names.iter().map(of).collect();
        let (mut encoder, mut bytes) = (SchemaEncoder::default(), Vec::new());
        for one in &series {
            encoder.append(one, &mut bytes).map_err(|_| "a name is too long")?;
        }
        if let Some(header) = self.encoder.close() {
            self.ring.close(&header);
        }
        self.ring.keep(
            ChannelNeeds { slots: series.len(), has_labels: false, period: self.view.period() }.bytes(),
        );
        self.ring.begin_generation(&bytes).map_err(|_| "there is no memory for the names of its values")?;
        self.encoder.resume(self.encoder.rows(), self.ring.generation());
        let described = (self.ring.generation(), Arc::new(series));
        *self.view.schema.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = described;
        self.names = names;
        Ok(())
    }

    /// A row of values, in the order of the names; those that are no number are absent. `false`: it has no room.
    pub fn row(&mut self, stamp: Stamp, values: &[f64]) -> bool {
        const PRESENT: u8 = Reading::Present(0).state();
        const ABSENT: u8 = Reading::Absent(Absence::NoResult).state();
        let slots = self.names.len();
        let cell = |slot: usize| match values.get(slot).filter(|value| !value.is_nan()) {
            Some(value) => (PRESENT, value.to_bits()),
            None => (ABSENT, 0),
        };
        self.bytes.clear();
        // A block must leave room for another one in the ring.
        let is_large = u64::from(self.encoder.bytes_open()) + Encoder::row_bytes_max(slots) as u64
            > self.ring.kept() / 2;
        let begins = is_large || self.encoder.wants_new_block(stamp);
        let is_written = if begins {
            if let Some(header) = self.encoder.close() {
                self.ring.close(&header);
            }
            self.encoder.key_row(stamp, slots, cell, &mut self.bytes);
            self.ring.begin(&self.bytes)
        } else {
            self.encoder.delta_row(stamp, 0..slots, cell, &mut self.bytes);
            self.ring.append(&self.bytes)
        };
        if !is_written {
            // The row's number is used up: its readers learn that it is lost.
            let _ = self.encoder.close();
            return false;
        }
        self.view.rows.fetch_add(1, Ordering::Release);
        self.view.newest.store(stamp.boot.0, Ordering::Relaxed);
        true
    }

    /// Wakes its readers, after rows.
    pub fn ring_bells(&self) {
        self.view.ring_outside();
    }

    /// It gets no more rows.
    pub fn end(&self) {
        self.view.ended.store(clock::boot().0.max(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use khz_ring::{Cursor, Event};

    use super::*;

    fn stamp(second: u64) -> Stamp {
        Stamp { boot: Nanos::from_secs(second), real_offset: 1_000 }
    }

    fn rows(lane: &OutsideLane) -> Vec<Vec<Reading>> {
        let ring = &lane.0.ring;
        let mut cursor = Cursor::new(ring.clone(), ring.oldest());
        let mut rows = Vec::new();
        loop {
            match cursor.advance() {
                Event::Row => {
                    let decoder = cursor.decoder();
                    rows.push((0..decoder.slots()).filter_map(|slot| decoder.reading(slot)).collect());
                }
                Event::Block => {}
                Event::UpToDate => return rows,
            }
        }
    }

    #[test]
    fn rows_and_their_names_are_in_the_ring_and_other_names_begin_another_generation() {
        let channel = ChannelName::new("busy").unwrap();
        let node = NodeName::new("n1").unwrap();
        let mut out = OutsideRows::new(&node, &channel, Nanos::SECOND).unwrap();
        out.set_names(vec!["a".into(), "b".into()]).unwrap();
        let lane = out.lane();
        let first = lane.0.described();
        assert_eq!(
            first.1.iter().map(Series::to_string).collect::<Vec<_>>(),
            ["channel.busy[a]", "channel.busy[b]"]
        );
        assert!(out.row(stamp(1), &[1.5, f64::NAN]) && out.row(stamp(2), &[2.5, 3.0]));
        let value = |value: f64| Reading::Present(value.to_bits());
        assert_eq!(
            rows(&lane),
            [vec![value(1.5), Reading::Absent(Absence::NoResult)], vec![value(2.5), value(3.0)]]
        );
        out.set_names(vec!["a".into(), "b".into()]).unwrap();
        assert_eq!(lane.0.described().0, first.0, "the same names");
        out.set_names(vec!["c".into()]).unwrap();
        assert_ne!(lane.0.described().0, first.0);
        assert!(out.row(stamp(3), &[4.0]));
        assert_eq!(rows(&lane).last(), Some(&vec![value(4.0)]));
        assert_eq!(lane.0.rows.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn many_rows_of_many_values_have_room_block_after_block() {
        let (channel, node) = (ChannelName::new("wide").unwrap(), NodeName::new("n1").unwrap());
        let mut out = OutsideRows::new(&node, &channel, Nanos::SECOND).unwrap();
        out.set_names((0..256).map(|n| format!("v{n}")).collect()).unwrap();
        for row in 0..2_000u64 {
            let values: Vec<f64> = (0..256).map(|n| (row * n) as f64 * 1.1).collect();
            assert!(out.row(stamp(row), &values), "row {row}");
        }
        let last = rows(&out.lane()).pop().unwrap();
        assert_eq!(last[255], Reading::Present((1_999.0 * 255.0 * 1.1f64).to_bits()));
    }
}
