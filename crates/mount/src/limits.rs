//! What the mount holds at most and how long it waits, each with its reason.

use std::time::Duration;

use khz_model::Nanos;

/// Users who neither are root nor have mounted the tree may ask for so many values a second, as readers of a hub may.
pub const OTHERS_RATE_MAX_HZ: u64 = 100;

/// Nodes of the tree: as many as a hub remembers. Their numbers stand in inode numbers.
pub const NODES_MAX: usize = 65_536;

/// Names of the tree, those that nodes share counted once. Beyond, series are left out and counted.
pub const NAMES_MAX: usize = 1 << 20;

/// A name: what Linux allows in a directory.
pub const NAME_BYTES_MAX: usize = 255;

/// Open files and directories of one user. Who opens more gets ENFILE; others go on.
pub const HANDLES_PER_USER_MAX: usize = 200_000;

/// Files into which values are pushed. What is opened beyond is read from the daemon each time.
pub const PUSHED_MAX: usize = 1 << 18;

/// Pages that are stored ahead of their readers in a second: 30 us each, an eighth of a core. Beyond, a page is only
/// dropped, and whoever reads first fetches it.
pub const STORES_PER_SECOND_MAX: usize = 4_096;

/// New values of a file are stored ahead of its reader for so long after a read came to us. Then one is only dropped:
/// a reader who is still there comes again, and for files that nobody reads nothing is done any more.
pub const READ_LEASE: Duration = Duration::from_secs(10);

/// Requests that wait for a first value. Beyond, they get EAGAIN at once.
pub const WAITING_MAX: usize = 65_536;

/// It is looked so often whether who waits was told to end (Ctrl-C, SIGKILL).
pub const INTERRUPTED_CHECK: Duration = Duration::from_millis(200);

/// Waiting requests that are looked at then, those that wait longest: 10 us each. Others wait until their time is up.
pub const INTERRUPTED_CHECKED_MAX: usize = 256;

/// Places with settings. Beyond, writing another gives ENOSPC.
pub const SETTINGS_MAX: usize = 65_536;

/// A line that is written to a control file.
pub const CONTROL_BYTES_MAX: usize = 256;

/// Wishes for single nodes. When more nodes are read, one wish for all of them takes their place.
pub const NODE_SUBSCRIPTIONS_MAX: usize = 16;

/// Wishes for all nodes' values of one metric, for `.by`; beyond, one wish for everything takes their place.
pub const METRIC_SUBSCRIPTIONS_MAX: usize = 8;

/// Names below `.by` that were asked for, whether a node has such a metric or not: a sixty-fourth of all names, so that
/// whoever tries names leaves room for those of the nodes. Beyond, looking one up gives ENOSPC.
pub const BY_NAMES_MAX: usize = NAMES_MAX / 64;

/// Wishes for rates above the base lane. A hub takes 64 wishes of all kinds from one reader.
pub const RATE_SUBSCRIPTIONS_MAX: usize = 24;

/// Patterns in one wish, as the link has it.
pub const PATTERNS_MAX: usize = 64;

/// Kernel files are looked at so often while somebody has them open and says nothing else: as the base lane.
pub const TEXT_PERIOD: Nanos = Nanos::SECOND;

/// A reader who begins to read a kernel file gets a text that is no older: programs that read it a few times a second get another
/// one each time, and one that reads without pause asks a node 20 times a second at most.
pub const TEXT_AGE_MAX: Duration = Duration::from_millis(50);

/// He waits no longer for it: after so long a node calls a file stuck. Then he gets the last text, and so does, at once, everybody who
/// reads it until the node has answered.
pub const TEXT_NOW_WAIT: Duration = Duration::from_secs(1);

/// A node that cannot be asked to read a file at once (an older agent, one that is away) is not asked again for so long.
pub const TEXT_NOW_PAUSE: Duration = Duration::from_secs(1);

/// Kernel files of up to so many bytes may be read out of the page cache: a page, which is replaced as a whole.
pub const CACHED_TEXT_MAX: usize = 4_096;

/// Lists of what a node shows are made so often while they are looked at.
pub const LIST_PERIOD: Nanos = Nanos::from_secs(5);

/// Kernel files that every user may follow, however small his budget: with none at all there would be no lists.
pub const TEXTS_PER_USER_MIN: usize = 8;

/// Who opens a text and begins to read it within this time reads what it was when he opened it, unless somebody else has opened it
/// since: `stat` has told him its length, and archivers take a text of another length for a broken one. Later he gets the text of then.
pub const OPENED_TEXT_MAX: Duration = Duration::from_millis(250);

/// In a file that was opened less than this before, a value with another number of digits waits until this time is over: tar, rsync
/// and cp ask for the length, read, and ask again, all within milliseconds.
pub const LENGTH_HOLD: Duration = Duration::from_millis(200);

/// Why a kernel file could not be had is believed for so long; whoever opens it later has it asked for anew.
pub const PROBLEM_TTL: Duration = Duration::from_secs(1);

/// Bytes of all kernel texts that are kept. Those that nobody has open go first, the oldest ones.
pub const TEXTS_BYTES_MAX: usize = 256 << 20;

/// Bytes of kernel texts that one user's programs have begun to read and not read again from the start: as many
/// of the largest as there are versions of them that he is in the middle of. Beyond, a read gives ENOMEM.
pub const PINNED_PER_USER_MAX: usize = 64 << 20;

/// Places at which one user may want more than the base rate, and kernel files that he may follow, unless the mount's options say otherwise.
pub const BUDGET_PER_USER: usize = 1_024;

/// A node or a listing that was looked at is kept up to date for so long.
pub const LEASE: Duration = Duration::from_secs(15);

/// A file that was opened again soon after it was closed is pushed for so long after it is closed.
pub const FILE_LEASE: Duration = Duration::from_secs(5);

/// A first value must come within this time, unless the mount's options say otherwise.
pub const FIRST_VALUE: Duration = Duration::from_secs(5);

/// A control file that is open for longer than this after a line was written to it was not written by `echo`: its
/// setting ends with the descriptor.
pub const AT_ONCE: Duration = Duration::from_secs(1);

/// The kernel keeps names for so long before it asks again.
pub const NAME_TTL: Duration = Duration::from_secs(60);

/// The kernel keeps the size and time of a pushed file for so long; a new size is told to it at once.
pub const ATTRIBUTES_TTL: Duration = Duration::from_secs(1);
