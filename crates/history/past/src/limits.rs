//! When a series ends, in numbers, and what one selection or listing may read.

use khz_model::Nanos;

/// A series ends when its node has sent no row for this many of its periods: if two rows are late or lost, the node may
/// still be there.
pub(crate) const PERIODS_MISSED: i64 = 3;
/// But not before this time (ms): twice as long as a hub waits until it says that a silent node is down. The wall clocks of the
/// rows need not be even.
pub(crate) const SILENCE_MIN: i64 = 5_000;
/// The same for a node whose period nobody knows: three minutes, since a minute is the longest period that is usual (ms).
pub(crate) const SILENCE_UNKNOWN: i64 = 180_000;
/// A node whose first row in a selection comes later than this many of its periods after the beginning may have been away.
pub(crate) const PERIODS_LATE: i64 = 2;
/// The most nodes for which one selection asks singly for the last earlier row, since each question lists the files of the store.
pub(crate) const EARLIER_ASKED_MAX: usize = 32;
/// How far before a series' first row in a selection its earlier rows are searched for (ms), the shortest time first: as a rule a node
/// sends each second.
pub(crate) const HISTORY_SPANS: [i64; 4] = [20_000, 200_000, 2_000_000, 14_400_000];
/// The most series for which one selection asks singly for earlier rows.
pub(crate) const HISTORY_ASKED_MAX: usize = 32;
/// With more series, it asks for all that it may match, this far back (ms): a row each minute shows the pace.
pub(crate) const HISTORY_SPANS_OF_ALL: [i64; 2] = [20_000, 400_000];
/// Earlier rows that show the pace even if some are lost.
pub(crate) const HISTORY_ENOUGH: usize = 6;
/// Earlier rows of a series that are looked at.
pub(crate) const HISTORY_KEPT: usize = 8;
/// The shortest time between two samples of `up` (ms), for rows and for silence alike, since an average over time must not depend
/// on a node's rate. Of faster rows, the first one of each second counts, wherever a query begins.
pub(crate) const UP_STEP_MIN: i64 = 1_000;
/// The same where a part of the time is only in roll-ups, which show once a minute that a node was there.
pub(crate) const UP_STEP_OF_BUCKETS: i64 = 60_000;
/// A row that comes earlier than that still counts, if it is early by a tenth of the step at most.
pub(crate) const UP_EARLY: i64 = 10;

/// How often it has a 0 (ms) while nobody knows how often the node sends: the usual period.
pub(crate) const UP_STEP_UNKNOWN: i64 = 1_000;
/// Samples of one silence that are made at once; a long one has millions.
pub(crate) const SILENCE_SAMPLES_AT_ONCE: usize = 4_096;
/// The most metrics that one selection names singly. With more, it asks for everything and drops the rest, since each pattern is
/// compared with each series of each node.
pub(crate) const METRICS_NAMED_MAX: usize = 48;
/// The most readings that one listing reads to find changed label sets: this takes some tenths of a second. A hundred nodes have as
/// many in a day at 1 Hz.
pub(crate) const LISTED_READINGS_MAX: usize = 1 << 23;
/// The first part of the time in which it searches, from its end back.
pub(crate) const LISTED_FIRST: Nanos = Nanos::from_secs(3_600);
/// The most series without a current value for which a listing asks for earlier values: those of one metric on 4,096 nodes, some
/// tenths of a second.
pub(crate) const LISTED_UNCLEAR_MAX: usize = 1 << 12;
/// Names and instances of these series that are asked for: eight questions.
pub(crate) const LISTED_UNCLEAR_NAMES_MAX: usize = 8 * METRICS_NAMED_MAX;
/// Bytes of one hostlist in a pattern, with room for the metric below the limit of a pattern.
pub(crate) const HOSTLIST_BYTES: usize = 3_072;

/// The most buckets of a roll-up in one question: a day of minutes, two months of hours.
pub(crate) const BUCKETS_AT_ONCE: u64 = 1_440;

/// Steps (ms) at which sums of whole hours are used where there are rows: with shorter ones too many hours are divided between windows.
pub(crate) const STEP_OF_SUMS_MIN: i64 = 4 * 3_600_000;

/// How long after a bucket (ms) its series ends, if no row comes: a row each minute may follow.
pub(crate) const BUCKET_END_LATE: i64 = 60_000;

/// Samples of recorded series that wait until all groups of an hour are read: 32 MiB. Beyond it they are passed on, and of a series that
/// several groups have recorded in that hour only what follows is.
pub(crate) const SAMPLES_HELD_MAX: usize = 1 << 21;

/// Events of one answer: more than a screen has room for. Beyond it the oldest of the kinds with many are left out, and counted.
pub(crate) const EVENTS_MAX: usize = 512;
/// The most series of one kind with listed events: a node has some alerts and lanes. Further series are counted.
pub(crate) const EVENT_SERIES_MAX: usize = 1_024;
/// The most characters of an event's text, since an alert's labels may be long.
pub(crate) const EVENT_TEXT_CHARS_MAX: usize = 256;
/// How long before the wanted time samples are read (ms), to see what began before it: four evaluations of a rule.
pub(crate) const EVENTS_EARLIER: i64 = 60_000;
/// The most runs of jobs that one selector may match, since each is read separately.
pub(crate) const JOBS_JOINED_MAX: usize = 256;
/// How often the series about a job has a sample (ms): a look-back of five minutes finds it, and so does a range of a minute.
pub(crate) const JOB_INFO_EVERY: i64 = 60_000;
