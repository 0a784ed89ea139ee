//! The entrance for numbers that jobs publish: the socket, what was refused there and why, and the names that jobs
//! have given. It reads no line itself.

use std::os::unix::net::UnixDatagram;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

use khz_model::{Kind, Metric, Origin, Series, Unit};

use crate::given::Given;
use crate::job_names::{JobNameError, JobNames};
use crate::own::Tally;
use crate::publication::{Description, NumberError, PREFIX, PublicationError};

/// The entrance for jobs: the socket, its counts, and the metrics that jobs have named.
#[derive(Debug)]
pub struct JobDoor {
    socket: UnixDatagram,
    pub(crate) counts: JobCounts,
    /// They grow until slots are given back. The gather thread locks them only for a new series, and when it gives slots back.
    names: RwLock<JobNames>,
}

macro_rules! counts {
    ($($field:ident: $name:literal, $exposition:literal, $help:literal;)*) => {
        /// The counts about publishing; only the gather thread writes them.
        #[derive(Debug, Default)]
        pub(crate) struct JobCounts { $(pub $field: Arc<AtomicU64>,)* }

        impl JobCounts {
            fn tallies(&self) -> Vec<Tally> {
                vec![$(Tally {
                    metric: Arc::new(count($name, $exposition, $help)),
                    instance: None,
                    count: self.$field.clone(),
                },)*]
            }
        }
    };
}

counts! {
    datagrams: "khz.publish.datagrams", "khz_publish_datagrams_total", "Datagrams of jobs that were taken.";
    values: "khz.publish.values", "khz_publish_values_total", "Values of jobs that were taken.";
    bad: "khz.publish.bad_lines", "khz_publish_bad_lines_total", "Lines of jobs that could not be read.";
    dropped: "khz.publish.dropped", "khz_publish_dropped_total", "Lines of jobs that were too many for a datagram or a second, and datagrams that were too long.";
    refused: "khz.publish.refused", "khz_publish_refused_total", "Values of jobs whose names were too many.";
    mismatched: "khz.publish.mismatched", "khz_publish_mismatched_total", "Lines of jobs that declare a name differently from its first line: another kind, type or unit, or instances where it had none.";
    collided: "khz.publish.collided", "khz_publish_collided_total", "Lines of jobs whose name would be the same at Prometheus as another.";
    unfit: "khz.publish.unfit", "khz_publish_unfit_total", "Values of jobs that the type of their name cannot hold, such as a counter below zero.";
    too_old: "khz.publish.too_old", "khz_publish_too_old_total", "Values of jobs that had been measured more than 10 minutes before they came.";
    too_new: "khz.publish.too_new", "khz_publish_too_new_total", "Values of jobs whose time was more than 5 s ahead of the clock.";
    overtaken: "khz.publish.overtaken", "khz_publish_overtaken_total", "Values of jobs that had been measured before the value that was there.";
}

/// Why a line is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It cannot be read.
    Bad,
    /// Its name is one too many.
    TooMany,
    /// Its name was declared differently before.
    Mismatched,
    /// At Prometheus its name would be another's.
    Collided,
    /// The type of its name cannot hold its value.
    Unfit,
    /// It was measured too long ago.
    TooOld,
    /// It claims to have been measured in the future.
    TooNew,
    /// It was measured before the value that we have.
    Overtaken,
}

impl From<PublicationError> for Refusal {
    fn from(error: PublicationError) -> Self {
        match error {
            PublicationError::Number(error) => error.into(),
            PublicationError::TooOld { .. } => Refusal::TooOld,
            PublicationError::TooNew { .. } => Refusal::TooNew,
            _ => Refusal::Bad,
        }
    }
}

impl From<JobNameError> for Refusal {
    fn from(error: JobNameError) -> Self {
        match error {
            JobNameError::TooMany => Refusal::TooMany,
            JobNameError::Mismatched { .. } => Refusal::Mismatched,
            JobNameError::Collided { .. } => Refusal::Collided,
        }
    }
}

impl From<NumberError> for Refusal {
    fn from(error: NumberError) -> Self {
        if matches!(error, NumberError::NotANumber(_)) { Refusal::Bad } else { Refusal::Unfit }
    }
}

impl JobCounts {
    /// Where a refusal is counted.
    pub fn of(&self, refusal: Refusal) -> &AtomicU64 {
        match refusal {
            Refusal::Bad => &self.bad,
            Refusal::TooMany => &self.refused,
            Refusal::Mismatched => &self.mismatched,
            Refusal::Collided => &self.collided,
            Refusal::Unfit => &self.unfit,
            Refusal::TooOld => &self.too_old,
            Refusal::TooNew => &self.too_new,
            Refusal::Overtaken => &self.overtaken,
        }
    }
}

fn count(name: &'static str, exposed: &'static str, help: &'static str) -> Metric {
    let plain = Metric::plain(name, exposed, Kind::Counter, Unit::Count);
    Metric { help: help.into(), origin: Origin { file: "khz itself".into(), ..plain.origin }, ..plain }
}

/// The metrics of all counts about publishing.
pub(crate) fn metrics() -> impl Iterator<Item = Arc<Metric>> {
    JobCounts::default().tallies().into_iter().map(|tally| tally.metric)
}

impl JobDoor {
    /// The entrance for a bound socket, which becomes non-blocking.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(socket: UnixDatagram) -> std::io::Result<Arc<Self>> {
        socket.set_nonblocking(true)?;
        Ok(Arc::new(JobDoor { socket, counts: JobCounts::default(), names: RwLock::default() }))
    }

    /// The socket, which does not block.
    pub(crate) fn socket(&self) -> &UnixDatagram {
        &self.socket
    }

    /// Its counts, to be shown among the agent's own numbers.
    pub(crate) fn tallies(&self) -> Vec<Tally> {
        self.counts.tallies()
    }

    /// The metrics that jobs have published until now.
    pub(crate) fn metrics(&self) -> Vec<Arc<Metric>> {
        self.names.read().unwrap_or_else(|poisoned| poisoned.into_inner()).metrics().to_vec()
    }

    /// Forgets the names that none of these series has.
    pub(crate) fn keep_names(&self, series: &[Series]) {
        self.names.write().unwrap_or_else(|poisoned| poisoned.into_inner()).keep(series);
    }

    /// The names that jobs have given and may give.
    pub(crate) fn given(&self) -> Given {
        Given { prefix: PREFIX, known: self.metrics() }
    }

    /// The metric of this name: the known one, or a new one.
    ///
    /// # Errors
    /// As [`JobNames::metric`].
    pub(crate) fn metric(&self, said: &Description) -> Result<Arc<Metric>, JobNameError> {
        self.names.write().unwrap_or_else(|poisoned| poisoned.into_inner()).metric(said)
    }
}
