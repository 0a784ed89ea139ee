//! The results of rules: each group of rules is an owner of series with one lane, whose rows are its evaluations. The lanes go into
//! the log, and without a store stay in memory, as base lanes of nodes do; but no group is a node, so no list of nodes has one. It
//! evaluates no rule, and reads no clock: the caller says when an evaluation was.

mod group;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use khz_model::{Nanos, NodeName};
use khz_promql::LabelSet;
use khz_store::log::{LoggedBlock, Take};

use crate::cluster::Cluster;
use crate::lane::{Block, Lane};
use crate::limits::{
    GROUP_NAME_BYTES_MAX, GROUP_SERIES_MAX, GROUP_SILENT_KEPT, GROUPS_MAX, OWNERS_FORMER_MAX,
    RECORDED_SERIES_MAX,
};
use group::Group;

/// The name of the lanes of groups.
const LANE: &str = "base";

/// Where the evaluation of rules puts its results. Copies write to the same hub; several threads may, each another group at a time.
#[derive(Clone, Debug)]
pub struct RecordedSeries {
    cluster: Arc<Cluster>,
}

/// What became of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Samples that were left out.
    pub refused: usize,
    /// Why the first of them was.
    pub problem: Option<String>,
}

/// Why an evaluation was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Its group has no name, or one that is too long.
    #[error("the name of a group of rules has 1 to {GROUP_NAME_BYTES_MAX} bytes, and this one {0}")]
    GroupName(usize),
    /// It is not later than the one before.
    #[error(
        "the group {group}: its evaluation at {time} ms is not recorded: the one before was at {last} ms, and times must grow. The next one that is later is recorded"
    )]
    NotLater {
        /// The group.
        group: String,
        /// The time (ms since 1970).
        time: i64,
        /// The time of the evaluation before.
        last: i64,
    },
    /// It is before 1970 or after 2554.
    #[error(
        "the group {group} is not recorded: its times lie before 1970 or after 2554, by its query_offset or by the clock of this machine"
    )]
    Time {
        /// The group.
        group: String,
        /// The time.
        time: i64,
    },
    /// There is no room for another group.
    #[error("the group {0} is not recorded: {GROUPS_MAX} groups of rules are there; merge some")]
    Groups(String),
    /// There is no room for its series, or a fault of khz.
    #[error("the group {group} is not recorded: {problem}")]
    Refused {
        /// The group.
        group: String,
        /// Why.
        problem: &'static str,
    },
}

impl RecordedSeries {
    /// The results of this hub's rules. A group's lane goes into the log that the cluster has at the group's first evaluation, so
    /// evaluate no group before [`Cluster::log_to`].
    pub fn new(cluster: Arc<Cluster>) -> Self {
        RecordedSeries { cluster }
    }

    /// Records one evaluation of a group: exactly these samples, at this time (ms since 1970), which must be later than the previous
    /// evaluation. A series that only the previous evaluation had ends at this time, and so does a series whose sample is
    /// [`khz_promql::stale`]. Some samples are left out: a second sample of the same series, a sample without a name, with a label
    /// that no series may have, or beyond a limit. If the evaluations of a group stop, its series end like series that are no longer
    /// scraped: after the look-back of the queries. To end it at once, record an evaluation without samples.
    ///
    /// # Errors
    /// Nothing was recorded; the next evaluation may be.
    pub fn append(
        &self,
        group: &str,
        time: i64,
        samples: &[(LabelSet, f64)],
    ) -> Result<Appended, RecordError> {
        if group.is_empty() || group.len() > GROUP_NAME_BYTES_MAX {
            return Err(RecordError::GroupName(group.len()));
        }
        let at = u64::try_from(time).ok().and_then(|ms| ms.checked_mul(1_000_000));
        let Some(at) = at else { return Err(RecordError::Time { group: group.to_owned(), time }) };
        let place = self.cluster.recorded.group(&self.cluster, group, time)?;
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = place.last().filter(|last| *last >= time) {
            return Err(RecordError::NotLater { group: group.to_owned(), time, last });
        }
        let appended = place.append(&self.cluster, time, Nanos(at), samples);
        appended.map_err(|problem| RecordError::Refused { group: group.to_owned(), problem })
    }
}

/// The groups whose results are here.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    groups: RwLock<HashMap<NodeName, Arc<Mutex<Group>>>>,
    /// Owners that were dropped: the store may have their recorded series.
    former: Mutex<BTreeSet<NodeName>>,
    /// Series of all groups.
    series: AtomicUsize,
    /// Lanes made so far.
    made: AtomicUsize,
}

impl Recorded {
    /// The group with this name, made if it is not there.
    fn group(&self, cluster: &Cluster, name: &str, time: i64) -> Result<Arc<Mutex<Group>>, RecordError> {
        let owner = NodeName::of_group(name);
        let known = self.groups.read().unwrap_or_else(PoisonError::into_inner).get(&owner).cloned();
        if let Some(group) = known {
            return Ok(group);
        }
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        if groups.len() >= GROUPS_MAX && !groups.contains_key(&owner) {
            let last = |group: &Arc<Mutex<Group>>| locked(group, |group| group.last().unwrap_or(i64::MIN));
            let oldest = groups.iter().map(|(owner, group)| (last(group), owner.clone())).min();
            let is_over = |last: i64| time.saturating_sub(last) > GROUP_SILENT_KEPT;
            let Some((_, oldest)) = oldest.filter(|(last, _)| is_over(*last)) else {
                return Err(RecordError::Groups(name.to_owned()));
            };
            if let Some(group) = groups.remove(&oldest) {
                self.release(locked(&group, |group| group.series()));
            }
            let mut former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
            if former.len() < OWNERS_FORMER_MAX {
                former.insert(oldest);
            }
        }
        let made = self.made.fetch_add(1, Ordering::Relaxed) as u64;
        let make = || {
            let mut lane = Lane::new(LANE, cluster.epochs(OF_RULES | made), Nanos::SECOND);
            if let Some(intake) = cluster.intake() {
                lane.log_to(intake, &owner);
            }
            Arc::new(Mutex::new(Group::new(lane)))
        };
        Ok(groups.entry(owner.clone()).or_insert_with(make).clone())
    }

    /// Room for one more series of all groups.
    fn reserve(&self) -> bool {
        let reserved = self.series.fetch_add(1, Ordering::Relaxed) < RECORDED_SERIES_MAX;
        if !reserved {
            self.release(1);
        }
        reserved
    }

    /// These series are gone.
    fn release(&self, series: usize) {
        self.series.fetch_sub(series, Ordering::Relaxed);
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.groups.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Memory of their blocks of the past.
    pub fn history_bytes(&self) -> u64 {
        let mut bytes = 0;
        self.each_lane(|lane| bytes += lane.recent_bytes);
        bytes
    }

    /// The owners that there are and were since the start, in order.
    pub fn owners(&self) -> Vec<NodeName> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        let former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = former.iter().filter(|owner| !groups.contains_key(*owner));
        let mut owners: Vec<NodeName> = groups.keys().chain(gone).cloned().collect();
        owners.sort();
        owners
    }

    /// Calls this with the lane of each group, which is locked meanwhile.
    pub fn each_lane(&self, mut act: impl FnMut(&mut Lane)) {
        let groups: Vec<Arc<Mutex<Group>>> =
            self.groups.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        groups.iter().for_each(|group| locked(group, |group| act(group.lane())));
    }

    /// The same of one owner.
    pub fn lane<T>(&self, owner: &NodeName, act: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        let group = self.groups.read().unwrap_or_else(PoisonError::into_inner).get(owner).cloned()?;
        Some(locked(&group, |group| act(group.lane())))
    }

    /// The blocks of this owner.
    pub fn blocks(&self, owner: &NodeName) -> Option<Vec<Block>> {
        self.lane(owner, |lane| lane.blocks_since(Nanos(0)))
    }

    /// The part of an owner's rows in this time that the log does not have yet.
    pub fn open(&self, owner: &NodeName, from: Nanos, to: Nanos) -> Vec<LoggedBlock> {
        let is_within =
            |lane: &Lane| lane.open_span().is_some_and(|(first, last)| first < to && last >= from);
        let open = self.lane(owner, |lane| if is_within(lane) { lane.open_for_log() } else { None });
        open.flatten().into_iter().collect()
    }

    /// Gives the log what has come.
    pub fn grown(&self, take: &mut Take<'_>) {
        self.each_lane(|lane| lane.give_log(take));
    }
}

/// Set in the number from which a lane of a group has its epoch: connections have others.
const OF_RULES: u64 = 1 << 61;

fn locked<T>(group: &Mutex<Group>, act: impl FnOnce(&mut Group) -> T) -> T {
    act(&mut group.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests;
