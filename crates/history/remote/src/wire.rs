//! Reads packed messages of strangers: unpacks snappy and counts what a message holds, both within limits and before
//! anything is allocated for it. Only then does prost decode the message.

use prost::Message;
use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use crate::RemoteError;
use crate::limits::{
    MATCHER_BYTES_MAX, MATCHERS_MAX, MESSAGE_LABELS_MAX, PACKED_BYTES_MAX, QUERIES_MAX, SAMPLES_MAX,
    SERIES_MAX, UNPACKED_BYTES_MAX,
};
use crate::message::{ReadRequest, ReadResponse, WriteRequest};

impl WriteRequest {
    /// Unpacks and decodes what a sender has written.
    pub fn unpack(packed: &[u8]) -> Result<Self, RemoteError> {
        let bytes = unpack(packed)?;
        let mut counts = Counts::default();
        counts.series_of(&bytes)?;
        Ok(WriteRequest::decode(&bytes[..])?)
    }

    /// Encodes and packs the message.
    pub fn pack(&self) -> Result<Vec<u8>, RemoteError> {
        pack(&self.encode_to_vec())
    }
}

impl ReadRequest {
    /// Unpacks and decodes what somebody wants to read.
    pub fn unpack(packed: &[u8]) -> Result<Self, RemoteError> {
        let bytes = unpack(packed)?;
        let (mut queries, mut matchers, mut kinds) = (0, 0, 0);
        each_field(&bytes, |field, value| match (field, value) {
            (1, Field::Bytes(query)) => {
                count(&mut queries, QUERIES_MAX, "queries")?;
                each_field(query, |field, value| match (field, value) {
                    (3, Field::Bytes(matcher)) => {
                        count(&mut matchers, MATCHERS_MAX, "conditions")?;
                        each_field(matcher, |_, value| match value {
                            Field::Bytes(text) if text.len() > MATCHER_BYTES_MAX => {
                                Err(too_much("bytes of a condition", MATCHER_BYTES_MAX))
                            }
                            _ => Ok(()),
                        })
                    }
                    _ => Ok(()),
                })
            }
            (2, value) => {
                let more = if let Field::Bytes(packed) = value { packed.len() } else { 1 };
                (0..more).try_for_each(|_| count(&mut kinds, QUERIES_MAX, "kinds of answers"))
            }
            _ => Ok(()),
        })?;
        Ok(ReadRequest::decode(&bytes[..])?)
    }

    /// Encodes and packs the message.
    pub fn pack(&self) -> Result<Vec<u8>, RemoteError> {
        pack(&self.encode_to_vec())
    }
}

impl ReadResponse {
    /// Unpacks and decodes an answer.
    pub fn unpack(packed: &[u8]) -> Result<Self, RemoteError> {
        let bytes = unpack(packed)?;
        let (mut counts, mut results) = (Counts::default(), 0);
        each_field(&bytes, |field, value| match (field, value) {
            (1, Field::Bytes(result)) => {
                count(&mut results, QUERIES_MAX, "results")?;
                counts.series_of(result)
            }
            _ => Ok(()),
        })?;
        Ok(ReadResponse::decode(&bytes[..])?)
    }

    /// Encodes and packs the message.
    pub fn pack(&self) -> Result<Vec<u8>, RemoteError> {
        pack(&self.encode_to_vec())
    }
}

/// Unpacks bytes of a stranger.
pub(crate) fn unpack(packed: &[u8]) -> Result<Vec<u8>, RemoteError> {
    if packed.len() > PACKED_BYTES_MAX {
        return Err(too_much("bytes of a packed message", PACKED_BYTES_MAX));
    }
    // The first bytes claim a length, for which the decoder would allocate.
    let length = decompress_len(packed).map_err(RemoteError::Snappy)?;
    if length > UNPACKED_BYTES_MAX {
        return Err(too_much("bytes of a message", UNPACKED_BYTES_MAX));
    }
    Decoder::new().decompress_vec(packed).map_err(RemoteError::Snappy)
}

/// Packs bytes as messages are packed.
pub fn pack(bytes: &[u8]) -> Result<Vec<u8>, RemoteError> {
    Encoder::new().compress_vec(bytes).map_err(RemoteError::Snappy)
}

/// Packs message after message. It keeps the tables that packing needs.
#[derive(Debug)]
pub struct Packer(Encoder);

impl Default for Packer {
    fn default() -> Self {
        Packer(Encoder::new())
    }
}

impl Packer {
    /// Packs bytes into `out`, whose content is replaced.
    pub fn pack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), RemoteError> {
        out.resize(max_compress_len(bytes.len()), 0);
        let length = self.0.compress(bytes, out).map_err(RemoteError::Snappy)?;
        out.truncate(length);
        Ok(())
    }
}

/// Where the second half of the series of a request begins, and how many samples are before it; `None`: it has one series.
pub(crate) fn halves(message: &[u8]) -> Result<Option<(usize, usize)>, RemoteError> {
    let mut ends: Vec<(usize, usize)> = Vec::new();
    let mut samples = 0;
    each_field(message, |field, value| {
        if let (1, Field::Bytes(series)) = (field, value) {
            each_field(series, |field, _| match field {
                2 => count(&mut samples, SAMPLES_MAX, "samples"),
                _ => Ok(()),
            })?;
            ends.push((series.as_ptr().addr() + series.len() - message.as_ptr().addr(), samples));
        }
        Ok(())
    })?;
    Ok(ends.len().checked_sub(2).map(|_| ends[ends.len() / 2 - 1]))
}

/// The total content of a message.
#[derive(Default)]
struct Counts {
    series: usize,
    labels: usize,
    samples: usize,
}

impl Counts {
    /// Counts the series in field 1 of a message.
    fn series_of(&mut self, message: &[u8]) -> Result<(), RemoteError> {
        each_field(message, |field, value| match (field, value) {
            (1, Field::Bytes(series)) => {
                count(&mut self.series, SERIES_MAX, "series")?;
                each_field(series, |field, _| match field {
                    1 => count(&mut self.labels, MESSAGE_LABELS_MAX, "labels"),
                    2 => count(&mut self.samples, SAMPLES_MAX, "samples"),
                    _ => Ok(()),
                })
            }
            _ => Ok(()),
        })
    }
}

fn count(number: &mut usize, limit: usize, what: &'static str) -> Result<(), RemoteError> {
    *number += 1;
    if *number > limit { Err(too_much(what, limit)) } else { Ok(()) }
}

fn too_much(what: &'static str, limit: usize) -> RemoteError {
    RemoteError::TooMuch { what, limit }
}

/// A field of a message.
enum Field<'a> {
    /// Bytes, a text or another message.
    Bytes(&'a [u8]),
    /// A number.
    Number,
}

/// Calls `each` with every field of a message, without copies.
fn each_field<'a>(
    mut bytes: &'a [u8],
    mut each: impl FnMut(u64, Field<'a>) -> Result<(), RemoteError>,
) -> Result<(), RemoteError> {
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let length = match key & 7 {
            0 => {
                varint(&mut bytes)?;
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)?).map_err(|_| RemoteError::Truncated)?,
            5 => 4,
            kind => return Err(RemoteError::Kind(kind as u8)),
        };
        let (value, rest) = bytes.split_at_checked(length).ok_or(RemoteError::Truncated)?;
        bytes = rest;
        each(key >> 3, if key & 7 == 2 { Field::Bytes(value) } else { Field::Number })?;
    }
    Ok(())
}

/// Takes a number of at most 64 bits, seven a byte.
fn varint(bytes: &mut &[u8]) -> Result<u64, RemoteError> {
    let mut number = 0;
    for (place, &byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            *bytes = &bytes[place + 1..];
            return Ok(number);
        }
    }
    Err(RemoteError::Truncated)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Label, LabelMatcher, Query, QueryResult, Sample, TimeSeries};

    fn series() -> TimeSeries {
        let label = |name: &str, value: &str| Label { name: name.into(), value: value.into() };
        TimeSeries {
            labels: vec![label("__name__", "up"), label("instance", "n1")],
            samples: vec![Sample::new(1.5, 1_000), Sample::new(-0.0, -5), Sample::new(0.0, 0)],
        }
    }

    #[test]
    fn messages_come_back_as_they_were_packed() {
        let written = WriteRequest { timeseries: vec![series(), TimeSeries::default()] };
        assert_eq!(WriteRequest::unpack(&written.pack().unwrap()).unwrap(), written);
        let matcher = LabelMatcher { kind: 2, name: "job".into(), value: "a.*".into() };
        let query = Query {
            start_timestamp_ms: -1,
            end_timestamp_ms: i64::MAX,
            matchers: vec![matcher],
            hints: None,
        };
        let asked = ReadRequest { queries: vec![query], accepted_response_types: vec![0, 1] };
        assert_eq!(ReadRequest::unpack(&asked.pack().unwrap()).unwrap(), asked);
        let answer = ReadResponse { results: vec![QueryResult { timeseries: vec![series()] }] };
        let read = ReadResponse::unpack(&answer.pack().unwrap()).unwrap();
        assert_eq!(read, answer);
        let signs =
            read.results[0].timeseries[0].samples.iter().map(|sample| sample.value().is_sign_negative());
        assert_eq!(signs.collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn a_message_that_claims_to_be_huge_is_refused_before_memory_is_taken_for_it() {
        // A length of 4 GiB, and nothing after it.
        let claims = [0xff, 0xff, 0xff, 0xff, 0x0f];
        let refused = WriteRequest::unpack(&claims).unwrap_err().to_string();
        assert_eq!(refused, format!("more than {UNPACKED_BYTES_MAX} bytes of a message"));
        let refused = WriteRequest::unpack(&vec![0; PACKED_BYTES_MAX + 1]).unwrap_err().to_string();
        assert_eq!(refused, format!("more than {PACKED_BYTES_MAX} bytes of a packed message"));
    }

    #[test]
    fn many_empty_parts_are_refused_although_they_take_few_bytes() {
        let empty_series = pack(&[0x0a, 0].repeat(SERIES_MAX + 1)).unwrap();
        let refused = WriteRequest::unpack(&empty_series).unwrap_err().to_string();
        assert_eq!(refused, format!("more than {SERIES_MAX} series"));
        let samples = [0x12, 0].repeat(SAMPLES_MAX + 1);
        let mut message = vec![0x0a];
        prost::encoding::encode_varint(samples.len() as u64, &mut message);
        message.extend(samples);
        let refused = WriteRequest::unpack(&pack(&message).unwrap()).unwrap_err().to_string();
        assert_eq!(refused, format!("more than {SAMPLES_MAX} samples"));
        let queries = pack(&[0x0a, 0].repeat(QUERIES_MAX + 1)).unwrap();
        let refused = ReadRequest::unpack(&queries).unwrap_err().to_string();
        assert_eq!(refused, format!("more than {QUERIES_MAX} queries"));
    }

    #[test]
    fn a_message_that_was_cut_anywhere_is_refused_or_shorter() {
        let written = WriteRequest { timeseries: vec![series(), series()] };
        let (packed, bytes) = (written.pack().unwrap(), written.encode_to_vec());
        for end in 1..packed.len() {
            assert!(WriteRequest::unpack(&packed[..end]).is_err(), "{end}");
        }
        for end in 0..bytes.len() {
            let read = WriteRequest::unpack(&pack(&bytes[..end]).unwrap());
            assert!(read.is_err() || end == 0 || end == bytes.len() / 2, "{end}");
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (WriteRequest::unpack(&bytes), ReadRequest::unpack(&bytes), ReadResponse::unpack(&bytes));
            let packed = pack(&bytes).unwrap();
            let _ = (WriteRequest::unpack(&packed), ReadRequest::unpack(&packed), ReadResponse::unpack(&packed));
        }

        #[test]
        fn what_prost_decodes_the_counts_have_walked_through(
            bytes in prop::collection::vec(prop_oneof![0u8..20, any::<u8>()], 0..40),
        ) {
            if WriteRequest::decode(&bytes[..]).is_ok() {
                // Groups, which nobody sends, are what only prost reads.
                let walked = Counts::default().series_of(&bytes);
                prop_assert!(matches!(walked, Ok(()) | Err(RemoteError::Kind(3 | 4))), "{walked:?}");
            }
        }
    }
}
