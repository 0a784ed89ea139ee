//! The memory of a lane that readers opened: what it uses or would use, and what fits into its share. `lane_memory.rs`
//! distributes the memory, not this file.

use std::collections::HashSet;
use std::sync::Arc;

use khz_model::{Pattern, ValueType};

use super::{Lane, NOT_IN};
use crate::handled::Handled;
use crate::lane_memory::{METRIC_BYTES, Needs, Parts, SLOT_BYTES, name_bytes};
use crate::rings::{ChannelNeeds, boost_bytes_min};
use crate::source::Source;

/// The memory of a lane that readers opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The most that a ring of readings may keep.
    ring_most: u64,
    /// What its ring may keep now.
    ring: u64,
    /// What it may take for further slots.
    pub room: u64,
}

impl Lane {
    /// Marks the lane as opened by readers: `room` is the memory for its slots.
    pub fn sharing(mut self, ring_most: u64, room: u64) -> Self {
        self.share = Some(Share { ring_most, ring: 0, room });
        self
    }

    /// What it uses, or with `foreseen`, what it would use.
    fn needs_of(&self, foreseen: Option<Parts>) -> Needs {
        let slots = self.width();
        let here = || Parts {
            slots: self.slots.len() + self.handled.as_ref().map_or(0, Handled::slots),
            source_slots: self.by_source.iter().map(Vec::len).sum(),
            schema_bytes: self.named.max(self.ring.schema_bytes()),
            have_labels: self.have_labels || self.schema.has_labels,
        };
        let parts = foreseen.unwrap_or_else(here);
        let has_labels = parts.have_labels;
        let (ring_min, ring_max) = match &self.handled {
            Some(handled) => {
                let rows = ChannelNeeds { slots, has_labels, period: self.asked.max(handled.every()) };
                (rows.bytes_min(), rows.bytes())
            }
            None => {
                let least = boost_bytes_min(slots.max(parts.slots), has_labels);
                (least, self.share.map_or(0, |share| share.ring_most).max(least))
            }
        };
        Needs { beside: parts.bytes(), ring_min, ring_max }
    }

    /// What it holds of the memory of lanes that readers open.
    pub fn needs(&self) -> Needs {
        self.needs_of(None)
    }

    /// What it will use when it knows the slots of these sources.
    pub fn needs_foreseen(&mut self, sources: &[Source]) -> Needs {
        let mut parts = Parts::default();
        let mut metrics = HashSet::new();
        for source in
            sources.iter().zip(&self.members).filter_map(|(source, member)| member.and(Some(source)))
        {
            parts.source_slots += source.slots();
            for series in (0..source.slots())
                .filter(|&slot| self.wants(source, slot))
                .filter_map(|slot| source.series().get(slot))
            {
                parts.slots += 1;
                parts.have_labels |= series.metric.value_type == ValueType::Labels;
                parts.schema_bytes += name_bytes(series, metrics.insert(Arc::as_ptr(&series.metric)));
            }
        }
        if let Some(handled) = &self.handled {
            parts.slots += handled.slots();
            let series = (0..handled.slots()).filter_map(|slot| handled.series(slot));
            parts.have_labels = series.clone().any(|series| series.metric.value_type == ValueType::Labels);
            parts.schema_bytes =
                series.map(|series| name_bytes(series, metrics.insert(Arc::as_ptr(&series.metric)))).sum();
        }
        self.named = metrics.len() as u64 * METRIC_BYTES;
        self.have_labels = parts.have_labels;
        self.needs_of(Some(parts))
    }

    /// What it would take for these series, too.
    pub fn needs_to_widen(&self, patterns: &[Pattern], sources: &[Source]) -> Needs {
        let mut parts = 0;
        for (index, source) in sources.iter().enumerate() {
            let known = self.by_source.get(index).map_or(&[][..], Vec::as_slice);
            let lacks = known.iter().zip(source.series()).filter(|(slot, _)| **slot == NOT_IN);
            let wanted = lacks.filter(|(_, series)| series.is_selected(patterns));
            parts += wanted.map(|(_, series)| SLOT_BYTES + name_bytes(series, false)).sum::<u64>();
        }
        Needs { beside: parts, ..Needs::default() }
    }

    /// Gives it its share: its ring keeps `ring` bytes, and it may take `room` bytes for further slots.
    pub fn set_share(&mut self, ring: u64, room: u64, sources: &[Source]) {
        let Some(share) = &mut self.share else { return };
        let has_more = room > share.room;
        (share.ring, share.room) = (ring, room);
        if has_more && self.without_room > 0 {
            self.take_left_out(sources);
            if self.without_room == 0 {
                self.view.set_lacks(String::new());
            }
        }
        self.keep_rows();
    }

    /// What it may take for further slots.
    pub fn give_room(&mut self, room: u64) {
        if let Some(share) = &mut self.share {
            share.room = room;
        }
    }

    /// The ring of a lane that readers opened keeps as many bytes as its share allows. It may have more slots now, for whose rows it
    /// needs more.
    pub(super) fn keep_rows(&mut self) {
        let Some(share) = self.share else { return };
        let needs = self.needs();
        self.ring.keep(share.ring.min(needs.ring_max).max(needs.ring_min));
    }

    /// A slot finds no room.
    #[cold]
    pub(super) fn leave_out(&mut self) {
        self.without_room += 1;
        if self.without_room == 1 {
            let text = "lacks new series: there is no memory for them (a larger `ring` has more)";
            tracing::warn!("lane {}: {text}", self.view.name);
            self.view.set_lacks(text.to_owned());
        }
    }
}
