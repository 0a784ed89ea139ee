//! Histograms: for each series of a channel, how many samples of a window lie in each bucket. A bucket becomes a series of the
//! result when it is used for the first time, and stays one. Nothing is allocated for a row that uses no new bucket.

use khz_model::{Nanos, Series};

use super::bucket::Bucket;
use super::result::ResultSeries;
use crate::bind::Identity;
use crate::error::{PlanError, most};
use crate::limits::{BUCKETS_MAX, SERIES_MAX, WINDOWS_BYTES};
use crate::number::{ABSENT, Scale, is_absent};
use crate::plan::{Form, Selector};
use crate::window::{self, Samples};

/// A bucket of a series as a series of the result, with its labels.
const BYTES_A_BUCKET: usize = 512;

/// The buckets of one series, with the one for what has none of its own.
const BUCKETS_EACH: usize = BUCKETS_MAX + 1;

/// The histograms of some series.
#[derive(Debug)]
pub(crate) struct Histograms {
    /// In ns, half a period less than requested. Rows come some microseconds early or late, and consecutive windows must not share
    /// the sample between them.
    length: i64,
    /// Sorted by their slots.
    each: Box<[Histogram]>,
    /// The series of the result, in the order in which they were first used: the place of a series in `each`, and of a bucket in
    /// its buckets.
    used: Vec<(u32, u32)>,
    /// Bytes of the windows, and of all buckets that there may be.
    held: usize,
}

/// The samples of one series in the window, and how many of them are in each bucket.
#[derive(Debug)]
struct Histogram {
    slot: u32,
    scale: Scale,
    /// The bits of a sample are the place of its bucket.
    samples: Samples,
    buckets: Vec<(Bucket, u64)>,
}

impl Histograms {
    /// Binds a window of this length to the selected series.
    ///
    /// # Errors
    /// Returns which limit is exceeded.
    pub fn new(
        length: Nanos,
        series: &[Series],
        is_meant: impl Fn(&Series) -> bool,
        identity: Identity<'_>,
        period: Nanos,
    ) -> Result<Self, PlanError> {
        let any = Selector { form: Form::Own, conditions: Vec::new() };
        let is_number = |(_, series): &(u32, &Series)| any.labels(series, identity).is_some();
        let meant = (0..).zip(series).filter(|(_, series)| is_meant(series));
        let meant: Vec<(u32, &Series)> = meant.filter(is_number).collect();
        most("series with a histogram", meant.len(), SERIES_MAX / BUCKETS_EACH)?;
        let rows = window::rows(length, period);
        let a_series = size_of::<Histogram>() + BUCKETS_EACH * size_of::<(Bucket, u64)>();
        let window = rows.saturating_mul(Samples::BYTES_EACH).saturating_add(a_series);
        let windows = meant.len().saturating_mul(window);
        most("bytes of windows", windows, WINDOWS_BYTES)?;
        let histogram = |&(slot, series): &(u32, &Series)| Histogram {
            slot,
            scale: Scale::of(Form::Own, &series.metric),
            samples: Samples::new(rows),
            buckets: Vec::with_capacity(BUCKETS_EACH),
        };
        Ok(Histograms {
            length: i64::try_from(length.0.saturating_sub(period.0 / 2)).unwrap_or(i64::MAX),
            each: meant.iter().map(histogram).collect(),
            used: Vec::new(),
            held: windows + meant.len() * BUCKETS_EACH * BYTES_A_BUCKET,
        })
    }

    /// The bytes that it may come to hold, about.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The series of its result.
    pub fn width(&self) -> usize {
        self.used.len()
    }

    /// The series of its result from this one on.
    pub fn results_from(&self, first: usize) -> impl Iterator<Item = ResultSeries> {
        self.used.iter().skip(first).filter_map(|&(place, bucket)| {
            let histogram = self.each.get(place as usize)?;
            let (bucket, _) = histogram.buckets.get(bucket as usize)?;
            Some(ResultSeries::of_bucket(histogram.slot, *bucket))
        })
    }

    /// Takes the next row, of this time (ns).
    pub fn row(&mut self, time: i64, reading: impl Fn(u32) -> Option<u64>) {
        let after = time.saturating_sub(self.length);
        for (place, histogram) in (0..).zip(self.each.iter_mut()) {
            let known = histogram.buckets.len();
            histogram.row(time, after, reading(histogram.slot));
            self.used.extend((known..histogram.buckets.len()).map(|bucket| (place, bucket as u32)));
        }
    }

    /// How many samples each series of the result has now. A series without samples has no count.
    pub fn counts(&self) -> impl Iterator<Item = f64> {
        self.used.iter().map(|&(place, bucket)| {
            let histogram = &self.each[place as usize];
            match histogram.samples.len() {
                0 => ABSENT,
                _ => histogram.buckets[bucket as usize].1 as f64,
            }
        })
    }

    /// Continues earlier histograms after slots have changed. `slot` gives the present number of an earlier slot. The series of
    /// the result keep their order.
    pub fn take_over(&mut self, mut before: Histograms, slot: impl Fn(u32) -> Option<u32>) {
        let mut now: Vec<Option<u32>> = Vec::with_capacity(before.each.len());
        for old in before.each.iter_mut() {
            let place = slot(old.slot)
                .and_then(|new| self.each.binary_search_by_key(&new, |histogram| histogram.slot).ok());
            if let Some(place) = place {
                let new = &mut self.each[place];
                std::mem::swap(&mut new.samples, &mut old.samples);
                std::mem::swap(&mut new.buckets, &mut old.buckets);
            }
            now.push(place.map(|place| place as u32));
        }
        let used = before.used.iter().filter_map(|&(place, bucket)| Some((now[place as usize]?, bucket)));
        self.used.extend(used);
    }
}

impl Histogram {
    fn row(&mut self, time: i64, after: i64, bits: Option<u64>) {
        while self.samples.oldest().is_some_and(|(oldest, _)| oldest <= after) {
            self.remove();
        }
        let Some(value) = bits.map(|bits| self.scale.number(bits)).filter(|value| !is_absent(*value)) else {
            return;
        };
        // Rows came faster than was said: the oldest go.
        if self.samples.is_full() {
            self.remove();
        }
        let place = self.place(Bucket::of(value));
        self.buckets[place].1 += 1;
        self.samples.add(time, value, place as u64);
    }

    fn remove(&mut self) {
        self.buckets[self.samples.oldest_bits() as usize].1 -= 1;
        self.samples.remove();
    }

    /// The place of a bucket, or of [`Bucket::OTHER`] if all are used.
    fn place(&mut self, bucket: Bucket) -> usize {
        let find = |buckets: &[(Bucket, u64)], wanted| buckets.iter().position(|(known, _)| *known == wanted);
        if let Some(known) = find(&self.buckets, bucket) {
            return known;
        }
        let other = find(&self.buckets, Bucket::OTHER);
        let is_full = self.buckets.len() - usize::from(other.is_some()) == BUCKETS_MAX;
        if let (true, Some(other)) = (is_full, other) {
            return other;
        }
        self.buckets.push((if is_full { Bucket::OTHER } else { bucket }, 0));
        self.buckets.len() - 1
    }
}
