//! The vocabulary of Kilohertz: names, patterns, units, schema, readings, and the one query interface that
//! every door reads through. Pure: no I/O, no clock, no unsafe. Each module defines its word.

#![forbid(unsafe_code)]

pub mod accept_failures;
mod bells;
pub mod budget;
pub mod calendar;
pub mod channel;
pub mod choice;
pub mod decimal;
mod escape;
pub mod exposed;
pub mod fold;
pub mod glob;
pub mod hostlist;
pub mod http_names;
pub mod instance;
mod instance_pattern;
mod interned;
pub mod labels;
pub mod look;
pub mod metric;
pub mod misses;
pub mod moment;
pub mod name;
mod pace;
pub mod pattern;
pub mod printable;
pub mod quantity;
pub mod query;
pub mod range;
pub mod rate_unit;
pub mod reading;
pub mod recent;
pub mod recorded;
pub mod repeats;
pub mod schema;
pub mod stay;
pub mod suggest;
pub mod text_place;
pub mod value_type;

pub use accept_failures::AcceptFailures;
pub use bells::Bells;
pub use budget::{Budget, Share};
pub use channel::{ChannelName, ChannelTerms};
pub use choice::Choice;
pub use decimal::Decimal;
pub use instance::Instance;
pub use labels::{LabelError, Labels};
pub use look::{Columns, Look, Part, Wanted};
pub use metric::{Exposition, Kind, Metric, Origin, Refresh, Unit};
pub use misses::{Known, Miss, Misses};
pub use name::{NameError, NodeName, SeriesName};
pub use pace::{Pace, Rounding};
pub use pattern::Pattern;
pub use quantity::{ByteSize, Nanos, QuantityError, Rate, Stamp};
pub use query::{
    Away, Bell, Delivery, Forgotten, HISTORY_READINGS_MAX, Interest, LaneStatus, NodeStatus, Notice,
    Presence, Query, QueryError, Row, RowNumber, Sample, Snapshot, Subscription, WaitFor,
};
pub use range::{
    RANGE_POINTS_MAX, RANGE_STEP_READINGS, RangeAnswer, RangeBits, RangeColumn, RangeContent, RangePart,
    RangePiece, RangePoint, RangeRequest, RangeRun, RangeShape, RangeTimes, RangeTotal, Ranges, Reach,
};
pub use rate_unit::RateUnit;
pub use reading::{Absence, Fault, Reading};
pub use recent::{Recent, RecentAnswer};
pub use repeats::Repeats;
pub use schema::{Schema, Series};
pub use stay::{GONE_WHILE, Stay};
pub use value_type::{NoValue, Number, Value, ValueFormat, ValueType};
