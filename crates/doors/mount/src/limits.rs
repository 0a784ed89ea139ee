//! What the mount holds at most and how long it waits, each with its reason.

use std::time::Duration;

use khz_model::Nanos;

/// The fastest rate for users other than root and the mount's owner: the same as for readers of a hub.
pub const OTHERS_RATE_MAX_HZ: u64 = 100;

/// Nodes of the tree: as many as a hub remembers. Their numbers are a part of inode numbers.
pub const NODES_MAX: usize = 65_536;

/// Names of the tree; a name that many nodes have counts once. Beyond, series are left out and counted.
pub const NAMES_MAX: usize = 1 << 20;

/// Bytes of a name: what Linux allows in a directory.
pub const NAME_BYTES_MAX: usize = 255;

/// Open files and directories of one user. A user who opens more gets ENFILE; other users go on.
pub const HANDLES_PER_USER_MAX: usize = 200_000;

/// Files whose values are pushed into the page cache. Each read of a file beyond comes to the daemon.
pub const PUSHED_MAX: usize = 1 << 18;

/// Pages that are stored ahead of their readers in a second: 30 us each, an eighth of a core. Beyond, a page is only
/// dropped, and the next read fetches it.
pub const STORES_PER_SECOND_MAX: usize = 4_096;

/// New values of a file are stored ahead of its readers for this time after a read came to the daemon. Then a new value
/// only drops the page: a reader who is still there fetches it and renews the lease, and a file that nobody reads costs
/// nothing.
pub const READ_LEASE: Duration = Duration::from_secs(10);

/// Requests that wait for a first value. Beyond, a request gets EAGAIN at once.
pub const WAITING_MAX: usize = 65_536;

/// How often the daemon checks whether a waiting thread has a signal to end (Ctrl-C, SIGKILL).
pub const INTERRUPTED_CHECK: Duration = Duration::from_millis(200);

/// Waiting requests that are checked then, 10 us each; those that wait longest come first. The others wait until their
/// time is up.
pub const INTERRUPTED_CHECKED_MAX: usize = 256;

/// Places with settings. Beyond, writing to a control file of another place gives ENOSPC.
pub const SETTINGS_MAX: usize = 65_536;

/// Bytes of a line that is written to a control file.
pub const CONTROL_BYTES_MAX: usize = 256;

/// Subscriptions to single nodes. When more nodes are read, one subscription to all of them takes their place.
pub const NODE_SUBSCRIPTIONS_MAX: usize = 16;

/// Subscriptions to one metric of all nodes, for `.by`. A table beyond is made of all values of all nodes.
pub const METRIC_SUBSCRIPTIONS_MAX: usize = 8;

/// Channels that the mount subscribes to at a time: what a hub's 64 subscriptions leave beside those for nodes, metrics and
/// rates. Beyond, the channel that nobody has open and that was not used for longest makes room; if all are open, an open
/// gives ENFILE.
pub const CHANNEL_SUBSCRIPTIONS_MAX: usize = 16;

/// Of those, the ones that one user other than root and the mount's owner may have open.
pub const CHANNELS_PER_USER_MAX: usize = 8;

/// Names of channels that the mount has ever seen and may show. A name that comes back counts once; of those that are gone, the
/// oldest makes room.
pub const CHANNEL_NAMES_MAX: usize = 32_767;

/// Bytes of lines that wait for the readers of a channel's `rows`, all together. Beyond, the oldest are dropped for readers who
/// have not read them, and a line tells them how many.
pub const ROWS_BYTES_MAX: usize = 4 << 20;

/// Names below `.by` that were looked up, whether a node has such a metric or not: a sixty-fourth of all names, so that a
/// program that tries names leaves room for those of the nodes. Beyond, looking a name up gives ENOSPC.
pub const BY_NAMES_MAX: usize = NAMES_MAX / 64;

/// Subscriptions at rates above the base lane's. A hub takes 64 subscriptions of all kinds from one reader.
pub const RATE_SUBSCRIPTIONS_MAX: usize = 24;

/// Patterns in one subscription, as the link has it.
pub const PATTERNS_MAX: usize = 64;

/// How often a node reads a kernel file that is open, unless its place has a rate: as the base lane.
pub const TEXT_PERIOD: Nanos = Nanos::SECOND;

/// How old a kernel file's text may be when a reader begins. Programs that read it a few times a second get another one
/// each time; one that reads without pause makes its node read 20 times a second at most.
pub const TEXT_AGE_MAX: Duration = Duration::from_millis(50);

/// How long a reader waits for a fresher text: after this time a node calls a file stuck. Then the reader gets the last
/// text, and until the node has answered every other reader gets it at once.
pub const TEXT_NOW_WAIT: Duration = Duration::from_secs(1);

/// A node that cannot be asked to read a file now (its agent is older, or it is away) is not asked again for this time.
pub const TEXT_NOW_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of a kernel file that may be read out of the page cache: a page, which is replaced as a whole.
pub const CACHED_TEXT_MAX: usize = 4_096;

/// How often a node lists the kernel files that it shows, while somebody uses the list.
pub const LIST_PERIOD: Nanos = Nanos::from_secs(5);

/// Kernel files that every user may follow, however small the budget is: with none there would be no lists.
pub const TEXTS_PER_USER_MIN: usize = 8;

/// How long a text stays as it was when it was opened, for a reader who has not begun: `stat` has told its length, and
/// archivers take a text of another length for a broken one. It ends early when somebody else opens the file.
pub const OPENED_TEXT_MAX: Duration = Duration::from_millis(250);

/// How long a value with another number of digits waits after its file was opened: tar, rsync and cp ask for the length,
/// read, and ask again, all within milliseconds.
pub const LENGTH_HOLD: Duration = Duration::from_millis(200);

/// Values whose length was told in this time, of which the mount knows what they were: a program that copies a tree asks for some
/// thousand in it.
pub const VALUES_TOLD_MAX: usize = 4_096;

/// How long the reason is believed why a kernel file cannot be had. An open after that asks the node again.
pub const PROBLEM_TTL: Duration = Duration::from_secs(1);

/// Bytes of all kernel texts that are kept. Those that nobody has open go first, the oldest ones.
pub const TEXTS_BYTES_MAX: usize = 256 << 20;

/// Bytes of kernel texts that one user's programs have begun to read and may read on: 16 texts of the largest size. Beyond,
/// a read gives ENOMEM.
pub const PINNED_PER_USER_MAX: usize = 64 << 20;

/// Places at which one user may want more than the base rate, and kernel files that one user may follow, unless the mount's
/// options say otherwise.
pub const BUDGET_PER_USER: usize = 1_024;

/// A node, a table or a list that somebody has used is kept up to date for this time.
pub const LEASE: Duration = Duration::from_secs(15);

/// A file that is opened again and again stays in the page cache for this time after it was closed.
pub const FILE_LEASE: Duration = Duration::from_secs(5);

/// A first value must come within this time, unless the mount's options say otherwise.
pub const FIRST_VALUE: Duration = Duration::from_secs(5);

/// A control file that is open for longer than this after a line was written was not written by `echo`: its setting ends
/// with the descriptor.
pub const AT_ONCE: Duration = Duration::from_secs(1);

/// The kernel keeps names for this time before it asks again.
pub const NAME_TTL: Duration = Duration::from_secs(60);

/// The kernel keeps the size and time of a pushed file for this time. A new size reaches it at once.
pub const ATTRIBUTES_TTL: Duration = Duration::from_secs(1);
