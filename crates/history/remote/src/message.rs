//! The messages of remote write 1.0 and of remote read, as `prometheus/prompb` has them. Fields that this program neither
//! writes nor uses are left out; a reader skips them.

use prost::Message;

/// A label of a series.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Label {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A value at a time.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Sample {
    /// The bits of the value. On the wire they are a double; as a double, -0 would be left out, because it equals 0.
    #[prost(fixed64, tag = "1")]
    bits: u64,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

impl Sample {
    /// A value at a time; a certain NaN ends the series ([`khz_promql::stale`]).
    pub fn new(value: f64, timestamp: i64) -> Self {
        Sample { bits: value.to_bits(), timestamp }
    }

    /// The value.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.bits)
    }
}

/// A series and its samples.
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// Its labels, sorted by name.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// Its samples, in the order of time.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<Sample>,
}

/// What a sender writes.
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    /// The series.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}

/// A read request.
#[derive(Clone, PartialEq, Message)]
pub struct ReadRequest {
    /// The questions; each has its own answer.
    #[prost(message, repeated, tag = "1")]
    pub queries: Vec<Query>,
    /// The kinds of answers that the reader takes, its favourite first; without any, samples.
    #[prost(enumeration = "ResponseType", repeated, tag = "2")]
    pub accepted_response_types: Vec<i32>,
}

/// Kinds of answers to [`ReadRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum ResponseType {
    /// One [`ReadResponse`].
    Samples = 0,
    /// Chunks in Prometheus' own encoding. This program does not write them.
    StreamedXorChunks = 1,
}

/// One question: which series, and when.
#[derive(Clone, PartialEq, Message)]
pub struct Query {
    /// Samples from this time on, in ms.
    #[prost(int64, tag = "1")]
    pub start_timestamp_ms: i64,
    /// And up to this one, included.
    #[prost(int64, tag = "2")]
    pub end_timestamp_ms: i64,
    /// Conditions that all hold.
    #[prost(message, repeated, tag = "3")]
    pub matchers: Vec<LabelMatcher>,
    /// The reader's use of the answer.
    #[prost(message, optional, tag = "4")]
    pub hints: Option<ReadHints>,
}

/// A reader's use of an answer.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ReadHints {
    /// The function of PromQL, or `series` if it wants to know only which series there are.
    #[prost(string, tag = "2")]
    pub func: String,
}

/// A condition on a label.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LabelMatcher {
    /// `=`, `!=`, `=~`, `!~`, numbered in this order.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// The label.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The text to compare with.
    #[prost(string, tag = "3")]
    pub value: String,
}

/// The answer to a [`ReadRequest`].
#[derive(Clone, PartialEq, Message)]
pub struct ReadResponse {
    /// One result for each query, in the same order.
    #[prost(message, repeated, tag = "1")]
    pub results: Vec<QueryResult>,
}

/// The answer to one query.
#[derive(Clone, PartialEq, Message)]
pub struct QueryResult {
    /// The series, in the order of their labels.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
}
