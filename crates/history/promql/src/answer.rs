//! What a query answers.

use crate::labels::LabelSet;

/// An answer, and what its reader should know about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The result.
    pub value: Value,
    /// Sentences in the words of Prometheus: something is probably wrong.
    pub warnings: Vec<String>,
    /// Sentences in the words of Prometheus: something may be meant otherwise.
    pub infos: Vec<String>,
}

/// A result. Times are in ms since 1970.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// One number at one time.
    Scalar(i64, f64),
    /// One text at one time.
    Text(i64, String),
    /// One sample of each series. Sorted only if the query sorts.
    Vector(Vec<VectorSample>),
    /// Series over a time, sorted by labels.
    Matrix(Vec<MatrixSeries>),
}

/// A sample of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSample {
    /// The series.
    pub labels: LabelSet,
    /// When.
    pub time: i64,
    /// The value.
    pub value: f64,
}

/// A series over a time.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixSeries {
    /// The series.
    pub labels: LabelSet,
    /// Times and values, in the order of time.
    pub samples: Vec<(i64, f64)>,
}
