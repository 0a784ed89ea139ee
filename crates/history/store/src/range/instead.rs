//! The roll-ups for an hour of a node with damaged rows.

use khz_model::{Labels, Nanos, NodeName, RangePoint, Series};

use crate::layout::Key;
use crate::range::HOUR;
use crate::range::answer::Asked;
use crate::range::points::{add, points_of};
use crate::range::slices::Slice;
use crate::range::strand::{SeriesList, Strand};
use crate::sums::Sums;

/// The finest roll-up that has something of an hour of a node.
pub(crate) struct Instead {
    hour: u64,
    /// How long its buckets are.
    pub width: Nanos,
    strand: Strand,
    pub series: Vec<(Key, Series)>,
}

impl Instead {
    /// The roll-ups of a node in this hour; `None`: there are none.
    pub fn of(asked: &mut Asked, node: &NodeName, hour: u64) -> Option<Self> {
        let files = asked.reader.files.clone();
        let end = hour.saturating_add(HOUR);
        files.resolutions().into_iter().find_map(|width| {
            let of_hour = files.files(width, Nanos(hour), Nanos(end), &mut asked.damage);
            let strand = Strand::of(asked.sections(&of_hour, node), &mut asked.damage);
            let mut begins = strand.stretches.iter().flat_map(|stretch| &stretch.joined.times.at[..]);
            begins.any(|begin| (hour..end).contains(begin)).then(|| {
                let mut series = SeriesList::default();
                asked.select(node, strand.strips(), &mut series);
                Instead { hour, width, strand, series: series.sorted() }
            })
        })
    }

    /// The buckets of a series that have some of this time of the hour, and the labels in them.
    pub fn points(
        &self,
        key: &Key,
        (from, to): (Nanos, Nanos),
        asked: &mut Asked,
    ) -> (Vec<RangePoint>, Vec<Labels>) {
        let from = Nanos(from.0 - from.0 % self.width.0);
        let Ok(mut sums) = Sums::new(key.format.value_type, from, (from, to), self.width) else {
            return Default::default();
        };
        let (slice, mut labels) = (Slice { from: from.0, to: to.0, source: 0 }, Vec::new());
        for stretch in &self.strand.stretches {
            let content = stretch.joined.column(key, &mut asked.damage);
            add(&mut sums, &content, &stretch.joined.times.at, &slice);
            labels.extend(content.labels().iter().cloned());
        }
        (points_of(&sums), labels)
    }

    /// How many values a series has in all of the hour.
    pub fn count(&self, key: &Key, asked: &mut Asked) -> u64 {
        let hour = (Nanos(self.hour), Nanos(self.hour.saturating_add(HOUR)));
        self.points(key, hour, asked).0.iter().map(|point| point.count).sum()
    }
}
