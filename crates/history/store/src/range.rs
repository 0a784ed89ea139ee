//! The one range query, answered out of column files, the log, and rows that are not in the log yet. Where they overlap,
//! later ones win, and a row that is in several of them counts once. An answer holds one series of one node at a time, and
//! the rows of that node that are no columns yet.
//!
//! [`RangeReader`] answers; [`ColumnFiles`] says which files there are.

mod ahead;
mod answer;
mod chosen;
mod hours;
mod instead;
mod inventory;
mod live;
mod newest;
mod node;
mod points;
mod rows;
mod slices;
mod strand;
mod unpacked;

use std::sync::{Arc, OnceLock};

pub use inventory::Inventory;
pub use node::{NodeReader, NodeRowsRead};

use khz_model::{
    Budget, Metric, Nanos, NodeName, QueryError, RangeAnswer, RangeRequest, RangeShape, Ranges, Reach,
};

use crate::StoreError;
use crate::file::ColumnFile;
use crate::limits::{RANGE_BYTES, RANGE_READINGS_MAX};
use crate::log::{LogView, LoggedBlock};
use crate::range::answer::Asked;
use crate::range::newest::NewestAnswer;
use crate::range::points::PointsAnswer;
use crate::range::rows::RowsAnswer;
use crate::range::unpacked::Unpacked;
use crate::shelf::StoredHour;

/// How long a file of rows is.
pub(crate) const HOUR: u64 = 3_600_000_000_000;

/// The column files that there are now.
pub trait ColumnFiles: Send + Sync {
    /// The resolutions of roll-ups, finest first.
    fn resolutions(&self) -> Vec<Nanos>;

    /// When the first unit of files of this resolution (0: rows) begins; `None`: there is none.
    fn first(&self, resolution: Nanos) -> Option<Nanos>;

    /// The hours with files of rows that reach into this time, in their order.
    fn hours(&self, from: Nanos, to: Nanos) -> Vec<StoredHour>;

    /// The files of this resolution (0: rows) that may have data from `from` on and before `to`. Later ones win. Files that cannot
    /// be opened are reported.
    fn files(
        &self,
        resolution: Nanos,
        from: Nanos,
        to: Nanos,
        damage: &mut Vec<StoreError>,
    ) -> Vec<Arc<ColumnFile>>;

    /// Another number after each change. A file of rows from the log is there, and the number has changed, before the log
    /// loses these rows.
    fn version(&self) -> u64;

    /// Called before each question: another process may have changed the files. It need not be called again until the answer
    /// ends: a reader beside the writer has the log as it was, which loses no rows, and files that a merge has removed are
    /// noticed when they are opened.
    fn list_again(&self) {}
}

/// No files: everything is in the log.
impl ColumnFiles for () {
    fn resolutions(&self) -> Vec<Nanos> {
        vec![Nanos::from_secs(60), Nanos::from_secs(3_600)]
    }

    fn first(&self, _: Nanos) -> Option<Nanos> {
        None
    }

    fn hours(&self, _: Nanos, _: Nanos) -> Vec<StoredHour> {
        Vec::new()
    }

    fn files(&self, _: Nanos, _: Nanos, _: Nanos, _: &mut Vec<StoreError>) -> Vec<Arc<ColumnFile>> {
        Vec::new()
    }

    fn version(&self) -> u64 {
        0
    }
}

/// Rows that are not in the log yet.
pub trait OpenRows: Send + Sync {
    /// The nodes that have some.
    fn nodes(&self) -> Vec<NodeName>;

    /// Those of a node, of each of its lanes that has some which may be from `from` on and before `to`.
    fn of(&self, node: &NodeName, from: Nanos, to: Nanos) -> Vec<LoggedBlock>;

    /// A time in which all of them are; it may be longer.
    fn span(&self) -> Option<(Nanos, Nanos)>;
}

/// Nothing but files and the log, as in another process than the one that writes.
impl OpenRows for () {
    fn nodes(&self) -> Vec<NodeName> {
        Vec::new()
    }

    fn of(&self, _: &NodeName, _: Nanos, _: Nanos) -> Vec<LoggedBlock> {
        Vec::new()
    }

    fn span(&self) -> Option<(Nanos, Nanos)> {
        None
    }
}

/// The data of all files that a question by names needs.
struct Listed {
    metrics: Vec<Arc<Metric>>,
    owners: Vec<NodeName>,
}

/// Answers range queries, from any thread. Copies share the budget, and what was unpacked last.
#[derive(Clone)]
pub struct RangeReader {
    files: Arc<dyn ColumnFiles>,
    log: Option<LogView>,
    open: Arc<dyn OpenRows>,
    budget: Budget,
    readings_max: u64,
    unpacked: Arc<Unpacked>,
    /// It looks ahead as if each read had waited for the disk.
    is_looking: bool,
    /// The content of all files, found at the first request for it.
    listed: Arc<OnceLock<Listed>>,
}

impl RangeReader {
    /// A reader of these files, of this log, and of rows that are not in either yet.
    pub fn new(files: Arc<dyn ColumnFiles>, log: Option<LogView>, open: Arc<dyn OpenRows>) -> Self {
        let budget = Budget::new(RANGE_BYTES, Arc::default());
        let (readings_max, unpacked, listed) = (RANGE_READINGS_MAX, Arc::default(), Arc::default());
        RangeReader { files, log, open, budget, readings_max, unpacked, is_looking: false, listed }
    }

    fn listed(&self) -> &Listed {
        self.listed.get_or_init(|| {
            let Inventory { metrics, owners, .. } = self.inventory();
            Listed { metrics, owners: owners.into_iter().collect() }
        })
    }

    /// The same, which remembers nothing that was unpacked.
    pub fn without_unpacked(&self) -> Self {
        RangeReader { unpacked: Arc::default(), ..self.clone() }
    }

    /// The same, which asks the disk early for what is needed next, even if the disk is quick. For tests.
    pub fn looking_ahead(self) -> Self {
        RangeReader { is_looking: true, ..self }
    }

    /// The same with other limits: bytes for all queries together, and readings of an answer.
    pub fn with_limits(self, budget: Budget, readings_max: u64) -> Self {
        RangeReader { budget, readings_max, ..self }
    }
}

impl std::fmt::Debug for RangeReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RangeReader").field("budget", &self.budget).finish_non_exhaustive()
    }
}

impl Ranges for RangeReader {
    fn metrics(&self) -> Vec<Arc<Metric>> {
        self.listed().metrics.clone()
    }

    fn owners(&self) -> Vec<NodeName> {
        self.listed().owners.clone()
    }

    fn reach(&self) -> Reach {
        // Without files of rows all rows are in the log.
        let rows = self.files.first(Nanos(0)).unwrap_or_default();
        let rolled = self.files.resolutions();
        let of = |resolution: &Nanos| Some((*resolution, self.files.first(*resolution)?));
        let buckets = rolled.iter().filter_map(of).filter(|(_, first)| *first < rows).collect();
        Reach { rows, buckets, rolled }
    }

    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, QueryError> {
        if request.from >= request.to {
            return Err(QueryError::RangeBackwards);
        }
        let shape = request.shape;
        let mut asked = Asked::new(self.clone(), request)?;
        if matches!(shape, RangeShape::Steps(_) | RangeShape::Columns(_) | RangeShape::Buckets(_)) {
            // Nobody holds such an answer, and its reader stops when it likes.
            asked.reader.readings_max = u64::MAX;
        }
        Ok(match shape {
            RangeShape::Rows => Box::new(RowsAnswer::new(asked, usize::MAX)),
            RangeShape::Steps(readings) => Box::new(RowsAnswer::new(asked, readings)),
            RangeShape::Columns(readings) => Box::new(RowsAnswer::new(asked, readings).with_columns()),
            RangeShape::Points(points) => Box::new(PointsAnswer::new(asked, points)),
            RangeShape::Buckets(length) => Box::new(PointsAnswer::of_length(asked, length)),
            RangeShape::Newest => Box::new(NewestAnswer::new(asked)),
        })
    }
}
