//! Requests: series and samples as the bytes of a `WriteRequest`, built without intermediate copies.

use prost::encoding::{encode_varint, encoded_len_varint};

use crate::RemoteError;
use crate::limits::REQUEST_BYTES;
use crate::wire::{Packer, pack};
use crate::write::Parcel;

/// A request in the making.
#[derive(Debug, Default)]
pub struct Request {
    bytes: Vec<u8>,
    samples: usize,
    /// The series that is being written.
    series: Vec<u8>,
}

/// Keys of fields: the field's number and how its value is written.
const SERIES: u8 = 0x0a;
const LABEL: u8 = 0x0a;
const SAMPLE: u8 = 0x12;
const NAME: u8 = 0x0a;
const VALUE: u8 = 0x12;
const DOUBLE: u8 = 0x09;
const TIME: u8 = 0x10;

impl Request {
    /// Adds a series: its labels, sorted by name, and its samples in the order of time, in ms.
    pub fn add<'a>(&mut self, labels: impl IntoIterator<Item = (&'a str, &'a str)>, samples: &[(i64, f64)]) {
        if samples.is_empty() {
            return;
        }
        let series = &mut self.series;
        series.clear();
        for (name, value) in labels {
            series.push(LABEL);
            encode_varint((text_length(name) + text_length(value)) as u64, series);
            for (key, text) in [(NAME, name), (VALUE, value)] {
                series.push(key);
                encode_varint(text.len() as u64, series);
                series.extend_from_slice(text.as_bytes());
            }
        }
        for &(time, value) in samples {
            let time = time.cast_unsigned();
            // A time has ten bytes at most.
            series.extend([SAMPLE, 10 + encoded_len_varint(time) as u8, DOUBLE]);
            series.extend(value.to_le_bytes());
            series.push(TIME);
            encode_varint(time, series);
        }
        self.bytes.push(SERIES);
        encode_varint(series.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(series);
        self.samples += samples.len();
    }

    /// Samples in it.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// True before the first sample.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// True if it should be sent now.
    pub fn is_full(&self, samples_max: usize) -> bool {
        self.samples >= samples_max || self.bytes.len() >= REQUEST_BYTES
    }

    /// The bytes that are sent.
    pub fn pack(&self) -> Result<Vec<u8>, RemoteError> {
        pack(&self.bytes)
    }

    /// The same into memory that is there already.
    pub fn pack_into(&self, packer: &mut Packer, parcel: &mut Parcel) -> Result<(), RemoteError> {
        parcel.samples = self.samples;
        packer.pack(&self.bytes, &mut parcel.bytes)
    }

    /// Empties it, and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.samples = 0;
    }
}

/// Bytes of a text with its key and length.
fn text_length(text: &str) -> usize {
    1 + encoded_len_varint(text.len() as u64) + text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Label, Sample, TimeSeries, WriteRequest};

    proptest! {
        #[test]
        fn prost_reads_what_was_added(
            all in prop::collection::vec(
                (
                    prop::collection::vec(("[a-zäß]{0,9}", "[a-z]{0,150}"), 0..5),
                    prop::collection::vec((any::<i64>(), any::<u64>().prop_map(f64::from_bits)), 1..5),
                ),
                0..5,
            ),
        ) {
            let mut request = Request::default();
            for (labels, samples) in &all {
                request.add(labels.iter().map(|(name, value)| (&**name, &**value)), samples);
            }
            let read = WriteRequest::unpack(&request.pack().unwrap()).unwrap();
            let expected = all.into_iter().map(|(labels, samples)| TimeSeries {
                labels: labels.into_iter().map(|(name, value)| Label { name, value }).collect(),
                samples: samples.into_iter().map(|(timestamp, value)| Sample::new(value, timestamp)).collect(),
            });
            // NaN is not equal to itself; its bits are.
            let text = |series: &TimeSeries| {
                let bits: Vec<_> = series.samples.iter().map(|it| (it.timestamp, it.value().to_bits())).collect();
                (series.labels.clone(), bits)
            };
            prop_assert_eq!(
                read.timeseries.iter().map(text).collect::<Vec<_>>(),
                expected.map(|series| text(&series)).collect::<Vec<_>>()
            );
        }
    }
}
