//! Queries in PromQL, asked of a khz or of any other engine with Prometheus' HTTP interface.

use std::time::Duration;

use serde::Deserialize;

use crate::server::Most;
use crate::{AskError, Server};

/// A query may take two minutes, and may wait for its turn.
const QUERY_WAIT_MAX: Duration = Duration::from_secs(150);
/// A long answer comes within this time.
const RESULT_WAIT_MAX: Duration = Duration::from_secs(600);
/// The longest answer that is read: two million points. In memory it takes up to ten times as much.
const RESULT_BYTES_MAX: u64 = 64 << 20;

/// What a query answers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PromqlAnswer {
    /// The result.
    pub data: PromqlData,
    /// Something is probably wrong.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Something may be meant otherwise.
    #[serde(default)]
    pub infos: Vec<String>,
}

/// A result. A point is a time in seconds since 1970, and a value as a text.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
pub enum PromqlData {
    /// One point of each series.
    Vector(Vec<PromqlSample>),
    /// Points of each series.
    Matrix(Vec<PromqlSeries>),
    /// A number.
    Scalar(PromqlPoint),
    /// A text.
    String(PromqlPoint),
}

impl PromqlData {
    /// True if no series has a sample. A number or a text is never empty.
    pub fn is_empty(&self) -> bool {
        match self {
            PromqlData::Vector(samples) => samples.is_empty(),
            PromqlData::Matrix(series) => series.is_empty(),
            PromqlData::Scalar(_) | PromqlData::String(_) => false,
        }
    }
}

/// A time in seconds since 1970, and a value as a text.
pub type PromqlPoint = (f64, String);
/// Names and values, in the order of their names.
pub type PromqlLabels = std::collections::BTreeMap<String, String>;

/// A point of a series.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PromqlSample {
    /// The series.
    pub metric: PromqlLabels,
    /// The point.
    pub value: PromqlPoint,
}

/// Points of a series.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PromqlSeries {
    /// The series.
    pub metric: PromqlLabels,
    /// The points, in the order of time.
    pub values: Vec<PromqlPoint>,
}

impl Server {
    /// The answer to a query at one moment (seconds since 1970).
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn promql(&self, query: &str, time: &str) -> Result<PromqlAnswer, AskError> {
        self.posted("/api/v1/query", &[("query", query), ("time", time)])
    }

    /// The answer to a query at many moments: from one to another, each so many seconds after the one before.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn promql_range(
        &self,
        query: &str,
        start: &str,
        end: &str,
        step: &str,
    ) -> Result<PromqlAnswer, AskError> {
        self.posted(
            "/api/v1/query_range",
            &[("query", query), ("start", start), ("end", end), ("step", step)],
        )
    }

    fn posted(&self, path: &str, form: &[(&str, &str)]) -> Result<PromqlAnswer, AskError> {
        self.post(path, form, Most { first: QUERY_WAIT_MAX, body: RESULT_WAIT_MAX, bytes: RESULT_BYTES_MAX })
    }
}
